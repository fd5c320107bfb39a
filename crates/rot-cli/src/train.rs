//! `rot train`: read, train, score, save.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use robust_ot::solve::Interrupt;
use robust_ot_cuda::{DeviceChoice, FitDevice};
use robust_ot_learn::{
    About, Criterion, Epoch, FitRun, FitSettings, Fitted, FullFit, Method, Model, PriorChoice, Samples,
    Trainer,
};
use serde_json::{Map, Value, json};

use crate::checkpoints::Checkpoints;
use crate::device::kernel_cache;
use crate::failure::Failure;
use crate::finished_model::{Outcome, score_and_save};
use crate::fit_options::FitOptions;
use crate::loss_description::{describe_choice, describe_loss, few_rows};
use crate::model_run::write_model_run;
use crate::options::set_threads;
use crate::output::{check_distinct, check_writable, write_failure};
use crate::run_folder::{MODEL, begin_run, clear_run};
use crate::score_table::{excluded, score_table};
use crate::signal::interrupt;
use crate::training_data::{Data, DataOptions, say_unseen};
use crate::training_progress::TrainingProgress;

/// Train a linear model, or one with a hidden layer, for single-label or multi-label data
///
/// The model is softmax(X W + b), or a sigmoid of it. By default, held-out rows choose the loss, the scaling of the features,
/// a prior by which near labels share weights, and its strength; then the penalized loss of all rows is minimized to its
/// optimum. With --loss mix and others, robust transport between predictions and labels makes mistakes near misses.
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
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Training")]
    threads: Option<usize>,
    /// File to write the model to
    #[arg(long, value_name = "MODEL", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Folder for the model and the contents of `rot report`: learning curves, confusions, examples of test rows
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    run: Option<PathBuf>,
    /// Folder for a checkpoint after every epoch
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    checkpoint: Option<PathBuf>,
    /// Continue from the checkpoint in --checkpoint, if there is one
    #[arg(long, requires = "checkpoint", help_heading = "Output")]
    resume: bool,
    /// Print one JSON object per epoch, and one with everything at the end
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Train {
    /// Trains, scores, saves, prints.
    pub fn run(self, command: &str) -> Result<(), Failure> {
        self.threads.map_or(Ok(()), set_threads)?;
        let mut progress = TrainingProgress::new(self.json);
        let outcome = self.outcome(command, &interrupt(), &mut progress);
        progress.end();
        self.report(&outcome?)
    }

    /// Trains, scores and saves.
    pub fn outcome(
        &self,
        command: &str,
        interrupt: &Interrupt,
        progress: &mut TrainingProgress,
    ) -> Result<Outcome, Failure> {
        let settings = self.settings()?;
        self.check_outputs()?;
        let Data { samples, test, feature_names } =
            self.data.read(self.fit.seed(), self.fit.protocol().is_some())?;
        let (method, note) = settings.method_for(&samples.train);
        note.iter().for_each(|note| say!("rot: note: {note}"));
        say_unseen(&samples, method);
        let Fitted { mut model, history, notes } = match method {
            Method::FullBatch => fitted_at_once(&settings, samples, interrupt, progress)?,
            Method::Stochastic => self.fitted(&FitRun::new(&settings, samples)?, interrupt, progress)?,
        };
        notes.iter().for_each(|note| say!("rot: note: {note}"));
        model.name_features(feature_names)?;
        if model.about.interrupted {
            return Err(self.keep_interrupted(&model, &history, command));
        }
        score_and_save(model, history, test, (self.out.as_deref(), self.run.as_deref()), command)
    }

    /// Overrides the device of the options.
    pub fn set_device(&mut self, device: DeviceChoice) {
        self.fit.set_device(device);
    }

    /// The settings; a checkpoint is one of stochastic steps.
    fn settings(&self) -> Result<FitSettings, Failure> {
        let mut settings = self.fit.read(self.data.preparation())?;
        if let Some(folder) = &self.checkpoint {
            let linear = settings.training.hidden.units.is_none();
            if settings.training.method == Some(Method::FullBatch)
                || linear && settings.prior != PriorChoice::default()
            {
                return Err(Failure::Input(format!(
                    "--checkpoint must go with --optimizer adam, adamw or sgd, whose epochs it saves, but is {} with lbfgs",
                    folder.display()
                )));
            }
            settings.training.method = Some(Method::Stochastic);
            settings.check()?;
        }
        Ok(settings)
    }

    /// Trains on the chosen device, with a checkpoint after every epoch. Interrupted without one, it ends with the steps so far.
    fn fitted(
        &self,
        run: &FitRun,
        interrupt: &Interrupt,
        progress: &mut TrainingProgress,
    ) -> Result<Fitted, Failure> {
        let (choice, precision) = self.fit.device();
        let mut device = FitDevice::open(run, choice, precision, kernel_cache().as_deref())?;
        let mut trainer = device.trainer(run)?;
        let open = |folder: &PathBuf| Checkpoints::open(folder, self.resume, &mut trainer);
        let checkpoints = self.checkpoint.as_ref().map(open).transpose()?;
        // From a thread of the pool, work starts without a trip through its queue.
        rayon::scope(|_| {
            self.train_all(&mut trainer, run.settings().epochs, checkpoints.as_ref(), interrupt, progress)
        })?;
        if trainer.steps() == 0 {
            return Err(Failure::Interrupted("interrupted before the first step; nothing was saved".into()));
        }
        Ok(device.finish(run, trainer)?)
    }

    /// Saves the model of an interrupted run, without scores of its test rows: who interrupts does not want to wait for them.
    fn keep_interrupted(&self, model: &Model, history: &[Epoch], command: &str) -> Failure {
        let done = if model.about.gap.is_some() { "iterations" } else { "epochs" };
        let after = format!("interrupted after {} {done}", model.about.epochs);
        let saved = self.out.as_ref().map(|path| model.save(path).map_err(write_failure)).transpose();
        let kept = saved.and_then(|_| {
            let Some(folder) = &self.run else { return Ok(()) };
            clear_run(folder)?;
            model.save(&folder.join(MODEL)).map_err(write_failure)?;
            write_model_run(folder, model, history, None, command)
        });
        if let Err(failure) = kept {
            return failure;
        }
        let places: Vec<_> =
            [&self.out, &self.run].into_iter().flatten().map(|path| path.display().to_string()).collect();
        Failure::Interrupted(if places.is_empty() {
            format!(
                "{after}; nothing was saved: --out MODEL keeps the weights so far, --checkpoint DIR every epoch"
            )
        } else {
            format!("{after}; the weights so far are in {}, marked as interrupted", places.join(" and "))
        })
    }

    fn train_all(
        &self,
        trainer: &mut Trainer,
        epochs: usize,
        checkpoints: Option<&Checkpoints>,
        interrupt: &Interrupt,
        progress: &mut TrainingProgress,
    ) -> Result<(), Failure> {
        while !trainer.finished() {
            let done = trainer.history().len();
            let Some(epoch) = trainer.epoch(interrupt, |batch, batches| progress.batch(batch, batches))?
            else {
                return self.checkpoint.as_ref().map_or(Ok(()), |folder| {
                    let how = format!("--checkpoint {} --resume continues from there", folder.display());
                    Err(Failure::Interrupted(format!("interrupted after {done} of {epochs} epochs; {how}")))
                });
            };
            progress.epoch(&epoch, epochs);
            checkpoints.map_or(Ok(()), |checkpoints| checkpoints.save(trainer))?;
        }
        Ok(())
    }

    fn check_outputs(&self) -> Result<(), Failure> {
        let out = self.out.as_deref();
        let checkpoint = self.checkpoint.as_deref().map(Checkpoints::file);
        let kept = self.run.as_ref().map(|folder| folder.join(MODEL));
        let outputs = [("--checkpoint", checkpoint.as_deref()), ("--out", out), ("--run", kept.as_deref())];
        let inputs = [self.data.inputs(), self.fit.inputs()].concat();
        check_distinct(&inputs, &outputs)?;
        out.map_or(Ok(()), |path| check_writable("--out", path, &["safetensors"]))?;
        self.run.as_deref().map_or(Ok(()), begin_run)
    }

    fn report(&self, Outcome { model, history }: &Outcome) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let about = &model.about;
        if self.json {
            let mut all = Map::new();
            let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
            put("loss", json!(about.loss));
            put("features", json!(model.features()));
            put("hidden", json!(model.hidden().map(|layer| layer.bias.len())));
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
        let hidden =
            model.hidden().map_or(String::new(), |layer| format!(", {} hidden units", layer.bias.len()));
        writeln!(out, "{}: {rows} rows, {features} features{hidden}, {labels} labels", describe_loss(about))?;
        if about.device != About::CPU {
            writeln!(out, "device: {}", about.device)?;
        }
        if let Some(last) = history.last() {
            let median = median_seconds(history).unwrap_or(0.0);
            let what = if about.gap.is_some() { "iteration" } else { "epoch" };
            // The losses of a sum's parts cannot be compared or added.
            let loss =
                if about.blend.is_empty() { format!(", loss {:.6}", last.loss) } else { String::new() };
            writeln!(out, "{} {what}s{loss}, {median:.4} s per {what}", history.len())?;
        }
        if let Some(gap) = about.gap {
            writeln!(out, "{}", describe_choice(about))?;
            let each = if about.blend.is_empty() { "" } else { "each " };
            writeln!(out, "{each}minimized to a relative gap of {gap:.1e}, as estimated by the gradient")?;
        }
        let few = few_rows(&about.label_rows);
        few.map_or(Ok(()), |few| writeln!(out, "{few}"))?;
        if let Some(best) = about.best_epoch {
            let (what, score) = validation_score(about.select.unwrap_or_default(), &history[best - 1]);
            writeln!(out, "weights of epoch {best}, with the best validation {what}, {score:.4}")?;
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

/// Chooses on held-out rows and minimizes over all rows.
fn fitted_at_once(
    settings: &FitSettings,
    samples: Samples,
    interrupt: &Interrupt,
    progress: &mut TrainingProgress,
) -> Result<Fitted, Failure> {
    let fit = FullFit::new(settings, samples)?;
    let fitted = rayon::scope(|_| fit.run(interrupt, &mut |event| progress.event(&event)))?;
    fitted.ok_or_else(|| {
        let message =
            "interrupted while candidates were compared on held-out rows; there are no weights to save yet";
        Failure::Interrupted(message.into())
    })
}

/// The score of the held-out rows that chooses the epoch, by its name.
fn validation_score(select: Criterion, epoch: &Epoch) -> (&'static str, f64) {
    let score = epoch.validation_score.unwrap_or(f64::NAN);
    match select {
        Criterion::Auc => ("AUC", epoch.validation_auc.unwrap_or(f64::NAN)),
        Criterion::AveragePrecision => ("mAP", score),
        Criterion::PrecisionAt1 => ("P@1", score),
        Criterion::Semantic => ("semantic cost", -score),
        Criterion::Rank => ("AUC + mAP + P@1", score),
    }
}

/// The median time of an epoch, in seconds.
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

/// The peak memory of this process, where the system reports it.
fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
