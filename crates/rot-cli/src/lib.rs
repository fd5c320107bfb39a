//! `rot`: robust optimal transport on the command line. Parse, call the library, print.
//!
//! The command is a library so that the Python package includes it: [`run`] is all it exports.

#[macro_use]
mod say;

mod barycenter;
mod checkpoints;
mod class_samples;
mod clouds;
mod compare;
mod demo;
mod device;
mod distance;
mod evaluate;
mod explain;
mod extend;
mod failure;
mod feature_columns;
mod finished_model;
mod fit_options;
mod hidden_options;
mod input;
mod inspect;
mod loss_description;
mod loss_options;
mod machine;
mod metric_options;
mod model_input;
mod model_run;
mod nearest;
mod options;
mod output;
mod pairwise;
mod parse;
mod picture;
mod point_options;
mod predict;
mod prior_options;
mod raw_samples;
mod ray;
mod report;
mod reproduce;
mod row_length;
mod run_folder;
mod score_table;
mod shell;
mod signal;
mod test_data;
mod train;
mod training_data;
mod training_options;
mod training_progress;
mod tune;
mod verify;
mod waiting;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;

/// Optimal transport that learns which features matter, with a certificate on every answer.
#[derive(Debug, Parser)]
#[command(name = "rot", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done (a status other than converged is a warning), 1 failure, \
    2 usage or bad data, 3 drift where --fail-on asks for it, 130 interrupted.\nStart with `rot demo`.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The robust distance between two point clouds or two texts
    Distance(distance::Distance),
    Compare(Box<compare::Compare>),
    /// All distances among many point clouds or texts, or from some to others
    Pairwise(pairwise::Pairwise),
    /// The nearest point clouds or texts of each one, without most of the distances
    Nearest(nearest::Nearest),
    /// The points with the least mean distance to some point clouds
    Barycenter(barycenter::Barycenter),
    Train(Box<train::Train>),
    Tune(Box<tune::Tune>),
    Predict(predict::Predict),
    Evaluate(evaluate::Evaluate),
    Extend(extend::Extend),
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Reproduce(reproduce::Reproduce),
    Report(report::Report),
    /// Show what a robust distance reveals that a plain one does not, on built-in data
    Demo,
    Completions(shell::Completions),
    #[command(hide = true)]
    Man(shell::ManPages),
}

/// The commands as `rot --help` groups them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Compute", &["distance", "compare", "pairwise", "nearest", "barycenter"]),
    ("Learn", &["train", "tune", "predict", "evaluate", "extend"]),
    ("Show", &["demo", "inspect", "verify", "report"]),
    ("Paper", &["reproduce"]),
    ("Shell", &["completions"]),
];

/// The definition of the command, with its commands in groups.
fn definition() -> clap::Command {
    let command = Cli::command();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = write!(groups, "\n{title}:\n");
        for part in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = part.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {:<12} {}", part.get_name(), about.trim_end_matches('.'));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// A word as a shell takes it, so that a recorded command line can be run again.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs a command, program name first, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let words: Vec<String> = arguments.iter().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    let line = format!("rot {}", words.join(" "));
    let parsed = definition().try_get_matches_from(arguments).and_then(|found| Cli::from_arg_matches(&found));
    let done = parsed.map_err(Failure::from).and_then(|cli| match cli.command {
        Command::Distance(command) => command.run(&line),
        Command::Compare(command) => command.run(&line),
        Command::Pairwise(command) => command.run(),
        Command::Nearest(command) => command.run(),
        Command::Barycenter(command) => command.run(),
        Command::Train(command) => command.run(&line),
        Command::Tune(command) => command.run(&line, &words),
        Command::Predict(command) => command.run(),
        Command::Evaluate(command) => command.run(),
        Command::Extend(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Reproduce(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Demo => demo::run(),
        Command::Completions(command) => command.run(definition()),
        Command::Man(command) => command.run(definition()),
    });
    done.map_or_else(Failure::report, |()| 0)
}
