//! The folder of a run, which `rot report` reads.

use std::fs;
use std::path::Path;

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

/// Writes the contents of the report and the command line of the run.
pub fn write_run(folder: &Path, mut run: Value, command: &str) -> Result<(), Failure> {
    run["command"] = command.into();
    write_atomic(&folder.join(RUN), |file| writeln!(file, "{run}")).map_err(write_failure)
}
