//! Results as JSON lines. Each is written as soon as it is computed, and none is computed twice.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::Failure;

/// Results by key, which contains the options of the run.
#[derive(Debug, Default)]
pub struct Results(BTreeMap<String, Value>);

impl Results {
    /// Reads a file if it exists. An incomplete last line is ignored.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let mut found = Self::default();
        for (at, line) in whole_lines(path)?.lines().enumerate() {
            let value: Value = serde_json::from_str(line).map_err(|error| {
                Failure::Input(format!("{}:{}: a line must be JSON, but {error}", path.display(), at + 1))
            })?;
            if let Some(key) = value["key"].as_str() {
                found.0.insert(key.to_owned(), value.clone());
            }
        }
        Ok(found)
    }

    /// The result with this key, if any.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// All results.
    pub fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.values()
    }
}

/// A file to which results are appended.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    pub results: Results,
}

impl Lines {
    /// Opens or creates a file. A last line that a crash cut short is dropped.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let results = Results::read(path)?;
        let whole = whole_lines(path)?.len();
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(about(path))?;
        file.set_len(whole as u64).map_err(about(path))?;
        Ok(Self { path: path.to_owned(), file, results })
    }

    /// Appends a result.
    pub fn put(&mut self, key: &str, mut value: Value) -> Result<(), Failure> {
        value["key"] = key.into();
        writeln!(self.file, "{value}").map_err(about(&self.path))?;
        self.file.sync_data().map_err(about(&self.path))?;
        self.results.0.insert(key.to_owned(), value);
        Ok(())
    }
}

fn about(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| Failure::Other(format!("{}: {error}", path.display()))
}

/// The complete lines of a file.
fn whole_lines(path: &Path) -> Result<String, Failure> {
    let mut bytes = if path.exists() { fs::read(path).map_err(about(path))? } else { Vec::new() };
    // A crash may cut the last line within a UTF-8 character.
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    String::from_utf8(bytes).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_stay_and_half_a_line_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        Lines::open(&path).unwrap().put("one", json!({ "x": 1 })).unwrap();
        let cut = [fs::read(&path).unwrap().as_slice(), b"{\"key\": \"W2\xc2"].concat();
        fs::write(&path, cut).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert_eq!(lines.results.get("one").unwrap()["x"], 1);
        lines.put("two", json!({ "x": 2 })).unwrap();
        let again = Results::read(&path).unwrap();
        assert_eq!((again.get("two").unwrap()["x"].as_i64(), again.all().count()), (Some(2), 2));
        assert_eq!(Results::read(&dir.path().join("none.jsonl")).unwrap().all().count(), 0);
    }
}
