//! Compression of pages.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::super::room::Room;
use super::thrift::Read;

/// Decompresses a page, whose size its header states.
pub(super) fn decompress(codec: i64, bytes: &[u8], size: usize, room: &mut Room) -> Read<Vec<u8>> {
    let mut page = Vec::new();
    room.grow(&mut page, size)?;
    page.resize(size, 0);
    let damaged = || "its pages must be whole, but one is damaged".to_owned();
    let filled = match codec {
        0 => {
            page.copy_from_slice(bytes.get(..size).filter(|_| bytes.len() == size).ok_or_else(damaged)?);
            size
        }
        1 => {
            let wanted = snap::raw::decompress_len(bytes).map_err(|_| damaged())?;
            if wanted != size {
                return Err(damaged());
            }
            snap::raw::Decoder::new().decompress(bytes, &mut page).map_err(|_| damaged())?
        }
        2 => fill(&mut MultiGzDecoder::new(bytes), &mut page).ok_or_else(damaged)?,
        6 => {
            let mut reader = StreamingDecoder::new(bytes).map_err(|_| damaged())?;
            fill(&mut reader, &mut page).ok_or_else(damaged)?
        }
        _ => {
            let name = match codec {
                3 => "LZO",
                4 => "Brotli",
                5 | 7 => "LZ4",
                _ => "unknown",
            };
            return Err(format!(
                "compression must be none, Snappy, gzip or Zstandard, but is {name}; write the file with one of these"
            ));
        }
    };
    if filled == size { Ok(page) } else { Err(damaged()) }
}

/// Fills the buffer; nothing if the reader fails or has more than that.
fn fill(reader: &mut dyn std::io::Read, buffer: &mut [u8]) -> Option<usize> {
    reader.read_exact(buffer).ok()?;
    let more = reader.take(1).read_to_end(&mut Vec::new()).ok()?;
    (more == 0).then_some(buffer.len())
}
