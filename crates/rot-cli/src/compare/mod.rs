//! `rot compare`: whether two tables differ, how sure that is, and where.

mod print;

use std::collections::HashMap;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ndarray::Array2;
use robust_ot::MetricSet;
use robust_ot_learn::Scale;
use robust_ot_learn::compare::{
    CompareSettings, Comparison, Design, Gaps, GroupBy, Loaded, Statistic, TableChoice, Within, compare,
    compare_within, holm, load,
};
use robust_ot_learn::data::{Cells, Header, MixedTable};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::machine::machine;
use crate::options::set_threads;
use crate::output::{check_distinct, check_writable};
use crate::parse::{named, parsed};
use crate::picture::{Heatmap, save};
use crate::point_options::{HEADERS, SCALES};
use crate::run_folder::{begin_run, clear_run, write_run};
use crate::signal::interrupt;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// What happens to missing values.
const GAPS: [(&str, &str); 3] = [
    ("error", "Missing numbers are refused"),
    ("drop-rows", "Rows with missing numbers are left out and counted"),
    ("drop-columns", "Columns with missing numbers are left out and named"),
];

/// What makes the command end with exit code 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A comparison whose p-value, adjusted for the number of files, is at most --alpha
    Drift,
}

/// Whether two tables differ, how sure that is, and in which columns and pairs of columns
///
/// The test is exact for any distribution and any number of rows: if both tables come from one distribution, p ≤ alpha has a
/// probability of at most alpha. Columns of numbers are compared; the values of text columns are counted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rot compare before.csv after.csv
  rot compare january.csv february.csv march.csv --drop id --fail-on drift
  rot compare batch1.csv batch2.csv --by gas --group-by prefix --run runs/drift && rot report runs/drift")]
pub struct Compare {
    /// Table of rows before (.csv, .tsv, .parquet, .npy, or - for standard input)
    before: PathBuf,
    /// Tables of rows after; each is compared with BEFORE
    #[arg(required = true, num_args = 1.., value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Columns to compare, by name or, without a header, by number from 1; * and ? match any text and any character
    /// [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tables")]
    columns: Vec<String>,
    /// Columns to leave out, after --columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tables")]
    drop: Vec<String>,
    /// Whether the first line of a table names the columns
    #[arg(long, value_parser = named::<Header>(&HEADERS), default_value = Header::default().name(), help_heading = "Tables")]
    header: Header,
    /// What happens to missing numbers
    #[arg(long, value_parser = named::<Gaps>(&GAPS), default_value = Gaps::default().name(), help_heading = "Tables")]
    missing: Gaps,
    /// Scale of the columns, by the rows of both tables
    #[arg(long, value_parser = named::<Scale>(&SCALES), default_value = CompareSettings::default().scale.name(), help_heading = "Tables")]
    scale: Scale,
    /// Judge groups of columns as well: prefix (the name up to the last _, -, . or :), a regular expression whose first
    /// parentheses match the group ('^(s[0-9]+)_'), or a file with lines of column, group
    #[arg(long, value_name = "prefix|REGEX|FILE", help_heading = "Tables")]
    group_by: Option<String>,
    /// Compare within each value of this column, and all values together
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pairs", "strata", "blocks"], help_heading = "Test")]
    by: Option<String>,
    /// Row i of one table and row i of the other belong together, such as two measurements of one patient
    #[arg(long, conflicts_with_all = ["strata", "blocks"], help_heading = "Test")]
    pairs: bool,
    /// Rows change sides only within the values of this column
    #[arg(long, value_name = "NAME", conflicts_with = "blocks", help_heading = "Test")]
    strata: Option<String>,
    /// Rows with one value of this column stay together, such as repeated measurements of one patient
    #[arg(long, value_name = "NAME", help_heading = "Test")]
    blocks: Option<String>,
    /// Use one robust distance as the statistic, such as p, w2, srw:k=2 or features:lambda=0.1
    /// [default: the weighted harmonic mean of the p-values of five statistics]
    #[arg(long, value_name = "SET", value_parser = parsed::<MetricSet>, help_heading = "Test")]
    metric: Option<MetricSet>,
    /// Number of random arrangements; all there are, if they are no more
    #[arg(long, value_name = "N", default_value_t = CompareSettings::default().permutations, allow_negative_numbers = true, help_heading = "Test")]
    permutations: usize,
    /// Level below which a difference is called one
    #[arg(long, value_name = "X", default_value_t = CompareSettings::default().alpha, allow_negative_numbers = true, help_heading = "Test")]
    alpha: f64,
    /// Seed of the arrangements
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Test")]
    seed: u64,
    /// Rows of each table that are used; of more, a random choice
    #[arg(long, value_name = "N", default_value_t = CompareSettings::default().max_rows, allow_negative_numbers = true, help_heading = "Test")]
    max_rows: usize,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Test")]
    threads: Option<usize>,
    /// End with exit code 3 if a table differs
    #[arg(long, value_enum, help_heading = "Output")]
    fail_on: Option<FailOn>,
    /// Draw the statistics of the columns in every file: .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    heatmap: Option<PathBuf>,
    /// Write everything that was found to this folder, for `rot report`
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    run: Option<PathBuf>,
    /// Print only one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// One AFTER table against BEFORE.
struct Compared {
    path: PathBuf,
    found: Comparison,
    /// The p-value adjusted for the number of files.
    adjusted: f64,
    /// The values of the column of --by.
    within: Vec<Within>,
    left_out: Vec<(String, String)>,
    missing_rows: [usize; 2],
}

impl Compare {
    /// Reads the tables, compares them, writes the files and prints what was found.
    pub fn run(&self, command: &str) -> Result<(), Failure> {
        self.threads.map_or(Ok(()), set_threads)?;
        let settings = CompareSettings {
            statistic: self.metric.clone().map_or(Statistic::Family, Statistic::Distance),
            permutations: self.permutations,
            alpha: self.alpha,
            scale: self.scale,
            max_rows: self.max_rows,
            seed: self.seed,
            ..CompareSettings::default()
        };
        settings.check()?;
        self.heatmap.as_deref().map_or(Ok(()), |path| check_writable("--heatmap", path, &["svg", "png"]))?;
        let mut inputs: Vec<&Path> = vec![&self.before];
        inputs.extend(self.after.iter().map(PathBuf::as_path));
        if inputs.iter().filter(|path| path.as_os_str() == STANDARD_INPUT).count() > 1 {
            let message = "- must be only one of the tables, but standard input is given twice";
            return Err(Failure::Input(message.into()));
        }
        check_distinct(&inputs, &[("--heatmap", self.heatmap.as_deref())])?;
        let choice = self.choice()?;
        self.run.as_deref().map_or(Ok(()), begin_run)?;
        let before = self.read(&self.before)?;
        let mut all = Vec::new();
        for path in &self.after {
            all.push(self.compare_with(&before, path, &choice, &settings)?);
        }
        let p_values: Vec<f64> = all.iter().map(|one| one.found.p_value).collect();
        for (one, adjusted) in all.iter_mut().zip(holm(&p_values)) {
            one.adjusted = adjusted;
        }
        // Files first: the reader of standard output may close it early.
        if let Some(path) = &self.heatmap {
            let (matrix, columns) = changes(&all);
            let labels: Vec<String> = all.iter().map(Compared::label).collect();
            let title = "Change of each column, in standard deviations beyond chance";
            let heatmap =
                Heatmap { matrix: &matrix, rows: &columns, columns: &labels, title, plain_diagonal: false };
            save(&heatmap, path)?;
        }
        if let Some(folder) = &self.run {
            clear_run(folder)?;
            write_run(folder, self.run_json(&all), command)?;
        }
        let mut out = io::stdout().lock();
        if self.json {
            writeln!(out, "{}", self.json(&all))?;
        } else {
            print::print(&mut out, &self.before, &all, self.alpha)?;
        }
        drop(out);
        let drifted = all.iter().filter(|one| one.adjusted <= self.alpha).count();
        if self.fail_on == Some(FailOn::Drift) && drifted > 0 {
            let what = match &all[..] {
                [one] => format!("{} differs from {}", one.path.display(), self.before.display()),
                all => format!("{drifted} of {} tables differ from {}", all.len(), self.before.display()),
            };
            return Err(Failure::Drift(format!("{what} at level {}", self.alpha)));
        }
        Ok(())
    }

    /// Which parts of the tables are compared.
    fn choice(&self) -> Result<TableChoice, Failure> {
        let design = match (&self.by, self.pairs, &self.strata, &self.blocks) {
            (Some(name), ..) => Design::By(name.clone()),
            (_, true, ..) => Design::Pairs,
            (.., Some(name), _) => Design::Strata(name.clone()),
            (.., Some(name)) => Design::Blocks(name.clone()),
            _ => Design::Free,
        };
        Ok(TableChoice {
            columns: self.columns.clone(),
            drop: self.drop.clone(),
            gaps: self.missing,
            group_by: match self.group_by.as_deref() {
                None => GroupBy::None,
                // What is neither a file nor looks like a regular expression is the name of a missing file.
                Some(rule) if rule == "prefix" || !(Path::new(rule).exists() || is_plain(rule)) => {
                    rule.parse()?
                }
                Some(file) => GroupBy::Map(read_group_names(Path::new(file))?),
            },
            design,
        })
    }

    fn read(&self, path: &Path) -> Result<MixedTable, Failure> {
        let table = if path.as_os_str() == STANDARD_INPUT {
            MixedTable::read(Box::new(BufReader::new(io::stdin())), path, self.header)?
        } else {
            MixedTable::open(path, self.header)?
        };
        if table.has_index {
            say!("rot: note: the first column of {} is taken for an index and left out", path.display());
        }
        Ok(table)
    }

    fn compare_with(
        &self,
        before: &MixedTable,
        path: &Path,
        choice: &TableChoice,
        settings: &CompareSettings,
    ) -> Result<Compared, Failure> {
        let after = self.read(path)?;
        let place = format!("{} and {}", self.before.display(), path.display());
        let about = |error| Failure::about(&place, &error);
        let loaded = load((&self.before, before), (path, &after), choice).map_err(about)?;
        let Loaded { samples, exchange, by, left_out, missing_rows, .. } = loaded;
        for ((place, table), rows) in [(&*self.before, before), (path, &after)].into_iter().zip(&missing_rows)
        {
            if !rows.is_empty() {
                let (place, gaps, all) = (place.display(), rows.len(), table.rows);
                say!("rot: note: {place}: {gaps} of {all} rows have missing values and are left out");
            }
        }
        let interrupt = interrupt();
        let rounds = if settings.statistic == Statistic::Family { 2 } else { 3 };
        let bar = progress_bar(rounds * (settings.permutations + 1), by.is_some());
        let done = |more: usize| bar.inc(more as u64);
        let found = if let Some(values) = &by {
            compare_within(&samples, values, settings, &interrupt, &done).map_err(about)?
        } else {
            let settings = CompareSettings { exchange, ..settings.clone() };
            let found = compare(&samples, &settings, &interrupt, &done).map_err(about)?;
            found.map(|found| (found, Vec::new()))
        };
        bar.finish_and_clear();
        let Some((found, within)) = found else {
            return Err(Failure::Interrupted(format!("interrupted while comparing {place}; no result")));
        };
        let missing_rows = missing_rows.map(|rows| rows.len());
        Ok(Compared { path: path.to_owned(), adjusted: found.p_value, found, within, left_out, missing_rows })
    }

    /// One object for one AFTER table, else one with a list.
    fn json(&self, all: &[Compared]) -> Value {
        match all {
            [one] => Value::Object(one.json()),
            all => json!({
                "before": self.before.display().to_string(),
                "comparisons": all.iter().map(Compared::json).collect::<Vec<_>>(),
            }),
        }
    }

    /// Everything that the report shows.
    fn run_json(&self, all: &[Compared]) -> Value {
        let one = |one: &Compared| {
            let mut object = one.json();
            let null = one.found.parts.iter().map(|part| (part.name.to_owned(), json!(part.arrangements)));
            object.insert("arrangements".into(), Value::Object(null.collect()));
            if let Some(weights) = &one.found.weights {
                let rows = weights.rows().into_iter().map(|row| row.to_vec());
                object.insert("weights".into(), rows.collect::<Vec<_>>().into());
            }
            object
        };
        json!({
            "kind": "comparison",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine(),
            "before": self.before.display().to_string(),
            "comparisons": all.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    /// The file name without folder and extension.
    fn label(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn json(&self) -> Map<String, Value> {
        let mut object = object_of(&self.found);
        object.insert("after".into(), json!(self.path.display().to_string()));
        object.insert("adjusted_p_value".into(), json!(self.adjusted));
        let left_out = self.left_out.iter().map(|(name, why)| json!({"name": name, "reason": why}));
        object.insert("left_out_columns".into(), left_out.collect());
        object.insert("missing_rows".into(), json!(self.missing_rows));
        if !self.within.is_empty() {
            let within = self.within.iter().map(|within| {
                let mut one = match &within.comparison {
                    None => Map::new(),
                    Some((found, adjusted)) => {
                        let mut one = object_of(found);
                        one.insert("adjusted_p_value".into(), json!(adjusted));
                        one
                    }
                };
                one.insert("value".into(), json!(within.value));
                one.insert("rows_given".into(), json!(within.rows));
                Value::Object(one)
            });
            object.insert("within".into(), within.collect());
        }
        object
    }
}

fn object_of(found: &Comparison) -> Map<String, Value> {
    match serde_json::to_value(found) {
        Ok(Value::Object(object)) => object,
        // A comparison is a structure of numbers and text, whose serialization cannot fail.
        _ => Map::new(),
    }
}

/// Whether a text has none of the characters that only regular expressions are likely to have.
fn is_plain(rule: &str) -> bool {
    !rule.contains(['(', '[', '^', '$', '*', '+', '?', '|', '\\'])
}

/// Reads lines of column, group.
fn read_group_names(path: &Path) -> Result<HashMap<String, String>, Failure> {
    let table = MixedTable::open(path, Header::No)?;
    let [column, group] = &table.columns[..] else {
        return Err(Failure::Input(format!(
            "--group-by must be prefix, a regular expression or a file with lines of column, group, but {} has {} columns",
            path.display(),
            table.columns.len()
        )));
    };
    let known = |row: &usize| !matches!(group.cells, Cells::Missing(_)) && !group.is_missing(*row);
    Ok((0..table.rows).filter(known).map(|row| (column.text(row), group.text(row))).collect())
}

fn progress_bar(arrangements: usize, open_ended: bool) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    if open_ended {
        let style = ProgressStyle::with_template("{spinner} {pos} arrangements, {per_sec}");
        return ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    }
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left");
    ProgressBar::new(arrangements as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The statistics of the columns (rows) in every file (columns), in standard deviations.
fn changes(all: &[Compared]) -> (Array2<f64>, Vec<String>) {
    let columns = all.first().map_or_else(Vec::new, |one| one.found.columns.clone());
    let at = |one: &Compared, name: &String| {
        one.found.features.iter().find(|feature| feature.name == *name).map_or(0.0, |f| f.statistic)
    };
    let changes =
        Array2::from_shape_fn((columns.len(), all.len()), |(row, file)| at(&all[file], &columns[row]));
    (changes, columns)
}
