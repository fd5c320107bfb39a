//! F1 of the labels that are answered, whatever their order.

use robust_ot::loss::Targets;
use robust_ot::{Error, Result};

use super::check_answers;

/// F1 = 2 TP / (2 TP + FP + FN), over all labels at once and averaged over labels.
///
/// ```
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::score::F1;
///
/// let truth = Targets::new(3, [vec![0], vec![0, 1]])?;
/// let found = F1::of(&[vec![0], vec![1]], &truth)?;
/// assert_eq!((found.micro, found.macro_mean), (0.8, (2.0 / 3.0 + 1.0) / 2.0));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct F1 {
    /// Of the counts of all labels together.
    pub micro: f64,
    /// The mean over the labels that are true or answered somewhere; the others have none.
    pub macro_mean: f64,
}

impl F1 {
    /// Compares the answers of every row, which may be none, with its true labels.
    ///
    /// # Errors
    /// When the numbers of rows differ, an answer is no label, or a row has the same answer twice.
    pub fn of(answers: &[Vec<usize>], truth: &Targets) -> Result<Self> {
        check_answers(answers, truth)?;
        let labels = truth.labels();
        let (mut right, mut all) = (vec![0_usize; labels], vec![0_usize; labels]);
        for (row, of_row) in answers.iter().enumerate() {
            if let Some((_, twice)) =
                of_row.iter().enumerate().find(|(at, label)| of_row[..*at].contains(label))
            {
                let (rule, found) = ("have each answer once".into(), format!("{twice} appears twice"));
                return Err(Error::Label { row, rule, found });
            }
            let wanted = truth.row(row);
            of_row.iter().chain(wanted).for_each(|&label| all[label] += 1);
            of_row
                .iter()
                .filter(|label| wanted.binary_search(label).is_ok())
                .for_each(|&label| right[label] += 1);
        }
        // 2 TP + FP + FN is the number of answers plus the number of truths.
        let each: Vec<f64> = (right.iter().zip(&all))
            .filter(|(_, all)| **all > 0)
            .map(|(right, all)| 2.0 * *right as f64 / *all as f64)
            .collect();
        let (right, all): (usize, usize) = (right.iter().sum(), all.iter().sum());
        Ok(Self {
            micro: 2.0 * right as f64 / all as f64,
            macro_mean: each.iter().sum::<f64>() / each.len() as f64,
        })
    }
}
