//! What becomes of a model once it is fitted: its test rows are scored, and it is saved.

use std::path::Path;

use robust_ot_learn::{Dataset, Epoch, Model, Scores, zero_rows_note};

use crate::failure::Failure;
use crate::model_run::write_model_run;
use crate::output::write_failure;
use crate::run_folder::{MODEL, clear_run};

/// The outcome of a fit.
pub struct Outcome {
    pub model: Model,
    pub history: Vec<Epoch>,
}

/// Scores the test rows, and saves the model to `--out` and `--run`.
pub fn score_and_save(
    mut model: Model,
    history: Vec<Epoch>,
    test: Option<Dataset>,
    (out, run): (Option<&Path>, Option<&Path>),
    command: &str,
) -> Result<Outcome, Failure> {
    let predicted = test.map(|mut test| {
        let zero_rows = test.preprocess(&model.preprocessing)?;
        if let Some(note) = zero_rows_note(zero_rows, test.rows(), "test rows") {
            say!("rot: note: {note}");
        }
        let probabilities = model.probabilities_of_preprocessed(test.features())?;
        let scores = Scores::of_model(&model, probabilities.view(), test.targets())?;
        Ok((probabilities, test, scores))
    });
    let (predicted, failed) = match predicted.transpose() {
        Ok(predicted) => (predicted, None),
        Err(error) => (None, Some(Failure::about("the test rows", &error))),
    };
    model.about.scores = predicted.as_ref().map(|(_, _, scores)| scores.clone());
    // A model is worth keeping even if its test rows cannot be scored.
    if let Some(path) = out {
        model.save(path).map_err(write_failure)?;
    }
    if let Some(folder) = run {
        clear_run(folder)?;
        model.save(&folder.join(MODEL)).map_err(write_failure)?;
        let test = predicted.as_ref().map(|(probabilities, test, _)| (probabilities, test.targets()));
        write_model_run(folder, &model, &history, test, command)?;
    }
    failed.map_or(Ok(Outcome { model, history }), Err)
}
