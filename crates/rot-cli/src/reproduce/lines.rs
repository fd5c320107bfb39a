//! Results as JSON lines: each is written when it is there, and none is computed twice.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::Failure;

/// A file of results, by what was asked.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    found: BTreeMap<String, Value>,
}

impl Lines {
    /// Opens or begins a file. A last line that was cut short by a crash is dropped.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |error: std::io::Error| Failure::Other(format!("{}: {error}", path.display()));
        let text = if path.exists() { fs::read_to_string(path).map_err(fail)? } else { String::new() };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut found = BTreeMap::new();
        for (at, line) in text[..whole].lines().enumerate() {
            let value: Value = serde_json::from_str(line).map_err(|error| {
                Failure::Input(format!("{}:{}: a line must be JSON, but {error}", path.display(), at + 1))
            })?;
            if let Some(key) = value["key"].as_str() {
                found.insert(key.to_owned(), value.clone());
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(fail)?;
        file.set_len(whole as u64).map_err(fail)?;
        Ok(Self { path: path.to_owned(), file, found })
    }

    /// What came of this, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.found.get(key)
    }

    /// Keeps a result.
    pub fn put(&mut self, key: &str, mut value: Value) -> Result<(), Failure> {
        value["key"] = key.into();
        let fail = |error: std::io::Error| Failure::Other(format!("{}: {error}", self.path.display()));
        writeln!(self.file, "{value}").map_err(fail)?;
        self.file.sync_data().map_err(fail)?;
        self.found.insert(key.to_owned(), value);
        Ok(())
    }
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
        fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"key\": \"tw").unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert_eq!(lines.get("one").unwrap()["x"], 1);
        lines.put("two", json!({ "x": 2 })).unwrap();
        let again = Lines::open(&path).unwrap();
        assert_eq!((again.get("two").unwrap()["x"].as_i64(), again.found.len()), (Some(2), 2));
    }
}
