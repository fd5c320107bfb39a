//! Progress of a training run on standard error, and its epochs as JSON.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use robust_ot_learn::{Epoch, FitEvent, Tried};
use serde_json::json;

/// The least time between two progress lines without a terminal to draw a bar on; the first and the last epoch are always told.
const BETWEEN_LINES: Duration = Duration::from_secs(2);
/// An epoch that takes longer than this tells of its batches.
const LONG_EPOCH: Duration = Duration::from_secs(10);

/// Where progress goes.
pub enum TrainingProgress {
    /// Nowhere.
    Silent,
    /// To standard error: a bar on a terminal, else lines.
    Shown { bar: ProgressBar, last_line: Option<Instant> },
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
        Self::Shown { bar, last_line: None }
    }

    /// Reports a finished batch.
    pub fn batch(&mut self, done: usize, all: usize) {
        let Self::Shown { bar, last_line } = self else { return };
        if !bar.is_hidden() {
            if all > 1 {
                bar.set_message(format!("batch {done}/{all}"));
            }
        } else if last_line.get_or_insert_with(Instant::now).elapsed() > LONG_EPOCH {
            *last_line = Some(Instant::now());
            say!("epoch {}: batch {done} of {all}", bar.position() + 1);
        }
    }

    /// Reports a finished epoch.
    pub fn epoch(&mut self, epoch: &Epoch, epochs: usize) {
        match self {
            Self::Silent | Self::Json { open: false } => {}
            // The reader may close the pipe; training continues.
            Self::Json { open } => *open = writeln!(io::stdout().lock(), "{}", json!(epoch)).is_ok(),
            Self::Shown { bar, last_line } => show(bar, last_line, epoch, epochs),
        }
    }

    /// Reports a candidate or an iteration of a fit over all rows at once.
    pub fn event(&mut self, event: &FitEvent) {
        match (self, event) {
            (Self::Json { open: open @ true }, FitEvent::Iteration(epoch)) => {
                *open = writeln!(io::stdout().lock(), "{}", json!(epoch)).is_ok();
            }
            (Self::Shown { bar, last_line }, FitEvent::Tried(tried)) => {
                let Tried { loss, prior, l2, auc, map, precision_at_1, .. } = tried;
                let scores = format!("AUC {auc:.4}, mAP {map:.4}, P@1 {precision_at_1:.4}");
                let what = format!("{loss}, prior {}, L2 {l2:.3e}: {scores}", prior.geometry);
                bar.inc(1);
                bar.set_prefix(what.clone());
                tell(bar, last_line, bar.position() == 1, || format!("candidate {}: {what}", bar.position()));
            }
            (Self::Shown { bar, last_line }, FitEvent::Iteration(epoch)) => {
                let what = format!("iteration {}, loss {:.6}", epoch.epoch, epoch.loss);
                bar.set_prefix(what.clone());
                tell(bar, last_line, epoch.epoch == 1, || what);
            }
            _ => {}
        }
    }

    /// Clears the bar.
    pub fn end(&self) {
        if let Self::Shown { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

/// Says a line if there is no terminal to draw a bar on, and the last line was said a while ago or `always` holds.
fn tell(bar: &ProgressBar, last_line: &mut Option<Instant>, always: bool, what: impl FnOnce() -> String) {
    if bar.is_hidden() && (always || last_line.is_none_or(|last| last.elapsed() >= BETWEEN_LINES)) {
        *last_line = Some(Instant::now());
        say!("{}", what());
    }
}

fn show(bar: &ProgressBar, last_line: &mut Option<Instant>, epoch: &Epoch, epochs: usize) {
    let auc = epoch.validation_auc.map_or(String::new(), |auc| format!(", validation AUC {auc:.4}"));
    let chosen_by =
        epoch.validation_score.map_or(String::new(), |score| format!(", chosen by {:.4}", score.abs()));
    let validation = format!("{auc}{chosen_by}");
    let what = format!("loss {:.6}{validation}, {:.3} s per epoch", epoch.loss, epoch.seconds);
    bar.set_length(epochs as u64);
    bar.set_position(epoch.epoch as u64);
    bar.set_prefix(what.clone());
    let ends = epoch.epoch == 1 || epoch.epoch == epochs;
    tell(bar, last_line, ends, || format!("epoch {} of {epochs}: {what}", epoch.epoch));
}
