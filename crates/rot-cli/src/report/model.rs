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

/// Adds what was found, scores, test rows, confusions, metric, curves and settings of a model.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let (about, labels) = (&run["about"], words(&run["labels"]));
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    page.section(&format!("Model with {} labels", labels.len()));
    let scores = serde_json::from_value::<Scores>(about["scores"].clone()).ok();
    page.summary(&[
        format!(
            "A linear model of {} labels, fitted to {} rows with {} features.",
            labels.len(),
            about["rows"],
            run["features"]
        ),
        scores.as_ref().map_or_else(
            || "No test rows were given, so nothing is known of how well it predicts.".to_owned(),
            scores_in_words,
        ),
        confusion_in_words(&run["confused"], &labels),
    ]);
    add_scores(scores.as_ref(), page);
    add_items(run, &labels, page);
    add_confused(&run["confused"], &labels, page);
    if let Some(found) = matrix(&run["metric"]) {
        page.section("The metric between predictions and truths");
        let set = text(&run["set"]);
        page.paragraph(&format!(
            "For each test row above, the worst metric of the set {set} between prediction and truth is computed; this is \
             the mean. Large entries mark groups of vector features that distinguish predictions from truths."
        ));
        metric_heatmap(&found, &words(&run["groups"]), "Mean worst metric", |heatmap| {
            page.picture(heatmap, "metric", "Mean worst metric between predictions and truths")
        })?;
    }
    add_curves(run, page)?;
    page.section("Settings");
    let training = &about["training"];
    let dropped = about["dropped_labels"].as_array().map_or(0, Vec::len);
    page.facts(&[
        ("loss", text(&run["loss"])),
        ("labels dropped", if dropped > 0 { dropped.to_string() } else { String::new() }),
        ("optimizer", text(&training["optimizer"])),
        ("learning rate", text(&training["learning_rate"])),
        ("batch", text(&training["batch"])),
        ("weight decay", text(&training["weight_decay"])),
        ("seed", text(&training["seed"])),
        ("epochs", text(&about["epochs"])),
        ("weights from epoch", text(&about["best_epoch"])),
    ]);
    page.provenance(run);
    Ok(())
}

/// What the scores say, with the standard error of the accuracy.
fn scores_in_words(scores: &Scores) -> String {
    let (right, rows) = (scores.accuracy, scores.rows as f64);
    let error = 196.0 * (right * (1.0 - right) / rows).sqrt();
    let ranked = scores.auc.map_or_else(String::new, |auc| {
        format!(
            " A label ranks a row that has it above one that does not with a probability of {:.1} % (AUC, mean over labels).",
            100.0 * auc
        )
    });
    format!(
        "On {} test rows its first label is right for {:.1} % (± {error:.1}, 95 % interval).{ranked}",
        scores.rows,
        100.0 * right
    )
}

fn confusion_in_words(confused: &Value, labels: &[String]) -> String {
    let Some(first) = confused.as_array().and_then(|pairs| pairs.first()) else { return String::new() };
    let mass = 100.0 * first["mass"].as_f64().unwrap_or(f64::NAN);
    let (from, to) = (label(&first["from"], labels), label(&first["to"], labels));
    format!("What it confuses most: {mass:.1} % of all mass is on {from} and should be on {to}.")
}

fn add_items(run: &Value, labels: &[String], page: &mut Page) {
    let Some(items) = run["items"].as_array() else { return };
    page.section("Where the mass would have to move");
    page.paragraph(&format!(
        "{} of {} test rows, evenly spaced; row numbers count the scored rows only. Predicted mass is on the left, true \
         labels are on the right; green mass is where it should be. The first row shown is the mistake that costs most.",
        items.len(),
        run["test_rows"]
    ));
    page.view("items", &json!({ "labels": labels, "items": items }), VIEW, SCRIPT);
}

fn add_scores(scores: Option<&Scores>, page: &mut Page) {
    let Some(scores) = scores else { return };
    let rows: Vec<Vec<String>> = score_lines(scores)
        .into_iter()
        .filter_map(|(name, score)| Some(vec![name.to_owned(), format!("{:.4}", score?)]))
        .collect();
    page.table(&[&format!("{} test rows", scores.rows), "score"], &rows);
    excluded(scores).iter().for_each(|what| page.paragraph(&format!("{what}.")));
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
    let of_sum = !run["about"]["blend"].is_null();
    let caption = if of_sum {
        "Mean training loss by epoch, of one part of the sum after the other"
    } else {
        "Mean training loss by epoch"
    };
    page.picture(&Curves { title: "Loss", x: x(), y, all: &loss }, "loss", caption)?;
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
        "Mass that has to move from one label to another, averaged over the test rows above, and the distance between the \
         two label vectors: 0 for identical and 1.41 for unrelated ones.",
    );
    let row = |pair: &Value| {
        let number = |key: &str| pair[key].as_f64().unwrap_or(f64::NAN);
        vec![
            label(&pair["from"], labels),
            label(&pair["to"], labels),
            format!("{:.4}", number("mass")),
            format!("{:.3}", number("distance")),
        ]
    };
    let rows: Vec<Vec<String>> = pairs.iter().map(row).collect();
    page.table(&["predicted", "true", "mass per row", "distance"], &rows);
}

/// The name of a label, by its number.
fn label(number: &Value, labels: &[String]) -> String {
    let at = number.as_u64().and_then(|number| usize::try_from(number).ok());
    at.and_then(|at| labels.get(at)).cloned().unwrap_or_default()
}
