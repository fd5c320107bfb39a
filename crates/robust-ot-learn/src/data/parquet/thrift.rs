//! Thrift's compact protocol, in which Parquet describes itself.

/// Structures within structures; Parquet has fewer.
const DEEPEST: usize = 32;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    const TRUE: Self = Self(1);
    const FALSE: Self = Self(2);
}

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    depth: usize,
}

/// Bytes that end early or make no sense.
pub(super) const DAMAGED: &str = "its description must be whole, but is damaged";

pub(super) type Read<T> = std::result::Result<T, String>;

fn damaged<T>() -> Read<T> {
    Err(DAMAGED.into())
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// What is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else { return damaged() };
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        damaged()
    }

    /// A signed number: 0, −1, 1, −2, … are 0, 1, 2, 3, …
    pub(super) fn integer(&mut self) -> Read<i64> {
        let coded = self.varint()?;
        Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    /// A number of bytes, values or rows.
    pub(super) fn count(&mut self) -> Read<usize> {
        usize::try_from(self.integer()?).or_else(|_| damaged())
    }

    pub(super) fn binary(&mut self) -> Read<&'a [u8]> {
        let length = usize::try_from(self.varint()?).or_else(|_| damaged())?;
        self.take(length)
    }

    pub(super) fn string(&mut self) -> Read<String> {
        String::from_utf8(self.binary()?.to_vec()).or_else(|_| damaged())
    }

    /// Reads a structure. `visit` reads the fields that it knows and returns whether it did; the others are skipped.
    pub(super) fn fields(&mut self, visit: &mut dyn FnMut(i64, Kind, &mut Self) -> Read<bool>) -> Read<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return damaged();
        }
        let mut id = 0;
        loop {
            let head = self.byte()?;
            let kind = Kind(head & 0x0f);
            if kind.0 == 0 {
                self.depth -= 1;
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.integer()?,
                step => id + i64::from(step),
            };
            if !(0..=i64::from(i16::MAX)).contains(&id) {
                return damaged();
            }
            if !visit(id, kind, self)? {
                self.skip(kind)?;
            }
        }
    }

    /// Reads a list of structures.
    pub(super) fn structures<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let (kind, count) = self.list_head()?;
        if kind.0 != 12 {
            return damaged();
        }
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(read(self)?);
        }
        Ok(all)
    }

    /// Each entry takes at least a byte, so lists are no longer than their bytes.
    fn list_head(&mut self) -> Read<(Kind, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).or_else(|_| damaged())?,
            few => usize::from(few),
        };
        if count > self.bytes.len() {
            return damaged();
        }
        Ok((Kind(head & 0x0f), count))
    }

    fn skip(&mut self, kind: Kind) -> Read<()> {
        match kind.0 {
            1 | 2 => Ok(()),
            3 => self.byte().map(|_| ()),
            4..=6 => self.varint().map(|_| ()),
            7 => self.take(8).map(|_| ()),
            8 => self.binary().map(|_| ()),
            9 | 10 => {
                let (kind, count) = self.list_head()?;
                (0..count).try_for_each(|_| self.skip_entry(kind))
            }
            11 => {
                let count = usize::try_from(self.varint()?).or_else(|_| damaged())?;
                if count > self.bytes.len() {
                    return damaged();
                }
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_entry(Kind(kinds >> 4))?;
                    self.skip_entry(Kind(kinds & 0x0f))
                })
            }
            12 => self.fields(&mut |_, _, _| Ok(false)),
            _ => damaged(),
        }
    }

    /// In lists, a truth value is a byte.
    fn skip_entry(&mut self, kind: Kind) -> Read<()> {
        if matches!(kind, Kind::TRUE | Kind::FALSE) {
            return self.byte().map(|_| ());
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return damaged();
        }
        let skipped = self.skip(kind);
        self.depth -= 1;
        skipped
    }
}

impl Kind {
    /// The truth value that the kind of a field holds.
    pub(super) fn truth(self) -> bool {
        self == Self::TRUE
    }
}
