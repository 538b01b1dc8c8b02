//! The control headers of a record: where it goes, with which key, to which partition.
//!
//! Wire contract: `origin_topic` is required; `origin_key` replaces the key (a null value makes it
//! null); `origin_partition` is an ASCII decimal. Of several headers of one name the last counts,
//! as with `lastHeader` of the Java client.

use super::destination::{MAX_TOPIC_NAME_BYTES, is_legal_topic_name};
use super::record::Record;
use super::reject::{RejectReason, Rejection};

/// Header that names the destination topic.
pub const ORIGIN_TOPIC: &str = "origin_topic";
/// Header whose value becomes the forwarded key.
pub const ORIGIN_KEY: &str = "origin_key";
/// Header that names the destination partition.
pub const ORIGIN_PARTITION: &str = "origin_partition";
/// All control headers.
pub const CONTROL_HEADERS: [&str; 3] = [ORIGIN_TOPIC, ORIGIN_KEY, ORIGIN_PARTITION];

/// Where the key of the forwarded record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The record's own key.
    Record,
    /// The value of the last `origin_key` header; a null value makes a null key.
    Header,
}

/// The checked control headers of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// A legal topic name; not yet checked against the allow and deny lists.
    pub topic: String,
    /// Where the forwarded key comes from.
    pub key: KeySource,
    /// The partition asked for; `None` lets the key decide.
    pub partition: Option<i32>,
}

impl Envelope {
    /// Reads the control headers of `record`.
    pub fn parse(record: &impl Record) -> Result<Self, Rejection> {
        let mut topic: Option<Result<String, Rejection>> = None;
        let mut key = KeySource::Record;
        let mut partition: Option<Result<i32, Rejection>> = None;
        record.visit_headers(&mut |name, value| {
            if name == ORIGIN_TOPIC.as_bytes() {
                topic = Some(parse_topic(value));
            } else if name == ORIGIN_KEY.as_bytes() {
                key = KeySource::Header;
            } else if name == ORIGIN_PARTITION.as_bytes() {
                partition = Some(parse_partition(value));
            }
        });
        let missing = || {
            let detail = "the record has no origin_topic header: set it to the destination topic";
            Rejection::new(RejectReason::MissingOriginTopic, detail)
        };
        let topic = topic.ok_or_else(missing)??;
        Ok(Self { topic, key, partition: partition.transpose()? })
    }
}

fn parse_topic(value: Option<&[u8]>) -> Result<String, Rejection> {
    let invalid = |detail: String| Err(Rejection::new(RejectReason::InvalidOriginTopic, detail));
    let Some(value) = value else {
        return invalid("the value of the origin_topic header is null".to_owned());
    };
    match std::str::from_utf8(value) {
        Ok(name) if is_legal_topic_name(name) => Ok(name.to_owned()),
        Ok(_) | Err(_) => invalid(format!(
            "origin_topic `{}` is no topic name: 1 to {MAX_TOPIC_NAME_BYTES} of a-z A-Z 0-9 . _ -",
            printable(value)
        )),
    }
}

fn parse_partition(value: Option<&[u8]>) -> Result<i32, Rejection> {
    let invalid = |detail: String| Err(Rejection::new(RejectReason::InvalidPartition, detail));
    let Some(value) = value else {
        return invalid("the value of the origin_partition header is null".to_owned());
    };
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits);
    match number.and_then(|number| number.parse().ok()) {
        Some(partition) => Ok(partition),
        None => invalid(format!(
            "origin_partition `{}` is no partition number in ASCII decimals",
            printable(value)
        )),
    }
}

/// At most 80 characters of attacker-controlled bytes, safe for logs and headers.
fn printable(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 64;
    let mut text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string();
    text.truncate(80);
    if bytes.len() > SHOWN_BYTES {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::TestRecord;
    use proptest::prelude::*;

    type Headers<'a> = &'a [(&'a [u8], Option<&'a [u8]>)];

    fn parse(headers: Headers<'_>) -> Result<Envelope, RejectReason> {
        let mut record = TestRecord::at(0, Some(1));
        record.headers = headers
            .iter()
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        Envelope::parse(&record).map_err(|rejection| rejection.reason)
    }

    #[test]
    fn the_last_header_of_a_name_counts() {
        let envelope = parse(&[
            (b"origin_topic", Some(b"first")),
            (b"origin_partition", Some(b"x")),
            (b"\xff\xfe", Some(b"noise")),
            (b"origin_topic", Some(b"orders")),
            (b"origin_partition", Some(b"007")),
            (b"origin_key", None),
        ]);
        let expected =
            Envelope { topic: "orders".into(), key: KeySource::Header, partition: Some(7) };
        assert_eq!(envelope, Ok(expected));
        let only_topic = parse(&[(b"origin_topic", Some(b"orders"))]).unwrap();
        assert_eq!((only_topic.key, only_topic.partition), (KeySource::Record, None));
    }

    // R67: a header that is silently ignored sends a record nobody asked for.
    #[test]
    fn every_fault_has_its_reason() {
        let long = [b'a'; 250];
        let cases: [(Headers<'_>, RejectReason); 9] = [
            (&[], RejectReason::MissingOriginTopic),
            (&[(b"Origin_Topic", Some(b"a"))], RejectReason::MissingOriginTopic),
            (&[(b"origin_topic", None)], RejectReason::InvalidOriginTopic),
            (&[(b"origin_topic", Some(b""))], RejectReason::InvalidOriginTopic),
            (&[(b"origin_topic", Some(b"\xff"))], RejectReason::InvalidOriginTopic),
            (&[(b"origin_topic", Some(b"a\0b"))], RejectReason::InvalidOriginTopic),
            (&[(b"origin_topic", Some(&long))], RejectReason::InvalidOriginTopic),
            (
                &[(b"origin_topic", Some(b"a")), (b"origin_partition", Some(b"-1"))],
                RejectReason::InvalidPartition,
            ),
            (
                &[(b"origin_topic", Some(b"a")), (b"origin_partition", Some(b"2147483648"))],
                RejectReason::InvalidPartition,
            ),
        ];
        for (headers, reason) in cases {
            assert_eq!(parse(headers), Err(reason), "{headers:?}");
        }
    }

    #[test]
    fn details_are_short_and_printable() {
        let hostile = vec![b'\x1b'; 10_000];
        let detail = parse_topic(Some(&hostile)).unwrap_err().detail;
        assert!(detail.len() < 250 && detail.chars().all(|char| !char.is_control()), "{detail}");
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(
            headers in prop::collection::vec(
                (
                    prop_oneof![
                        Just(b"origin_topic".to_vec()), Just(b"origin_key".to_vec()),
                        Just(b"origin_partition".to_vec()), any::<Vec<u8>>(),
                    ],
                    any::<Option<Vec<u8>>>(),
                ),
                0..8,
            ),
        ) {
            let mut record = TestRecord::at(0, Some(1));
            record.headers = headers;
            if let Ok(envelope) = Envelope::parse(&record) {
                prop_assert!(is_legal_topic_name(&envelope.topic));
                prop_assert!(envelope.partition.is_none_or(|partition| partition >= 0));
            }
        }
    }
}
