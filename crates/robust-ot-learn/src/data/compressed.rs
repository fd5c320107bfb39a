//! Files that may be gzipped, recognized by their first bytes since extensions are unreliable.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use robust_ot::Result;

use super::room::{Room, read_line};
use super::{io_error, line_error, open};

const GZIP: &[u8] = &[0x1f, 0x8b];
const BUFFER: usize = 1 << 18;

/// Opens a file and decompresses it if it is gzipped.
pub(super) fn open_plain_or_gzip(path: &Path) -> Result<Box<dyn BufRead>> {
    let mut reader = BufReader::with_capacity(BUFFER, open(path)?);
    let start = reader.fill_buf().map_err(|source| io_error(path, source))?;
    if start.starts_with(GZIP) {
        Ok(Box::new(BufReader::with_capacity(BUFFER, Gzip(MultiGzDecoder::new(reader)))))
    } else {
        Ok(Box::new(reader))
    }
}

/// Reads until the buffer is full or the reader ends; returns the number of bytes read.
pub(super) fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Calls `each` with the number of each line, from 1, and its text without the line ending; errors are reported for that
/// line.
pub(super) fn read_lines(
    path: &Path,
    room: &mut Room,
    mut each: impl FnMut(usize, &str, &mut Room) -> std::result::Result<(), String>,
) -> Result<()> {
    let mut reader = open_plain_or_gzip(path)?;
    let mut bytes = Vec::new();
    for number in 1.. {
        if !read_line(&mut reader, &mut bytes, room).map_err(|source| io_error(path, source))? {
            break;
        }
        let line = std::str::from_utf8(&bytes).map_err(|error| format!("text must be UTF-8, but {error}"));
        let shown = line.and_then(|line| {
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            each(number, if number == 1 { line.trim_start_matches('\u{feff}') } else { line }, room)
        });
        shown.map_err(|message| line_error(path, number, message))?;
    }
    Ok(())
}

/// Reports what is wrong with a broken stream.
struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            // Not the decoder's kind, so that no reader above mistakes truncation for the end of the file.
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(io::ErrorKind::InvalidData, "the gzip stream must be whole, but is cut short")
            }
            kind => io::Error::new(kind, format!("the gzip stream must be valid, but: {error}")),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    pub(in crate::data) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, bytes).unwrap();
        let mut all = Vec::new();
        open_plain_or_gzip(&path)?.read_to_end(&mut all).map_err(|source| io_error(&path, source))?;
        Ok(all)
    }

    #[test]
    fn the_first_bytes_decide_and_a_cut_stream_is_named() {
        let text: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
        let packed = gzip(&text);
        assert_eq!(read(&text).unwrap(), text);
        assert_eq!(read(&packed).unwrap(), text);
        assert_eq!(read(&[packed.clone(), packed.clone()].concat()).unwrap().len(), 8000);
        assert_eq!(read(b"").unwrap(), b"");
        for cut in [3, packed.len() / 2, packed.len() - 1] {
            let message = read(&packed[..cut]).unwrap_err().to_string();
            assert!(message.contains("/a: the gzip stream must be whole, but is cut short"), "{message}");
        }
        let mut broken = packed;
        let last = broken.len() - 6;
        broken[last] ^= 1;
        assert!(read(&broken).unwrap_err().to_string().contains("the gzip stream must be valid"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
            let start: &[u8] = if magic { &[0x1f, 0x8b, 8] } else { &[] };
            let _ = read(&[start, &bytes].concat());
        }
    }
}
