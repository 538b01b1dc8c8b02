//! Partitions coming and going.
//!
//! ```text
//!  Assigned ---> where do log and commit stand? ---> assign at that offset ---> lanes
//!  Revoked  ---> drain ---> commit the prefix ---> unassign
//!  Lost     ---> unassign at once: somebody else may own them
//!  stop     ---> drain and commit everything, end
//! ```
//!
//! librdkafka waits for the assign or unassign that follows each of its rebalance events, so there
//! is at most one of them at a time, and other lanes go on meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{MissingOffset, Now, Worker, WorkerError};
use crate::engine::Ahead;
use crate::kafka::{Located, Port};

/// After a drain, the commit of what is settled may take this long, with all its repetitions: the
/// coordinator refuses commits while the group changes.
const COMMIT_TIMEOUT_MS: i64 = 2_000;

/// A stop before the first assignment waits for it this long. A member cannot leave while its
/// request to join is under way: the broker serves a connection's requests one after another, so
/// the group would wait for a member that is gone, until its session ends.
const JOIN_TIMEOUT_MS: i64 = 5_000;

/// What the group is waiting for.
#[derive(Debug)]
enum Pending {
    Nothing,
    /// Looking up where newly assigned partitions begin.
    Locating {
        request: u64,
        partitions: Vec<i32>,
        since_ms: i64,
    },
    /// Waiting for the acknowledgements of revoked partitions, then for the commit.
    Releasing {
        partitions: Vec<i32>,
        since_ms: i64,
        committing_since_ms: Option<i64>,
    },
}

/// A lookup for a partition whose fetch position left the log.
#[derive(Debug, Clone)]
struct Relocation {
    request: u64,
    partition: i32,
    position: i64,
    found: Option<Located>,
}

/// The state of this member in the group.
#[derive(Debug)]
pub(super) struct Membership {
    drain_timeout_ms: i64,
    stop_timeout_ms: i64,
    pending: Pending,
    /// What librdkafka has as assigned; it refuses to give back anything else.
    held: BTreeSet<i32>,
    /// Assigned partitions whose fetch position left the log.
    relocating: Vec<Relocation>,
    next_request: u64,
    /// Whether the group has answered, be it with no partition.
    joined: bool,
    /// Set once: when stopping began.
    stopping_since_ms: Option<i64>,
    stop_committing_since_ms: Option<i64>,
}

/// Whether the worker is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    Running,
    /// It was asked to stop and has.
    Stopped,
}

impl Membership {
    pub(super) fn new(drain_timeout: Duration, stop_timeout: Duration) -> Self {
        let millis = |limit: Duration| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        Self {
            drain_timeout_ms: millis(drain_timeout),
            stop_timeout_ms: millis(stop_timeout),
            pending: Pending::Nothing,
            held: BTreeSet::new(),
            relocating: Vec::new(),
            next_request: 0,
            joined: false,
            stopping_since_ms: None,
            stop_committing_since_ms: None,
        }
    }

    /// Begins to stop; false when that was asked before.
    pub(super) fn begin_stop(&mut self, steady_ms: i64) -> bool {
        let first = self.stopping_since_ms.is_none();
        self.stopping_since_ms.get_or_insert(steady_ms);
        first
    }

    /// Partitions that were assigned and have no lane yet.
    pub(super) fn locating(&self) -> BTreeSet<i32> {
        let assigned: &[i32] = match &self.pending {
            Pending::Locating { partitions, .. } => partitions,
            Pending::Nothing | Pending::Releasing { .. } => &[],
        };
        assigned
            .iter()
            .copied()
            .chain(self.relocating.iter().map(|moved| moved.partition))
            .collect()
    }

    fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }
}

impl<P: Port> Worker<P> {
    pub(super) fn assigned(&mut self, partitions: Vec<i32>, now: Now) -> Result<(), WorkerError> {
        self.membership.joined = true;
        self.reporter.joined();
        if partitions.is_empty() || self.membership.stopping_since_ms.is_some() {
            self.reporter.assigned(&[], 0);
            // Also for none: librdkafka waits for the call. While stopping nothing is taken over.
            return Ok(self.port.assign(&[])?);
        }
        if let Some(added) = partitions.iter().find(|partition| **partition >= self.partitions) {
            return Err(WorkerError::PartitionsAdded(added + 1));
        }
        let request = self.membership.request();
        self.port.locate(request, partitions.clone());
        let since_ms = now.steady_ms;
        self.membership.pending = Pending::Locating { request, partitions, since_ms };
        Ok(())
    }

    pub(super) fn revoked(
        &mut self,
        partitions: Vec<i32>,
        lost: bool,
        now: Now,
    ) -> Result<(), WorkerError> {
        self.membership.relocating.retain(|moved| !partitions.contains(&moved.partition));
        // Rare: the loss of a deleted topic does not wait for our answer to the event before.
        self.answer_pending()?;
        if lost {
            self.reporter.lost(&partitions);
            return self.release(&partitions);
        }
        for partition in &partitions {
            self.engine.revoke(*partition);
        }
        let (since_ms, committing_since_ms) = (now.steady_ms, None);
        self.membership.pending = Pending::Releasing { partitions, since_ms, committing_since_ms };
        Ok(())
    }

    pub(super) fn located(
        &mut self,
        request: u64,
        located: &[Located],
        now: Now,
    ) -> Result<(), WorkerError> {
        match &self.membership.pending {
            Pending::Locating { .. } if self.membership.stopping_since_ms.is_some() => {
                self.answer_pending()
            }
            Pending::Locating { request: pending, since_ms, .. } if *pending == request => {
                let took_ms = now.steady_ms - since_ms;
                self.membership.pending = Pending::Nothing;
                let starts = self.starts(located)?;
                self.take_over(&starts, located)?;
                for at in located.iter().filter(|at| at.committed.is_some() && inside(at).is_none())
                {
                    // Or the next owner would find, and report, the same again.
                    self.engine.not_committed(at.partition);
                }
                self.reporter.assigned(&starts, took_ms);
                Ok(())
            }
            _ => {
                let moved = &mut self.membership.relocating;
                // None: the partition was revoked meanwhile.
                if let Some(moved) = moved.iter_mut().find(|moved| moved.request == request) {
                    moved.found = located.first().cloned();
                }
                Ok(())
            }
        }
    }

    /// The fetch position of `partition` is not in the log any more.
    pub(super) fn offset_gone(&mut self, partition: i32) {
        let Some(lane) = self.engine.lane(partition) else { return };
        let position = lane.next_to_send();
        if self.membership.relocating.iter().any(|moved| moved.partition == partition) {
            return;
        }
        self.reporter.position_gone(partition, position);
        let request = self.membership.request();
        self.membership.relocating.push(Relocation { request, partition, position, found: None });
        self.port.locate(request, vec![partition]);
    }

    /// Drains, commits and gives back, as far as things are by now.
    pub(super) fn progress_membership(&mut self, now: Now) -> Result<Progress, WorkerError> {
        let steady_ms = now.steady_ms;
        self.progress_release(steady_ms)?;
        self.progress_relocations()?;
        let Some(since_ms) = self.membership.stopping_since_ms else {
            return Ok(Progress::Running);
        };
        let progress = self.progress_stop(since_ms, steady_ms);
        if progress == Progress::Stopped {
            // librdkafka leaves the group only after the answer to its last event.
            self.answer_pending()?;
        }
        Ok(progress)
    }

    fn progress_release(&mut self, steady_ms: i64) -> Result<(), WorkerError> {
        let Pending::Releasing { partitions, since_ms, committing_since_ms } =
            &mut self.membership.pending
        else {
            return Ok(());
        };
        let waited_ms = steady_ms - *since_ms;
        let drained = partitions.iter().all(|partition| self.engine.is_drained(*partition));
        let timed_out = waited_ms >= self.membership.drain_timeout_ms;
        let given_up = waited_ms >= self.membership.drain_timeout_ms + COMMIT_TIMEOUT_MS;
        if !given_up {
            if !(drained || timed_out) {
                return Ok(());
            }
            let of = |partition: i32| partitions.contains(&partition);
            if self.commits.last(&self.engine, &mut self.port, steady_ms, committing_since_ms, of) {
                return Ok(());
            }
        }
        let took_ms = waited_ms;
        self.reporter.revoked(partitions, took_ms, timed_out && !drained);
        self.answer_pending()
    }

    fn progress_stop(&mut self, since_ms: i64, steady_ms: i64) -> Progress {
        let waited_ms = steady_ms - since_ms;
        let drained = self.engine.lanes().all(crate::engine::Lane::is_drained);
        let timed_out = waited_ms >= self.membership.stop_timeout_ms;
        let given_up = waited_ms >= self.membership.stop_timeout_ms + COMMIT_TIMEOUT_MS;
        if !given_up {
            let joining = !self.membership.joined && waited_ms < JOIN_TIMEOUT_MS;
            if joining || !(drained || timed_out) {
                return Progress::Running;
            }
            if !drained && self.engine.lanes().any(crate::engine::Lane::is_in_transaction) {
                // Better aborted now than left open until the broker gives it up.
                self.commits.fail();
            }
            let committing_since_ms = &mut self.membership.stop_committing_since_ms;
            let all = |_| true;
            if self.commits.last(&self.engine, &mut self.port, steady_ms, committing_since_ms, all)
            {
                return Progress::Running;
            }
        }
        if !drained {
            self.reporter.stop_timed_out();
        }
        Progress::Stopped
    }

    /// The answer to a rebalance event that librdkafka still waits for. What was being looked up
    /// is not taken over.
    pub(super) fn answer_pending(&mut self) -> Result<(), WorkerError> {
        match std::mem::replace(&mut self.membership.pending, Pending::Nothing) {
            Pending::Nothing => Ok(()),
            Pending::Locating { .. } => Ok(self.port.assign(&[])?),
            Pending::Releasing { partitions, .. } => self.release(&partitions),
        }
    }

    fn take_over(&mut self, starts: &[(i32, i64)], located: &[Located]) -> Result<(), WorkerError> {
        self.port.assign(starts)?;
        for ((partition, offset), at) in starts.iter().zip(located) {
            self.membership.held.insert(*partition);
            let of_this_log = at.committed.is_some_and(|committed| committed <= at.end);
            let ahead = if of_this_log { at.ahead.clone() } else { Ahead::default() };
            self.engine.assign(*partition, *offset, ahead);
        }
        Ok(())
    }

    fn release(&mut self, partitions: &[i32]) -> Result<(), WorkerError> {
        let in_transaction = |partition: &i32| {
            self.engine.is_in_transaction(*partition) || self.commits.has_commit_of(*partition)
        };
        if partitions.iter().any(in_transaction) {
            // Their next owner forwards what this transaction has of them.
            self.commits.fail();
        }
        let mut held = Vec::new();
        for partition in partitions {
            self.engine.forget(*partition);
            if self.membership.held.remove(partition) {
                held.push(*partition);
            }
        }
        Ok(self.port.unassign(&held)?)
    }

    /// Goes on with lanes whose position left the log: records were deleted under them, or the
    /// topic was recreated and the lane starts anew.
    fn progress_relocations(&mut self) -> Result<(), WorkerError> {
        let is_found = |moved: &Relocation| moved.found.is_some();
        // librdkafka would take these calls for the answer to the event it waits for.
        while matches!(self.membership.pending, Pending::Nothing)
            && self.membership.stopping_since_ms.is_none()
            && let Some(index) = self.membership.relocating.iter().position(is_found)
        {
            let Relocation { partition, position, found, .. } =
                self.membership.relocating.remove(index);
            // Judged by the position rather than the commit: in a recreated topic the commit may
            // lie inside the new log by chance.
            let moved = found.map(|at| Located { committed: Some(position), ..at });
            let starts = self.starts(moved.as_slice())?;
            // After this error librdkafka refuses to seek; assigning anew is what starts it again.
            self.port.unassign(&[partition])?;
            self.port.assign(&starts)?;
            for (partition, offset) in starts {
                if offset >= position {
                    // What was handed on is still to be delivered, deleted in the log or not.
                    self.engine.skip_to(partition, offset);
                } else {
                    self.engine.assign(partition, offset, Ahead::default());
                    self.engine.not_committed(partition);
                }
            }
        }
        Ok(())
    }

    /// Where to start each partition. Never silently at the end: a committed offset outside the log
    /// is counted, logged and resolved as configured.
    fn starts(&mut self, located: &[Located]) -> Result<Vec<(i32, i64)>, WorkerError> {
        let mut starts = Vec::with_capacity(located.len());
        for at in located {
            let &Located { partition, committed, start, end, .. } = at;
            let inside = inside(at);
            if let (Some(committed), None) = (committed, inside) {
                self.reporter.offset_missing(partition, committed, start, end);
                if self.missing_offset == MissingOffset::Fail {
                    return Err(WorkerError::MissingOffset { partition, committed, start, end });
                }
            }
            if committed.is_none() && start < end {
                self.reporter.never_committed(partition, start, end);
            }
            starts.push((partition, inside.unwrap_or(start)));
        }
        Ok(starts)
    }
}

/// The committed offset, if it is in the log.
fn inside(at: &Located) -> Option<i64> {
    at.committed.filter(|offset| (at.start..=at.end).contains(offset))
}
