//! The report page of a comparison of tables.

mod sections;
mod words;

use ndarray::Array2;
use serde_json::Value;

use self::words::{list, number, p_text, stem, text};
use super::page::Page;
use crate::failure::Failure;
use crate::output::readable;
use crate::picture::Heatmap;

/// Columns drawn as histograms and as pairs.
const DRAWN: usize = 12;

/// Adds every comparison of a run.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let all: Vec<&Value> = list(run, "comparisons").collect();
    if let Some(found) = all.iter().find(|found| !found["p_value"].is_number()) {
        return Err(Failure::Input(format!(
            "run.json: p_value must be a number, but is {}",
            found["p_value"]
        )));
    }
    let before = text(&run["before"]);
    if all.len() > 1 {
        add_overview(&before, &all, page)?;
    }
    for (number, found) in all.iter().enumerate() {
        let suffix = if all.len() > 1 { format!("-{}", number + 1) } else { String::new() };
        sections::add_one(&before, found, &suffix, page)?;
    }
    page.provenance(run);
    Ok(())
}

/// Several tables against the same one.
fn add_overview(before: &str, all: &[&Value], page: &mut Page) -> Result<(), Failure> {
    page.section("Over the tables");
    let row = |found: &&Value| {
        let adjusted = number(&found["adjusted_p_value"]);
        let differs = adjusted <= number(&found["alpha"]);
        vec![
            text(&found["after"]),
            found["rows_given"][1].to_string(),
            found["distance"][0].as_f64().map_or_else(String::new, readable),
            p_text(&found["p_value"]),
            p_text(&found["adjusted_p_value"]),
            if differs { "differs".into() } else { "no difference found".into() },
        ]
    };
    page.paragraph(&format!(
        "Each table against {before}. Adjusted p-values account for the number of tables (Holm)."
    ));
    page.table(
        &["table", "rows", "distance", "p", "adjusted p", "verdict"],
        &all.iter().map(row).collect::<Vec<_>>(),
    );
    let columns = super::words(&all[0]["columns"]);
    add_changes("features", columns, all, "over-tables", page)?;
    let groups: Vec<String> = list(all[0], "groups").map(|group| text(&group["name"])).collect();
    if groups.is_empty() { Ok(()) } else { add_changes("groups", groups, all, "groups-over-tables", page) }
}

/// How far columns or groups are beyond chance in each table, those that change most.
fn add_changes(
    kind: &str,
    mut names: Vec<String>,
    all: &[&Value],
    file: &str,
    page: &mut Page,
) -> Result<(), Failure> {
    let of = |found: &Value, name: &str| {
        list(found, kind).find(|one| one["name"] == name).map_or(0.0, |one| number(&one["statistic"]))
    };
    let largest = |name: &str| all.iter().map(|found| of(found, name)).fold(f64::NEG_INFINITY, f64::max);
    names.sort_by(|x, y| largest(y).total_cmp(&largest(x)));
    names.truncate(3 * DRAWN);
    let matrix = Array2::from_shape_fn((names.len(), all.len()), |(row, file)| of(all[file], &names[row]));
    let tables: Vec<String> = all.iter().map(|found| stem(&text(&found["after"]))).collect();
    let title = "Standard deviations beyond chance";
    let heatmap = Heatmap { matrix: &matrix, rows: &names, columns: &tables, title, plain_diagonal: false };
    let what = if kind == "groups" { "group" } else { "column" };
    let caption = format!("How far each {what} is beyond chance, for the {what}s that change most");
    page.picture(&heatmap, file, &caption)
}
