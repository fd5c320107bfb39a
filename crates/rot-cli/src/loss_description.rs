//! The loss of a model in words.

use robust_ot_learn::About;

/// Describes the loss and its parameters in a few words.
pub fn describe_loss(about: &About) -> String {
    let mut parts = Vec::new();
    if about.mix_ce > 0.0 {
        parts.push(format!("{} · cross-entropy", about.mix_ce));
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
        parts.push("binary cross-entropy".into());
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
