//! What is committed for a partition: one offset, and which records above it are settled already.
//!
//! A lane settles records behind one that waits for its destination. What it settled there travels
//! with the commit, so that the partition's next owner passes over it instead of forwarding it
//! again.

/// Offsets above the committed one that can be told, a limit of the commit's metadata (4 096 bytes
/// at the broker, `offset.metadata.max.bytes`; one bit an offset, in base 64).
pub const MAX_AHEAD: i64 = 24_000;

/// What is to be committed for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Assignment of that partition.
    pub epoch: u32,
    /// All records below are settled.
    pub offset: i64,
    /// Settled records above.
    pub ahead: Ahead,
    /// The lane's count of changes that this commit covers.
    pub(super) changes: u64,
}

/// Settled offsets above a committed one, as bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ahead {
    base: i64,
    /// Bit `i % 8` of byte `i / 8` stands for offset `base + i`. No zero byte at the end.
    bits: Vec<u8>,
}

impl Ahead {
    /// The offsets of `settled` that lie less than [`MAX_AHEAD`] above `base`, the committed one.
    pub fn new(base: i64, settled: impl Iterator<Item = i64>) -> Self {
        let mut bits = Vec::new();
        for offset in settled {
            let Some((byte, bit)) = place(base, offset) else { continue };
            if bits.len() <= byte {
                bits.resize(byte + 1, 0);
            }
            bits[byte] |= bit;
        }
        Self { base, bits }
    }

    /// As [`Self::bits`] gave them, for a commit of `base`.
    pub fn from_bits(base: i64, bits: &[u8]) -> Self {
        let (mut bits, limit) = (bits.to_vec(), usize::try_from(MAX_AHEAD / 8).unwrap_or(0));
        bits.truncate(limit);
        Self { base, bits }
    }

    /// The bits, lowest offset first.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Whether the record at `offset` is settled.
    pub fn contains(&self, offset: i64) -> bool {
        place(self.base, offset)
            .is_some_and(|(byte, bit)| self.bits.get(byte).is_some_and(|bits| bits & bit != 0))
    }

    /// All of them, in order.
    pub fn offsets(&self) -> impl Iterator<Item = i64> + '_ {
        let all =
            (0_i64..).zip(self.bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1)));
        all.filter(|(_, bit)| *bit == 1).map(|(index, _)| self.base + index)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
}

/// Index of the byte, and the bit in it.
fn place(base: i64, offset: i64) -> Option<(usize, u8)> {
    let distance = offset.checked_sub(base).filter(|distance| (0..MAX_AHEAD).contains(distance))?;
    Some((usize::try_from(distance / 8).ok()?, 1 << (distance % 8)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_too_far_ahead_is_left_out() {
        let ahead = Ahead::new(100, [99, 100, 100 + MAX_AHEAD - 1, 100 + MAX_AHEAD].into_iter());
        assert_eq!(ahead.offsets().collect::<Vec<_>>(), [100, 100 + MAX_AHEAD - 1]);
        assert!(!ahead.contains(99) && !ahead.contains(i64::MAX) && !ahead.contains(i64::MIN));
        assert_eq!(ahead.bits().len(), 3_000);
    }

    proptest! {
        #[test]
        fn offsets_survive_the_way_through_bits(
            base in 0..i64::MAX / 2,
            distances in prop::collection::btree_set(0..MAX_AHEAD, 0..50),
        ) {
            let offsets: BTreeSet<i64> = distances.iter().map(|distance| base + distance).collect();
            let ahead = Ahead::new(base, offsets.iter().copied());
            let back = Ahead::from_bits(base, ahead.bits());
            prop_assert_eq!(back.offsets().collect::<BTreeSet<i64>>(), offsets.clone());
            prop_assert!(offsets.iter().all(|offset| back.contains(*offset)));
            prop_assert_eq!(&back, &ahead);
        }

        #[test]
        fn arbitrary_bits_never_panic(
            base in any::<i64>(),
            bits in prop::collection::vec(any::<u8>(), 0..5_000),
        ) {
            let ahead = Ahead::from_bits(base.min(i64::MAX - MAX_AHEAD), &bits);
            prop_assert!(ahead.offsets().all(|offset| ahead.contains(offset)));
        }
    }
}
