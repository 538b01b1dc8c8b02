//! Whatever a record carries: headers, key, value and timestamp are written by strangers.
//!
//! `make fuzz` runs these a million times each.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::*;
use crate::engine::envelope::{CONTROL_HEADERS, Envelope};
use crate::engine::testing::TestHeaders;
use crate::engine::{KeySource, Offered, TimestampQuality, time};

/// Names that nearly are what is looked for, and any bytes.
fn header_name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::sample::select(CONTROL_HEADERS.to_vec()).prop_map(|name| name.into()),
        2 => prop::sample::select(vec![
            &b"origin_topic\0"[..], b"Origin_Topic", b" origin_topic", b"origin_topic ", b"",
            b"\xef\xbb\xbforigin_topic", b"origin_partition\n", b"kafka_delay_dlq_reason",
            "origin_t\u{43e}pic".as_bytes(),
        ])
        .prop_map(<[u8]>::to_vec),
        2 => any::<Vec<u8>>(),
    ]
}

/// Topic and partition names on both sides of what is legal, and any bytes.
fn header_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let edges = vec![
        "orders",
        "a",
        ".",
        "..",
        "...",
        "delay_topic",
        "dlq",
        "__consumer_offsets",
        "_",
        "",
        "0",
        "00",
        "2147483647",
        "2147483648",
        "-0",
        "+1",
        "1 ",
        "1e3",
        "0x1",
        "\u{ff11}",
        "../etc",
        "a/b",
        "a\0b",
        "a\r\nb",
        "\u{202e}sredro",
        "%s%n",
        "${jndi:x}",
        "'; --",
    ];
    prop_oneof![
        6 => prop::sample::select(edges).prop_map(|text| Some(text.as_bytes().to_vec())),
        3 => "[a-zA-Z0-9._-]{0,252}".prop_map(|text| Some(text.into_bytes())),
        2 => any::<Option<Vec<u8>>>(),
        1 => (245..=255_usize).prop_map(|length| Some(vec![b'x'; length])),
    ]
}

fn headers() -> impl Strategy<Value = TestHeaders> {
    prop::collection::vec((header_name(), header_value()), 0..8)
}

/// The edges of the type, seconds, micro- and nanoseconds taken for milliseconds, and the present.
fn timestamp_ms() -> impl Strategy<Value = Option<i64>> {
    let edges = [-1, 0, 1, i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX];
    prop_oneof![
        prop::sample::select(edges.to_vec()).prop_map(Some),
        Just(None),
        prop::sample::select(vec![NOW_MS / 1_000, NOW_MS * 1_000, NOW_MS * 1_000_000])
            .prop_map(Some),
        (NOW_MS - 120_000..NOW_MS + 120_000).prop_map(Some),
        any::<i64>().prop_map(Some),
    ]
}

fn record() -> impl Strategy<Value = TestRecord> {
    let size = prop_oneof![0..200_usize, Just(9_999), Just(1_000_000)];
    (headers(), timestamp_ms(), size).prop_map(|(headers, timestamp_ms, size_bytes)| TestRecord {
        offset: 0,
        timestamp_ms,
        headers,
        size_bytes,
    })
}

fn last<'a>(headers: &'a TestHeaders, name: &str) -> Option<Option<&'a [u8]>> {
    let found = headers.iter().rev().find(|(known, _)| known == name.as_bytes());
    found.map(|(_, value)| value.as_deref())
}

/// The wire contract once more, in other words.
fn expected(headers: &TestHeaders) -> Result<(String, KeySource, Option<i32>), RejectReason> {
    static NAME: LazyLock<regex::bytes::Regex> =
        LazyLock::new(|| regex::bytes::Regex::new(r"^[a-zA-Z0-9._-]{1,249}\z").unwrap());
    let topic = last(headers, "origin_topic").ok_or(RejectReason::MissingOriginTopic)?;
    let topic = topic
        .filter(|topic| NAME.is_match(topic) && *topic != b"." && *topic != b"..")
        .ok_or(RejectReason::InvalidOriginTopic)?;
    let partition = match last(headers, "origin_partition") {
        None => None,
        Some(digits) => {
            let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.and_then(|digits| digits.parse::<u128>().ok());
            let number = number.and_then(|number| i32::try_from(number).ok());
            Some(number.ok_or(RejectReason::InvalidPartition)?)
        }
    };
    let key = last(headers, "origin_key").map_or(KeySource::Record, |_| KeySource::Header);
    Ok((String::from_utf8(topic.to_vec()).unwrap(), key, partition))
}

/// What becomes of all `records`, which arrive at once, when sends end as `outcomes` says.
struct Run {
    engine: Engine<TestRecord>,
    queues: [Vec<TestRecord>; 2],
    next: [usize; 2],
    outcomes: VecDeque<u8>,
    now_ms: i64,
    ended: Vec<Notice>,
}

impl Run {
    fn new(records: Vec<TestRecord>, outcomes: Vec<u8>, dead_letters: bool) -> Self {
        let mut settings = config();
        if !dead_letters {
            settings.dead_letter_topic = None;
            settings.drop_refused = true;
        }
        let mut queues = [Vec::new(), Vec::new()];
        for (number, mut record) in records.into_iter().enumerate() {
            let queue = &mut queues[number % 2];
            // Offsets have gaps.
            record.offset = i64::try_from(3 * queue.len()).unwrap();
            queue.push(record);
        }
        let engine = engine_with(settings);
        let outcomes = outcomes.into();
        Self { engine, queues, next: [0; 2], outcomes, now_ms: NOW_MS, ended: Vec::new() }
    }

    fn run_out(&mut self) {
        let total = self.queues.iter().map(Vec::len).sum::<usize>();
        for _ in 0..10_000 {
            self.read();
            self.engine.advance(at(self.now_ms));
            let sent = self.act();
            for ticket in sent {
                let outcome = self.outcome();
                self.engine.settled(ticket, outcome, self.now_ms);
            }
            while let Some(notice) = self.engine.next_notice() {
                if let Notice::Forwarded { .. }
                | Notice::DeadLettered { .. }
                | Notice::Dropped { .. } = &notice
                {
                    self.ended.push(notice);
                }
            }
            if self.ended.len() >= total {
                return;
            }
            let wakeup_ms = next_wakeup_ms(&self.engine, self.now_ms).unwrap_or(self.now_ms);
            self.now_ms = wakeup_ms.max(self.now_ms + 1);
        }
        panic!("{} of {total} records ended by {}", self.ended.len(), self.now_ms - NOW_MS);
    }

    fn read(&mut self) {
        for partition in 0..2 {
            let slot = usize::try_from(partition).unwrap();
            while self.engine.wants_record(partition)
                && let Some(record) = self.queues[slot].get(self.next[slot])
            {
                let offered = self.engine.offer(partition, record.clone(), self.now_ms);
                assert!(matches!(offered, Offered::Accepted(_) | Offered::AcceptedAgain));
                self.next[slot] += 1;
                self.engine.advance_lane(partition, at(self.now_ms));
            }
        }
    }

    fn act(&mut self) -> Vec<Ticket> {
        let mut sent = Vec::new();
        while let Some(action) = self.engine.next_action() {
            match action {
                Action::Send(ticket) => {
                    let outgoing = self.engine.outgoing(ticket).expect("live");
                    assert!(outgoing.due_ms <= self.now_ms, "early");
                    let own = ["delay_topic", "dlq"].contains(&&**outgoing.topic)
                        || outgoing.topic.starts_with("__");
                    let dead_letter = matches!(outgoing.form, Form::DeadLetter { .. });
                    assert_eq!(own, dead_letter, "sent to {}", outgoing.topic);
                    sent.push(ticket);
                }
                Action::Park { partition, .. } => {
                    self.engine.parked(partition);
                    self.next[usize::try_from(partition).unwrap()] -= 1;
                }
                Action::Unpark { partition, .. } => self.engine.unparked(partition),
            }
        }
        sent
    }

    fn outcome(&mut self) -> Result<(), Refusal> {
        match self.outcomes.pop_front() {
            Some(0) => Err(Refusal::Trouble(Trouble::UnknownTopic)),
            Some(1) => Err(Refusal::Trouble(Trouble::Unauthorized)),
            Some(2) => Err(Refusal::Trouble(Trouble::TooLarge)),
            Some(3) => Err(Refusal::Trouble(Trouble::Transient)),
            Some(4) => Err(Refusal::produce_failed("no".to_owned())),
            _ => Ok(()),
        }
    }
}

/// Whole runs are slower than what `make fuzz` counts by.
fn slower() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(16), ..usual }
}

proptest! {
    // R67, R78
    #[test]
    fn an_envelope_says_what_the_contract_says(headers in headers()) {
        let mut record = TestRecord::at(0, Some(1));
        record.headers = headers;
        let parsed = Envelope::parse(&record);
        let wanted = expected(&record.headers);
        if let Err(rejection) = &parsed {
            prop_assert!(rejection.detail.len() < 250, "{}", rejection.detail);
            prop_assert!(rejection.detail.chars().all(|char| !char.is_control()));
        }
        let parsed = parsed.map(|envelope| (envelope.topic, envelope.key, envelope.partition));
        prop_assert_eq!(parsed.map_err(|rejection| rejection.reason), wanted);
    }

    // R58, R64
    #[test]
    fn a_due_time_is_between_the_present_and_one_delay_from_first_sight(
        timestamp_ms in timestamp_ms(),
        seen_ms in NOW_MS..NOW_MS + 1_000_000,
        delay_ms in 1..=2_592_000_000_i64,
    ) {
        let due = i128::from(time::due_ms(timestamp_ms, seen_ms, delay_ms));
        let usable = timestamp_ms.filter(|written| *written > 0);
        let written = usable.map_or(seen_ms, |written| written.min(seen_ms));
        prop_assert_eq!(due, i128::from(written) + i128::from(delay_ms));
        let quality = time::judge(timestamp_ms, seen_ms, 5_000);
        let future = timestamp_ms.is_some_and(|written| written > seen_ms + 5_000);
        let invalid = timestamp_ms.is_none_or(|written| written <= 0);
        let wanted = match (future, invalid) {
            (true, _) => TimestampQuality::Future,
            (_, true) => TimestampQuality::Invalid,
            _ => TimestampQuality::Sound,
        };
        prop_assert_eq!(quality, wanted);
    }

}

proptest! {
    #![proptest_config(slower())]

    // R26, R71, R77, R79
    #[test]
    fn every_record_ends_whatever_it_carries_and_however_its_destination_answers(
        records in prop::collection::vec(record(), 1..24),
        outcomes in prop::collection::vec(0..8_u8, 0..40),
        dead_letters in any::<bool>(),
    ) {
        let mut run = Run::new(records, outcomes, dead_letters);
        run.run_out();
        prop_assert_eq!(run.engine.in_flight(), (0, 0));
        for (partition, queue) in (0..).zip(&run.queues) {
            let lane = run.engine.lane(partition).unwrap();
            let end = queue.last().map_or(0, |record| record.offset + 1);
            prop_assert_eq!(lane.window.prefix(), end);
            lane.check();
        }
    }
}
