//! `rot`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(rot_cli::run(std::env::args_os()))
}
