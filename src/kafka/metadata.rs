//! The metadata string of a commit: which records above the committed offset are settled.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::engine::Ahead;

/// Tells our metadata from what other tools write there, and one form of it from the next.
const MARK: &str = "kafka-delay/1:";

/// The metadata that goes with a commit.
pub(super) fn encode(ahead: &Ahead) -> String {
    let mut text = MARK.to_owned();
    STANDARD_NO_PAD.encode_string(ahead.bits(), &mut text);
    text
}

/// What the metadata of a commit of `offset` says; nothing when it is not ours.
pub(super) fn decode(offset: i64, metadata: &[u8]) -> Ahead {
    let bits = metadata
        .strip_prefix(MARK.as_bytes())
        .and_then(|encoded| STANDARD_NO_PAD.decode(encoded).ok());
    bits.map_or_else(Ahead::default, |bits| Ahead::from_bits(offset, &bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::commit::MAX_AHEAD;
    use proptest::prelude::*;

    /// Default of the broker's `offset.metadata.max.bytes`.
    const BROKER_LIMIT: usize = 4_096;

    #[test]
    fn all_that_can_be_told_fits_the_brokers_limit() {
        let ahead = Ahead::new(7, 7..7 + MAX_AHEAD);
        let metadata = encode(&ahead);
        assert!(metadata.len() <= BROKER_LIMIT, "{} bytes", metadata.len());
        assert_eq!(decode(7, metadata.as_bytes()), ahead);
        assert!(decode(7, encode(&Ahead::default()).as_bytes()).is_empty());
    }

    #[test]
    fn what_others_wrote_says_nothing() {
        for metadata in [&b""[..], b"kafka-delay/2:AAAA", b"kafka-delay/1:?", b"\xff\xfe"] {
            assert!(decode(7, metadata).is_empty(), "{metadata:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_metadata_never_panics(
            mut metadata in prop::collection::vec(any::<u8>(), 0..200),
            ours in any::<bool>(),
        ) {
            if ours {
                metadata.splice(0..0, MARK.bytes());
            }
            let _ = decode(7, &metadata).contains(8);
        }
    }
}
