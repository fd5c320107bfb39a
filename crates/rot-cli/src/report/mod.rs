//! `rot report`: writes the contents of a run folder as one self-contained page.

mod comparison;
mod distance;
mod experiments;
mod model;
mod page;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use ndarray::Array2;
use robust_ot_learn::data::write_atomic;
use serde_json::Value;

use self::page::Page;
use crate::failure::Failure;
use crate::output::{check_writable, write_failure};
use crate::run_folder::{PAGE, RUN};

/// Write a page about a run: a trained model, a distance, a comparison, or the paper's experiments
///
/// The page is one HTML file that loads nothing from elsewhere. Its pictures are also written next to it, as SVG and PNG.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rot train … --run runs/tags && rot report runs/tags\n  \
    rot distance before.csv after.csv --run runs/drift && rot report runs/drift\n  \
    rot reproduce table1 --data DATA --out runs/paper && rot report runs/paper")]
pub struct Report {
    /// The folder passed to rot train --run, rot distance --run, rot compare --run or rot reproduce --out
    #[arg(value_name = "RUN_DIR")]
    folder: PathBuf,
    /// The page to write [default: RUN_DIR/report.html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Report {
    /// Reads the folder and writes the page and its pictures.
    pub fn run(&self) -> Result<(), Failure> {
        if !self.folder.is_dir() {
            return Err(Failure::Input(format!(
                "RUN_DIR must be a folder, but '{}' is not",
                self.folder.display()
            )));
        }
        let path = self.out.clone().unwrap_or_else(|| self.folder.join(PAGE));
        check_writable(if self.out.is_some() { "--out" } else { "RUN_DIR" }, &path, &["html", "htm"])?;
        let place = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let title = place.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut page = Page::new(&title, beside.unwrap_or(Path::new(".")));
        if self.folder.join(RUN).exists() {
            let run = read_run(&self.folder.join(RUN))?;
            match run["kind"].as_str() {
                Some("model") => model::add(&run, &mut page)?,
                Some("distance") => distance::add(&run, &mut page)?,
                Some("comparison") => comparison::add(&run, &mut page)?,
                other => {
                    let (place, kind) = (self.folder.join(RUN), other.unwrap_or("nothing"));
                    return Err(Failure::Input(format!(
                        "{}: kind must be model, distance or comparison, but is {kind}",
                        place.display()
                    )));
                }
            }
        }
        experiments::add(&self.folder, &mut page)?;
        if page.is_empty() {
            return Err(Failure::Input(format!(
                "{}: must have {RUN} or results of rot reproduce, but has neither",
                self.folder.display()
            )));
        }
        let text = page.finish();
        write_atomic(&path, |file| file.write_all(text.as_bytes())).map_err(write_failure)?;
        writeln!(io::stdout().lock(), "page: {}", path.display())?;
        Ok(())
    }
}

fn read_run(path: &Path) -> Result<Value, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| fail(&error))?;
    serde_json::from_str(&text).map_err(|error| fail(&error))
}

/// The numbers of a list; anything else becomes NaN.
fn numbers(list: &Value) -> Vec<f64> {
    let number = |x: &Value| x.as_f64().unwrap_or(f64::NAN);
    list.as_array().map_or_else(Vec::new, |list| list.iter().map(number).collect())
}

/// The strings of a list; anything else becomes empty.
fn words(list: &Value) -> Vec<String> {
    let word = |x: &Value| x.as_str().unwrap_or("").to_owned();
    list.as_array().map_or_else(Vec::new, |list| list.iter().map(word).collect())
}

/// A list of rows as a square matrix, or None if it is not square.
fn matrix(rows: &Value) -> Option<Array2<f64>> {
    let rows: Vec<Vec<f64>> = rows.as_array()?.iter().map(numbers).collect();
    let n = rows.len();
    (n > 0 && rows.iter().all(|row| row.len() == n))
        .then(|| Array2::from_shape_fn((n, n), |(i, j)| rows[i][j]))
}
