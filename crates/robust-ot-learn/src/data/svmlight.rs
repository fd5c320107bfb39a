//! Samples with labels and sparse features as text: svmlight (libsvm) and the format of the extreme classification
//! repository, which has a header.

use std::path::Path;

use robust_ot::Result;

use super::compressed::open_plain_or_gzip;
use super::features::{Sparse, sort_row};
use super::fields::{Header, decimal, feature, fields, show, whole};
use super::room::{Room, read_line};
use super::{format_error, io_error, line_error};

/// Samples with their features and labels.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("train.txt");
/// std::fs::write(&path, "2 4 3\n0,2 1:0.5 3:1\n 0:2\n").unwrap();
/// let samples = robust_ot_learn::data::read_labeled(&path)?;
/// assert_eq!(samples.labels, [vec![0, 2], vec![]]);
/// assert_eq!(samples.features.row(0), (&[1, 3][..], &[0.5, 1.0][..]));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Labeled {
    /// One row per sample.
    pub features: Sparse,
    /// The labels of each sample, in the order of the file.
    pub labels: Vec<Vec<usize>>,
    /// Number of labels: that of the header, or one more than the largest label.
    pub label_count: usize,
    /// Whether the file has a header.
    pub had_header: bool,
    /// The index of the first feature in the file, 0 or 1.
    pub first_index: usize,
}

impl Labeled {
    /// Counts features from 0 although no index is 0, because a related file has an index 0.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let path = dir.path().join("test.svm");
    /// std::fs::write(&path, "1 2:5\n").unwrap();
    /// let mut samples = robust_ot_learn::data::read_labeled(&path)?;
    /// assert_eq!(samples.features.row(0).0, [1]);
    /// samples.count_from_zero();
    /// assert_eq!(samples.features.row(0).0, [2]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn count_from_zero(&mut self) {
        if self.first_index == 1 {
            self.features.shift_columns();
            self.first_index = 0;
        }
    }
}

/// Reads `label,label… index:value …` lines, gzipped or not; a line that begins with a space or a feature has no label.
///
/// With a first line `rows features labels`, indices count from 0 and an empty line is a sample without labels and features.
/// Without it, indices count from 1 unless one is 0, `#` starts a comment, empty lines are skipped, and the labels may be -1
/// and +1, which become the classes 0 and 1.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("train.svm");
/// std::fs::write(&path, "# two samples\n+1 1:0.5 3:1\n-1 2:2\n").unwrap();
/// let samples = robust_ot_learn::data::read_labeled(&path)?;
/// assert_eq!(samples.labels, [vec![1], vec![0]]);
/// assert_eq!(samples.features.row(1), (&[1][..], &[2.0][..]));
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When a field is neither a label nor a feature, a value is not finite, a feature or label is repeated in a line or does
/// not fit the header, or there are fewer or more lines than the header promises. The error names the line.
pub fn read_labeled(path: &Path) -> Result<Labeled> {
    let mut reader = open_plain_or_gzip(path)?;
    let mut bytes = Vec::new();
    let (mut rows, mut room) = (Rows::default(), Room::new());
    let (mut header, mut last) = (None, 0);
    for number in 1.. {
        if !read_line(&mut reader, &mut bytes, &room).map_err(|source| io_error(path, source))? {
            break;
        }
        last = number;
        let mut line = bytes.as_slice();
        if number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            header = Header::parse(line);
            if header.is_some() {
                continue;
            }
        }
        let line = match header {
            Some(_) => line,
            None => line.split(|&byte| byte == b'#').next().unwrap_or(line),
        };
        let full = header.is_some_and(|header| rows.labels.len() == header.rows);
        if line.trim_ascii().is_empty() && (header.is_none() || full) {
            continue;
        }
        if full {
            let promised = rows.labels.len();
            let message = format!("the header promises {promised} rows, but here is one more");
            return Err(line_error(path, number, message));
        }
        rows.read(line, header, number, &mut room).map_err(|message| line_error(path, number, message))?;
    }
    if let Some(header) = header
        && rows.labels.len() < header.rows
    {
        let message =
            format!("the header promises {} rows, but there are {}", header.rows, rows.labels.len());
        return Err(line_error(path, last, message));
    }
    if rows.labels.is_empty() {
        return Err(format_error(path, "must hold at least one sample, but is empty".into()));
    }
    rows.finish(header).map_err(|(line, message)| line_error(path, line, message))
}

/// A line number and a label of that line.
type Place = (usize, usize);

/// The rows read so far.
#[derive(Debug)]
struct Rows {
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<Vec<usize>>,
    zero_based: bool,
    largest_index: Option<u32>,
    largest_label: Option<usize>,
    /// The first line with a label of -1.
    minus_one: Option<usize>,
    /// The first label that cannot occur beside -1.
    no_sign: Option<Place>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            starts: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
            labels: Vec::new(),
            zero_based: false,
            largest_index: None,
            largest_label: None,
            minus_one: None,
            no_sign: None,
        }
    }
}

impl Rows {
    fn read(
        &mut self,
        line: &[u8],
        header: Option<Header>,
        number: usize,
        room: &mut Room,
    ) -> std::result::Result<(), String> {
        let mut fields = fields(line).peekable();
        let mut labels = Vec::new();
        let indented = line.first().is_some_and(u8::is_ascii_whitespace);
        if !indented && let Some(first) = fields.next_if(|field| !field.contains(&b':')) {
            room.grow(&mut labels, first.split(|&byte| byte == b',').count())?;
            for label in first.split(|&byte| byte == b',') {
                labels.push(self.label(label, header, number)?);
            }
            check_distinct(&labels)?;
        }
        let start = self.indices.len();
        for field in fields {
            let (index, value) = feature(field)?;
            if let Some(Header { features, .. }) = header
                && index as usize >= features
            {
                return Err(format!(
                    "features must be below {features}, as the header says, but one is {index}"
                ));
            }
            room.push(&mut self.indices, index)?;
            room.push(&mut self.values, value)?;
        }
        let (indices, values) = (&mut self.indices[start..], &mut self.values[start..]);
        sort_row(indices, values);
        if let Some([index, ..]) = indices.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("a feature must occur only once in a line, but {index} is repeated"));
        }
        self.zero_based |= indices.first() == Some(&0);
        self.largest_index = self.largest_index.max(indices.last().copied());
        room.push(&mut self.starts, self.indices.len())?;
        room.push(&mut self.labels, labels)
    }

    fn label(
        &mut self,
        field: &[u8],
        header: Option<Header>,
        number: usize,
    ) -> std::result::Result<usize, String> {
        if let Some(Header { labels, .. }) = header {
            return match whole(field) {
                Some(label) if (label as usize) < labels => Ok(label as usize),
                Some(label) => {
                    Err(format!("labels must be below {labels}, as the header says, but one is {label}"))
                }
                None => {
                    Err(format!("labels must be whole numbers of at least 0, but one is '{}'", show(field)))
                }
            };
        }
        let label = match whole(field).map(f64::from).or_else(|| decimal(field)) {
            // -1 becomes class 0 and +1 class 1; only at the end is it known whether another label forbids this.
            Some(-1.0) => {
                self.minus_one.get_or_insert(number);
                return Ok(0);
            }
            Some(label) if label >= 0.0 && label <= f64::from(u32::MAX) && label.fract() == 0.0 => {
                label as usize
            }
            _ => {
                let rule = "labels must be whole numbers of at least 0, or -1 and +1";
                return Err(format!("{rule}, but one is '{}'", show(field)));
            }
        };
        if label != 1 {
            self.no_sign.get_or_insert((number, label));
        }
        self.largest_label = self.largest_label.max(Some(label));
        Ok(label)
    }

    fn finish(mut self, header: Option<Header>) -> std::result::Result<Labeled, (usize, String)> {
        if let (Some(minus), Some((line, label))) = (self.minus_one, self.no_sign) {
            let rule = format!("with the -1 in line {minus}, the only other label must be +1");
            return Err((line, format!("{rule}, but here is {label}")));
        }
        let first_index = usize::from(header.is_none() && !self.zero_based);
        if first_index == 1 {
            self.indices.iter_mut().for_each(|index| *index -= 1);
        }
        let largest = if self.minus_one.is_some() { Some(1) } else { self.largest_label };
        let columns = self.largest_index.map_or(0, |index| index as usize + usize::from(self.zero_based));
        let (columns, label_count) = header
            .map_or((columns, largest.map_or(0, |label| label + 1)), |header| {
                (header.features, header.labels)
            });
        let features = Sparse::new(columns, self.starts, self.indices, self.values)
            .map_err(|error| (1, error.to_string()))?;
        Ok(Labeled { features, labels: self.labels, label_count, had_header: header.is_some(), first_index })
    }
}

fn check_distinct(labels: &[usize]) -> std::result::Result<(), String> {
    if labels.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(());
    }
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("a label must occur only once in a line, but {} is repeated", pair[0])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::data::compressed::tests::gzip;

    fn read(bytes: &[u8]) -> Result<Labeled> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svm");
        std::fs::write(&path, bytes).unwrap();
        read_labeled(&path)
    }

    fn message(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn headers_rows_without_labels_and_empty_rows() {
        let text = "5 4 6\n5,0 3:2.5 0:1\n 1:1\n1:1e-1\n\n2\n\n";
        let samples = read(text.as_bytes()).unwrap();
        assert_eq!(samples.labels, [vec![5, 0], vec![], vec![], vec![], vec![2]]);
        assert_eq!((samples.label_count, samples.had_header), (6, true));
        assert_eq!((samples.features.rows(), samples.features.columns()), (5, 4));
        assert_eq!(samples.features.row(0), (&[0, 3][..], &[1.0, 2.5][..]));
        assert_eq!(samples.features.row(2), (&[1][..], &[0.1][..]));
        assert_eq!(read(&gzip(text.as_bytes())).unwrap(), samples);
    }

    #[test]
    fn indices_count_from_one_unless_a_zero_is_among_them() {
        let from_one = read(b"\xef\xbb\xbf1 1:1 3:2 # note 9:9\r\n\r\n# all\n0 2:4\r\n").unwrap();
        assert_eq!(
            from_one.features,
            Sparse::new(3, vec![0, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 4.0]).unwrap()
        );
        assert_eq!((from_one.label_count, from_one.had_header, from_one.first_index), (2, false, 1));
        let from_zero = read(b"1 1:1 3:2\n0 0:4").unwrap();
        assert_eq!(
            from_zero.features,
            Sparse::new(4, vec![0, 2, 3], vec![1, 3, 0], vec![1.0, 2.0, 4.0]).unwrap()
        );
    }

    #[test]
    fn signs_are_two_classes() {
        let signs = read(b"+1 1:1\n-1.0 1:1\n1 1:1\n").unwrap();
        assert_eq!((signs.labels, signs.label_count), (vec![vec![1], vec![0], vec![1]], 2));
        assert_eq!(read(b"-1 1:1\n").unwrap().label_count, 2);
        assert!(
            message("1 1:1\n-1 1:1\n0 1:1\n")
                .contains("a.svm:3: with the -1 in line 2, the only other label must be +1, but here is 0")
        );
        assert_eq!(read(b"3.0,1 1:1\n").unwrap().labels, [[3, 1]]);
    }

    #[test]
    fn each_fault_has_its_line() {
        assert!(
            message("1 2 2\n0 2:1\n")
                .contains("a.svm:2: features must be below 2, as the header says, but one is 2")
        );
        assert!(
            message("1 2 2\n2 1:1\n")
                .contains("a.svm:2: labels must be below 2, as the header says, but one is 2")
        );
        assert!(message("1 2 2\n-1 1:1\n").contains("whole numbers of at least 0, but one is '-1'"));
        assert!(message("2 2 2\n0 1:1\n").contains("a.svm:2: the header promises 2 rows, but there are 1"));
        assert!(
            message("1 2 2\n0 1:1\n1 1:1\n")
                .contains("a.svm:3: the header promises 1 rows, but here is one more")
        );
        assert!(
            message("0 1:nan\n")
                .contains("a.svm:1: values must be finite in single precision, but one is '1:nan'")
        );
        assert!(message("0 1:1e39\n").contains("but one is '1:1e39'"));
        assert!(
            message("0 1:1\n0 3:1 2:1 3:2\n")
                .contains("a.svm:2: a feature must occur only once in a line, but 3 is")
        );
        assert!(message("4,2,4 1:1\n").contains("a label must occur only once in a line, but 4 is repeated"));
        assert!(message("0 1:1 x\n").contains("a feature must be index:value, but is 'x'"));
        assert!(message("0 -1:1\n").contains("but is '-1:1'"));
        assert!(message("0 4294967296:1\n").contains("but is '4294967296:1'"));
        assert!(message("0 1:\n").contains("but is '1:'"));
        assert!(message("0 qid:3 1:1\n").contains("queries are not supported, but here is 'qid:3'"));
        assert!(message("0.5 1:1\n").contains("or -1 and +1, but one is '0.5'"));
        assert!(message("1, 1:1\n").contains("but one is ''"));
        assert!(message("-2 1:1\n").contains("but one is '-2'"));
        assert!(message("# nothing\n").contains("but is empty"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9:, \n.#e+-]{0,80}", header in any::<bool>()) {
            let start = if header { "2 9 9\n" } else { "" };
            let _ = read(format!("{start}{text}").as_bytes());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&bytes);
        }
    }
}
