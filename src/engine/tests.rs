//! Tests of the engine as a whole: lanes, destinations and limits together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::destinations::RetryPolicy;
use super::testing::TestRecord;
use super::time::Now;
use super::{
    Action, Ahead, Commit, DestinationPolicy, Engine, EngineConfig, Form, LevelTable, Notice,
    Refusal, RejectReason, Rejection, Ticket, TopicPattern, Trouble,
};

mod hostile;

const NOW_MS: i64 = 1_800_000_000_000;
const GRACE_MS: i64 = 5_000;

fn config() -> EngineConfig {
    EngineConfig {
        levels: LevelTable::new(&[Duration::from_secs(1), Duration::from_secs(60)]).unwrap(),
        policy: DestinationPolicy::new(
            "delay_topic".into(),
            Some("dlq".into()),
            vec![TopicPattern::parse("/.*/").unwrap()],
            vec![],
        ),
        dead_letter_topic: Some("dlq".into()),
        drop_refused: false,
        park_after_ms: 10_000,
        wake_lead_ms: 1_500,
        future_tolerance_ms: 5_000,
        retry: RetryPolicy { grace_ms: GRACE_MS, initial_backoff_ms: 200, max_backoff_ms: 30_000 },
        max_in_flight_bytes: 10_000,
        max_in_flight_records: 1_000,
        transactional: false,
    }
}

/// Both clocks at the same reading.
fn at(now_ms: i64) -> Now {
    Now { wall_ms: now_ms, steady_ms: now_ms }
}

/// The earlier of the two wake-ups, the clocks reading the same.
fn next_wakeup_ms(engine: &Engine<TestRecord>, now_ms: i64) -> Option<i64> {
    let wakeup = engine.next_wakeup(now_ms);
    wakeup.wall_ms.into_iter().chain(wakeup.steady_ms).min()
}

fn engine_with(config: EngineConfig) -> Engine<TestRecord> {
    let mut engine = Engine::new(config);
    engine.assign(0, 0, Ahead::default());
    engine.assign(1, 0, Ahead::default());
    engine
}

fn engine() -> Engine<TestRecord> {
    engine_with(config())
}

/// Reads an overdue record for `topic` into partition 0 and hands it on.
fn read(engine: &mut Engine<TestRecord>, offset: i64, topic: &str, now_ms: i64) {
    engine.offer(0, TestRecord::to(topic, offset, Some(1)), now_ms);
    engine.advance(at(now_ms));
}

/// Sends what the engine wants sent: (ticket, offset, topic).
fn sends(engine: &mut Engine<TestRecord>) -> Vec<(Ticket, i64, String)> {
    let mut sent = Vec::new();
    while let Some(action) = engine.next_action() {
        if let Action::Send(ticket) = action {
            let outgoing = engine.outgoing(ticket).expect("live");
            sent.push((ticket, outgoing.record.offset, outgoing.topic.to_string()));
        }
    }
    sent
}

fn offsets(sent: &[(Ticket, i64, String)]) -> Vec<i64> {
    sent.iter().map(|(_, offset, _)| *offset).collect()
}

fn notices(engine: &mut Engine<TestRecord>) -> Vec<Notice> {
    std::iter::from_fn(|| engine.next_notice()).collect()
}

fn refuse(engine: &mut Engine<TestRecord>, ticket: Ticket, trouble: Trouble, now_ms: i64) {
    engine.settled(ticket, Err(Refusal::Trouble(trouble)), now_ms);
}

fn prefix(engine: &Engine<TestRecord>) -> i64 {
    engine.lane(0).unwrap().window.prefix()
}

#[test]
fn a_record_is_forwarded_committed_and_counted() {
    let mut engine = engine();
    engine.offer(0, TestRecord::at(7, Some(NOW_MS)), NOW_MS);
    engine.advance(at(NOW_MS + 999));
    assert_eq!(engine.next_action(), None);
    assert_eq!(next_wakeup_ms(&engine, NOW_MS), Some(NOW_MS + 1_000));
    engine.advance(at(NOW_MS + 1_000));
    let sent = sends(&mut engine);
    assert_eq!(offsets(&sent), [7]);
    assert_eq!(engine.uncommitted().next().map(|commit| commit.offset), Some(7));
    engine.settled(sent[0].0, Ok(()), NOW_MS + 1_003);
    let commit = engine.uncommitted().next().unwrap();
    assert_eq!((commit.partition, commit.offset), (0, 8));
    engine.committed(&commit);
    assert_eq!(engine.uncommitted().count(), 0);
    assert!(matches!(
        &notices(&mut engine)[..],
        [Notice::Forwarded { partition: 0, due_ms, topic, .. }]
            if *due_ms == NOW_MS + 1_000 && &**topic == "orders"
    ));
    assert_eq!(engine.in_flight(), (0, 0));
}

#[test]
fn the_far_head_of_one_level_does_not_hold_up_another() {
    let mut engine = engine();
    engine.offer(1, TestRecord::at(0, Some(NOW_MS)), NOW_MS);
    engine.offer(0, TestRecord::at(0, Some(1)), NOW_MS);
    engine.advance(at(NOW_MS));
    let actions: Vec<Action> = std::iter::from_fn(|| engine.next_action()).collect();
    assert!(actions.contains(&Action::Park { partition: 1, offset: 0 }), "{actions:?}");
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Send(ticket) if ticket.partition == 0))
    );
}

#[test]
fn an_unknown_destination_is_tried_for_its_grace_and_then_dead_lettered() {
    let mut engine = engine();
    read(&mut engine, 0, "ghost", NOW_MS);
    let mut sent = sends(&mut engine);
    let mut now_ms = NOW_MS;
    while sent[0].2 == "ghost" {
        assert!(now_ms <= NOW_MS + GRACE_MS + 1_000, "grace has passed");
        refuse(&mut engine, sent[0].0, Trouble::UnknownTopic, now_ms);
        sent = sends(&mut engine);
        if sent.is_empty() {
            now_ms = next_wakeup_ms(&engine, now_ms).expect("a retry is planned");
            engine.advance(at(now_ms));
            sent = sends(&mut engine);
        }
    }
    assert!(now_ms >= NOW_MS + GRACE_MS);
    assert_eq!(sent[0].2, "dlq");
    let outgoing = engine.outgoing(sent[0].0).unwrap();
    let Form::DeadLetter { rejection, level: 1 } = outgoing.form else { panic!("{outgoing:?}") };
    assert_eq!(rejection.reason, RejectReason::UnknownTopic);
    engine.settled(sent[0].0, Ok(()), now_ms);
    assert_eq!(prefix(&engine), 1);

    // what comes later is rejected without waiting, except for one probe a second
    read(&mut engine, 1, "ghost", now_ms);
    assert_eq!(sends(&mut engine)[0].2, "dlq");
    read(&mut engine, 2, "ghost", now_ms + 1_000);
    let probe = sends(&mut engine);
    assert_eq!(probe[0].2, "ghost");
    read(&mut engine, 3, "ghost", now_ms + 1_000);
    assert_eq!(sends(&mut engine)[0].2, "dlq");

    // the topic has appeared: the destination is open again
    engine.settled(probe[0].0, Ok(()), now_ms + 1_001);
    read(&mut engine, 4, "ghost", now_ms + 1_001);
    assert_eq!(sends(&mut engine)[0].2, "ghost");
    assert_eq!(engine.destinations_in_trouble().count(), 0);
}

#[test]
fn a_destination_created_late_gets_its_records_in_order() {
    let mut engine = engine();
    for offset in 0..3 {
        read(&mut engine, offset, "late", NOW_MS);
    }
    let sent = sends(&mut engine);
    for (ticket, ..) in &sent {
        refuse(&mut engine, *ticket, Trouble::UnknownTopic, NOW_MS);
    }
    read(&mut engine, 3, "late", NOW_MS);
    read(&mut engine, 4, "orders", NOW_MS);
    assert_eq!(offsets(&sends(&mut engine)), [4], "other destinations go on");
    let mut order = Vec::new();
    let mut now_ms = NOW_MS;
    while order.len() < 4 {
        now_ms = next_wakeup_ms(&engine, now_ms).unwrap_or(now_ms).max(now_ms);
        engine.advance(at(now_ms));
        for (ticket, offset, _) in sends(&mut engine) {
            order.push(offset);
            engine.settled(ticket, Ok(()), now_ms);
        }
    }
    assert_eq!(order, [0, 1, 2, 3]);
    assert_eq!(engine.destinations_in_trouble().count(), 0);
}

#[test]
fn only_the_record_that_is_too_large_itself_is_rejected() {
    let mut engine = engine();
    for offset in 0..20 {
        read(&mut engine, offset, "orders", NOW_MS);
    }
    let poison = 7;
    let mut delivered = BTreeSet::new();
    let mut rejected = BTreeSet::new();
    for _ in 0..200 {
        let sent = sends(&mut engine);
        let batch: BTreeSet<i64> =
            sent.iter().filter(|(_, _, topic)| topic == "orders").map(|(_, o, _)| *o).collect();
        for (ticket, offset, topic) in sent {
            if topic == "dlq" {
                rejected.insert(offset);
                engine.settled(ticket, Ok(()), NOW_MS);
            } else if batch.contains(&poison) {
                refuse(&mut engine, ticket, Trouble::TooLarge, NOW_MS);
            } else {
                delivered.insert(offset);
                engine.settled(ticket, Ok(()), NOW_MS);
            }
        }
        engine.advance(at(NOW_MS));
    }
    assert_eq!(rejected, BTreeSet::from([poison]));
    assert_eq!(delivered.len(), 19);
    assert_eq!(prefix(&engine), 20);
    assert_eq!(engine.destinations_in_trouble().count(), 0);
}

#[test]
fn a_dead_letter_topic_that_refuses_holds_the_prefix_until_it_takes_the_record() {
    let mut engine = engine();
    read(&mut engine, 0, "..", NOW_MS);
    read(&mut engine, 1, "orders", NOW_MS);
    let sent = sends(&mut engine);
    assert_eq!((sent[0].2.as_str(), sent[1].2.as_str()), ("dlq", "orders"));
    engine.settled(sent[1].0, Ok(()), NOW_MS);
    let mut now_ms = NOW_MS;
    let mut ticket = sent[0].0;
    for round in 0..20 {
        let refusal = if round % 2 == 0 {
            Refusal::Trouble(Trouble::UnknownTopic)
        } else {
            Refusal::Permanent(Rejection::new(RejectReason::ProduceFailed, "policy"))
        };
        engine.settled(ticket, Err(refusal), now_ms);
        assert_eq!(prefix(&engine), 0);
        now_ms = next_wakeup_ms(&engine, now_ms).expect("tried again");
        engine.advance(at(now_ms));
        ticket = sends(&mut engine)[0].0;
    }
    engine.settled(ticket, Ok(()), now_ms);
    assert_eq!(prefix(&engine), 2);
    assert!(notices(&mut engine).iter().any(|notice| matches!(
        notice,
        Notice::DeadLettered { offset: 0, rejection, .. }
            if rejection.reason == RejectReason::InvalidOriginTopic
    )));
}

#[test]
fn without_a_dead_letter_topic_the_level_halts_or_drops() {
    let mut halting = config();
    halting.dead_letter_topic = None;
    let mut dropping = halting.clone();
    dropping.drop_refused = true;

    let mut engine = engine_with(halting);
    read(&mut engine, 0, "..", NOW_MS);
    read(&mut engine, 1, "orders", NOW_MS);
    assert_eq!(sends(&mut engine), []);
    assert!(engine.lane(0).unwrap().halted);
    assert!(matches!(notices(&mut engine)[..], [Notice::Halted { offset: 0, .. }]));
    assert_eq!(engine.uncommitted().count(), 0);

    let mut engine = engine_with(dropping);
    read(&mut engine, 0, "..", NOW_MS);
    read(&mut engine, 1, "orders", NOW_MS);
    assert_eq!(offsets(&sends(&mut engine)), [1]);
    assert!(matches!(notices(&mut engine)[..], [Notice::Dropped { offset: 0, .. }]));
    assert_eq!(prefix(&engine), 1);
}

#[test]
fn a_dead_letter_that_is_refused_for_itself_does_not_hold_up_the_others() {
    let mut engine = engine();
    read(&mut engine, 0, "..", NOW_MS);
    let poison = sends(&mut engine);
    refuse(&mut engine, poison[0].0, Trouble::TooLarge, NOW_MS);
    let mut now_ms = NOW_MS;
    let mut delivered = BTreeSet::new();
    for offset in 1..6 {
        read(&mut engine, offset, "..", now_ms);
        for _ in 0..20 {
            let sent = sends(&mut engine);
            let poisoned = sent.iter().any(|(_, offset, _)| *offset == 0);
            for (ticket, offset, _) in sent {
                if poisoned {
                    refuse(&mut engine, ticket, Trouble::TooLarge, now_ms);
                } else {
                    delivered.insert(offset);
                    engine.settled(ticket, Ok(()), now_ms);
                }
            }
            now_ms = next_wakeup_ms(&engine, now_ms).unwrap_or(now_ms).max(now_ms);
            engine.advance(at(now_ms));
        }
        assert!(delivered.contains(&offset), "{offset} waits behind the first");
    }
    assert_eq!(prefix(&engine), 0, "the first is still waiting");
}

// R27, G5: after the revoke nothing is sent, and what was under way is waited for.
#[test]
fn a_revoked_lane_sends_nothing_and_drains() {
    let mut engine = engine();
    read(&mut engine, 0, "orders", NOW_MS);
    let sent = sends(&mut engine);
    read(&mut engine, 1, "orders", NOW_MS); // handed on, its action still queued
    engine.revoke(0);
    let Some(Action::Send(queued)) = engine.next_action() else { panic!("queued before") };
    assert!(engine.outgoing(queued).is_none());
    engine.abandoned(queued, NOW_MS);
    engine.offer(0, TestRecord::at(2, Some(1)), NOW_MS);
    engine.advance(at(NOW_MS + 100_000));
    assert_eq!(sends(&mut engine), []);
    assert!(!engine.is_drained(0));
    engine.settled(sent[0].0, Ok(()), NOW_MS);
    assert!(engine.is_drained(0));
    assert_eq!(engine.uncommitted().next().map(|commit| commit.offset), Some(1));
    engine.forget(0);
    assert_eq!(engine.in_flight(), (0, 0));
}

// R1, R10: an acknowledgement of an earlier assignment settles nothing in the present one.
#[test]
fn a_late_acknowledgement_of_an_earlier_assignment_is_ignored() {
    let mut engine = engine();
    read(&mut engine, 0, "orders", NOW_MS);
    let old = sends(&mut engine);
    engine.revoke(0);
    engine.forget(0);
    engine.assign(0, 0, Ahead::default());
    read(&mut engine, 0, "orders", NOW_MS);
    let new = sends(&mut engine);
    engine.settled(old[0].0, Ok(()), NOW_MS);
    assert_eq!(prefix(&engine), 0);
    engine.settled(new[0].0, Ok(()), NOW_MS);
    assert_eq!(prefix(&engine), 1);
    let commit = engine.uncommitted().next().unwrap();
    engine.committed(&Commit { epoch: old[0].0.epoch, ..commit });
    assert_eq!(engine.uncommitted().count(), 1, "a commit of the old epoch confirms nothing");
}

#[test]
fn one_flooding_lane_leaves_room_for_the_others() {
    let mut engine = engine();
    let mut offset = 0;
    loop {
        read(&mut engine, offset, "orders", NOW_MS);
        if engine.lane(0).unwrap().phase() == super::Phase::Holding {
            break;
        }
        offset += 1;
        assert!(offset < 200, "the limit of 10 000 bytes holds 100 records");
    }
    assert_eq!(engine.in_flight().1, 5_000);
    engine.offer(1, TestRecord::at(0, Some(1)), NOW_MS);
    engine.advance(at(NOW_MS));
    let sent = sends(&mut engine);
    assert!(sent.iter().any(|(ticket, ..)| ticket.partition == 1));
    // room comes back with the first acknowledgement
    engine.settled(sent[0].0, Ok(()), NOW_MS);
    engine.advance(at(NOW_MS));
    assert_eq!(sends(&mut engine).len(), 1);
}

#[test]
fn a_record_larger_than_the_limit_still_goes() {
    let mut engine = engine();
    let mut record = TestRecord::at(0, Some(1));
    record.size_bytes = 1_000_000;
    engine.offer(0, record, NOW_MS);
    engine.advance(at(NOW_MS));
    assert_eq!(offsets(&sends(&mut engine)), [0]);
}

#[test]
fn every_rejection_before_sending_has_its_reason() {
    for (topic, reason) in [
        ("delay_topic", RejectReason::Loop),
        ("dlq", RejectReason::DeniedOriginTopic),
        ("__consumer_offsets", RejectReason::DeniedOriginTopic),
        ("no such name", RejectReason::InvalidOriginTopic),
    ] {
        let mut engine = engine();
        read(&mut engine, 0, topic, NOW_MS);
        let sent = sends(&mut engine);
        assert_eq!(sent[0].2, "dlq");
        engine.settled(sent[0].0, Ok(()), NOW_MS);
        assert!(
            matches!(&notices(&mut engine)[..],
                [Notice::DeadLettered { rejection, .. }] if rejection.reason == reason),
            "{topic}"
        );
    }
}

proptest! {
    // G2, G3: whatever the acknowledgements do, no offset is committable before it is settled, a
    // record is under way once at a time, and everything ends settled.
    #[test]
    fn random_acknowledgements_lose_and_repeat_nothing(
        topics in prop::collection::vec(0..3_usize, 1..60),
        outcomes in prop::collection::vec(0..6_u8, 0..400),
    ) {
        let names = ["a", "b", "c"];
        let mut engine = engine();
        let mut now_ms = NOW_MS;
        let mut under_way: Vec<(Ticket, i64, String)> = Vec::new();
        let mut done: BTreeMap<i64, u32> = BTreeMap::new();
        let mut next = 0_usize;
        let mut outcomes = outcomes.into_iter();
        for _ in 0..5_000 {
            if next < topics.len() && engine.wants_record(0) {
                let offset = i64::try_from(next).unwrap() * 2;
                engine.offer(0, TestRecord::to(names[topics[next]], offset, Some(1)), now_ms);
                next += 1;
            }
            engine.advance(at(now_ms));
            under_way.extend(sends(&mut engine));
            let distinct: BTreeSet<i64> = under_way.iter().map(|(_, offset, _)| *offset).collect();
            prop_assert_eq!(distinct.len(), under_way.len());
            let outcome = outcomes.next().unwrap_or(5);
            if !under_way.is_empty() {
                let (ticket, offset, _) = under_way.remove(usize::from(outcome) % under_way.len());
                let refusal = match outcome {
                    0 => Some(Refusal::Trouble(Trouble::UnknownTopic)),
                    1 => Some(Refusal::Trouble(Trouble::TooLarge)),
                    2 => Some(Refusal::Trouble(Trouble::Transient)),
                    3 => Some(Refusal::Permanent(Rejection::new(RejectReason::ProduceFailed, "x"))),
                    _ => None,
                };
                match refusal {
                    Some(refusal) => engine.settled(ticket, Err(refusal), now_ms),
                    None => {
                        *done.entry(offset).or_default() += 1;
                        engine.settled(ticket, Ok(()), now_ms);
                    }
                }
            } else if let Some(wakeup_ms) = next_wakeup_ms(&engine, now_ms) {
                now_ms = now_ms.max(wakeup_ms);
            }
            let committable = prefix(&engine);
            for offset in (0..committable).filter(|offset| offset % 2 == 0) {
                prop_assert_eq!(done.get(&offset), Some(&1), "offset {}", offset);
            }
        }
        prop_assert_eq!(done.len(), topics.len());
        prop_assert_eq!(engine.in_flight(), (0, 0));
        prop_assert_eq!(engine.destinations_in_trouble().count(), 0);
    }
}
