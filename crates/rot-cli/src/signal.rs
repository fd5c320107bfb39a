//! Ctrl-C asks the solvers to stop; another one after more than a second ends the program.

use std::time::{Duration, Instant};

use robust_ot::solve::Interrupt;

/// Signals within this time count as one: a terminal and a wrapper may both forward the same Ctrl-C.
const TOGETHER: Duration = Duration::from_secs(1);

/// A flag that Ctrl-C raises.
pub fn interrupt() -> Interrupt {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    let mut first = None;
    // If the handler cannot be set, Ctrl-C ends the program as usual.
    let _ = ctrlc::set_handler(move || {
        raised.raise();
        if first.get_or_insert_with(Instant::now).elapsed() > TOGETHER {
            std::process::exit(130);
        }
    });
    interrupt
}
