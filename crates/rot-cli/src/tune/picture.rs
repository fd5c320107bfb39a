//! The scores of the best candidates over time.

use std::path::Path;

use robust_ot_learn::{Candidate, Criterion, Trial, Tuned};

use crate::failure::Failure;
use crate::picture::{Axis, Curve, Curves, save};

/// The number of candidates that are drawn.
const DRAWN: usize = 7;

/// Draws when which score of the held-out rows was reached.
pub fn save_picture(tuned: &Tuned, select: Criterion, path: &Path) -> Result<(), Failure> {
    let curves: Vec<Curve> = tuned
        .trials
        .iter()
        .take(DRAWN)
        .enumerate()
        .map(|(place, trial)| curve(place, trial, select))
        .collect();
    let name = match select {
        Criterion::Auc => "AUC of held-out rows",
        Criterion::AveragePrecision => "average precision of held-out rows",
        Criterion::PrecisionAt1 => "precision at 1 of held-out rows",
        Criterion::Semantic => "semantic cost of held-out rows",
        Criterion::Rank => "AUC + mAP + P@1 of held-out rows",
    };
    let (x, y) = (Axis { name: "seconds", logarithmic: false }, Axis { name, logarithmic: false });
    let title = format!("The best {} of {} candidates", curves.len(), tuned.trials.len());
    save(&Curves { title: &title, x, y, all: &curves }, path)
}

fn curve(place: usize, trial: &Trial, select: Criterion) -> Curve {
    let kind = match trial.candidate {
        Candidate::Linear => "linear".to_owned(),
        Candidate::Steps(steps) => {
            let units = steps.hidden.map_or("linear".to_owned(), |hidden| hidden.units.to_string());
            format!("{} {units}", steps.loss.name())
        }
    };
    let value = |scores| if select == Criterion::Semantic { -select.of(scores) } else { select.of(scores) };
    let points = trial.path.iter().map(|(at, scores)| (*at, value(scores))).collect();
    Curve { name: format!("{} {kind}", place + 1), points }
}
