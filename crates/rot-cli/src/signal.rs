//! Ctrl-C asks the solvers to stop; another one, a second later, ends the program.

use std::time::{Duration, Instant};

use robust_ot::Interrupt;

/// Signals that arrive together are one: a terminal and a wrapper may both pass on the same Ctrl-C.
const TOGETHER: Duration = Duration::from_secs(1);

/// A flag that Ctrl-C raises.
pub fn interrupt() -> Interrupt {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    let mut first = None;
    // Without a handler Ctrl-C ends the program as usual, which is no worse.
    let _ = ctrlc::set_handler(move || {
        raised.raise();
        if first.get_or_insert_with(Instant::now).elapsed() > TOGETHER {
            std::process::exit(130);
        }
    });
    interrupt
}
