//! Steps shared by several learners. Each computes $\nabla \sum_{i \in B_w} \ell_i(W, b)$ over its own rows; the sum over
//! all learners gives the step that one learner would take with all rows, $B = \bigcup_w B_w$.

use robust_ot::{Error, Kernels, Result};

use crate::dataset::Dataset;
use crate::learner::Learner;
use crate::linear::block_len;
use crate::optimizer::Step;
use crate::slopes::Slopes;
use crate::trainer::Epoch;

/// The gradient of the summed losses of some rows.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, Learner, Objective, TrainSettings};
/// use robust_ot::loss::Targets;
///
/// let mut learner = Learner::new(1, Objective::cross_entropy(2), TrainSettings::default())?;
/// let rows = |x, label| Dataset::new(Features::Dense(array![[x]]), Targets::new(2, [[label]])?);
/// let mut gradient = learner.gradient(&rows(-2.0, 0)?)?;
/// gradient.add(&learner.gradient(&rows(2.0, 1)?)?)?;
/// assert_eq!((gradient.rows, gradient.weights.as_slice()), (2, [2.0, -2.0].as_slice()));
/// learner.step(&gradient)?;
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gradient {
    /// ∂/∂W, features × labels.
    pub weights: Vec<f32>,
    /// ∂/∂b; empty without a bias.
    pub bias: Vec<f32>,
    /// The summed losses.
    pub loss: f64,
    /// Number of rows.
    pub rows: usize,
}

impl Gradient {
    /// Adds the gradient of other rows.
    ///
    /// # Errors
    /// When the sizes differ.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.fits((other.weights.len(), other.bias.len()))?;
        f32::add_own(&mut self.weights, 1.0, &other.weights);
        f32::add_own(&mut self.bias, 1.0, &other.bias);
        self.loss += other.loss;
        self.rows += other.rows;
        Ok(())
    }

    fn fits(&self, (weights, biases): (usize, usize)) -> Result<()> {
        let found = (self.weights.len(), self.bias.len());
        if found == (weights, biases) {
            return Ok(());
        }
        Err(Error::Shape {
            name: "the gradient",
            expected: format!("of {weights} weights and {biases} biases"),
            found: format!("of {} and {}", found.0, found.1),
        })
    }
}

impl Learner {
    /// Number of weights, without biases.
    ///
    /// ```
    /// use robust_ot_learn::{Learner, Objective, TrainSettings};
    /// let learner = Learner::new(5, Objective::cross_entropy(3), TrainSettings::default())?;
    /// assert_eq!(learner.weight_count(), 15);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn weight_count(&self) -> usize {
        self.state.weights.values.len()
    }

    /// Computes the gradient of the summed losses of these rows at the current weights.
    ///
    /// # Errors
    /// When the rows differ in features or labels, or training diverges.
    pub fn gradient(&self, rows: &Dataset) -> Result<Gradient> {
        self.check(rows)?;
        let mut slopes = Slopes::workspace(rows, &self.settings);
        let all: Vec<usize> = (0..rows.rows()).collect();
        let place = (self.history().len() + 1, self.state.progress.steps as usize + 1);
        let loss = slopes.find((rows, &all), &self.objective, &self.state, place)?;
        let biases = self.state.bias.as_ref().map_or(0, |bias| bias.values.len());
        let mut found = Gradient {
            weights: vec![0.0; self.weight_count()],
            bias: vec![0.0; biases],
            loss,
            rows: all.len(),
        };
        slopes.of_weights(&mut found.weights);
        if biases > 0 {
            slopes.of_bias(&mut found.bias);
        }
        Ok(found)
    }

    /// Takes one step with the gradient of a batch, which may be summed over several learners.
    ///
    /// # Errors
    /// When the gradient has another size, no rows or an entry that is not finite, or leads to weights that are not
    /// finite, which leave the learner unusable.
    pub fn step(&mut self, gradient: &Gradient) -> Result<()> {
        let biases = self.state.bias.as_ref().map_or(0, |bias| bias.values.len());
        gradient.fits((self.weight_count(), biases))?;
        if gradient.rows == 0 {
            return Err(Error::parameter("rows", "at least 1 in a step", 0));
        }
        let number = self.state.progress.steps + 1;
        let epoch = self.history().len() + 1;
        let finite = |what, numbers: &[f32]| match numbers.iter().find(|x| !x.is_finite()) {
            None => Ok(()),
            Some(&odd) => Err(Error::Diverged { what, value: f64::from(odd), epoch, batch: number as usize }),
        };
        finite("a gradient entry", &gradient.weights)?;
        finite("a gradient entry", &gradient.bias)?;
        let settings = &self.settings;
        let step = Step {
            optimizer: settings.optimizer,
            rate: settings.learning_rate,
            decay: settings.weight_decay,
            number,
        };
        let factor = settings.reduction.factor(gradient.rows) as f32;
        let len = block_len(self.objective.labels());
        let scaled = |from: &[f32], block: usize, out: &mut [f32]| {
            out.iter_mut().zip(&from[block * len..]).for_each(|(out, g)| *out = factor * g);
        };
        self.state.weights.step(step, len, |block, out| scaled(&gradient.weights, block, out));
        if let Some(bias) = &mut self.state.bias {
            bias.step(Step { decay: 0.0, ..step }, len, |block, out| scaled(&gradient.bias, block, out));
        }
        self.state.progress.steps = number;
        finite("a weight", &self.state.weights.values)?;
        finite("a bias", self.state.bias.as_ref().map_or(&[], |bias| &bias.values))
    }

    /// Ends a pass that was taken step by step, and records its loss and duration.
    pub fn end_pass(&mut self, loss: f64, seconds: f64) {
        let epoch = self.history().len() + 1;
        self.state.progress.epochs.push(Epoch {
            epoch,
            loss,
            seconds,
            validation_auc: None,
            validation_score: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::data::Features;
    use crate::testing::{matrix, rng};
    use crate::{Objective, Optimizer, TrainSettings};
    use robust_ot::Grouping;
    use robust_ot::loss::{LossSettings, RobustLoss, Targets};
    use robust_ot::solve::Interrupt;

    const LABELS: usize = 4;

    fn rows(range: std::ops::Range<usize>) -> Dataset {
        let all = matrix(30, 5, &mut rng(1)).mapv(|x| x as f32);
        let features = Array2::from_shape_fn((range.len(), 5), |(i, f)| all[[range.start + i, f]]);
        let truths: Vec<_> = range.map(|i| vec![i % LABELS, (i * i + 1) % LABELS]).collect();
        let truths = truths.into_iter().map(|mut truth| {
            truth.sort_unstable();
            truth.dedup();
            truth
        });
        Dataset::new(Features::Dense(features), Targets::new(LABELS, truths).unwrap()).unwrap()
    }

    fn learner(optimizer: Optimizer, bias: bool) -> Learner {
        let vectors = matrix(LABELS, 3, &mut rng(2));
        // The same iterations whatever the last digits: a solve to a tolerance may end one earlier.
        let settings = LossSettings::truncated();
        let robust = RobustLoss::new(&vectors, &Grouping::none(3), settings).unwrap();
        let objective = Objective::mix(1.0, 5.0, robust).unwrap();
        let settings = TrainSettings {
            optimizer,
            bias,
            batch: 30,
            learning_rate: 0.05,
            weight_decay: 0.01,
            ..Default::default()
        };
        Learner::new(5, objective, settings).unwrap()
    }

    #[test]
    fn parts_add_up_to_the_step_with_all_rows() {
        for optimizer in [Optimizer::Sgd { momentum: 0.9 }, Optimizer::Adam] {
            for bias in [true, false] {
                let (mut whole, mut shared) = (learner(optimizer, bias), learner(optimizer, bias));
                for _ in 0..20 {
                    whole.learn(&rows(0..30), &Interrupt::default()).unwrap();
                    let mut gradient = shared.gradient(&rows(0..7)).unwrap();
                    gradient.add(&shared.gradient(&rows(7..30)).unwrap()).unwrap();
                    shared.step(&gradient).unwrap();
                    shared.end_pass(gradient.loss / gradient.rows as f64, 0.0);
                }
                let names = || (0..LABELS).map(|label| label.to_string()).collect();
                let (whole, shared) = (whole.model(names()).unwrap(), shared.model(names()).unwrap());
                let apart =
                    (&whole.weights() - &shared.weights()).mapv(f32::abs).fold(0.0, |a: f32, b| a.max(*b));
                assert!(apart < 1e-6, "{optimizer}, bias {bias}: {apart}");
            }
        }
    }

    #[test]
    fn gradients_are_the_slopes_of_the_loss() {
        let mut learner =
            Learner::new(5, Objective::cross_entropy(LABELS), TrainSettings::default()).unwrap();
        let data = rows(0..30);
        learner.learn(&data, &Interrupt::default()).unwrap();
        let gradient = learner.gradient(&data).unwrap();
        let step = 1e-2;
        for place in 0..5 * LABELS {
            let mut ends = [step, -step].map(|step| {
                let mut moved = learner.clone();
                moved.state.weights.values[place] += step;
                moved.gradient(&data).unwrap().loss
            });
            ends.iter_mut().for_each(|loss| *loss /= 2.0 * f64::from(step));
            let slope = ends[0] - ends[1];
            assert!((slope - f64::from(gradient.weights[place])).abs() < 2e-3, "{place}: {slope}");
        }
    }

    #[test]
    fn gradients_of_another_size_are_refused() {
        let mut with_bias = learner(Optimizer::Adam, true);
        let mut gradient = learner(Optimizer::Adam, false).gradient(&rows(0..3)).unwrap();
        let told = with_bias.step(&gradient).unwrap_err().to_string();
        assert_eq!(told, "the gradient must be of 20 weights and 4 biases, but is of 20 and 0");
        assert!(gradient.add(&with_bias.gradient(&rows(0..3)).unwrap()).is_err());
        let mut odd = learner(Optimizer::Adam, true).gradient(&rows(0..3)).unwrap();
        odd.bias[1] = f32::NAN;
        let told = with_bias.step(&odd).unwrap_err().to_string();
        assert!(told.contains("a gradient entry") && told.contains("NaN"), "{told}");
        gradient.rows = 0;
        assert!(
            learner(Optimizer::Adam, false).step(&gradient).unwrap_err().to_string().contains("at least 1")
        );
    }
}
