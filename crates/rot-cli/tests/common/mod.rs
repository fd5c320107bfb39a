//! Runs the real binary in a scratch folder.

use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use assert_cmd::Command;
use tempfile::TempDir;

/// A temporary folder in which `rot` runs.
pub struct Scratch(TempDir);

#[allow(dead_code, reason = "not every test binary uses every helper")]
impl Scratch {
    /// Creates the folder with two small clouds, `a.csv` and `b.csv`.
    pub fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        scratch.write("a.csv", "0,0\n1,0\n0,1\n");
        scratch.write("b.csv", "0,2\n1,2\n0,3\n1,3\n");
        scratch
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs a command line split at spaces.
    pub fn run(&self, line: &str) -> Output {
        Command::cargo_bin("rot")
            .unwrap()
            .current_dir(self.0.path())
            .args(line.split_whitespace())
            .output()
            .unwrap()
    }

    /// Starts a command in the background; its standard output can be read or dropped.
    pub fn spawn(&self, line: &str) -> Child {
        std::process::Command::new(env!("CARGO_BIN_EXE_rot"))
            .current_dir(self.0.path())
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Standard output of a command that must succeed.
    pub fn out(&self, line: &str) -> String {
        let output = self.run(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rot {line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The JSON object of a command that must succeed.
    pub fn json(&self, line: &str) -> serde_json::Value {
        let out = self.out(&format!("{line} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("rot {line} --json: {error}: {out}"))
    }

    /// The message of a command that must be rejected: one line, exit code 2, nothing on standard output.
    pub fn refusal(&self, line: &str) -> String {
        let output = self.run(line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "rot {line}: {error}");
        assert!(output.stdout.is_empty(), "rot {line} wrote to standard output");
        let complaints: Vec<_> = error.lines().filter(|line| !line.starts_with("rot: note:")).collect();
        assert_eq!(complaints.len(), 1, "rot {line}: {error}");
        assert!(!error.contains("panicked"), "rot {line}: {error}");
        complaints[0].to_owned()
    }
}

/// A model or checkpoint as format version 1 wrote it: without a checksum.
#[allow(dead_code, reason = "not every test binary reads old files")]
pub fn first_version(bytes: &[u8]) -> Vec<u8> {
    let end = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header = std::str::from_utf8(&bytes[8..end]).unwrap();
    let start = header.find("\\\"checksum").unwrap();
    let rest = header[start..].split_once(',').unwrap().1;
    let old = format!("{}{}", &header[..start], rest.replacen("\\\"version\\\":2", "\\\"version\\\":1", 1));
    // A header may end in spaces.
    let padded = format!("{old:width$}", width = header.len());
    [&bytes[..8], padded.as_bytes(), &bytes[end..]].concat()
}
