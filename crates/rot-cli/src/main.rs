//! The `rot` command.

use std::process::ExitCode;

/// The system allocator returns pages between solves, so that the next solve faults them in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(rot_cli::run(std::env::args_os()))
}
