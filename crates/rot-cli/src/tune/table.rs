//! What was tried, as a table and in words.

use comfy_table::{CellAlignment, Table};
use robust_ot_learn::{Candidate, Criterion, Trial, Tuned};

use crate::loss_description::describe_choice;
use crate::output::TABLE_STYLE;

/// The most candidates that the table lists.
const LISTED: usize = 20;

/// The candidates, the best first.
pub fn trial_table(trials: &[Trial], select: Criterion) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    let costs = trials.iter().any(|trial| trial.scores.semantic_cost.is_some());
    let mark = |name: &str, criterion: Criterion| {
        if criterion == select { format!("{name} *") } else { name.to_owned() }
    };
    let mut header = vec![
        "#".to_owned(),
        mark("AUC", Criterion::Auc),
        mark("mAP", Criterion::AveragePrecision),
        mark("P@1", Criterion::PrecisionAt1),
    ];
    if costs {
        header.push(mark("cost", Criterion::Semantic));
    }
    header.extend(["epochs", "seconds", "candidate"].map(str::to_owned));
    let right = header.len() - 1;
    table.set_header(header);
    for (place, trial) in trials.iter().take(LISTED).enumerate() {
        let scores = &trial.scores;
        let mut cells = vec![(place + 1).to_string()];
        cells.extend([scores.auc, scores.map, scores.precision_at_1].map(|score| format!("{score:.4}")));
        if costs {
            cells.push(scores.semantic_cost.map_or("–".into(), |cost| format!("{cost:.4}")));
        }
        let epochs = match trial.epochs {
            0 => "–".to_owned(),
            epochs => format!("{} of {epochs}", trial.best_epoch),
        };
        cells.extend([epochs, format!("{:.1}", trial.seconds), trial.candidate.to_string()]);
        table.add_row(cells);
    }
    for column in 0..right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The winner, and how it was found.
pub fn winner(tuned: &Tuned) -> String {
    let Tuned { fitted, trials, folds, .. } = tuned;
    let more = match trials.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("{more} more candidates are not listed\n"),
    };
    let held = match folds {
        1 => "held-out rows".to_owned(),
        folds => format!("rows held out in {folds} turns"),
    };
    let best = &trials[0];
    let what = match best.candidate {
        Candidate::Linear => format!("{}: {}", fitted.model.about.loss, describe_choice(&fitted.model.about)),
        Candidate::Steps(steps) => format!("{steps}, {} epochs", best.best_epoch),
    };
    format!("{more}scores of {held}; winner, fitted to all rows: {what}")
}
