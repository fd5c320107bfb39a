//! Progress of tuning on standard error, and scored candidates as JSON.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use robust_ot_learn::{Criterion, TuneEvent};
use serde_json::json;

/// The least time between two lines about epochs without a terminal to draw a bar on.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Where progress goes.
pub struct TuneProgress {
    bar: ProgressBar,
    budget: Duration,
    select: Criterion,
    start: Instant,
    last_line: Instant,
    scored: usize,
    best: Option<f64>,
    /// JSON on standard output, until the reader closes it.
    json: bool,
}

impl TuneProgress {
    pub fn new(json: bool, budget: Duration, select: Criterion) -> Self {
        let shown = io::stderr().is_terminal() && !json;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(budget.as_secs().max(1)), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {prefix} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        let now = Instant::now();
        Self { bar, budget, select, start: now, last_line: now, scored: 0, best: None, json }
    }

    /// Reports what happened.
    pub fn event(&mut self, event: &TuneEvent) {
        match event {
            TuneEvent::Scored(trial) => {
                self.scored += 1;
                let value = self.select.of(&trial.scores);
                self.best = Some(self.best.map_or(value, |best| best.max(value)));
                if self.json {
                    // The reader may close the pipe; tuning continues.
                    self.json = writeln!(io::stdout().lock(), "{}", json!(trial)).is_ok();
                }
                let what = format!("{:.4} by {}, {}", value.abs(), self.select, trial.candidate);
                self.tell(true, what);
            }
            TuneEvent::Epoch { candidate, epoch } => {
                self.tell(false, format!("epoch {} of {candidate}", epoch.epoch));
            }
            TuneEvent::Tried(tried) => {
                let what =
                    format!("linear, {}, prior {}, L2 {:.2e}", tried.loss, tried.prior.geometry, tried.l2);
                self.tell(false, what);
            }
            TuneEvent::Refit { candidate, epochs } => {
                self.tell(true, format!("{epochs} epochs over all rows: {candidate}"));
            }
            TuneEvent::Refitted(epoch) => self.tell(false, format!("final fit, epoch {}", epoch.epoch)),
            _ => {}
        }
    }

    /// Clears the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn tell(&mut self, always: bool, what: String) {
        let spent = self.start.elapsed();
        let left = self.budget.saturating_sub(spent).as_secs();
        let best = self.best.map_or(String::new(), |best| format!(", best {:.4}", best.abs()));
        let left = format!("{}:{:02} left, {} scored{best}", left / 60, left % 60, self.scored);
        if !self.bar.is_hidden() {
            self.bar.set_position(spent.as_secs());
            self.bar.set_prefix(left);
            self.bar.set_message(what);
        } else if !self.json && (always || self.last_line.elapsed() >= BETWEEN_LINES) {
            self.last_line = Instant::now();
            say!("{left}: {what}");
        }
    }
}
