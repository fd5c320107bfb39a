//! The features of samples, from any supported file.

use std::ffi::OsStr;
use std::path::Path;

use ndarray::Array2;
use robust_ot::Result;

use super::features::Features;
use super::idx::read_idx;
use super::mat::read_mat;
use super::mixed_table::Cells;
use super::npy::{read_npy_f32, refused_number};
use super::npz::{Content, read_npz};
use super::number::Number;
use super::parquet::ParquetFile;
use super::room::Room;
use super::svmlight::read_labeled;
use super::table::read_rows;
use super::variable::Role;
use super::{extension, format_error};

/// The features of samples, with their names if the file has them.
///
/// ```
/// use robust_ot_learn::data::{FeatureFile, Features};
///
/// let file = FeatureFile { features: Features::Dense(ndarray::array![[1.0, 2.0]]), names: None };
/// assert_eq!(file.features.columns(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureFile {
    /// One row per sample; all finite.
    pub features: Features,
    /// One name per column.
    pub names: Option<Vec<String>>,
}

/// Reads features in the format of the file extension: `.npy`, `.npz` (one array, one named `x`, `X`, `features`, `data` or
/// `fts`, or a sparse CSR matrix of SciPy), `.csv` or `.tsv` with or without a header, `.parquet`, `.mat` (version 5), `.svm`,
/// `.svmlight`, `.libsvm` or `.txt` (labels are ignored), and IDX (names ending in `-ubyte` or `.idx`; bytes stay 0 to 255).
/// All but `.npz` and `.parquet` may be gzipped.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use robust_ot_learn::data::Features;
/// let path = dir.path().join("features.csv");
/// std::fs::write(&path, "height,width\n1,2\n").unwrap();
/// let file = robust_ot_learn::data::read_features(&path)?;
/// assert_eq!(file.features, Features::Dense(ndarray::array![[1.0, 2.0]]));
/// assert_eq!(file.names.unwrap(), ["height", "width"]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, has another extension, does not match its extension, is empty, or has a number that is
/// not finite in single precision.
pub fn read_features(path: &Path) -> Result<FeatureFile> {
    let (mut names, mut room) = (None, Room::new());
    let features = match extension(path).as_str() {
        _ if is_idx(path) => Features::Dense(read_idx(path)?.into_rows()),
        "npy" => Features::Dense(read_npy_f32(path)?),
        "npz" => match read_npz(path, Role::Features, &mut room)? {
            Content::Dense(array) => Features::Dense(array),
            Content::Sparse(sparse) => Features::Sparse(sparse),
        },
        "mat" => Features::Dense(read_mat(path, Role::Features, &mut room)?),
        "csv" | "tsv" => {
            let table = read_rows(path, &mut room)?;
            let bytes = table.values.len() * size_of::<f32>();
            room.take(bytes).map_err(|message| format_error(path, message))?;
            names = table.names;
            Features::Dense(single(path, &table.values)?)
        }
        "parquet" => {
            let (array, found) = read_columns(path, &mut room)?;
            names = Some(found);
            Features::Dense(array)
        }
        "svm" | "svmlight" | "libsvm" | "txt" => Features::Sparse(read_labeled(path)?.features),
        other => {
            let message = format!(
                "features must be .npy, .npz, .mat, .csv, .tsv, .parquet, .svm, .txt or IDX, but this ends in .{other}"
            );
            return Err(format_error(path, message));
        }
    };
    let (rows, columns) = (features.rows(), features.columns());
    if rows == 0 || columns == 0 {
        let message = format!("must hold at least one sample and one feature, but is {rows} × {columns}");
        return Err(format_error(path, message));
    }
    features.check_finite().map_err(|error| format_error(path, error.to_string()))?;
    Ok(FeatureFile { features, names })
}

/// Whether the name is that of an IDX file; MNIST's files have no extension.
pub(super) fn is_idx(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or("").to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.ends_with("-ubyte") || extension(path) == "idx"
}

/// The columns of a Parquet file, which must be numbers, with their names.
fn read_columns(path: &Path, room: &mut Room) -> Result<(Array2<f32>, Vec<String>)> {
    let mut file = ParquetFile::open(path, room)?;
    let (all, columns) = (file.names(), file.without_index());
    let mut array = Vec::new();
    let cells = file.rows().saturating_mul(columns.len());
    room.grow(&mut array, cells).map_err(|message| format_error(path, message))?;
    array.resize(cells, 0.0);
    for (place, &column) in columns.iter().enumerate() {
        let name = &all[column];
        let refuse = |found: String| format_error(path, format!("features must be numbers, but {found}"));
        if let Some(what) = file.obstacle(column) {
            return Err(refuse(format!("column {}, '{name}', holds {what}", column + 1)));
        }
        // A column is there twice only until it is copied.
        let Cells::Numbers(numbers) = file.read(column, &mut room.clone())? else {
            return Err(refuse(format!("column '{name}' has no value")));
        };
        for (row, &value) in numbers.iter().enumerate() {
            if value.is_nan() {
                return Err(refuse(format!("row {} of column '{name}' is missing", row + 1)));
            }
            array[row * columns.len() + place] =
                f32::from_f64(value).ok_or_else(|| refused_number::<f32>(path, (row, place), value))?;
        }
    }
    let array = Array2::from_shape_vec((file.rows(), columns.len()), array);
    let array = array.map_err(|error| format_error(path, error.to_string()))?;
    Ok((array, columns.iter().map(|&column| all[column].clone()).collect()))
}

fn single(path: &Path, values: &Array2<f64>) -> Result<Array2<f32>> {
    let narrow = |(place, &value): ((usize, usize), &f64)| {
        f32::from_f64(value).ok_or_else(|| refused_number::<f32>(path, place, value))
    };
    let numbers: Vec<f32> = values.indexed_iter().map(narrow).collect::<Result<_>>()?;
    Array2::from_shape_vec(values.dim(), numbers).map_err(|error| format_error(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;
    use crate::data::Sparse;
    use crate::data::compressed::tests::gzip;
    use crate::data::write_npy;

    fn read(file: &str, bytes: &[u8]) -> Result<FeatureFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        read_features(&path)
    }

    #[test]
    fn the_ending_decides() {
        let table = read("a.csv.gz", &gzip(b"a,b\n1,2\n")).unwrap();
        assert_eq!(table.features, Features::Dense(array![[1.0, 2.0]]));
        assert_eq!(table.names.unwrap(), ["a", "b"]);
        for file in ["images-idx2-ubyte", "images.IDX", "images.idx2-ubyte.gz"] {
            let images = read(file, &[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255]).unwrap();
            assert_eq!(images.features, Features::Dense(array![[0.0, 255.0]]));
        }
        let sparse = Features::Sparse(Sparse::new(2, vec![0, 1], vec![1], vec![0.5]).unwrap());
        assert_eq!(read("a.svm", b"1 2:0.5\n").unwrap().features, sparse);
        assert_eq!(read("a.txt", b"1 2 2\n1 1:0.5\n").unwrap().features, sparse);
    }

    #[test]
    fn faults_name_the_file() {
        let message = |file: &str, text: &str| read(file, text.as_bytes()).unwrap_err().to_string();
        assert!(message("a.doc", "").contains("a.doc: features must be .npy"));
        assert!(
            message("a.svm", "1\n")
                .contains("a.svm: must hold at least one sample and one feature, but is 1 × 0")
        );
        assert!(message("a.csv", "1,2\n3,1e39\n").contains("32-bit floats, but row 2, column 2 is 1000"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &array![[1.0, f64::INFINITY]]).unwrap();
        let infinite = read_features(&path).unwrap_err().to_string();
        assert!(
            infinite
                .ends_with("a.npy: features must be finite, but row 1, column 2 is inf (counting from 1)")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), ending in "txt|csv|npy|npz|mat|idx") {
            let _ = read(&format!("a.{ending}"), &bytes);
        }
    }
}
