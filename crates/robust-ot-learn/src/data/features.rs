//! Features of samples, dense or sparse, one row per sample.

use ndarray::{Array2, Axis};
use robust_ot::{Error, Result};

/// Features of samples, one row per sample, in single precision.
///
/// ```
/// use robust_ot_learn::data::{Features, Sparse};
///
/// let sparse = Sparse::new(3, vec![0, 1, 3], vec![2, 0, 1], vec![0.5, 1.0, 2.0])?;
/// let features = Features::Sparse(sparse);
/// assert_eq!((features.rows(), features.columns()), (2, 3));
/// assert_eq!(features.select(&[1, 1, 0]).rows(), 3);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// All numbers.
    Dense(Array2<f32>),
    /// The nonzero numbers.
    Sparse(Sparse),
}

impl Features {
    /// Number of samples.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(array) => array.nrows(),
            Self::Sparse(sparse) => sparse.rows(),
        }
    }

    /// Number of features.
    pub fn columns(&self) -> usize {
        match self {
            Self::Dense(array) => array.ncols(),
            Self::Sparse(sparse) => sparse.columns(),
        }
    }

    /// The rows with these indices, in this order; a row may be repeated.
    ///
    /// # Panics
    /// When an index is not below [`Features::rows`].
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Dense(array) => Self::Dense(array.select(Axis(0), rows)),
            Self::Sparse(sparse) => {
                let mut chosen = Sparse::empty(sparse.columns);
                for &row in rows {
                    let (indices, values) = sparse.row(row);
                    chosen.append(indices, values);
                }
                Self::Sparse(chosen)
            }
        }
    }

    /// The same samples with these columns, in this order.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::data::{Features, Sparse};
    ///
    /// let dense = Features::Dense(array![[1.0, 2.0, 3.0]]);
    /// assert_eq!(dense.select_columns(&[2, 0])?, Features::Dense(array![[3.0, 1.0]]));
    /// let sparse = Features::Sparse(Sparse::new(3, vec![0, 2], vec![0, 2], vec![1.0, 3.0])?);
    /// assert_eq!(sparse.select_columns(&[2, 0])?, Features::Sparse(Sparse::new(2, vec![0, 2], vec![0, 1], vec![3.0, 1.0])?));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a column of sparse features is chosen twice.
    ///
    /// # Panics
    /// When an index is not below [`Features::columns`].
    pub fn select_columns(&self, order: &[usize]) -> Result<Self> {
        match self {
            // Rows stay contiguous.
            Self::Dense(array) => {
                Ok(Self::Dense(array.select(Axis(1), order).as_standard_layout().into_owned()))
            }
            Self::Sparse(sparse) => sparse.select_columns(order).map(Self::Sparse),
        }
    }

    /// Widens sparse features with columns of zeros, which a sparse file cannot know of.
    ///
    /// ```
    /// use robust_ot_learn::data::{Features, Sparse};
    /// let mut features = Features::Sparse(Sparse::empty(3));
    /// features.widen(5);
    /// assert_eq!(features.columns(), 5);
    /// ```
    pub fn widen(&mut self, columns: usize) {
        if let Self::Sparse(sparse) = self {
            sparse.columns = sparse.columns.max(columns);
        }
    }

    /// Refuses NaN and infinity.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::Error;
    /// use robust_ot_learn::data::Features;
    ///
    /// let features = Features::Dense(array![[0.0, 1.0], [2.0, f32::NAN]]);
    /// assert!(matches!(features.check_finite(), Err(Error::NotFinite { row: 1, column: 1, .. })));
    /// ```
    ///
    /// # Errors
    /// With the row and column of the first number that is not finite.
    pub fn check_finite(&self) -> Result<()> {
        match self {
            Self::Dense(array) => match array.iter().position(|value| !value.is_finite()) {
                Some(at) => {
                    let (row, column) = (at / array.ncols(), at % array.ncols());
                    Err(not_finite(row, column, array[[row, column]]))
                }
                None => Ok(()),
            },
            // A sparse matrix is checked when it is built.
            Self::Sparse(_) => Ok(()),
        }
    }
}

/// A sparse matrix of finite numbers, stored by rows (CSR).
///
/// ```
/// use robust_ot_learn::data::Sparse;
///
/// let mut sparse = Sparse::empty(4);
/// sparse.push(&[0, 3], &[1.0, -2.0])?;
/// sparse.push(&[], &[])?;
/// assert_eq!((sparse.rows(), sparse.columns()), (2, 4));
/// assert_eq!(sparse.row(0), (&[0, 3][..], &[1.0, -2.0][..]));
/// assert!(sparse.push(&[4], &[1.0]).is_err());
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    columns: usize,
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Sparse {
    /// A matrix without rows.
    pub fn empty(columns: usize) -> Self {
        Self { columns, starts: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Builds a matrix whose row i has the columns `indices[starts[i]..starts[i + 1]]` and the values at the same positions.
    ///
    /// ```
    /// let refused = robust_ot_learn::data::Sparse::new(3, vec![0, 2], vec![1, 1], vec![0.5, 0.5]);
    /// assert!(refused.unwrap_err().to_string().contains("row 1 has 1 after 1"));
    /// ```
    ///
    /// # Errors
    /// When `starts` does not ascend from 0 to the number of values, a row's columns do not strictly ascend below
    /// `columns`, or a value is not finite.
    pub fn new(columns: usize, starts: Vec<usize>, indices: Vec<u32>, values: Vec<f32>) -> Result<Self> {
        check_starts(&starts, indices.len(), values.len())?;
        for (row, bounds) in starts.windows(2).enumerate() {
            let range = bounds[0]..bounds[1];
            check_row(row, columns, &indices[range.clone()], &values[range])?;
        }
        Ok(Self { columns, starts, indices, values })
    }

    /// As [`Sparse::new`], but the columns of a row may come in any order.
    pub(super) fn from_unsorted(
        columns: usize,
        starts: Vec<usize>,
        mut indices: Vec<u32>,
        mut values: Vec<f32>,
    ) -> Result<Self> {
        check_starts(&starts, indices.len(), values.len())?;
        for bounds in starts.windows(2) {
            let range = bounds[0]..bounds[1];
            sort_row(&mut indices[range.clone()], &mut values[range]);
        }
        Self::new(columns, starts, indices, values)
    }

    /// Inserts a column before the first.
    pub(super) fn shift_columns(&mut self) {
        self.columns += 1;
        self.indices.iter_mut().for_each(|column| *column += 1);
    }

    /// Multiplies every column by its factor.
    pub(crate) fn scale_columns(&mut self, factors: &[f32]) {
        self.values
            .iter_mut()
            .zip(&self.indices)
            .for_each(|(value, &column)| *value *= factors[column as usize]);
    }

    /// The values of a row, which must stay finite.
    pub(crate) fn values_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[self.starts[row]..self.starts[row + 1]]
    }

    /// The columns in this order.
    fn select_columns(&self, order: &[usize]) -> Result<Self> {
        let mut places = vec![None; self.columns];
        for (place, &column) in order.iter().enumerate() {
            if places[column].replace(place as u32).is_some() {
                return Err(Error::parameter("the columns of sparse rows", "chosen once each", column));
            }
        }
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..self.rows() {
            let (columns, numbers) = self.row(row);
            let kept = columns.iter().zip(numbers).filter_map(|(&c, &x)| Some((places[c as usize]?, x)));
            kept.for_each(|(place, x)| {
                indices.push(place);
                values.push(x);
            });
            starts.push(indices.len());
        }
        Self::from_unsorted(order.len(), starts, indices, values)
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When the columns do not strictly ascend below [`Sparse::columns`], their number differs from that of the values, or a
    /// value is not finite.
    pub fn push(&mut self, indices: &[u32], values: &[f32]) -> Result<()> {
        if indices.len() != values.len() {
            let found = format!("{} columns and {} values", indices.len(), values.len());
            return Err(Error::parameter("a sparse row", "as many columns as values", found));
        }
        check_row(self.rows(), self.columns, indices, values)?;
        self.append(indices, values);
        Ok(())
    }

    fn append(&mut self, indices: &[u32], values: &[f32]) {
        self.indices.extend_from_slice(indices);
        self.values.extend_from_slice(values);
        self.starts.push(self.indices.len());
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The columns of a row, ascending, and their values.
    ///
    /// # Panics
    /// When `row` is not below [`Sparse::rows`].
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.indices[range.clone()], &self.values[range])
    }
}

/// Sorts the entries of a row by column; sorted rows, as nearly all are, cost one pass.
pub(super) fn sort_row(indices: &mut [u32], values: &mut [f32]) {
    if indices.is_sorted() {
        return;
    }
    let mut pairs: Vec<(u32, f32)> = indices.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|&(index, _)| index);
    for (at, (index, value)) in pairs.into_iter().enumerate() {
        indices[at] = index;
        values[at] = value;
    }
}

fn check_starts(starts: &[usize], indices: usize, values: usize) -> Result<()> {
    let refuse = |found: String| {
        let rule = "ascending from 0 to the number of columns, which is that of values";
        Err(Error::parameter("the starts of sparse rows", rule, found))
    };
    if starts.first() != Some(&0) || starts.last() != Some(&indices) || indices != values {
        let ends = (starts.first(), starts.last());
        let (Some(first), Some(last)) = ends else { return refuse("empty".into()) };
        return refuse(format!("from {first} to {last} with {indices} columns and {values} values"));
    }
    match starts.windows(2).find(|bounds| bounds[0] > bounds[1]) {
        Some(bounds) => refuse(format!("{} before {}", bounds[0], bounds[1])),
        None => Ok(()),
    }
}

fn check_row(row: usize, columns: usize, indices: &[u32], values: &[f32]) -> Result<()> {
    let refuse =
        |rule: String, found: String| Err(Error::parameter("the columns of a sparse row", rule, found));
    if let Some([before, after, ..]) = indices.windows(2).find(|pair| pair[0] >= pair[1]) {
        let found = format!("not: row {} has {after} after {before}", row + 1);
        return refuse("strictly ascending".into(), found);
    }
    if let Some(&last) = indices.last()
        && last as usize >= columns
    {
        return refuse(format!("below {columns}"), format!("{last} in row {}", row + 1));
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(not_finite(row, indices[at] as usize, values[at])),
        None => Ok(()),
    }
}

fn not_finite(row: usize, column: usize, value: f32) -> Error {
    Error::NotFinite { name: "features", row, column, value: f64::from(value) }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn message(columns: usize, starts: &[usize], indices: &[u32], values: &[f32]) -> String {
        Sparse::new(columns, starts.to_vec(), indices.to_vec(), values.to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn unsound_rows_are_refused() {
        assert!(message(3, &[], &[], &[]).contains("but is empty"));
        assert!(message(3, &[1, 1], &[0], &[1.0]).contains("from 1 to 1 with 1 columns and 1 values"));
        assert!(message(3, &[0, 2], &[0], &[1.0]).contains("from 0 to 2 with 1 columns"));
        assert!(message(3, &[0, 1], &[0], &[]).contains("1 columns and 0 values"));
        assert!(message(3, &[0, 2, 1, 2], &[0, 1], &[1.0, 1.0]).contains("2 before 1"));
        assert!(message(3, &[0, 1, 2], &[0, 3], &[1.0, 1.0]).contains("must be below 3, but is 3 in row 2"));
        assert!(message(3, &[0, 2], &[2, 1], &[1.0, 1.0]).contains("row 1 has 1 after 2"));
        let infinite = message(3, &[0, 1, 2], &[0, 2], &[1.0, f32::INFINITY]);
        assert!(infinite.contains("row 2, column 3 is inf"), "{infinite}");
        assert!(Sparse::empty(3).push(&[1], &[]).unwrap_err().to_string().contains("1 columns and 0 values"));
    }

    #[test]
    fn rows_are_chosen_and_sorted() {
        let sparse =
            Sparse::from_unsorted(4, vec![0, 3, 3, 4], vec![3, 0, 1, 2], vec![3.0, 0.5, 1.0, 2.0]).unwrap();
        assert_eq!(sparse.row(0), (&[0, 1, 3][..], &[0.5, 1.0, 3.0][..]));
        let Features::Sparse(chosen) = Features::Sparse(sparse.clone()).select(&[2, 1, 2]) else { panic!() };
        assert_eq!(chosen, Sparse::new(4, vec![0, 1, 1, 2], vec![2, 2], vec![2.0, 2.0]).unwrap());
        assert!(Sparse::from_unsorted(4, vec![0, 2], vec![3, 3], vec![1.0, 1.0]).is_err());
        assert!(Features::Sparse(sparse).check_finite().is_ok());
        let dense = Features::Dense(array![[1.0, 2.0], [3.0, f32::NEG_INFINITY]]);
        assert_eq!(dense.select(&[0]), Features::Dense(array![[1.0, 2.0]]));
        assert!(dense.select(&[0]).check_finite().is_ok());
        assert!(dense.check_finite().unwrap_err().to_string().contains("row 2, column 2 is -inf"));
    }
}
