//! A comparison as text.

use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, Table};
use robust_ot_learn::compare::{Category, Comparison, Share};

use super::Compared;
use crate::output::{TABLE_STYLE, by_themselves, p_text, readable};

/// The columns, pairs, groups and values that are listed.
const LISTED: usize = 10;
/// The most that are listed where nothing differs.
const LISTED_BY_CHANCE: usize = 3;
/// The letters of a list of names.
const NAMES: usize = 60;
/// The title of the text columns.
const SHARES: &str = "text columns, by shares of values";

/// Prints all comparisons: one in full, several as a table with the columns that changed most.
pub(super) fn print(out: &mut impl Write, before: &Path, all: &[Compared], alpha: f64) -> io::Result<()> {
    match all {
        [one] => print_one(out, before, one),
        all => print_many(out, before, all, alpha),
    }
}

fn print_many(out: &mut impl Write, before: &Path, all: &[Compared], alpha: f64) -> io::Result<()> {
    writeln!(out, "against {} ({} rows), alpha {alpha}", before.display(), all[0].found.rows_given[0])?;
    let grouped = all.iter().any(|one| !one.found.groups.is_empty());
    let mut table = Table::new();
    let mut header = vec!["table", "rows", "distance", "p", "adjusted", "", "columns changed most"];
    header.extend(grouped.then_some("groups changed most"));
    table.load_style(TABLE_STYLE).set_header(header);
    for one in all {
        let found = &one.found;
        let changed = found.features.iter().filter(|feature| feature.p_value <= alpha);
        let names: Vec<&str> = changed.map(|feature| feature.name.as_str()).collect();
        let mut row = vec![
            one.path.display().to_string(),
            found.rows_given[1].to_string(),
            found.distance.map_or_else(String::new, |[value, _]| readable(value)),
            p_text(found.p_value),
            p_text(one.adjusted),
            if one.adjusted <= alpha { "differs".into() } else { String::new() },
            some_of(&names),
        ];
        if grouped {
            let changed = found.groups.iter().filter(|group| group.p_value <= alpha);
            row.push(some_of(&changed.map(|group| group.name.as_str()).collect::<Vec<_>>()));
        }
        table.add_row(row);
    }
    for column in [1, 2, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    let texts = all.iter().flat_map(|one| {
        let row = |category: &Category| {
            vec![
                one.path.display().to_string(),
                category.name.clone(),
                p_text(category.p_value),
                change_of_shares(category, &one.found),
            ]
        };
        one.found.categories.iter().map(row).collect::<Vec<_>>()
    });
    print_table(out, SHARES, &["table", "column", "p", "change"], texts)?;
    writeln!(out, "p-values are adjusted for the number of tables (Holm); one table alone is shown in full")
}

fn print_one(out: &mut impl Write, before: &Path, one: &Compared) -> io::Result<()> {
    let Compared { path, found, within, left_out, .. } = one;
    let p = p_text(found.p_value);
    let verdict = if found.differs {
        format!("The tables differ, p = {p}")
    } else {
        format!("No difference found, p = {p} (alpha {})", found.alpha)
    };
    writeln!(out, "{verdict}")?;
    let columns = found.features.iter().filter(|feature| feature.p_value <= found.alpha).count();
    let pairs = found.pairs.iter().filter(|pair| pair.p_value <= found.alpha).count();
    if let Some(note) = by_themselves(found.differs, found.alpha, columns, pairs) {
        writeln!(out, "{note}")?;
    }
    let rows = |side: usize| {
        let (used, given) = (found.rows[side], found.rows_given[side]);
        if used == given { format!("{given} rows") } else { format!("{used} of {given} rows") }
    };
    writeln!(out, "tables     {} ({}) → {} ({})", before.display(), rows(0), path.display(), rows(1))?;
    writeln!(out, "columns    {} of numbers, scale {}", found.columns.len(), found.scale)?;
    let which = if found.exhaustive { "all" } else { "random" };
    let early = found.decided_by_bounds.map(|early| format!(", {early} decided early by bounds"));
    writeln!(
        out,
        "test       {} arrangements of the rows ({which}){}, statistic {}",
        found.permutations,
        early.unwrap_or_default(),
        found.statistic
    )?;
    if !found.parts.is_empty() {
        let parts = found.parts.iter().map(|part| format!("{} {}", part.name, p_text(part.p_value)));
        writeln!(out, "           p-values of each alone: {}", parts.collect::<Vec<_>>().join(", "))?;
    }
    if let (Some([value, lower]), true) = (found.distance, found.decided_by_bounds.is_some()) {
        writeln!(out, "distance   {} ≤ W ≤ {}", readable(lower), readable(value))?;
    }
    if let Some(undecided) = found.undecided.filter(|count| *count > 0) {
        writeln!(out, "           {undecided} arrangements were not decided and count against a difference")?;
    }
    print_left_out(out, found, left_out)?;
    print_features(out, found)?;
    print_pairs(out, found)?;
    if !found.groups.is_empty() {
        let shown =
            found.groups.iter().take(listed(found, |at| found.groups[at].p_value, found.groups.len()));
        let rows = shown.map(|group| {
            vec![group.name.clone(), p_text(group.p_value), format!("{} columns", group.columns.len())]
        });
        print_table(out, &format!("groups ({})", found.groups.len()), &["group", "p", ""], rows)?;
    }
    print_categories(out, found)?;
    if found.differs && !found.moved.is_empty() {
        let rows = found.moved.iter().take(3).map(|moved| {
            vec![
                format!("row {} → row {}", moved.before + 1, moved.after + 1),
                format!("{:.2}", moved.distance),
            ]
        });
        print_table(out, "farthest moves", &["rows", "distance"], rows)?;
    }
    if !within.is_empty() {
        let rows = within.iter().map(|within| {
            let counts = format!("{} → {}", within.rows[0], within.rows[1]);
            match &within.comparison {
                None => vec![within.value.clone(), counts, String::new(), "not compared".into()],
                Some((inner, adjusted)) => {
                    let changed = inner.features.iter().filter(|feature| feature.p_value <= inner.alpha);
                    let names: Vec<&str> = changed.map(|feature| feature.name.as_str()).collect();
                    vec![within.value.clone(), counts, p_text(*adjusted), some_of(&names)]
                }
            }
        });
        print_table(out, "within each value", &["value", "rows", "p", "changed most"], rows)?;
        writeln!(
            out,
            "p-values within values are adjusted for their number (Holm); those above are for all values together"
        )?;
    }
    writeln!(out, "p-values of columns, pairs, groups and text columns are adjusted for their number")
}

fn print_left_out(out: &mut impl Write, found: &Comparison, left_out: &[(String, String)]) -> io::Result<()> {
    let mut parts: Vec<String> = left_out.iter().map(|(name, why)| format!("{name} ({why})")).collect();
    if !found.constant_columns.is_empty() {
        let names: Vec<&str> = found.constant_columns.iter().map(String::as_str).collect();
        parts.push(format!("{} (constant)", some_of(&names)));
    }
    if parts.is_empty() { Ok(()) } else { writeln!(out, "left out   {}", parts.join("; ")) }
}

fn print_features(out: &mut impl Write, found: &Comparison) -> io::Result<()> {
    let count = listed(found, |at| found.features[at].p_value, found.features.len());
    let changed = found.features.iter().filter(|feature| feature.p_value <= found.alpha).count();
    let rows = found.features.iter().take(count).map(|feature| {
        vec![
            feature.name.clone(),
            p_text(feature.p_value),
            feature.change.to_string(),
            feature.weight.map_or_else(String::new, |weight| format!("{weight:+.3}")),
        ]
    });
    let title = format!("columns ({changed} of {} at level {})", found.features.len(), found.alpha);
    print_table(out, &title, &["column", "p", "change", "weight"], rows)
}

fn print_pairs(out: &mut impl Write, found: &Comparison) -> io::Result<()> {
    if found.pairs.is_empty() {
        return Ok(());
    }
    let count = listed(found, |at| found.pairs[at].p_value, found.pairs.len());
    let changed = found.pairs.iter().filter(|pair| pair.p_value <= found.alpha).count();
    let at_least = if changed == found.pairs.len() && changed >= 1000 { "at least " } else { "" };
    let rows = found
        .pairs
        .iter()
        .take(count)
        .map(|pair| vec![pair.names.join(" with "), p_text(pair.p_value), pair.change.to_string()]);
    let title = format!("pairs ({at_least}{changed} at level {})", found.alpha);
    print_table(out, &title, &["pair", "p", "change"], rows)
}

fn print_categories(out: &mut impl Write, found: &Comparison) -> io::Result<()> {
    let rows = found.categories.iter().map(|category| {
        vec![category.name.clone(), p_text(category.p_value), change_of_shares(category, found)]
    });
    print_table(out, SHARES, &["column", "p", "change"], rows)
}

/// The largest change of a share, and the values on one side only.
fn change_of_shares(category: &Category, found: &Comparison) -> String {
    let only = |side: usize| {
        let names: Vec<&str> = category
            .one_sided()
            .filter(|share| if side == 0 { share.after == 0 } else { share.before == 0 })
            .map(|share| share.value.as_str())
            .collect();
        let when = ["before", "after"][side];
        (!names.is_empty()).then(|| format!("only {when}: {}", some_of(&names)))
    };
    let notes: Vec<String> =
        [Some(largest_share(category, found)), only(0), only(1)].into_iter().flatten().collect();
    notes.join("; ")
}

fn largest_share(category: &Category, found: &Comparison) -> String {
    let percent = |count: usize, side: usize| 100.0 * count as f64 / found.rows[side] as f64;
    match category.shares.first() {
        None => String::new(),
        Some(Share { value, before, after }) => {
            format!("{value} {:.1} % → {:.1} %", percent(*before, 0), percent(*after, 1))
        }
    }
}

/// How many to list: those at the level, up to ten; a few if there are none.
fn listed(found: &Comparison, p_value: impl Fn(usize) -> f64, count: usize) -> usize {
    let changed = (0..count.min(LISTED)).filter(|&at| p_value(at) <= found.alpha).count();
    changed.max(LISTED_BY_CHANCE).min(count)
}

fn print_table(
    out: &mut impl Write,
    title: &str,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(TABLE_STYLE).set_header(header).add_rows(rows);
    writeln!(out, "\n{title}\n{table}")
}

/// As many names as fit, and how many more there are.
fn some_of(names: &[&str]) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        let next = if at == 0 { (*name).to_owned() } else { format!(", {name}") };
        if at > 0 && text.chars().count() + next.chars().count() > NAMES {
            return format!("{text} and {} more", names.len() - at);
        }
        text.push_str(&next);
    }
    text
}
