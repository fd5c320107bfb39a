//! The safetensors files of this crate: named arrays and one JSON document that describes them.
//!
//! Files are written atomically.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use robust_ot::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::write_atomic;

/// The key of the JSON document in the header.
const KEY: &str = "robust-ot";
/// The version of the file layout.
const VERSION: u32 = 1;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Model,
    Checkpoint,
    Learner,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Checkpoint => "checkpoint",
            Self::Learner => "learner",
        }
    }
}

/// Numbers of one precision.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Numbers {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

/// A named array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Numbers,
}

impl Tensor {
    pub(super) fn single(name: &str, shape: &[usize], numbers: &[f32]) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), numbers: Numbers::Single(numbers.to_vec()) }
    }

    pub(super) fn double(name: &str, shape: &[usize], numbers: &[f64]) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), numbers: Numbers::Double(numbers.to_vec()) }
    }
}

/// The contents of a file.
#[derive(Debug)]
pub(super) struct Contents<D> {
    pub(super) document: D,
    tensors: Vec<Tensor>,
    place: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Header {
    kind: Kind,
    version: u32,
    document: serde_json::Value,
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, kind: Kind, document: &impl Serialize, tensors: &[Tensor]) -> Result<()> {
    let whole = to_bytes(path, kind, document, tensors)?;
    write_atomic(path, |out| out.write_all(&whole))
}

/// The bytes of a file; `place` is for error messages.
pub(super) fn to_bytes(
    place: &Path,
    kind: Kind,
    document: &impl Serialize,
    tensors: &[Tensor],
) -> Result<Vec<u8>> {
    let refuse = |message: String| Error::Format { place: place.display().to_string(), message };
    let document = serde_json::to_value(document).map_err(|error| refuse(error.to_string()))?;
    let header = serde_json::to_string(&Header { kind, version: VERSION, document });
    let header = HashMap::from([(KEY.to_owned(), header.map_err(|error| refuse(error.to_string()))?)]);
    let bytes: Vec<(Dtype, Vec<u8>)> = tensors.iter().map(|tensor| bytes_of(&tensor.numbers)).collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, (dtype, bytes))| {
        Ok((tensor.name.as_str(), TensorView::new(*dtype, tensor.shape.clone(), bytes)?))
    });
    let views = views.collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>();
    views.and_then(|views| serialize(views, Some(header))).map_err(|error| refuse(error.to_string()))
}

/// Reads a file of the given kind.
pub(super) fn read<D: DeserializeOwned>(path: &Path, kind: Kind) -> Result<Contents<D>> {
    let bytes = fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    from_bytes(path, kind, &bytes)
}

/// Parses the bytes of a file; `place` is for error messages.
pub(super) fn from_bytes<D: DeserializeOwned>(place: &Path, kind: Kind, bytes: &[u8]) -> Result<Contents<D>> {
    let refuse = |found: String| Error::Format {
        place: place.display().to_string(),
        message: format!("must be a robust-ot {}, but {found}", kind.name()),
    };
    let damaged = |error: safetensors::SafeTensorError| {
        refuse(format!("is not a safetensors file, or is cut short ({error})"))
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let header = header.ok_or_else(|| refuse("is a safetensors file without robust-ot metadata".into()))?;
    let header: Header =
        serde_json::from_str(header).map_err(|error| refuse(format!("its header is invalid ({error})")))?;
    if header.version != VERSION {
        let version = header.version;
        return Err(refuse(format!(
            "is of format version {version}, and this program reads version {VERSION}"
        )));
    }
    if header.kind != kind {
        return Err(refuse(format!("is a {}", header.kind.name())));
    }
    let document = serde_json::from_value(header.document)
        .map_err(|error| refuse(format!("its description is invalid ({error})")))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let tensors = tensors.iter().map(|(name, view)| {
        let numbers =
            numbers_of(&view).ok_or_else(|| refuse(format!("'{name}' is of type {:?}", view.dtype())))?;
        Ok(Tensor { name: name.to_owned(), shape: view.shape().to_vec(), numbers })
    });
    Ok(Contents { document, tensors: tensors.collect::<Result<_>>()?, place: place.to_owned() })
}

impl<D> Contents<D> {
    /// A tensor of single precision that must have this shape.
    pub(super) fn single(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.find(name, shape)? {
            Numbers::Single(numbers) => Ok(numbers.clone()),
            Numbers::Double(_) => Err(self.refuse(format!("'{name}' must be f32, but is f64"))),
        }
    }

    /// A tensor of double precision that must have this shape.
    pub(super) fn double(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        match self.find(name, shape)? {
            Numbers::Double(numbers) => Ok(numbers.clone()),
            Numbers::Single(_) => Err(self.refuse(format!("'{name}' must be f64, but is f32"))),
        }
    }

    /// The shape of a tensor, if the file has it.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape.as_slice())
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&Numbers> {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name);
        let tensor =
            tensor.ok_or_else(|| self.refuse(format!("must have a tensor '{name}', but has none")))?;
        if tensor.shape != shape {
            return Err(self.refuse(format!("'{name}' must be {shape:?}, but is {:?}", tensor.shape)));
        }
        Ok(&tensor.numbers)
    }

    /// An error about this file.
    pub(super) fn refuse(&self, message: String) -> Error {
        Error::Format { place: self.place.display().to_string(), message }
    }
}

fn bytes_of(numbers: &Numbers) -> (Dtype, Vec<u8>) {
    match numbers {
        Numbers::Single(numbers) => (Dtype::F32, numbers.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Numbers::Double(numbers) => (Dtype::F64, numbers.iter().flat_map(|x| x.to_le_bytes()).collect()),
    }
}

fn numbers_of(view: &TensorView) -> Option<Numbers> {
    let (singles, _) = view.data().as_chunks::<4>();
    let (doubles, _) = view.data().as_chunks::<8>();
    match view.dtype() {
        Dtype::F32 => Some(Numbers::Single(singles.iter().map(|raw| f32::from_le_bytes(*raw)).collect())),
        Dtype::F64 => Some(Numbers::Double(doubles.iter().map(|raw| f64::from_le_bytes(*raw)).collect())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(path: &Path) -> Vec<u8> {
        let tensors =
            [Tensor::single("a", &[1, 2], &[1.5, -0.0]), Tensor::double("b", &[1], &[f64::MIN_POSITIVE])];
        write(path, Kind::Model, &vec![1, 2, 3], &tensors).unwrap();
        fs::read(path).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let bytes = sample(&path);
        assert_eq!(sample(&path), bytes);
        let found: Contents<Vec<i32>> = read(&path, Kind::Model).unwrap();
        assert_eq!(found.document, [1, 2, 3]);
        assert_eq!(found.single("a", &[1, 2]).unwrap()[1].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(found.double("b", &[1]).unwrap(), [f64::MIN_POSITIVE]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        for (refused, why) in [
            (found.single("a", &[2, 1]).map(|_| ()), "must be [2, 1], but is [1, 2]"),
            (found.single("b", &[1]).map(|_| ()), "must be f32"),
            (found.single("c", &[1]).map(|_| ()), "must have a tensor 'c'"),
            (
                read::<Vec<i32>>(&path, Kind::Checkpoint).map(|_| ()),
                "must be a robust-ot checkpoint, but is a model",
            ),
            (read::<String>(&path, Kind::Model).map(|_| ()), "description"),
        ] {
            assert!(refused.unwrap_err().to_string().contains(why), "{why}");
        }
    }

    #[test]
    fn other_files_are_refused_and_other_versions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let bytes = sample(&path);
        let message = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read::<Vec<i32>>(&path, Kind::Model).unwrap_err().to_string()
        };
        assert!(message(b"PK\x03\x04 and so on").contains("not a safetensors file"));
        for cut in [0, 5, 40, bytes.len() - 1] {
            assert!(message(&bytes[..cut]).contains("cut short"), "{cut}");
        }
        let version = b"\\\"version\\\":";
        let at = bytes.windows(version.len()).position(|window| window == version).unwrap() + version.len();
        let mut newer = bytes.clone();
        newer[at] = b'7';
        assert!(message(&newer).contains("version 7, and this program reads version 1"));
        let others =
            serialize([("w", TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap())], None).unwrap();
        assert!(message(&others).contains("without robust-ot metadata"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(at in 0_usize..400, byte in any::<u8>()) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.safetensors");
            let mut bytes = sample(&path);
            let at = at % bytes.len();
            bytes[at] = byte;
            fs::write(&path, bytes).unwrap();
            let _ = read::<Vec<i32>>(&path, Kind::Model);
        }
    }
}
