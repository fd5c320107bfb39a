//! Costs of the allowed arcs alone, row by row.

use std::ops::Range;

use crate::error::{Error, Result};

/// The costs of a transport problem in which mass may move along some arcs only: an m × n matrix in compressed rows.
///
/// ```
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::{NetworkSimplex, SparseCosts};
///
/// // (· 1; 3 2), where · is forbidden
/// let costs = SparseCosts::new((2, 2), vec![0, 1, 3], vec![1, 0, 1], vec![1.0, 3.0, 2.0])?;
/// let solution = NetworkSimplex::new(&[0.5, 0.5], &[0.5, 0.5])?.solve_sparse(&costs, &Interrupt::default())?;
/// let cost: f64 = solution.plan.iter().map(|e| e.mass * costs.get(e.row, e.column).unwrap()).sum();
/// assert_eq!(cost, 2.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SparseCosts {
    columns_in_all: usize,
    /// The arcs of row i are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    columns: Vec<u32>,
    costs: Vec<f64>,
}

impl SparseCosts {
    /// Takes the arcs of row i from `columns` and `costs` at `starts[i]..starts[i + 1]`, with rising columns.
    ///
    /// # Errors
    /// When the vectors do not fit each other, columns do not rise or are out of range, or a cost is not finite.
    pub fn new(
        (m, n): (usize, usize),
        starts: Vec<usize>,
        columns: Vec<u32>,
        costs: Vec<f64>,
    ) -> Result<Self> {
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let ends = (starts.first(), starts.last()) == (Some(&0), Some(&columns.len()));
        if starts.len() != m + 1 || !rising || !ends || columns.len() != costs.len() {
            return Err(Error::Shape {
                name: "starts",
                expected: format!(
                    "{} numbers that rise from 0 to the number of columns and of costs",
                    m.saturating_add(1)
                ),
                found: format!(
                    "{} numbers for {} columns and {} costs",
                    starts.len(),
                    columns.len(),
                    costs.len()
                ),
            });
        }
        let sparse = Self { columns_in_all: n, starts, columns, costs };
        for row in 0..m {
            let range = sparse.range(row);
            let of_row = &sparse.columns[range.clone()];
            if let Some(at) = (0..of_row.len())
                .find(|&at| of_row[at] as usize >= n || (at > 0 && of_row[at - 1] >= of_row[at]))
            {
                let rule = format!("rising and below {n} in row {}", row + 1);
                return Err(Error::parameter("columns", rule, of_row[at]));
            }
            if let Some(at) = range.clone().find(|&at| !sparse.costs[at].is_finite()) {
                let (column, value) = (sparse.columns[at] as usize, sparse.costs[at]);
                return Err(Error::Cost { row, column, value });
            }
        }
        Ok(sparse)
    }

    /// (m, n).
    pub fn dim(&self) -> (usize, usize) {
        (self.starts.len() - 1, self.columns_in_all)
    }

    /// The costs of the arcs, row by row.
    pub fn costs(&self) -> &[f64] {
        &self.costs
    }

    /// The cost of one arc; None if it is forbidden.
    pub fn get(&self, row: usize, column: usize) -> Option<f64> {
        self.position(row, column).map(|at| self.costs[at])
    }

    /// The place of an arc in the order of the costs; None if it is forbidden.
    pub fn position(&self, row: usize, column: usize) -> Option<usize> {
        let range = self.range(row);
        let column = u32::try_from(column).ok()?;
        self.columns[range.clone()].binary_search(&column).ok().map(|at| range.start + at)
    }

    /// (column, cost) of the arcs of a row.
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.range(row);
        self.columns[range.clone()].iter().zip(&self.costs[range]).map(|(&j, &cost)| (j as usize, cost))
    }

    /// The largest cost in absolute value.
    pub(super) fn largest(&self) -> f64 {
        self.costs.iter().fold(0.0, |top, cost| cost.abs().max(top))
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }
}
