//! IDX, the format of MNIST: two zeros, the type, the number of dimensions, the dimensions, then numbers, all big-endian.

use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;

use super::compressed::{fill, open_plain_or_gzip};
use super::number::{Kind, Layout, Number, read_numbers};
use super::room::Room;
use super::{format_error, io_error};

/// An array of any number of dimensions.
///
/// ```
/// let idx = robust_ot_learn::data::Idx { shape: vec![1, 2, 2], values: vec![1.0, 2.0, 3.0, 4.0] };
/// assert_eq!(idx.into_rows(), ndarray::array![[1.0, 2.0, 3.0, 4.0]]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Idx {
    /// The size of each dimension; the first is the number of samples.
    pub shape: Vec<usize>,
    /// The numbers, with the last dimension varying fastest.
    pub values: Vec<f32>,
}

impl Idx {
    /// One row per sample, with all other dimensions flattened.
    ///
    /// # Panics
    /// When the length of `values` does not match `shape`; for data from [`read_idx`] it does.
    pub fn into_rows(self) -> Array2<f32> {
        let rows = self.shape.first().copied().unwrap_or(1);
        let columns = self.shape.iter().skip(1).product();
        Array2::from_shape_vec((rows, columns), self.values).expect("as many numbers as the shape says")
    }
}

/// Reads an IDX file, gzipped or not.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("images-idx3-ubyte");
/// std::fs::write(&path, [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 255]).unwrap();
/// let images = robust_ot_learn::data::read_idx(&path)?;
/// assert_eq!(images.shape, [1, 2, 1]);
/// assert_eq!(images.into_rows(), ndarray::array![[7.0, 255.0]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, is not IDX, holds fewer or more numbers than its header promises, or holds a number too
/// large for single precision.
pub fn read_idx(path: &Path) -> Result<Idx> {
    let (shape, values) = read(path)?;
    Ok(Idx { shape, values })
}

/// Reads class indices: IDX with one dimension.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("labels-idx1-ubyte");
/// std::fs::write(&path, [0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]).unwrap();
/// assert_eq!(robust_ot_learn::data::read_idx_labels(&path)?, [5, 0, 4]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// As [`read_idx`], and when there are more dimensions or a number is not a whole number of at least 0.
pub fn read_idx_labels(path: &Path) -> Result<Vec<usize>> {
    let (shape, values) = read(path)?;
    if shape.len() != 1 {
        let message = format!("labels must have one dimension, but this file has {}", shape.len());
        return Err(format_error(path, message));
    }
    Ok(values)
}

fn read<T: Number>(path: &Path) -> Result<(Vec<usize>, Vec<T>)> {
    let refuse = |message: String| Err(format_error(path, message));
    let mut reader = open_plain_or_gzip(path)?;
    let mut filled = |buffer: &mut [u8]| {
        fill(&mut reader, buffer).map(|there| there == buffer.len()).map_err(|source| io_error(path, source))
    };
    let mut start = [0; 4];
    if !filled(&mut start)? || start[..2] != [0, 0] {
        return refuse("must be an IDX file, but does not begin like one".into());
    }
    let kind = match start[2] {
        0x08 => Kind::U8,
        0x09 => Kind::I8,
        0x0b => Kind::I16,
        0x0c => Kind::I32,
        0x0d => Kind::F32,
        0x0e => Kind::F64,
        other => return refuse(format!("the IDX type must be 8, 9 or 11 to 14, but is {other}")),
    };
    if start[3] == 0 {
        return refuse("IDX must have at least one dimension, but has none".into());
    }
    let mut sizes = vec![0; 4 * usize::from(start[3])];
    if !filled(&mut sizes)? {
        return refuse("the IDX header is cut short".into());
    }
    let shape: Vec<usize> = sizes
        .chunks_exact(4)
        .map(|raw| u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]) as usize)
        .collect();
    let layout = Layout { kind, little_endian: false };
    if shape.contains(&0) {
        return refuse(format!("every dimension must have at least size 1, but they are {shape:?}"));
    }
    let count = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    let promised = count.and_then(|count| count.checked_mul(layout.bytes()));
    let width = count.unwrap_or(1) / shape[0];
    let known = promised.and(count).unwrap_or(0);
    let numbers = read_numbers(path, &mut reader, layout, known, &mut Room::new(), |at, value| {
        let (rule, row, column) = (T::RULE, at / width + 1, at % width + 1);
        format_error(path, format!("numbers must {rule}, but number {column} of sample {row} is {value}"))
    })?;
    if promised.map(|bytes| bytes as u64) != Some(numbers.bytes) {
        let promised = promised.map_or("more than fits in memory".into(), |bytes| format!("{bytes} bytes"));
        let there = numbers.bytes;
        return refuse(format!(
            "the header promises {shape:?} numbers ({promised}), but {there} bytes follow"
        ));
    }
    Ok((shape, numbers.values))
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;
    use crate::data::compressed::tests::gzip;

    fn with<T>(bytes: &[u8], read: impl Fn(&Path) -> Result<T>) -> Result<T> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.idx");
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    }

    #[test]
    fn types_and_shapes_are_read_gzipped_or_not() {
        let bytes = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[1, 2, 3, 255]].concat();
        let idx = with(&bytes, read_idx).unwrap();
        assert_eq!(with(&gzip(&bytes), read_idx).unwrap(), idx);
        assert_eq!(idx.shape, [2, 1, 2]);
        assert_eq!(idx.into_rows(), array![[1.0, 2.0], [3.0, 255.0]]);
        let short = with(&[0, 0, 0x0b, 1, 0, 0, 0, 1, 0xff, 0xfe], read_idx).unwrap();
        assert_eq!(short.values, [-2.0]);
        let double = [&[0, 0, 0x0e, 1, 0, 0, 0, 1][..], &0.5_f64.to_be_bytes()].concat();
        assert_eq!(with(&double, read_idx).unwrap().values, [0.5]);
        assert_eq!(with(&[0, 0, 0x0c, 1, 0, 0, 0, 1, 1, 0, 0, 1], read_idx_labels).unwrap(), [16_777_217]);
    }

    #[test]
    fn faults_are_named() {
        let message = |bytes: &[u8]| with(bytes, read_idx).unwrap_err().to_string();
        let terabytes = [0, 0, 8, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1];
        assert!(message(&terabytes).contains("but 1 bytes follow"));
        assert!(
            message(&[0, 0, 8, 1, 0, 0, 0, 3, 1, 2]).contains("[3] numbers (3 bytes), but 2 bytes follow")
        );
        assert!(
            message(&[0, 0, 8, 1, 0, 0, 0, 1, 1, 2]).contains("[1] numbers (1 bytes), but 2 bytes follow")
        );
        assert!(message(&[0, 0, 10, 1]).contains("must be 8, 9 or 11 to 14, but is 10"));
        assert!(message(&[0, 0, 8, 2, 0, 0, 0, 1]).contains("cut short"));
        assert!(message(b"text").contains("does not begin like one"));
        assert!(message(&[0, 0, 8, 0]).contains("but has none"));
        assert!(message(&[0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9]).contains("but they are [0, 9]"));
        let overflow = [&[0, 0, 14, 3][..], &[0xff; 12]].concat();
        assert!(message(&overflow).contains("more than fits in memory"));
        let large = [&[0, 0, 0x0e, 1, 0, 0, 0, 1][..], &1e300_f64.to_be_bytes()].concat();
        assert!(message(&large).contains("number 1 of sample 1 is 1000"));
        let negative = with(&[0, 0, 9, 1, 0, 0, 0, 2, 1, 0xff], read_idx_labels).unwrap_err().to_string();
        assert!(negative.contains("number 1 of sample 2 is -1"), "{negative}");
        let square = with(&[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 1, 3], read_idx_labels).unwrap_err();
        assert!(square.to_string().contains("one dimension, but this file has 2"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), kind in 8_u8..15, dims in 0_u8..4) {
            let _ = with(&[&[0, 0, kind, dims][..], &bytes].concat(), read_idx).map(Idx::into_rows);
            let _ = with(&bytes, read_idx_labels);
        }
    }
}
