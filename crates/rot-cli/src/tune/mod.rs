//! `rot tune`: read, try models within a time budget, fit the best one to all rows, score, save.

mod again;
mod budget;
mod picture;
mod progress;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use robust_ot::solve::Interrupt;
use robust_ot_learn::{Criterion, FitSettings, Fitted, JOURNAL, Memory, Method, Tuned, Tuning};
use serde_json::{Map, Value, json};

use self::again::train_command;
use self::budget::budget;
use self::picture::save_picture;
use self::progress::TuneProgress;
use self::table::{trial_table, winner};
use crate::checkpoints::lock_folder;
use crate::failure::Failure;
use crate::finished_model::{Outcome, score_and_save};
use crate::options::set_threads;
use crate::output::{check_distinct, check_writable};
use crate::parse::named;
use crate::run_folder::{MODEL, begin_run};
use crate::score_table::{excluded, score_table};
use crate::signal::interrupt;
use crate::training_data::{Data, DataOptions, say_unseen};
use crate::training_options::CRITERIA;

/// Find the best model within a time budget: loss, scaling, prior, L2, hidden layer, dropout
///
/// A linear model over all rows comes first, with everything that rot train chooses. Then models with a hidden layer compete:
/// they share the time, and the best third of them goes on, until one is left. Held-out rows score all of them. In the end
/// the winner is fitted to all rows, and the command that repeats this fit is printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    rot tune --xmc train.txt test.txt --label-names names.txt --label-vectors words.vec --budget 5m --out best.safetensors\n  \
    rot tune --train-x x.npy --train-y tags.txt --select map --checkpoint tuning --out best.safetensors\n  \
    rot tune --train-x x.npy --train-y tags.txt --select map --checkpoint tuning --resume --budget 1h --out best.safetensors")]
pub struct Tune {
    #[command(flatten)]
    data: DataOptions,
    /// Time for everything but reading the data, such as 90s, 5m or 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = budget, help_heading = "Search")]
    budget: Duration,
    /// What candidates are compared by: rank is the mean of the ranks in AUC, mAP and P@1, and semantic the cost of the top
    /// labels, with --label-vectors
    #[arg(long, value_parser = named::<Criterion>(&CRITERIA), default_value = "rank", help_heading = "Search")]
    select: Criterion,
    /// Fraction of the training rows to hold out [default: every row in turn if there are few, else 0.2]
    #[arg(long, value_name = "PART", allow_negative_numbers = true, help_heading = "Search")]
    validation: Option<f64>,
    /// Seed of the candidates, the held-out rows and the order of rows
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    seed: u64,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Search")]
    threads: Option<usize>,
    /// File to write the winner to
    #[arg(long, value_name = "MODEL", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Folder for the winner and the contents of `rot report`
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    run: Option<PathBuf>,
    /// Draw the scores of the best candidates over time: .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    picture: Option<PathBuf>,
    /// Folder that keeps what is found, so that a killed run can go on
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    checkpoint: Option<PathBuf>,
    /// Go on with what is in --checkpoint; time spent before counts
    #[arg(long, requires = "checkpoint", help_heading = "Output")]
    resume: bool,
    /// Print one JSON object per scored candidate, and one with everything at the end
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Tune {
    /// Tunes, scores, saves, prints; `words` are those of the command line, with quotes where a shell needs them.
    pub fn run(self, command: &str, words: &[String]) -> Result<(), Failure> {
        self.threads.map_or(Ok(()), set_threads)?;
        let settings = FitSettings {
            preparation: self.data.preparation(),
            validation: self.validation,
            seed: self.seed,
            memory: Memory::free(),
            ..FitSettings::default()
        };
        settings.check()?;
        self.check_outputs()?;
        let _lock = self.checkpoint.as_deref().map(lock_folder).transpose()?;
        self.note_checkpoint();
        let Data { samples, test, feature_names } = self.data.read(self.seed, false)?;
        say_unseen(&samples, Method::FullBatch);
        let tuning = Tuning {
            folder: self.checkpoint.clone(),
            resume: self.resume,
            ..Tuning::new(settings, self.budget, self.select)
        };
        let mut progress = TuneProgress::new(self.json, self.budget, self.select);
        let interrupt = interrupt();
        let tuned = rayon::scope(|_| tuning.run(samples, &interrupt, &mut |event| progress.event(&event)));
        progress.end();
        let Some(mut tuned) = tuned? else { return Err(self.interrupted(&interrupt)) };
        let Fitted { mut model, history, notes } = tuned.fitted;
        notes.iter().for_each(|note| say!("rot: note: {note}"));
        model.name_features(feature_names)?;
        let places = (self.out.as_deref(), self.run.as_deref());
        let Outcome { model, history } = score_and_save(model, history, test, places, command)?;
        tuned.fitted = Fitted { model, history, notes };
        if let Some(path) = &self.picture {
            save_picture(&tuned, self.select, path)?;
        }
        self.report(&tuned, &train_command(words, &tuned.options))
    }

    /// Says what becomes of the results in `--checkpoint`.
    fn note_checkpoint(&self) {
        let Some(journal) = self.checkpoint.as_ref().map(|folder| folder.join(JOURNAL)) else { return };
        let place = journal.display();
        match (self.resume, journal.exists()) {
            (true, false) => {
                say!("rot: note: {place}: there is nothing yet; tuning starts from the beginning");
            }
            (false, true) => {
                say!("rot: note: {place}: is replaced by this run; --resume goes on with it instead");
            }
            _ => {}
        }
    }

    fn interrupted(&self, interrupt: &Interrupt) -> Failure {
        let why = if interrupt.is_raised() { "interrupted" } else { "stopped" };
        Failure::Interrupted(match &self.checkpoint {
            Some(folder) => {
                format!("{why}; --checkpoint {} --resume goes on with what was found", folder.display())
            }
            None => format!("{why}; nothing was saved: --checkpoint DIR keeps what is found"),
        })
    }

    fn check_outputs(&self) -> Result<(), Failure> {
        let kept = self.run.as_ref().map(|folder| folder.join(MODEL));
        let outputs = [
            ("--out", self.out.as_deref()),
            ("--run", kept.as_deref()),
            ("--picture", self.picture.as_deref()),
        ];
        check_distinct(&self.data.inputs(), &outputs)?;
        self.out.as_deref().map_or(Ok(()), |path| check_writable("--out", path, &["safetensors"]))?;
        self.picture.as_deref().map_or(Ok(()), |path| check_writable("--picture", path, &["svg", "png"]))?;
        self.run.as_deref().map_or(Ok(()), begin_run)
    }

    fn report(&self, tuned: &Tuned, again: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let about = &tuned.fitted.model.about;
        if self.json {
            let options: Map<String, Value> =
                tuned.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let all = json!({
                "select": self.select, "trials": tuned.trials, "winner": tuned.trials[0].candidate,
                "options": options, "command": again, "seconds": tuned.seconds,
                "fitting_seconds": tuned.fitting_seconds, "folds": tuned.folds, "about": about,
                "test": about.scores, "out": self.out, "run": self.run,
            });
            writeln!(out, "{all}")?;
            return Ok(());
        }
        writeln!(out, "{}", trial_table(&tuned.trials, self.select))?;
        writeln!(out, "{}", winner(tuned))?;
        let (seconds, share) = (tuned.seconds, 100.0 * tuned.fitting_seconds / tuned.seconds);
        writeln!(out, "{seconds:.1} s, {share:.0} % of them in fits; the rest scored, scaled and saved")?;
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
        writeln!(out, "the same model again:\n  {again}")?;
        Ok(())
    }
}
