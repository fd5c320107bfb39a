//! Features on one scale: each is divided by its spread over several measures, pooled.

use std::fmt;
use std::str::FromStr;

use ndarray::{Array1, ArrayView1, Axis, Zip};
use rayon::prelude::*;
use robust_ot::{Error, Measure, Result};

/// Spreads that differ by more than this factor are worth a note: one feature then decides the distance.
const UNEVEN: f64 = 100.0;
/// The interquartile range of a normal distribution, in standard deviations.
const NORMAL_QUARTILES: f64 = 1.349;

/// How features are scaled before a distance. The spread of a feature is that of all measures pooled, each with the same
/// total weight; a constant feature is left as it is.
///
/// | scale | each feature is divided by |
/// |---|---|
/// | `None` (default) | 1 |
/// | `Std` | its standard deviation |
/// | `Robust` | its interquartile range / 1.349, or its standard deviation where that range is zero |
///
/// ```
/// use ndarray::array;
/// use robust_ot::Measure;
/// use robust_ot_learn::Scale;
///
/// let sides = vec![Measure::uniform(array![[0.0, 0.0]])?, Measure::uniform(array![[2.0, 600.0]])?];
/// let scaled = "std".parse::<Scale>()?.apply(sides)?;
/// assert_eq!(scaled[1].points(), array![[2.0, 2.0]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Features keep their units.
    #[default]
    None,
    /// Standard deviation one.
    Std,
    /// Quartiles as far apart as those of a standard normal distribution: outliers do not matter.
    Robust,
}

impl Scale {
    /// `none`, `std` or `robust`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Std => "std",
            Self::Robust => "robust",
        }
    }

    /// Divides every feature by its spread over all measures.
    ///
    /// # Errors
    /// When the measures have different numbers of features, or scaled coordinates are too large.
    pub fn apply(self, measures: Vec<Measure>) -> Result<Vec<Measure>> {
        let Some(factors) = self.factors(&measures)? else { return Ok(measures) };
        let scaled = measures
            .iter()
            .map(|measure| Measure::new(measure.points() / &factors, measure.weights().clone()));
        scaled.collect()
    }

    /// What every feature is divided by: its spread over all measures, or 1 where it does not vary. None if nothing is scaled.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::Measure;
    /// use robust_ot_learn::Scale;
    ///
    /// let measure = Measure::uniform(array![[0.0, 5.0], [4.0, 5.0]])?;
    /// assert_eq!(Scale::Std.factors(&[measure])?, Some(array![2.0, 1.0]));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the measures have different numbers of features.
    pub fn factors(self, measures: &[Measure]) -> Result<Option<Array1<f64>>> {
        let spread = match self {
            Self::None => return Ok(None),
            Self::Std => standard_deviations,
            Self::Robust => quartile_spreads,
        };
        check_dimensions(measures)?;
        Ok(Some(spread(measures).mapv(|spread| if spread > 0.0 { spread } else { 1.0 })))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scale {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::None, Self::Std, Self::Robust]
            .into_iter()
            .find(|scale| scale.name() == name)
            .ok_or_else(|| Error::parameter("scale", "none, std or robust", name))
    }
}

/// Two features whose spreads differ by a large factor.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Measure;
/// use robust_ot_learn::Uneven;
///
/// let sides = [Measure::uniform(array![[0.0, 0.0]])?, Measure::uniform(array![[2.0, 600.0]])?];
/// let found = Uneven::among(&sides)?.unwrap();
/// assert_eq!((found.widest, found.narrowest, found.ratio), (1, 0, 300.0));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uneven {
    /// The feature with the largest standard deviation, from 0.
    pub widest: usize,
    /// The feature with the smallest one that is not zero, from 0.
    pub narrowest: usize,
    /// How many times larger it is; more than 100.
    pub ratio: f64,
}

impl Uneven {
    /// The extreme features of all measures pooled, if their standard deviations differ by a factor of more than 100.
    ///
    /// # Errors
    /// When the measures have different numbers of features.
    pub fn among(measures: &[Measure]) -> Result<Option<Self>> {
        check_dimensions(measures)?;
        let spreads = standard_deviations(measures);
        let varying = || spreads.iter().enumerate().filter(|(_, spread)| **spread > 0.0);
        let widest = varying().max_by(|x, y| x.1.total_cmp(y.1));
        let narrowest = varying().min_by(|x, y| x.1.total_cmp(y.1));
        Ok(widest.zip(narrowest).and_then(|((widest, most), (narrowest, least))| {
            let ratio = most / least;
            (ratio > UNEVEN).then_some(Self { widest, narrowest, ratio })
        }))
    }
}

fn check_dimensions(measures: &[Measure]) -> Result<()> {
    let Some(first) = measures.first().map(Measure::dim) else { return Ok(()) };
    match measures.iter().find(|measure| measure.dim() != first) {
        None => Ok(()),
        Some(other) => Err(Error::Dimension { source_dim: first, target_dim: other.dim() }),
    }
}

/// √(Σ w (x − mean)²) for every feature, exactly zero for constant ones.
fn standard_deviations(measures: &[Measure]) -> Array1<f64> {
    let Some(first) = measures.first() else { return Array1::zeros(0) };
    // Relative to the first point, so that a large common offset costs no digits.
    let shift = first.points().row(0);
    let zeros = Array1::<f64>::zeros(first.dim());
    let (mut mean, mut low, mut high) = (zeros.clone(), zeros.clone(), zeros.clone());
    each_row(measures, |row, weight| {
        let sides = Zip::from(&mut mean).and(&mut low).and(&mut high).and(row).and(shift);
        sides.for_each(|mean, low, high, x, s| {
            let x = x - s;
            *mean += weight * x;
            (*low, *high) = (low.min(x), high.max(x));
        });
    });
    let range = high - low;
    // In units of the range, so that squares neither overflow nor vanish.
    let units = range.mapv(|range| if range > 0.0 { range } else { 1.0 });
    let mut variance = zeros;
    each_row(measures, |row, weight| {
        let terms = Zip::from(&mut variance).and(&mean).and(&units).and(row).and(shift);
        terms.for_each(|variance, mean, unit, x, s| *variance += weight * ((x - s - mean) / unit).powi(2));
    });
    range * variance.mapv(f64::sqrt)
}

/// The interquartile range / 1.349 of every feature; the standard deviation where the quartiles are equal.
fn quartile_spreads(measures: &[Measure]) -> Array1<f64> {
    let mut spreads = standard_deviations(measures);
    spreads.as_slice_mut().into_iter().flatten().enumerate().par_bridge().for_each(|(f, spread)| {
        let mut values: Vec<(f64, f64)> = Vec::new();
        for measure in measures {
            let column = measure.points().index_axis(Axis(1), f);
            values.extend(column.iter().copied().zip(measure.weights().iter().copied()));
        }
        values.sort_by(|x, y| x.0.total_cmp(&y.0));
        let total: f64 = values.iter().map(|(_, weight)| weight).sum();
        let range = (quantile(&values, 0.75 * total) - quantile(&values, 0.25 * total)) / NORMAL_QUARTILES;
        if range > 0.0 {
            *spread = range;
        }
    });
    spreads
}

/// The smallest value up to which the weights reach the given sum.
fn quantile(sorted: &[(f64, f64)], reach: f64) -> f64 {
    let mut sum = 0.0;
    let found = sorted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= reach
    });
    found.or(sorted.last()).map_or(0.0, |(value, _)| *value)
}

/// Calls `each` with every point that has weight, and its share of the pooled weight.
fn each_row(measures: &[Measure], mut each: impl FnMut(ArrayView1<f64>, f64)) {
    for measure in measures {
        for (row, weight) in measure.points().rows().into_iter().zip(measure.weights()) {
            if *weight > 0.0 {
                each(row, weight / measures.len() as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::{Array2, array};

    use super::*;

    fn cloud(rows: usize, shift: f64) -> Measure {
        let points = Array2::from_shape_fn((rows, 3), |(i, f)| ((i * (f + 2)) as f64 * 1.7).sin() + shift);
        Measure::uniform(points).unwrap()
    }

    #[test]
    fn scaled_features_have_unit_spread_over_all_sides_pooled() {
        let sides = vec![cloud(40, 0.0), cloud(300, 2.0)];
        let scaled = Scale::Std.apply(sides.clone()).unwrap();
        for spread in standard_deviations(&scaled) {
            assert_relative_eq!(spread, 1.0, epsilon = 1e-12);
        }
        for spread in quartile_spreads(&Scale::Robust.apply(sides.clone()).unwrap()) {
            assert_relative_eq!(spread, 1.0, epsilon = 1e-12);
        }
        assert_eq!(Scale::None.apply(sides.clone()).unwrap(), sides);
    }

    #[test]
    fn units_do_not_matter_once_scaled() {
        let sides = vec![cloud(40, 0.0), cloud(30, 2.0)];
        let units = array![1e-3, 1e6, 1e-190];
        let other = |measure: &Measure| Measure::uniform(measure.points() * &units).unwrap();
        let others: Vec<_> = sides.iter().map(other).collect();
        for scale in [Scale::Std, Scale::Robust] {
            let (one, two) = (scale.apply(sides.clone()).unwrap(), scale.apply(others.clone()).unwrap());
            for (one, two) in one.iter().zip(&two) {
                assert_relative_eq!(one.points(), two.points(), max_relative = 1e-12);
            }
        }
    }

    #[test]
    fn each_side_counts_alike_and_weights_count() {
        // Half the pooled weight is at 0 and half at 1, whatever the number of points.
        let sides = [
            Measure::uniform(Array2::zeros((1, 1))).unwrap(),
            Measure::new(array![[1.0], [1.0], [7.0]], array![5.0, 1.0, 0.0]).unwrap(),
        ];
        assert_relative_eq!(standard_deviations(&sides)[0], 0.5, epsilon = 1e-15);
    }

    #[test]
    fn constants_and_outliers() {
        let mut points = Array2::from_shape_fn((100, 3), |(i, _)| (i as f64 * 0.7).sin());
        points.column_mut(0).fill(0.1);
        points[[0, 1]] = 1e6;
        // Quartiles of a mostly constant feature coincide; its standard deviation does not vanish.
        points.column_mut(2).fill(0.0);
        points[[0, 2]] = 1.0;
        let side = [Measure::uniform(points).unwrap()];
        let (std, robust) = (standard_deviations(&side), quartile_spreads(&side));
        assert_eq!((std[0], robust[0]), (0.0, 0.0));
        assert!(std[1] > 1e4 && robust[1] < 2.0);
        assert!(robust[2] > 0.0 && robust[2].to_bits() == std[2].to_bits());
        let scaled = Scale::Std.apply(side.to_vec()).unwrap();
        assert_eq!(scaled[0].points().column(0), side[0].points().column(0));
    }

    #[test]
    fn only_large_ratios_are_uneven_and_constants_do_not_count() {
        let side = |scale: f64| [Measure::uniform(array![[0.0, 0.0, 5.0], [1.0, scale, 5.0]]).unwrap()];
        assert_eq!(Uneven::among(&side(99.0)).unwrap(), None);
        let found = Uneven::among(&side(1e-3)).unwrap().unwrap();
        assert_eq!((found.widest, found.narrowest), (0, 1));
        assert_relative_eq!(found.ratio, 1000.0, epsilon = 1e-9);
        let constant = [Measure::uniform(array![[5.0, 1.0]]).unwrap()];
        assert_eq!(Uneven::among(&constant).unwrap(), None);
    }

    #[test]
    fn different_numbers_of_features_are_refused() {
        let sides = vec![cloud(3, 0.0), Measure::uniform(array![[1.0]]).unwrap()];
        assert!(matches!(Uneven::among(&sides), Err(Error::Dimension { source_dim: 3, target_dim: 1 })));
        assert!(matches!(Scale::Std.apply(sides), Err(Error::Dimension { .. })));
        assert!("maximum".parse::<Scale>().unwrap_err().to_string().contains("none, std or robust"));
    }
}
