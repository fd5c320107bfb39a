//! The memory that a reader may take.
//!
//! Headers are not believed and compressed files may be small, so readers ask for room before their lists grow.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::rc::Rc;

use robust_ot::Result;

use super::compressed::fill;
use super::{format_error, io_error, open};
use crate::memory::Memory;

/// Lines may take this fraction of the room: each byte may become a field with its bounds, in a list that doubles.
const LINE_SHARE: usize = 32;

thread_local! {
    static LIMIT: Cell<Option<Memory>> = const { Cell::new(None) };
}

/// Calls `read` with a limit on the memory of each reader that it calls, on this thread; without one, a reader may take
/// the free memory.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use robust_ot_learn::Memory;
/// use robust_ot_learn::data::{read_table, within};
///
/// let path = dir.path().join("cloud.csv");
/// std::fs::write(&path, "1,2\n".repeat(5000)).unwrap();
/// let refused = within(Memory(100_000), || read_table(&path)).unwrap_err().to_string();
/// assert!(refused.contains("cloud.csv: must be read within 100 kB of memory, but takes at least 197 kB"), "{refused}");
/// assert_eq!(within(Memory(1_000_000), || read_table(&path))?.values.nrows(), 5000);
/// # Ok::<(), robust_ot::Error>(())
/// ```
pub fn within<T>(limit: Memory, read: impl FnOnce() -> T) -> T {
    let outer = LIMIT.replace(Some(limit));
    let found = read();
    LIMIT.set(outer);
    found
}

/// The memory that a reader holds, and the most that it may hold.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    limit: usize,
    taken: usize,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { limit: LIMIT.get().unwrap_or_else(Memory::free).0, taken: 0 }
    }

    /// Takes room for memory that is about to be allocated.
    pub(crate) fn take(&mut self, bytes: usize) -> std::result::Result<(), String> {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.limit {
            return Err(self.refusal(taken));
        }
        self.taken = taken;
        Ok(())
    }

    /// Grows a list for this many more entries. While it is copied, the old list is there as well.
    pub(super) fn grow<T>(&mut self, list: &mut Vec<T>, more: usize) -> std::result::Result<(), String> {
        let needed = list.len().saturating_add(more);
        if needed <= list.capacity() {
            return Ok(());
        }
        let capacity = needed.max(list.capacity().saturating_mul(2));
        let bytes = |entries: usize| entries.saturating_mul(size_of::<T>());
        let whole = self.taken.saturating_add(bytes(capacity));
        if whole > self.limit {
            return Err(self.refusal(whole));
        }
        self.taken = whole - bytes(list.capacity());
        list.try_reserve_exact(capacity - list.len()).map_err(|_| self.refusal(whole))
    }

    /// Appends an entry.
    pub(super) fn push<T>(&mut self, list: &mut Vec<T>, entry: T) -> std::result::Result<(), String> {
        self.grow(list, 1)?;
        list.push(entry);
        Ok(())
    }

    /// The most bytes that a line may have.
    pub(super) fn line_limit(&self) -> usize {
        self.limit / LINE_SHARE
    }

    fn refusal(&self, needed: usize) -> String {
        let (limit, needed) = (Memory(self.limit), Memory(needed));
        format!("must be read within {limit} of memory, but takes at least {needed}")
    }
}

/// The error for a line that is too long.
pub(super) fn long_line(limit: usize) -> String {
    let limit = Memory(limit);
    format!("a line must stay within {limit}, 1/{LINE_SHARE} of the memory for reading, but is longer")
}

/// Reads a line with its ending into `bytes`; false at the end.
pub(super) fn read_line(reader: &mut dyn BufRead, bytes: &mut Vec<u8>, room: &Room) -> io::Result<bool> {
    bytes.clear();
    let limit = room.line_limit();
    let length = reader.take(limit as u64 + 1).read_until(b'\n', bytes)?;
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, long_line(limit)));
    }
    Ok(length > 0)
}

/// Reads a file whole, as it is.
pub(crate) fn read_bytes(path: &Path, room: &mut Room) -> Result<Vec<u8>> {
    let full = |message| format_error(path, message);
    let mut file = open(path)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    let length = file.metadata().map_or(0, |data| data.len());
    room.grow(&mut bytes, usize::try_from(length).unwrap_or(usize::MAX)).map_err(full)?;
    loop {
        let there = fill(&mut file, &mut piece).map_err(|source| io_error(path, source))?;
        room.grow(&mut bytes, there).map_err(full)?;
        bytes.extend_from_slice(&piece[..there]);
        if there < piece.len() {
            return Ok(bytes);
        }
    }
}

/// Reads a text whole, which must not be compressed.
pub(super) fn read_text(path: &Path, room: &mut Room) -> Result<String> {
    let text = String::from_utf8(read_bytes(path, room)?);
    text.map_err(|error| format_error(path, format!("text must be UTF-8, but {error}")))
}

/// A reader that fails when more than a limit is read between two resets of the count.
pub(super) struct Metered<R> {
    reader: R,
    count: Rc<Cell<usize>>,
    limit: usize,
}

impl<R> Metered<R> {
    /// The reader, and the count that starts at zero.
    pub(super) fn new(reader: R, limit: usize) -> (Self, Rc<Cell<usize>>) {
        let count = Rc::new(Cell::new(0));
        (Self { reader, count: Rc::clone(&count), limit }, count)
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.count.get() > self.limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, long_line(self.limit)));
        }
        let there = self.reader.read(buffer)?;
        self.count.set(self.count.get() + there);
        Ok(there)
    }
}
