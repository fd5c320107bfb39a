//! Word counts: `word<TAB>count`, one per line.

use std::collections::HashMap;
use std::path::Path;

use ndarray::{Array1, Array2};
use robust_ot::{Measure, Result};

use super::room::{Room, read_text};
use super::{Embeddings, format_error, line_error};

/// Bytes that a word takes besides two copies of its letters, in lists and tables that double.
const WORD: usize = 240;

/// A text as a bag of words.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("text.tsv");
/// std::fs::write(&path, "ship\t12\nsea\t3\n").unwrap();
/// let text = robust_ot_learn::data::Histogram::read(&path)?;
/// assert_eq!(text.words, ["ship", "sea"]);
/// assert_eq!(text.counts, [12.0, 3.0]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The distinct words, in the order of the file.
    pub words: Vec<String>,
    /// How often each word occurs; the counts of repeated lines are added.
    pub counts: Vec<f64>,
}

/// A text as a measure on word vectors; see [`Histogram::embed`].
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// One point per known word, weighted by its count.
    pub measure: Measure,
    /// The known words, in the order of the points.
    pub words: Vec<String>,
    /// The words without a vector.
    pub unknown: Vec<String>,
}

impl Histogram {
    /// Reads `word<TAB>count` lines.
    ///
    /// # Errors
    /// When the file cannot be read or is empty, or a line has no tab or no finite count of at least zero.
    pub fn read(path: &Path) -> Result<Self> {
        let mut room = Room::new();
        let text = read_text(path, &mut room)?;
        // Every word is held with its place and its count.
        let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let words = text.len().saturating_mul(2).saturating_add(lines.saturating_mul(WORD));
        room.take(words).map_err(|message| format_error(path, message))?;
        Self::parse(&text, path)
    }

    /// Parses `word<TAB>count` lines; `path` is for error messages.
    ///
    /// # Errors
    /// As [`Histogram::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let (mut words, mut counts) = (Vec::new(), Vec::new());
        let mut places = HashMap::new();
        let text = text.trim_start_matches('\u{feff}');
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let refuse = |message: String| Err(line_error(path, at + 1, message));
            let Some((word, count)) = line.split_once('\t') else {
                return refuse(format!("a line must be word<TAB>count, but is '{line}'"));
            };
            let (word, count) = (word.trim(), count.trim());
            if word.is_empty() {
                return refuse(format!("a word must come before the tab, but the line is '{line}'"));
            }
            let value = match count.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => value,
                _ => {
                    return refuse(format!(
                        "the count of '{word}' must be a number of at least 0, but is '{count}'"
                    ));
                }
            };
            let place = *places.entry(word.to_owned()).or_insert_with(|| {
                words.push(word.to_owned());
                counts.push(0.0);
                words.len() - 1
            });
            counts[place] += value;
        }
        if words.is_empty() {
            return Err(format_error(
                path,
                "must hold at least one word<TAB>count line, but is empty".into(),
            ));
        }
        Ok(Self { words, counts })
    }

    /// Builds the measure on the vectors of the known words.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::collections::HashSet;
    /// use std::path::Path;
    /// use robust_ot_learn::data::{Embeddings, Histogram};
    /// let path = dir.path().join("words.vec");
    /// std::fs::write(&path, "sea 1 0\nship 0 1\n").unwrap();
    /// let text = Histogram::parse("ship\t3\nsea\t1\nxyzzy\t2\n", Path::new("text.tsv"))?;
    /// let vectors = Embeddings::read(&path, &text.words.iter().map(String::as_str).collect::<HashSet<_>>())?;
    /// let embedded = text.embed(&vectors, Path::new("text.tsv"))?;
    /// assert_eq!(embedded.words, ["ship", "sea"]);
    /// assert_eq!(embedded.unknown, ["xyzzy"]);
    /// assert_eq!(embedded.measure.weights()[0], 0.75);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When no word has a vector, or the known words have no weight.
    pub fn embed(&self, embeddings: &Embeddings, path: &Path) -> Result<Embedded> {
        let (mut known, mut unknown, mut counts, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (word, &count) in self.words.iter().zip(&self.counts) {
            match embeddings.get(word) {
                Some(vector) => {
                    known.push(word.clone());
                    counts.push(count);
                    rows.extend_from_slice(vector);
                }
                None => unknown.push(word.clone()),
            }
        }
        if known.is_empty() {
            let total = self.words.len();
            let message = format!("at least one word must have a vector, but none of its {total} words has");
            return Err(format_error(path, message));
        }
        let points = Array2::from_shape_vec((known.len(), embeddings.dim()), rows)
            .map_err(|error| format_error(path, error.to_string()))?;
        let measure =
            Measure::new(points, Array1::from(counts)).map_err(|e| format_error(path, e.to_string()))?;
        Ok(Embedded { measure, words: known, unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_faults_have_their_line() {
        let parse = |text: &str| Histogram::parse(text, Path::new("t.tsv"));
        let text = parse("a\t1\nb\t2\n\na\t0.5\n").unwrap();
        assert_eq!((text.words, text.counts), (vec!["a".to_owned(), "b".to_owned()], vec![1.5, 2.0]));
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("a 1\n").contains("t.tsv:1: a line must be word<TAB>count"));
        assert!(
            message("a\t1\nb\t-2\n")
                .contains("t.tsv:2: the count of 'b' must be a number of at least 0, but is '-2'")
        );
        assert!(message("\t3\n").contains("a word must come before the tab"));
        assert!(message("a\tNaN\n").contains("'NaN'"));
        assert!(message("\n").contains("is empty"));
    }
}
