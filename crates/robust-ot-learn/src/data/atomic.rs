//! Atomic file writes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let folder = folder_of(place);
    let beside = beside(place);
    let done = File::create_new(&beside).and_then(|file| {
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

/// The number of temporary files that this process has named.
static NAMED: AtomicU64 = AtomicU64::new(0);

/// A name that no other writer uses, in this process or another.
fn beside(place: &Path) -> PathBuf {
    let (process, number) = (process::id(), NAMED.fetch_add(1, Ordering::Relaxed));
    folder_of(place).join(format!("{}{process}-{number}{TEMPORARY}", prefix(place)))
}

/// The end of the names of temporary files.
const TEMPORARY: &str = ".tmp";

/// The start of the names of a file's temporary files.
fn prefix(place: &Path) -> String {
    format!(".{}.", place.file_name().unwrap_or_default().to_string_lossy())
}

fn folder_of(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tries to create a temporary file beside a file that is yet to be written, and removes it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use robust_ot_learn::data::try_beside;
///
/// assert!(try_beside(&dir.path().join("a.txt")).is_ok());
/// assert!(try_beside(&dir.path().join("missing/a.txt")).is_err());
/// assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
/// ```
///
/// # Errors
/// When [`write_atomic`] could not create its file either.
pub fn try_beside(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    File::create_new(&beside)?;
    fs::remove_file(&beside)
}

/// Removes the temporary files that killed writers of a file left. No other process may be writing the file.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use robust_ot_learn::data::remove_leftovers;
///
/// std::fs::write(dir.path().join(".a.txt.17-0.tmp"), "half").unwrap();
/// remove_leftovers(&dir.path().join("a.txt")).unwrap();
/// assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
/// ```
///
/// # Errors
/// When the folder cannot be read or a file cannot be removed.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder_of(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let left = name.to_str().and_then(|name| name.strip_prefix(&prefix(path))?.strip_suffix(TEMPORARY));
        // What remains is the number of a process and of a file.
        if left.is_some_and(|left| left.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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

    #[test]
    fn writers_of_one_file_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::thread::scope(|scope| {
            for letter in ["a", "b", "c", "d"] {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        write_atomic(path, |out| out.write_all(letter.repeat(20_000).as_bytes())).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() == 20_000 && text.bytes().all(|byte| byte == text.as_bytes()[0]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_of_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.txt", ".a.txt.tmp", ".a.txt.12-3.tmp", ".a.txt.b.1-1.tmp", ".b.txt.1-2.tmp"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        remove_leftovers(&dir.path().join("a.txt")).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".a.txt.b.1-1.tmp", ".a.txt.tmp", ".b.txt.1-2.tmp", "a.txt"]);
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
