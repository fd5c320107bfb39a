//! What the values of a comparison are in words.

use serde_json::Value;

use crate::output;
use crate::report::{numbers, words};

/// What changed, in a sentence.
pub(super) fn summary(found: &Value) -> String {
    let alpha = number(&found["alpha"]);
    let changed = |kind: &str| -> Vec<&Value> {
        list(found, kind).filter(|one| number(&one["p_value"]) <= alpha).collect()
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

/// What columns or pairs say where all together say nothing.
pub(super) fn by_themselves(found: &Value) -> Option<String> {
    let alpha = number(&found["alpha"]);
    let count = |kind: &str| list(found, kind).filter(|one| number(&one["p_value"]) <= alpha).count();
    output::by_themselves(found["differs"] == true, alpha, count("features"), count("pairs"))
}

/// The change of a column in words.
pub(super) fn change(change: &Value) -> String {
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

pub(super) fn correlations(change: &Value) -> String {
    let [before, after] = ["before", "after"].map(|side| number(&change[side]["value"]));
    if before.is_finite() && after.is_finite() {
        format!("{before:.2} → {after:.2}")
    } else {
        "a column is constant on one side".into()
    }
}

pub(super) fn weight(one: &Value) -> String {
    one["weight"].as_f64().map_or_else(String::new, |weight| format!("{weight:+.3}"))
}

pub(super) fn p_text(p_value: &Value) -> String {
    output::p_text(number(p_value))
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

/// The file name without folder and extension.
pub(super) fn stem(path: &str) -> String {
    std::path::Path::new(path)
        .file_stem()
        .map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The entries of a list.
pub(super) fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().into_iter().flatten()
}
