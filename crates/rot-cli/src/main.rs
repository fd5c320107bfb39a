//! `rot`.

use std::process::ExitCode;

/// The system's hands pages back between solves and faults them in again for the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(rot_cli::run(std::env::args_os()))
}
