//! Commits of what is settled: at a fixed cadence, or with each transaction.

use super::transactions::{Ended, Transactions};
use crate::engine::{Commit, Engine, Record, Refusal, Ticket};
use crate::kafka::Port;

/// A commit that failed is made again after this long.
const RETRY_MS: i64 = 100;

/// The last commit before partitions are given back is tried for this long.
const LAST_TIMEOUT_MS: i64 = 2_000;

/// How what is settled gets committed.
#[derive(Debug)]
pub(super) enum Commits {
    /// By itself, after it is settled: at least once.
    Cadence(Cadence),
    /// In one transaction with the sends: exactly once.
    Transactions(Transactions),
}

impl Commits {
    /// Goes on with what is to be committed, as the time has come. `quiet`: nothing more is to be
    /// sent right now.
    pub(super) fn tick<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
        quiet: bool,
    ) {
        match self {
            Self::Cadence(cadence) => cadence.tick(engine, port, steady_ms),
            Self::Transactions(transactions) => transactions.tick(engine, port, steady_ms, quiet),
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
        let uncommitted = engine.uncommitted().any(|commit| of(commit.partition));
        match self {
            Self::Cadence(cadence) if cadence.under_way.is_some() => return true,
            Self::Transactions(transactions) if transactions.is_ending() => return true,
            _ if !uncommitted => return false,
            Self::Cadence(_) | Self::Transactions(_) => {}
        }
        if let Some(since_ms) = *since_ms {
            // The next tick tries again.
            return steady_ms < since_ms + LAST_TIMEOUT_MS;
        }
        *since_ms = Some(steady_ms);
        match self {
            Self::Cadence(cadence) => {
                cadence.begin(engine, port, steady_ms, of);
            }
            Self::Transactions(transactions) => transactions.end(),
        }
        true
    }

    /// The commit under way ended, and a transaction with it.
    pub(super) fn ended<P: Port>(
        &mut self,
        taken: bool,
        engine: &mut Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
    ) -> Option<Ended> {
        match self {
            Self::Cadence(cadence) => {
                cadence.ended(taken, engine);
                None
            }
            Self::Transactions(open) => open.committed(taken, engine, port, steady_ms),
        }
    }

    /// The transactions, in exactly-once mode.
    pub(super) fn transactions(&mut self) -> Option<&mut Transactions> {
        match self {
            Self::Cadence(_) => None,
            Self::Transactions(transactions) => Some(transactions),
        }
    }

    /// When [`Self::tick`] wants to be called again, if no event comes first.
    pub(super) fn wakeup_ms(&self, steady_ms: i64) -> Option<i64> {
        match self {
            // The loop serves the client more often than commits are due.
            Self::Cadence(_) => None,
            Self::Transactions(open) => open.wakeup_ms(steady_ms),
        }
    }

    /// Whether the record of `ticket` may be sent now.
    pub(super) fn admits<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        ticket: Ticket,
        steady_ms: i64,
    ) -> bool {
        self.transactions().is_none_or(|open| open.admits(engine, port, ticket, steady_ms))
    }

    /// A record was sent.
    pub(super) fn sent(&mut self, ticket: Ticket, steady_ms: i64) {
        if let Some(open) = self.transactions() {
            open.sent(ticket, steady_ms);
        }
    }

    /// A send ended.
    pub(super) fn delivered(&mut self, result: &Result<(), Refusal>, steady_ms: i64) {
        if let Some(open) = self.transactions() {
            open.delivered(result, steady_ms);
        }
    }

    /// Whether the open transaction has a commit of `partition` already.
    pub(super) fn has_commit_of(&self, partition: i32) -> bool {
        match self {
            Self::Cadence(_) => false,
            Self::Transactions(open) => open.has_commit_of(partition),
        }
    }

    /// What was sent and not committed must not be committed any more.
    pub(super) fn fail(&mut self) {
        if let Some(open) = self.transactions() {
            open.fail();
        }
    }
}

/// One commit under way at a time, and when the next one is due.
///
/// An answer is awaited however long it takes: librdkafka goes on trying while the coordinator is
/// away. A second commit beside the first could be overtaken by it, and the offset go back.
#[derive(Debug)]
pub(super) struct Cadence {
    every_ms: i64,
    next_ms: i64,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    commits: Vec<Commit>,
    since_ms: i64,
}

impl Cadence {
    pub(super) fn new(every_ms: i64) -> Self {
        Self { every_ms, next_ms: 0, under_way: None }
    }

    /// Commits what is settled in all lanes, when the time has come and nothing is under way.
    fn tick<P: Port>(&mut self, engine: &Engine<P::Record>, port: &mut P, steady_ms: i64) {
        if steady_ms >= self.next_ms && self.under_way.is_none() {
            self.next_ms = steady_ms.saturating_add(self.every_ms);
            self.begin(engine, port, steady_ms, |_| true);
        }
    }

    /// Commits what is settled in the lanes that `of` names. When the client refuses, the next
    /// owner starts from the commit before.
    fn begin<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
        of: impl Fn(i32) -> bool,
    ) {
        let commits: Vec<Commit> =
            engine.uncommitted().filter(|commit| of(commit.partition)).collect();
        if commits.is_empty() {
            return;
        }
        match port.commit(&commits) {
            Ok(()) => self.under_way = Some(UnderWay { commits, since_ms: steady_ms }),
            Err(error) => tracing::warn!(%error, "commit not started"),
        }
    }

    fn ended<R: Record>(&mut self, taken: bool, engine: &mut Engine<R>) {
        let Some(under_way) = self.under_way.take() else { return };
        if !taken {
            self.next_ms = self.next_ms.min(under_way.since_ms + RETRY_MS);
            return;
        }
        for commit in &under_way.commits {
            engine.committed(commit);
        }
    }
}
