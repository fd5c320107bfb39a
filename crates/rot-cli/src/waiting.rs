//! A sign of life on a terminal while one long computation runs.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows what is being computed and for how long, until it is cleared; nothing without a terminal.
pub fn waiting_for(what: String) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed} (Ctrl-C returns the bounds so far)");
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
