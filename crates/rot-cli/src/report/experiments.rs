//! The report page of the paper's experiments.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::page::Page;
use crate::failure::Failure;
use crate::picture::Dots;
use crate::reproduce::contours::Contours;
use crate::reproduce::experiment::{Experiment, Part};
use crate::reproduce::lines::Results;
use crate::reproduce::movies::Movies;
use crate::reproduce::table::tables;
use crate::reproduce::timing::{Timing, growth};
use crate::reproduce::{Kind, QUICK};

/// Adds every experiment in a folder that has results.
pub fn add(folder: &Path, page: &mut Page) -> Result<(), Failure> {
    let fail = |path: &Path, error: std::io::Error| Failure::Input(format!("{}: {error}", path.display()));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| fail(folder, error))? {
        let path = entry.map_err(|error| fail(folder, error))?.path();
        if path.extension().is_some_and(|ending| ending == "toml") && path.with_extension("jsonl").exists() {
            files.push(path);
        }
    }
    // Tables, then figures, then the rest.
    files.sort_by_key(|path| {
        let name = name_of(path);
        (!name.starts_with("table"), !name.starts_with("figure"), name)
    });
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| fail(&path, error))?;
        let (name, results) = (name_of(&path), Results::read(&path.with_extension("jsonl"))?);
        match Kind::of(&path.display().to_string(), &text)? {
            Kind::Training(experiment) => add_tables(&name, &experiment, &results, page)?,
            Kind::Movies(movies) => add_movies(&name, &movies, &results, page)?,
            Kind::Contours(contours) => add_contours(&name, &contours, &results, page)?,
            Kind::Timing(timing) if name.ends_with(QUICK) => {
                add_timing(&name, &timing.quick(), &results, page)?;
            }
            Kind::Timing(timing) => add_timing(&name, &timing, &results, page)?,
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// The versions, machines and numbers of threads behind the results.
fn provenance(results: &Results) -> [(&'static str, String); 3] {
    let all = |key: &str| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = results.all().map(|line| &line[key]).filter(|value| !value.is_null());
        let found: BTreeSet<String> = values.map(text).collect();
        found.into_iter().collect::<Vec<_>>().join("; ")
    };
    [("version", all("version")), ("machine", all("machine")), ("threads", all("threads"))]
}

fn add_tables(
    name: &str,
    experiment: &Experiment,
    results: &Results,
    page: &mut Page,
) -> Result<(), Failure> {
    let part = Part { quick: name.ends_with(QUICK), ..Part::default() };
    page.section(&experiment.title);
    if part.quick {
        let quick = &experiment.quick;
        page.paragraph(&format!(
            "Reduced budget: at most {} epochs, seeds {:?}, the first option of every grid. These numbers show that \
             everything runs, and little more.",
            quick.epochs, quick.seeds
        ));
    }
    page.facts(&provenance(results));
    for table in tables(experiment, &part, results) {
        page.heading(&table.title());
        page.paragraph(&table.differs());
        page.facts(&[
            ("data", table.data.options_for(table.protocol)),
            ("protocol", experiment.protocols.get(table.protocol).cloned().unwrap_or_default()),
            ("seeds", format!("{:?} of --{}", table.seeds, experiment.varies)),
        ]);
        let header = table.header();
        page.whole_table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &table.cells());
        let title = format!("AUC, {}", table.title());
        let file = format!("{name}-{}-{}", table.data.name, table.protocol);
        page.picture(&Dots { title: &title, dots: &table.dots() }, &file, &title)?;
    }
    Ok(())
}

fn add_movies(name: &str, movies: &Movies, results: &Results, page: &mut Page) -> Result<(), Failure> {
    page.section(&movies.title);
    page.paragraph(&movies.differs);
    page.facts(&provenance(results));
    for table in movies.tables(results) {
        page.heading(&table.method.name);
        page.whole_table(&table.header(), &table.cells());
        page.paragraph(&table.facts());
        let caption = format!("{}, each column divided by its maximum", table.method.name);
        page.picture(&table.heatmap(), &format!("{name}-{}", table.file_name()), &caption)?;
    }
    Ok(())
}

fn add_contours(name: &str, contours: &Contours, results: &Results, page: &mut Page) -> Result<(), Failure> {
    let Some(panels) = contours.panels(results) else { return Ok(()) };
    page.section(&contours.title);
    page.paragraph(&contours.differs);
    page.facts(&provenance(results));
    page.picture(&panels, name, "Lines of equal loss over predictions for three labels")?;
    panels.facts().iter().for_each(|fact| page.paragraph(fact));
    Ok(())
}

fn add_timing(name: &str, timing: &Timing, results: &Results, page: &mut Page) -> Result<(), Failure> {
    page.section(&timing.title);
    page.paragraph(&timing.differs);
    let mut facts = vec![
        ("data", timing.data.clone()),
        ("each value", format!("the median of {} epochs", timing.epochs)),
    ];
    facts.extend(provenance(results));
    page.facts(&facts);
    for chart in &timing.chart {
        let curves = timing.curves(chart, results);
        page.picture(
            &chart.drawing(&curves),
            &format!("{name}-{}", chart.name),
            &format!("Seconds per epoch by {}", chart.x),
        )?;
        let rows: Vec<Vec<String>> =
            curves.iter().map(|curve| vec![curve.name.clone(), growth(curve, &chart.x)]).collect();
        page.whole_table(&["loss", "seconds per epoch"], &rows);
    }
    Ok(())
}
