//! NumPy's `.npy`: a magic string, a header that promises a shape, then numbers.
//!
//! The promise is checked against the size of the file before anything is allocated.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use ndarray::{Array2, ShapeBuilder};

use super::{format_error, io_error, open};
use crate::error::Result;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself writes headers of a few hundred bytes.
const LARGEST_HEADER: usize = 1 << 20;

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Layout {
    bytes: usize,
    little_endian: bool,
}

/// Reads a one- or two-dimensional array of f32 or f64; n numbers become n rows of one column.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("cloud.npy");
/// let cloud = ndarray::array![[1.0, 2.0], [3.0, 4.0]];
/// robust_ot::data::write_npy(&path, &cloud)?;
/// assert_eq!(robust_ot::data::read_npy(&path)?, cloud);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, is not `.npy`, holds other numbers or dimensions, or less or more than its header
/// promises.
pub fn read_npy(path: &Path) -> Result<Array2<f64>> {
    let refuse = |message: String| Err(format_error(path, message));
    let file = open(path)?;
    let metadata = file.metadata().map_err(|e| io_error(path, e))?;
    if !metadata.is_file() {
        return refuse(
            "must be a plain file, since its size is checked first, but is a pipe or device".into(),
        );
    }
    let size = metadata.len();
    let mut reader = BufReader::new(file);
    let mut start = [0; 8];
    if reader.read_exact(&mut start).is_err() || &start[..6] != MAGIC {
        return refuse("must be a .npy file, but does not begin like one".into());
    }
    let wide = match start[6] {
        1 => false,
        2 | 3 => true,
        version => return refuse(format!(".npy version must be 1, 2 or 3, but is {version}")),
    };
    let mut length = [0; 4];
    let width = if wide { 4 } else { 2 };
    if reader.read_exact(&mut length[..width]).is_err() {
        return refuse("the .npy header is cut short".into());
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LARGEST_HEADER {
        return refuse(format!(
            "the .npy header must stay below {LARGEST_HEADER} bytes, but promises {length}"
        ));
    }
    let mut header = vec![0; length];
    if reader.read_exact(&mut header).is_err() {
        return refuse("the .npy header is cut short".into());
    }
    let header = String::from_utf8_lossy(&header);
    let (layout, fortran, shape) = parse_header(&header).map_err(|message| format_error(path, message))?;
    let (rows, columns) = match shape[..] {
        [n] => (n, 1),
        [rows, columns] => (rows, columns),
        _ => return refuse(format!("must have one or two dimensions, but has {}", shape.len())),
    };
    let promised = rows.checked_mul(columns).and_then(|count| count.checked_mul(layout.bytes));
    let there = size.saturating_sub((8 + width + length) as u64);
    if promised.map(|bytes| bytes as u64) != Some(there) {
        let promised = promised.map_or("more than fits in memory".into(), |bytes| format!("{bytes} bytes"));
        return refuse(format!(
            "the header promises {rows} × {columns} numbers ({promised}), but {there} bytes follow"
        ));
    }
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|e| io_error(path, e))?;
    let values: Vec<f64> = bytes.chunks_exact(layout.bytes).map(|raw| layout.decode(raw)).collect();
    match Array2::from_shape_vec((rows, columns).set_f(fortran), values) {
        Ok(array) => Ok(array.as_standard_layout().into_owned()),
        Err(_) => refuse("the file changed while it was read".into()),
    }
}

impl Layout {
    fn decode(self, raw: &[u8]) -> f64 {
        let mut bytes = [0; 8];
        bytes[..self.bytes].copy_from_slice(raw);
        if !self.little_endian {
            bytes[..self.bytes].reverse();
        }
        if self.bytes == 8 {
            f64::from_le_bytes(bytes)
        } else {
            f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        }
    }
}

/// The Python dictionary of the header: descr, fortran_order, shape.
fn parse_header(header: &str) -> std::result::Result<(Layout, bool, Vec<usize>), String> {
    let field = |key: &str| {
        let at = header.find(&format!("'{key}'")).ok_or(format!("the .npy header has no '{key}'"))?;
        let rest = &header[at + key.len() + 2..];
        Ok::<_, String>(rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start())
    };
    let descr = field("descr")?;
    let kind =
        descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map_or(descr, |(kind, _)| kind);
    let layout = match kind {
        "<f8" => Layout { bytes: 8, little_endian: true },
        "<f4" => Layout { bytes: 4, little_endian: true },
        ">f8" => Layout { bytes: 8, little_endian: false },
        ">f4" => Layout { bytes: 4, little_endian: false },
        other => return Err(format!("numbers must be float32 or float64, but are '{other}'")),
    };
    let fortran = field("fortran_order")?.starts_with("True");
    let shape = field("shape")?;
    let inside = shape.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (inside, _) = inside.ok_or("the .npy header has no shape in parentheses")?;
    let sizes = inside.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: std::result::Result<Vec<usize>, _> =
        sizes.map(|size| size.trim_end_matches('L').parse()).collect();
    Ok((
        layout,
        fortran,
        shape.map_err(|_| format!("the .npy shape must be whole numbers, but is ({inside})"))?,
    ))
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
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for value in array {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()
    };
    write().map_err(|e| io_error(path, e))
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
    }
}
