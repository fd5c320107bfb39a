//! Progress of a training run on standard error, and its epochs as JSON.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use robust_ot_learn::{Epoch, FitEvent, Tried};
use serde_json::json;

/// The approximate number of progress lines without a terminal to draw a bar on.
const LINES: usize = 10;

/// The number of candidates per progress line.
const CANDIDATES_PER_LINE: u64 = 10;

/// Where progress goes.
pub enum TrainingProgress {
    /// Nowhere.
    Silent,
    /// To standard error: a bar on a terminal, else a few lines.
    Shown(ProgressBar),
    /// To standard output, one JSON object per epoch, until the reader closes it.
    Json { open: bool },
}

impl TrainingProgress {
    /// JSON on standard output, or progress on standard error.
    pub fn new(json: bool) -> Self {
        if json {
            return Self::Json { open: true };
        }
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} epoch {pos}/{len}, {prefix} {msg} [{eta} left]")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self::Shown(bar)
    }

    /// Reports a finished batch.
    pub fn batch(&self, done: usize, all: usize) {
        if let Self::Shown(bar) = self
            && all > 1
            && !bar.is_hidden()
        {
            bar.set_message(format!("batch {done}/{all}"));
        }
    }

    /// Reports a finished epoch.
    pub fn epoch(&mut self, epoch: &Epoch, epochs: usize) {
        match self {
            Self::Silent | Self::Json { open: false } => {}
            // The reader may close the pipe; training continues.
            Self::Json { open } => *open = writeln!(io::stdout().lock(), "{}", json!(epoch)).is_ok(),
            Self::Shown(bar) => show(bar, epoch, epochs),
        }
    }

    /// Reports a candidate or an iteration of a fit over all rows at once.
    pub fn event(&mut self, event: &FitEvent) {
        match (self, event) {
            (Self::Json { open: open @ true }, FitEvent::Iteration(epoch)) => {
                *open = writeln!(io::stdout().lock(), "{}", json!(epoch)).is_ok();
            }
            (Self::Shown(bar), FitEvent::Tried(tried)) => {
                let Tried { loss, prior, l2, auc, map, precision_at_1, .. } = tried;
                let scores = format!("AUC {auc:.4}, mAP {map:.4}, P@1 {precision_at_1:.4}");
                let what = format!("{loss}, prior {}, L2 {l2:.3e}: {scores}", prior.geometry);
                bar.inc(1);
                bar.set_prefix(what.clone());
                if bar.is_hidden() && bar.position() % CANDIDATES_PER_LINE == 1 {
                    say!("candidate {}: {what}", bar.position());
                }
            }
            (Self::Shown(bar), FitEvent::Iteration(epoch)) => {
                bar.set_prefix(format!("iteration {}, loss {:.6}", epoch.epoch, epoch.loss));
            }
            _ => {}
        }
    }

    /// Clears the bar.
    pub fn end(&self) {
        if let Self::Shown(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn show(bar: &ProgressBar, epoch: &Epoch, epochs: usize) {
    let validation = epoch.validation_auc.map_or(String::new(), |auc| format!(", validation AUC {auc:.4}"));
    let what = format!("loss {:.6}{validation}, {:.3} s per epoch", epoch.loss, epoch.seconds);
    bar.set_length(epochs as u64);
    bar.set_position(epoch.epoch as u64);
    bar.set_prefix(what.clone());
    let every = epochs.div_ceil(LINES);
    if bar.is_hidden() && (epoch.epoch.is_multiple_of(every) || epoch.epoch == 1) {
        say!("epoch {} of {epochs}: {what}", epoch.epoch);
    }
}
