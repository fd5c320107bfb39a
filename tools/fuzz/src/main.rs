//! Feeds damaged files to every reader of robust-ot-learn, and to the loaders of models, checkpoints and learners.
//!
//! A reader may refuse a file, but not panic, abort, or take more memory than it is given; and what a checksum protects is
//! read as it was written, or not at all. An input that breaks this is kept, and named at the end.
//!
//! `make fuzz` runs every target for some seconds.

mod corpus;
mod damage;
mod models;
mod targets;

use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot_learn::Memory;
use robust_ot_learn::data::within;

use crate::damage::damaged;
use crate::targets::{Count, Target};

/// The memory that each reader is given.
const LIMIT: Memory = Memory(32_000_000);
/// The most memory that the process may take: that of a reader, its input, and the programs themselves.
const MOST_MEMORY: usize = 256_000_000;
/// Inputs between two looks at the memory of the process.
const LOOK: u64 = 64;

/// Feeds damaged files to the readers
#[derive(Debug, Parser)]
#[command(name = "rot-fuzz")]
struct Options {
    /// Targets to run [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<Target>,
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// Seed of the damage
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Folder for inputs that break a reader
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    keep: PathBuf,
    /// Read this file once with one target instead
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "rot-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let chosen = if options.targets.is_empty() { Target::ALL.to_vec() } else { options.targets.clone() };
    let (mut out, mut whole) = (io::stdout().lock(), true);
    writeln!(out, "target        inputs  executions      read   memory")?;
    for target in chosen {
        let session = Session::new(target, &options.keep)?;
        let until = match &options.replay {
            Some(path) => return Ok(session.broken_by(&fs::read(path)?, &name_of(path))?.1.is_none()),
            None => Until::Time(Instant::now() + Duration::from_secs(options.seconds)),
        };
        let Tally { inputs, count, problem } = session.run(options.seed, until)?;
        let (name, memory) = (target.name(), Memory(peak_memory().unwrap_or(0)));
        writeln!(out, "{name:<12} {inputs:>7} {:>11} {:>9} {memory:>8}", count.executions, count.read)?;
        if let Some(problem) = problem {
            writeln!(out, "  {problem}")?;
            whole = false;
        }
    }
    Ok(whole)
}

/// When a session ends.
#[derive(Debug, Clone, Copy)]
enum Until {
    Time(Instant),
    #[cfg(test)]
    Inputs(u64),
}

impl Until {
    fn reached(self, inputs: u64) -> bool {
        match self {
            Self::Time(end) => inputs.is_multiple_of(LOOK) && Instant::now() >= end,
            #[cfg(test)]
            Self::Inputs(most) => inputs >= most,
        }
    }
}

/// The outcome of a session.
struct Tally {
    inputs: u64,
    count: Count,
    problem: Option<String>,
}

/// The runs of one target.
struct Session {
    target: Target,
    keep: PathBuf,
    folder: tempfile::TempDir,
    readers: targets::Readers,
    corpus: Vec<(&'static str, Vec<u8>)>,
}

impl Session {
    fn new(target: Target, keep: &Path) -> io::Result<Self> {
        let corpus = corpus::of(target);
        // On a disk, writing the inputs would take nearly all of the time.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let readers = targets::Readers::new(target, corpus.iter().map(|(_, bytes)| bytes.clone()).collect());
        Ok(Self { target, keep: keep.to_owned(), folder, readers, corpus })
    }

    /// Reads the corpus as it is, and then damaged, until something breaks.
    fn run(&self, seed: u64, until: Until) -> io::Result<Tally> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut inputs, mut count) = (0, Count::default());
        while !until.reached(inputs) {
            let at = inputs as usize % self.corpus.len();
            let (name, whole) = &self.corpus[at];
            let bytes = if (inputs as usize) < self.corpus.len() {
                whole.clone()
            } else {
                damaged(whole, &self.corpus, &mut random)
            };
            let (found, broken) = self.broken_by(&bytes, name)?;
            inputs += 1;
            count += found;
            let heavy =
                || inputs.is_multiple_of(LOOK) && peak_memory().is_some_and(|peak| peak > MOST_MEMORY);
            let problem =
                broken.or_else(|| heavy().then(|| format!("more than {} of memory", Memory(MOST_MEMORY))));
            if let Some(problem) = problem {
                fs::create_dir_all(&self.keep)?;
                let kept = self.keep.join(format!("{}-{seed}-{inputs}-{name}", self.target.name()));
                fs::write(&kept, &bytes)?;
                let problem = Some(format!("{problem}: kept as {}", kept.display()));
                return Ok(Tally { inputs, count, problem });
            }
        }
        Ok(Tally { inputs, count, problem: None })
    }

    /// Reads some bytes, and returns what broke, if anything did.
    fn broken_by(&self, bytes: &[u8], name: &str) -> io::Result<(Count, Option<String>)> {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes)?;
        let read = catch_unwind(AssertUnwindSafe(|| within(LIMIT, || self.readers.read(&path, bytes))));
        Ok(match read {
            Ok(Ok(count)) => (count, None),
            Ok(Err(problem)) => (Count::default(), Some(problem)),
            Err(_) => (Count::default(), Some("a panic".into())),
        })
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The peak memory of this process, where the system reports it.
fn peak_memory() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|kilobytes| 1024 * kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_break_no_reader() {
        for &target in Target::ALL {
            let dir = tempfile::tempdir().unwrap();
            let session = Session::new(target, dir.path()).unwrap();
            let whole = session.run(0, Until::Inputs(session.corpus.len() as u64)).unwrap();
            // Every target reads most of its corpus, so the damage starts from files that are read.
            assert!(2 * whole.count.read > whole.inputs, "{}: {}", target.name(), whole.count.read);
            let tally = session.run(1, Until::Inputs(200)).unwrap();
            assert_eq!(tally.problem, None, "{}", target.name());
        }
    }
}
