//! Lanes that do not move: whose fault it is, and what becomes of the process.
//!
//! R86: alive, silent and without progress is the worst outcome.

use super::*;
use crate::engine::{Refusal, Trouble};
use crate::kafka::LogRange;

const LIMIT_MS: i64 = 120_000;
const STUCK: &str = "kafka_delay_level_stuck{delay=\"1s\",level=\"1\"} ";

impl Bench {
    /// Passes once a second for `duration_ms`; every question is answered as `answer` says.
    fn live(&mut self, duration_ms: i64, answer: Option<bool>) -> Result<Vec<String>, WorkerError> {
        let mut calls = Vec::new();
        for _ in 0..duration_ms / 1_000 {
            calls.extend(self.try_pass(1_000)?.1);
            for probe in std::mem::take(&mut self.port().probes) {
                if let Some(could_go_on) = answer {
                    self.event(Event::Probed { probe, could_go_on });
                }
            }
        }
        Ok(calls)
    }

    /// Partition 0 assigned at offset 5 of a log that ends at `end`.
    fn reading(end: i64) -> Self {
        let mut bench = Self::new(MissingOffset::Earliest);
        bench.assign(5);
        bench.event(Event::LogRanges(vec![LogRange { partition: 0, start: 0, end }]));
        bench
    }

    /// As above, its record 5 under way to `orders`.
    fn sending() -> Self {
        let mut bench = Self::reading(6);
        bench.record(5, 1);
        assert_eq!(bench.pass(0), ["send 5 to orders"]);
        bench
    }

    /// Records 5 and 6 under way in one transaction.
    fn in_transaction() -> Self {
        let mut bench = Self::with(MissingOffset::Earliest, true);
        bench.assign(5);
        bench.event(Event::LogRanges(vec![LogRange { partition: 0, start: 0, end: 7 }]));
        bench.record(5, 1);
        bench.record(6, 1);
        assert_eq!(bench.pass(1_000), ["open"]);
        assert_eq!(bench.pass(0), ["send 5 to orders", "send 6 to orders"]);
        bench
    }

    fn is_stuck(&self) -> bool {
        let status = self.status.snapshot();
        self.metrics.observe_status(&status);
        let text = self.metrics.encode().unwrap();
        let stuck = text.contains(&format!("{STUCK}1"));
        assert!(stuck || text.contains(&format!("{STUCK}0")), "{text}");
        assert_eq!(status.partitions[0].stuck, stuck);
        stuck
    }
}

fn is_probe(call: &str) -> bool {
    call.starts_with("probe")
}

#[test]
fn a_record_that_others_can_read_and_the_lane_does_not_get_is_stuck_and_ends_the_process() {
    let mut bench = Bench::reading(6);
    assert_eq!(bench.live(LIMIT_MS, Some(true)).unwrap(), Vec::<String>::new());
    let asked = bench.live(3_000, Some(true)).unwrap();
    assert_eq!(asked, ["probe 0: the record at offset 5 to be read"]);
    assert!(bench.is_stuck());
    bench.live(LIMIT_MS - 5_000, Some(true)).unwrap();
    let error = bench.live(5_000, Some(true)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("partition 0 has been stuck for 24"), "{text}");
    assert!(text.contains("waiting for the record at offset 5 to be read"), "{text}");
}

#[test]
fn an_empty_log_is_no_wait() {
    let mut bench = Bench::reading(5);
    assert_eq!(bench.live(10 * LIMIT_MS, Some(true)).unwrap(), Vec::<String>::new());
    assert!(!bench.is_stuck());
}

// R89: brokers that are away for hours are waited for.
#[test]
fn a_lane_that_the_cluster_would_not_let_go_on_is_not_stuck() {
    for answer in [Some(false), None] {
        for mut bench in [Bench::reading(6), Bench::sending()] {
            let calls = bench.live(20 * LIMIT_MS, answer).unwrap();
            let asked = calls.iter().filter(|call| is_probe(call)).count();
            assert!((1..80).contains(&asked), "{asked}: an answer is awaited, then time passes");
            assert!(!bench.is_stuck());
        }
    }
}

#[test]
fn an_outage_while_stuck_begins_the_time_anew() {
    let mut bench = Bench::reading(6);
    bench.live(2 * LIMIT_MS - 5_000, Some(true)).unwrap();
    assert!(bench.is_stuck());
    bench.live(LIMIT_MS, Some(false)).unwrap();
    assert!(!bench.is_stuck());
    bench.live(LIMIT_MS, Some(true)).unwrap();
    assert!(bench.is_stuck(), "others read it again");
    assert!(bench.live(LIMIT_MS, Some(true)).is_err());
}

#[test]
fn a_lane_that_moves_is_not_stuck_any_more() {
    let mut bench = Bench::reading(6);
    bench.live(LIMIT_MS + 5_000, Some(true)).unwrap();
    assert!(bench.is_stuck());
    bench.record(5, 1);
    assert_eq!(bench.live(2_000, Some(true)).unwrap(), ["send 5 to orders"]);
    assert!(!bench.is_stuck());
}

// The engine hands on what is due in every pass; a partition that nobody can fetch again is not
// for brokers to say.
#[test]
fn a_parked_head_that_is_due_and_cannot_be_fetched_is_stuck_without_a_question() {
    let mut bench = Bench::new(MissingOffset::Earliest);
    bench.event(Event::Assigned(vec![5]));
    bench.pass(0);
    bench.located(&[at(5, Some(0), 0, 1)]);
    bench.pass(0);
    let far = Fetched::Record(TestRecord::at(0, Some(START_MS)));
    bench.port().queues.entry(5).or_default().push_back(far);
    bench.port().unpark_fails = true;
    let calls = bench.live(120_000 + 2 * LIMIT_MS - 2_000, None).unwrap();
    assert!(!calls.iter().any(|call| is_probe(call)), "it waits for nobody");
    let error = bench.live(8_000, None).unwrap_err();
    assert!(error.to_string().contains("which is due, to be handed on"), "{error}");
}

#[test]
fn a_silent_producer_whose_destination_answers_ends_the_process() {
    let mut bench = Bench::sending();
    bench.live(2 * LIMIT_MS - 5_000, Some(true)).unwrap();
    assert!(bench.is_stuck());
    let error = bench.live(10_000, Some(true)).unwrap_err();
    assert!(error.to_string().contains("the acknowledgement of offset 5 by orders"), "{error}");
}

// R70: a topic that demands more replicas than it has is never written to, though every leader
// answers. That must not end what the other levels do.
#[test]
fn one_destination_that_never_answers_is_shown_and_ends_nothing_while_others_answer() {
    let mut bench = Bench::sending();
    let other = |bench: &mut Bench, offset: i64, topic: &str| {
        let record = Fetched::Record(TestRecord::to(topic, offset, Some(1)));
        bench.port().queues.entry(0).or_default().push_back(record);
        bench.live(10_000, Some(true)).unwrap();
        let ticket = *bench.port().sent.last().unwrap();
        bench.event(Event::Delivered { ticket, result: Ok(()), took: Duration::ZERO });
    };
    for offset in 6..66 {
        other(&mut bench, offset, "others");
    }
    assert!(bench.is_stuck());
    // The same topic takes others: then the word about this one is lost.
    other(&mut bench, 66, "orders");
    assert!(bench.live(5_000, Some(true)).is_err());
}

#[test]
fn a_destination_in_trouble_is_no_stuck_lane() {
    let mut bench = Bench::sending();
    for _ in 0..100 {
        let ticket = *bench.port().sent.last().unwrap();
        let result = Err(Refusal::Trouble(Trouble::Transient));
        bench.event(Event::Delivered { ticket, result, took: Duration::ZERO });
        bench.live(40_000, Some(true)).unwrap();
        assert!(!bench.is_stuck());
    }
}

#[test]
fn time_in_which_the_process_stood_still_does_not_count() {
    let mut bench = Bench::reading(6);
    bench.live(LIMIT_MS - 2_000, Some(true)).unwrap();
    bench.pass(3_600_000);
    bench.live(LIMIT_MS, Some(true)).unwrap();
    assert!(!bench.is_stuck());
}

#[test]
fn a_full_producer_holds_up_reading_and_no_lane_is_blamed() {
    let mut bench = Bench::reading(9);
    bench.port().full = true;
    bench.record(5, 1);
    bench.live(3 * LIMIT_MS, Some(false)).unwrap();
    assert!(!bench.is_stuck());
}

const TRANSACTION: &str = "probe 0: the transaction of offset 5 to end";

// The record before is acknowledged, and yet neither is forwarded for those who read committed.
#[test]
fn a_transaction_whose_sends_and_abort_never_end_is_stuck_and_ends_the_process() {
    let mut bench = Bench::in_transaction();
    bench.deliver(0);
    assert_eq!(bench.live(LIMIT_MS - 1_000, Some(true)).unwrap(), ["abort"]);
    assert_eq!(bench.live(3_000, Some(true)).unwrap(), [TRANSACTION]);
    assert!(bench.is_stuck());
    bench.live(LIMIT_MS - 5_000, Some(true)).unwrap();
    let error = bench.live(5_000, Some(true)).unwrap_err();
    assert!(
        error.to_string().contains("waiting for the transaction of offset 5 to end"),
        "{error}"
    );
}

#[test]
fn a_transaction_whose_commit_or_abort_never_ends_is_stuck_and_ends_the_process() {
    for refused in [false, true] {
        let mut bench = Bench::in_transaction();
        let result = if refused { Err(Refusal::Undone) } else { Ok(()) };
        bench.answer(0, result.clone());
        bench.answer(1, result);
        let end = if refused { "abort" } else { "commit [(0, 7)]" };
        assert_eq!(bench.live(LIMIT_MS - 1_000, Some(true)).unwrap(), [end]);
        assert_eq!(bench.live(3_000, Some(true)).unwrap(), [TRANSACTION]);
        assert!(bench.is_stuck());
        assert!(bench.live(LIMIT_MS, Some(true)).is_err());
    }
}

#[test]
fn a_transaction_that_ended_is_not_stuck_any_more() {
    let mut bench = Bench::in_transaction();
    bench.live(LIMIT_MS + 5_000, Some(true)).unwrap();
    assert!(bench.is_stuck());
    bench.event(Event::Aborted(None));
    let calls = bench.live(2_000, Some(true)).unwrap();
    assert_eq!(calls, ["open", "send 5 to orders", "send 6 to orders"], "sent anew");
    assert!(!bench.is_stuck());
    bench.deliver(2);
    bench.deliver(3);
    assert_eq!(bench.live(1_000, Some(true)).unwrap(), ["commit [(0, 7)]"]);
    bench.event(Event::Committed(Ok(())));
    bench.live(10 * LIMIT_MS, Some(true)).unwrap();
    assert!(!bench.is_stuck());
}

// R89
#[test]
fn a_transaction_that_waits_for_brokers_is_not_stuck_and_neither_is_one_tried_again_and_again() {
    let mut bench = Bench::in_transaction();
    bench.live(20 * LIMIT_MS, Some(false)).unwrap();
    assert!(!bench.is_stuck());
    for _ in 0..20 {
        bench.event(Event::Aborted(None));
        bench.live(LIMIT_MS / 2, Some(true)).unwrap();
        assert!(!bench.is_stuck());
    }
}
