//! Samples with a given number of rows per class, for training, validation and testing. No row is in two of them.

use clap::Args;
use robust_ot::Error;
use robust_ot_learn::{Dataset, sample_per_class};

use crate::failure::Failure;

/// The paper's samples of MNIST.
pub const PAPER: ClassSamples =
    ClassSamples { per_class: Some(100), validation_per_class: None, test_per_class: Some(1000) };

/// The number of rows to draw per class.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
#[command(next_help_heading = "Data")]
pub struct ClassSamples {
    /// Draw this many training rows per class
    #[arg(long, value_name = "N")]
    pub per_class: Option<usize>,
    /// Draw this many validation rows per class, from the training rows that --per-class leaves
    #[arg(long, value_name = "N", conflicts_with = "validation")]
    pub validation_per_class: Option<usize>,
    /// Draw this many test rows per class; with --mnist, from all rows not used for training
    #[arg(long, value_name = "N")]
    pub test_per_class: Option<usize>,
}

/// Rows for training, validation and testing.
pub struct Drawn {
    pub train: Dataset,
    pub validation: Option<Dataset>,
    pub test: Option<Dataset>,
}

impl ClassSamples {
    /// The given counts, and those of `others` where none is given.
    pub fn or(&self, others: &Self) -> Self {
        Self {
            per_class: self.per_class.or(others.per_class),
            validation_per_class: self.validation_per_class.or(others.validation_per_class),
            test_per_class: self.test_per_class.or(others.test_per_class),
        }
    }

    /// Draws the samples. If `pooled`, test rows also come from the training rows that were not drawn.
    pub fn draw(
        &self,
        train: Dataset,
        test: Option<Dataset>,
        seed: u64,
        pooled: bool,
    ) -> Result<Drawn, Failure> {
        let sample = |option: &str, rows: &Dataset, count: usize| {
            let drawn = sample_per_class(rows.targets(), count, seed);
            drawn.map_err(|error| match error {
                Error::Parameter { rule, value, .. } => {
                    Failure::Input(format!("{option} must be {rule}, but is {value}"))
                }
                other => Failure::about(option, &other),
            })
        };
        if let (None, Some(count)) = (self.per_class, self.validation_per_class) {
            return Err(Failure::Input(format!(
                "--validation-per-class must go with --per-class, but is {count}"
            )));
        }
        let (mut train, mut left, mut validation) = (train, None, None);
        if let Some(count) = self.per_class {
            let (chosen, rest) = sample("--per-class", &train, count)?;
            let mut rest = train.select(&rest);
            if let Some(count) = self.validation_per_class {
                let (chosen, others) = sample("--validation-per-class", &rest, count)?;
                validation = Some(rest.select(&chosen));
                rest = rest.select(&others);
            }
            train = train.select(&chosen);
            left = Some(rest);
        }
        let test = match (self.test_per_class, test) {
            (None, test) => test,
            (Some(_), None) => {
                return Err(Failure::Input("--test-per-class needs test rows, but there are none".into()));
            }
            (Some(count), Some(mut pool)) => {
                if let Some(left) = left.filter(|_| pooled) {
                    pool.append(&left)?;
                }
                let (chosen, _) = sample("--test-per-class", &pool, count)?;
                Some(pool.select(&chosen))
            }
        };
        Ok(Drawn { train, validation, test })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use robust_ot::loss::Targets;
    use robust_ot_learn::data::Features;

    use super::*;

    /// Rows whose only feature is their number.
    fn numbered(from: usize, rows: usize) -> Dataset {
        let features = Array2::from_shape_fn((rows, 1), |(row, _)| (from + row) as f32);
        let labels: Vec<[usize; 1]> = (0..rows).map(|row| [row % 2]).collect();
        Dataset::new(Features::Dense(features), Targets::new(2, labels).unwrap()).unwrap()
    }

    fn numbers(data: &Dataset) -> Vec<usize> {
        match data.features() {
            Features::Dense(rows) => rows.iter().map(|x| *x as usize).collect(),
            Features::Sparse(_) => unreachable!("these rows are dense"),
        }
    }

    #[test]
    fn no_row_is_drawn_twice() {
        let asked =
            ClassSamples { per_class: Some(3), validation_per_class: Some(4), test_per_class: Some(13) };
        for seed in 0..20 {
            let drawn = asked.draw(numbered(0, 20), Some(numbered(20, 20)), seed, true).unwrap();
            let parts = [&drawn.train, drawn.validation.as_ref().unwrap(), drawn.test.as_ref().unwrap()];
            let mut all: Vec<usize> = parts.into_iter().flat_map(numbers).collect();
            assert_eq!(all.len(), 2 * (3 + 4 + 13));
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 2 * (3 + 4 + 13), "every row is drawn once");
        }
    }

    #[test]
    fn too_many_are_refused_by_the_option_that_asked() {
        let asked = ClassSamples { per_class: Some(8), validation_per_class: Some(3), test_per_class: None };
        let failure = asked.draw(numbered(0, 20), None, 0, false).err().unwrap();
        assert!(
            matches!(failure, Failure::Input(message) if message.contains("--validation-per-class") && message.contains('2'))
        );
    }
}
