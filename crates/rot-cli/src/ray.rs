//! `rot pairwise --ray`: solves the pairs on a Ray cluster through the Python package.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use ndarray::{Array2, Axis};
use robust_ot::sets::Prior;
use robust_ot::solve::Interrupt;
use robust_ot::{Grouping, MetricSet, Settings};
use robust_ot_learn::data::{read_npy, write_npy};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input::Input;
use crate::metric_options::Metric;
use crate::output::write_failure;

/// The environment variable with the Python interpreter to use. The `rot` of a wheel sets it to the wheel's Python.
const PYTHON: &str = "ROBUST_OT_PYTHON";
/// The Python module that solves the pairs.
const MODULE: &str = "robust_ot._ray_command";

/// The distances from a cluster.
pub struct FromRay {
    pub matrix: Array2<f64>,
    pub lower_bounds: Array2<f64>,
    pub relative_gap: f64,
    pub unfinished: usize,
}

/// The module's report, which accompanies the two matrices.
#[derive(Debug, Deserialize)]
struct Report {
    relative_gap: f64,
    unfinished: usize,
    /// The first failure.
    failed: Option<Failed>,
}

/// A failure of one measure or one pair.
#[derive(Debug, Deserialize)]
struct Failed {
    measures: Vec<usize>,
    why: String,
}

/// Solves all pairs on the cluster at the given address.
pub fn solve_on_ray(
    address: &str,
    inputs: &[Input],
    metric: &Metric,
    (grouping, settings): (&Grouping, &Settings),
    interrupt: &Interrupt,
) -> Result<FromRay, Failure> {
    let python = env::var_os(PYTHON).unwrap_or_else(|| OsString::from("python3"));
    check_package(&python)?;
    let folder = Scratch::new()?;
    for (at, input) in inputs.iter().enumerate() {
        let (points, weights) = (input.measure.points(), input.measure.weights());
        write_npy(&folder.0.join(format!("{at}-points.npy")), points).map_err(write_failure)?;
        // Without a file, the weights are equal.
        if weights.iter().any(|weight| weight.to_bits() != weights[0].to_bits()) {
            let weights = weights.clone().insert_axis(Axis(0));
            write_npy(&folder.0.join(format!("{at}-weights.npy")), &weights).map_err(write_failure)?;
        }
    }
    let task = json!({
        "address": address, "measures": inputs.len(), "set": set(metric.set(), &folder.0)?,
        "grouping": grouping.assignment(), "entropy": metric.entropy(), "solver": settings.step_rule.name(),
        "tol": settings.tol_gap_rel, "max_iter": settings.max_iterations,
        "memory": settings.memory,
    });
    let path = folder.0.join("task.json");
    fs::write(&path, task.to_string())
        .map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
    // The module's messages go to standard error; standard output belongs to this command.
    let ended = Command::new(&python).args(["-m", MODULE]).arg(&folder.0).stdout(Stdio::null()).status();
    let ended = ended.map_err(|error| Failure::Other(format!("--ray {address}: {error}")))?;
    if interrupt.is_raised() {
        return Err(Failure::Interrupted("interrupted on the cluster".into()));
    }
    if !ended.success() {
        return Err(Failure::Other(format!(
            "--ray {address}: the pairs could not be solved there ({ended})"
        )));
    }
    let report = fs::read_to_string(folder.0.join("report.json")).map_err(|error| error.to_string());
    let report: Report = report
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|error| Failure::Other(format!("--ray {address}: no report came back: {error}")))?;
    if let Some(Failed { measures, why }) = report.failed {
        let paths = measures.iter().filter_map(|&at| Some(inputs.get(at)?.path.display().to_string()));
        return Err(Failure::Input(format!("{}: {why}", paths.collect::<Vec<_>>().join(" and "))));
    }
    let Report { relative_gap, unfinished, .. } = report;
    let read = |name: &str| read_npy(&folder.0.join(name)).map_err(Failure::from);
    Ok(FromRay { matrix: read("matrix.npy")?, lower_bounds: read("lower.npy")?, relative_gap, unfinished })
}

/// Fails if the package or Ray is missing, with the command that installs them.
fn check_package(python: &OsString) -> Result<(), Failure> {
    let asked = Command::new(python).args(["-c", "import robust_ot.distributed"]).output();
    let why = match asked {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.trim().lines().next_back().unwrap_or("it does not start").to_owned()
        }
        Err(error) => error.to_string(),
    };
    let place = python.to_string_lossy();
    Err(Failure::Other(format!(
        "--ray needs the Python package with Ray (pip install 'robust-ot[ray]'), but {place} cannot load it: {why}"
    )))
}

/// The metric set as keywords of the package. A prior matrix is written to a file.
fn set(set: &MetricSet, folder: &Path) -> Result<Value, Failure> {
    let mut keywords = json!({ "metric": set.name() });
    match set {
        MetricSet::P { k } | MetricSet::PPower { k } => keywords["k"] = json!(k),
        MetricSet::Srw { k } => keywords["k"] = json!(k),
        // JSON has no infinity; serde_json writes null instead.
        MetricSet::Rkp { rho } => keywords["rho"] = json!(rho),
        MetricSet::Features { lambda } => keywords["lam"] = json!(lambda),
        MetricSet::Kl { lambda, prior } | MetricSet::Ds { lambda, prior } => {
            keywords["lam"] = json!(lambda);
            keywords["prior"] = match prior {
                Prior::Eye => json!("eye"),
                Prior::Ones => json!("ones"),
                Prior::Matrix(matrix) => {
                    write_npy(&folder.join("prior.npy"), matrix).map_err(write_failure)?;
                    json!("prior.npy")
                }
            };
        }
        _ => {}
    }
    Ok(keywords)
}

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let folder = env::temp_dir().join(format!("rot-ray-{}-{now}", std::process::id()));
        // Fails if the folder exists, so that files of an earlier run are never taken for this one's.
        fs::create_dir(&folder).map_err(|error| Failure::Other(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
