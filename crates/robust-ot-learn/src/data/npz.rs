//! NumPy's `.npz`, a zip of `.npy` files, and the sparse matrices that SciPy's `save_npz` stores in one.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use robust_ot::{Error, Result};
use zip::ZipArchive;
use zip::result::ZipError;

use super::features::Sparse;
use super::npy::{read_array, read_string};
use super::number::Number;
use super::room::Room;
use super::variable::{Role, Variable, choose};
use super::{format_error, io_error, open};

/// The contents of an archive for a role.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content<T> {
    Dense(Array2<T>),
    Sparse(Sparse),
}

/// Reads the array of a role: the only one, the one with a name of that role, or a sparse matrix in CSR form.
pub(super) fn read_npz<T: Number>(path: &Path, role: Role, room: &mut Room) -> Result<Content<T>> {
    let mut archive = Archive::open(path)?;
    // Every sparse format of SciPy has these three members.
    if ["format", "shape", "data"].iter().all(|name| archive.names.iter().any(|there| there == name)) {
        return archive.read_sparse(room).map(Content::Sparse);
    }
    let variables: Vec<Variable> =
        archive.names.iter().map(|name| Variable { name: name.clone(), obstacle: None }).collect();
    let name = archive.names[choose(path, role, &variables)?].clone();
    archive.read(&name, room).map(Content::Dense)
}

struct Archive<'a> {
    path: &'a Path,
    zip: ZipArchive<BufReader<File>>,
    /// The names of the `.npy` members, without the extension.
    names: Vec<String>,
}

impl<'a> Archive<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let zip = ZipArchive::new(BufReader::new(open(path)?)).map_err(|error| zip_error(path, error))?;
        let names =
            zip.file_names().filter_map(|name| name.strip_suffix(".npy")).map(str::to_owned).collect();
        Ok(Self { path, zip, names })
    }

    fn read<T: Number>(&mut self, name: &str, room: &mut Room) -> Result<Array2<T>> {
        self.member(name, |place, reader| read_array(place, reader, room))
    }

    fn member<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Path, &mut dyn std::io::Read) -> Result<T>,
    ) -> Result<T> {
        let file = format!("{name}.npy");
        let place: PathBuf = self.path.join(&file);
        let mut member = self.zip.by_name(&file).map_err(|error| zip_error(&place, error))?;
        read(&place, &mut member)
    }

    fn read_sparse(&mut self, room: &mut Room) -> Result<Sparse> {
        let path = self.path;
        let format = self.member("format", read_string)?;
        if format != "csr" {
            let message =
                format!("a sparse matrix must be in csr form, but is '{format}' (SciPy: x.tocsr())");
            return Err(format_error(path, message));
        }
        let shape: Array2<usize> = self.read("shape", room)?;
        let [rows, columns] = shape.iter().copied().collect::<Vec<_>>()[..] else {
            let message = format!("a sparse matrix must have two dimensions, but has {}", shape.len());
            return Err(format_error(path, message));
        };
        let starts: Vec<usize> = self.read("indptr", room)?.into_raw_vec_and_offset().0;
        if starts.len().checked_sub(1) != Some(rows) {
            let message = format!("{rows} rows must have one more start, but have {}", starts.len());
            return Err(format_error(path, message));
        }
        let indices: Vec<u32> = self.read("indices", room)?.into_raw_vec_and_offset().0;
        let values: Vec<f32> = self.read("data", room)?.into_raw_vec_and_offset().0;
        Sparse::from_unsorted(columns, starts, indices, values)
            .map_err(|error| format_error(path, error.to_string()))
    }
}

fn zip_error(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(source) => io_error(path, source),
        other => format_error(path, format!("must be a valid zip archive of .npy files, but: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ndarray::array;
    use proptest::prelude::*;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    /// The bytes of a `.npy` file.
    fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn archive(members: &[(&str, Vec<u8>)], deflated: bool) -> Vec<u8> {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let method = if deflated { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
        for (name, bytes) in members {
            zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn read(bytes: &[u8], role: Role) -> Result<Content<f32>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        std::fs::write(&path, bytes).unwrap();
        read_npz(&path, role, &mut Room::new())
    }

    #[test]
    fn one_array_or_the_one_with_the_name() {
        let (a, b) = (npy("|u1", "(1, 2)", &[1, 2]), npy("|u1", "(2,)", &[3, 4]));
        for deflated in [false, true] {
            let one = archive(&[("arr_0.npy", a.clone())], deflated);
            assert_eq!(read(&one, Role::Features).unwrap(), Content::Dense(array![[1.0, 2.0]]));
            let two = archive(&[("y.npy", b.clone()), ("x.npy", a.clone())], deflated);
            assert_eq!(read(&two, Role::Features).unwrap(), Content::Dense(array![[1.0, 2.0]]));
            assert_eq!(read(&two, Role::Labels).unwrap(), Content::Dense(array![[3.0], [4.0]]));
        }
        let unclear = archive(&[("a.npy", a.clone()), ("b.npy", b)], false);
        assert!(read(&unclear, Role::Features).unwrap_err().to_string().contains("but holds a, b"));
        let long = archive(&[("a.npy", [a, vec![0]].concat())], true);
        let message = read(&long, Role::Features).unwrap_err().to_string();
        assert!(
            message.contains("a.npz/a.npy: the header promises 1 × 2 numbers (2 bytes), but 3"),
            "{message}"
        );
        assert!(
            read(b"text", Role::Features).unwrap_err().to_string().contains("must be a valid zip archive")
        );
    }

    fn sparse(format: &str, indices: &[u8], starts: &[u8]) -> Vec<u8> {
        let floats: Vec<u8> = [0.5_f64, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        archive(
            &[
                ("indices.npy", npy("|i1", "(3,)", indices)),
                ("indptr.npy", npy("|i1", &format!("({},)", starts.len()), starts)),
                ("format.npy", npy("|S3", "()", format.as_bytes())),
                ("shape.npy", npy("|i1", "(2,)", &[2, 4])),
                ("data.npy", npy("<f8", "(3,)", &floats)),
            ],
            true,
        )
    }

    #[test]
    fn sparse_matrices_of_scipy() {
        let expected = Sparse::new(4, vec![0, 2, 3], vec![0, 3, 1], vec![1.0, 0.5, 2.0]).unwrap();
        let found = read(&sparse("csr", &[3, 0, 1], &[0, 2, 3]), Role::Features).unwrap();
        assert_eq!(found, Content::Sparse(expected));
        let message = |bytes: &[u8]| read(bytes, Role::Features).unwrap_err().to_string();
        assert!(message(&sparse("coo", &[3, 0, 1], &[0, 2, 3])).contains("csr form, but is 'coo'"));
        assert!(message(&sparse("csr", &[4, 0, 1], &[0, 2, 3])).contains("below 4, but is 4 in row 1"));
        assert!(message(&sparse("csr", &[3, 3, 1], &[0, 2, 3])).contains("row 1 has 3 after 3"));
        assert!(
            message(&sparse("csr", &[3, 0, 1], &[0, 3]))
                .contains("2 rows must have one more start, but have 2")
        );
        assert!(message(&sparse("csr", &[3, 0, 1], &[0, 4, 3])).contains("4 before 3"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), whole in any::<bool>()) {
            let mut bytes = sparse("csr", &[3, 0, 1], &[0, 2, 3]);
            let place = at.index(bytes.len());
            bytes[place] = byte;
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = read(&bytes, Role::Features);
        }

        #[test]
        fn no_other_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[b"PK\x05\x06", &bytes[..]].concat(), Role::Features);
        }
    }
}
