//! MATLAB's `.mat` of version 5 (what `save` writes before `-v7.3`): dense tables of real numbers.
//!
//! The file is a sequence of elements, each with its type and size. The element of a variable may be compressed and
//! contains further elements: flags, dimensions, name, numbers. The file is read twice, once for the names and once for
//! the numbers, so that no other variable is kept in memory.

use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::ZlibDecoder;
use ndarray::Array2;
use robust_ot::{Error, Result};

use super::compressed::{fill, open_plain_or_gzip};
use super::npy::{rectangle, refused_number};
use super::number::{Kind, Layout, Number, read_numbers};
use super::room::Room;
use super::variable::{Role, Variable, choose};
use super::{format_error, io_error};

const HEADER: usize = 128;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;
const HDF5: &[u8] = b"\x89HDF";
/// The largest size of a name or of dimensions, in bytes: names have at most 63 letters, and dimensions are few.
const LARGEST_DESCRIPTION: u64 = 1024;
/// Bytes that the description of a variable takes besides its name.
const MOST_OF_AN_OBSTACLE: usize = 64;

/// Reads the table of a role: the one with a name of that role, or the only one.
pub(super) fn read_mat<T: Number>(path: &Path, role: Role, room: &mut Room) -> Result<Array2<T>> {
    let mut variables = Vec::new();
    scan(path, |matrix, _| {
        let variable = matrix.variable();
        let described = room.take(variable.name.len() + MOST_OF_AN_OBSTACLE);
        described
            .and_then(|()| room.push(&mut variables, variable))
            .map_err(|message| format_error(path, message))
    })?;
    let wanted = choose(path, role, &variables)?;
    let (mut at, mut table) = (0, None);
    scan(path, |matrix, elements| {
        if at == wanted {
            table = Some(matrix.read_numbers(elements, room)?);
        }
        at += 1;
        Ok(())
    })?;
    table.ok_or_else(|| format_error(path, "the file changed while it was read".into()))
}

/// Calls `visit` for each variable, with the elements after its name.
fn scan(path: &Path, mut visit: impl FnMut(&Matrix, &mut Elements) -> Result<()>) -> Result<()> {
    let mut reader = open_plain_or_gzip(path)?;
    let mut header = [0; HEADER];
    let there = fill(&mut reader, &mut header).map_err(|source| io_error(path, source))?;
    if header.starts_with(HDF5) || header.starts_with(b"MATLAB 7.3") {
        let message = "must be a .mat file of version 5, but is of version 7.3 (HDF5); save it with -v7";
        return Err(format_error(path, message.into()));
    }
    let little_endian = match (&header[124..126], &header[126..]) {
        ([_, 1], b"IM") => true,
        ([1, _], b"MI") => false,
        _ => {
            let message = format!("must be a .mat file of version 5, but its first {there} bytes are not");
            return Err(format_error(path, message));
        }
    };
    loop {
        let mut elements = Elements { path, little_endian, reader: &mut reader };
        let Some(tag) = elements.tag()? else { return Ok(()) };
        let mut body = (&mut reader).take(tag.size);
        match tag.kind {
            MATRIX => {
                let mut elements = Elements { path, little_endian, reader: &mut body };
                elements.show(&mut visit)?;
            }
            COMPRESSED => {
                let mut inflated = ZlibDecoder::new(BufReader::new(&mut body));
                let mut elements = Elements { path, little_endian, reader: &mut inflated };
                if let Some(Tag { kind: MATRIX, .. }) = elements.tag()? {
                    elements.show(&mut visit)?;
                }
            }
            // Elements of other kinds are not variables.
            _ => {}
        }
        // The unread rest is skipped, but must be present.
        io::copy(&mut body, &mut io::sink()).map_err(|source| io_error(path, source))?;
        if body.limit() > 0 {
            return Err(cut_short(path));
        }
    }
}

/// The type and size of an element, and its bytes if they are in the tag itself.
struct Tag {
    kind: u32,
    size: u64,
    inline: Option<[u8; 4]>,
}

struct Elements<'a> {
    path: &'a Path,
    little_endian: bool,
    reader: &'a mut dyn Read,
}

impl Elements<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        fill(self.reader, buffer).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => cut_short(self.path),
            _ => io_error(self.path, source),
        })
    }

    fn word(&self, bytes: &[u8]) -> u32 {
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.little_endian { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
    }

    /// The next tag, if there is one.
    fn tag(&mut self) -> Result<Option<Tag>> {
        let mut bytes = [0; 8];
        match self.fill(&mut bytes)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(cut_short(self.path)),
        }
        let (first, second) = (self.word(&bytes[..4]), self.word(&bytes[4..]));
        // A small element has its size in the upper half of the type, and its bytes where the size would be.
        let small = first >> 16;
        Ok(Some(if small == 0 {
            Tag { kind: first, size: u64::from(second), inline: None }
        } else {
            let inline = [bytes[4], bytes[5], bytes[6], bytes[7]];
            Tag { kind: first & 0xffff, size: u64::from(small.min(4)), inline: Some(inline) }
        }))
    }

    /// The bytes of an element, which must be short.
    fn description(&mut self) -> Result<Vec<u8>> {
        let tag = self.tag()?.ok_or_else(|| cut_short(self.path))?;
        if let Some(bytes) = tag.inline {
            return Ok(bytes[..tag.size as usize].to_vec());
        }
        if tag.size > LARGEST_DESCRIPTION {
            let message = format!(
                "names and dimensions must stay below {LARGEST_DESCRIPTION} bytes, but one has {}",
                tag.size
            );
            return Err(format_error(self.path, message));
        }
        let mut bytes = vec![0; tag.size.next_multiple_of(8) as usize];
        if self.fill(&mut bytes)? < bytes.len() {
            return Err(cut_short(self.path));
        }
        bytes.truncate(tag.size as usize);
        Ok(bytes)
    }

    fn show(&mut self, visit: &mut impl FnMut(&Matrix, &mut Elements) -> Result<()>) -> Result<()> {
        let flags = self.description()?;
        if flags.len() < 4 {
            return Err(format_error(self.path, "a variable must have flags, but one has none".into()));
        }
        let flags = self.word(&flags);
        let class = (flags & 0xff) as u8;
        // Objects of newer classes have no dimensions before their name.
        let shape = if class == 17 {
            Vec::new()
        } else {
            self.description()?.chunks_exact(4).map(|raw| self.word(raw) as usize).collect()
        };
        let name = String::from_utf8_lossy(&self.description()?).into_owned();
        // MATLAB keeps the internals of objects in a variable without a name.
        if name.is_empty() {
            return Ok(());
        }
        visit(&Matrix { name, class, complex: flags & 0x800 != 0, shape }, self)
    }
}

struct Matrix {
    name: String,
    class: u8,
    complex: bool,
    shape: Vec<usize>,
}

impl Matrix {
    fn variable(&self) -> Variable {
        let obstacle = match self.class {
            1 => Some("a cell array".into()),
            2 => Some("a struct".into()),
            4 => Some("text".into()),
            5 => Some("sparse".into()),
            6..=15 if self.complex => Some("complex".into()),
            6..=15 if self.shape.len() != 2 => Some(format!("{}-dimensional", self.shape.len())),
            6..=15 => None,
            other => Some(format!("an object (class {other})")),
        };
        Variable { name: self.name.clone(), obstacle }
    }

    /// Reads the numbers, which MATLAB stores by columns and in the smallest type that holds them.
    fn read_numbers<T: Number>(&self, elements: &mut Elements, room: &mut Room) -> Result<Array2<T>> {
        let path = elements.path;
        let refuse = |message: String| Err(format_error(path, message));
        let [rows, columns] = self.shape[..] else { return refuse("must have two dimensions".into()) };
        let tag = elements.tag()?.ok_or_else(|| cut_short(path))?;
        let kind = match tag.kind {
            1 => Kind::I8,
            2 => Kind::U8,
            3 => Kind::I16,
            4 => Kind::U16,
            5 => Kind::I32,
            6 => Kind::U32,
            7 => Kind::F32,
            9 => Kind::F64,
            12 => Kind::I64,
            13 => Kind::U64,
            other => {
                return refuse(format!("'{}' must be stored as numbers, but has type {other}", self.name));
            }
        };
        let layout = Layout { kind, little_endian: elements.little_endian };
        if columns == 0 {
            let name = &self.name;
            return refuse(format!("'{name}' must hold at least one number per row, but is {rows} × 0"));
        }
        let count = rows.checked_mul(columns);
        let promised = count.and_then(|count| count.checked_mul(layout.bytes()));
        let refused = |at: usize, value| refused_number::<T>(path, (at % rows, at / rows), value);
        let inline = tag.inline.unwrap_or_default();
        let mut bytes: Box<dyn Read> = match tag.inline {
            Some(_) => Box::new(&inline[..tag.size as usize]),
            None => Box::new(elements.reader.take(tag.size)),
        };
        let known = promised.and(count).unwrap_or(0);
        let numbers = read_numbers::<T>(path, &mut bytes, layout, known, room, refused)?;
        if promised.map(|bytes| bytes as u64) != Some(numbers.bytes) {
            let (name, there) = (&self.name, numbers.bytes);
            return refuse(format!("'{name}' promises {rows} × {columns} numbers, but {there} bytes follow"));
        }
        rectangle(path, (rows, columns), true, numbers.values, room)
    }
}

fn cut_short(path: &Path) -> Error {
    format_error(path, "must be a whole .mat file, but is cut short".into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ndarray::array;
    use proptest::prelude::*;

    use super::*;

    /// Bytes of a file in either byte order.
    #[derive(Clone, Copy)]
    struct Order {
        little: bool,
    }

    impl Order {
        fn word(self, word: u32) -> [u8; 4] {
            if self.little { word.to_le_bytes() } else { word.to_be_bytes() }
        }

        fn element(self, kind: u32, data: &[u8]) -> Vec<u8> {
            let mut bytes = [self.word(kind), self.word(data.len() as u32)].concat();
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        }

        /// A variable with its numbers as an element.
        fn variable(self, name: &str, class: u32, shape: &[u32], numbers: &[u8]) -> Vec<u8> {
            let flags = [self.word(class), self.word(0)].concat();
            let shape: Vec<u8> = shape.iter().flat_map(|&size| self.word(size)).collect();
            let parts = [self.element(6, &flags), self.element(5, &shape), self.element(1, name.as_bytes())];
            self.element(MATRIX, &[&parts.concat(), numbers].concat())
        }

        fn compressed(self, element: &[u8]) -> Vec<u8> {
            let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(element).unwrap();
            let packed = writer.finish().unwrap();
            [&self.word(COMPRESSED)[..], &self.word(packed.len() as u32), &packed].concat()
        }

        fn file(self, variables: &[Vec<u8>]) -> Vec<u8> {
            let mut bytes = vec![b' '; 124];
            bytes.extend(if self.little { [0, 1, b'I', b'M'] } else { [1, 0, b'M', b'I'] });
            bytes.extend(variables.concat());
            bytes
        }
    }

    fn read<T: Number>(bytes: &[u8], role: Role) -> Result<Array2<T>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.mat");
        std::fs::write(&path, bytes).unwrap();
        read_mat(&path, role, &mut Room::new())
    }

    fn both(order: Order) -> Vec<u8> {
        let doubles: Vec<u8> = [1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.5]
            .iter()
            .flat_map(|x| if order.little { x.to_le_bytes() } else { x.to_be_bytes() })
            .collect();
        let x = order.variable("X", 6, &[2, 3], &order.element(9, &doubles));
        // Two bytes of type 2 in the tag itself.
        let small = [&order.word(2 << 16 | 2)[..], &[7, 0, 0, 0]].concat();
        let y = order.variable("labels", 6, &[2, 1], &small);
        order.file(&[order.variable("note", 4, &[1, 1], &[]), order.compressed(&x), y])
    }

    #[test]
    fn compressed_and_small_elements_in_both_byte_orders() {
        for little in [true, false] {
            let bytes = both(Order { little });
            assert_eq!(
                read::<f32>(&bytes, Role::Features).unwrap(),
                array![[1.0, 3.0, 5.0], [2.0, 4.0, 6.5]]
            );
            assert_eq!(read::<f64>(&bytes, Role::Labels).unwrap(), array![[7.0], [0.0]]);
            let message = read::<usize>(&bytes, Role::Features).unwrap_err().to_string();
            assert!(message.contains("row 2, column 3 is 6.5"), "{message}");
        }
    }

    #[test]
    fn faults_are_named() {
        let order = Order { little: true };
        let message = |bytes: &[u8]| read::<f32>(bytes, Role::Features).unwrap_err().to_string();
        let kinds =
            [(1, "a cell array"), (2, "a struct"), (4, "text"), (5, "sparse"), (6 + 0x800, "complex")];
        for (class, what) in kinds {
            let found = message(&order.file(&[order.variable("x", class, &[1, 1], &[])]));
            assert!(
                found.contains(&format!("'x' must be a dense table of real numbers, but is {what}")),
                "{found}"
            );
        }
        let cube = order.variable("x", 6, &[1, 1, 1], &[]);
        assert!(message(&order.file(&[cube])).contains("but is 3-dimensional"));
        let lie = order.variable("x", 6, &[0xffff_ffff, 9], &order.element(9, &[0; 16]));
        assert!(
            message(&order.file(&[lie])).contains("promises 4294967295 × 9 numbers, but 16 bytes follow")
        );
        let whole = both(order);
        // Cut in the last variable, and in the compressed one before it.
        assert!(message(&whole[..whole.len() - 3]).contains("must be a whole .mat file, but is cut short"));
        assert!(message(&whole[..HEADER + 90]).contains("must be a whole .mat file, but is cut short"));
        assert!(message(b"MATLAB 7.3 MAT-file, Platform: GLNXA64").contains("version 7.3 (HDF5)"));
        assert!(message(b"text").contains("but its first 4 bytes are not"));
        assert!(message(&order.file(&[])).contains("but holds nothing"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read::<f32>(&[Order { little: true }.file(&[]), bytes].concat(), Role::Features);
        }

        #[test]
        fn no_change_makes_the_reader_panic(at in 124_usize..600, byte in any::<u8>(), little in any::<bool>()) {
            let mut bytes = both(Order { little });
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            let _ = (read::<f32>(&bytes, Role::Features), read::<usize>(&bytes, Role::Labels));
        }
    }
}
