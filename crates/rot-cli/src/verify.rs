//! `rot verify`: checks that models, checkpoints and run folders are whole.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use robust_ot_learn::{Integrity, verify};
use serde_json::{Value, json};

use crate::checkpoints::Checkpoints;
use crate::failure::Failure;
use crate::run_folder::{MODEL, RUN, is_sealed_run};

/// Check models, checkpoints and run folders against their checksums
///
/// A file that cannot be read, is damaged, or has no checksum fails. The exit code is 0 if no file fails, and 1 otherwise.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rot verify model.safetensors\n  rot verify runs/* checkpoints/tags --json"
)]
pub struct Verify {
    /// Model files, checkpoint files, and folders of rot train --run or --checkpoint and rot distance --run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

/// A file with what it is, or with what is wrong with it.
struct Checked {
    path: PathBuf,
    found: Result<&'static str, String>,
}

impl Verify {
    /// Checks all files and prints a line for each.
    pub fn run(self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let (mut count, mut failed) = (0, 0);
        for checked in self.files.iter().flat_map(|path| check(path)) {
            count += 1;
            failed += usize::from(checked.found.is_err());
            if self.json {
                writeln!(out, "{}", checked.json())?;
            } else {
                writeln!(out, "{checked}")?;
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Other(format!("{failed} of {count} files failed"))),
        }
    }
}

impl Checked {
    fn json(&self) -> Value {
        let (kind, problem) = (self.found.as_ref().ok(), self.found.as_ref().err());
        json!({ "file": self.path.display().to_string(), "ok": kind.is_some(), "kind": kind, "problem": problem })
    }
}

impl Display for Checked {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.found {
            Ok(kind) => write!(out, "ok      {}: {kind}", self.path.display()),
            Err(problem) => write!(out, "failed  {problem}"),
        }
    }
}

/// Checks a file, or the known files of a folder.
fn check(path: &Path) -> Vec<Checked> {
    if !path.is_dir() {
        return vec![check_file(path)];
    }
    let known = [path.join(RUN), path.join(MODEL), Checkpoints::file(path)];
    let known: Vec<Checked> =
        known.iter().filter(|file| file.symlink_metadata().is_ok()).map(|file| check_file(file)).collect();
    if known.is_empty() {
        let problem = format!("{}: must hold a run or a checkpoint, but holds neither", path.display());
        return vec![Checked { path: path.to_owned(), found: Err(problem) }];
    }
    known
}

fn check_file(path: &Path) -> Checked {
    let found =
        if path.file_name().is_some_and(|name| name == RUN) { check_run(path) } else { check_tensors(path) };
    Checked { path: path.to_owned(), found }
}

fn check_tensors(path: &Path) -> Result<&'static str, String> {
    let (kind, integrity) = verify(path).map_err(|error| error.to_string())?;
    match integrity {
        Integrity::Checked => Ok(kind.name()),
        Integrity::NoChecksum => {
            Err(format!("{}: the {} has no checksum (format version 1)", path.display(), kind.name()))
        }
    }
}

fn check_run(path: &Path) -> Result<&'static str, String> {
    let place = path.display();
    let text = fs::read(path).map_err(|error| format!("{place}: {error}"))?;
    match is_sealed_run(&text) {
        Some(true) => Ok("run"),
        Some(false) => Err(format!("{place}: is damaged: its checksum is not that of its contents")),
        None => Err(format!("{place}: must end with a checksum, but has none")),
    }
}
