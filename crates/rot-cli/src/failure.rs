//! Failures: each becomes one line on standard error and an exit code.

use std::io;

use robust_ot::Error;

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Bad usage or bad data: exit code 2.
    Input(String),
    /// Anything else: exit code 1.
    Other(String),
    /// Interrupted by a signal; the message reports what was reached: exit code 130.
    Interrupted(String),
    /// Two tables differ, which was to be a failure: exit code 3.
    Drift(String),
    /// The reader closed standard output, which is not an error: exit code 0.
    OutputClosed,
    /// Help text, printed unchanged.
    Help(Box<clap::Error>),
}

impl Failure {
    /// Prints the message on one line and returns the exit code.
    pub fn report(self) -> u8 {
        let (code, message) = match self {
            Self::Input(message) => (2, message),
            Self::Other(message) => (1, message),
            Self::Interrupted(message) => (130, message),
            Self::Drift(message) => (3, message),
            Self::OutputClosed => return 0,
            Self::Help(help) => {
                let _ = help.print();
                return u8::try_from(help.exit_code()).unwrap_or(2);
            }
        };
        say!("rot: {}", message.split_whitespace().collect::<Vec<_>>().join(" "));
        code
    }

    /// A library error that occurred while working on one file or pair of files.
    pub fn about(place: &str, error: &Error) -> Self {
        match error {
            Error::Io { .. } | Error::Format { .. } => Self::Input(error.to_string()),
            // Tables are arguments, not options.
            Error::Conflict { name: "before" | "after", .. } => Self::Input(placed(place, error)),
            Error::Parameter { name, rule, value } => {
                Self::Input(format!("--{} must be {rule}, but is {value}", option_of(name)))
            }
            Error::Conflict { name, rule, found } => {
                Self::Input(format!("--{} must {rule}, but {found}", option_of(name)))
            }
            Error::Prior { rule, found } => Self::Input(format!("--prior must be {rule}, but {found}")),
            Error::Grouping { rule, found } => Self::Input(format!("--grouping must {rule}, but {found}")),
            Error::Overflow { .. } | Error::Scaling { .. } => Self::Input(format!("--lambda: {error}")),
            Error::Diverged { .. } | Error::Device { .. } => Self::Other(error.to_string()),
            Error::Eigen { .. } => Self::Other(placed(place, error)),
            other => Self::Input(placed(place, other)),
        }
    }
}

/// The option that sets a field of the library's settings.
fn option_of(field: &str) -> String {
    match field {
        "frank_wolfe" => "fw-iterations".to_owned(),
        "learning_rate" => "lr".to_owned(),
        "max_iterations" => "max-iter".to_owned(),
        "step_rule" => "solver".to_owned(),
        "sinkhorn" => "sinkhorn-iterations".to_owned(),
        "tol_gap_rel" => "tol".to_owned(),
        "tolerance" => "loss-tolerance".to_owned(),
        other => other.replace('_', "-"),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::about("", &error)
    }
}

fn placed(place: &str, error: &Error) -> String {
    if place.is_empty() { error.to_string() } else { format!("{place}: {error}") }
}

impl From<clap::Error> for Failure {
    /// Keeps the message and drops the usage block after it.
    fn from(error: clap::Error) -> Self {
        if !error.use_stderr()
            || error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            return Self::Help(Box::new(error));
        }
        let text = error.to_string();
        let message =
            text.split("\n\nUsage:").next().unwrap_or(&text).split("\n\nFor more").next().unwrap_or(&text);
        // A hint is a paragraph of its own.
        let parts = message.trim_start_matches("error: ").split("\n\n");
        let parts: Vec<_> = parts.map(|part| part.trim().trim_start_matches("tip: ")).collect();
        Self::Input(format!("{} (see --help)", parts.join("; ").trim()))
    }
}

impl From<io::Error> for Failure {
    /// A failed write to standard output. A closed pipe, as after `| head`, is not a failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Other(format!("standard output: {error}"))
        }
    }
}
