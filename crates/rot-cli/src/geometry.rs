//! Which labels are near each other: by the vectors of their names, or by the rows that have them.

use std::borrow::Cow;

use clap::ValueEnum;
use ndarray::Array2;
use robust_ot_learn::{Dataset, label_means};

use crate::failure::Failure;
use crate::memory::Memory;

/// Where the vectors of labels come from that transport moves along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Geometry {
    /// --label-vectors, or one-hot
    Names,
    /// The mean features of the training rows with each label, seen from the mean of all rows
    Rows,
}

/// The vectors of the labels, of every kind that is asked for.
pub struct Geometries<'a> {
    names: Cow<'a, Array2<f64>>,
    pub rows: Option<Array2<f64>>,
}

impl<'a> Geometries<'a> {
    /// Makes those that are asked for and not there.
    pub fn new(
        asked: [Option<Geometry>; 2],
        train: &Dataset,
        vectors: Option<&'a Array2<f64>>,
    ) -> Result<Self, Failure> {
        let labels = train.targets().labels();
        let names = match vectors {
            Some(vectors) => Cow::Borrowed(vectors),
            None if asked.contains(&Some(Geometry::Names)) => {
                check_fits("--label-vectors must be given: one-hot", labels, labels)?;
                Cow::Owned(Array2::eye(labels))
            }
            None => Cow::Owned(Array2::eye(0)),
        };
        let mut rows = None;
        if asked.contains(&Some(Geometry::Rows)) {
            check_fits("--geometry rows", labels, train.features().columns())?;
            rows = Some(label_means(train)?);
        }
        Ok(Self { names, rows })
    }

    /// The vectors of a kind that was asked for.
    pub fn of(&self, kind: Geometry) -> &Array2<f64> {
        self.rows.as_ref().filter(|_| kind == Geometry::Rows).unwrap_or(&self.names)
    }
}

/// Refuses vectors of labels that would not fit into memory.
fn check_fits(what: &str, labels: usize, length: usize) -> Result<(), Failure> {
    let bytes = labels.saturating_mul(length).saturating_mul(size_of::<f64>());
    if bytes <= Memory::of_this_machine().0 {
        return Ok(());
    }
    let needed = Memory(bytes);
    Err(Failure::Input(format!("{what} vectors of {labels} labels must fit into memory, but take {needed}")))
}
