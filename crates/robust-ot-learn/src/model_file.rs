//! Model files, on disk or as bytes in memory.

use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::file_header::{HIDDEN, Integrity, Kind};
use crate::hidden_layer::HiddenLayer;
use crate::model::{About, Model};
use crate::objective::Output;
use crate::row_length::RowLength;
use crate::standardization::Standardization;
use crate::tensors::{self, Contents, Tensor};

/// The place that errors name for a model that is not in a file.
const IN_MEMORY: &str = "the model";

/// The tensor of the biases of a hidden layer.
const HIDDEN_BIAS: &str = "hidden.bias";

/// The JSON document of a model file.
#[derive(Serialize, Deserialize)]
struct Document {
    output: Output,
    label_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature_names: Option<Vec<String>>,
    #[serde(default)]
    row_length: Option<RowLength>,
    about: About,
}

impl Model {
    /// Writes the model to a file, atomically.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let (document, tensors) = self.parts();
        tensors::write(path, Kind::Model, &document, &tensors)
    }

    /// The bytes that [`Model::save`] would write.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::{Model, Output};
    ///
    /// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// assert_eq!(Model::from_bytes(&model.to_bytes()?)?, model);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When its description cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (document, tensors) = self.parts();
        tensors::to_bytes(Path::new(IN_MEMORY), Kind::Model, &document, &tensors)
    }

    fn parts(&self) -> (Document, Vec<Tensor>) {
        let (inputs, labels) = self.weights.dim();
        let features = self.features();
        let mut tensors =
            vec![Tensor::single("weights", &[inputs, labels], robust_ot::linalg::flat(&self.weights))];
        if let Some(HiddenLayer { weights, bias }) = &self.hidden {
            tensors.push(Tensor::single(HIDDEN, &[features, inputs], robust_ot::linalg::flat(weights)));
            tensors.push(Tensor::single(HIDDEN_BIAS, &[inputs], bias));
        }
        if let Some(bias) = &self.bias {
            tensors.push(Tensor::single("bias", &[labels], bias));
        }
        if let Some(Standardization { mean, scale }) = &self.preprocessing.standardization {
            tensors.push(Tensor::single("scale", &[features], scale));
            if let Some(mean) = mean {
                tensors.push(Tensor::single("mean", &[features], mean));
            }
        }
        for (name, vectors) in [("label_vectors", &self.label_vectors), ("geometry", &self.geometry)] {
            if let Some(vectors) = vectors {
                let shape = [vectors.nrows(), vectors.ncols()];
                tensors.push(Tensor::double(name, &shape, robust_ot::linalg::flat(vectors)));
            }
        }
        let document = Document {
            output: self.output,
            label_names: self.label_names.clone(),
            feature_names: self.feature_names.clone(),
            row_length: self.preprocessing.row_length,
            about: self.about.clone(),
        };
        (document, tensors)
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// When the file cannot be read, is not a robust-ot model, is damaged, or is of a newer format version.
    pub fn load(path: &Path) -> Result<Self> {
        Ok(Self::load_checked(path)?.0)
    }

    /// [`Model::load`] with how far the file could be checked: files of format version 1 have no checksum.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use ndarray::array;
    /// use robust_ot_learn::{Integrity, Model, Output};
    ///
    /// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// let path = dir.path().join("model.safetensors");
    /// model.save(&path)?;
    /// assert_eq!(Model::load_checked(&path)?, (model, Integrity::Checked));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_checked(path: &Path) -> Result<(Self, Integrity)> {
        Self::from_parts(tensors::read(path, Kind::Model)?)
    }

    /// Reads a model from the bytes of [`Model::to_bytes`].
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self::parse(Path::new(IN_MEMORY), bytes)?.0)
    }

    /// Parses the bytes of a file; `place` is for error messages.
    pub(super) fn parse(place: &Path, bytes: &[u8]) -> Result<(Self, Integrity)> {
        Self::from_parts(tensors::from_bytes(place, Kind::Model, bytes)?)
    }

    fn from_parts((document, mut file): (Document, Contents)) -> Result<(Self, Integrity)> {
        let Document { output, label_names, feature_names, row_length, about } = document;
        let labels = label_names.len();
        let inputs = file.shape("weights").and_then(|shape| shape.first()).copied().unwrap_or(0);
        let weights = matrix(&mut file, "weights", (inputs, labels))?;
        let hidden = hidden(&mut file, inputs)?;
        let told = about.training.as_ref().map(|training| training.hidden.map(|hidden| hidden.units));
        if let Some(units) = told.filter(|units| *units != hidden.as_ref().map(|layer| layer.bias.len())) {
            let (told, found) = (units.unwrap_or(0), hidden.map_or(0, |layer| layer.bias.len()));
            return Err(
                file.refuse(format!("must have the {told} hidden units of its settings, but has {found}"))
            );
        }
        let features = hidden.as_ref().map_or(inputs, |layer| layer.weights.nrows());
        let bias = optional(&mut file, "bias", labels)?;
        let mut model = Self::with_hidden(hidden, weights, bias, output, label_names)
            .map_err(|error| file.refuse(error.to_string()))?;
        model.name_features(feature_names).map_err(|error| file.refuse(error.to_string()))?;
        model.about = about;
        model.preprocessing.row_length = row_length;
        if let Some(scale) = optional(&mut file, "scale", features)? {
            let mean = optional(&mut file, "mean", features)?;
            if !mean.iter().flatten().chain(&scale).all(|x| x.is_finite()) {
                return Err(
                    file.refuse("'mean' and 'scale' must be finite, but one of their numbers is not".into())
                );
            }
            model.preprocessing.standardization = Some(Standardization { mean, scale });
        }
        model.label_vectors = vectors(&mut file, "label_vectors", labels)?;
        model.geometry = vectors(&mut file, "geometry", labels)?;
        Ok((model, file.finish()?))
    }
}

fn optional(file: &mut Contents, name: &str, length: usize) -> Result<Option<Vec<f32>>> {
    if file.shape(name).is_some() { file.single(name, &[length]).map(Some) } else { Ok(None) }
}

fn matrix(file: &mut Contents, name: &str, (rows, columns): (usize, usize)) -> Result<Array2<f32>> {
    let numbers = file.single(name, &[rows, columns])?;
    Array2::from_shape_vec((rows, columns), numbers).map_err(|error| file.refuse(error.to_string()))
}

/// The hidden layer, if the file has one, with these units.
fn hidden(file: &mut Contents, units: usize) -> Result<Option<HiddenLayer>> {
    let Some(shape) = file.shape(HIDDEN) else { return Ok(None) };
    let features = shape.first().copied().unwrap_or(0);
    let weights = matrix(file, HIDDEN, (features, units))?;
    Ok(Some(HiddenLayer { weights, bias: file.single(HIDDEN_BIAS, &[units])? }))
}

/// Vectors of the labels, one per row.
fn vectors(file: &mut Contents, name: &str, labels: usize) -> Result<Option<Array2<f64>>> {
    let Some(shape) = file.shape(name) else { return Ok(None) };
    let dim = shape.last().copied().unwrap_or(0);
    let numbers = file.double(name, &[labels, dim])?;
    if !numbers.iter().all(|x| x.is_finite()) {
        return Err(file.refuse(format!("'{name}' must be finite, but one of their numbers is not")));
    }
    let vectors = Array2::from_shape_vec((labels, dim), numbers);
    vectors.map(Some).map_err(|error| file.refuse(error.to_string()))
}
