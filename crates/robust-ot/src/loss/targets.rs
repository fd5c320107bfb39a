//! The true labels of a batch.

use crate::error::{Error, Result};

/// Which labels are true, row by row; a row's target is uniform over them.
///
/// ```
/// use robust_ot::loss::Targets;
///
/// let targets = Targets::new(5, [vec![0, 3], vec![2]])?;
/// assert_eq!((targets.rows(), targets.labels()), (2, 5));
/// assert_eq!(targets.row(0), [0, 3]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    labels: usize,
    /// Row i occupies the places `starts[i]..starts[i + 1]` of `indices`.
    starts: Vec<usize>,
    indices: Vec<usize>,
}

impl Targets {
    /// Takes the true labels of every row, each below `labels`.
    ///
    /// # Errors
    /// When a row has no label, a label twice, or one outside the range.
    pub fn new<R: AsRef<[usize]>>(labels: usize, rows: impl IntoIterator<Item = R>) -> Result<Self> {
        let (mut starts, mut indices) = (vec![0], Vec::new());
        for (row, of_row) in rows.into_iter().enumerate() {
            let of_row = of_row.as_ref();
            let refuse = |rule: &str, found: String| Err(Error::Label { row, rule: rule.to_owned(), found });
            if of_row.is_empty() {
                return refuse("have at least one label", "it has none".into());
            }
            if let Some(label) = of_row.iter().find(|label| **label >= labels) {
                return refuse(&format!("have labels below {labels}"), format!("one is {label}"));
            }
            indices.extend_from_slice(of_row);
            let start = starts[row];
            indices[start..].sort_unstable();
            if let Some([twice, _]) = indices[start..].windows(2).find(|pair| pair[0] == pair[1]) {
                return refuse("have each label once", format!("label {twice} appears twice"));
            }
            starts.push(indices.len());
        }
        Ok(Self { labels, starts, indices })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The true labels of a row, in order.
    pub fn row(&self, row: usize) -> &[usize] {
        &self.indices[self.starts[row]..self.starts[row + 1]]
    }

    /// The given rows, in the given order.
    ///
    /// ```
    /// use robust_ot::loss::Targets;
    /// let targets = Targets::new(5, [vec![0, 3], vec![2]])?;
    /// assert_eq!(targets.select(&[1, 0]).row(1), [0, 3]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Panics
    /// When a row does not exist.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Self { labels: self.labels, starts: Vec::new(), indices: Vec::new() };
        selected.gather(self, rows);
        selected
    }

    /// [`Targets::select`] into memory that is already allocated.
    ///
    /// # Panics
    /// When a row does not exist.
    #[doc(hidden)]
    pub fn gather(&mut self, from: &Self, rows: &[usize]) {
        self.labels = from.labels;
        self.starts.clear();
        self.starts.push(0);
        self.indices.clear();
        for &row in rows {
            self.indices.extend_from_slice(from.row(row));
            self.starts.push(self.indices.len());
        }
    }

    /// Appends the rows of other targets, which must have no more labels.
    #[doc(hidden)]
    pub fn append(&mut self, other: &Self) {
        for row in 0..other.rows() {
            self.indices.extend_from_slice(other.row(row));
            self.starts.push(self.indices.len());
        }
    }

    /// The range of a row's labels among those of all rows.
    pub(super) fn places(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }
}
