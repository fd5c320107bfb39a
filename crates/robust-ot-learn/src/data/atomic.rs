//! Atomic file writes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use robust_ot::Result;

use super::io_error;

/// Writes a file atomically: a temporary file beside it is synced to disk and renamed, so that readers see the old file
/// or the new one, never half of one. Links are followed; anything but a plain file, such as a pipe, is written to
/// directly.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("answer.txt");
/// robust_ot_learn::data::write_atomic(&path, |out| out.write_all(b"42\n"))?;
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "42\n");
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be written; an old file is then unchanged.
pub fn write_atomic(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let done = if fs::metadata(&place).is_ok_and(|data| !data.is_file()) {
        File::options().write(true).open(&place).and_then(|file| fill(file, write).map(|_| ()))
    } else {
        write_beside(&place, write)
    };
    done.map_err(|source| io_error(path, source))
}

fn write_beside(place: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    // All attempts use one name, so that the next one overwrites what a crash leaves.
    let beside = folder.join(format!(".{name}.tmp"));
    let done = File::create(&beside).and_then(|file| {
        fill(file, write)?.sync_all()?;
        fs::rename(&beside, place)?;
        // The new name is on disk only once the folder is; where folders cannot be opened, there is nothing to sync.
        File::open(folder).map_or(Ok(()), |folder| folder.sync_all())
    });
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

fn fill(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_atomic(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write_atomic(&path, |out| {
            out.write_all(b"ne")?;
            Err(io::Error::other("no space left"))
        });
        assert!(failed.unwrap_err().to_string().contains("no space left"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target.txt"), dir.path().join("link.txt"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_atomic(&link, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        write_atomic(Path::new("/dev/null"), |out| out.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
