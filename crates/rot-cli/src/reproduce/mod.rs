//! `rot reproduce`: runs the paper's experiments on real data and compares the results with the published ones.

pub mod contours;
pub mod experiment;
pub mod lines;
pub mod movies;
pub mod table;
pub mod timing;
mod training;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use robust_ot_cuda::DeviceChoice;
use robust_ot_learn::data::write_atomic;
use serde::de::DeserializeOwned;

use self::contours::Contours;
use self::experiment::{Experiment, Part};
use self::movies::Movies;
use self::timing::Timing;
use crate::failure::Failure;
use crate::options::set_threads;
use crate::output::{make_folder, write_failure};
use crate::parse::parsed;
use crate::signal::interrupt;

/// The experiment that chose the row length of the tag sets. It is not in the paper, so `all` leaves it out.
const SCALE: &str = "scale";

/// The built-in tables of trained models.
const TABLES: [(&str, &str); 3] = [
    (SCALE, include_str!("../../experiments/scale.toml")),
    ("table1", include_str!("../../experiments/table1.toml")),
    ("table2", include_str!("../../experiments/table2.toml")),
];

/// The built-in figures, and the table of movie scripts.
const OTHERS: [(&str, &str); 3] = [
    ("figure1", include_str!("../../experiments/figure1.toml")),
    ("figure2", include_str!("../../experiments/figure2.toml")),
    ("movies", include_str!("../../experiments/movies.toml")),
];

/// The suffix of the names of experiments with a reduced budget.
pub const QUICK: &str = "-quick";

/// Run the paper's experiments and compare the results with the published ones
///
/// Each experiment is a file that lists data, losses, groups, seeds and the published results. Finished runs are kept as
/// JSON lines in --out; after an interruption, the same command continues from there.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rot reproduce table1 --data DATA --out runs --sets mnist --protocols paper\n  \
    rot reproduce table1 table2 --data DATA --out runs --quick\n  \
    rot reproduce my-own.toml --data DATA --out runs"
)]
pub struct Reproduce {
    /// table1, table2, figure1, figure2, movies, all (these five), scale, or your own files in the same format
    #[arg(required = true, value_name = "NAME|FILE")]
    names: Vec<String>,
    /// The folder with the data
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The folder for the results, created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only these data sets, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sets: Vec<String>,
    /// Only these protocols, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    protocols: Vec<String>,
    /// Check that everything runs: the reduced epochs and seeds of the table files, one variant per row, and only the ends
    /// of curves
    #[arg(long)]
    quick: bool,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where to train: auto, cpu, cuda or cuda:N. The figures of the documentation are the processor's, but for the tag sets
    #[arg(long, value_name = "WHERE", default_value_t = DeviceChoice::Cpu, value_parser = parsed::<DeviceChoice>)]
    device: DeviceChoice,
}

impl Reproduce {
    /// Runs the experiments one after another.
    pub fn run(&self) -> Result<(), Failure> {
        self.threads.map_or(Ok(()), set_threads)?;
        let known = || TABLES.iter().chain(&OTHERS);
        let mut texts = Vec::new();
        for name in &self.names {
            let shipped = known().filter(|(known, _)| known == name || (name == "all" && *known != SCALE));
            let before = texts.len();
            texts.extend(shipped.map(|&(name, text)| (name.to_owned(), name.to_owned(), text.to_owned())));
            if texts.len() == before {
                texts.push(read(Path::new(name))?);
            }
        }
        let experiments = texts.iter().map(|(name, place, text)| Ok((name, Kind::of(place, text)?)));
        let experiments = experiments.collect::<Result<Vec<_>, Failure>>()?;
        if !self.data.is_dir() {
            return Err(Failure::Input(format!(
                "--data must be a folder, but {} is not",
                self.data.display()
            )));
        }
        let part = Part { sets: self.sets.clone(), protocols: self.protocols.clone(), quick: self.quick };
        for (name, experiment) in &experiments {
            match experiment {
                Kind::Training(experiment) => experiment.check(&part)?,
                _ if self.sets.is_empty() && self.protocols.is_empty() => {}
                _ => say!("rot: note: {name} is run in full; --sets and --protocols apply only to tables"),
            }
        }
        make_folder("--out", &self.out)?;
        let interrupt = interrupt();
        let folders = (self.data.as_path(), self.out.as_path());
        for ((name, _, text), (_, experiment)) in texts.iter().zip(&experiments) {
            // Results of a reduced budget are kept separately.
            let quick = self.quick && matches!(experiment, Kind::Training(_) | Kind::Timing(_));
            let name = &if quick { format!("{name}{QUICK}") } else { name.clone() };
            // The experiment is stored next to its results, for `rot report`.
            write_atomic(&self.out.join(format!("{name}.toml")), |file| file.write_all(text.as_bytes()))
                .map_err(write_failure)?;
            match experiment {
                Kind::Movies(movies) => movies.run(name, &self.data, &self.out, &interrupt)?,
                Kind::Contours(contours) => contours.run(name, &self.data, &self.out)?,
                Kind::Timing(timing) if quick => {
                    timing.clone().quick().run(name, folders, self.device, &interrupt)?;
                }
                Kind::Timing(timing) => timing.run(name, folders, self.device, &interrupt)?,
                Kind::Training(experiment) => {
                    training::run(name, experiment, &part, folders, self.device, &interrupt)?;
                }
            }
        }
        Ok(())
    }
}

/// An experiment of any kind.
pub enum Kind {
    Training(Experiment),
    Movies(Movies),
    Contours(Contours),
    Timing(Timing),
}

impl Kind {
    /// Parses an experiment file, whose keys determine the kind.
    pub fn of(place: &str, text: &str) -> Result<Self, Failure> {
        let table: toml::Table = parse(text, place)?;
        if table.contains_key("films") {
            let movies: Movies = parse(text, place)?;
            movies.check()?;
            Ok(Self::Movies(movies))
        } else if table.contains_key("panel") {
            Ok(Self::Contours(parse(text, place)?))
        } else if table.contains_key("chart") {
            Ok(Self::Timing(parse(text, place)?))
        } else {
            Ok(Self::Training(parse(text, place)?))
        }
    }
}

/// Reads an experiment file. Returns the name of the experiment, the path and the text.
fn read(path: &Path) -> Result<(String, String, String), Failure> {
    if !path.exists() {
        let known: Vec<&str> = TABLES.iter().chain(&OTHERS).map(|(name, _)| *name).collect();
        let (known, name) = (known.join(", "), path.display());
        return Err(Failure::Input(format!("NAME must be {known}, all or a file, but is {name}")));
    }
    let text =
        fs::read_to_string(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    if name.ends_with(QUICK) {
        return Err(Failure::Input(format!(
            "FILE must not end in {QUICK}, which is reserved for results, but is {name}"
        )));
    }
    Ok((name, path.display().to_string(), text))
}

/// Parses the text of an experiment file.
fn parse<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, Failure> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Failure::Input(format!("{place}:{line}: {}", error.message()))
    })
}

/// A progress bar on standard error.
struct Progress(ProgressBar);

impl Progress {
    fn new(name: &str, runs: usize) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(runs as u64), target).with_prefix(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg} [{eta} left]")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn step(&self) {
        self.0.inc(1);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
