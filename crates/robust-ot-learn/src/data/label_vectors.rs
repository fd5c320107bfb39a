//! A vector for each label.

use std::collections::HashSet;
use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;

use super::room::Room;
use super::{Embeddings, extension, format_error, read_npy};

/// One vector per label; see [`LabelVectors::read`].
#[derive(Debug, Clone, PartialEq)]
pub struct LabelVectors {
    /// One row per label; zero for labels without a vector.
    pub vectors: Array2<f64>,
    /// The labels without a vector.
    pub missing: Vec<usize>,
}

impl LabelVectors {
    /// Finds the vectors of these labels among word vectors in text, gzipped or not, or reads them row by row from `.npy`.
    ///
    /// A label is looked up by its name, then with `_` for spaces, then both in lower case. If all names share a prefix
    /// that ends in `_` (`TAG_sea`, `TAG_ship`), the same spellings are then tried without it. Otherwise the label's
    /// vector is the average of the vectors of its words, if all have one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let path = dir.path().join("words.vec");
    /// std::fs::write(&path, "sea 1 0\nship 0 1\n").unwrap();
    /// let names = ["Sea".to_owned(), "sea ship".to_owned(), "sky".to_owned()];
    /// let labels = robust_ot_learn::data::LabelVectors::read(&path, &names)?;
    /// assert_eq!(labels.vectors, ndarray::array![[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]);
    /// assert_eq!(labels.missing, [2]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Embeddings::read`] or [`read_npy`], and when `.npy` does not have one row of finite numbers per label.
    pub fn read(path: &Path, names: &[String]) -> Result<Self> {
        if extension(path) == "npy" {
            return Self::read_rows(path, names.len());
        }
        let shared = shared_prefix(names);
        let spellings: Vec<Spellings> = names.iter().map(|name| Spellings::of(name, shared)).collect();
        let wanted: HashSet<&str> = spellings.iter().flat_map(Spellings::all).collect();
        let embeddings = Embeddings::read(path, &wanted)?;
        // The length may be that of a header, which no line confirms.
        let bytes = names.len().saturating_mul(embeddings.dim()).saturating_mul(size_of::<f64>());
        Room::new().take(bytes).map_err(|message| format_error(path, message))?;
        let mut vectors = Array2::zeros((names.len(), embeddings.dim()));
        let mut missing = Vec::new();
        for (label, spelling) in spellings.iter().enumerate() {
            let parts = spelling.find(&embeddings);
            let mut row = vectors.row_mut(label);
            for part in &parts {
                row.iter_mut().zip(*part).for_each(|(sum, value)| *sum += value / parts.len() as f64);
            }
            if parts.is_empty() {
                missing.push(label);
            }
        }
        Ok(Self { vectors, missing })
    }

    fn read_rows(path: &Path, labels: usize) -> Result<Self> {
        let vectors = read_npy(path)?;
        if vectors.nrows() != labels {
            let message = format!("must have one row per label, but has {} for {labels}", vectors.nrows());
            return Err(format_error(path, message));
        }
        if let Some(((row, column), value)) = vectors.indexed_iter().find(|(_, value)| !value.is_finite()) {
            let message = format!(
                "label vectors must be finite, but row {}, column {} is {value} (counting from 1)",
                row + 1,
                column + 1
            );
            return Err(format_error(path, message));
        }
        Ok(Self { vectors, missing: Vec::new() })
    }
}

/// The length in bytes of the prefix that all names share, up to the last `_` that leaves a nonempty rest of each name. A
/// shared prefix distinguishes no labels.
fn shared_prefix(names: &[String]) -> usize {
    let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else {
        return 0;
    };
    let agree = |name: &String| first.bytes().zip(name.bytes()).take_while(|(x, y)| x == y).count();
    let shared = others.iter().map(agree).min().unwrap_or(0);
    let shortest = names.iter().map(String::len).min().unwrap_or(0);
    let shared = shared.min(shortest.saturating_sub(1));
    first.as_bytes()[..shared].iter().rposition(|&byte| byte == b'_').map_or(0, |place| place + 1)
}

/// The spellings under which a label is looked up.
struct Spellings {
    /// The whole label, the likeliest spelling first.
    whole: Vec<String>,
    /// Its words, each as written and in lower case.
    words: Vec<[String; 2]>,
}

impl Spellings {
    fn of(name: &str, shared: usize) -> Self {
        let own = &name[shared..];
        let ways = |name: &str| {
            let joined = name.replace(' ', "_");
            [name.to_owned(), joined.clone(), name.to_lowercase(), joined.to_lowercase()]
        };
        let words = own.split([' ', '_', '-', '/']).filter(|word| !word.is_empty());
        Self {
            words: words.map(|word| [word.to_owned(), word.to_lowercase()]).collect(),
            whole: ways(name).into_iter().chain(ways(own)).collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.whole.iter().chain(self.words.iter().flatten()).map(String::as_str)
    }

    /// The vectors whose average is the label's vector; empty if it has none.
    fn find<'a>(&self, embeddings: &'a Embeddings) -> Vec<&'a [f64]> {
        if let Some(vector) = self.whole.iter().find_map(|spelling| embeddings.get(spelling)) {
            return vec![vector];
        }
        let word = |spellings: &[String; 2]| spellings.iter().find_map(|spelling| embeddings.get(spelling));
        self.words.iter().map(word).collect::<Option<_>>().unwrap_or_default()
    }
}

/// Scales every row to length one, except rows of zeros. Rows are first divided by their largest number, so that no square
/// leaves the range.
///
/// ```
/// let mut vectors = ndarray::array![[3e200, 4e200], [0.0, 0.0]];
/// robust_ot_learn::data::to_length_one(&mut vectors);
/// assert_eq!(vectors, ndarray::array![[0.6, 0.8], [0.0, 0.0]]);
/// ```
pub fn to_length_one(vectors: &mut Array2<f64>) {
    for mut row in vectors.rows_mut() {
        let largest = row.fold(0.0_f64, |top, x| top.max(x.abs()));
        if largest > 0.0 {
            row.mapv_inplace(|x| x / largest);
            let length = row.dot(&row).sqrt();
            row.mapv_inplace(|x| x / length);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::data::compressed::tests::gzip;
    use crate::data::write_npy;

    fn read(bytes: &[u8], names: &[&str]) -> Result<LabelVectors> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.vec");
        std::fs::write(&path, bytes).unwrap();
        LabelVectors::read(&path, &names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_all_names_begin_with_is_left_out() {
        let text = b"tag 9 9\nsea 1 0\nship 0 1\nsea_ship 3 3\n";
        let found = read(text, &["TAG_sea", "TAG_Ship", "TAG_sea ship", "TAG_ship-sea"]).unwrap();
        assert_eq!(found.vectors, array![[1.0, 0.0], [0.0, 1.0], [3.0, 3.0], [0.5, 0.5]]);
        // A single name shares no prefix, and no prefix is removed that would leave an empty name.
        assert_eq!(read(text, &["tag_sea"]).unwrap().vectors, array![[5.0, 4.5]]);
        assert_eq!(read(text, &["sea_", "sea_ship"]).unwrap().vectors, array![[1.0, 0.0], [3.0, 3.0]]);
    }

    #[test]
    fn names_are_looked_up_in_several_spellings() {
        let text = b"6 2\npolar_bear 1 2\nPolar 9 9\npolar 3 0\nbear 5 4\nIce 7 7\nice 8 8\n";
        let names = ["polar bear", "Polar Bear", "bear-ICE", "Ice", "bear/polar_bear", "polar fox", "", "_"];
        let expected = array![
            [1.0, 2.0], // `_` for the space
            [1.0, 2.0], // and in lower case, before any average
            [6.5, 6.0], // bear and ice
            [7.0, 7.0], // as written
            [13.0 / 3.0, 8.0 / 3.0],
            [0.0, 0.0],
            [0.0, 0.0],
            [0.0, 0.0]
        ];
        let labels = read(text, &names).unwrap();
        approx::assert_abs_diff_eq!(labels.vectors, expected, epsilon = 1e-12);
        assert_eq!(labels.missing, [5, 6, 7]);
        assert_eq!(read(&gzip(text), &names).unwrap(), labels);
    }

    #[test]
    fn vectors_of_another_length_have_their_line() {
        let message = read(b"sea 1 2\nship 1 2 3\n", &["sea", "ship"]).unwrap_err().to_string();
        assert!(
            message.contains("w.vec:2: the vector of 'ship' must have 2 numbers, but has 3"),
            "{message}"
        );
    }

    #[test]
    fn rows_of_npy_are_labels() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.npy");
        let names = ["a".to_owned(), "b".to_owned()];
        write_npy(&path, &array![[1.0], [2.0]]).unwrap();
        let labels = LabelVectors::read(&path, &names).unwrap();
        assert_eq!((labels.vectors, labels.missing), (array![[1.0], [2.0]], vec![]));
        let message = LabelVectors::read(&path, &names[..1]).unwrap_err().to_string();
        assert!(message.contains("one row per label, but has 2 for 1"));
        write_npy(&path, &array![[1.0], [f64::NAN]]).unwrap();
        let message = LabelVectors::read(&path, &names).unwrap_err().to_string();
        assert!(message.contains("row 2, column 1 is NaN"));
    }
}
