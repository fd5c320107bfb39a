//! The report page of a trained model.

use robust_ot_learn::Scores;
use serde_json::{Value, json};

use super::page::Page;
use super::{matrix, words};
use crate::failure::Failure;
use crate::picture::{Axis, Curve, Curves, metric_heatmap};
use crate::score_table::{excluded, score_lines};

/// The script of the view of test rows.
const SCRIPT: &str = include_str!("view.js");

/// The elements that the script fills.
const VIEW: &str = r#"<div class="view" id="view">
<div class="controls">
<button type="button" class="back">← previous</button>
<button type="button" class="on">next →</button>
<label><input type="checkbox"> only mistakes</label>
<select aria-label="test row"></select>
</div>
<p class="says" aria-live="polite"></p>
<svg viewBox="0 0 720 60" role="img" aria-label="Predicted mass on the left, true labels on the right, and the mass that moves between them"></svg>
<details class="flows"><summary>The flows as a list</summary><ul></ul></details>
</div>"#;

/// Adds the settings, scores, curves, metric, confusions and test rows of a model.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let (about, labels) = (&run["about"], words(&run["labels"]));
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    page.section(&format!("Model with {} labels", labels.len()));
    let training = &about["training"];
    let dropped = about["dropped_labels"].as_array().map_or(0, Vec::len);
    page.facts(&[
        ("loss", text(&run["loss"])),
        ("rows, features, labels", format!("{}, {}, {}", about["rows"], run["features"], labels.len())),
        ("labels dropped", if dropped > 0 { dropped.to_string() } else { String::new() }),
        ("optimizer", text(&training["optimizer"])),
        ("learning rate", text(&training["learning_rate"])),
        ("batch", text(&training["batch"])),
        ("weight decay", text(&training["weight_decay"])),
        ("seed", text(&training["seed"])),
        ("epochs", text(&about["epochs"])),
        ("weights from epoch", text(&about["best_epoch"])),
        ("command", text(&run["command"])),
        ("version", text(&run["version"])),
        ("machine", text(&run["machine"])),
    ]);
    add_scores(&about["scores"], page);
    add_curves(run, page)?;
    if let Some(found) = matrix(&run["metric"]) {
        page.section("The metric between predictions and truths");
        let set = text(&run["set"]);
        page.paragraph(&format!(
            "For each test row below, the worst metric of the set {set} between prediction and truth is computed; this is \
             the mean. Large entries mark groups of vector features that distinguish predictions from truths."
        ));
        metric_heatmap(&found, &words(&run["groups"]), "Mean worst metric", |heatmap| {
            page.picture(heatmap, "metric", "Mean worst metric between predictions and truths")
        })?;
    }
    add_confused(&run["confused"], &labels, page);
    if let Some(items) = run["items"].as_array() {
        page.section("Where the mass would have to move");
        page.paragraph(&format!(
            "{} of {} test rows, evenly spaced; row numbers count the scored rows only. Predicted mass is on the left, true \
             labels are on the right; green mass is where it should be.",
            items.len(),
            run["test_rows"]
        ));
        page.view("items", &json!({ "labels": labels, "items": items }), VIEW, SCRIPT);
    }
    Ok(())
}

fn add_scores(scores: &Value, page: &mut Page) {
    let Ok(scores) = serde_json::from_value::<Scores>(scores.clone()) else {
        page.paragraph("No test rows were given, so there are no scores.");
        return;
    };
    let rows: Vec<Vec<String>> = score_lines(&scores)
        .into_iter()
        .filter_map(|(name, score)| Some(vec![name.to_owned(), format!("{:.4}", score?)]))
        .collect();
    page.table(&[&format!("{} test rows", scores.rows), "score"], &rows);
    excluded(&scores).iter().for_each(|what| page.paragraph(&format!("{what}.")));
}

fn add_curves(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let Some(history) = run["history"].as_array().filter(|history| !history.is_empty()) else {
        return Ok(());
    };
    page.section("Learning curves");
    let curve = |name: &str, key: &str| {
        let point = |epoch: &Value| Some((epoch["epoch"].as_f64()?, epoch[key].as_f64()?));
        Curve { name: name.into(), points: history.iter().filter_map(point).collect() }
    };
    let x = || Axis { name: "epoch", logarithmic: false };
    let loss = [curve("training", "loss")];
    let y = Axis { name: "loss", logarithmic: false };
    page.picture(&Curves { title: "Loss", x: x(), y, all: &loss }, "loss", "Mean training loss by epoch")?;
    let validation = [curve("validation", "validation_auc")];
    if !validation[0].points.is_empty() {
        let y = Axis { name: "AUC", logarithmic: false };
        page.picture(
            &Curves { title: "Validation AUC", x: x(), y, all: &validation },
            "validation",
            "AUC on the held-out rows by epoch; the weights of the best epoch are kept",
        )?;
    }
    Ok(())
}

fn add_confused(confused: &Value, labels: &[String], page: &mut Page) {
    let Some(pairs) = confused.as_array().filter(|pairs| !pairs.is_empty()) else { return };
    page.section("Confused labels");
    page.paragraph(
        "Mass that has to move from one label to another, averaged over the test rows below, and the distance between the \
         two label vectors: 0 for identical and 1.41 for unrelated ones.",
    );
    let name = |label: &Value| {
        label.as_u64().and_then(|label| labels.get(usize::try_from(label).ok()?)).cloned().unwrap_or_default()
    };
    let row = |pair: &Value| {
        let number = |key: &str| pair[key].as_f64().unwrap_or(f64::NAN);
        vec![
            name(&pair["from"]),
            name(&pair["to"]),
            format!("{:.4}", number("mass")),
            format!("{:.3}", number("distance")),
        ]
    };
    let rows: Vec<Vec<String>> = pairs.iter().map(row).collect();
    page.table(&["predicted", "true", "mass per row", "distance"], &rows);
}
