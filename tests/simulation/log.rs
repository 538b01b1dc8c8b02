//! The delay topic: what producers write, and what retention leaves.

use std::rc::Rc;

use kafka_delay::engine::RejectReason;

use crate::ledger::{Expect, Fate};
use crate::record::{Content, SimRecord};
use crate::scenario::{Fault, SOURCE, pick};
use crate::world::{START_MS, World, note};

/// One partition's log.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// First offset.
    pub start: i64,
    /// Offset after the last one.
    pub end: i64,
    /// By offset; between them are gaps.
    pub records: Vec<SimRecord>,
    /// How often the topic was made anew.
    pub incarnation: u32,
}

impl Log {
    /// The records from `offset` on.
    pub fn from(&self, offset: i64) -> &[SimRecord] {
        let at = self.records.partition_point(|record| record.0.offset < offset.max(self.start));
        &self.records[at..]
    }
}

/// Headers of a record and what is to become of it.
type Shape = (Vec<(&'static str, Option<Vec<u8>>)>, Expect);

impl World {
    /// Somebody writes `count` records to `partition`.
    pub fn append(&mut self, partition: usize, count: usize) {
        for _ in 0..count {
            if self.strikes(Fault::Gaps, 30) {
                // Markers of transactions, or records that compaction removed.
                self.logs[partition].end += self.rng.i64(1..4);
            }
            let offset = self.logs[partition].end;
            let (headers, expect) = self.shape();
            let timestamp_ms = self.timestamp(partition);
            let size = if self.rng.u32(0..10) == 0 {
                self.rng.usize(400..1_500)
            } else {
                self.rng.usize(20..200)
            };
            let id = self.ledger.fates.len();
            let record = SimRecord(Rc::new(Content { id, offset, timestamp_ms, headers, size }));
            let cursed = self.strikes(Fault::Poison, 4);
            note!(
                self,
                "log: {partition}/{offset} {expect:?} timestamp {:?} size {size}{}",
                timestamp_ms.map(|millis| millis - START_MS),
                if cursed { " refused by brokers" } else { "" },
            );
            let now = self.now;
            self.ledger.add(Fate::new(partition, offset, timestamp_ms, size, expect, cursed, now));
            let log = &mut self.logs[partition];
            log.records.push(record);
            log.end = offset + 1;
        }
        if self.strikes(Fault::Gaps, 30) {
            self.logs[partition].end += 1;
        }
        self.log_changed(partition);
    }

    /// Readers that wait at the end of the log get their answer.
    pub fn log_changed(&mut self, partition: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].alive {
                let pause = self.latency();
                self.fetch(client, partition, pause);
            }
        }
    }

    fn timestamp(&mut self, partition: usize) -> Option<i64> {
        let now = START_MS + self.now;
        if self.strikes(Fault::Timestamps, 40) {
            let delay = self.scenario.delay_ms(partition);
            return *pick(
                &mut self.rng,
                &[
                    None,
                    Some(-1),
                    Some(0),
                    Some(now + 3_000),
                    Some(now + delay * 10),
                    Some(i64::MAX),
                    Some(1),
                    Some(now - delay / 2),
                    Some(now - 2 * delay),
                ],
            );
        }
        Some(now - self.rng.i64(0..5))
    }

    fn shape(&mut self) -> Shape {
        if self.strikes(Fault::Poison, 25) {
            return self.poison();
        }
        let topic = self.choose_topic();
        let name = self.topics[topic].name;
        let mut headers = vec![("origin_topic", Some(name.as_bytes().to_vec()))];
        let mut partition = None;
        if self.rng.u32(0..4) == 0 {
            let partitions = self.topics[topic].partitions;
            let number = self.rng.usize(0..partitions);
            headers.push(("origin_partition", Some(number.to_string().into_bytes())));
            partition = Some(number);
        }
        let key = (self.rng.u32(0..5) > 0).then(|| self.rng.u8(0..4));
        (headers, Expect::Forward { topic, key, partition })
    }

    fn poison(&mut self) -> Shape {
        let topic = |name: &str| ("origin_topic", Some(name.as_bytes().to_vec()));
        let numbered = |number: &str| ("origin_partition", Some(number.as_bytes().to_vec()));
        match self.rng.u32(0..8) {
            0 => (vec![], Expect::Reject(RejectReason::MissingOriginTopic)),
            1 => (vec![("origin_topic", None)], Expect::Reject(RejectReason::InvalidOriginTopic)),
            2 => (vec![topic("a b")], Expect::Reject(RejectReason::InvalidOriginTopic)),
            3 => (vec![topic("denied")], Expect::Reject(RejectReason::DeniedOriginTopic)),
            4 => (vec![topic("__secret")], Expect::Reject(RejectReason::DeniedOriginTopic)),
            5 => (vec![topic(SOURCE)], Expect::Reject(RejectReason::Loop)),
            6 => (
                vec![topic("orders"), numbered("-1")],
                Expect::Reject(RejectReason::InvalidPartition),
            ),
            _ => (
                // No such partition: only the producer finds out.
                vec![topic("orders"), numbered("77")],
                Expect::Forward { topic: 0, key: None, partition: Some(77) },
            ),
        }
    }

    /// Retention moves the log's start below, to, or above what is settled.
    pub fn retain(&mut self) {
        let partition = self.rng.usize(0..self.scenario.partitions);
        let log = &self.logs[partition];
        let committed = self.group.committed[partition].unwrap_or(log.start);
        let start = match self.rng.u32(0..4) {
            0 => committed - 2,
            1 => committed,
            2 => committed + self.rng.i64(1..6),
            _ => log.end,
        };
        self.delete_below(partition, start.clamp(log.start, log.end));
    }

    fn delete_below(&mut self, partition: usize, start: i64) {
        note!(self, "retention: partition {partition} begins at {start}");
        let kept = self.logs[partition].from(start).len();
        let log = &mut self.logs[partition];
        let gone = log.records.len() - kept;
        let deleted: Vec<SimRecord> = log.records.drain(..gone).collect();
        log.start = start;
        for record in deleted {
            self.ledger.delete(record.0.id);
        }
        self.log_changed(partition);
    }

    /// The topic is deleted and made anew, and somebody writes to it at once.
    pub fn recreate(&mut self) {
        for partition in 0..self.scenario.partitions {
            let Log { start, end, .. } = self.logs[partition];
            self.delete_below(partition, end);
            note!(self, "partition {partition} is made anew");
            let log = &mut self.logs[partition];
            (log.start, log.end) = (0, 0);
            log.incarnation += 1;
            // A log that covers the commit again before anyone looks cannot be told from the old
            // one: what lies below may be passed over.
            let farthest = (0..self.clients.len())
                .filter(|client| self.clients[*client].alive)
                .map(|client| &self.clients[client])
                .flat_map(|client| {
                    [client.fetchers[partition].fetch_at, client.position[partition] + 1]
                })
                .chain(self.group.of(partition).offsets())
                .chain(self.commits_under_way(partition))
                .chain(self.lookups_under_way(partition))
                // A lookup may have seen the old log.
                .chain([start])
                .max();
            self.ledger.passed_over(partition, farthest.unwrap_or(0));
            let count = self.rng.usize(0..6);
            self.append(partition, count);
        }
    }
}
