//! Scores as tables.

use comfy_table::{CellAlignment, Table};
use robust_ot_learn::{LabelGroup, Reliability, Scores};

use crate::output::TABLE_STYLE;

/// A table with one column of scores per named model.
pub fn score_table(columns: &[(&str, &Scores)]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    let mut header = vec![String::new()];
    header.extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    table.set_header(header);
    let lines: Vec<_> = columns.iter().map(|(_, scores)| score_lines(scores)).collect();
    for (line, (name, _)) in lines.first().into_iter().flatten().enumerate() {
        if lines.iter().any(|scores| scores[line].1.is_some()) {
            let cells = lines.iter().map(|scores| scores[line].1.map_or("–".into(), |x| format!("{x:.4}")));
            table.add_row(std::iter::once((*name).to_owned()).chain(cells));
        }
    }
    align_right(&mut table, columns.len() + 1);
    table
}

/// Scores by the number of training rows of the labels.
pub fn group_table(groups: &[LabelGroup]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(["training rows", "labels", "AUC", "average precision"]);
    let shown = |score: Option<f64>| score.map_or("–".to_owned(), |score| format!("{score:.4}"));
    for LabelGroup { rows, labels, auc, map, .. } in groups {
        table.add_row([rows.clone(), labels.to_string(), shown(*auc), shown(*map)]);
    }
    align_right(&mut table, 4);
    table
}

/// Predicted probabilities beside the fractions that came true.
pub fn reliability_table(ranges: &[Reliability]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(["probability", "predictions", "mean probability", "fraction true"]);
    for Reliability { low, high, count, mean_probability, true_fraction } in ranges {
        table.add_row([
            format!("{low} to {high}"),
            count.to_string(),
            format!("{mean_probability:.4}"),
            format!("{true_fraction:.4}"),
        ]);
    }
    align_right(&mut table, 4);
    table
}

fn align_right(table: &mut Table, columns: usize) {
    (1..columns).for_each(|column| {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    });
}

/// The scores with their names.
pub fn score_lines(scores: &Scores) -> [(&'static str, Option<f64>); 17] {
    [
        ("AUC, mean over labels", scores.auc),
        ("average precision, mean over labels", scores.map),
        ("accuracy of the top label", Some(scores.accuracy)),
        ("precision at 3", scores.precision_at_3),
        ("precision at 5", scores.precision_at_5),
        ("nDCG at 3", scores.ndcg_at_3),
        ("nDCG at 5", scores.ndcg_at_5),
        ("propensity-scored precision at 1", scores.propensity_scored_precision_at_1),
        ("propensity-scored precision at 3", scores.propensity_scored_precision_at_3),
        ("propensity-scored precision at 5", scores.propensity_scored_precision_at_5),
        ("F1 of the answers, all labels together", scores.micro_f1),
        ("F1 of the answers, mean over labels", scores.macro_f1),
        ("expected semantic cost", scores.expected_cost),
        ("semantic cost of the top label", scores.top_1_cost),
        ("semantic cost of the label of least expected cost", scores.least_cost_1),
        ("semantic cost of the top 5", scores.top_5_cost),
        ("semantic cost of the 5 of least expected cost", scores.least_cost_5),
    ]
}

/// A note on the labels that the means exclude.
pub fn excluded(scores: &Scores) -> Option<String> {
    let Scores { labels_counted, labels_excluded, .. } = scores;
    (*labels_excluded > 0).then(|| {
        let all = labels_counted + labels_excluded;
        format!(
            "{labels_excluded} of {all} labels have no positive or no negative row and are excluded from the means"
        )
    })
}
