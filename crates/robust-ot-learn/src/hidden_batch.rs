//! The hidden layer in training: $H = D \circ \max(X V + c, 0)$ with a dropout mask $D$, and the gradients through it,
//! $\nabla V = X^\top (D \circ [H > 0] \circ S)$ with $S = \partial / \partial H$.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::{flat, flat_mut, product_blocks};

use crate::dropout::Dropout;
use crate::hidden_layer::{LayerView, rectify};
use crate::hidden_settings::HiddenSettings;
use crate::linear::{Batch, block_len, resize_rows};
use crate::optimizer::Step;
use crate::slopes::column_sums;
use crate::state::Layer;

/// Which numbers a [`Dropout`] drops.
const OF_INPUTS: u64 = 0;
const OF_UNITS: u64 = 1;

/// Buffers reused from batch to batch.
#[derive(Debug)]
pub(super) struct HiddenBatch {
    settings: HiddenSettings,
    seed: u64,
    outputs: Array2<f32>,
    slopes: Array2<f32>,
}

impl HiddenBatch {
    pub(super) fn workspace(settings: HiddenSettings, seed: u64) -> Self {
        let empty = || Array2::zeros((0, settings.units));
        Self { settings, seed, outputs: empty(), slopes: empty() }
    }

    /// The features that a step leaves out.
    pub(super) fn input_dropout(&self, step: u64) -> Option<Dropout> {
        Dropout::new(self.settings.input_dropout, self.seed, step, OF_INPUTS)
    }

    /// Computes H for the rows of a batch.
    pub(super) fn forward(&mut self, rows: &Batch, count: usize, layer: LayerView, step: u64) {
        resize_rows(&mut self.outputs, count);
        rows.forward(layer.weights, Some(layer.bias), self.outputs.view_mut());
        let (units, dropout) =
            (self.settings.units, Dropout::new(self.settings.dropout, self.seed, step, OF_UNITS));
        rectify(flat_mut(&mut self.outputs), units);
        if let Some(dropout) = dropout {
            let rows = flat_mut(&mut self.outputs).par_chunks_mut(units).enumerate();
            rows.for_each(|(row, numbers)| dropout.apply(row, numbers));
        }
    }

    /// H of the last batch.
    pub(super) fn outputs(&self) -> &Array2<f32> {
        &self.outputs
    }

    /// Computes the gradient before ReLU and dropout from that of H A, with A before its step. A unit that is dropped or at
    /// zero has none.
    pub(super) fn back(&mut self, slopes: &Array2<f32>, weights: &[f32]) {
        let Self { settings, outputs, slopes: own, .. } = self;
        let units = settings.units;
        let weights = ArrayView2::from_shape((units, slopes.ncols()), weights).expect("a row for every unit");
        resize_rows(own, slopes.nrows());
        product_blocks(own.view_mut(), slopes.view(), weights.t());
        let scale = Dropout::scale(settings.dropout);
        let rows = flat_mut(own).par_chunks_mut(units).zip(flat(outputs).par_chunks(units));
        rows.for_each(|(slopes, outputs)| {
            slopes.iter_mut().zip(outputs).for_each(|(s, h)| *s = if *h > 0.0 { scale * *s } else { 0.0 });
        });
    }

    /// Takes one step along the gradients of the layer.
    pub(super) fn descend(&self, rows: &Batch, step: Step, layer: &mut Layer) {
        let Self { settings, slopes, .. } = self;
        layer.weights.step(step, block_len(settings.units), |at, out| rows.gradient(at, slopes, out));
        layer.bias.step(step.without_decay(), settings.units, |_, out| column_sums(slopes, out));
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, s};
    use robust_ot::loss::Targets;

    use super::*;
    use crate::data::Features;
    use crate::dataset::Dataset;
    use crate::slopes::Slopes;
    use crate::state::State;
    use crate::{Asymmetric, Objective, Optimizer, TrainSettings, testing};

    const ROWS: usize = 9;
    const FEATURES: usize = 4;
    const UNITS: usize = 6;
    const LABELS: usize = 3;

    fn data() -> Dataset {
        let x = testing::matrix(ROWS, FEATURES, &mut testing::rng(1)).mapv(|x| x as f32);
        let truth = (0..ROWS).map(|row| if row % 2 == 0 { vec![0, 2] } else { vec![row % LABELS] });
        Dataset::new(Features::Dense(x), Targets::new(LABELS, truth).unwrap()).unwrap()
    }

    /// The numbers of a dropout mask.
    fn mask(dropout: Option<Dropout>, columns: usize) -> Array2<f64> {
        let mut mask = Array2::ones((ROWS, columns));
        for (row, mut numbers) in mask.outer_iter_mut().enumerate() {
            dropout.iter().for_each(|dropout| dropout.apply(row, numbers.as_slice_mut().unwrap()));
        }
        mask.mapv(f64::from)
    }

    /// V, c, A and b, one after the other.
    fn flattened(state: &State) -> Array1<f64> {
        let layer = state.hidden.as_ref().unwrap();
        let parts = [&layer.weights, &layer.bias, &state.weights, state.bias.as_ref().unwrap()];
        parts.iter().flat_map(|part| &part.values).map(|x| f64::from(*x)).collect()
    }

    /// Σ of binary cross-entropies in double precision.
    fn loss(at: &Array1<f64>, root: &Array2<f64>, masks: &(Array2<f64>, Array2<f64>), data: &Dataset) -> f64 {
        let Features::Dense(x) = data.features() else { unreachable!() };
        let sizes = [FEATURES * UNITS, UNITS, UNITS * LABELS];
        let (v, rest) = at.view().split_at(ndarray::Axis(0), sizes[0]);
        let (c, rest) = rest.split_at(ndarray::Axis(0), sizes[1]);
        let (a, b) = rest.split_at(ndarray::Axis(0), sizes[2]);
        let v = v.to_shape((FEATURES, UNITS)).unwrap().to_owned();
        let a = a.to_shape((UNITS, LABELS)).unwrap().to_owned();
        let h = ((x.mapv(f64::from) * &masks.0).dot(&v) + c).mapv(|h| h.max(0.0)) * &masks.1;
        let z = h.dot(&a).dot(root) + b;
        let of = |((row, label), z): ((usize, usize), &f64)| {
            let t = f64::from(u8::from(data.targets().row(row).contains(&label)));
            (1.0 + z.exp()).ln() - t * z
        };
        z.indexed_iter().map(of).sum()
    }

    #[test]
    fn gradients_are_finite_differences_in_double_precision() {
        let data = data();
        let uneven = testing::matrix(LABELS, LABELS, &mut testing::rng(2));
        let symmetric = (&uneven + &uneven.t()) * 0.5;
        for root in [None, Some(symmetric)] {
            for rates in [(0.0, 0.0), (0.5, 0.2)] {
                let hidden = HiddenSettings { units: UNITS, dropout: rates.0, input_dropout: rates.1 };
                let (optimizer, seed) = (Optimizer::Sgd { momentum: 0.0 }, 3);
                let settings =
                    TrainSettings { hidden: Some(hidden), optimizer, seed, ..TrainSettings::default() };
                let single = root.as_ref().map(|root| root.mapv(|x| x as f32));
                let objective = Objective::binary(LABELS).with_label_root(single.clone());
                let mut state = State::new(FEATURES, LABELS, &settings);
                let random = testing::matrix(1, UNITS * LABELS, &mut testing::rng(5));
                let values = random.iter().map(|x| *x as f32);
                state.weights.values.iter_mut().zip(values).for_each(|(w, x)| *w = x);
                let batch = HiddenBatch::workspace(hidden, seed);
                let units = Dropout::new(rates.0, seed, 0, OF_UNITS);
                let masks = (mask(batch.input_dropout(0), FEATURES), mask(units, UNITS));
                let before = flattened(&state);
                let mut slopes = Slopes::workspace(&data, &settings);
                let rows: Vec<usize> = (0..ROWS).collect();
                let found = slopes.find((&data, &rows), &objective, &state, (1, 1)).unwrap();
                let root = single.map_or_else(|| Array2::eye(LABELS), |root| root.mapv(f64::from));
                let wanted = loss(&before, &root, &masks, &data);
                assert!((found - wanted).abs() < 1e-5 * wanted, "{found} {wanted}");
                // A step of length one is the gradient.
                let step = Step { optimizer, rate: 1.0, decay: 0.0, number: 1 };
                slopes.descend(step, &objective, &mut state);
                let gradient = &before - &flattened(&state);
                assert!(gradient.slice(s![..FEATURES * UNITS]).iter().any(|g| g.abs() > 0.1));
                for (place, found) in gradient.iter().enumerate() {
                    let ends = [1e-6, -1e-6].map(|by| {
                        let mut moved = before.clone();
                        moved[place] += by;
                        loss(&moved, &root, &masks, &data)
                    });
                    let slope = (ends[0] - ends[1]) / 2e-6;
                    assert!((found - slope).abs() < 2e-5 * (1.0 + slope.abs()), "{place}: {found} {slope}");
                }
            }
        }
    }

    #[test]
    fn the_asymmetric_loss_goes_through_the_layer() {
        // The slope along the step is what the loss falls by.
        let data = data();
        let optimizer = Optimizer::Sgd { momentum: 0.0 };
        let hidden = HiddenSettings { units: UNITS, dropout: 0.0, input_dropout: 0.0 };
        let settings = TrainSettings { hidden: Some(hidden), optimizer, ..TrainSettings::default() };
        let objective = Objective::asymmetric(LABELS, Asymmetric::default()).unwrap();
        let mut state = State::new(FEATURES, LABELS, &settings);
        state.weights.values.iter_mut().enumerate().for_each(|(at, w)| *w = 0.3 - 0.1 * (at % 5) as f32);
        let mut slopes = Slopes::workspace(&data, &settings);
        let rows: Vec<usize> = (0..ROWS).collect();
        let (before, rate) = (flattened(&state), 1e-3);
        let first = slopes.find((&data, &rows), &objective, &state, (1, 1)).unwrap();
        slopes.descend(Step { optimizer, rate, decay: 0.0, number: 1 }, &objective, &mut state);
        let second = slopes.find((&data, &rows), &objective, &state, (1, 1)).unwrap();
        let moved = (&before - &flattened(&state)).mapv(|x| x * x).sum();
        assert!(((first - second) / (moved / rate) - 1.0).abs() < 0.05, "{first} {second} {moved}");
    }
}
