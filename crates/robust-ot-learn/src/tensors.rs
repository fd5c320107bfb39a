//! The safetensors files of this crate: named arrays and one JSON document that describes them.
//!
//! Files are written atomically and carry a checksum over everything in them. Layouts without one are still read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use robust_ot::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data::{Room, read_bytes, write_atomic};
use crate::file_header::{HIDDEN, Integrity, KEY, Kind, checked_header, damaged, new_header, refusal};
use crate::seal::seal;

/// Bytes of memory that a byte of the header may take while it is parsed.
const HEADER_FACTOR: usize = 16;

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

/// The tensors of a file, which are taken one by one.
#[derive(Debug)]
pub(super) struct Contents {
    tensors: Vec<Tensor>,
    integrity: Integrity,
    place: PathBuf,
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
    let has_hidden = tensors.iter().any(|tensor| tensor.name == HIDDEN);
    let header = new_header(kind, document, has_hidden).map_err(|error| refuse(error.to_string()))?;
    let header = HashMap::from([(KEY.to_owned(), header)]);
    let bytes: Vec<(Dtype, Vec<u8>)> = tensors.iter().map(|tensor| bytes_of(&tensor.numbers)).collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, (dtype, bytes))| {
        Ok((tensor.name.as_str(), TensorView::new(*dtype, tensor.shape.clone(), bytes)?))
    });
    let views = views.collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>();
    let whole = views.and_then(|views| serialize(views, Some(header)));
    let mut whole = whole.map_err(|error| refuse(error.to_string()))?;
    seal(&mut whole);
    Ok(whole)
}

/// Reads a file of the given kind: its document and its tensors.
pub(super) fn read<D: DeserializeOwned>(path: &Path, kind: Kind) -> Result<(D, Contents)> {
    from_bytes(path, kind, &read_whole(path)?)
}

/// The bytes of a file, if there is also room for what they become.
pub(super) fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let mut room = Room::new();
    let bytes = read_bytes(path, &mut room)?;
    let header = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length)).min(bytes.len() as u64);
    // Tensors are copied out of the bytes, and the header becomes tables.
    let parsed = bytes.len() + HEADER_FACTOR * header as usize;
    room.take(parsed).map_err(|message| Error::Format { place: path.display().to_string(), message })?;
    Ok(bytes)
}

/// Parses the bytes of a file; `place` is for error messages.
pub(super) fn from_bytes<D: DeserializeOwned>(
    place: &Path,
    kind: Kind,
    bytes: &[u8],
) -> Result<(D, Contents)> {
    let refuse = |found: String| refusal(place, kind.name(), &found);
    let (header, integrity) = checked_header(place, kind.name(), bytes)?;
    if header.kind != kind {
        return Err(refuse(format!("is a {}", header.kind.name())));
    }
    let document = serde_json::from_value(header.document)
        .map_err(|error| refuse(format!("its description is invalid ({error})")))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| refuse(damaged(&error)))?;
    let tensors = tensors.iter().map(|(name, view)| {
        let numbers =
            numbers_of(&view).ok_or_else(|| refuse(format!("'{name}' is of type {:?}", view.dtype())))?;
        Ok(Tensor { name: name.to_owned(), shape: view.shape().to_vec(), numbers })
    });
    let tensors = tensors.collect::<Result<_>>()?;
    Ok((document, Contents { tensors, integrity, place: place.to_owned() }))
}

impl Contents {
    /// Takes a tensor of single precision that must have this shape.
    pub(super) fn single(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.take(name, shape)? {
            Numbers::Single(numbers) => Ok(numbers),
            Numbers::Double(_) => Err(self.refuse(format!("'{name}' must be f32, but is f64"))),
        }
    }

    /// Takes a tensor of double precision that must have this shape.
    pub(super) fn double(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        match self.take(name, shape)? {
            Numbers::Double(numbers) => Ok(numbers),
            Numbers::Single(_) => Err(self.refuse(format!("'{name}' must be f64, but is f32"))),
        }
    }

    /// The shape of a tensor, if the file has it.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape.as_slice())
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Numbers> {
        let at = self.tensors.iter().position(|tensor| tensor.name == name);
        let at = at.ok_or_else(|| self.refuse(format!("must have a tensor '{name}', but has none")))?;
        let found = &self.tensors[at].shape;
        if found != shape {
            return Err(self.refuse(format!("'{name}' must be {shape:?}, but is {found:?}")));
        }
        Ok(self.tensors.swap_remove(at).numbers)
    }

    /// Refuses tensors that were not taken: otherwise a damaged name would drop a tensor unnoticed.
    pub(super) fn finish(&self) -> Result<Integrity> {
        match self.tensors.first() {
            None => Ok(self.integrity),
            Some(Tensor { name, .. }) => {
                let name = name.escape_debug();
                Err(self.refuse(format!("must have only the tensors of its kind, but also has '{name}'")))
            }
        }
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
#[path = "tensors_tests.rs"]
mod tests;
