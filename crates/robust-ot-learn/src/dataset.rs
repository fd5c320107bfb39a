//! Samples with their true labels, and random subsets of them.

use ndarray::Axis;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::{Error, Result};

use crate::data::Features;
use crate::preprocessing::Preprocessing;

/// Features and true labels, row by row, with weights of their losses if some rows count more than others.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::Dataset;
/// use robust_ot::loss::Targets;
///
/// let features = Features::Dense(array![[0.0], [1.0], [2.0]]);
/// let data = Dataset::new(features, Targets::new(2, [[0], [1], [1]])?)?;
/// let (train, rest) = data.split(1.0 / 3.0, 7)?;
/// assert_eq!((train.rows(), rest.rows()), (2, 1));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    features: Features,
    targets: Targets,
    weights: Option<Vec<f32>>,
}

impl Dataset {
    /// Checks that features are finite and have as many rows as the targets.
    ///
    /// # Errors
    /// When a feature is not finite, the numbers of rows differ, or there is no row.
    pub fn new(features: Features, targets: Targets) -> Result<Self> {
        features.check_finite()?;
        if features.rows() != targets.rows() || features.rows() == 0 {
            return Err(Error::Shape {
                name: "features and labels",
                expected: "of the same number of rows, at least one".into(),
                found: format!("{} and {} rows", features.rows(), targets.rows()),
            });
        }
        Ok(Self { features, targets, weights: None })
    }

    /// Gives the loss of every row a weight: a weight of 2 counts a row twice, and one of 0 leaves it out. Scores, thresholds and
    /// the scaling of features do not use weights.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::loss::Targets;
    /// use robust_ot_learn::Dataset;
    /// use robust_ot_learn::data::Features;
    ///
    /// let data = Dataset::new(Features::Dense(array![[0.0], [1.0]]), Targets::new(2, [[0], [1]])?)?;
    /// assert_eq!(data.with_weights(vec![1.0, 0.5])?.weights(), Some([1.0, 0.5].as_slice()));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is not one weight per row, one is negative or not finite, or none is positive.
    pub fn with_weights(self, weights: Vec<f32>) -> Result<Self> {
        let rows = self.rows();
        if weights.len() != rows {
            let found = weights.len().to_string();
            return Err(Error::Shape {
                name: "the sample weights",
                expected: format!("{rows}, one per row"),
                found,
            });
        }
        if let Some((row, odd)) = weights.iter().enumerate().find(|(_, w)| !(**w >= 0.0 && w.is_finite())) {
            let found = format!("{odd} in row {}", row + 1);
            return Err(Error::parameter("sample_weights", "finite and not negative", found));
        }
        if weights.iter().all(|w| *w == 0.0) {
            return Err(Error::parameter("sample_weights", "positive in some row", "zero in all"));
        }
        Ok(Self { weights: Some(weights), ..self })
    }

    /// The weights of the rows, if they differ.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// The sum of the weights: without weights, the number of rows.
    pub fn total_weight(&self) -> f64 {
        match &self.weights {
            None => self.rows() as f64,
            Some(weights) => weights.iter().map(|w| f64::from(*w)).sum(),
        }
    }

    /// The weights of some rows, in a buffer.
    pub(super) fn gather_weights<'a>(&self, rows: &[usize], buffer: &'a mut Vec<f32>) -> Option<&'a [f32]> {
        let weights = self.weights.as_ref()?;
        buffer.clear();
        buffer.extend(rows.iter().map(|&row| weights[row]));
        Some(buffer)
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Preprocesses the features in place. Returns the number of zero rows that could not be scaled to the row length.
    ///
    /// # Errors
    /// As [`Preprocessing::apply`].
    pub fn preprocess(&mut self, by: &Preprocessing) -> Result<usize> {
        by.apply(&mut self.features)
    }

    /// The true labels.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.targets.rows()
    }

    /// The chosen rows.
    ///
    /// # Panics
    /// When a row index is out of range.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let weights = self.weights.as_ref().map(|weights| rows.iter().map(|&row| weights[row]).collect());
        Self { features: self.features.select(rows), targets: self.targets.select(rows), weights }
    }

    /// Splits the rows at random into a training part and a held-out part, each in the order of the data.
    ///
    /// `part` is the held-out fraction of the rows, rounded to whole rows.
    ///
    /// # Errors
    /// When one of the parts would be empty.
    pub fn split(&self, part: f64, seed: u64) -> Result<(Self, Self)> {
        let rows = self.rows();
        let count = (part * rows as f64).round();
        if !(part > 0.0 && part < 1.0 && count >= 1.0 && (count as usize) < rows) {
            let rule = format!("a fraction of the {rows} rows that leaves at least one on each side");
            return Err(Error::parameter("validation", rule, part));
        }
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let (held, kept) = order.split_at_mut(count as usize);
        held.sort_unstable();
        kept.sort_unstable();
        Ok((self.select(kept), self.select(held)))
    }

    /// Appends the rows of another dataset.
    ///
    /// # Errors
    /// When the datasets differ in features or labels.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        let width = |data: &Self| (data.features.columns(), data.targets.labels());
        let shapes = (width(self), width(other));
        let differ = || Error::Shape {
            name: "the data",
            expected: format!("{} features and {} labels wide", shapes.0.0, shapes.0.1),
            found: format!("{} features and {} labels wide", shapes.1.0, shapes.1.1),
        };
        if shapes.0 != shapes.1 {
            return Err(differ());
        }
        match (&mut self.features, &other.features) {
            (Features::Dense(own), Features::Dense(more)) => {
                own.append(Axis(0), more.view()).map_err(|_| differ())?;
            }
            (Features::Sparse(own), Features::Sparse(more)) => {
                for row in 0..more.rows() {
                    let (columns, values) = more.row(row);
                    own.push(columns, values)?;
                }
            }
            _ => return Err(differ()),
        }
        if self.weights.is_some() || other.weights.is_some() {
            let own = self.targets.rows();
            let weights = self.weights.get_or_insert_with(|| vec![1.0; own]);
            match &other.weights {
                Some(more) => weights.extend(more),
                None => weights.resize(own + other.rows(), 1.0),
            }
        }
        self.targets.append(&other.targets);
        Ok(())
    }
}

/// Draws `count` random rows of every label. Returns these rows and the remaining ones, each in the order of the data.
///
/// ```
/// use robust_ot_learn::sample_per_class;
/// use robust_ot::loss::Targets;
///
/// let targets = Targets::new(2, [[0], [0], [0], [1], [1], [1]])?;
/// let (chosen, left) = sample_per_class(&targets, 2, 0)?;
/// assert_eq!((chosen.len(), left.len()), (4, 2));
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When a row has several labels, `count` is 0, or a label has fewer than `count` rows.
pub fn sample_per_class(targets: &Targets, count: usize, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut by_label = vec![Vec::new(); targets.labels()];
    for row in 0..targets.rows() {
        match targets.row(row) {
            [label] => by_label[*label].push(row),
            several => {
                return Err(Error::Label {
                    row,
                    rule: "have one label where samples are drawn per class".into(),
                    found: format!("there are {}", several.len()),
                });
            }
        }
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut chosen, mut left) = (Vec::new(), Vec::new());
    for (label, mut rows) in by_label.into_iter().enumerate() {
        if count == 0 || rows.len() < count {
            let rule = format!("from 1 to the {} rows of label {label}", rows.len());
            return Err(Error::parameter("per_class", rule, count));
        }
        rows.shuffle(&mut rng);
        chosen.extend_from_slice(&rows[..count]);
        left.extend_from_slice(&rows[count..]);
    }
    chosen.sort_unstable();
    left.sort_unstable();
    Ok((chosen, left))
}
