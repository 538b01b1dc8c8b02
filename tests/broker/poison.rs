//! A flood of records that nobody can forward: all dead-lettered for the right reason, within
//! bounds of memory and log, while another level goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::rig::{PATIENCE, Rig};
use crate::support::{Record, now_ms, shared};

/// Records of each kind of fault but the last, and records that name a topic of their own that does
/// not exist. `POISON=long` is for `make fuzz`.
fn counts() -> (usize, usize) {
    match std::env::var("POISON").as_deref() {
        Ok("long") => (4_000, 20_000),
        Ok(other) => panic!("POISON={other}: only `long` is known"),
        Err(_) => (400, 1_000),
    }
}

/// What the flood may cost in memory. librdkafka keeps about 24 KiB for each topic that it was
/// asked to write to, there or not: 116 MiB for 5 000 of them, 462 MiB for 20 000 were measured.
const MEMORY: u64 = 64 << 20;
const MEMORY_A_TOPIC: u64 = 48 << 10;

/// What the flood may write to the log in ten seconds, which is `log.repeat_window`: 256 different
/// lines and a summary of each, where 60 000 lines would be due in all.
const LINES_A_WINDOW: usize = 600;

/// Records by kind; the value of each is the reason that it must get.
fn poison(rig: &Rig, (each, unknown): (usize, usize)) -> Vec<Record> {
    let overdue = |reason: &str| Record::new(reason).partition(0).timestamp(now_ms() - 60_000);
    let giant = vec![b'x'; 100_000];
    let names = ["", "a/b", "..", "a b", &"x".repeat(250), "a\0b", "\u{2028}", "'; --"];
    let mut records = Vec::new();
    for number in 0..each {
        records.push(overdue("missing_origin_topic").header("Origin_Topic", "orders"));
        records.push(overdue("invalid_origin_topic").to(names[number % names.len()]));
        records.push(overdue("invalid_origin_topic").header("origin_topic", b"\xff\xfe\x00"));
        records.push(overdue("loop").to(&rig.delay));
        let denied = if number % 2 == 0 { "__consumer_offsets" } else { &rig.dlq };
        records.push(overdue("denied_origin_topic").to(denied));
        if number % 40 == 0 {
            records.push(overdue("missing_origin_topic").header(&giant[..100], &giant));
        }
    }
    let run = now_ms();
    for number in 0..unknown {
        records.push(overdue("unknown_topic").to(&format!("no-such-topic-{run}-{number}")));
    }
    records
}

// R68, R70, R76, R77, R78
#[test]
fn a_flood_of_poison_is_dead_lettered_within_bounds_while_another_level_goes_on() {
    let rig = Rig::new(&shared().client(), "1s,2s")
        .set("forward.destination_grace", "1s")
        .set("log.filter", "info");
    let orders = rig.destination(1);
    let daemon = rig.config.start_ready();
    let (lines, memory) = (daemon.log().lines().count(), daemon.resident_bytes());

    let begun = Instant::now();
    let (each, unknown) = counts();
    let poison = poison(&rig, (each, unknown));
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for record in &poison {
        let reason = String::from_utf8(record.value.clone().unwrap()).unwrap();
        *wanted.entry(reason).or_default() += 1;
    }
    let good = |number: usize| Record::new(number.to_string()).partition(1).key("k").to(&orders);
    let mut sent = 0;
    let mut peak = memory;
    let dead_lettered = "kafka_delay_records_dead_lettered_total";
    for part in poison.chunks(poison.len() / 20) {
        rig.send(part);
        rig.send(&[good(sent)]);
        sent += 1;
    }
    let total = poison.len();
    // Good records go on being sent for as long as the flood lasts.
    let mut last = (0.0, Instant::now());
    loop {
        rig.send(&[good(sent)]);
        sent += 1;
        peak = peak.max(daemon.resident_bytes());
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let all = total as f64;
        let count = daemon.metric(dead_lettered, &[]).unwrap();
        if count >= all {
            break;
        }
        if count > last.0 {
            last = (count, Instant::now());
        }
        assert!(last.1.elapsed() < PATIENCE, "no progress after {count} of {total}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = begun.elapsed();
    let windows = usize::try_from(took.as_secs()).unwrap() / 10 + 2;
    println!("{total} records in {took:?}");

    let dead = rig.exactly(&rig.dlq, total);
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for dead in &dead {
        let reason = dead.header_text("kafka_delay_dlq_reason");
        assert_eq!(reason, dead.text(), "{:?}", dead.headers.first());
        *found.entry(reason).or_default() += 1;
    }
    assert_eq!(found, wanted);
    let texts: Vec<String> = rig.exactly(&orders, sent).iter().map(|seen| seen.text()).collect();
    assert_eq!(texts, (0..sent).map(|number| number.to_string()).collect::<Vec<_>>());
    rig.wait_committed();

    let log = daemon.log();
    let written = log.lines().count() - lines;
    let longest = log.lines().map(str::len).max().unwrap();
    println!("memory {} -> {} MiB; {written} lines, longest {longest}", memory >> 20, peak >> 20);
    println!("in the end {} MiB", daemon.resident_bytes() >> 20);
    let bound = memory + MEMORY + MEMORY_A_TOPIC * unknown as u64;
    assert!(peak < bound, "{memory} -> {peak} bytes");
    assert!(written < LINES_A_WINDOW * windows, "{written} lines in {windows} windows");
    assert!(longest < 2_000, "{longest}");
    // A quiet level is not held up by the flood of another: all of it within half a minute.
    let late = daemon.metric("kafka_delay_lateness_seconds_count", &[("level", "2")]);
    let within = [("level", "2"), ("le", "30")];
    assert_eq!(daemon.metric("kafka_delay_lateness_seconds_bucket", &within), late);
    daemon.stop(PATIENCE);
}
