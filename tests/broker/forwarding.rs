//! What arrives at destinations, when, and in which form.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rig::{A_WHILE, PATIENCE, REAL_DELAYS_MS, Rig, overdue, texts};
use crate::support::{Options, metric};
use crate::support::{Record, Seen, eventually, heavy, now_ms, shared, unique};

/// Records of each level in `every_level`.
const PER_LEVEL: i64 = 6;

#[test]
fn every_real_level_forwards_in_time_and_once() {
    every_level(1);
}

// R65
#[test]
fn every_shard_has_the_delay_of_its_level() {
    every_level(2);
}

/// Records of every level, due within the next seconds: a neighbouring level's delay would make
/// them early, or late by half a minute at least.
fn every_level(shards: i32) {
    let cluster = shared();
    let rig = Rig::bare(&cluster.client(), 18 * shards, &[]);
    rig.admin.create_topic(&rig.dlq, 1);
    let destination = rig.destination(3);
    let daemon = rig.config.start_ready();
    let now = now_ms();
    let mut records = Vec::new();
    for partition in 0..18 * shards {
        let delay = REAL_DELAYS_MS[usize::try_from(partition % 18).unwrap()];
        for number in 0..PER_LEVEL {
            // 1s: all due in the second to come; longer levels: within the next four.
            let due = now + (delay * (number + 1) / PER_LEVEL).min(700 * (number + 1));
            let record = Record::new(format!("{partition} {number} {due}"));
            records.push(record.partition(partition).timestamp(due - delay).to(&destination));
        }
    }
    rig.send(&records);
    let seen = rig.exactly(&destination, records.len());
    let mut expected: Vec<String> = records.iter().map(text).collect();
    let mut found = texts(&seen);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    for seen in &seen {
        let due: i64 = seen.text().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(seen.seen_at >= due, "{} seen at {}", seen.text(), seen.seen_at);
        assert!(seen.timestamp >= due, "{} forwarded at {}", seen.text(), seen.timestamp);
    }
    rig.wait_committed();
    assert_eq!(daemon.metric("kafka_delay_early_forwards_total", &[]), Some(0.0));
    let forwarded = daemon.metric("kafka_delay_records_forwarded_total", &[("delay", "2h")]);
    assert_eq!(forwarded, Some(f64::from(shards * i32::try_from(PER_LEVEL).unwrap())));
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
}

fn text(record: &Record) -> String {
    String::from_utf8(record.value.clone().unwrap()).unwrap()
}

/// Records whose keys, values and headers try every edge; without control headers.
fn curious_records() -> Vec<Record> {
    let now = now_ms() - 60_000;
    let at = |record: Record| record.partition(0).timestamp(now);
    vec![
        at(Record::new("plain").key("k")),
        at(Record::tombstone()),
        at(Record::tombstone().key("tombstone of this key")),
        at(Record::new("")),
        at(Record::new("").key("")),
        at(Record::new(b"\x00\xff\xfe\x00\x80").key(b"\x80\x00\xff")),
        at(Record::new(vec![b'x'; 200_000]).key(vec![b'k'; 5_000])),
        at(Record::new("headers")
            .header("twice", "1")
            .header(b"\xff\xfe\x80", b"\x00\x01\xff")
            .null_header("null")
            .header("twice", "2")
            .null_header("twice")
            .header("empty", "")
            .header("", "no name")
            .null_header("")
            .header("ümlaut", "ü")
            .header(vec![b'n'; 1_000], vec![0; 10_000])),
        at(Record::new("traced")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .header("tracestate", "a=b")
            .header("ce_id", "1")
            .header("ce_type", "x")
            .header("content-type", "application/cloudevents+json")),
        at(Record::new("nearly control headers")
            .header("Origin_Topic", "elsewhere")
            .header("origin_topi", "elsewhere")
            .header("origin_topic_", "elsewhere")
            .header("origin_partitions", "x")
            .header("kafka_delay_dlq_redrives", "3")),
    ]
}

/// The record with control headers before, among and after its own.
fn addressed(record: &Record, destination: &str) -> Record {
    let mut headers = record.headers.clone();
    let control = |name: &str, value: &str| (name.as_bytes().to_vec(), Some(value.into()));
    headers.insert(headers.len() / 2, control("origin_partition", "1"));
    headers.insert(0, control("origin_topic", "an-earlier-one-does-not-count"));
    headers.push(control("origin_topic", destination));
    headers.push(control("origin_partition", "0"));
    Record { headers, ..record.clone() }
}

fn assert_same(seen: &Seen, record: &Record) {
    assert_eq!(seen.key, record.key, "{record:?}");
    assert!(seen.value == record.value, "value of {record:?}");
    assert_eq!(seen.headers, record.headers, "{record:?}");
}

// R81, R82
#[test]
fn records_are_forwarded_byte_for_byte_without_control_headers() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(2);
    let records = curious_records();
    let addressed: Vec<Record> =
        records.iter().map(|record| addressed(record, &destination)).collect();
    let before = now_ms();
    rig.send(&addressed);
    let _daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, records.len());
    for (seen, record) in seen.iter().zip(&records) {
        assert_eq!(seen.partition, 0, "the last origin_partition counts");
        assert_same(seen, record);
        assert!(seen.timestamp >= before, "R48: not the old timestamp");
    }
    rig.wait_committed();
}

#[test]
fn control_headers_and_timestamps_are_kept_on_request() {
    let rig = Rig::new(&shared().client(), "1s")
        .set("forward.keep_control_headers", "true")
        .set("forward.timestamp", "original");
    let destination = rig.destination(2);
    let records = curious_records();
    let records: Vec<Record> =
        records.iter().map(|record| addressed(record, &destination)).collect();
    rig.send(&records);
    let _daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, records.len());
    for (seen, record) in seen.iter().zip(&records) {
        assert_same(seen, record);
        assert_eq!(Some(seen.timestamp), record.timestamp);
    }
}

// R81, R84
#[test]
fn origin_key_and_origin_partition_choose_key_and_partition() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(3);
    let to = |value: &str| overdue(value, &destination).key("own");
    rig.send(&[
        to("key of the header").header("origin_key", b"\x00other").header("origin_partition", "0"),
        to("null").null_header("origin_key").header("origin_partition", "0"),
        to("empty").header("origin_key", "").header("origin_partition", "0"),
        to("last key")
            .null_header("origin_key")
            .header("origin_key", "first")
            .header("origin_key", "last")
            .header("origin_partition", "0"),
        to("partition 1").header("origin_partition", "1"),
        to("partition 2").header("origin_partition", "002"),
    ]);
    let _daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, 6);
    let found: Vec<_> =
        seen.iter().map(|seen| (seen.partition, seen.key.as_deref(), seen.text())).collect();
    let expected: [(i32, Option<&[u8]>, &str); 6] = [
        (0, Some(b"\x00other"), "key of the header"),
        (0, None, "null"),
        (0, Some(b""), "empty"),
        (0, Some(b"last"), "last key"),
        (1, Some(b"own"), "partition 1"),
        (2, Some(b"own"), "partition 2"),
    ];
    assert_eq!(found, expected.map(|(partition, key, text)| (partition, key, text.to_owned())));
    assert!(seen.iter().all(|seen| seen.headers.is_empty()));
}

/// The Java client's `Utils.murmur2`, with Java's wrapping signed arithmetic.
fn murmur2(data: &[u8]) -> i32 {
    const M: i32 = 0x5bd1_e995;
    let length = i32::try_from(data.len()).unwrap();
    let mut hash = 0x9747_b28c_u32.cast_signed() ^ length;
    let shifted = |value: i32, bits: u32| (value.cast_unsigned() >> bits).cast_signed();
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = i32::from_le_bytes(word.try_into().unwrap()).wrapping_mul(M);
        k ^= shifted(k, 24);
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    for (index, byte) in rest.iter().enumerate() {
        hash ^= i32::from(*byte) << (8 * index);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= shifted(hash, 13);
    hash = hash.wrapping_mul(M);
    hash ^ shifted(hash, 15)
}

// R84: co-partitioned consumers rely on it.
#[test]
fn keys_land_in_the_partition_a_java_producer_would_choose() {
    // From UtilsTest of the Java client.
    for (key, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
    }
    const PARTITIONS: i32 = 7;
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(PARTITIONS);
    let mut keys: Vec<Vec<u8>> = (0..300_u32).map(|n| format!("order-{n}").into_bytes()).collect();
    keys.extend((0..300_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec()));
    keys.push(Vec::new());
    let in_header = keys.len() / 2;
    let record = |(index, key): (usize, &Vec<u8>)| {
        let record = overdue("x", &destination);
        if index < in_header {
            record.key(key)
        } else {
            record.key("another").header("origin_key", key)
        }
    };
    rig.send(&keys.iter().enumerate().map(record).collect::<Vec<_>>());
    let _daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, keys.len());
    let places: BTreeMap<Vec<u8>, i32> =
        seen.into_iter().map(|seen| (seen.key.unwrap(), seen.partition)).collect();
    for key in keys {
        let expected = (murmur2(&key) & 0x7fff_ffff) % PARTITIONS;
        assert_eq!(places.get(&key), Some(&expected), "{key:?}");
    }
}

// R58, R60: a producer's clock an hour ahead costs one delay, not an hour, and not one delay each.
#[test]
fn a_timestamp_from_the_future_is_due_one_delay_after_it_was_first_seen() {
    let client = shared().client();
    let levels = [("message.timestamp.after.max.ms", "86400000")];
    let rig = Rig::bare(&client, 1, &levels).set("delay.levels", "3s");
    rig.admin.create_topic(&rig.dlq, 1);
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let sent = now_ms();
    let far = sent + 3_600_000;
    let record =
        |number: i32| Record::new(number.to_string()).partition(0).timestamp(far).to(&destination);
    rig.send(&(0..5).map(record).collect::<Vec<_>>());
    let seen = rig.exactly(&destination, 5);
    assert_eq!(texts(&seen), ["0", "1", "2", "3", "4"]);
    for seen in &seen {
        assert!(seen.timestamp >= sent + 3_000, "{} after {sent}", seen.timestamp);
        assert!(seen.timestamp < far, "{}", seen.timestamp);
    }
    assert_eq!(daemon.metric("kafka_delay_future_timestamps_total", &[]), Some(5.0));
    rig.wait_committed();
}

// The broker refuses -1 and librdkafka writes 0 as the present time, so neither gets into a log
// here; the engine's own tests have them. 1 ms after 1970 is a date like any other.
#[test]
fn the_oldest_timestamp_is_a_date_and_due_at_once() {
    let rig = Rig::new(&shared().client(), "1h");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    rig.send(&[Record::new("x").partition(0).timestamp(1).to(&destination)]);
    let seen = rig.exactly(&destination, 1);
    assert!(seen[0].timestamp > 1);
    assert_eq!(daemon.metric("kafka_delay_invalid_timestamps_total", &[]), Some(0.0));
}

#[test]
fn with_log_append_time_the_delay_counts_from_the_brokers_timestamp() {
    let client = shared().client();
    let settings = [("message.timestamp.type", "LogAppendTime")];
    let rig = Rig::bare(&client, 2, &settings).set("delay.levels", "1s,4s");
    rig.admin.create_topic(&rig.dlq, 1);
    let destination = rig.destination(1);
    let _daemon = rig.config.start_ready();
    let before = now_ms();
    // The producer's word, long ago, does not count.
    let record = |partition: i32| {
        let record = Record::new(partition.to_string()).partition(partition);
        record.timestamp(before - 100_000).to(&destination)
    };
    rig.send(&[record(1), record(0)]);
    let seen = rig.exactly(&destination, 2);
    assert_eq!(texts(&seen), ["0", "1"]);
    let stored = client.reader(&rig.delay).read_all();
    for stored in stored {
        assert!(stored.timestamp >= before, "the broker stamped it");
        let delay = [1_000, 4_000][usize::try_from(stored.partition).unwrap()];
        let forwarded = seen.iter().find(|seen| seen.text() == stored.text()).unwrap();
        assert!(forwarded.timestamp >= stored.timestamp + delay);
        assert!(forwarded.seen_at >= stored.timestamp + delay);
    }
}

// R15, R16, R86: nothing else moves in these topics while the heads wait.
#[test]
fn a_parked_head_and_the_record_behind_it_are_forwarded_once_and_in_time() {
    let rig = Rig::new(&shared().client(), "1s,12s").set("delay.park_after", "2s");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let now = now_ms();
    let record = |name: &str, timestamp: i64| {
        Record::new(name).partition(1).timestamp(timestamp).to(&destination)
    };
    // Due in 8 s, the same moment, and 4 s later: the third is parked again.
    let times = [now - 4_000, now - 4_000, now];
    rig.send(&[record("a", times[0]), record("b", times[1]), record("c", times[2])]);
    let level = [("level", "2"), ("reason", "not_due")];
    let reason = [("reason", "not_due")];
    daemon.wait_metric("kafka_delay_level_paused", &level, 1.0, PATIENCE);
    daemon.wait_metric("kafka_delay_pauses_total", &reason, 1.0, PATIENCE);
    let due = daemon.metric("kafka_delay_level_next_due_timestamp_seconds", &[("level", "2")]);
    #[allow(clippy::cast_precision_loss, reason = "milliseconds fit into 53 bits")]
    let expected = (times[0] + 12_000) as f64 / 1_000.0;
    assert_eq!(due, Some(expected));
    let seen = rig.exactly(&destination, 3);
    assert_eq!(texts(&seen), ["a", "b", "c"]);
    for (seen, timestamp) in seen.iter().zip(times) {
        assert!(seen.timestamp >= timestamp + 12_000, "{} {timestamp}", seen.timestamp);
    }
    rig.wait_committed();
    daemon.wait_metric("kafka_delay_resumes_total", &reason, 1.0, PATIENCE);
    let rebalances = |event| daemon.metric("kafka_delay_rebalances_total", &[("event", event)]);
    assert_eq!((rebalances("revoke"), rebalances("lost")), (Some(0.0), Some(0.0)));
}

// R53, R64
#[test]
fn what_is_overdue_on_arrival_goes_at_once() {
    let rig = Rig::new(&shared().client(), "1s,2h");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let now = now_ms();
    let record = |name: &str, timestamp: i64| {
        Record::new(name).partition(1).timestamp(timestamp).to(&destination)
    };
    rig.send(&[
        record("a year late", now - 31_536_000_000),
        record("a day late", now - 86_400_000),
        record("due this millisecond", now - 7_200_000),
        record("due in two hours", now),
    ]);
    let seen = rig.exactly(&destination, 3);
    assert_eq!(texts(&seen), ["a year late", "a day late", "due this millisecond"]);
    let level = [("level", "2"), ("reason", "not_due")];
    daemon.wait_metric("kafka_delay_level_paused", &level, 1.0, PATIENCE);
}

// R30, R31, R32, R33, R34: waiting for longer than max_poll_interval is no silence.
// R93: nor is it an error.
#[test]
fn a_wait_longer_than_the_poll_interval_causes_no_rebalance() {
    let rig = Rig::new(&shared().client(), "1s,25s,2h")
        .set("source.session_timeout", "6s")
        .set("source.heartbeat_interval", "2s")
        .set("source.max_poll_interval", "10s");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let now = now_ms();
    let record = |partition: i32| {
        let record = Record::new(partition.to_string());
        record.partition(partition).timestamp(now).to(&destination)
    };
    rig.send(&[record(1), record(2)]);
    let mut reader = rig.client.reader(&destination);
    assert_eq!(texts(reader.until(1, PATIENCE)), ["1"]);
    assert!(reader.seen()[0].timestamp >= now + 25_000, "waited for more than two intervals");
    assert_eq!(texts(reader.during(Duration::from_secs(6))), ["1"]);
    rig.admin.wait_for_members(&rig.config.group, 1, PATIENCE);
    let (_, metrics) = daemon.http_get("/metrics").unwrap();
    let rebalances =
        |event| metric(&metrics, "kafka_delay_rebalances_total", &[("event", event)]).unwrap();
    assert_eq!(
        ["assign", "revoke", "lost"].map(rebalances),
        [1.0, 0.0, 0.0],
        "assigned once and never again"
    );
    let errors = metric(&metrics, "kafka_delay_log_messages_total", &[("severity", "error")]);
    assert_eq!(errors, Some(0.0), "{}", daemon.log());
    eventually(PATIENCE, || {
        let committed = rig.admin.committed(&rig.config.group, &rig.delay);
        if committed == BTreeMap::from([(1, 1)]) { Ok(()) } else { Err(format!("{committed:?}")) }
    });
}

// R40, R97, R54, R55
#[test]
fn a_big_backlog_delays_neither_the_start_nor_another_level() {
    const BACKLOG: usize = 50_000;
    let rig = Rig::new(&shared().client(), "1s,5s");
    let (many, lone) = (rig.destination(1), rig.destination(1));
    let record = |number: usize| overdue(number.to_string(), &many).key("k");
    rig.send(&(0..BACKLOG).map(record).collect::<Vec<_>>());
    rig.send(&[overdue("lone", &lone).partition(1)]);
    let daemon = rig.config.start_ready();
    let lone_seen = rig.exactly(&lone, 1);
    let seen = rig.exactly(&many, BACKLOG);
    let expected: Vec<String> = (0..BACKLOG).map(|number| number.to_string()).collect();
    assert!(texts(&seen) == expected, "each once and in order");
    let last = seen.iter().map(|seen| seen.timestamp).max().unwrap();
    let first = seen[0].timestamp;
    // Half of the backlog's time is far more than it needs, and not what waiting behind would take.
    let lone_at = lone_seen[0].timestamp;
    assert!(lone_at <= first + (last - first) / 2, "{lone_at} of {first}..{last}");
    rig.wait_committed();
    let level = [("level", "1")];
    let name = "kafka_delay_level_backlog_records";
    eventually(PATIENCE, || match daemon.metric(name, &level) {
        Some(0.0) => Ok(()),
        other => Err(format!("backlog {other:?}")),
    });
}

// R48: a destination keeps records by their timestamps; forwarded ones are new there.
#[test]
fn a_destination_that_refuses_old_timestamps_takes_what_is_forwarded_now() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = unique("destination");
    let settings = [("message.timestamp.before.max.ms", "30000")];
    rig.admin.create_topic_with(&destination, 1, &settings);
    rig.send(&[overdue("x", &destination)]);
    let _daemon = rig.config.start_ready();
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["x"]);
    assert_eq!(rig.client.reader(&rig.dlq).during(A_WHILE).len(), 0);
}

// R68: topics are not created by the daemon even where brokers create what is asked for.
#[test]
fn a_header_creates_no_topic_where_brokers_create_topics() {
    let permit = heavy();
    let cluster = Options::one_node().property("auto.create.topics.enable", "true").start(&permit);
    let rig = Rig::new(&cluster.client(), "1s").set("forward.destination_grace", "1s");
    let missing = unique("missing");
    rig.send(&[overdue("x", &missing)]);
    let _daemon = rig.config.start_ready();
    let dead = rig.exactly(&rig.dlq, 1);
    assert_eq!(dead[0].header_text("kafka_delay_dlq_reason"), "unknown_topic");
    assert!(!rig.admin.topics().unwrap().contains(&missing));
}
