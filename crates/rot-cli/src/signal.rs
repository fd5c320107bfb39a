//! Ctrl-C asks the solvers to stop; a second one ends the program.

use robust_ot::Interrupt;

/// A flag that Ctrl-C raises.
pub fn interrupt() -> Interrupt {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    // Without a handler Ctrl-C ends the program as usual, which is no worse.
    let _ = ctrlc::set_handler(move || {
        if raised.is_raised() {
            std::process::exit(130);
        }
        raised.raise();
    });
    interrupt
}
