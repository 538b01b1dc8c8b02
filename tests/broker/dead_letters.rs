//! Records that cannot be forwarded: where they end, and that nothing waits for them.

use std::time::Duration;

use crate::rig::{A_WHILE, PATIENCE, Rig, overdue, texts, wait_log};
use crate::support::{Producer, Record, Seen, eventually, now_ms, shared, unique};

/// The record as it was, with a reason and where it came from.
#[track_caller]
fn assert_dead_letter(rig: &Rig, seen: &Seen, record: &Record, place: (i32, i64), reason: &str) {
    let what = format!("{reason}: {record:?}");
    assert_eq!(seen.key, record.key, "{what}");
    assert!(seen.value == record.value, "{what}");
    let (kept, added) = seen.headers.split_at(record.headers.len());
    assert_eq!(kept, record.headers, "{what}");
    let names: Vec<_> = added.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
    let suffixes =
        ["reason", "detail", "topic", "partition", "offset", "timestamp", "level", "redrives"];
    assert_eq!(names, suffixes.map(|name| format!("kafka_delay_dlq_{name}")), "{what}");
    let header = |name: &str| seen.header_text(&format!("kafka_delay_dlq_{name}"));
    assert_eq!(header("reason"), reason, "{what}");
    assert!(!header("detail").is_empty(), "{what}");
    assert_eq!(header("topic"), rig.delay);
    assert_eq!(header("partition"), place.0.to_string());
    assert_eq!(header("offset"), place.1.to_string());
    assert_eq!(header("timestamp"), record.timestamp.unwrap().to_string());
    assert_eq!(header("level"), (place.0 + 1).to_string());
    assert_eq!(header("redrives"), "0");
    assert!(seen.timestamp > record.timestamp.unwrap(), "R48: the time of rejection");
}

/// A record for partition 0 that was due long ago, with a key, a value and a header to be kept.
fn bare(number: usize) -> Record {
    let record = Record::new(format!("value {number}")).partition(0).timestamp(now_ms() - 60_000);
    record.key(b"k\xff").header(b"kept \xff", b"\x00\xff")
}

// R67, R70, R71, R77, R79: every reason that needs no cluster of its own. Each bad record stands
// between good ones of the same partition.
#[test]
fn every_bad_record_is_dead_lettered_with_its_reason_and_the_good_ones_go_on() {
    let prefix = unique("area");
    let rig = Rig::new(&shared().client(), "1s,5s")
        .set("forward.deny_topics", &format!("{prefix}.denied,/.*secret.*/"))
        .set("forward.destination_grace", "1s");
    let good = format!("{prefix}.good");
    rig.admin.create_topic(&good, 1);
    let compacted = format!("{prefix}.compacted");
    rig.admin.create_topic_with(&compacted, 1, &[("cleanup.policy", "compact")]);
    type Make<'a> = Box<dyn Fn(Record) -> Record + 'a>;
    let addressed = |topic: String| -> Make<'_> { Box::new(move |record| record.to(&topic)) };
    let partition = |value: &'static [u8]| -> Make<'_> {
        let good = &good;
        Box::new(move |record| record.to(good).header("origin_partition", value))
    };
    let long = "a".repeat(250);
    let cases: Vec<(&str, Make<'_>)> = vec![
        ("missing_origin_topic", Box::new(|record| record)),
        ("missing_origin_topic", Box::new(|record| record.header("Origin_Topic", &good))),
        ("invalid_origin_topic", Box::new(|record| record.to(&good).null_header("origin_topic"))),
        ("invalid_origin_topic", Box::new(|record| record.header("origin_topic", b"\xff\xfe"))),
        ("invalid_origin_topic", addressed(String::new())),
        ("invalid_origin_topic", addressed("not a topic".to_owned())),
        ("invalid_origin_topic", addressed("..".to_owned())),
        ("invalid_origin_topic", addressed(long)),
        ("denied_origin_topic", addressed(rig.dlq.clone())),
        ("denied_origin_topic", addressed("__consumer_offsets".to_owned())),
        ("denied_origin_topic", addressed("__transaction_state".to_owned())),
        ("denied_origin_topic", addressed(format!("{prefix}.denied"))),
        ("denied_origin_topic", addressed(format!("{prefix}.secret.x"))),
        ("loop", addressed(rig.delay.clone())),
        ("unknown_topic", addressed(format!("{prefix}.missing"))),
        ("unknown_topic", addressed(format!("{prefix}.missing"))),
        ("invalid_partition", partition(b"")),
        ("invalid_partition", partition(b"x")),
        ("invalid_partition", partition(b"-1")),
        ("invalid_partition", partition(b"+1")),
        ("invalid_partition", partition(b"2147483648")),
        ("invalid_partition", partition(b"1")),
        ("invalid_partition", partition(b"2147483647")),
        ("invalid_partition", Box::new(|r| r.to(&good).null_header("origin_partition"))),
        ("produce_failed", Box::new(|r| r.null_header("origin_key").to(&compacted))),
    ];
    let mut records = Vec::new();
    for (number, (_, make)) in cases.iter().enumerate() {
        records.push(make(bare(number)));
        records.push(bare(number).to(&good));
    }
    let places = rig.send(&records);
    let daemon = rig.config.start_ready();

    let mut dead = rig.exactly(&rig.dlq, cases.len());
    let offset = |seen: &Seen| seen.header_text("kafka_delay_dlq_offset").parse::<usize>().unwrap();
    dead.sort_by_key(offset);
    for (number, ((reason, _), seen)) in cases.iter().zip(&dead).enumerate() {
        assert_dead_letter(&rig, seen, &records[2 * number], places[2 * number], reason);
    }
    let expected: Vec<String> = (0..cases.len()).map(|number| format!("value {number}")).collect();
    assert_eq!(texts(&rig.exactly(&good, cases.len())), expected);
    rig.wait_committed();
    let mut reasons: Vec<&str> = cases.iter().map(|(reason, _)| *reason).collect();
    reasons.dedup();
    for reason in reasons {
        #[allow(clippy::cast_precision_loss, reason = "a handful")]
        let count = cases.iter().filter(|(other, _)| *other == reason).count() as f64;
        let name = "kafka_delay_records_dead_lettered_total";
        daemon.wait_metric(name, &[("reason", reason)], count, PATIENCE);
        assert_eq!(daemon.metric(name, &[("reason", reason)]), Some(count), "{reason}");
    }
    assert_eq!(rig.admin.end_offsets(&compacted), [0]);
}

#[test]
fn what_the_allow_list_does_not_name_is_denied() {
    let rig = Rig::new(&shared().client(), "1s");
    let (allowed, other) = (rig.destination(1), rig.destination(1));
    let rig = rig.set("forward.allow_topics", &allowed);
    let records = [overdue("no", &other), overdue("yes", &allowed)];
    let places = rig.send(&records);
    let _daemon = rig.config.start_ready();
    let dead = rig.exactly(&rig.dlq, 1);
    assert_dead_letter(&rig, &dead[0], &records[0], places[0], "denied_origin_topic");
    assert_eq!(texts(&rig.exactly(&allowed, 1)), ["yes"]);
    assert_eq!(rig.admin.end_offsets(&other), [0]);
}

// R73: the broker refuses a whole batch for one record of it.
#[test]
fn only_the_record_that_is_too_large_itself_is_dead_lettered() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = unique("destination");
    rig.admin.create_topic_with(&destination, 1, &[("max.message.bytes", "2000")]);
    // Each small one fits; two and more of them, batched, do not.
    let record = |number: usize| {
        let size = if number % 7 == 3 { 3_000 } else { 900 };
        overdue(format!("{number:0>size$}"), &destination)
    };
    let records: Vec<Record> = (0..70).map(record).collect();
    let places = rig.send(&records);
    // A batch waits for its neighbours.
    let rig = rig.set("forward.linger", "50ms");
    let _daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, 60);
    let mut dead = rig.exactly(&rig.dlq, 10);
    let offset = |seen: &Seen| seen.header_text("kafka_delay_dlq_offset").parse::<usize>().unwrap();
    dead.sort_by_key(offset);
    for (seen, number) in dead.iter().zip((0..70).filter(|number| number % 7 == 3)) {
        assert_dead_letter(&rig, seen, &records[number], places[number], "too_large");
    }
    let numbers: Vec<usize> = seen.iter().map(|seen| seen.text().parse().unwrap()).collect();
    let expected: Vec<usize> = (0..70).filter(|number| number % 7 != 3).collect();
    assert_eq!(numbers, expected, "in order");
    rig.wait_committed();
}

// R75: a compressed record may be many times larger than the topics take, and so are its copies
// without compression. It waits, nobody waits for it, and the setting that helps lets it through.
#[test]
fn a_record_that_fits_only_compressed_waits_until_forwarding_compresses() {
    let rig = Rig::new(&shared().client(), "1s").set("retry.max_backoff", "1s");
    let destination = rig.destination(1);
    let producer = Producer::with(&rig.client, |config| {
        config.set("compression.type", "zstd").set("message.max.bytes", "10000000");
    });
    let big = vec![b'x'; 3_000_000];
    producer.send(&rig.delay, &overdue(&big, &destination));
    rig.send(&[overdue("small", &destination)]);
    let daemon = rig.config.start_ready();
    let seen = rig.exactly(&destination, 1);
    assert_eq!(texts(&seen), ["small"]);
    daemon.wait_metric("kafka_delay_level_isolated_records", &[], 1.0, PATIENCE);
    let sizes = [("code", "too_large")];
    daemon.wait_metric("kafka_delay_produce_errors_total", &sizes, 2.0, PATIENCE);
    rig.wait_committed_at(0);
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
    daemon.stop(PATIENCE);

    let rig = rig.set("forward.compression", "zstd");
    let _daemon = rig.config.start_ready();
    let mut reader = rig.client.reader(&destination);
    let arrived = |seen: &[Seen]| seen.iter().any(|seen| seen.value.as_ref() == Some(&big));
    reader.until_that("the big record", PATIENCE, arrived);
    rig.wait_committed();
}

// The largest record that the delay topic takes has room in a destination of the same size.
#[test]
fn a_record_as_large_as_the_delay_topic_takes_is_forwarded() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(1);
    let limit = 1_048_588;
    let producer = Producer::with(&rig.client, |config| {
        config.set("message.max.bytes", "10000000");
    });
    // Room for batch header, record header, timestamp and the control header.
    let mut size = limit - 50;
    let mut refused = 0;
    loop {
        let record = overdue(vec![b'x'; size], &destination);
        match producer.try_send_all(&rig.delay, &[record]).remove(0) {
            Ok(_) => break,
            Err(error) => assert!(refused < 200, "{error}"),
        }
        refused += 1;
        size -= 1;
    }
    assert!(refused > 0, "not the largest");
    let _daemon = rig.config.start_ready();
    assert_eq!(rig.exactly(&destination, 1)[0].value.as_ref().unwrap().len(), size);
    rig.wait_committed();
}

// R76
#[test]
fn a_record_that_was_redriven_gets_its_headers_replaced() {
    let rig = Rig::new(&shared().client(), "1s");
    let record = overdue("x", "not a topic")
        .header("kafka_delay_dlq_reason", "unknown_topic")
        .header("kafka_delay_dlq_detail", "old")
        .header("kafka_delay_dlq_detail", "old")
        .header("kafka_delay_dlq_offset", "99")
        .header("kafka_delay_dlq_redrives", "6")
        .header("kafka_delay_dlq_redrives", "7")
        .header("own", "kept")
        .header("kafka_delay_dlq_other", "not ours");
    let garbage = overdue("y", "not a topic").header("kafka_delay_dlq_redrives", "\u{ff}many");
    rig.send(&[record, garbage]);
    let _daemon = rig.config.start_ready();
    let dead = rig.exactly(&rig.dlq, 2);
    let names: Vec<_> =
        dead[0].headers.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
    let expected = [
        "origin_topic",
        "own",
        "kafka_delay_dlq_other",
        "kafka_delay_dlq_reason",
        "kafka_delay_dlq_detail",
        "kafka_delay_dlq_topic",
        "kafka_delay_dlq_partition",
        "kafka_delay_dlq_offset",
        "kafka_delay_dlq_timestamp",
        "kafka_delay_dlq_level",
        "kafka_delay_dlq_redrives",
    ];
    assert_eq!(names, expected);
    assert_eq!(dead[0].header_text("kafka_delay_dlq_reason"), "invalid_origin_topic");
    assert_ne!(dead[0].header_text("kafka_delay_dlq_detail"), "old");
    assert_eq!(dead[0].header_text("kafka_delay_dlq_offset"), "0");
    assert_eq!(dead[0].header_text("kafka_delay_dlq_redrives"), "7");
    assert_eq!(dead[1].header_text("kafka_delay_dlq_redrives"), "0");
}

// R68, R70
#[test]
fn records_for_a_destination_that_is_created_late_are_forwarded() {
    let rig = Rig::new(&shared().client(), "1s").set("forward.destination_grace", "60s");
    let (late, good) = (unique("late"), rig.destination(1));
    let daemon = rig.config.start_ready();
    let records: Vec<Record> = (0..20)
        .map(|number| overdue(number.to_string(), if number % 2 == 0 { &late } else { &good }))
        .collect();
    rig.send(&records);
    // Its neighbours do not wait for it.
    let odd: Vec<String> = (0..20).filter(|n| n % 2 == 1).map(|n| n.to_string()).collect();
    assert_eq!(texts(&rig.exactly(&good, 10)), odd);
    daemon.wait_metric("kafka_delay_level_isolated_records", &[], 10.0, PATIENCE);
    rig.wait_committed_at(0);
    rig.admin.create_topic(&late, 1);
    let even: Vec<String> = (0..20).filter(|n| n % 2 == 0).map(|n| n.to_string()).collect();
    assert_eq!(texts(&rig.exactly(&late, 10)), even);
    rig.wait_committed();
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
    wait_log(&daemon, "destination takes records again");
}

#[test]
fn a_destination_that_was_given_up_takes_records_again_once_it_exists() {
    let rig = Rig::new(&shared().client(), "1s").set("forward.destination_grace", "500ms");
    let late = unique("late");
    let daemon = rig.config.start_ready();
    rig.send(&[overdue("dead", &late)]);
    assert_eq!(texts(&rig.exactly(&rig.dlq, 1)), ["dead"]);
    rig.admin.create_topic(&late, 1);
    // The first ones may still find what the producer remembers of the missing topic.
    let mut sent = 0;
    let mut reader = rig.client.reader(&late);
    eventually(PATIENCE, || {
        rig.send(&[overdue("again", &late)]);
        sent += 1;
        if reader.during(A_WHILE).is_empty() { Err("nothing forwarded") } else { Ok(()) }
    });
    rig.wait_committed();
    let dead = rig.admin.end_offsets(&rig.dlq)[0] - 1;
    assert_eq!(reader.during(A_WHILE).len(), sent - usize::try_from(dead).unwrap());
    assert!(daemon.is_running());
}

#[test]
fn a_destination_that_is_deleted_and_made_anew_gets_its_records() {
    let rig = Rig::new(&shared().client(), "1s").set("forward.destination_grace", "60s");
    let (moved, good) = (rig.destination(1), rig.destination(1));
    let daemon = rig.config.start_ready();
    rig.send(&[overdue("before", &moved)]);
    assert_eq!(texts(&rig.exactly(&moved, 1)), ["before"]);
    // Its records are under way when it goes.
    rig.send(&(0..2_000).map(|n| overdue(format!("lost or not {n}"), &moved)).collect::<Vec<_>>());
    rig.admin.delete_topic(&moved);
    rig.send(&[overdue("between", &moved), overdue("other", &good)]);
    assert_eq!(texts(&rig.exactly(&good, 1)), ["other"]);
    rig.admin.create_topic(&moved, 3);
    rig.send(&[overdue("after", &moved)]);
    // How many of those were stored before it went, nobody knows.
    let mut reader = rig.client.reader(&moved);
    reader.until_that("the last two", PATIENCE, |seen| {
        let found = texts(seen);
        ["between", "after"].iter().all(|text| found.iter().any(|other| other == text))
    });
    rig.wait_committed();
    let mut seen = texts(reader.during(A_WHILE));
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "none twice");
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
    assert!(daemon.is_running());
}

// Not only after librdkafka's five minutes.
#[test]
fn partitions_that_are_added_to_a_destination_are_found() {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    rig.send(&[overdue("first", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["first"]);
    rig.admin.grow_topic(&destination, 2);
    let added = || overdue("second", &destination).header("origin_partition", "1");
    let mut sent = 0;
    eventually(Duration::from_secs(60), || {
        rig.send(&[added()]);
        sent += 1;
        rig.wait_committed();
        match rig.admin.end_offsets(&destination)[1] {
            0 => Err("partition 1 is not known yet"),
            _ => Ok(()),
        }
    });
    let dead = rig.admin.end_offsets(&rig.dlq)[0];
    assert_eq!(rig.admin.end_offsets(&destination), [1, sent - dead], "none lost");
    let name = "kafka_delay_records_dead_lettered_total";
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    let expected = Some(dead as f64);
    assert_eq!(daemon.metric(name, &[("reason", "invalid_partition")]), expected);
}

// R52: nothing is lost and the good records go on while there is no dead-letter topic.
#[test]
fn without_its_topic_a_dead_letter_waits_until_the_topic_is_made() {
    let rig = Rig::bare(&shared().client(), 1, &[])
        .set("delay.levels", "1s")
        .set("retry.max_backoff", "1s");
    let good = rig.destination(1);
    let refused = rig.config.start().wait_exit(PATIENCE);
    assert_eq!(refused.code(), Some(78), "strict");
    let rig = rig.set("source.verify_topic", "warn");
    let daemon = rig.config.start_ready();
    let records = [
        overdue("good 0", &good),
        overdue("bad 0", "not a topic"),
        overdue("good 1", &good),
        overdue("bad 1", &rig.delay),
        overdue("good 2", &good),
    ];
    let places = rig.send(&records);
    assert_eq!(texts(&rig.exactly(&good, 3)), ["good 0", "good 1", "good 2"]);
    daemon.wait_metric("kafka_delay_level_isolated_records", &[], 2.0, PATIENCE);
    eventually(PATIENCE, || match rig.admin.committed(&rig.config.group, &rig.delay).get(&0) {
        Some(1) => Ok(()),
        other => Err(format!("committed {other:?}, not up to the first bad record")),
    });
    rig.admin.create_topic(&rig.dlq, 1);
    let dead = rig.exactly(&rig.dlq, 2);
    assert_dead_letter(&rig, &dead[0], &records[1], places[1], "invalid_origin_topic");
    assert_dead_letter(&rig, &dead[1], &records[3], places[3], "loop");
    rig.wait_committed();
    assert_eq!(rig.exactly(&good, 3).len(), 3, "none forwarded again");
}

#[test]
fn without_a_dead_letter_topic_the_level_halts_at_the_record_and_others_go_on() {
    let rig = Rig::new(&shared().client(), "1s,5s").set("dead_letter.topic", "");
    let good = rig.destination(1);
    let daemon = rig.config.start_ready();
    rig.send(&[
        overdue("before", &good),
        overdue("bad", "not a topic"),
        overdue("behind", &good),
        overdue("other level", &good).partition(1),
    ]);
    let halted = [("level", "1"), ("reason", "halted")];
    daemon.wait_metric("kafka_delay_level_paused", &halted, 1.0, PATIENCE);
    let mut seen = texts(&rig.exactly(&good, 2));
    seen.sort();
    assert_eq!(seen, ["before", "other level"]);
    wait_log(&daemon, "level halted");
    daemon.stop(PATIENCE);
    assert_eq!(
        rig.admin.committed(&rig.config.group, &rig.delay),
        [(0, 1), (1, 1)].into(),
        "the refused record is not committed"
    );
    // With a dead-letter topic it goes on where it stood.
    let dlq = rig.dlq.clone();
    let rig = rig.set("dead_letter.topic", &dlq);
    let _daemon = rig.config.start_ready();
    assert_eq!(texts(&rig.exactly(&rig.dlq, 1)), ["bad"]);
    assert_eq!(rig.exactly(&good, 3).len(), 3);
    rig.wait_committed();
}

#[test]
fn without_a_dead_letter_topic_records_are_dropped_and_counted_on_request() {
    let rig = Rig::new(&shared().client(), "1s")
        .set("dead_letter.topic", "")
        .set("dead_letter.on_failure", "drop")
        .set("forward.destination_grace", "500ms");
    let good = rig.destination(1);
    let daemon = rig.config.start_ready();
    rig.send(&[
        overdue("bad", "not a topic"),
        overdue("unknown", &unique("missing")),
        overdue("partition", &good).header("origin_partition", "9"),
        overdue("good", &good),
    ]);
    assert_eq!(texts(&rig.exactly(&good, 1)), ["good"]);
    rig.wait_committed();
    for reason in ["invalid_origin_topic", "unknown_topic", "invalid_partition"] {
        let name = "kafka_delay_records_dropped_total";
        daemon.wait_metric(name, &[("reason", reason)], 1.0, Duration::from_secs(60));
    }
    assert_eq!(rig.admin.end_offsets(&rig.dlq), [0]);
}
