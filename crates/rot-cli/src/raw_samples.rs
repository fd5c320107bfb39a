//! Rows and labels as read from files, before any are dropped or sampled.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use robust_ot_learn::data::{Features, read_idx, read_idx_labels, read_labeled};

use crate::failure::Failure;

/// The maximum number of labels. A larger number is an error in the file and would exhaust the memory.
const MOST_LABELS: usize = 10_000_000;
/// The names of MNIST's classes, so that word vectors find them.
const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

/// Rows and labels as read from one file or pair of files.
pub struct Raw {
    pub place: PathBuf,
    pub features: Features,
    pub labels: Vec<Vec<usize>>,
}

/// Training and test rows with the names of the labels.
pub struct RawSamples {
    pub train: Raw,
    pub test: Option<Raw>,
    pub names: Vec<String>,
    /// The names of the features, if the training rows have some.
    pub feature_names: Option<Vec<String>>,
    /// The index of the first feature in svmlight files, 0 or 1.
    pub first_index: Option<usize>,
    /// Dropped labels with their index in the files.
    pub dropped: Vec<(usize, String)>,
    /// The indices of the other labels in the files.
    places: Vec<usize>,
}

/// Reads the four files of MNIST.
pub fn read_mnist(folder: &Path) -> Result<RawSamples, Failure> {
    let names = DIGITS.map(str::to_owned).to_vec();
    let (train, test) = (read_mnist_part(folder, "train")?, read_mnist_part(folder, "t10k")?);
    Ok(RawSamples::new(train, Some(test), names, None))
}

/// Reads one part of MNIST.
fn read_mnist_part(folder: &Path, part: &str) -> Result<Raw, Failure> {
    let find = |what: &str| {
        let plain = folder.join(format!("{part}-{what}-ubyte"));
        let zipped = folder.join(format!("{part}-{what}-ubyte.gz"));
        if plain.exists() || !zipped.exists() { plain } else { zipped }
    };
    let (images, labels) = (find("images-idx3"), find("labels-idx1"));
    let features = Features::Dense(read_idx(&images)?.into_rows());
    let labels = read_idx_labels(&labels)?.into_iter().map(|label| vec![label]).collect();
    Ok(Raw { place: images, features, labels })
}

/// Reads files whose labels are indices; the names come from a file or are the numbers.
pub fn read_indexed(
    train: &Path,
    test: Option<&Path>,
    names: Option<Vec<String>>,
) -> Result<RawSamples, Failure> {
    let mut parts = vec![(train, read_labeled(train)?)];
    if let Some(test) = test {
        parts.push((test, read_labeled(test)?));
    }
    let first_index = parts.iter().map(|(_, part)| part.first_index).min();
    if first_index == Some(0) {
        parts.iter_mut().for_each(|(_, part)| part.count_from_zero());
    }
    let columns = parts.iter().map(|(_, part)| part.features.columns()).max().unwrap_or(0);
    let count = parts.iter().map(|(_, part)| part.label_count).max().unwrap_or(0);
    if let Some(names) = names.as_ref().filter(|names| names.len() < count) {
        let (place, found) = (train.display(), names.len());
        let message = format!("--label-names must name all {count} labels of {place}, but has {found} lines");
        return Err(Failure::Input(message));
    }
    let mut raw = parts.into_iter().map(|(place, part)| {
        let mut features = Features::Sparse(part.features);
        // Without a header, a file shows only the columns it uses.
        if !part.had_header {
            features.widen(columns);
        }
        Raw { place: place.to_owned(), features, labels: part.labels }
    });
    let train = raw.next().ok_or_else(|| Failure::Other("no training rows were read".into()))?;
    Ok(RawSamples::new(train, raw.next(), names.map_or_else(|| numbered(count), Ok)?, first_index))
}

/// Label names that are the labels' numbers.
pub fn numbered(count: usize) -> Result<Vec<String>, Failure> {
    if count > MOST_LABELS {
        let largest = count - 1;
        return Err(Failure::Input(format!("labels must be below {MOST_LABELS}, but one is {largest}")));
    }
    Ok((0..count).map(|label| label.to_string()).collect())
}

/// Whether a file is in a text format that holds both features and labels.
pub fn is_text(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".svm", ".svmlight", ".libsvm", ".txt"].iter().any(|ending| name.ends_with(ending))
}

impl RawSamples {
    /// Samples with all labels kept.
    pub fn new(train: Raw, test: Option<Raw>, names: Vec<String>, first_index: Option<usize>) -> Self {
        let places = (0..names.len()).collect();
        Self { train, test, names, feature_names: None, first_index, dropped: Vec::new(), places }
    }

    /// All labels but the `count` most frequent ones in the training rows. Of equally frequent labels, the first are kept.
    pub fn less_frequent(&self, count: usize) -> Result<Vec<usize>, Failure> {
        let labels = self.names.len();
        if !(2..=labels).contains(&count) {
            let rule = format!("between 2 and the {labels} labels");
            return Err(Failure::Input(format!("--top-labels must be {rule}, but is {count}")));
        }
        let mut frequencies = vec![0_usize; labels];
        let known = self.train.labels.iter().flatten().filter(|label| **label < labels);
        known.for_each(|&label| frequencies[label] += 1);
        let mut order: Vec<usize> = (0..labels).collect();
        order.sort_by_key(|&label| (Reverse(frequencies[label]), label));
        Ok(order.split_off(count))
    }

    /// Removes labels from names and rows and renumbers the others. Returns the previous indices of the labels kept.
    pub fn drop_labels(&mut self, dropped: &[usize]) -> Vec<usize> {
        let places = places_without(self.names.len(), dropped);
        for part in [Some(&mut self.train), self.test.as_mut()].into_iter().flatten() {
            for row in &mut part.labels {
                // An unknown label is kept, to be rejected later.
                let place = |label: usize| places.get(label).copied().unwrap_or(Some(label));
                *row = row.iter().filter_map(|&label| place(label)).collect();
            }
        }
        self.dropped.extend(dropped.iter().map(|&label| (self.places[label], self.names[label].clone())));
        self.dropped.sort_unstable();
        let kept: Vec<usize> = (0..places.len()).filter(|&label| places[label].is_some()).collect();
        self.names = kept.iter().map(|&label| self.names[label].clone()).collect();
        self.places = kept.iter().map(|&label| self.places[label]).collect();
        kept
    }
}

/// The new index of each of `count` labels after some are dropped; None for dropped labels.
pub fn places_without(count: usize, dropped: &[usize]) -> Vec<Option<usize>> {
    let mut kept = vec![true; count];
    dropped.iter().for_each(|&label| kept[label] = false);
    let mut place = 0;
    kept.into_iter()
        .map(|kept| {
            place += usize::from(kept);
            kept.then(|| place - 1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn labels_left_out_twice_keep_the_places_of_the_files() {
        let labels = vec![vec![0, 4], vec![4, 2], vec![1, 2], vec![2], vec![3]];
        let train = Raw { place: PathBuf::new(), features: Features::Dense(Array2::zeros((5, 1))), labels };
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let mut raw = RawSamples::new(train, None, names, None);
        assert_eq!(raw.drop_labels(&raw.less_frequent(4).unwrap()), [0, 1, 2, 4]);
        assert_eq!(raw.names, ["a", "b", "c", "e"]);
        assert_eq!(raw.drop_labels(&[0]), [1, 2, 3]);
        assert_eq!(raw.names, ["b", "c", "e"]);
        assert_eq!(raw.dropped, [(0, "a".to_owned()), (3, "d".to_owned())]);
        assert_eq!(raw.train.labels, [vec![2], vec![2, 1], vec![0, 1], vec![1], vec![]]);
        assert!(raw.less_frequent(4).is_err() && raw.less_frequent(1).is_err());
    }
}
