//! Ways to damage a file.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Words that headers and texts misuse.
const WORDS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"1e308",
    b"1e999",
    b"nan",
    b"inf",
    b"4294967295",
    b"4294967296",
    b"9007199254740993",
    b"18446744073709551615",
    b"1000000000000",
    b",",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\"",
    b":",
    b"#",
    b"_",
    b"\xef\xbb\xbf",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
];
/// The longest input.
const LONGEST: usize = 1 << 16;

/// A copy with one to eight damages.
pub fn damaged(bytes: &[u8], corpus: &[(&'static str, Vec<u8>)], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut broken = bytes.to_vec();
    for _ in 0..1_u32 << random.random_range(0..4) {
        damage(&mut broken, corpus, random);
    }
    broken.truncate(LONGEST);
    broken
}

fn damage(bytes: &mut Vec<u8>, corpus: &[(&'static str, Vec<u8>)], random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        bytes.push(random.random());
    }
    let at = random.random_range(0..bytes.len());
    let end = (at + random.random_range(1..=16)).min(bytes.len());
    match random.random_range(0..10) {
        0..=1 => bytes[at] ^= 1 << random.random_range(0..8),
        2 => bytes[at] = random.random(),
        3 => {
            let other = random.random_range(0..bytes.len());
            bytes.swap(at, other);
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let piece = bytes[at..end].to_vec();
            let piece = piece.repeat(random.random_range(1..20));
            bytes.splice(at..at, piece);
        }
        7 => {
            let word = WORDS[random.random_range(0..WORDS.len())];
            bytes.splice(at..at, word.iter().copied());
        }
        8 => {
            // A number in text becomes another word.
            let digits = bytes[at..].iter().position(u8::is_ascii_digit).map_or(at, |ahead| at + ahead);
            let end = bytes[digits..].iter().position(|byte| !byte.is_ascii_digit());
            let end = end.map_or(bytes.len(), |length| digits + length);
            let word = WORDS[random.random_range(0..WORDS.len())];
            bytes.splice(digits..end, word.iter().copied());
        }
        _ => {
            // The rest of another file.
            let Some((_, other)) = corpus.choose(random) else { return };
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}
