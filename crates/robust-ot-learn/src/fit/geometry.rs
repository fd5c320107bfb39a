//! Which labels are close to each other: by the vectors of their names, or by the rows that have them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ndarray::Array2;
use robust_ot::{Error, Result};

use crate::dataset::Dataset;
use crate::label_means::label_means;
use crate::memory::Memory;

/// Where the label vectors of a loss come from.
///
/// ```
/// use robust_ot_learn::Geometry;
/// assert_eq!("rows".parse::<Geometry>()?, Geometry::Rows);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Geometry {
    /// The vectors of the label names, or one-hot vectors.
    #[default]
    Names,
    /// The mean features of the training rows with each label, relative to the mean of all rows.
    Rows,
}

impl Geometry {
    /// The name in files, on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Rows => "rows",
        }
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Geometry {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Names, Self::Rows]
            .into_iter()
            .find(|geometry| geometry.name() == name)
            .ok_or_else(|| Error::parameter("geometry", "names or rows", name))
    }
}

/// The label vectors of every kind that a fit needs.
pub(super) struct Geometries<'a> {
    names: Cow<'a, Array2<f64>>,
    rows: Option<Array2<f64>>,
}

impl<'a> Geometries<'a> {
    /// Computes the kinds that are needed and not given.
    pub(super) fn new(
        needed: [Option<Geometry>; 2],
        train: &Dataset,
        vectors: Option<&'a Array2<f64>>,
        memory: Memory,
    ) -> Result<Self> {
        let labels = train.targets().labels();
        let names = match vectors {
            Some(vectors) => Cow::Borrowed(vectors),
            None if needed.contains(&Some(Geometry::Names)) => {
                let rule = format!("be given for {labels} labels");
                check_fits(("label_vectors", rule, "one-hot vectors"), (labels, labels), memory)?;
                Cow::Owned(Array2::eye(labels))
            }
            None => Cow::Owned(Array2::eye(0)),
        };
        let mut rows = None;
        if needed.contains(&Some(Geometry::Rows)) {
            let rule = format!("be names for {labels} labels");
            let shape = (labels, train.features().columns());
            check_fits(("geometry", rule, "the mean rows"), shape, memory)?;
            rows = Some(label_means(train)?);
        }
        Ok(Self { names, rows })
    }

    /// The vectors of a kind that the fit needs.
    pub(super) fn of(&self, kind: Geometry) -> &Array2<f64> {
        self.rows.as_ref().filter(|_| kind == Geometry::Rows).unwrap_or(&self.names)
    }

    /// The vectors computed from the rows, if the fit needs them.
    pub(super) fn into_rows(self) -> Option<Array2<f64>> {
        self.rows
    }
}

/// Refuses label vectors that do not fit into memory.
fn check_fits(
    (name, rule, what): (&'static str, String, &str),
    (labels, length): (usize, usize),
    memory: Memory,
) -> Result<()> {
    let bytes = labels.saturating_mul(length).saturating_mul(size_of::<f64>());
    if bytes <= memory.0 {
        return Ok(());
    }
    let found = format!("{what} take {} of {memory}", Memory(bytes));
    Err(Error::Conflict { name, rule, found })
}
