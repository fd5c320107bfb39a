//! The hidden layer of a model, $H = \max(X V + c, 0)$.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::flat_mut;

use crate::data::Features;
use crate::linear::{Chunks, add_bias};

/// Units between features and labels: the model is then softmax (or sigmoid) of H W + b.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::HiddenLayer;
/// use robust_ot_learn::data::Features;
///
/// let layer = HiddenLayer { weights: array![[1.0, -1.0]], bias: vec![0.0, 1.0] };
/// assert_eq!(layer.outputs(&Features::Dense(array![[2.0]])), array![[2.0, 0.0]]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenLayer {
    /// V, features × units.
    pub weights: Array2<f32>,
    /// c.
    pub bias: Vec<f32>,
}

impl HiddenLayer {
    /// max(X V + c, 0), rows × units.
    ///
    /// # Panics
    /// When the number of features is another, or that of the biases is not that of the units.
    pub fn outputs(&self, features: &Features) -> Array2<f32> {
        let mut out = Array2::zeros((features.rows(), self.bias.len()));
        self.view().write(features, &mut out);
        out
    }

    pub(super) fn view(&self) -> LayerView<'_> {
        LayerView { weights: self.weights.view(), bias: &self.bias }
    }
}

/// V and c, wherever they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerView<'a> {
    pub(super) weights: ArrayView2<'a, f32>,
    pub(super) bias: &'a [f32],
}

impl<'a> LayerView<'a> {
    /// V, features × units, row by row, and c.
    pub(super) fn new(weights: &'a [f32], bias: &'a [f32]) -> Self {
        let weights = ArrayView2::from_shape((weights.len() / bias.len(), bias.len()), weights);
        Self { weights: weights.expect("a row for every feature"), bias }
    }

    fn write(self, features: &Features, out: &mut Array2<f32>) {
        let mut chunks = Chunks::of(features);
        while let Some((batch, range)) = chunks.next() {
            let mut out = out.slice_mut(ndarray::s![range, ..]);
            batch.forward(self.weights, Some(self.bias), out.view_mut());
            rectify(out.as_slice_mut().expect("whole rows of a row-major matrix"), self.bias.len());
        }
    }
}

/// H W + b, or X W + b without a hidden layer, for all rows.
pub(super) fn logits(
    features: &Features,
    hidden: Option<LayerView>,
    weights: ArrayView2<f32>,
    bias: Option<&[f32]>,
) -> Array2<f32> {
    let mut out = Array2::zeros((features.rows(), weights.ncols()));
    let mut outputs = Array2::zeros((0, hidden.map_or(0, |layer| layer.bias.len())));
    let mut chunks = Chunks::of(features);
    while let Some((batch, range)) = chunks.next() {
        let rows = range.len();
        let mut out = out.slice_mut(ndarray::s![range, ..]);
        let Some(layer) = hidden else {
            batch.forward(weights, bias, out.view_mut());
            continue;
        };
        crate::linear::resize_rows(&mut outputs, rows);
        batch.forward(layer.weights, Some(layer.bias), outputs.view_mut());
        rectify(flat_mut(&mut outputs), layer.bias.len());
        robust_ot::linalg::product_blocks(out.view_mut(), outputs.view(), weights);
        add_bias(out.view_mut(), bias);
    }
    out
}

/// max(x, 0). What is not a number stays so.
pub(super) fn rectify(numbers: &mut [f32], width: usize) {
    numbers.par_chunks_mut(width.max(1)).for_each(|row| {
        row.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Sparse;
    use crate::model::Model;
    use crate::objective::Output;

    #[test]
    fn a_file_may_hold_a_layer_without_units() {
        let hidden = HiddenLayer { weights: Array2::zeros((3, 0)), bias: Vec::new() };
        let names = vec!["a".to_owned(), "b".to_owned()];
        let bias = Some(vec![1.0, -1.0]);
        let model =
            Model::with_hidden(Some(hidden), Array2::zeros((0, 2)), bias, Output::Sigmoid, names).unwrap();
        let read = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
        let mut sparse = Sparse::empty(3);
        (0..600).for_each(|_| sparse.push(&[1], &[2.0]).unwrap());
        for rows in [Features::Dense(Array2::ones((600, 3))), Features::Sparse(sparse)] {
            let found = read.logits(rows).unwrap();
            assert!(found.outer_iter().all(|row| row.to_vec() == [1.0, -1.0]));
        }
    }
}
