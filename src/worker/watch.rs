//! The watch over lanes that do not move although they could.
//!
//! A wait that lasts is no proof: brokers may be away, and a restart cures no broker. So the
//! cluster is asked, on a client that shares nothing with the ones that may be stuck
//! ([`Port::probe`]): can this record be read, does this topic's every leader answer? Only a lane
//! that the cluster would let go on is *stuck*: shown, logged once, and after the same time again
//! the process ends, for a restart then helps.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::{error, info};

use super::{Now, Worker, WorkerError};
use crate::engine::{Lane, Notice, Record, Wait};
use crate::kafka::{Port, Probe};

/// Waits are looked at this often.
const LOOK_EVERY_MS: i64 = 1_000;

/// Of the limit, this share passes between two questions about one wait.
const ASK_SHARE: i64 = 4;

/// Partition, epoch of its lane, and what it waits for: changed by everything that moves.
type Key = (i32, u32, Wait);

#[derive(Debug)]
struct Watched {
    since_ms: i64,
    /// When the question about it was asked last, or may be asked for the first time.
    asked_ms: i64,
    /// Since when every answer has been that it could go on.
    stuck_since_ms: Option<i64>,
    /// Its destination took other records meanwhile.
    others_taken: bool,
}

impl Watched {
    /// It waits no more.
    fn moved(&self, (partition, ..): &Key) {
        if self.stuck_since_ms.is_some() {
            info!(partition, "the partition is not stuck any more");
        }
    }
}

/// What lanes wait for, and since when.
#[derive(Debug)]
pub(super) struct Watch {
    limit_ms: i64,
    look_at_ms: i64,
    waits: BTreeMap<Key, Watched>,
    asking: Option<Key>,
    /// When a send ended last, well or not.
    last_word_ms: i64,
}

impl Watch {
    pub(super) fn new(limit: Duration) -> Self {
        let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        let (waits, asking) = (BTreeMap::new(), None);
        Self { limit_ms, look_at_ms: 0, waits, asking, last_word_ms: 0 }
    }

    /// Time passed that was nobody's fault: all waits begin anew.
    pub(super) fn forgive(&mut self) {
        self.waits.clear();
    }

    /// A transaction was aborted, so that all that waited for its end is tried anew.
    pub(super) fn transaction_ended(&mut self) {
        self.waits.retain(|key, watched| {
            let ended = matches!(key.2, Wait::Transaction(_));
            if ended {
                watched.moved(key);
            }
            !ended
        });
    }

    /// A send ended.
    pub(super) fn word(&mut self, steady_ms: i64) {
        self.last_word_ms = steady_ms;
    }

    /// `topic` took a record.
    pub(super) fn taken(&mut self, topic: &str) {
        for ((_, _, wait), watched) in &mut self.waits {
            let meant = matches!(wait, Wait::Acknowledgement(_, name) if **name == *topic);
            watched.others_taken |= meant && watched.stuck_since_ms.is_some();
        }
    }

    /// Whether `partition` could go on and does not.
    pub(super) fn is_stuck(&self, partition: i32) -> bool {
        let stuck = |(key, watched): (&Key, &Watched)| {
            key.0 == partition && watched.stuck_since_ms.is_some()
        };
        self.waits.iter().any(stuck)
    }

    /// The answer to the question about `key`.
    fn answered(&mut self, key: &Key, could_go_on: bool, steady_ms: i64) {
        if self.asking.as_ref() == Some(key) {
            self.asking = None;
        }
        // None: it moved meanwhile.
        let Some(watched) = self.waits.get_mut(key) else { return };
        watched.stuck_since_ms = match watched.stuck_since_ms {
            Some(since_ms) if could_go_on => Some(since_ms),
            None if could_go_on => Some(steady_ms),
            _ => None,
        };
    }

    /// What to ask next: one question at a time, the one that was asked longest ago.
    fn question(&mut self, steady_ms: i64) -> Option<Key> {
        if self.asking.is_some() {
            return None;
        }
        let due = self.waits.iter_mut().filter(|(_, watched)| watched.asked_ms <= steady_ms);
        let (key, watched) = due.min_by_key(|(_, watched)| watched.asked_ms)?;
        watched.asked_ms = steady_ms + (self.limit_ms / ASK_SHARE).max(LOOK_EVERY_MS);
        self.asking = Some(key.clone());
        Some(key.clone())
    }

    /// A wait that was stuck for the whole limit. A missing acknowledgement alone proves nothing
    /// while others come: a topic may demand more replicas than it has, which no leader tells.
    fn hopeless(&self, steady_ms: i64) -> Option<(&Key, i64)> {
        self.waits.iter().find_map(|(key, watched)| {
            let since_ms = watched.stuck_since_ms?;
            let silent = self.last_word_ms < since_ms || watched.others_taken;
            let proven = silent || !matches!(key.2, Wait::Acknowledgement(..));
            (proven && steady_ms - since_ms >= self.limit_ms)
                .then_some((key, steady_ms - watched.since_ms))
        })
    }
}

impl<P: Port> Worker<P> {
    /// Passes on what the engine has to say.
    pub(super) fn report(&mut self) {
        while let Some(notice) = self.engine.next_notice() {
            if let Notice::Forwarded { topic, .. } = &notice {
                self.watch.taken(topic);
            }
            self.reporter.notice(notice);
        }
    }

    /// Looks at what lanes wait for, and asks about what lasts.
    pub(super) fn watch(&mut self, now: Now) -> Result<(), WorkerError> {
        if now.steady_ms < self.watch.look_at_ms {
            return Ok(());
        }
        self.watch.look_at_ms = now.steady_ms + LOOK_EVERY_MS;
        self.renew_waits(now);
        match self.watch.question(now.steady_ms) {
            Some((partition, epoch, wait)) if matches!(wait, Wait::Turn(_)) => {
                self.probed(&Probe { partition, epoch, wait }, true, now);
            }
            Some((partition, epoch, wait)) => self.port.probe(Probe { partition, epoch, wait }),
            None => {}
        }
        match self.watch.hopeless(now.steady_ms) {
            None => Ok(()),
            Some(((partition, _, wait), waited_ms)) => Err(WorkerError::Stuck {
                partition: *partition,
                wait: wait.to_string(),
                waited_s: waited_ms / 1_000,
            }),
        }
    }

    /// What the cluster says about a wait.
    pub(super) fn probed(&mut self, probe: &Probe, could_go_on: bool, now: Now) {
        let Probe { partition, epoch, wait } = probe;
        let was_stuck = self.watch.is_stuck(*partition);
        self.watch.answered(&(*partition, *epoch, wait.clone()), could_go_on, now.steady_ms);
        if self.watch.is_stuck(*partition)
            && !was_stuck
            && let Some(lane) = self.engine.lane(*partition)
        {
            tell(lane, wait);
        }
    }

    /// Takes over what lanes wait for now; what has not changed keeps its age.
    fn renew_waits(&mut self, now: Now) {
        let limit_ms = self.watch.limit_ms;
        let mut before = std::mem::take(&mut self.watch.waits);
        for key in self.engine.waits(now.wall_ms) {
            let (partition, _, wait) = &key;
            let counts = match wait {
                Wait::Record(offset) => {
                    self.blocked_send.is_none() && self.reporter.has_record(*partition, *offset)
                }
                Wait::Turn(_) => self.blocked_send.is_none(),
                Wait::Acknowledgement(..) | Wait::Transaction(_) => true,
            };
            if counts {
                let watched = before.remove(&key).unwrap_or(Watched {
                    since_ms: now.steady_ms,
                    asked_ms: now.steady_ms.saturating_add(limit_ms),
                    stuck_since_ms: None,
                    others_taken: false,
                });
                self.watch.waits.insert(key, watched);
            }
        }
        for (key, watched) in before {
            watched.moved(&key);
        }
    }
}

/// Once for each time that a lane is found stuck.
fn tell<R: Record>(lane: &Lane<R>, wait: &Wait) {
    error!(
        partition = lane.partition,
        level = lane.level.number,
        phase = ?lane.phase(),
        position = lane.next_to_send(),
        in_flight = lane.sent_records,
        due_ms = lane.oldest_due_ms(),
        "partition is stuck, waiting for {wait}; the cluster would let it go on"
    );
}
