//! The loop in exactly-once mode: what is sent, committed and aborted, in which order.

use super::*;
use crate::engine::Trouble;
use crate::kafka::AbortCause;

/// Partition 0 assigned at offset 0.
fn bench() -> Bench {
    let mut bench = Bench::with(MissingOffset::Earliest, true);
    bench.assign(0);
    bench
}

/// One pass, and another if it had to wait until the coordinator knows of the transaction.
fn pass(bench: &mut Bench, later_ms: i64) -> Vec<String> {
    let mut calls = bench.pass(later_ms);
    if calls.last().is_some_and(|call| call == "open") {
        calls.pop();
        calls.extend(bench.pass(0));
    }
    calls
}

/// So many passes, a second apart.
fn seconds(bench: &mut Bench, count: usize) -> Vec<String> {
    (0..count).flat_map(|_| pass(bench, 1_000)).collect()
}

/// As above, with the overdue records 0, 1, … to these topics sent.
fn with_sent(topics: &[&str]) -> Bench {
    let mut bench = bench();
    pass(&mut bench, 1_000);
    for (offset, topic) in (0..).zip(topics) {
        record_to(&mut bench, offset, topic);
    }
    let sends: Vec<String> =
        (0..).zip(topics).map(|(offset, topic)| format!("send {offset} to {topic}")).collect();
    assert_eq!(pass(&mut bench, 1), sends);
    bench
}

fn record_to(bench: &mut Bench, offset: i64, topic: &str) {
    let record = Fetched::Record(TestRecord::to(topic, offset, Some(1)));
    bench.port().queues.entry(0).or_default().push_back(record);
}

fn committed(bench: &mut Bench) {
    bench.event(Event::Committed(Ok(())));
}

fn trouble(trouble: Trouble) -> Result<(), Refusal> {
    Err(Refusal::Trouble(trouble))
}

fn cause(trouble: Trouble) -> Event {
    Event::Aborted(Some(AbortCause { text: "refused".to_owned(), trouble: Some(trouble) }))
}

#[test]
fn a_transaction_is_committed_with_its_offsets_once_every_send_has_ended() {
    let mut bench = with_sent(&["orders", "orders"]);
    bench.deliver(1);
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new(), "one send is under way");
    record_to(&mut bench, 2, "orders");
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new(), "the transaction is ending");
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 1), ["commit [(0, 2)]"]);
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new(), "nothing is sent while it is committed");
    committed(&mut bench);
    assert_eq!(pass(&mut bench, 1), ["send 2 to orders"]);
    bench.deliver(2);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 3)]"]);
    let text = bench.metrics.encode().unwrap();
    let forwarded = "kafka_delay_records_forwarded_total{delay=\"1s\",level=\"1\"} 2";
    assert!(text.contains(forwarded), "{text}");
}

#[test]
fn a_destination_that_never_took_a_record_is_written_to_when_the_coordinator_knows() {
    let mut bench = bench();
    record_to(&mut bench, 0, "orders");
    record_to(&mut bench, 1, "bills");
    assert_eq!(bench.pass(1_000), ["open"]);
    assert_eq!(bench.pass(1), ["send 0 to orders", "send 1 to bills"], "once a transaction");
    bench.deliver(0);
    bench.deliver(1);
    assert_eq!(bench.pass(40), ["commit [(0, 2)]"]);
    committed(&mut bench);
    record_to(&mut bench, 2, "bills");
    assert_eq!(bench.pass(1), ["send 2 to bills"], "it has taken one");
}

// Transaction markers and aborted records leave gaps in the log, of any size.
#[test]
fn a_record_behind_a_long_gap_is_sent() {
    let mut bench = bench();
    record_to(&mut bench, 30_000, "orders");
    pass(&mut bench, 1_000);
    assert_eq!(bench.port().sent.len(), 1);
}

#[test]
fn a_transaction_that_nobody_answers_is_made_known_while_it_can_be() {
    let mut bench = with_sent(&["orders"]);
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 1)]"]);
    committed(&mut bench);
    record_to(&mut bench, 1, "orders");
    assert_eq!(bench.pass(1), ["send 1 to orders"], "it has taken one");
    assert_eq!(bench.pass(900), Vec::<String>::new());
    assert_eq!(bench.pass(100), ["open"]);
    record_to(&mut bench, 2, "orders");
    assert_eq!(bench.pass(1_000), Vec::<String>::new(), "once, and nothing is added to it");
    bench.answer(1, trouble(Trouble::Transient));
    assert_eq!(bench.pass(1), ["abort"]);
}

#[test]
fn a_transaction_that_the_coordinator_may_not_know_of_is_made_known_before_it_is_aborted() {
    let mut bench = with_sent(&["orders"]);
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 1)]"]);
    committed(&mut bench);
    record_to(&mut bench, 1, "orders");
    assert_eq!(bench.pass(1), ["send 1 to orders"], "it has taken one");
    bench.answer(1, trouble(Trouble::UnknownTopic));
    assert_eq!(bench.pass(1), ["add [(0, 1)], abort"]);
}

#[test]
fn a_transaction_that_only_the_coordinator_knows_of_ends_with_its_partition() {
    let mut bench = bench();
    record_to(&mut bench, 0, "orders");
    assert_eq!(bench.pass(1_000), ["open"]);
    bench.event(Event::Revoked { partitions: vec![0], lost: true });
    assert_eq!(bench.pass(1), ["unassign [0]", "abort"]);
}

#[test]
fn commits_of_single_records_keep_their_distance() {
    let mut bench = with_sent(&["orders"]);
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 0), ["commit [(0, 1)]"]);
    committed(&mut bench);
    record_to(&mut bench, 1, "orders");
    assert_eq!(pass(&mut bench, 1), ["send 1 to orders"]);
    bench.deliver(1);
    let (ended, calls) = bench.try_pass(1).unwrap();
    assert_eq!(calls, Vec::<String>::new());
    let Pass::Idle(wakeup) = ended else { panic!("{ended:?}") };
    let next_ms = wakeup.steady_ms.expect("it says when the next commit is due");
    let later_ms = next_ms - bench.elapsed_ms;
    assert_eq!(pass(&mut bench, later_ms), ["commit [(0, 2)]"]);
}

#[test]
fn a_refused_record_aborts_and_the_others_are_sent_anew_in_order() {
    let mut bench = with_sent(&["orders", "ghost", "orders"]);
    bench.deliver(0);
    bench.answer(1, trouble(Trouble::UnknownTopic));
    assert_eq!(pass(&mut bench, 1), ["abort"], "without waiting for the third");
    bench.answer(2, Err(Refusal::Undone));
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 1), ["send 0 to orders", "send 2 to orders"]);
    bench.deliver(3);
    bench.deliver(4);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 1)] and [2]"]);
}

#[test]
fn a_destination_in_trouble_is_tried_in_a_transaction_of_its_own() {
    let mut bench = with_sent(&["ghost"]);
    bench.answer(0, trouble(Trouble::UnknownTopic));
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.event(Event::Aborted(None));
    record_to(&mut bench, 1, "orders");
    assert_eq!(pass(&mut bench, 1), ["send 1 to orders"]);
    // The pause before the next try is over while the record for the other is under way.
    assert_eq!(pass(&mut bench, 400), Vec::<String>::new());
    bench.deliver(1);
    assert_eq!(pass(&mut bench, 1), ["commit [(0, 0)] and [1]"]);
    committed(&mut bench);
    record_to(&mut bench, 2, "orders");
    assert_eq!(pass(&mut bench, 1), ["send 0 to ghost"]);
    bench.deliver(2);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 2)]"]);
    committed(&mut bench);
    assert_eq!(pass(&mut bench, 1), ["send 2 to orders"]);
}

#[test]
fn a_failure_that_names_no_record_is_blamed_on_the_only_destination() {
    let mut bench = with_sent(&["secret", "secret"]);
    for index in [0, 1] {
        bench.answer(index, Err(Refusal::Undone));
    }
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.event(cause(Trouble::Unauthorized));
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new(), "it waits for its grace");
    let mut calls = pass(&mut bench, 500);
    assert_eq!(calls, ["send 0 to secret"]);
    // Refused until the grace is over: then it is dead-lettered, and nothing waits any more.
    for _ in 0..40 {
        if calls.iter().any(|call| call.ends_with("to dlq")) {
            return;
        }
        if calls.iter().any(|call| call.starts_with("send")) {
            let last = bench.port().sent.len() - 1;
            bench.answer(last, Err(Refusal::Undone));
            assert_eq!(pass(&mut bench, 1), ["abort"]);
            bench.event(cause(Trouble::Unauthorized));
        }
        calls = pass(&mut bench, 500);
    }
    panic!("never dead-lettered");
}

#[test]
fn of_several_destinations_each_is_tried_by_itself_after_an_unexplained_failure() {
    let mut bench = with_sent(&["orders", "secret"]);
    for index in [0, 1] {
        bench.answer(index, Err(Refusal::Undone));
    }
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.event(cause(Trouble::Unauthorized));
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new());
    assert_eq!(pass(&mut bench, 250), ["send 0 to orders"]);
    bench.deliver(2);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 1)]"]);
    committed(&mut bench);
    assert_eq!(pass(&mut bench, 1), ["send 1 to secret"]);
}

#[test]
fn a_destination_in_trouble_that_does_not_answer_holds_up_the_others_for_a_second_only() {
    let mut bench = with_sent(&["away"]);
    bench.answer(0, trouble(Trouble::Transient));
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new());
    assert_eq!(pass(&mut bench, 200), ["send 0 to away"]);
    record_to(&mut bench, 1, "orders");
    assert_eq!(pass(&mut bench, 900), Vec::<String>::new());
    assert_eq!(pass(&mut bench, 100), ["abort"]);
    bench.answer(1, Err(Refusal::Undone));
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 1), ["send 1 to orders"], "it waits for its next try");
}

#[test]
fn a_commit_that_is_refused_is_aborted_and_everything_sent_anew() {
    let mut bench = with_sent(&["orders", "orders"]);
    bench.deliver(0);
    bench.deliver(1);
    assert_eq!(pass(&mut bench, 1), ["commit [(0, 2)]"]);
    bench.event(Event::Committed(Err("illegal generation".to_owned())));
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 1), ["send 0 to orders", "send 1 to orders"]);
    bench.deliver(2);
    bench.deliver(3);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 2)]"]);
}

#[test]
fn aborts_in_a_row_are_followed_by_growing_pauses() {
    let mut bench = with_sent(&["orders"]);
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let last = bench.port().sent.len() - 1;
        bench.deliver(last);
        pass(&mut bench, 40);
        bench.event(Event::Committed(Err("rebalance".to_owned())));
        pass(&mut bench, 0);
        bench.event(Event::Aborted(None));
        let mut pause_ms = 0;
        while pass(&mut bench, i64::from(pause_ms > 0)).is_empty() {
            pause_ms += 1;
        }
        pauses.push(pause_ms);
    }
    assert!(pauses[0] == 0 && pauses.is_sorted() && pauses[4] > 100, "{pauses:?}");
}

#[test]
fn a_lost_partition_takes_the_open_transaction_with_it() {
    let mut bench = with_sent(&["orders"]);
    bench.deliver(0);
    bench.event(Event::Revoked { partitions: vec![0], lost: true });
    assert_eq!(pass(&mut bench, 0), ["unassign [0]", "abort"]);
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 40), Vec::<String>::new(), "the next owner forwards it");
}

#[test]
fn a_revoked_partition_ends_the_transaction_before_it_is_given_back() {
    let mut bench = with_sent(&["orders"]);
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new());
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 1), ["commit [(0, 1)]"]);
    assert_eq!(pass(&mut bench, 1), Vec::<String>::new());
    committed(&mut bench);
    assert_eq!(pass(&mut bench, 1), ["unassign [0]"]);
}

#[test]
fn a_partition_given_up_before_its_sends_ended_aborts_the_transaction() {
    let mut bench = with_sent(&["orders"]);
    bench.event(Event::Revoked { partitions: vec![0], lost: false });
    pass(&mut bench, 1);
    let calls = seconds(&mut bench, 10);
    assert_eq!(calls, ["unassign [0]", "abort"]);
}

#[test]
fn a_destination_that_does_not_answer_does_not_hold_up_the_others_for_long() {
    let mut bench = with_sent(&["orders", "away", "bills"]);
    bench.deliver(0);
    assert_eq!(seconds(&mut bench, 10), Vec::<String>::new());
    bench.deliver(2);
    assert_eq!(seconds(&mut bench, 10), Vec::<String>::new(), "it came forward meanwhile");
    assert_eq!(seconds(&mut bench, 4), ["abort"]);
    bench.answer(1, Err(Refusal::Undone));
    bench.event(Event::Aborted(None));
    assert_eq!(pass(&mut bench, 1), ["send 0 to orders", "send 2 to bills"]);
    bench.deliver(3);
    bench.deliver(4);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 1)] and [2]"]);
    committed(&mut bench);
    assert_eq!(pass(&mut bench, 1_000), ["send 1 to away"], "by itself");
}

#[test]
fn a_stop_commits_what_is_sent_and_aborts_what_never_ends() {
    let mut bench = with_sent(&["orders"]);
    let now = bench.now();
    bench.worker.stop(now);
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 1), ["commit [(0, 1)]"]);
    committed(&mut bench);
    assert_eq!(bench.try_pass(1).unwrap(), (Pass::Stopped, vec![]));

    let mut bench = with_sent(&["orders"]);
    let now = bench.now();
    bench.worker.stop(now);
    pass(&mut bench, 4_000);
    let (ended, calls) = bench.try_pass(1_001).unwrap();
    assert!(ended != Pass::Stopped && calls.is_empty(), "{ended:?} {calls:?}");
    assert_eq!(pass(&mut bench, 1), ["abort"]);
    bench.answer(0, Err(Refusal::Undone));
    bench.event(Event::Aborted(None));
    assert_eq!(bench.try_pass(1).unwrap(), (Pass::Stopped, vec![]));
}

#[test]
fn what_an_earlier_owner_settled_is_passed_over() {
    let mut bench = Bench::with(MissingOffset::Earliest, true);
    bench.event(Event::Assigned(vec![0]));
    pass(&mut bench, 0);
    let ahead = Ahead::new(5, [6, 8].into_iter());
    bench.located(&[Located { ahead, ..at(0, Some(5), 0, 100) }]);
    pass(&mut bench, 1_000);
    for offset in 5..9 {
        record_to(&mut bench, offset, "orders");
    }
    assert_eq!(pass(&mut bench, 1), ["send 5 to orders", "send 7 to orders"]);
    bench.deliver(0);
    bench.deliver(1);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 9)]"]);
}

#[test]
fn what_an_earlier_owner_settled_is_told_again_until_it_is_read() {
    let mut bench = Bench::with(MissingOffset::Earliest, true);
    bench.event(Event::Assigned(vec![0]));
    pass(&mut bench, 0);
    let ahead = Ahead::new(5, [7].into_iter());
    bench.located(&[Located { ahead, ..at(0, Some(5), 0, 100) }]);
    pass(&mut bench, 1_000);
    record_to(&mut bench, 5, "orders");
    assert_eq!(pass(&mut bench, 1), ["send 5 to orders"]);
    bench.deliver(0);
    assert_eq!(pass(&mut bench, 40), ["commit [(0, 6)] and [7]"]);
}
