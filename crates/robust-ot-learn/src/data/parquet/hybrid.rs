//! Small numbers, as runs of one number or packed in bits: levels, indices of a dictionary, truth values.

use super::super::room::Room;
use super::thrift::{Read, Thrift};

/// Reads `count` numbers of the given width in bits, at most 32.
pub(super) fn read(bytes: &[u8], width: u32, count: usize, room: &mut Room) -> Read<Vec<u32>> {
    if width > 32 {
        return Err(damaged());
    }
    let (mut found, mut thrift) = (Vec::new(), Thrift::new(bytes));
    while found.len() < count {
        let head = thrift.varint().map_err(|_| damaged())?;
        let left = count - found.len();
        if head & 1 == 0 {
            let mut run = [0; 4];
            for byte in run.iter_mut().take(width.div_ceil(8) as usize) {
                *byte = thrift.byte().map_err(|_| damaged())?;
            }
            let length = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            if length == 0 {
                return Err(damaged());
            }
            room.grow(&mut found, length)?;
            found.resize(found.len() + length, u32::from_le_bytes(run));
            continue;
        }
        // Eight numbers take as many bytes as each has bits; the last ones may lack what nobody needs.
        let groups = usize::try_from(head >> 1).map_err(|_| damaged())?;
        let all = thrift.rest();
        let packed = groups.saturating_mul(width as usize).min(all.len());
        let there = if width == 0 { usize::MAX } else { packed * 8 / width as usize };
        let taken = groups.saturating_mul(8).min(there).min(left);
        if taken == 0 {
            return Err(damaged());
        }
        room.grow(&mut found, taken)?;
        found.extend((0..taken).map(|at| bits(all, at * width as usize, width) as u32));
        thrift = Thrift::new(&all[packed..]);
    }
    Ok(found)
}

/// The number of `width` bits that begins at a bit, the lowest first; its last byte must be there.
pub(super) fn bits(bytes: &[u8], from: usize, width: u32) -> u64 {
    let (first, shift) = (from / 8, from % 8);
    let mut window = [0; 16];
    let length = (shift + width as usize).div_ceil(8);
    window[..length].copy_from_slice(&bytes[first..first + length]);
    let number = (u128::from_le_bytes(window) >> shift) as u64;
    if width >= 64 { number } else { number & ((1 << width) - 1) }
}

pub(super) fn damaged() -> String {
    "its values must be whole, but are damaged".into()
}
