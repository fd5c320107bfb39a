//! The data of a fit.

use ndarray::Array2;

use crate::dataset::Dataset;

/// Rows with their labels, and what is known about the labels.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, Samples};
///
/// let rows = Dataset::new(Features::Dense(array![[-1.0], [1.0]]), Targets::new(2, [[0], [1]])?)?;
/// let samples = Samples::new(rows, vec!["left".into(), "right".into()]);
/// assert!(samples.label_vectors.is_none());
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Samples {
    /// The rows to train on.
    pub train: Dataset,
    /// The rows that choose the epoch; without them, [`FitSettings::validation`](super::FitSettings::validation) applies.
    pub validation: Option<Dataset>,
    /// One name per label.
    pub label_names: Vec<String>,
    /// One vector of length 1 per label; without them, labels are one-hot.
    pub label_vectors: Option<Array2<f64>>,
    /// Labels that the files had and the model leaves out, with their positions in the files.
    pub dropped_labels: Vec<(usize, String)>,
    /// The index of the first feature in svmlight files, 0 or 1.
    pub first_index: Option<usize>,
}

impl Samples {
    /// Rows and label names, and nothing else.
    pub fn new(train: Dataset, label_names: Vec<String>) -> Self {
        Self {
            train,
            validation: None,
            label_names,
            label_vectors: None,
            dropped_labels: Vec::new(),
            first_index: None,
        }
    }
}
