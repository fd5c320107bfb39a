//! Buffers one after another in memory that somebody else allocates.

/// The alignment of buffers, in bytes.
const ALIGNMENT: u64 = 256;

/// Hands out addresses from a first one on.
#[derive(Debug)]
pub(crate) struct Layout {
    first: u64,
    next: u64,
}

impl From<u64> for Layout {
    fn from(first: u64) -> Self {
        Self { first, next: first }
    }
}

impl Layout {
    /// The address of `count` numbers of `bytes` bytes.
    pub(crate) fn take(&mut self, count: usize, bytes: usize) -> u64 {
        let at = self.next.next_multiple_of(ALIGNMENT);
        self.next = at + (count * bytes) as u64;
        at
    }

    /// The bytes handed out so far.
    pub(crate) fn bytes(&self) -> usize {
        (self.next - self.first) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn buffers_are_aligned_and_apart() {
        let mut layout = Layout::from(512);
        let taken: Vec<(u64, u64)> = [(1, 4), (0, 8), (65, 8), (3, 4)]
            .map(|(count, bytes)| (layout.take(count, bytes), (count * bytes) as u64))
            .into();
        for pair in taken.windows(2) {
            assert!(pair[0].0 % 256 == 0 && pair[0].0 + pair[0].1 <= pair[1].0, "{taken:?}");
        }
        assert_eq!(layout.bytes() as u64, taken[3].0 + taken[3].1 - 512);
    }
}
