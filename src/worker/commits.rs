//! Commits of the settled prefix: one under way at a time, a fixed cadence.

use std::time::Duration;

use crate::engine::Engine;
use crate::kafka::Port;

/// librdkafka answers every commit; one that took this long is given up and made again, which is
/// harmless: a commit names an offset, not a step.
const ANSWER_TIMEOUT_MS: i64 = 30_000;

/// A commit that failed is made again after this long.
const RETRY_MS: i64 = 100;

/// The last commit before partitions are given back is tried for this long.
const LAST_TIMEOUT_MS: i64 = 2_000;

/// The commit under way, and when the next one is due.
#[derive(Debug)]
pub(super) struct Commits {
    every_ms: i64,
    next_ms: i64,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    offsets: Vec<(i32, u32, i64)>,
    since_ms: i64,
}

impl Commits {
    pub(super) fn new(every: Duration) -> Self {
        let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
        Self { every_ms, next_ms: 0, under_way: None }
    }

    /// Commits what is settled in all lanes, when the time has come and nothing is under way.
    pub(super) fn tick<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
    ) {
        if steady_ms >= self.next_ms && !self.is_under_way(steady_ms) {
            self.next_ms = steady_ms.saturating_add(self.every_ms);
            self.begin(engine, port, steady_ms, |_| true);
        }
    }

    /// Commits what is settled in the lanes that `of` names. False when there was nothing to commit
    /// or the client refused; the next owner then starts from the commit before.
    pub(super) fn begin<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
        of: impl Fn(i32) -> bool,
    ) -> bool {
        let offsets: Vec<(i32, u32, i64)> =
            engine.uncommitted().filter(|(partition, ..)| of(*partition)).collect();
        if offsets.is_empty() {
            return false;
        }
        let list: Vec<(i32, i64)> =
            offsets.iter().map(|(partition, _, offset)| (*partition, *offset)).collect();
        match port.commit(&list) {
            Ok(()) => {
                self.under_way = Some(UnderWay { offsets, since_ms: steady_ms });
                true
            }
            Err(error) => {
                tracing::warn!(%error, "commit not started");
                false
            }
        }
    }

    /// The commit under way ended.
    pub(super) fn ended<R: crate::engine::Record>(
        &mut self,
        result: &Result<(), String>,
        engine: &mut Engine<R>,
    ) {
        let Some(under_way) = self.under_way.take() else { return };
        if result.is_err() {
            self.next_ms = self.next_ms.min(under_way.since_ms + RETRY_MS);
            return;
        }
        for (partition, epoch, offset) in under_way.offsets {
            engine.committed(partition, epoch, offset);
        }
    }

    /// Commits what is settled in the lanes that `of` names, until nothing is left or the time is
    /// over: the coordinator refuses commits while the group changes, and what is not committed
    /// will be repeated. True while there is something to wait for.
    pub(super) fn last<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
        since_ms: &mut Option<i64>,
        of: impl Fn(i32) -> bool,
    ) -> bool {
        if self.is_under_way(steady_ms) {
            return true;
        }
        if !engine.uncommitted().any(|(partition, ..)| of(partition)) {
            return false;
        }
        match *since_ms {
            None => {
                *since_ms = Some(steady_ms);
                self.begin(engine, port, steady_ms, of);
                true
            }
            // The next tick tries again.
            Some(since_ms) => steady_ms < since_ms + LAST_TIMEOUT_MS,
        }
    }

    /// Whether an answer is awaited.
    pub(super) fn is_under_way(&self, steady_ms: i64) -> bool {
        self.under_way
            .as_ref()
            .is_some_and(|under_way| steady_ms < under_way.since_ms + ANSWER_TIMEOUT_MS)
    }
}
