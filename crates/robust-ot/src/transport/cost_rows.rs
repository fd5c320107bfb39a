//! Costs, a few rows at a time: read from a matrix, or formed on demand.

use std::any::Any;
use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, CowArray, Ix2, s};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::kernels::Real;
use crate::linalg::product_into;

/// Number of costs that one task checks.
const CHECKED_AT_A_TIME: usize = 1 << 16;
/// Number of rows formed at a time; every tile starts at a multiple of it. The tiles are the same everywhere, because the
/// rounding of a cost depends on the shape of its tile, and a plan is feasible only for the costs that its potentials
/// were computed from.
pub(super) const ROWS_PER_TILE: usize = 32;

/// The costs of a transport problem, m × n.
///
/// Solvers also take `&matrix`, which converts to stored costs.
///
/// ```
/// use ndarray::array;
/// use robust_ot::sets::Displacements;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::{CostRows, NetworkSimplex};
/// use robust_ot::{Grouping, Measure};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [3.0, 4.0]])?;
/// let target = Measure::uniform(array![[3.0, 4.0], [0.0, 1.0]])?;
/// let factors = Displacements::new(&source, &target, &Grouping::none(2))?.factors(&array![[1.0, 0.0], [0.0, 1.0]])?;
/// let mut simplex = NetworkSimplex::new(&[0.5, 0.5], &[0.5, 0.5])?;
/// // Nothing of size m × n is stored:
/// let plan = simplex.solve(CostRows::Streamed(&factors), &Interrupt::default())?.plan;
/// assert_eq!((plan[0].row, plan[0].column), (0, 1));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum CostRows<'a, T: Real = f64> {
    /// All costs in memory, row-major.
    Stored(CowArray<'a, T, Ix2>),
    /// Rows formed from products on demand.
    Streamed(&'a CostFactors<T>),
}

impl<'a, T: Real> From<&'a Array2<T>> for CostRows<'a, T> {
    fn from(costs: &'a Array2<T>) -> Self {
        Self::Stored(costs.as_standard_layout())
    }
}

impl<'a, T: Real> From<ArrayView2<'a, T>> for CostRows<'a, T> {
    fn from(costs: ArrayView2<'a, T>) -> Self {
        Self::Stored(if costs.is_standard_layout() {
            costs.into()
        } else {
            costs.as_standard_layout().into_owned().into()
        })
    }
}

/// The factors of C = α ⊕ β − 2 X Yᵀ: memory O((m + n) d).
#[derive(Debug, Clone)]
pub struct CostFactors<T: Real = f64> {
    pub(crate) x: Array2<T>,
    pub(crate) y: Array2<T>,
    /// Yᵀ, row-major: products with a few rows of X read it as it is, where Y would be packed for every tile.
    columns: Array2<T>,
    pub(crate) alpha: Array1<T>,
    pub(crate) beta: Array1<T>,
    /// Whether C consists of squared lengths, so that √C_ij ≤ √α_i + √β_j.
    pub(crate) squared: bool,
}

impl<T: Real> CostFactors<T> {
    /// `squared` is whether C consists of squared lengths.
    pub(crate) fn new(
        (x, y): (Array2<T>, Array2<T>),
        (alpha, beta): (Array1<T>, Array1<T>),
        squared: bool,
    ) -> Self {
        let columns = y.t().as_standard_layout().into_owned();
        Self { x, y, columns, alpha, beta, squared }
    }

    /// The costs of one tile of rows, on this thread.
    fn fill(&self, rows: Range<usize>, out: &mut [T]) {
        let n = self.y.nrows();
        debug_assert!(
            rows.start.is_multiple_of(ROWS_PER_TILE)
                && rows.end == self.x.nrows().min(rows.start + ROWS_PER_TILE)
        );
        let shape = (rows.len(), n);
        let block = ArrayViewMut2::from_shape(shape, out).expect("one number per cost");
        product_into(block, self.x.slice(s![rows.clone(), ..]), self.columns.view());
        let beta = self.beta.as_slice().expect("vectors are contiguous");
        for (i, row) in rows.zip(out.chunks_exact_mut(n)) {
            T::complete_costs(row, self.alpha[i], beta);
        }
    }

    /// Bounds on the smallest and the largest cost.
    fn range(&self) -> Result<(f64, f64)> {
        let extremes = |vector: &Array1<T>| T::extremes(vector.as_slice().expect("vectors are contiguous"));
        let (alpha, beta) = (extremes(&self.alpha), extremes(&self.beta));
        let range = if self.squared {
            let root = |x: f64| x.max(0.0).sqrt();
            (0.0, (root(alpha.1) + root(beta.1)).powi(2))
        } else {
            let cross = 2.0 * longest(&self.x) * longest(&self.y);
            (alpha.0 + beta.0 - cross, alpha.1 + beta.1 + cross)
        };
        // A point that is not finite has a length that is not finite.
        if (alpha.0 + beta.0).is_finite() && range.1.is_finite() {
            return Ok(range);
        }
        let odd =
            |vector: &Array1<T>| vector.iter().position(|x| !Into::<f64>::into(*x).is_finite()).unwrap_or(0);
        let (row, column) = (odd(&self.alpha), odd(&self.beta));
        Err(Error::Cost { row, column, value: alpha.1 + beta.1 })
    }

    /// The factors of the given rows and columns.
    fn picked(&self, rows: &[usize], columns: &[usize]) -> Self {
        let pick = |points: &Array2<T>, kept: &[usize]| points.select(Axis(0), kept);
        let lengths = (self.alpha.select(Axis(0), rows), self.beta.select(Axis(0), columns));
        Self::new((pick(&self.x, rows), pick(&self.y, columns)), lengths, self.squared)
    }
}

impl<T: Real> CostRows<'_, T> {
    /// (m, n).
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Self::Stored(costs) => costs.dim(),
            Self::Streamed(factors) => (factors.x.nrows(), factors.y.nrows()),
        }
    }

    /// Consecutive rows; for streamed costs, a whole tile. `tile` is the buffer to form them in.
    pub(crate) fn rows<'b>(&'b self, rows: Range<usize>, tile: &'b mut Vec<T>) -> &'b [T] {
        let n = self.dim().1;
        match self {
            Self::Stored(costs) => {
                &costs.as_slice().expect("stored costs are row-major")[rows.start * n..rows.end * n]
            }
            Self::Streamed(factors) => {
                tile.resize(rows.len() * n, T::default());
                factors.fill(rows, tile);
                tile
            }
        }
    }

    /// One cost.
    pub(crate) fn entry(&self, i: usize, j: usize) -> f64 {
        match self {
            Self::Stored(costs) => costs[[i, j]].into(),
            Self::Streamed(factors) => {
                let terms = factors.x.row(i).into_iter().zip(factors.y.row(j));
                let product: f64 = terms.map(|(&x, &y)| x.into() * y.into()).sum();
                factors.alpha[i].into() + factors.beta[j].into() - 2.0 * product
            }
        }
    }

    /// The costs between the given rows and columns, for use when these are not all.
    pub(crate) fn picked(&self, rows: &[usize], columns: &[usize]) -> Picked<T> {
        match self {
            Self::Stored(costs) => {
                Picked::Stored(Array2::from_shape_fn((rows.len(), columns.len()), |(i, j)| {
                    costs[[rows[i], columns[j]]]
                }))
            }
            Self::Streamed(factors) => Picked::Streamed(Box::new(factors.picked(rows, columns))),
        }
    }

    /// The same costs, if they are in double precision.
    pub(super) fn in_double(&self) -> Option<CostRows<'_>> {
        match self {
            Self::Stored(costs) => {
                let costs_in_order = T::doubles(costs.as_slice().expect("stored costs are row-major"))?;
                let view = ArrayView2::from_shape(costs.dim(), costs_in_order).expect("the same shape");
                Some(CostRows::Stored(view.into()))
            }
            Self::Streamed(factors) => (*factors as &dyn Any).downcast_ref().map(CostRows::Streamed),
        }
    }

    /// Checks the shape and that all costs are finite; returns bounds on the smallest and the largest.
    pub(crate) fn check(&self, m: usize, n: usize) -> Result<(f64, f64)> {
        let (rows, columns) = self.dim();
        if (rows, columns) != (m, n) {
            return Err(Error::Shape {
                name: "the cost matrix",
                expected: format!("{m} × {n}, one row per source weight and one column per target weight"),
                found: format!("{rows} × {columns}"),
            });
        }
        match self {
            Self::Stored(costs) => {
                let costs_in_order = costs.as_slice().expect("stored costs are row-major");
                let (low, high) = costs_in_order
                    .par_chunks(CHECKED_AT_A_TIME)
                    .map(T::extremes)
                    .reduce(|| (f64::INFINITY, f64::NEG_INFINITY), wider);
                if low.is_finite() && high.is_finite() {
                    return Ok((low, high));
                }
                let odd = costs.indexed_iter().find(|(_, c)| !Into::<f64>::into(**c).is_finite());
                let ((row, column), &value) = odd.expect("an extreme cost is not finite");
                Err(Error::Cost { row, column, value: value.into() })
            }
            Self::Streamed(factors) => factors.range(),
        }
    }
}

/// The length of the longest row.
fn longest<T: Real>(points: &Array2<T>) -> f64 {
    let squares =
        points.rows().into_iter().map(|row| row.iter().map(|x| (*x).into() * (*x).into()).sum::<f64>());
    squares.fold(0.0, f64::max).sqrt()
}

/// The extremes of two parts together; NaN if either is NaN.
fn wider(x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    if x.0.is_nan() || y.0.is_nan() { (f64::NAN, f64::NAN) } else { (x.0.min(y.0), x.1.max(y.1)) }
}

/// Some rows and columns of costs.
#[derive(Debug)]
pub(crate) enum Picked<T: Real> {
    Stored(Array2<T>),
    Streamed(Box<CostFactors<T>>),
}

impl<T: Real> Picked<T> {
    pub(crate) fn rows(&self) -> CostRows<'_, T> {
        match self {
            Self::Stored(costs) => CostRows::from(costs),
            Self::Streamed(factors) => CostRows::Streamed(factors),
        }
    }
}

impl CostFactors<f64> {
    /// The same factors in single precision.
    pub(super) fn rounded(&self) -> CostFactors<f32> {
        let points = |points: &Array2<f64>| points.mapv(f32::nearest);
        let lengths = |lengths: &Array1<f64>| lengths.mapv(f32::nearest);
        CostFactors::new(
            (points(&self.x), points(&self.y)),
            (lengths(&self.alpha), lengths(&self.beta)),
            self.squared,
        )
    }

    /// All rows, stored in the given buffer or streamed.
    pub(crate) fn rows<'a>(&'a self, stored: bool, workspace: &'a mut Vec<f64>) -> CostRows<'a> {
        if !stored {
            return CostRows::Streamed(self);
        }
        let (m, n) = (self.x.nrows(), self.y.nrows());
        // Fresh pages are first touched by the tasks that fill them.
        if workspace.capacity() < m * n {
            *workspace = vec![0.0; m * n];
        }
        workspace.resize(m * n, 0.0);
        workspace.par_chunks_mut(ROWS_PER_TILE * n.max(1)).enumerate().for_each(|(block, out)| {
            let first = block * ROWS_PER_TILE;
            self.fill(first..first + out.len() / n, out);
        });
        let costs = ArrayView2::from_shape((m, n), workspace.as_slice()).expect("one number per cost");
        CostRows::Stored(costs.into())
    }

    /// The whole matrix.
    pub(crate) fn matrix(&self) -> Array2<f64> {
        let mut workspace = Vec::new();
        self.rows(true, &mut workspace);
        Array2::from_shape_vec((self.x.nrows(), self.y.nrows()), workspace).expect("one number per cost")
    }
}
