//! Integers as differences in blocks, and byte strings whose lengths and common beginnings are such integers.

use super::super::room::Room;
use super::hybrid::{bits, damaged};
use super::thrift::{Read, Thrift};

/// Reads integers; returns them with the bytes after them.
pub(super) fn integers<'a>(bytes: &'a [u8], room: &mut Room) -> Read<(Vec<i64>, &'a [u8])> {
    let mut thrift = Thrift::new(bytes);
    let mut head =
        || thrift.varint().ok().and_then(|number| usize::try_from(number).ok()).ok_or_else(damaged);
    let (block, parts, count) = (head()?, head()?, head()?);
    let mut value = thrift.integer().map_err(|_| damaged())?;
    if parts == 0 || block % parts != 0 || block / parts == 0 || (block / parts) % 8 != 0 {
        return Err(damaged());
    }
    let each = block / parts;
    let mut found = Vec::new();
    if count > 0 {
        room.push(&mut found, value)?;
    }
    let mut rest = thrift.rest();
    while found.len() < count {
        let mut thrift = Thrift::new(rest);
        let least = thrift.integer().map_err(|_| damaged())?;
        let (widths, mut packed) = thrift.rest().split_at_checked(parts).ok_or_else(damaged)?;
        for &width in widths {
            // Parts after the last value have a width, but no bytes.
            if found.len() == count {
                break;
            }
            let length = each / 8 * usize::from(width);
            if width > 64 || length > packed.len() {
                return Err(damaged());
            }
            let taken = each.min(count - found.len());
            room.grow(&mut found, taken)?;
            for at in 0..taken {
                let difference = bits(packed, at * usize::from(width), u32::from(width)) as i64;
                value = value.wrapping_add(least).wrapping_add(difference);
                found.push(value);
            }
            packed = &packed[length..];
        }
        rest = packed;
    }
    Ok((found, rest))
}

/// Reads byte strings after their lengths.
pub(super) fn strings<'a>(bytes: &'a [u8], room: &mut Room) -> Read<Vec<&'a [u8]>> {
    let (lengths, mut rest) = integers(bytes, room)?;
    let mut found = Vec::new();
    for length in lengths {
        let (string, others) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or_else(damaged)?;
        room.push(&mut found, string)?;
        rest = others;
    }
    Ok(found)
}

/// Reads byte strings that begin like the one before them.
pub(super) fn continued(bytes: &[u8], room: &mut Room) -> Read<Vec<Vec<u8>>> {
    let (kept, rest) = integers(bytes, room)?;
    let ends = strings(rest, room)?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    if kept.len() != ends.len() {
        return Err(damaged());
    }
    for (kept, end) in kept.into_iter().zip(ends) {
        let before = found.last().map_or(&[][..], Vec::as_slice);
        let kept = usize::try_from(kept).ok().and_then(|kept| before.get(..kept)).ok_or_else(damaged)?;
        room.take(kept.len() + end.len())?;
        let whole = [kept, end].concat();
        room.push(&mut found, whole)?;
    }
    Ok(found)
}
