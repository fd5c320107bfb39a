//! NumPy's `.npy`: a magic string, a header that promises a shape, then numbers.
//!
//! Numbers are read piece by piece, so that a false header costs nothing.

use std::io::Read;
use std::path::Path;

use ndarray::{Array2, ShapeBuilder};
use robust_ot::Result;

use super::atomic::write_atomic;
use super::compressed::{fill, open_plain_or_gzip};
use super::number::{Kind, Layout, Number, read_numbers};
use super::room::Room;
use super::{format_error, io_error};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The largest header in bytes; NumPy itself writes a few hundred.
const LARGEST_HEADER: usize = 1 << 20;

/// Reads a one- or two-dimensional array of f32 or f64; n numbers become n rows of one column.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("cloud.npy");
/// let cloud = ndarray::array![[1.0, 2.0], [3.0, 4.0]];
/// robust_ot_learn::data::write_npy(&path, &cloud)?;
/// assert_eq!(robust_ot_learn::data::read_npy(&path)?, cloud);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, is not `.npy`, has another number type or other dimensions, or holds fewer or more numbers
/// than its header promises.
pub fn read_npy(path: &Path) -> Result<Array2<f64>> {
    read_floats(path, &mut Room::new())
}

/// [`read_npy`] within some memory.
pub(super) fn read_floats(path: &Path, room: &mut Room) -> Result<Array2<f64>> {
    let mut reader = open_plain_or_gzip(path)?;
    let header = Header::read(path, &mut reader)?;
    if let Some(Layout { kind: Kind::F32 | Kind::F64, .. }) = header.layout() {
        return header.read_array(path, &mut reader, room);
    }
    Err(format_error(path, format!("numbers must be float32 or float64, but are '{}'", header.kind)))
}

/// Reads a one- or two-dimensional array of floats, integers or booleans into single precision.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("features.npy");
/// robust_ot_learn::data::write_npy(&path, &ndarray::array![[1.0, 0.1]])?;
/// assert_eq!(robust_ot_learn::data::read_npy_f32(&path)?, ndarray::array![[1.0, 0.1]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// As [`read_npy`], and when a finite number is too large for single precision.
pub fn read_npy_f32(path: &Path) -> Result<Array2<f32>> {
    read_array(path, &mut open_plain_or_gzip(path)?, &mut Room::new())
}

/// Reads n class indices: n numbers, or n rows of one number.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("classes.npy");
/// robust_ot_learn::data::write_npy(&path, &ndarray::array![[2.0], [0.0]])?;
/// assert_eq!(robust_ot_learn::data::read_npy_integers(&path)?, [2, 0]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// As [`read_npy`], and when there are several columns or a number is not a whole number of at least 0.
pub fn read_npy_integers(path: &Path) -> Result<Vec<usize>> {
    let values: Array2<usize> = read_array(path, &mut open_plain_or_gzip(path)?, &mut Room::new())?;
    match values.dim() {
        (_, 1) => Ok(values.into_raw_vec_and_offset().0),
        (rows, columns) => {
            Err(format_error(path, format!("must hold one number per row, but is {rows} × {columns}")))
        }
    }
}

/// Reads an array from the bytes of a `.npy` file or archive member, as any number type.
pub(super) fn read_array<T: Number>(
    path: &Path,
    reader: &mut dyn Read,
    room: &mut Room,
) -> Result<Array2<T>> {
    Header::read(path, reader)?.read_array(path, reader, room)
}

/// Reads a single string of ASCII letters, as in archives of sparse matrices.
pub(super) fn read_string(path: &Path, reader: &mut dyn Read) -> Result<String> {
    let header = Header::read(path, reader)?;
    let kind = header.kind.trim_start_matches(['|', '<', '>', '=']);
    if !header.shape.is_empty() || !kind.starts_with(['S', 'U']) {
        return Err(format_error(path, format!("must be one string, but is '{}'", header.kind)));
    }
    let mut bytes = [0; 64];
    let length = fill(reader, &mut bytes).map_err(|source| io_error(path, source))?;
    // Characters take one byte or four, of which ASCII needs one.
    Ok(bytes[..length].iter().filter(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect())
}

/// The header before the numbers.
struct Header {
    /// NumPy's type code, such as `<f8`.
    kind: String,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn read(path: &Path, reader: &mut dyn Read) -> Result<Self> {
        let refuse = |message: &str| Err(format_error(path, message.into()));
        let mut filled = |buffer: &mut [u8]| {
            fill(reader, buffer).map(|there| there == buffer.len()).map_err(|source| io_error(path, source))
        };
        let mut start = [0; 8];
        if !filled(&mut start)? || &start[..6] != MAGIC {
            return refuse("must be a .npy file, but does not begin like one");
        }
        let width = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => return refuse(&format!(".npy version must be 1, 2 or 3, but is {version}")),
        };
        let mut length = [0; 4];
        if !filled(&mut length[..width])? {
            return refuse("the .npy header is cut short");
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST_HEADER {
            return refuse(&format!(
                "the .npy header must stay below {LARGEST_HEADER} bytes, but promises {length}"
            ));
        }
        let mut header = vec![0; length];
        if !filled(&mut header)? {
            return refuse("the .npy header is cut short");
        }
        Self::parse(&String::from_utf8_lossy(&header)).map_err(|message| format_error(path, message))
    }

    /// Parses the Python dictionary: descr, fortran_order, shape.
    fn parse(header: &str) -> std::result::Result<Self, String> {
        let field = |key: &str| {
            let at = header.find(&format!("'{key}'")).ok_or(format!("the .npy header has no '{key}'"))?;
            let rest = &header[at + key.len() + 2..];
            Ok::<_, String>(rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start())
        };
        let descr = field("descr")?;
        let kind =
            descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map_or(descr, |(kind, _)| kind);
        let fortran = field("fortran_order")?.starts_with("True");
        let shape = field("shape")?;
        let inside = shape.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (inside, _) = inside.ok_or("the .npy header has no shape in parentheses")?;
        let sizes = inside.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: std::result::Result<Vec<usize>, _> =
            sizes.map(|size| size.trim_end_matches('L').parse()).collect();
        let shape = shape.map_err(|_| format!("the .npy shape must be whole numbers, but is ({inside})"))?;
        Ok(Self { kind: kind.to_owned(), fortran, shape })
    }

    /// The layout of the numbers, or `None` for other types.
    fn layout(&self) -> Option<Layout> {
        let (order, code) = self.kind.split_at_checked(1)?;
        let kind = match code {
            "i1" => Kind::I8,
            "i2" => Kind::I16,
            "i4" => Kind::I32,
            "i8" => Kind::I64,
            // A boolean is a byte of 0 or 1.
            "u1" | "b1" => Kind::U8,
            "u2" => Kind::U16,
            "u4" => Kind::U32,
            "u8" => Kind::U64,
            "f4" => Kind::F32,
            "f8" => Kind::F64,
            _ => return None,
        };
        let layout = Layout { kind, little_endian: order != ">" };
        // '|' stands for a type without a byte order.
        (matches!(order, "<" | ">") || order == "|" && layout.bytes() == 1).then_some(layout)
    }

    /// Reads the numbers, which must be as many as promised and end the data.
    fn read_array<T: Number>(
        &self,
        path: &Path,
        reader: &mut dyn Read,
        room: &mut Room,
    ) -> Result<Array2<T>> {
        let refuse = |message: String| Err(format_error(path, message));
        let Some(layout) = self.layout() else {
            return refuse(format!(
                "numbers must be float32, float64, integers or booleans, but are '{}'",
                self.kind
            ));
        };
        let (rows, columns) = match self.shape[..] {
            [n] => (n, 1),
            [rows, columns] => (rows, columns),
            _ => return refuse(format!("must have one or two dimensions, but has {}", self.shape.len())),
        };
        if columns == 0 {
            // Any number of such rows takes no bytes in the file, but does in memory.
            return refuse(format!("must hold at least one number per row, but is {rows} × 0"));
        }
        let count = rows.checked_mul(columns);
        let promised = count.and_then(|count| count.checked_mul(layout.bytes()));
        let known = promised.and(count).unwrap_or(0);
        let numbers = read_numbers(path, reader, layout, known, room, |at, value| {
            let place = if self.fortran { (at % rows, at / rows) } else { (at / columns, at % columns) };
            refused_number::<T>(path, place, value)
        })?;
        if promised.map(|bytes| bytes as u64) != Some(numbers.bytes) {
            let promised =
                promised.map_or("more than fits in memory".into(), |bytes| format!("{bytes} bytes"));
            let there = numbers.bytes;
            return refuse(format!(
                "the header promises {rows} × {columns} numbers ({promised}), but {there} bytes follow"
            ));
        }
        rectangle(path, (rows, columns), self.fortran, numbers.values, room)
    }
}

/// The error for a number that is not a `T`.
pub(super) fn refused_number<T: Number>(
    path: &Path,
    (row, column): (usize, usize),
    value: f64,
) -> robust_ot::Error {
    let (rule, row, column) = (T::RULE, row + 1, column + 1);
    let message = format!("numbers must {rule}, but row {row}, column {column} is {value} (counting from 1)");
    format_error(path, message)
}

/// Arranges numbers in rows, from either storage order.
pub(super) fn rectangle<T: Number>(
    path: &Path,
    shape: (usize, usize),
    by_columns: bool,
    values: Vec<T>,
    room: &mut Room,
) -> Result<Array2<T>> {
    if by_columns {
        room.take(size_of_val(values.as_slice())).map_err(|message| format_error(path, message))?;
    }
    let array = Array2::from_shape_vec(shape.set_f(by_columns), values)
        .map_err(|error| format_error(path, error.to_string()))?;
    Ok(if by_columns { array.as_standard_layout().into_owned() } else { array })
}

/// Writes f64 numbers, row-major.
///
/// # Errors
/// When the file cannot be written.
pub fn write_npy(path: &Path, array: &Array2<f64>) -> Result<()> {
    let (rows, columns) = array.dim();
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // The data begin at a multiple of 64 bytes, after a newline.
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    write_atomic(path, |file| {
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for value in array {
            file.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn message(header: &str, data: &[u8]) -> String {
        let (_dir, path) = file(header, data);
        read_npy(&path).unwrap_err().to_string()
    }

    #[test]
    fn every_float_layout_is_read() {
        let numbers = [1.5_f32, -2.0, 0.25, 8.0, 3.0, -1.0];
        let little: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let (_dir, path) = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", &little);
        assert_eq!(read_npy(&path).unwrap(), array![[1.5, -2.0, 0.25], [8.0, 3.0, -1.0]]);
        let big: Vec<u8> = numbers.iter().flat_map(|x| f64::from(*x).to_be_bytes()).collect();
        let (_dir, path) = file("{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3), }", &big);
        assert_eq!(read_npy(&path).unwrap(), array![[1.5, 0.25, 3.0], [-2.0, 8.0, -1.0]]);
        let (_dir, path) = file("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", &little);
        assert_eq!(read_npy(&path).unwrap().dim(), (6, 1));
    }

    #[test]
    fn features_may_be_of_any_kind_and_classes_must_be_whole() {
        let header = |kind: &str, shape: &str| {
            format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")
        };
        let (_dir, path) = file(&header("|b1", "(2, 2)"), &[1, 0, 0, 1]);
        assert_eq!(read_npy_f32(&path).unwrap(), array![[1.0, 0.0], [0.0, 1.0]]);
        let (_dir, path) = file(&header(">i2", "(1, 2)"), &[0xff, 0xfe, 0, 3]);
        assert_eq!(read_npy_f32(&path).unwrap(), array![[-2.0, 3.0]]);
        let large: Vec<u8> = [1.0_f64, 2.0, 1e39].iter().flat_map(|x| x.to_le_bytes()).collect();
        let (_dir, path) = file(&header("<f8", "(3, 1)"), &large);
        let message = read_npy_f32(&path).unwrap_err().to_string();
        assert!(message.contains("must fit in 32-bit floats, but row 3, column 1 is 1000"), "{message}");
        let by_columns = "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 3), }";
        let (_dir, path) = file(by_columns, &large);
        assert!(read_npy_f32(&path).unwrap_err().to_string().contains("row 1, column 3 is"));
        let (_dir, path) = file(&header("<c8", "(1, 1)"), &[0; 8]);
        assert!(read_npy_f32(&path).unwrap_err().to_string().contains("integers or booleans, but are '<c8'"));
        let (_dir, path) = file(&header("<i8", "(2,)"), &[3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_npy_integers(&path).unwrap(), [3, 7]);
        let (_dir, path) = file(&header("|i1", "(2, 1)"), &[3, 0xff]);
        assert!(read_npy_integers(&path).unwrap_err().to_string().contains("row 2, column 1 is -1"));
        let (_dir, path) = file(&header("<f4", "(1,)"), &1.5_f32.to_le_bytes());
        assert!(read_npy_integers(&path).unwrap_err().to_string().contains("row 1, column 1 is 1.5"));
        let (_dir, path) = file(&header("|u1", "(1, 2)"), &[1, 2]);
        assert!(
            read_npy_integers(&path).unwrap_err().to_string().contains("one number per row, but is 1 × 2")
        );
    }

    #[test]
    fn strings_are_read_in_both_widths() {
        let read = |header: &str, data: &[u8]| {
            let (_dir, path) = file(header, data);
            read_string(&path, &mut open_plain_or_gzip(&path).unwrap())
        };
        let bytes = "{'descr': '|S3', 'fortran_order': False, 'shape': (), }";
        assert_eq!(read(bytes, b"csr").unwrap(), "csr");
        let wide = "{'descr': '<U3', 'fortran_order': False, 'shape': (), }";
        assert_eq!(read(wide, b"c\0\0\0o\0\0\0o\0\0\0").unwrap(), "coo");
        assert!(read("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &[0; 8]).is_err());
    }

    #[test]
    fn a_lying_header_allocates_nothing() {
        let terabytes = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }";
        assert!(message(terabytes, &[0; 16]).contains("but 16 bytes follow"));
        let overflow = "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 3), }";
        assert!(message(overflow, &[]).contains("more than fits in memory"));
        let short = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }";
        assert!(message(short, &[0; 31]).contains("31 bytes follow"));
        assert!(message(short, &[0; 33]).contains("33 bytes follow"));
    }

    #[test]
    fn other_contents_are_named() {
        assert!(
            message("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", &[0; 8]).contains("'<i8'")
        );
        let cube = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }";
        assert!(message(cube, &[0; 8]).contains("one or two dimensions, but has 3"));
        assert!(message("{}", &[]).contains("no 'descr'"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.npy");
        std::fs::write(&path, "1,2,3").unwrap();
        assert!(read_npy(&path).unwrap_err().to_string().contains("does not begin like one"));
        assert!(read_npy(dir.path()).unwrap_err().to_string().contains("is a folder"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), proper in any::<bool>()) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.npy");
            let mut all = if proper { b"\x93NUMPY\x01\x00".to_vec() } else { Vec::new() };
            all.extend(bytes);
            std::fs::write(&path, all).unwrap();
            let _ = read_npy(&path);
        }

        #[test]
        fn no_header_makes_the_reader_panic(kind in "[<>|][biufSU][1248]", shape in "[0-9, ]{0,6}", data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let header = format!("{{'descr': '{kind}', 'fortran_order': True, 'shape': ({shape})}}");
            let (_dir, path) = file(&header, &data);
            let _ = (read_npy_f32(&path), read_npy_integers(&path));
        }
    }
}
