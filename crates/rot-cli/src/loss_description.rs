//! The loss of a model in words.

use robust_ot_learn::{About, Asymmetric, Criterion, Prior, PriorGeometry};

/// Describes the loss and its parameters in a few words.
pub fn describe_loss(about: &About) -> String {
    let mut parts = Vec::new();
    let asymmetric = about.asymmetric.map(|Asymmetric { positive, negative, margin }| {
        format!("asymmetric loss (γ₊ = {positive}, γ₋ = {negative}, margin {margin})")
    });
    if about.mix_ce > 0.0 {
        parts.push(format!("{} · {}", about.mix_ce, asymmetric.as_deref().unwrap_or("cross-entropy")));
    }
    if let Some(robust) = &about.robust {
        let groups = about
            .groups
            .as_ref()
            .and_then(|groups| groups.iter().max())
            .map_or(0, |top| top.saturating_add(1));
        let whose = if about.geometry == "rows" { " of the rows" } else { "" };
        parts.push(format!("{} · {} in {groups} groups{whose}", about.mix_ot, robust.set));
    }
    if parts.is_empty() {
        let words = |loss: &str| if loss == "square" { "squared error" } else { "binary cross-entropy" };
        if about.blend.is_empty() {
            parts.push(asymmetric.unwrap_or_else(|| words(&about.loss).into()));
        }
        parts.extend(about.blend.iter().map(|part| format!("{} · {}", part.share, words(&part.loss))));
    }
    let mut words = vec![parts.join(" + ")];
    if about.target_transport > 0.0 {
        let About { target_transport, target_temperature, target_metric, .. } = about;
        let whose = if about.target_geometry == "rows" { "rows" } else { "names" };
        words.push(format!(
            "{target_transport} of each target moved by {target_metric} of the {whose} at {target_temperature}"
        ));
    }
    if about.label_smoothing > 0.0 {
        words.push(format!("label smoothing {}", about.label_smoothing));
    }
    words.join(", ")
}

/// Describes the prior on the weights of labels; over all rows at once also L2, and among how many candidates they were chosen.
pub fn describe_choice(about: &About) -> String {
    let of_prior = |Prior { geometry, temperature, free }| match geometry {
        PriorGeometry::None => "no prior between labels".to_owned(),
        _ => format!("prior by {geometry} (τ = {temperature}, η = {free})"),
    };
    let one = |prior: Prior, l2: f64| format!("{}, L2 {l2:.3e}", of_prior(prior));
    let mut words = Vec::new();
    match (&about.blend[..], about.prior, about.l2) {
        ([], Some(prior), Some(l2)) => words.push(one(prior, l2)),
        ([], Some(prior), None) => words.push(of_prior(prior)),
        ([], ..) => {}
        (parts, ..) => {
            words.extend(parts.iter().map(|part| format!("{}: {}", part.loss, one(part.prior, part.l2))));
        }
    }
    match about.tried.len() {
        0 => {}
        count => {
            let by = match about.select.unwrap_or(Criterion::Rank) {
                Criterion::Rank => String::new(),
                other => format!(" by {other}"),
            };
            words.push(format!("the best of {count} candidates on held-out rows{by}"));
        }
    }
    words.join(if about.blend.is_empty() { ", " } else { "; " })
}

/// Labels with few training rows are counted: below this number.
const FEW: usize = 5;

/// The numbers of labels with few training rows and with none.
pub fn few_rows(label_rows: &[usize]) -> Option<String> {
    let none = label_rows.iter().filter(|rows| **rows == 0).count();
    let few = label_rows.iter().filter(|rows| (1..FEW).contains(*rows)).count();
    let all = label_rows.len();
    match (none, few) {
        (0, 0) => None,
        (0, few) => Some(format!("{few} of {all} labels have fewer than {FEW} training rows")),
        (none, few) => {
            Some(format!("{none} of {all} labels have no training row, {few} more have fewer than {FEW}"))
        }
    }
}
