//! The labels of samples, from any supported file.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;

use super::compressed::{open_plain_or_gzip, read_lines};
use super::feature_file::is_idx;
use super::features::Sparse;
use super::fields::Header;
use super::idx::read_idx_labels;
use super::label_table::{read_label_columns, read_label_table};
use super::mat::read_mat;
use super::npy::{read_array, refused_number};
use super::npz::{Content, read_npz};
use super::number::Number;
use super::room::Room;
use super::svmlight::read_labeled;
use super::tags::Tags;
use super::variable::Role;
use super::{extension, format_error, io_error};

/// The labels of samples.
///
/// ```
/// let labels = robust_ot_learn::data::LabelFile { rows: vec![vec![0, 2], vec![]], names: None, count: 3, counted: false };
/// assert_eq!(labels.rows[0], [0, 2]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFile {
    /// The labels of each sample, counted from 0; a sample may have none.
    pub rows: Vec<Vec<usize>>,
    /// The names of the labels, if known.
    pub names: Option<Vec<String>>,
    /// Number of labels: that of the names or columns, or one more than the largest label.
    pub count: usize,
    /// Whether the count is given, rather than inferred from the largest label in the file.
    pub counted: bool,
}

/// Reads labels in the format of the file extension. With `names`, the labels are these names.
///
/// - `.npy`, `.npz`, `.mat`: n class indices, or n × L of 0 and 1 (in `.mat`, one row of indices is read as a column);
/// - IDX (names ending in `-ubyte` or `.idx`): n class indices;
/// - `.csv`, `.tsv`, `.parquet`: below a header, one column of classes, or one column of 0 and 1 per label;
/// - `.txt`: one line of comma-separated tags per sample, possibly empty; if all tags are integers, they are indices;
/// - `.svm`, `.svmlight`, `.libsvm`, and `.txt` with the header of the extreme-classification format: the labels of
///   [`read_labeled`].
///
/// All but `.npz` and `.parquet` may be gzipped.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("tags.txt");
/// std::fs::write(&path, "sea,ship\n\nship\n").unwrap();
/// let labels = robust_ot_learn::data::read_labels(&path, None)?;
/// assert_eq!(labels.rows, [vec![0, 1], vec![], vec![1]]);
/// assert_eq!(labels.names.unwrap(), ["sea", "ship"]);
///
/// let names = ["sky".to_owned(), "ship".to_owned()];
/// let unknown = robust_ot_learn::data::read_labels(&path, Some(&names)).unwrap_err();
/// assert!(unknown.to_string().contains("tags.txt:1: labels must be among the label names, but 'sea' is not"));
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, has another extension, does not match its extension, or has labels that are not among
/// the names.
pub fn read_labels(path: &Path, names: Option<&[String]>) -> Result<LabelFile> {
    let mut room = Room::new();
    let raw = match extension(path).as_str() {
        _ if is_idx(path) => Raw::Classes(read_idx_labels(path)?),
        "npy" => {
            let values = read_array(path, &mut open_plain_or_gzip(path)?, &mut room)?;
            Raw::of_numbers(path, &values, &mut room)?
        }
        "npz" => match read_npz(path, Role::Labels, &mut room)? {
            Content::Dense(values) => Raw::of_numbers(path, &values, &mut room)?,
            Content::Sparse(values) => Raw::of_sparse(path, &values, &mut room)?,
        },
        "mat" => {
            let values: Array2<f64> = read_mat(path, Role::Labels, &mut room)?;
            // MATLAB has no vectors, and SciPy writes them as rows.
            let values = if values.nrows() == 1 { values.reversed_axes() } else { values };
            Raw::of_numbers(path, &values, &mut room)?
        }
        "csv" | "tsv" => return read_label_table(path)?.resolve(path, names),
        "parquet" => return read_label_columns(path)?.resolve(path, names),
        "svm" | "svmlight" | "libsvm" => Raw::of_labeled(path)?,
        "txt" if begins_with_header(path)? => Raw::of_labeled(path)?,
        "txt" => return read_tags(path)?.resolve(path, names),
        other => {
            let message = format!(
                "labels must be .npy, .npz, .mat, .csv, .tsv, .parquet, .txt, .svm or IDX, but this ends in .{other}"
            );
            return Err(format_error(path, message));
        }
    };
    raw.finish(path, names)
}

/// Reads one name per line.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("names.txt");
/// std::fs::write(&path, "sea\nship\n").unwrap();
/// assert_eq!(robust_ot_learn::data::read_label_names(&path)?, ["sea", "ship"]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read or is empty, or a line is empty or repeated.
pub fn read_label_names(path: &Path) -> Result<Vec<String>> {
    let (mut names, mut lines) = (Vec::new(), HashMap::new());
    read_lines(path, &mut Room::new(), |number, line, room| {
        let name = line.trim();
        if name.is_empty() {
            return Err("every line must be a name, but this is empty".into());
        }
        room.take(NAME + 2 * name.len())?;
        if let Some(first) = lines.insert(name.to_owned(), number) {
            return Err(format!("names must be distinct, but '{name}' is also in line {first}"));
        }
        names.push(name.to_owned());
        Ok(())
    })?;
    if names.is_empty() {
        return Err(format_error(path, "must hold at least one name, but is empty".into()));
    }
    Ok(names)
}

/// Bytes that a name takes besides two copies of its letters.
const NAME: usize = 160;
/// Bytes that a sample takes besides its labels, in lists that double.
const SAMPLE: usize = 96;

/// Labels as numbers.
enum Raw {
    /// One class per sample.
    Classes(Vec<usize>),
    /// The labels of each sample, and the number of labels if the file gives it.
    Sets(Vec<Vec<usize>>, Option<usize>),
}

impl Raw {
    fn of_numbers(path: &Path, values: &Array2<f64>, room: &mut Room) -> Result<Self> {
        let full = |message| format_error(path, message);
        room.take(values.nrows().saturating_mul(SAMPLE)).map_err(full)?;
        if values.ncols() == 1 {
            let class = |(row, &value)| {
                usize::from_f64(value).ok_or_else(|| refused_number::<usize>(path, (row, 0), value))
            };
            return values.iter().enumerate().map(class).collect::<Result<_>>().map(Self::Classes);
        }
        let mut rows = vec![Vec::new(); values.nrows()];
        for ((row, column), &value) in values.indexed_iter() {
            if indicated(path, (row, column), value)? {
                room.push(&mut rows[row], column).map_err(full)?;
            }
        }
        Ok(Self::Sets(rows, Some(values.ncols())))
    }

    fn of_sparse(path: &Path, values: &Sparse, room: &mut Room) -> Result<Self> {
        let full = |message| format_error(path, message);
        room.take(values.rows().saturating_mul(SAMPLE)).map_err(full)?;
        let mut rows = vec![Vec::new(); values.rows()];
        for (row, labels) in rows.iter_mut().enumerate() {
            let (columns, values) = values.row(row);
            for (&column, &value) in columns.iter().zip(values) {
                if indicated(path, (row, column as usize), f64::from(value))? {
                    room.push(labels, column as usize).map_err(full)?;
                }
            }
        }
        Ok(Self::Sets(rows, Some(values.columns())))
    }

    fn of_labeled(path: &Path) -> Result<Self> {
        let samples = read_labeled(path)?;
        Ok(Self::Sets(samples.labels, samples.had_header.then_some(samples.label_count)))
    }

    fn finish(self, path: &Path, names: Option<&[String]>) -> Result<LabelFile> {
        let (rows, columns) = match self {
            Self::Classes(classes) => (classes.into_iter().map(|class| vec![class]).collect(), None),
            Self::Sets(rows, columns) => (rows, columns),
        };
        if rows.is_empty() {
            return Err(format_error(
                path,
                "must hold the labels of at least one sample, but is empty".into(),
            ));
        }
        let told = columns.or(names.map(<[String]>::len));
        let count = told.unwrap_or_else(|| rows.iter().flatten().max().map_or(0, |largest| largest + 1));
        if let Some(names) = names.filter(|names| names.len() != count) {
            let message = format!("must have as many labels as names, but has {count} for {}", names.len());
            return Err(format_error(path, message));
        }
        let largest = rows.iter().enumerate().find_map(|(row, labels)| {
            labels.iter().find(|&&label| label >= count).map(|label| (row + 1, label))
        });
        if let Some((row, label)) = largest {
            let message =
                format!("labels must be below {count}, the number of names, but row {row} has {label}");
            return Err(format_error(path, message));
        }
        Ok(LabelFile { rows, names: names.map(<[String]>::to_vec), count, counted: told.is_some() })
    }
}

/// Whether a number means that the sample has the label.
fn indicated(path: &Path, (row, column): (usize, usize), value: f64) -> Result<bool> {
    match value {
        0.0 => Ok(false),
        1.0 => Ok(true),
        _ => {
            let (row, column) = (row + 1, column + 1);
            let rule = "a table of labels must hold 0 and 1";
            let message = format!("{rule}, but row {row}, column {column} is {value} (counting from 1)");
            Err(format_error(path, message))
        }
    }
}

/// Whether the first line is the header of the extreme-classification format; three numbers never exceed 128 bytes.
fn begins_with_header(path: &Path) -> Result<bool> {
    let mut line = Vec::new();
    let mut start = open_plain_or_gzip(path)?.take(128);
    start.read_until(b'\n', &mut line).map_err(|source| io_error(path, source))?;
    Ok(Header::parse(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line)).is_some())
}

fn read_tags(path: &Path) -> Result<Tags> {
    let mut tags = Tags::default();
    read_lines(path, &mut Room::new(), |number, line, room| {
        // Splitting an empty line would give one empty tag instead of none.
        let line = Some(line).filter(|line| !line.trim().is_empty());
        tags.push(number, line.into_iter().flat_map(|line| line.split(',')), room)
    })?;
    if tags.rows.is_empty() {
        return Err(format_error(path, "must hold the labels of at least one sample, but is empty".into()));
    }
    Ok(tags)
}

#[cfg(test)]
pub(super) mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;
    use crate::data::write_npy;

    pub(in crate::data) fn read(file: &str, bytes: &[u8], names: Option<&[&str]>) -> Result<LabelFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        let names: Option<Vec<String>> = names.map(|names| names.iter().map(|&name| name.into()).collect());
        read_labels(&path, names.as_deref())
    }

    pub(in crate::data) fn message(file: &str, text: &str, names: Option<&[&str]>) -> String {
        read(file, text.as_bytes(), names).unwrap_err().to_string()
    }

    #[test]
    fn tag_lists() {
        let labels = read("t.txt", "\u{feff}sea, big ship\r\n\r\n \nbig ship\r\n".as_bytes(), None).unwrap();
        assert_eq!(labels.rows, [vec![0, 1], vec![], vec![], vec![1]]);
        assert_eq!(labels.names.unwrap(), ["sea", "big ship"]);
        assert_eq!(read("t.txt", b"3,1\n\n", None).unwrap().count, 4);
        assert_eq!(read("t.txt", b"\n\n", Some(&["a", "b"])).unwrap().count, 2);
        assert!(
            message("t.txt", "sea\nship,sea,ship\n", None)
                .contains("t.txt:2: a label must occur only once in a line, but 'ship'")
        );
        assert!(message("t.txt", "sea,,ship\n", None).contains("t.txt:1: labels must not be empty"));
        assert!(message("t.txt", "", None).contains("is empty"));
        let message = read("t.txt", b"a\n\xff\n", None).unwrap_err().to_string();
        assert!(message.contains("t.txt:2: text must be UTF-8"), "{message}");
    }

    #[test]
    fn labels_beside_features() {
        let labels = read("t.txt", b"2 3 4\n3,1 0:1\n 1:1\n", None).unwrap();
        assert_eq!((labels.rows, labels.count), (vec![vec![3, 1], vec![]], 4));
        assert_eq!(read("t.txt", b"\xef\xbb\xbf1 3 4\n3 0:1\n", None).unwrap().count, 4);
        assert_eq!(read("t.svm", b"2 1:1\n0 2:1\n", None).unwrap().count, 3);
        assert!(
            message("t.txt", "1 3 4\n3 0:1\n", Some(&["a"]))
                .contains("as many labels as names, but has 4 for 1")
        );
        assert!(
            message("t.svm", "2 1:1\n", Some(&["a"]))
                .contains("below 1, the number of names, but row 1 has 2")
        );
    }

    #[test]
    fn arrays_are_classes_or_indicators() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("y.npy");
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        write_npy(&path, &array![[2.0], [0.0]]).unwrap();
        let classes = read_labels(&path, None).unwrap();
        assert_eq!((classes.rows, classes.count), (vec![vec![2], vec![0]], 3));
        let message = read_labels(&path, Some(&names[..2])).unwrap_err().to_string();
        assert!(message.contains("below 2, the number of names, but row 1 has 2"));
        write_npy(&path, &array![[2.0], [-1.0]]).unwrap();
        assert!(read_labels(&path, None).unwrap_err().to_string().contains("row 2, column 1 is -1"));
        write_npy(&path, &array![[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]).unwrap();
        let sets = read_labels(&path, Some(&names)).unwrap();
        assert_eq!(
            (sets.rows, sets.count, sets.names.unwrap()),
            (vec![vec![1, 2], vec![]], 3, names.to_vec())
        );
        let message = read_labels(&path, Some(&names[..2])).unwrap_err().to_string();
        assert!(message.contains("as many labels as names, but has 3 for 2"));
        write_npy(&path, &array![[0.0, 1.0], [0.5, 0.0]]).unwrap();
        let message = read_labels(&path, None).unwrap_err().to_string();
        assert!(message.contains("must hold 0 and 1, but row 2, column 1 is 0.5"));
        assert_eq!(read("y-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 1, 4], None).unwrap().count, 5);
        assert!(read("y.doc", b"", None).unwrap_err().to_string().contains("but this ends in .doc"));
    }

    #[test]
    fn label_names_are_distinct() {
        let read = |text: &str| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("n.txt");
            std::fs::write(&path, text).unwrap();
            read_label_names(&path)
        };
        assert_eq!(read("sea \r\nbig ship").unwrap(), ["sea", "big ship"]);
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("a\nb\na\n").contains("n.txt:3: names must be distinct, but 'a' is also in line 1"));
        assert!(message("a\n\nb\n").contains("n.txt:2: every line must be a name"));
        assert!(message("").contains("is empty"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9ab,\t\n\"\r. :]{0,60}", ending in "txt|csv|tsv|svm") {
            let _ = read(&format!("a.{ending}"), text.as_bytes(), None);
            let _ = read(&format!("a.{ending}"), text.as_bytes(), Some(&["a", "b"]));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), ending in "txt|csv|npy|npz|mat|idx") {
            let _ = read(&format!("a.{ending}"), &bytes, None);
        }
    }
}
