//! The consumer's fetching and its split queues, as librdkafka does it.
//!
//! What matters of it: a record that was fetched counts as outdated once the partition is paused,
//! sought, assigned or in a rebalance, yet keeps its place in the queue until somebody polls; a
//! queue announces records only when it was empty; a pause survives everything but a resume; and a
//! resume goes on after the last record that was handed out, however long ago.

use std::collections::VecDeque;

use crate::record::SimRecord;
use crate::scenario::Fault;
use crate::world::{What, World, note};

/// Records fetched ahead, as `queued.min.messages`.
const QUEUED: usize = 20;

/// One partition of a consumer.
#[derive(Debug, Clone, Default)]
pub struct Fetcher {
    pub assigned: bool,
    pub paused: bool,
    /// The position was not in the log: nothing more comes before the next assign.
    broken: bool,
    /// What was fetched under an earlier version is outdated.
    version: u64,
    /// Where the next fetch begins.
    pub fetch_at: i64,
    /// Where a resume goes on: after the last record handed out.
    handed_out: i64,
    queue: VecDeque<(u64, Item)>,
    /// The fetch under way: its number, and the version it was made under.
    fetching: Option<(u64, u64)>,
    fetches: u64,
    /// That fetch has yet to be sent: its thread sleeps.
    asleep: bool,
    /// The mark that the port's callback sets.
    pub ready: bool,
}

#[derive(Debug, Clone)]
enum Item {
    Record(SimRecord),
    Gone,
}

/// What a poll of a queue brings.
#[derive(Debug)]
pub enum Polled {
    Record(SimRecord),
    Gone,
}

impl Fetcher {
    fn outdate(&mut self) {
        self.version += 1;
        self.fetch_at = self.handed_out;
    }

    fn wants(&self) -> bool {
        self.assigned
            && !self.paused
            && !self.broken
            && self.fetching.is_none()
            && self.queue.len() < QUEUED
    }

    /// Whether records lie in the queue that nobody was told of.
    pub fn is_silent(&self) -> bool {
        !self.queue.is_empty() && !self.ready
    }
}

impl World {
    fn fetcher(&mut self, client: usize, partition: usize) -> &mut Fetcher {
        &mut self.clients[client].fetchers[partition]
    }

    /// Sends a fetch for the partition, if it wants one and the client is not in a rebalance.
    pub fn fetch(&mut self, client: usize, partition: usize, pause_ms: i64) {
        let stopped = !self.clients[client].outstanding.is_empty();
        let fetcher = self.fetcher(client, partition);
        if !stopped && fetcher.wants() {
            fetcher.fetches += 1;
            fetcher.asleep = false;
            let number = fetcher.fetches;
            fetcher.fetching = Some((number, fetcher.version));
            self.after(pause_ms, What::Fetched { client, partition, number });
        }
    }

    /// The answer to a fetch.
    pub fn fetched(&mut self, client: usize, partition: usize, number: u64) {
        let stale = self.strikes(Fault::Fetches, 20);
        let lost_wakeup = self.strikes(Fault::Fetches, 20);
        let count = self.scenario.fetch_records;
        let log = &self.logs[partition];
        let fetcher = &mut self.clients[client].fetchers[partition];
        let Some((_, version)) = fetcher.fetching.take_if(|(known, _)| *known == number) else {
            return;
        };
        if version != fetcher.version || !fetcher.assigned || fetcher.paused {
            let pause = self.latency();
            self.fetch(client, partition, pause);
            return;
        }
        let was_empty = fetcher.queue.is_empty();
        if fetcher.fetch_at < log.start || fetcher.fetch_at > log.end {
            fetcher.broken = true;
            fetcher.queue.push_back((fetcher.version, Item::Gone));
        } else {
            // A leader may answer with the whole batch that the position lies in.
            let from = if stale { fetcher.fetch_at - 2 } else { fetcher.fetch_at };
            let records = log.from(from);
            for record in &records[..records.len().min(count)] {
                fetcher.fetch_at = fetcher.fetch_at.max(record.0.offset + 1);
                fetcher.queue.push_back((fetcher.version, Item::Record(record.clone())));
            }
            if records.len() <= count {
                fetcher.fetch_at = log.end;
            } else {
                let pause = self.latency();
                self.fetch(client, partition, pause);
            }
        }
        let fetcher = self.fetcher(client, partition);
        if was_empty && !fetcher.queue.is_empty() && !lost_wakeup {
            fetcher.ready = true;
            self.wake(client, 0);
        }
    }

    /// Takes the first record out of a queue that is not outdated.
    pub fn poll(&mut self, client: usize, partition: usize) -> Option<Polled> {
        let fetcher = self.fetcher(client, partition);
        let mut found = None;
        while let Some((version, item)) = fetcher.queue.pop_front() {
            // The error has no version: it is never outdated.
            let current = version == fetcher.version || matches!(item, Item::Gone);
            if current && fetcher.assigned {
                found = Some(item);
                break;
            }
        }
        let polled = match found {
            None => None,
            Some(Item::Gone) => Some(Polled::Gone),
            Some(Item::Record(record)) => {
                fetcher.handed_out = record.0.offset + 1;
                Some(Polled::Record(record))
            }
        };
        if self.is_behind(client, partition) {
            let pause = self.latency();
            self.fetch(client, partition, pause);
        }
        polled
    }

    /// Whether a fetch would be answered at once.
    fn is_behind(&self, client: usize, partition: usize) -> bool {
        let (at, log) = (self.clients[client].fetchers[partition].fetch_at, &self.logs[partition]);
        at < log.start || at > log.end || !log.from(at).is_empty()
    }

    pub fn pause(&mut self, client: usize, partition: usize) {
        let fetcher = self.fetcher(client, partition);
        fetcher.outdate();
        fetcher.paused = true;
    }

    /// Unlike a seek, this does not wake the thread that fetches.
    pub fn resume(&mut self, client: usize, partition: usize) {
        let fetcher = self.fetcher(client, partition);
        if fetcher.paused {
            fetcher.paused = false;
            fetcher.outdate();
            let pause = self.rng.i64(1..1_000);
            self.fetch(client, partition, pause);
            self.fetcher(client, partition).asleep = true;
        }
    }

    /// False when the partition is not being fetched.
    pub fn seek(&mut self, client: usize, partition: usize, offset: i64) -> bool {
        let fetcher = self.fetcher(client, partition);
        if !fetcher.assigned || fetcher.broken {
            return false;
        }
        fetcher.handed_out = offset;
        fetcher.outdate();
        if fetcher.asleep {
            fetcher.fetching = None;
        }
        let pause = self.latency();
        self.fetch(client, partition, pause);
        true
    }

    pub fn start_fetching(&mut self, client: usize, partition: usize, offset: i64) {
        let fetcher = self.fetcher(client, partition);
        fetcher.assigned = true;
        fetcher.broken = false;
        fetcher.handed_out = offset;
        fetcher.outdate();
        fetcher.fetching = None;
    }

    pub fn stop_fetching(&mut self, client: usize, partition: usize) {
        let fetcher = self.fetcher(client, partition);
        fetcher.assigned = false;
        fetcher.outdate();
    }

    /// A rebalance outdates what every queue holds.
    pub fn interrupt_fetching(&mut self, client: usize) {
        for fetcher in &mut self.clients[client].fetchers {
            fetcher.outdate();
        }
        note!(self, "{client}: fetching stops for a rebalance");
    }

    /// Fetching goes on after a rebalance.
    pub fn go_on_fetching(&mut self, client: usize) {
        for partition in 0..self.scenario.partitions {
            let pause = self.latency();
            self.fetch(client, partition, pause);
            let ready_ms = &mut self.clients[client].ready_ms[partition];
            *ready_ms = (*ready_ms).max(self.now + 10);
        }
    }
}
