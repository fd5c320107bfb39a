//! Model files, on disk or as bytes in memory.

use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::model::{About, Model};
use crate::objective::Output;
use crate::row_length::RowLength;
use crate::standardization::Standardization;
use crate::tensors::{self, Contents, Kind, Tensor};

/// The place that errors name for a model that is not in a file.
const IN_MEMORY: &str = "the model";

/// The JSON document of a model file.
#[derive(Serialize, Deserialize)]
struct Document {
    output: Output,
    label_names: Vec<String>,
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
        let (features, labels) = self.weights.dim();
        let mut tensors =
            vec![Tensor::single("weights", &[features, labels], robust_ot::linalg::flat(&self.weights))];
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
        let (label_names, about) = (self.label_names.clone(), self.about.clone());
        let row_length = self.preprocessing.row_length;
        (Document { output: self.output, label_names, row_length, about }, tensors)
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// When the file cannot be read, is not a robust-ot model, is cut short or has another format version.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_parts(&tensors::read(path, Kind::Model)?)
    }

    /// Reads a model from the bytes of [`Model::to_bytes`].
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_parts(&tensors::from_bytes(Path::new(IN_MEMORY), Kind::Model, bytes)?)
    }

    fn from_parts(file: &Contents<Document>) -> Result<Self> {
        let Document { output, label_names, row_length, about } = &file.document;
        let labels = label_names.len();
        let features = file.shape("weights").and_then(|shape| shape.first()).copied().unwrap_or(0);
        let shaped = |rows, columns, numbers: Vec<f32>| {
            Array2::from_shape_vec((rows, columns), numbers).map_err(|error| file.refuse(error.to_string()))
        };
        let weights = shaped(features, labels, file.single("weights", &[features, labels])?)?;
        let optional =
            |name: &str, length: usize| file.shape(name).map(|_| file.single(name, &[length])).transpose();
        let mut model = Self::new(weights, optional("bias", labels)?, *output, label_names.clone())
            .map_err(|error| file.refuse(error.to_string()))?;
        model.about = about.clone();
        model.preprocessing.row_length = *row_length;
        model.preprocessing.standardization = match optional("scale", features)? {
            None => None,
            Some(scale) => Some(Standardization { mean: optional("mean", features)?, scale }),
        };
        if let Some(Standardization { mean, scale }) = &model.preprocessing.standardization
            && !mean.iter().flatten().chain(scale).all(|x| x.is_finite())
        {
            return Err(
                file.refuse("'mean' and 'scale' must be finite, but one of their numbers is not".into())
            );
        }
        let vectors = |name: &str| -> Result<Option<Array2<f64>>> {
            let Some(shape) = file.shape(name) else { return Ok(None) };
            let dim = shape.last().copied().unwrap_or(0);
            let numbers = file.double(name, &[labels, dim])?;
            if !numbers.iter().all(|x| x.is_finite()) {
                return Err(file.refuse(format!("'{name}' must be finite, but one of their numbers is not")));
            }
            let vectors = Array2::from_shape_vec((labels, dim), numbers);
            vectors.map(Some).map_err(|error| file.refuse(error.to_string()))
        };
        model.label_vectors = vectors("label_vectors")?;
        model.geometry = vectors("geometry")?;
        Ok(model)
    }
}
