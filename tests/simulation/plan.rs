//! When records come and faults strike, and how they end.

use kafka_delay::engine::Ahead;

use crate::produce::DEAD_LETTERS;
use crate::record::SimRecord;
use crate::scenario::Fault;
use crate::world::{Clock, What, World, note};

impl World {
    /// Schedules load and faults.
    pub fn plan(&mut self) {
        let active_ms = self.scenario.active_ms;
        for host in 0..self.scenario.hosts {
            let late = if self.rng.bool() { 0 } else { self.rng.i64(0..active_ms / 2) };
            let time = if host == 0 { self.rng.i64(0..2_000) } else { late };
            self.at(time, What::Start(host));
        }
        let mut left = self.scenario.records;
        while left > 0 {
            let partition = self.rng.usize(0..self.scenario.partitions);
            let burst = if self.rng.u32(0..5) == 0 { self.rng.usize(5..30) } else { 1 };
            let count = burst.min(left);
            let backlog = self.rng.u32(0..5) == 0;
            let time = if backlog { 0 } else { self.rng.i64(0..active_ms) };
            self.at(time, What::Append { partition, count });
            left -= count;
        }
        for fault in self.scenario.faults() {
            let moments = match fault {
                Fault::Recreation | Fault::Expiry => 1,
                _ => self.rng.u32(1..5),
            };
            for _ in 0..moments {
                let time = self.rng.i64(0..active_ms);
                self.at(time, What::Fault(fault));
            }
        }
    }

    /// A fault of the plan strikes.
    pub fn strike(&mut self, fault: Fault, victim: Option<usize>) {
        let session_ms = self.scenario.session_ms;
        match fault {
            Fault::Rebalances => {
                for partition in 0..self.scenario.partitions {
                    if self.rng.bool() {
                        self.group.unstuck.insert(partition);
                    }
                }
                self.begin_round();
            }
            Fault::Losses => {
                if let Some(client) = victim.filter(|client| self.group.members.contains(client)) {
                    for partition in self.clients[client].owned.clone() {
                        self.soil(partition);
                    }
                    self.evict(client);
                    let pause = self.rng.i64(0..session_ms);
                    self.after(pause, What::Notice { client });
                }
            }
            Fault::Freezes => {
                if let Some(client) = victim.filter(|at| self.clients[*at].frozen_until.is_none()) {
                    let pause = self.rng.i64(100..session_ms * 5 / 2);
                    let until = self.now + pause;
                    note!(self, "{client}: stands still for {pause} ms");
                    let silent_ms = self.now;
                    self.clients[client].frozen_ms = Some(silent_ms);
                    self.clients[client].frozen_until = Some(until);
                    self.at(until, What::Thaw { client });
                    self.after(session_ms, What::Expire { client, silent_ms });
                }
            }
            Fault::Clocks => {
                let host = self.rng.usize(0..self.scenario.hosts);
                let step = self.rng.i64(1..3_600_000) / if self.rng.bool() { 1 } else { 1_000 };
                let sign = if self.rng.bool() { 1 } else { -1 };
                let ahead_ms = self.clocks[host].ahead_ms + sign * step;
                let ahead_ms = ahead_ms.clamp(-3_600_000, 3_600_000);
                let drift_ppm = self.rng.i64(-500..500);
                self.set_clock(host, Clock { ahead_ms, drift_ppm });
                note!(self, "host {host}: clock set, now ahead by {ahead_ms} ms");
                self.wake_all();
            }
            Fault::Retention => self.retain(),
            Fault::Blackouts => self.go_dark(),
            Fault::Destinations => self.change_destination(),
            Fault::DeadLetters => self.change_dead_letters(),
            Fault::Transient => {
                let topic = self.rng.usize(0..DEAD_LETTERS);
                if self.rng.bool() {
                    self.topics[topic].failing ^= true;
                } else {
                    self.topics[topic].away_until = self.now + self.rng.i64(100..10_000);
                }
            }
            Fault::Expiry => {
                self.group.committed.fill(None);
                self.group.ahead.fill(Ahead::default());
                self.ledger.unclean.fill(true);
            }
            Fault::Recreation => {
                self.ledger.unclean.fill(true);
                self.recreate();
            }
            // These strike with single calls, or are handled where the workers are.
            Fault::LateReports
            | Fault::FullProducer
            | Fault::Commits
            | Fault::Crashes
            | Fault::Stops
            | Fault::Gaps
            | Fault::Poison
            | Fault::Calls
            | Fault::Timestamps
            | Fault::Lookups
            | Fault::Fetches => {}
        }
    }

    /// No broker answers. Members that do not reach the coordinator for a session give up what they
    /// have.
    fn go_dark(&mut self) {
        let session_ms = self.scenario.session_ms;
        let pause = self.rng.i64(100..session_ms * 2);
        note!(self, "no broker answers for {pause} ms");
        self.dark_until = self.dark_until.max(self.now + pause);
        if pause > session_ms {
            for client in 0..self.clients.len() {
                if self.clients[client].alive {
                    self.after(session_ms, What::SessionOver { client });
                }
            }
        }
    }

    /// A client heard nothing for a session.
    pub fn session_over(&mut self, client: usize) {
        if self.clients[client].alive && self.now < self.dark_until {
            for partition in self.clients[client].owned.clone() {
                self.soil(partition);
            }
            self.evict(client);
            self.notice_loss(client);
        }
    }

    fn change_destination(&mut self) {
        match self.rng.u32(0..2) {
            0 => self.topics[2].exists ^= true,
            _ => self.topics[3].allowed ^= true,
        }
    }

    fn change_dead_letters(&mut self) {
        let what = self.rng.u32(0..4);
        let topic = &mut self.topics[DEAD_LETTERS];
        match what {
            0 => topic.exists ^= true,
            1 => topic.allowed ^= true,
            2 => topic.failing ^= true,
            _ => topic.max_size = if topic.max_size == 300 { usize::MAX } else { 300 },
        }
    }

    fn wake_all(&mut self) {
        for client in 0..self.clients.len() {
            self.wake(client, 0);
        }
    }

    /// Faults end. By when everything is to be out.
    pub fn heal(&mut self) -> i64 {
        note!(self, "all faults end");
        self.healed = true;
        self.dark_until = self.now;
        let mend = self.rng.bool();
        for (index, topic) in self.topics.iter_mut().enumerate() {
            topic.failing = false;
            topic.away_until = 0;
            if mend || index == DEAD_LETTERS {
                topic.exists = true;
                topic.allowed = true;
            }
        }
        self.topics[DEAD_LETTERS].max_size = usize::MAX;
        for host in 0..self.scenario.hosts {
            self.set_clock(host, Clock::default());
        }
        for client in 0..self.clients.len() {
            if self.clients[client].frozen_until.is_some() {
                self.clients[client].frozen_until = Some(self.now);
                self.after(0, What::Thaw { client });
            }
        }
        self.wake_all();
        let scenario = &self.scenario;
        // A record whose timestamp counts for nothing is due one delay after it was first seen, by
        // a clock that may have been ahead.
        let clamped = if scenario.has(Fault::Timestamps) { scenario.longest_ms() } else { 0 };
        let clocks = scenario.has(Fault::Timestamps) && scenario.has(Fault::Clocks);
        self.now
            + scenario.longest_ms()
            + clamped
            + if clocks { 3_600_000 } else { 0 }
            + 4 * scenario.session_ms
            + scenario.grace_ms
            + 10 * scenario.max_backoff_ms
            + if scenario.exactly_once { 4 * scenario.transaction_ms } else { 0 }
            + 120_000
    }

    /// What is still to be done, if anything.
    pub fn left(&self) -> Option<String> {
        // Without a dead-letter topic a level halts at a record that cannot be forwarded.
        let halts = !self.scenario.dead_letter_topic && !self.scenario.drop_refused;
        let halted = |partition: usize| {
            let of = |record: &usize| self.ledger.fates[*record].partition == partition;
            let mut records = (0..self.ledger.fates.len()).filter(of);
            halts && records.any(|record| self.may_be_rejected(record))
        };
        for record in &self.ledger.open {
            let partition = self.ledger.fates[*record].partition;
            if !self.may_be_dropped(*record) && !halted(partition) {
                return Some(format!("{} has not arrived", self.name(*record)));
            }
        }
        for (partition, log) in self.logs.iter().enumerate() {
            let acknowledged = |record: &&SimRecord| self.ledger.fates[record.0.id].acknowledged;
            let Some(last) = log.records.iter().rfind(acknowledged) else { continue };
            let committed = self.group.committed[partition];
            // The owner does not commit again what the group forgot.
            let forgotten = committed.is_none() && self.scenario.has(Fault::Expiry);
            let committed = committed.unwrap_or(0);
            if committed <= last.0.offset && !halted(partition) && !forgotten {
                let last = self.name(last.0.id);
                return Some(format!("{last} is not committed: {committed} is"));
            }
        }
        None
    }
}
