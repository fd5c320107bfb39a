//! `rot train`: read, train, score, save.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use robust_ot::Interrupt;
use robust_ot_learn::{Epoch, Model, Scores, Trainer};
use serde_json::{Map, Value, json};

use crate::device::{CPU, DeviceChoice};
use crate::failure::Failure;
use crate::fit::{FitOptions, Fitted, Watch, zero_rows_note};
use crate::loss_options::describe_loss;
use crate::model_run::write_model_run;
use crate::options::set_threads;
use crate::output::{check_distinct, check_writable, folder_failure, make_folder, write_failure};
use crate::run_folder::{MODEL, begin_run};
use crate::score_table::{excluded, score_table};
use crate::signal::interrupt;
use crate::training_data::{DataOptions, say_unseen};

/// The checkpoint within its folder.
const CHECKPOINT: &str = "checkpoint.safetensors";
/// Lines of progress where there is no terminal to draw a bar on.
const LINES: usize = 10;

/// Train a linear model for one label a row or many
///
/// It is softmax(X W + b), or a sigmoid with --loss bce. Robust transport takes the vectors of the label names as geometry, so that mistakes
/// become near misses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    rot train --mnist DIR --per-class 100 --label-vectors words.vec --out digits.safetensors\n  \
    rot train --train-x x.npy --train-y tags.txt --label-names tags.names --label-vectors words.vec --validation 0.1\n  \
    rot train --xmc train.txt test.txt --loss ce --json")]
pub struct Train {
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    fit: FitOptions,
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Training")]
    threads: Option<usize>,
    /// Where the model goes
    #[arg(long, value_name = "MODEL", help_heading = "Output")]
    out: Option<PathBuf>,
    /// A folder for the model and what `rot report` tells of it: learning curves, confusions, test rows to look at
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    run: Option<PathBuf>,
    /// A folder for a checkpoint after every epoch
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint in --checkpoint, if there is one
    #[arg(long, requires = "checkpoint", help_heading = "Output")]
    resume: bool,
    /// One JSON object an epoch, and one with everything at the end
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What came of a run.
pub struct Outcome {
    pub model: Model,
    pub history: Vec<Epoch>,
}

impl Train {
    /// Trains, scores, saves, prints.
    pub fn run(self) -> Result<(), Failure> {
        self.threads.map_or(Ok(()), set_threads)?;
        let bar = progress_bar(self.json);
        let outcome = self.outcome(&interrupt(), &mut Telling { bar: bar.clone(), json: self.json });
        bar.finish_and_clear();
        self.report(&outcome?)
    }

    /// Trains, scores and saves.
    pub fn outcome(&self, interrupt: &Interrupt, watch: &mut (dyn Watch + Send)) -> Result<Outcome, Failure> {
        self.fit.check()?;
        self.check_outputs()?;
        let mut samples = self.data.read(self.fit.seed(), self.fit.follows_the_paper())?;
        let preparation = self.data.preparation();
        let test = samples.test.take();
        say_unseen(&samples.train, &samples.label_names);
        let mut watch = Checkpointing { train: self, watch, path: None };
        let Fitted { mut model, history, notes } =
            self.fit.fit(samples, preparation, interrupt, &mut watch)?;
        notes.iter().for_each(|note| say!("rot: note: {note}"));
        let predicted = test.map(|mut test| {
            let zero_rows = test.preprocess(&model.preprocessing)?;
            if let Some(note) = zero_rows_note(zero_rows, test.rows(), "test rows") {
                say!("rot: note: {note}");
            }
            let probabilities = model.probabilities_of_preprocessed(test.features())?;
            let scores = Scores::of(probabilities.view(), test.targets(), model.label_vectors.as_ref())?;
            Ok((probabilities, test, scores))
        });
        let (predicted, failed) = match predicted.transpose() {
            Ok(predicted) => (predicted, None),
            Err(error) => (None, Some(Failure::about("the test rows", &error))),
        };
        model.about.scores = predicted.as_ref().map(|(_, _, scores)| scores.clone());
        // A model is worth keeping even if its test rows cannot be scored.
        if let Some(path) = &self.out {
            model.save(path).map_err(write_failure)?;
        }
        if let Some(folder) = &self.run {
            model.save(&folder.join(MODEL)).map_err(write_failure)?;
            let test = predicted.as_ref().map(|(probabilities, test, _)| (probabilities, test.targets()));
            write_model_run(folder, &model, &history, test)?;
        }
        failed.map_or(Ok(Outcome { model, history }), Err)
    }

    /// Trains on this device, whatever the options say.
    pub fn set_device(&mut self, device: DeviceChoice) {
        self.fit.set_device(device);
    }

    fn check_outputs(&self) -> Result<(), Failure> {
        let out = self.out.as_deref();
        let checkpoint = self.checkpoint.as_ref().map(|folder| folder.join(CHECKPOINT));
        let kept = self.run.as_ref().map(|folder| folder.join(MODEL));
        let outputs = [("--checkpoint", checkpoint.as_deref()), ("--out", out), ("--run", kept.as_deref())];
        check_distinct(&self.data.inputs(), &outputs)?;
        out.map_or(Ok(()), |path| check_writable("--out", path, &["safetensors"]))?;
        self.run.as_deref().map_or(Ok(()), begin_run)
    }

    /// Where checkpoints go; a run that is resumed goes on from there.
    fn open_checkpoint(&self, trainer: &mut Trainer) -> Result<Option<PathBuf>, Failure> {
        let Some(folder) = &self.checkpoint else { return Ok(None) };
        make_folder("--checkpoint", folder)?;
        let path = folder.join(CHECKPOINT);
        let place = path.display();
        match (self.resume, path.exists()) {
            (true, true) => {
                trainer.restore(&path)?;
                say!("rot: note: {place}: going on after epoch {}", trainer.history().len());
                return Ok(Some(path));
            }
            (true, false) => {
                say!("rot: note: {place}: there is no checkpoint yet; this run begins at the start");
            }
            (false, true) => {
                say!("rot: note: {place}: is replaced by that of this run; --resume would go on from it");
            }
            (false, false) => {}
        }
        // Better now than after the first epoch.
        trainer.save(&path).map_err(|error| folder_failure("--checkpoint", folder, &error))?;
        Ok(Some(path))
    }

    fn report(&self, Outcome { model, history }: &Outcome) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let about = &model.about;
        if self.json {
            let mut all = Map::new();
            let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
            put("loss", json!(about.loss));
            put("features", json!(model.features()));
            put("labels", json!(model.label_names().len()));
            put("rows", json!(about.rows));
            put("device", json!(about.device));
            put("about", json!(about));
            put("epochs", json!(history));
            put("best_epoch", json!(about.best_epoch));
            put("test", json!(about.scores));
            put("seconds_per_epoch", json!(median_seconds(history)));
            put("peak_rss_bytes", json!(peak_rss_bytes()));
            put("out", json!(self.out));
            put("run", json!(self.run));
            writeln!(out, "{}", Value::Object(all))?;
            return Ok(());
        }
        let (labels, features, rows) = (model.label_names().len(), model.features(), about.rows);
        writeln!(out, "{}: {rows} rows, {features} features, {labels} labels", describe_loss(about))?;
        if about.device != CPU {
            writeln!(out, "device: {}", about.device)?;
        }
        if let Some(last) = history.last() {
            let median = median_seconds(history).unwrap_or(0.0);
            writeln!(out, "{} epochs, loss {:.6}, {median:.4} s an epoch", history.len(), last.loss)?;
        }
        if let Some(best) = about.best_epoch {
            let auc = history[best - 1].validation_auc.unwrap_or(f64::NAN);
            writeln!(out, "weights of epoch {best}, with the best validation AUC, {auc:.4}")?;
        }
        if let Some(scores) = &about.scores {
            writeln!(out, "\n{}", score_table(&[(&format!("{} test rows", scores.rows), scores)]))?;
            excluded(scores).map_or(Ok(()), |what| writeln!(out, "{what}"))?;
        }
        if let Some(path) = &self.out {
            writeln!(out, "model: {}", path.display())?;
        }
        if let Some(folder) = &self.run {
            writeln!(out, "run: {0} (rot report {0} for a page)", folder.display())?;
        }
        Ok(())
    }
}

/// Writes a checkpoint after every epoch, and passes on what it is told.
struct Checkpointing<'a> {
    train: &'a Train,
    watch: &'a mut (dyn Watch + Send),
    path: Option<PathBuf>,
}

impl Watch for Checkpointing<'_> {
    fn begin(&mut self, trainer: &mut Trainer) -> Result<(), Failure> {
        self.path = self.train.open_checkpoint(trainer)?;
        self.watch.begin(trainer)
    }

    fn batch(&mut self, done: usize, all: usize) {
        self.watch.batch(done, all);
    }

    fn epoch(&mut self, trainer: &mut Trainer, epoch: &Epoch, epochs: usize) -> Result<(), Failure> {
        self.watch.epoch(trainer, epoch, epochs)?;
        self.path.as_deref().map_or(Ok(()), |path| trainer.save(path).map_err(write_failure))
    }

    fn interrupted(&self, done: usize, epochs: usize) -> Failure {
        let how = match &self.train.checkpoint {
            Some(folder) => format!("--checkpoint {} --resume goes on from there", folder.display()),
            None => "nothing was saved: --checkpoint DIR would have".into(),
        };
        Failure::Interrupted(format!("interrupted after {done} of {epochs} epochs; {how}"))
    }
}

/// Progress on standard error, and epochs as JSON.
struct Telling {
    bar: ProgressBar,
    json: bool,
}

impl Watch for Telling {
    fn batch(&mut self, done: usize, all: usize) {
        if all > 1 && !self.bar.is_hidden() {
            self.bar.set_message(format!("batch {done}/{all}"));
        }
    }

    fn epoch(&mut self, _trainer: &mut Trainer, epoch: &Epoch, epochs: usize) -> Result<(), Failure> {
        // Whoever reads may leave; the training goes on.
        if self.json && writeln!(io::stdout().lock(), "{}", json!(epoch)).is_err() {
            self.json = false;
        }
        let validation =
            epoch.validation_auc.map_or(String::new(), |auc| format!(", validation AUC {auc:.4}"));
        let what = format!("loss {:.6}{validation}, {:.3} s an epoch", epoch.loss, epoch.seconds);
        self.bar.set_length(epochs as u64);
        self.bar.set_position(epoch.epoch as u64);
        self.bar.set_prefix(what.clone());
        let every = epochs.div_ceil(LINES);
        if !self.json && self.bar.is_hidden() && (epoch.epoch.is_multiple_of(every) || epoch.epoch == 1) {
            say!("epoch {} of {epochs}: {what}", epoch.epoch);
        }
        Ok(())
    }
}

fn progress_bar(json: bool) -> ProgressBar {
    let target = if json || !io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) =
        ProgressStyle::with_template("{wide_bar} epoch {pos}/{len}, {prefix} {msg} [{eta} left]")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The middle one of the epochs by time.
pub fn median_seconds(history: &[Epoch]) -> Option<f64> {
    let mut seconds: Vec<f64> = history.iter().map(|epoch| epoch.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    match seconds.len() {
        0 => None,
        n if n % 2 == 1 => Some(seconds[middle]),
        _ => Some(0.5 * (seconds[middle - 1] + seconds[middle])),
    }
}

/// The most memory this program has held, where the system says so.
fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
