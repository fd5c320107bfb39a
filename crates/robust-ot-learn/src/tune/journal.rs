//! The record of a tuning run, one JSON object per line: a killed run goes on from it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use super::candidate::Steps;
use super::trial::Trial;

/// The name of the file that records a tuning run in its folder.
///
/// ```
/// assert_eq!(robust_ot_learn::JOURNAL, "tune.jsonl");
/// ```
pub const JOURNAL: &str = "tune.jsonl";

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Record {
    /// What is tuned.
    Start {
        /// A hash of the data, the settings, the criterion and the seed.
        run: String,
    },
    /// The part of the rows that is held out, once or, without one, in turn.
    Validation { part: Option<f64> },
    /// The fit over all rows at once ended, with a model unless its time was up.
    Linear { trial: Option<Trial>, elapsed: f64 },
    /// Some candidates compete.
    Bracket { candidates: Vec<Steps>, elapsed: f64 },
    /// A candidate of the last bracket was trained in a rung and scored; without a trial, it failed.
    Scored { rung: usize, place: usize, trial: Option<Trial>, elapsed: f64 },
}

impl Record {
    fn elapsed(&self) -> f64 {
        match self {
            Self::Start { .. } | Self::Validation { .. } => 0.0,
            Self::Linear { elapsed, .. } | Self::Bracket { elapsed, .. } | Self::Scored { elapsed, .. } => {
                *elapsed
            }
        }
    }
}

/// The journal of a run, on disk if it has a folder.
#[derive(Debug)]
pub(super) struct Journal {
    file: Option<(File, PathBuf)>,
    /// What an earlier session did, in order.
    pub(super) past: Vec<Record>,
}

impl Journal {
    /// Begins a journal in a folder, or goes on with the one that is there.
    pub(super) fn open(folder: Option<&Path>, resume: bool, run: &str) -> Result<Self> {
        let Some(folder) = folder else { return Ok(Self { file: None, past: Vec::new() }) };
        let path = folder.join(JOURNAL);
        let io = |source| Error::Io { path: path.clone(), source };
        let past = if resume && path.exists() { read(&path, run)? } else { Vec::new() };
        // A line that was torn by a kill is gone.
        let kept: String = past.iter().map(line).collect();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).map_err(io)?;
        file.write_all(kept.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        let mut journal = Self { file: Some((file, path)), past };
        if journal.past.is_empty() {
            journal.write(&Record::Start { run: run.to_owned() })?;
        }
        Ok(journal)
    }

    /// Adds a record; it is on disk when this returns.
    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        let written = file.write_all(line(record).as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|source| Error::Io { path: path.clone(), source })
    }

    /// Seconds that earlier sessions spent.
    pub(super) fn elapsed(&self) -> f64 {
        self.past.last().map_or(0.0, Record::elapsed)
    }
}

fn line(record: &Record) -> String {
    let mut line = serde_json::to_string(record).expect("numbers, texts and lists");
    line.push('\n');
    line
}

fn read(path: &Path, run: &str) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let refuse = |line: usize, message: String| {
        Err(Error::Format { place: format!("{}, line {}", path.display(), line + 1), message })
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut past = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str::<Record>(line) {
            Ok(record) => past.push(record),
            Err(_) if at + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(error) => return refuse(at, format!("must be a record of tuning, but is not: {error}")),
        }
    }
    match past.first() {
        None => Ok(past),
        Some(Record::Start { run: found }) if found == run => Ok(past),
        Some(_) => refuse(
            0,
            "must be of this run, but is of one with other data, settings, criterion or seed".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_dropped_and_another_run_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = Some(folder.path());
        let done = Record::Linear { trial: None, elapsed: 2.5 };
        let mut journal = Journal::open(place, false, "a").unwrap();
        journal.write(&done).unwrap();
        drop(journal);
        let path = folder.path().join(JOURNAL);
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 1..line(&done).len() {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let journal = Journal::open(place, true, "a").unwrap();
            // Without its last byte, a line is whole but for its end.
            let kept = usize::from(cut == 1) + 1;
            assert_eq!(journal.past.len(), kept, "{cut} bytes are missing");
        }
        std::fs::write(&path, &whole).unwrap();
        assert!(Journal::open(place, true, "b").unwrap_err().to_string().contains("other data"));
        let journal = Journal::open(place, true, "a").unwrap();
        assert_eq!((journal.past.len(), journal.elapsed()), (2, 2.5));
        // A damaged line in between is not passed over.
        std::fs::write(&path, whole.replacen("run", "rum", 1)).unwrap();
        assert!(Journal::open(place, true, "a").unwrap_err().to_string().contains("line 1"));
    }
}
