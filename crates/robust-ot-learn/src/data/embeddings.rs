//! Word vectors in the text format of fastText, word2vec and GloVe: `word x₁ … x_d`, with an optional first line `count d`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use robust_ot::Result;

use super::compressed::open_plain_or_gzip;
use super::room::{Room, read_line};
use super::{format_error, io_error, line_error};

/// The vectors of the requested words.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use std::collections::HashSet;
/// let path = dir.path().join("words.vec");
/// std::fs::write(&path, "2 3\nsea 1 0 0\nship 0 1 0.5\n").unwrap();
/// let vectors = robust_ot_learn::data::Embeddings::read(&path, &HashSet::from(["ship"]))?;
/// assert_eq!(vectors.get("ship"), Some(&[0.0, 1.0, 0.5][..]));
/// assert_eq!(vectors.get("sea"), None); // not asked for, not kept
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    dim: usize,
    vectors: HashMap<String, Vec<f64>>,
}

impl Embeddings {
    /// Reads the file, gzipped or not, line by line and keeps only the words in `wanted`; repeated words keep their first
    /// vector.
    ///
    /// # Errors
    /// When the file cannot be read or is empty, or the line of a wanted word is not d finite numbers.
    pub fn read(path: &Path, wanted: &HashSet<&str>) -> Result<Self> {
        let mut vectors = HashMap::new();
        let dim = for_each_vector(path, Some(wanted), |word, vector| {
            vectors.entry(word).or_insert(vector);
        })?;
        Ok(Self { dim, vectors })
    }

    /// Reads all words with their vectors, in the order of the file.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let path = dir.path().join("words.vec");
    /// std::fs::write(&path, "sea 1 0\nship 0 1\n").unwrap();
    /// let words = robust_ot_learn::data::Embeddings::read_all(&path)?;
    /// assert_eq!(words[1], ("ship".to_owned(), vec![0.0, 1.0]));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the file cannot be read or is empty, or a line is not a word and d finite numbers.
    pub fn read_all(path: &Path) -> Result<Vec<(String, Vec<f64>)>> {
        let mut all = Vec::new();
        for_each_vector(path, None, |word, vector| all.push((word, vector)))?;
        Ok(all)
    }

    /// The vector of a word.
    pub fn get(&self, word: &str) -> Option<&[f64]> {
        self.vectors.get(word).map(Vec::as_slice)
    }

    /// Length of the vectors.
    pub fn dim(&self) -> usize {
        self.dim
    }
}

/// Bytes that a word takes besides its letters and numbers, in a table that doubles.
const WORD: usize = 160;

/// Calls `take` for each wanted word, or for all words; returns d.
fn for_each_vector(
    path: &Path,
    wanted: Option<&HashSet<&str>>,
    mut take: impl FnMut(String, Vec<f64>),
) -> Result<usize> {
    let mut reader = open_plain_or_gzip(path)?;
    let (mut bytes, mut room) = (Vec::new(), Room::new());
    let mut dim = None;
    let starts: Option<HashSet<&[u8]>> =
        wanted.map(|wanted| wanted.iter().map(|word| first_field(word.as_bytes())).collect());
    for number in 1.. {
        if !read_line(&mut reader, &mut bytes, &room).map_err(|source| io_error(path, source))? {
            break;
        }
        // Most lines of a large file are for other words, which the first field is enough to skip.
        let skipped = starts.as_ref().is_some_and(|starts| !starts.contains(first_field(&bytes)));
        if dim.is_some() && skipped {
            continue;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() {
            continue;
        }
        if number == 1
            && let Some(promised) = promised_dim(line)
        {
            dim = Some(promised);
            continue;
        }
        let dim = match dim {
            Some(dim) => dim,
            None => *dim.insert(line.split_whitespace().count() - 1),
        };
        if dim == 0 {
            return Err(line_error(
                path,
                number,
                format!("a line must be a word and its vector, but is '{line}'"),
            ));
        }
        if let Some((word, vector)) =
            vector(line, dim, wanted).map_err(|what| line_error(path, number, what))?
        {
            let bytes = WORD + 2 * word.len() + 2 * size_of_val(vector.as_slice());
            room.take(bytes).map_err(|message| line_error(path, number, message))?;
            take(word, vector);
        }
    }
    dim.ok_or_else(|| format_error(path, "must hold at least one word vector, but is empty".into()))
}

/// The bytes before the first white space.
fn first_field(line: &[u8]) -> &[u8] {
    line.split(u8::is_ascii_whitespace).next().unwrap_or(line)
}

/// d, if a line is `count d`.
fn promised_dim(line: &str) -> Option<usize> {
    let mut fields = line.split_whitespace();
    let (count, dim) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse().ok()?);
    (fields.next().is_none() && count > 0 && dim > 0).then_some(dim)
}

/// The word and its numbers, if it is wanted. The numbers are the last d fields, so a word may contain spaces.
fn vector(
    line: &str,
    dim: usize,
    wanted: Option<&HashSet<&str>>,
) -> std::result::Result<Option<(String, Vec<f64>)>, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (word, numbers) = fields.split_at(fields.len().saturating_sub(dim).max(1));
    let word = word.join(" ");
    let is_wanted = |word: &str| wanted.is_none_or(|wanted| wanted.contains(word));
    if !is_wanted(&word) || numbers.len() != dim {
        // A line of another length is an error if its word is wanted and only numbers follow; more words are another entry.
        let all_numbers = fields[1..].iter().all(|field| field.parse::<f64>().is_ok());
        return if is_wanted(fields[0]) && fields.len() - 1 != dim && all_numbers {
            Err(format!(
                "the vector of '{}' must have {dim} numbers, but has {}",
                fields[0],
                fields.len() - 1
            ))
        } else {
            Ok(None)
        };
    }
    let parse = |field: &&str| match field.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("the vector of '{word}' must be finite numbers, but one is '{field}'")),
    };
    let vector = numbers.iter().map(parse).collect::<std::result::Result<_, _>>()?;
    Ok(Some((word, vector)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, wanted: &[&str]) -> Result<Embeddings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.vec");
        std::fs::write(&path, text).unwrap();
        Embeddings::read(&path, &wanted.iter().copied().collect())
    }

    #[test]
    fn with_and_without_a_header_and_with_spaces_in_words() {
        for text in ["3 2\nsea 1 2\n. . . 3 4\nat name@example.com 5 6\n", "sea 1 2\n. . . 3 4\nat x 5 6\n"] {
            let vectors = read(text, &["sea", ". . .", "at"]).unwrap();
            assert_eq!(vectors.get("at"), None);
            assert_eq!(vectors.dim(), 2);
            assert_eq!(vectors.get("sea").unwrap(), [1.0, 2.0]);
            assert_eq!(vectors.get(". . .").unwrap(), [3.0, 4.0]);
        }
    }

    #[test]
    fn only_the_lines_of_wanted_words_must_be_sound() {
        let text = "sea 1 2\nbad 1\nworse x y\n";
        assert!(read(text, &["sea"]).is_ok());
        let message = |word: &str| read(text, &[word]).unwrap_err().to_string();
        assert!(message("bad").contains("w.vec:2: the vector of 'bad' must have 2 numbers, but has 1"));
        assert!(
            message("worse")
                .contains("w.vec:3: the vector of 'worse' must be finite numbers, but one is 'x'")
        );
        assert!(
            read("1 2\nsea 1 2 3\n", &["sea"])
                .unwrap_err()
                .to_string()
                .contains("must have 2 numbers, but has 3")
        );
        assert!(read("", &["sea"]).is_err());
        // No length that a header may have overflows.
        let message = read("1 18446744073709551615\nsea 1\n", &["sea"]).unwrap_err().to_string();
        assert!(message.contains("must have 18446744073709551615 numbers, but has 1"), "{message}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9ab \t\n.e-]{0,80}") {
            let _ = read(&text, &["a", "b", "ab"]);
        }
    }
}
