//! The report page of a comparison of tables.

use ndarray::Array2;
use serde_json::Value;

use super::page::Page;
use super::{numbers, words};
use crate::failure::Failure;
use crate::output;
use crate::picture::{Heatmap, Panel, Panels};

/// Columns drawn as histograms and as pairs.
const DRAWN: usize = 12;
/// Rows of each table.
const LISTED: usize = 25;
/// Bins of the statistics under exchanged rows.
const BINS: usize = 30;

/// Adds every comparison of a run.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let all: Vec<&Value> = run["comparisons"].as_array().into_iter().flatten().collect();
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
        add_one(&before, found, &suffix, page)?;
    }
    page.section("This run");
    page.facts(&[
        ("command", text(&run["command"])),
        ("version", text(&run["version"])),
        ("machine", text(&run["machine"])),
    ]);
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
            p_text(&found["p_value"]),
            p_text(&found["adjusted_p_value"]),
            if differs { "differs".into() } else { "no difference found".into() },
        ]
    };
    page.paragraph(&format!(
        "Each table against {before}. Adjusted p-values account for the number of tables (Holm)."
    ));
    page.table(&["table", "rows", "p", "adjusted p", "verdict"], &all.iter().map(row).collect::<Vec<_>>());
    let names = words(&all[0]["columns"]);
    let of = |found: &Value, name: &str| {
        let mut features = found["features"].as_array().into_iter().flatten();
        features.find(|feature| feature["name"] == name).map_or(0.0, |feature| number(&feature["statistic"]))
    };
    let mut order: Vec<&String> = names.iter().collect();
    let largest = |name: &str| all.iter().map(|found| of(found, name)).fold(f64::NEG_INFINITY, f64::max);
    order.sort_by(|x, y| largest(y).total_cmp(&largest(x)));
    order.truncate(3 * DRAWN);
    let matrix = Array2::from_shape_fn((order.len(), all.len()), |(row, file)| of(all[file], order[row]));
    let rows: Vec<String> = order.into_iter().cloned().collect();
    let columns: Vec<String> = all.iter().map(|found| stem(&text(&found["after"]))).collect();
    let title = "Standard deviations beyond chance";
    let heatmap = Heatmap { matrix: &matrix, rows: &rows, columns: &columns, title, plain_diagonal: false };
    page.picture(
        &heatmap,
        "over-tables",
        "How far each column is beyond chance, for the columns that change most",
    )
}

fn add_one(before: &str, found: &Value, suffix: &str, page: &mut Page) -> Result<(), Failure> {
    let after = text(&found["after"]);
    page.section(&format!("From {} to {}", stem(before), stem(&after)));
    let differs = found["differs"] == true;
    let p = p_text(&found["p_value"]);
    page.paragraph(&if differs {
        format!("The tables differ, p = {p}: {}", summary(found))
    } else {
        format!("No difference found, p = {p}. A difference that is small, or of a kind that the statistics do not see, may exist.")
    });
    let part = |part: &Value| format!("{} {}", text(&part["name"]), p_text(&part["p_value"]));
    let parts: Vec<String> = found["parts"].as_array().into_iter().flatten().map(part).collect();
    let left_out = found["left_out_columns"].as_array().into_iter().flatten();
    let mut left_out: Vec<String> =
        left_out.map(|one| format!("{} ({})", text(&one["name"]), text(&one["reason"]))).collect();
    left_out.extend(words(&found["constant_columns"]).into_iter().map(|name| format!("{name} (constant)")));
    page.facts(&[
        ("before", format!("{before}, {} rows", found["rows_given"][0])),
        ("after", format!("{after}, {} rows", found["rows_given"][1])),
        ("rows used", format!("{} and {}", found["rows"][0], found["rows"][1])),
        (
            "arrangements",
            format!(
                "{} {}",
                found["permutations"],
                if found["exhaustive"] == true { "(all)" } else { "at random" }
            ),
        ),
        ("statistic", text(&found["statistic"])),
        ("p alone", parts.join(", ")),
        ("left out", left_out.join(", ")),
    ]);
    let nulls: Vec<Panel> = found["arrangements"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, all)| null(name, &numbers(all), found))
        .collect();
    if !nulls.is_empty() {
        page.heading("What chance gives");
        let title = "Statistics under exchanged rows";
        let panels = Panels { title, samples: &["exchanged rows"], mark: Some("observed"), all: &nulls };
        page.picture(
            &panels,
            &format!("chance{suffix}"),
            "Each statistic for random arrangements of the rows, and for the observed one",
        )?;
    }
    let features: Vec<&Value> = found["features"].as_array().into_iter().flatten().collect();
    if !features.is_empty() {
        page.heading("Columns");
        let panels: Vec<Panel> = features.iter().take(DRAWN).map(|feature| histogram(feature)).collect();
        let title = "Columns that changed most";
        let panels = Panels { title, samples: &["before", "after"], mark: None, all: &panels };
        page.picture(
            &panels,
            &format!("columns{suffix}"),
            "Shares of rows before and after, by adjusted p-value",
        )?;
        let row = |feature: &&Value| {
            vec![
                text(&feature["name"]),
                p_text(&feature["p_value"]),
                p_text(&feature["unadjusted"]),
                change(&feature["change"]),
                weight(feature),
            ]
        };
        page.table(
            &["column", "p", "p alone", "change", "weight beyond chance"],
            &features.iter().take(LISTED).map(row).collect::<Vec<_>>(),
        );
        more(page, features.len(), "columns");
    }
    add_pairs(found, &features, suffix, page)?;
    let groups: Vec<Vec<String>> = found["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|group| {
            vec![
                text(&group["name"]),
                p_text(&group["p_value"]),
                format!("{:.1}", number(&group["statistic"])),
                words(&group["columns"]).join(", "),
            ]
        })
        .collect();
    if !groups.is_empty() {
        page.heading("Groups");
        page.table(&["group", "p", "beyond chance", "columns"], &groups[..groups.len().min(LISTED)]);
        more(page, groups.len(), "groups");
    }
    for category in found["categories"].as_array().into_iter().flatten() {
        page.heading(&format!("Values of {}, p = {}", text(&category["name"]), p_text(&category["p_value"])));
        let percent = |share: &Value, side: usize| {
            let count = number(&share[["before", "after"][side]]);
            if count == 0.0 {
                "none".into()
            } else {
                format!("{:.1} %", 100.0 * count / number(&found["rows"][side]))
            }
        };
        let rows: Vec<Vec<String>> = category["shares"]
            .as_array()
            .into_iter()
            .flatten()
            .take(LISTED)
            .map(|share| vec![text(&share["value"]), percent(share, 0), percent(share, 1)])
            .collect();
        page.table(&["value", "before", "after"], &rows);
    }
    let within: Vec<Vec<String>> = found["within"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let changed = one["features"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|feature| number(&feature["p_value"]) <= number(&found["alpha"]));
            let names: Vec<String> = changed.take(DRAWN).map(|feature| text(&feature["name"])).collect();
            let p = if one["p_value"].is_number() {
                p_text(&one["adjusted_p_value"])
            } else {
                "not compared".into()
            };
            vec![
                text(&one["value"]),
                format!("{} → {}", one["rows_given"][0], one["rows_given"][1]),
                p,
                names.join(", "),
            ]
        })
        .collect();
    if !within.is_empty() {
        page.heading("Within each value");
        page.table(&["value", "rows", "p", "changed most"], &within);
    }
    let moved: Vec<Vec<String>> = found["moved"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|moved| {
            let row = |side: &str| format!("row {}", number(&moved[side]) + 1.0);
            vec![row("before"), row("after"), format!("{:.2}", number(&moved["distance"]))]
        })
        .collect();
    if differs && !moved.is_empty() {
        page.heading("Rows that move farthest");
        page.paragraph(
            "Counterparts under a transport plan between the scaled tables (of at most 400 rows each).",
        );
        page.table(&["before", "after", "distance"], &moved);
    }
    Ok(())
}

/// Pairs among the columns drawn, and the pairs that changed most.
fn add_pairs(found: &Value, features: &[&Value], suffix: &str, page: &mut Page) -> Result<(), Failure> {
    let pairs: Vec<&Value> = found["pairs"].as_array().into_iter().flatten().collect();
    if pairs.is_empty() {
        return Ok(());
    }
    page.heading("Pairs of columns");
    let mut names: Vec<String> = Vec::new();
    for name in
        pairs.iter().flat_map(|pair| words(&pair["names"])).chain(features.iter().map(|f| text(&f["name"])))
    {
        if names.len() < DRAWN && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut matrix = Array2::zeros((names.len(), names.len()));
    for pair in &pairs {
        let both: Vec<Option<usize>> =
            words(&pair["names"]).iter().map(|name| names.iter().position(|known| known == name)).collect();
        if let [Some(a), Some(b)] = both[..] {
            let statistic = number(&pair["statistic"]);
            (matrix[[a, b]], matrix[[b, a]]) = (statistic, statistic);
        }
    }
    let title = "Change of correlations, in standard deviations beyond chance";
    let heatmap = Heatmap { matrix: &matrix, rows: &names, columns: &names, title, plain_diagonal: true };
    page.picture(
        &heatmap,
        &format!("pairs{suffix}"),
        "Change of the correlation of each pair, for the pairs that changed most",
    )?;
    let row = |pair: &&Value| {
        vec![
            words(&pair["names"]).join(" with "),
            p_text(&pair["p_value"]),
            p_text(&pair["unadjusted"]),
            correlations(&pair["change"]),
            weight(pair),
        ]
    };
    page.table(
        &["pair", "p", "p alone", "correlation", "weight beyond chance"],
        &pairs.iter().take(LISTED).map(row).collect::<Vec<_>>(),
    );
    more(page, pairs.len(), "pairs");
    Ok(())
}

fn more(page: &mut Page, count: usize, what: &str) {
    if count > LISTED {
        page.paragraph(&format!("{} more {what} are in run.json.", count - LISTED));
    }
}

/// What changed, in a sentence.
fn summary(found: &Value) -> String {
    let alpha = number(&found["alpha"]);
    let changed = |kind: &str| -> Vec<&Value> {
        found[kind].as_array().into_iter().flatten().filter(|one| number(&one["p_value"]) <= alpha).collect()
    };
    let (columns, pairs) = (changed("features"), changed("pairs"));
    let mut parts = Vec::new();
    if let Some(first) = columns.first() {
        let (count, all) = (columns.len(), words(&found["columns"]).len());
        parts.push(format!(
            "{count} of {all} columns changed, most of all {} ({})",
            text(&first["name"]),
            change(&first["change"])
        ));
    }
    if let Some(first) = pairs.first() {
        parts.push(format!(
            "the pair that changed most is {} ({})",
            words(&first["names"]).join(" with "),
            correlations(&first["change"])
        ));
    }
    if parts.is_empty() {
        "no single column or pair stands out.".into()
    } else {
        format!("{}.", parts.join("; "))
    }
}

/// The statistic of random arrangements, with the observed one.
fn null(name: &str, all: &[f64], found: &Value) -> Panel {
    let (observed, others) = all.split_first().map_or((f64::NAN, all), |(first, others)| (*first, others));
    let (low, high) =
        all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    let mut shares = vec![0.0; BINS];
    for value in others {
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        shares[((part * BINS as f64) as usize).min(BINS - 1)] += 1.0 / others.len() as f64;
    }
    let mut parts = found["parts"].as_array().into_iter().flatten();
    let p = parts
        .find(|part| part["name"] == name)
        .map_or_else(String::new, |part| format!("p = {}", p_text(&part["p_value"])));
    Panel {
        title: name.to_owned(),
        caption: p,
        range: (low, high),
        samples: vec![shares],
        mark: Some(observed),
    }
}

fn histogram(feature: &Value) -> Panel {
    let bins = &feature["histogram"];
    Panel {
        title: text(&feature["name"]),
        caption: format!("p = {}, {}", p_text(&feature["p_value"]), change(&feature["change"])),
        range: (number(&bins["low"]), number(&bins["high"])),
        samples: vec![numbers(&bins["before"]), numbers(&bins["after"])],
        mark: None,
    }
}

/// The change of a column in words.
fn change(change: &Value) -> String {
    let estimate = |of: &Value| [number(&of["value"]), number(&of["low"]), number(&of["high"])];
    let ([shift, low, high], [ratio, least, most]) = (estimate(&change["mean"]), estimate(&change["spread"]));
    match change["kind"].as_str() {
        Some("spread") => format!("spread × {ratio:.2} [{least:.2}, {most:.2}]"),
        Some("tail") => {
            let tails = numbers(&change["tails"]);
            let part = |at: usize| 100.0 * tails.get(at).copied().unwrap_or(f64::NAN);
            format!("extreme values {:.1} % → {:.1} %", part(0), part(1))
        }
        Some("shape") if ratio.is_finite() => format!("shape; mean {shift:+.2} sd, spread × {ratio:.2}"),
        _ => format!("mean {shift:+.2} sd [{low:+.2}, {high:+.2}]"),
    }
}

fn correlations(change: &Value) -> String {
    let [before, after] = ["before", "after"].map(|side| number(&change[side]["value"]));
    if before.is_finite() && after.is_finite() {
        format!("{before:.2} → {after:.2}")
    } else {
        "a column is constant on one side".into()
    }
}

fn weight(one: &Value) -> String {
    one["weight"].as_f64().map_or_else(String::new, |weight| format!("{weight:+.3}"))
}

fn p_text(p_value: &Value) -> String {
    output::p_text(number(p_value))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

/// The file name without folder and extension.
fn stem(path: &str) -> String {
    std::path::Path::new(path)
        .file_stem()
        .map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
