//! The checksum of a file: SHA-256 over all its bytes, with zeros in place of the checksum's own digits.
//!
//! The header of a file names its checksum first, so the first place that looks like one is its own.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// The digits of a checksum that has yet to be computed.
pub(super) const UNSEALED: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// What precedes the digits: a key of JSON within a string of JSON.
const BEFORE: &[u8] = br#"\"checksum\":\""#;

/// The SHA-256 of some bytes, in hexadecimal digits.
///
/// ```
/// let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// assert_eq!(robust_ot_learn::checksum(b"abc"), known);
/// ```
pub fn checksum(bytes: &[u8]) -> String {
    digits(Sha256::new_with_prefix(bytes))
}

/// Puts the checksum in its place.
pub(super) fn seal(bytes: &mut [u8]) {
    let place = place(bytes).expect("every header that is written has a checksum");
    let found = checksum_around(bytes, place.clone());
    bytes[place].copy_from_slice(found.as_bytes());
}

/// Whether these digits, which the header told, are the checksum of the bytes.
pub(super) fn is_sealed(bytes: &[u8], told: &str) -> bool {
    place(bytes).is_some_and(|place| checksum_around(bytes, place) == told)
}

fn checksum_around(bytes: &[u8], place: Range<usize>) -> String {
    let start = Sha256::new_with_prefix(&bytes[..place.start]);
    digits(start.chain_update(UNSEALED).chain_update(&bytes[place.end..]))
}

fn place(bytes: &[u8]) -> Option<Range<usize>> {
    let at = bytes.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let place = at..at + UNSEALED.len();
    (place.end <= bytes.len()).then_some(place)
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_covers_every_byte_but_its_own_digits() {
        let mut bytes = [b"start ".as_slice(), BEFORE, UNSEALED.as_bytes(), b" end"].concat();
        seal(&mut bytes);
        let place = place(&bytes).unwrap();
        let told = String::from_utf8(bytes[place.clone()].to_vec()).unwrap();
        assert_ne!(told, UNSEALED);
        assert!(is_sealed(&bytes, &told));
        for at in (0..bytes.len()).filter(|at| !place.contains(at)) {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(!is_sealed(&broken, &told), "{at}");
        }
        assert!(!is_sealed(&bytes, UNSEALED) && !is_sealed(&bytes[..place.end - 1], &told));
    }
}
