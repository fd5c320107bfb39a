//! The sections of one comparison.

use ndarray::Array2;
use serde_json::Value;

use super::DRAWN;
use super::words::{by_themselves, change, correlations, list, number, p_text, stem, summary, text, weight};
use crate::failure::Failure;
use crate::picture::{Flow, Flows, Heatmap, Panel, Panels};
use crate::report::page::Page;
use crate::report::{numbers, words};

/// Rows of each table.
const LISTED: usize = 25;
/// Columns whose flows are drawn.
const FLOWS: usize = 4;
/// Bins of the statistics under exchanged rows.
const BINS: usize = 30;

/// Adds everything about one table after.
pub(super) fn add_one(before: &str, found: &Value, suffix: &str, page: &mut Page) -> Result<(), Failure> {
    add_verdict(before, found, page);
    add_chance(found, suffix, page)?;
    let features: Vec<&Value> = list(found, "features").collect();
    add_columns(&features, suffix, page)?;
    add_pairs(found, &features, suffix, page)?;
    add_groups(found, page);
    list(found, "categories").for_each(|category| add_category(found, category, page));
    add_within(found, page);
    add_moved(found, page);
    Ok(())
}

fn add_verdict(before: &str, found: &Value, page: &mut Page) {
    let after = text(&found["after"]);
    page.section(&format!("From {} to {}", stem(before), stem(&after)));
    let p = p_text(&found["p_value"]);
    page.summary(&[if found["differs"] == true {
        format!("The tables differ, p = {p}: {}", summary(found))
    } else {
        format!(
            "No difference found, p = {p}. A difference that is small, or of a kind that the statistics do not see, may exist."
        )
    }]);
    if let Some(note) = by_themselves(found) {
        page.paragraph(&note);
    }
    let part = |part: &Value| format!("{} {}", text(&part["name"]), p_text(&part["p_value"]));
    let parts: Vec<String> = list(found, "parts").map(part).collect();
    let reason = |one: &Value| format!("{} ({})", text(&one["name"]), text(&one["reason"]));
    let constant = words(&found["constant_columns"]).into_iter().map(|name| format!("{name} (constant)"));
    let left_out: Vec<String> = list(found, "left_out_columns").map(reason).chain(constant).collect();
    let kind = if found["exhaustive"] == true { "(all)" } else { "at random" };
    page.facts(&[
        ("before", format!("{before}, {} rows", found["rows_given"][0])),
        ("after", format!("{after}, {} rows", found["rows_given"][1])),
        ("rows used", format!("{} and {}", found["rows"][0], found["rows"][1])),
        ("arrangements", format!("{} {kind}", found["permutations"])),
        ("statistic", text(&found["statistic"])),
        ("p alone", parts.join(", ")),
        ("left out", left_out.join(", ")),
    ]);
}

/// The statistics of random arrangements.
fn add_chance(found: &Value, suffix: &str, page: &mut Page) -> Result<(), Failure> {
    let arrangements = found["arrangements"].as_object().into_iter().flatten();
    let all: Vec<Panel> = arrangements.map(|(name, all)| null(name, &numbers(all), found)).collect();
    if all.is_empty() {
        return Ok(());
    }
    page.heading("What chance gives");
    let title = "Statistics under exchanged rows";
    let panels = Panels { title, samples: &["exchanged rows"], mark: Some("observed"), all: &all, across: 5 };
    let caption = "Each statistic for random arrangements of the rows, and for the observed one";
    page.picture(&panels, &format!("chance{suffix}"), caption)
}

fn add_columns(features: &[&Value], suffix: &str, page: &mut Page) -> Result<(), Failure> {
    if features.is_empty() {
        return Ok(());
    }
    page.heading("Columns");
    let all: Vec<Panel> = features.iter().take(DRAWN).map(|feature| histogram(feature)).collect();
    let title = "Columns that changed most";
    let panels = Panels { title, samples: &["before", "after"], mark: None, all: &all, across: 4 };
    page.picture(
        &panels,
        &format!("columns{suffix}"),
        "Shares of rows before and after, by adjusted p-value",
    )?;
    let flow = |feature: &&Value| {
        let bins = &feature["histogram"];
        Flow {
            title: text(&feature["name"]),
            range: (number(&bins["low"]), number(&bins["high"])),
            before: numbers(&bins["before"]),
            after: numbers(&bins["after"]),
        }
    };
    let flows: Vec<Flow> = features.iter().take(FLOWS).map(flow).collect();
    page.picture(
        &Flows { title: "Where the values go", all: &flows },
        &format!("flows{suffix}"),
        "The optimal plan of each column by itself: wider lines carry more rows",
    )?;
    let row = |feature: &&Value| {
        let [p, alone] = ["p_value", "unadjusted"].map(|key| p_text(&feature[key]));
        vec![text(&feature["name"]), p, alone, change(&feature["change"]), weight(feature)]
    };
    let rows: Vec<Vec<String>> = features.iter().take(LISTED).map(row).collect();
    page.table(&["column", "p", "p alone", "change", "weight beyond chance"], &rows);
    more(page, features.len(), "columns");
    Ok(())
}

/// Pairs among the columns drawn, and the pairs that changed most.
fn add_pairs(found: &Value, features: &[&Value], suffix: &str, page: &mut Page) -> Result<(), Failure> {
    let pairs: Vec<&Value> = list(found, "pairs").collect();
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
    // Pairs that are not listed are left plain.
    let mut matrix = Array2::from_elem((names.len(), names.len()), f64::NAN);
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

fn add_groups(found: &Value, page: &mut Page) {
    let row = |group: &Value| {
        let beyond = format!("{:.1}", number(&group["statistic"]));
        vec![text(&group["name"]), p_text(&group["p_value"]), beyond, words(&group["columns"]).join(", ")]
    };
    let rows: Vec<Vec<String>> = list(found, "groups").map(row).collect();
    if !rows.is_empty() {
        page.heading("Groups");
        page.table(&["group", "p", "beyond chance", "columns"], &rows[..rows.len().min(LISTED)]);
        more(page, rows.len(), "groups");
    }
}

fn add_category(found: &Value, category: &Value, page: &mut Page) {
    page.heading(&format!("Values of {}, p = {}", text(&category["name"]), p_text(&category["p_value"])));
    let percent = |share: &Value, side: usize| {
        let count = number(&share[["before", "after"][side]]);
        let rows = number(&found["rows"][side]);
        if count == 0.0 { "none".to_owned() } else { format!("{:.1} %", 100.0 * count / rows) }
    };
    let row = |share: &Value| vec![text(&share["value"]), percent(share, 0), percent(share, 1)];
    let rows: Vec<Vec<String>> = list(category, "shares").take(LISTED).map(row).collect();
    page.table(&["value", "before", "after"], &rows);
    more(page, list(category, "shares").count(), "values");
}

fn add_within(found: &Value, page: &mut Page) {
    let alpha = number(&found["alpha"]);
    let row = |one: &Value| {
        let changed = list(one, "features").filter(|feature| number(&feature["p_value"]) <= alpha);
        let names: Vec<String> = changed.take(DRAWN).map(|feature| text(&feature["name"])).collect();
        let compared = one["p_value"].is_number();
        let p = if compared { p_text(&one["adjusted_p_value"]) } else { "not compared".into() };
        let rows = format!("{} → {}", one["rows_given"][0], one["rows_given"][1]);
        vec![text(&one["value"]), rows, p, names.join(", ")]
    };
    let rows: Vec<Vec<String>> = list(found, "within").map(row).collect();
    if !rows.is_empty() {
        page.heading("Within each value");
        page.table(&["value", "rows", "p", "changed most"], &rows);
    }
}

fn add_moved(found: &Value, page: &mut Page) {
    let row = |moved: &Value| {
        let place = |side: &str| format!("row {}", number(&moved[side]) + 1.0);
        vec![place("before"), place("after"), format!("{:.2}", number(&moved["distance"]))]
    };
    let rows: Vec<Vec<String>> = list(found, "moved").map(row).collect();
    if found["differs"] == true && !rows.is_empty() {
        page.heading("Rows that move farthest");
        page.paragraph(
            "Counterparts under a transport plan between the scaled tables, of at most 400 rows each.",
        );
        page.table(&["before", "after", "distance"], &rows);
    }
}

fn more(page: &mut Page, count: usize, what: &str) {
    if count > LISTED {
        page.paragraph(&format!("{} more {what} are in run.json.", count - LISTED));
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
    let mut parts = list(found, "parts");
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
