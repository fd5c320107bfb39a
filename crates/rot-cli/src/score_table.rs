//! Scores for people.

use comfy_table::{CellAlignment, Table};
use robust_ot::learn::Scores;

use crate::output::TABLE_STYLE;

/// One column of scores for each of the models named.
pub fn score_table(columns: &[(&str, &Scores)]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    let mut header = vec![String::new()];
    header.extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    table.set_header(header);
    let mut add = |name: &str, pick: &dyn Fn(&Scores) -> Option<f64>| {
        if columns.iter().any(|(_, scores)| pick(scores).is_some()) {
            let cells =
                columns.iter().map(|(_, scores)| pick(scores).map_or("–".into(), |x| format!("{x:.4}")));
            table.add_row(std::iter::once(name.to_owned()).chain(cells));
        }
    };
    add("AUC, mean over labels", &|scores| scores.auc);
    add("average precision, mean over labels", &|scores| scores.map);
    add("accuracy of the best label", &|scores| Some(scores.accuracy));
    add("precision of the best 3", &|scores| scores.precision_at_3);
    add("precision of the best 5", &|scores| scores.precision_at_5);
    add("expected semantic cost", &|scores| scores.expected_cost);
    add("semantic cost of the best label", &|scores| scores.top_1_cost);
    add("semantic cost of the best 5", &|scores| scores.top_5_cost);
    (1..=columns.len()).for_each(|column| {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    });
    table
}

/// What the means leave out.
pub fn excluded(scores: &Scores) -> Option<String> {
    let Scores { labels_counted, labels_excluded, .. } = scores;
    (*labels_excluded > 0).then(|| {
        let all = labels_counted + labels_excluded;
        format!(
            "{labels_excluded} of {all} labels have no positive or no negative row and are not in the means"
        )
    })
}
