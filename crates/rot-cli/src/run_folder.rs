//! The folder of a run, which `rot report` reads.

use std::fs;
use std::path::Path;

use robust_ot_learn::checksum;
use robust_ot_learn::data::write_atomic;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{check_writable, make_folder, write_failure};

/// The file with the contents of the report.
pub const RUN: &str = "run.json";
/// The model, if one was trained.
pub const MODEL: &str = "model.safetensors";
/// The report page.
pub const PAGE: &str = "report.html";

/// Creates the folder and checks that its files can be written. What an earlier run left stays until there is something new.
pub fn begin_run(folder: &Path) -> Result<(), Failure> {
    make_folder("--run", folder)?;
    check_writable("--run", &folder.join(MODEL), &["safetensors"])?;
    check_writable("--run", &folder.join(RUN), &["json"])
}

/// Removes the files of an earlier run, once there are others to write.
pub fn clear_run(folder: &Path) -> Result<(), Failure> {
    for name in [RUN, MODEL, PAGE] {
        let path = folder.join(name);
        if path.is_file() {
            fs::remove_file(&path)
                .map_err(|error| Failure::Input(format!("--run: {}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// What precedes the checksum of everything before it.
const SEAL: &str = ",\"checksum\":\"";

/// Writes the contents of the report and the command line of the run, sealed with a checksum.
pub fn write_run(folder: &Path, mut run: Value, command: &str) -> Result<(), Failure> {
    run["command"] = command.into();
    let text = run.to_string();
    let contents = text.strip_suffix('}').unwrap_or(&text);
    let checksum = checksum(contents.as_bytes());
    write_atomic(&folder.join(RUN), |file| writeln!(file, "{contents}{SEAL}{checksum}\"}}"))
        .map_err(write_failure)
}

/// Whether the contents of a report have the checksum at their end, if there is one.
pub fn is_sealed_run(text: &[u8]) -> Option<bool> {
    let at = text.windows(SEAL.len()).rposition(|window| window == SEAL.as_bytes())?;
    let (contents, seal) = text.split_at(at);
    Some(seal == format!("{SEAL}{}\"}}\n", checksum(contents)).as_bytes())
}
