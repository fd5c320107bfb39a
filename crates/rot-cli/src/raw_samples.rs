//! Rows and labels as they are in files, before anything is left out or drawn.

use std::path::{Path, PathBuf};

use robust_ot::data::{Features, read_idx, read_idx_labels, read_labelled};

use crate::failure::Failure;

/// More labels than there are is a mistake in a file, and would take all memory.
const MOST_LABELS: usize = 10_000_000;
/// The names of MNIST's classes, so that word vectors find them.
const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

/// Rows as they are in files.
pub struct Raw {
    pub place: PathBuf,
    pub features: Features,
    pub labels: Vec<Vec<usize>>,
}

/// Both parts, and what the labels are called.
pub struct RawSamples {
    pub train: Raw,
    pub test: Option<Raw>,
    pub names: Vec<String>,
    /// What svmlight files count features from.
    pub first_index: Option<usize>,
}

/// MNIST's four files.
pub fn read_mnist(folder: &Path) -> Result<RawSamples, Failure> {
    let names = DIGITS.map(str::to_owned).to_vec();
    let (train, test) = (read_mnist_part(folder, "train")?, read_mnist_part(folder, "t10k")?);
    Ok(RawSamples { train, test: Some(test), names, first_index: None })
}

/// One part of MNIST.
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

/// Files whose labels are indices, named by a file or numbered.
pub fn read_indexed(
    train: &Path,
    test: Option<&Path>,
    names: Option<Vec<String>>,
) -> Result<RawSamples, Failure> {
    let mut parts = vec![(train, read_labelled(train)?)];
    if let Some(test) = test {
        parts.push((test, read_labelled(test)?));
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
        // A file knows only of the columns it uses.
        if !part.had_header {
            features.widen(columns);
        }
        Raw { place: place.to_owned(), features, labels: part.labels }
    });
    let train = raw.next().ok_or_else(|| Failure::Other("no training rows were read".into()))?;
    Ok(RawSamples { train, test: raw.next(), names: names.map_or_else(|| numbered(count), Ok)?, first_index })
}

/// Labels called by their numbers.
pub fn numbered(count: usize) -> Result<Vec<String>, Failure> {
    if count > MOST_LABELS {
        let largest = count - 1;
        return Err(Failure::Input(format!("labels must be below {MOST_LABELS}, but one is {largest}")));
    }
    Ok((0..count).map(|label| label.to_string()).collect())
}

/// Whether features and labels are in one file.
pub fn is_text(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".svm", ".svmlight", ".libsvm", ".txt"].iter().any(|ending| name.ends_with(ending))
}

impl RawSamples {
    /// Takes labels out of names and rows, closes the gaps, and says where each label went.
    pub fn drop_labels(&mut self, dropped: &[usize]) -> Vec<Option<usize>> {
        let places = places_without(self.names.len(), dropped);
        for part in [Some(&mut self.train), self.test.as_mut()].into_iter().flatten() {
            for row in &mut part.labels {
                *row = row.iter().filter_map(|&label| places[label]).collect();
            }
        }
        let mut label = 0;
        self.names.retain(|_| {
            label += 1;
            places[label - 1].is_some()
        });
        places
    }
}

/// Where each of so many labels goes when some are left out.
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
