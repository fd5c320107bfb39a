//! The header of this crate's safetensors files: kind, format version, checksum and a JSON document.
//!
//! Version 3 is version 2 with a hidden layer, so that programs that know none refuse it; files without one are of version 2,
//! with a checksum over everything in them. Version 1, without a checksum, is still read.

use std::path::Path;

use robust_ot::{Error, Result};
use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};

use crate::seal::{UNSEALED, is_sealed};

/// The key of the header in the metadata of safetensors.
pub(super) const KEY: &str = "robust-ot";
/// The format version of files without a hidden layer.
const VERSION: u32 = 2;
/// The format version of files with one.
const WITH_HIDDEN: u32 = 3;
/// The tensor that only files with a hidden layer have.
pub(super) const HIDDEN: &str = "hidden";
/// The format version without a checksum.
const UNCHECKED: u32 = 1;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A trained model.
    Model,
    /// The state of a training run.
    Checkpoint,
    /// The state of a [`Learner`](crate::Learner).
    Learner,
}

impl Kind {
    /// The name in messages.
    ///
    /// ```
    /// assert_eq!(robust_ot_learn::Kind::Checkpoint.name(), "checkpoint");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Checkpoint => "checkpoint",
            Self::Learner => "learner",
        }
    }
}

/// How far the contents of a file were checked when it was read.
///
/// ```
/// use robust_ot_learn::Integrity;
///
/// assert_eq!(Integrity::Checked.note(), None);
/// assert!(Integrity::NoChecksum.note().unwrap().contains("no checksum"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// Everything in the file agrees with its checksum.
    Checked,
    /// The file is of format version 1, which has no checksum, so damage may go unnoticed.
    NoChecksum,
}

impl Integrity {
    /// What a reader should be told, if anything.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Checked => None,
            Self::NoChecksum => Some(
                "has no checksum (format version 1), so damage to it may go unnoticed; saving it again adds one",
            ),
        }
    }
}

/// The part of the header that all versions have.
#[derive(Deserialize)]
struct AnyHeader {
    version: u32,
}

/// The header, with the checksum first; see `seal.rs`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    #[serde(default)]
    checksum: Option<String>,
    pub(super) kind: Kind,
    version: u32,
    pub(super) document: serde_json::Value,
}

/// The header of a new file, not sealed yet.
pub(super) fn new_header(
    kind: Kind,
    document: serde_json::Value,
    has_hidden: bool,
) -> serde_json::Result<String> {
    let checksum = Some(UNSEALED.to_owned());
    let version = if has_hidden { WITH_HIDDEN } else { VERSION };
    serde_json::to_string(&Header { checksum, kind, version, document })
}

/// The kind of a file, if its bytes agree with its checksum.
pub(super) fn kind_of(place: &Path, bytes: &[u8]) -> Result<Kind> {
    Ok(checked_header(place, "model, checkpoint or learner", bytes)?.0.kind)
}

/// Parses the header and compares the checksum.
pub(super) fn checked_header(place: &Path, wanted: &str, bytes: &[u8]) -> Result<(Header, Integrity)> {
    let refuse = |found: String| refusal(place, wanted, &found);
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| refuse(damaged(&error)))?;
    let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let text = text.ok_or_else(|| refuse("is a safetensors file without robust-ot metadata".into()))?;
    let invalid = |error: serde_json::Error| refuse(format!("its header is invalid ({error})"));
    let AnyHeader { version } = serde_json::from_str(text).map_err(invalid)?;
    if !(UNCHECKED..=WITH_HIDDEN).contains(&version) {
        return Err(refuse(format!(
            "is of format version {version}, and this program reads versions {UNCHECKED} to {WITH_HIDDEN}"
        )));
    }
    let has_hidden = metadata.info(HIDDEN).is_some();
    if has_hidden != (version == WITH_HIDDEN) {
        let (has, found) = if has_hidden { ("no", "one") } else { ("a", "none") };
        return Err(refuse(format!(
            "is of format version {version}, which has {has} hidden layer, and has {found}"
        )));
    }
    let header: Header = serde_json::from_str(text).map_err(invalid)?;
    let integrity = match (version, &header.checksum) {
        (UNCHECKED, None) => Integrity::NoChecksum,
        (UNCHECKED, Some(_)) => {
            return Err(refuse("is of format version 1, which has no checksum, with a checksum".into()));
        }
        (_, Some(told)) if is_sealed(bytes, told) => Integrity::Checked,
        (_, Some(_)) => {
            return Err(refuse("is damaged: its checksum is not that of its contents".into()));
        }
        (_, None) => {
            return Err(refuse(format!("has no checksum, which format version {version} must have")));
        }
    };
    Ok((header, integrity))
}

pub(super) fn refusal(place: &Path, wanted: &str, found: &str) -> Error {
    let message = format!("must be a robust-ot {wanted}, but {found}");
    Error::Format { place: place.display().to_string(), message }
}

pub(super) fn damaged(error: &safetensors::SafeTensorError) -> String {
    format!("is not a safetensors file, or is cut short ({error})")
}
