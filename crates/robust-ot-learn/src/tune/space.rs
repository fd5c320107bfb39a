//! Which candidates are tried, and in what order.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::candidate::{StepLoss, Steps, TuneScaling};
use crate::data::Features;
use crate::fit::{FitSettings, Preparation, Samples};
use crate::hidden_settings::HiddenSettings;
use crate::label_kernel::PriorGeometry;
use crate::model::Model;
use crate::scores::has_one_label_per_row;

const UNITS: [usize; 3] = [512, 1024, 2048];
const DROPOUT: [f64; 3] = [0.3, 0.5, 0.7];
const INPUT_DROPOUT: [f64; 3] = [0.0, 0.2, 0.4];
const RATES: [f64; 3] = [5e-4, 1e-3, 3e-3];
const DECAYS: [f64; 4] = [0.0, 0.01, 0.1, 0.3];
/// How often a draw is repeated that has been tried before.
const DRAWS: usize = 100;

/// What the data allow.
#[derive(Debug, Clone)]
pub(super) struct Space {
    /// Whether rows have several labels.
    pub(super) several: bool,
    /// Whether labels have vectors.
    pub(super) names: bool,
    /// The scalings to choose from, the most promising first.
    pub(super) scalings: Vec<TuneScaling>,
}

impl Space {
    /// What these data allow; the scaling that suits the linear model best comes first.
    pub(super) fn of(samples: &Samples, settings: &FitSettings, linear: Option<&Model>) -> Self {
        let Preparation { columns_stated, row_length_stated, .. } = settings.preparation;
        let unit = (!row_length_stated).then_some(TuneScaling::UnitRows);
        let standardized = (!columns_stated).then_some(TuneScaling::Standardized);
        let order = match samples.train.features() {
            Features::Dense(_) => [standardized, unit, Some(TuneScaling::Given)],
            Features::Sparse(_) => [unit, standardized, Some(TuneScaling::Given)],
        };
        let mut scalings: Vec<TuneScaling> = order.into_iter().flatten().collect();
        if let Some(Model { preprocessing, .. }) = linear {
            let best = match (&preprocessing.standardization, preprocessing.row_length) {
                (Some(_), _) if standardized.is_some() => TuneScaling::Standardized,
                (_, Some(_)) if unit.is_some() => TuneScaling::UnitRows,
                _ => TuneScaling::Given,
            };
            scalings.sort_by_key(|scaling| *scaling != best);
        }
        let several = !has_one_label_per_row(samples.train.targets());
        Self { several, names: samples.label_vectors.is_some(), scalings }
    }

    /// The most promising candidates, the best first, then random ones, none of them twice.
    pub(super) fn candidates(&self, seed: u64) -> impl Iterator<Item = Steps> {
        let first = self.first();
        let mut seen = first.clone();
        let (space, mut rng) = (self.clone(), ChaCha8Rng::seed_from_u64(seed));
        first.into_iter().chain(std::iter::from_fn(move || {
            let draw = (0..DRAWS).map(|_| space.draw(&mut rng)).find(|draw| !seen.contains(draw))?;
            seen.push(draw);
            Some(draw)
        }))
    }

    /// The model to begin with, which does well on most data.
    fn usual(&self) -> Steps {
        Steps {
            loss: if self.several { StepLoss::Bce } else { StepLoss::Ce },
            hidden: Some(HiddenSettings::new(2048)),
            scaling: self.scalings[0],
            prior: if self.names { PriorGeometry::Names } else { PriorGeometry::Rows },
            learning_rate: 1e-3,
            weight_decay: 0.01,
        }
    }

    fn first(&self) -> Vec<Steps> {
        let usual = self.usual();
        let other = if self.several { StepLoss::Asl } else { StepLoss::Bce };
        let hidden = |units, dropout, input_dropout| Some(HiddenSettings { units, dropout, input_dropout });
        let of_scaling = |place: usize| self.scalings[place.min(self.scalings.len() - 1)];
        let mut all = vec![
            usual,
            Steps { loss: other, ..usual },
            Steps { scaling: of_scaling(1), loss: other, ..usual },
            Steps { prior: PriorGeometry::None, ..usual },
            Steps { weight_decay: 0.1, hidden: hidden(2048, 0.5, 0.0), ..usual },
            Steps { loss: other, hidden: hidden(512, 0.3, 0.2), prior: PriorGeometry::None, ..usual },
            Steps { scaling: of_scaling(2), ..usual },
            Steps { loss: other, prior: PriorGeometry::Rows, weight_decay: 0.1, ..usual },
        ];
        if self.names {
            all.push(Steps { loss: StepLoss::Mix, ..usual });
        }
        let mut kept: Vec<Steps> = Vec::new();
        for steps in all {
            if !kept.contains(&steps) {
                kept.push(steps);
            }
        }
        kept
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Steps {
        let losses: &[StepLoss] = match (self.several, self.names) {
            (true, _) => &[StepLoss::Bce, StepLoss::Asl],
            (false, true) => &[StepLoss::Ce, StepLoss::Bce, StepLoss::Mix],
            (false, false) => &[StepLoss::Ce, StepLoss::Bce],
        };
        let priors: &[PriorGeometry] = if self.names {
            &[PriorGeometry::Names, PriorGeometry::Rows, PriorGeometry::Both, PriorGeometry::None]
        } else {
            &[PriorGeometry::Rows, PriorGeometry::None]
        };
        // Two of three draws take the scaling that did best.
        let scaling = if rng.random_bool(2.0 / 3.0) { self.scalings[0] } else { one(&self.scalings, rng) };
        Steps {
            loss: one(losses, rng),
            hidden: Some(HiddenSettings {
                units: one(&UNITS, rng),
                dropout: one(&DROPOUT, rng),
                input_dropout: one(&INPUT_DROPOUT, rng),
            }),
            scaling,
            prior: one(priors, rng),
            learning_rate: one(&RATES, rng),
            weight_decay: one(&DECAYS, rng),
        }
    }
}

/// One of these values, which are not empty.
fn one<T: Copy>(values: &[T], rng: &mut ChaCha8Rng) -> T {
    values.choose(rng).copied().unwrap_or(values[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_candidate_comes_twice_and_the_seed_decides() {
        for (several, names) in [(true, true), (true, false), (false, true), (false, false)] {
            let scalings = vec![TuneScaling::UnitRows, TuneScaling::Standardized];
            let space = Space { several, names, scalings };
            let all: Vec<Steps> = space.candidates(3).take(60).collect();
            assert_eq!(all.len(), 60);
            for (place, candidate) in all.iter().enumerate() {
                assert!(!all[..place].contains(candidate));
                assert!(names || !candidate.prior.has_names());
                assert!(several || candidate.loss != StepLoss::Asl);
            }
            assert_eq!(all, space.candidates(3).take(60).collect::<Vec<_>>());
            assert_ne!(all, space.candidates(4).take(60).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_space_of_one_scaling_has_an_end() {
        let space = Space { several: false, names: false, scalings: vec![TuneScaling::Given] };
        let count = space.candidates(0).count();
        assert!(count <= 2 * 27 * 3 * 4 * 2, "{count}");
    }
}
