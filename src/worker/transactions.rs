//! Exactly once: sends and the commit of their offsets in one transaction.
//!
//! ```text
//!          size, age, quiet, revoke          all sends ended
//!   Open --------------------------> Ending -----------------> Committing ---> Open
//!     |                                |                            | refused
//!     |  refusal, lost partition       |                            v
//!     +--------------------------------+----------------------> Aborting ----> Open, sent anew
//! ```
//!
//! Before the first record for a destination that may be forbidden, the transaction is made known
//! to its coordinator (`Opening`): librdkafka cannot abort one whose very first partition was
//! refused. It asks the coordinator to end what that has never heard of, and takes the answer for
//! fatal. When the first partition was not refused but nobody answers for it, the transaction is
//! made known a little later, or before it is aborted.
//!
//! Between `Ending` and the next `Open` nothing is sent: what the producer takes would belong to a
//! transaction whose offsets are fixed already.

use crate::engine::{Commit, DestinationId, Engine, Lane, Phase, Record, Refusal, Ticket, Trouble};
use crate::kafka::settings::MAX_DELIVERY_MS;
use crate::kafka::{AbortCause, Port};

/// Records in one transaction at most. Each transaction costs a few round trips, which is little
/// beside what 10 000 records cost.
const MAX_RECORDS: usize = 10_000;

/// A transaction ends after this even while more is to be sent.
const MAX_AGE_MS: i64 = 200;

/// A destination in trouble has this long to take what it is tried with: everything else waits
/// meanwhile.
const TRIAL_MS: i64 = 1_000;

/// A transaction none of whose sends has ended by then is made known to its coordinator, which may
/// not have heard of it: one that fails later could not be aborted.
const MAKE_KNOWN_MS: i64 = 1_000;

/// A transaction none of whose sends ends for this long is aborted. Longer than
/// [`MAX_DELIVERY_MS`]: a send that the producer itself gives up leaves no doubt about its sequence
/// numbers, one that we take back may.
const PATIENCE_MS: i64 = MAX_DELIVERY_MS + 3_000;

/// While records come singly, transactions begin their commits this far apart at least: the broker
/// is still writing the markers of one when the next begins, and makes it wait.
const GAP_MS: i64 = 20;

/// After aborts in a row nothing is sent for this long, doubled with each.
const FIRST_PAUSE_MS: i64 = 20;

/// Longest pause after an abort.
const MAX_PAUSE_MS: i64 = 1_000;

#[derive(Debug)]
enum State {
    /// Waiting for the coordinator to know of the transaction.
    Opening,
    /// Records may be sent.
    Open,
    /// Waiting for the sends under way.
    Ending,
    /// Waiting for the commit.
    Committing(Vec<Commit>),
    /// Waiting for the abort.
    Aborting,
}

/// A transaction that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// Records it had.
    pub(super) records: usize,
    /// Since its first send.
    pub(super) took_ms: i64,
}

/// The transaction under way.
#[derive(Debug)]
pub(super) struct Transactions {
    state: State,
    /// Sends in this transaction, and how many of them have not ended.
    sends: usize,
    unanswered: usize,
    /// When its first record was sent.
    opened_ms: i64,
    /// When it came forward last: a first send, or the end of one.
    moved_ms: i64,
    /// The coordinator knows of it, by a commit of this partition.
    known_by: Option<i32>,
    /// Whom it is for, while it is for one destination.
    destination: Option<DestinationId>,
    /// It is for that destination alone, which is in trouble.
    alone: bool,
    /// It cannot be committed any more.
    failed: bool,
    /// Some record of it was refused, so the cause of a failure is known.
    refused: bool,
    /// Some destination did not answer in time.
    gave_up: bool,
    /// When the next commit may begin.
    next_ms: i64,
    /// When offsets without records are committed next.
    offsets_ms: i64,
    offsets_every_ms: i64,
    aborts_in_a_row: u32,
    /// Nothing is sent before this moment.
    paused_until_ms: i64,
}

impl Transactions {
    /// Offsets that no record goes with are committed every `offsets_every_ms`.
    pub(super) fn new(offsets_every_ms: i64) -> Self {
        Self {
            state: State::Open,
            sends: 0,
            unanswered: 0,
            opened_ms: 0,
            moved_ms: 0,
            known_by: None,
            destination: None,
            alone: false,
            failed: false,
            refused: false,
            gave_up: false,
            next_ms: 0,
            offsets_ms: 0,
            offsets_every_ms,
            aborts_in_a_row: 0,
            paused_until_ms: 0,
        }
    }

    /// Whether the record of `ticket` may be sent in this transaction.
    pub(super) fn admits<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        ticket: Ticket,
        steady_ms: i64,
    ) -> bool {
        if !matches!(self.state, State::Open) || self.failed || steady_ms < self.paused_until_ms {
            return false;
        }
        let alone = engine.goes_alone(ticket);
        let unsafe_first = self.known_by.is_none() && engine.may_be_forbidden(ticket);
        if self.sends == 0 {
            self.alone = alone;
            if unsafe_first && let Some(commit) = engine.present_commit(ticket.partition) {
                self.make_known(port, &commit);
            }
            return !unsafe_first;
        }
        let fits = !(alone || self.alone) || self.destination == Some(ticket.destination);
        if unsafe_first || !fits || self.sends >= MAX_RECORDS {
            self.state = State::Ending;
            return false;
        }
        true
    }

    fn make_known<P: Port>(&mut self, port: &mut P, commit: &Commit) {
        match port.open(commit) {
            Ok(()) => {
                self.state = State::Opening;
                self.known_by = Some(commit.partition);
            }
            // Tried again: an abort of what the coordinator has not heard of may be fatal.
            Err(error) if self.sends > 0 => tracing::debug!(%error, "transaction not made known"),
            Err(error) => {
                tracing::warn!(%error, "transaction not begun");
                self.abort(port);
            }
        }
    }

    /// The coordinator knows of the transaction, or does not take it.
    pub(super) fn opened<P: Port>(&mut self, taken: bool, port: &mut P) {
        if !matches!(self.state, State::Opening) {
            return;
        }
        if taken {
            // Nothing is added to what nobody has answered for.
            self.state = if self.sends > 0 { State::Ending } else { State::Open };
        } else {
            self.abort(port);
        }
    }

    /// A record was sent.
    pub(super) fn sent(&mut self, ticket: Ticket, steady_ms: i64) {
        if self.sends == 0 {
            (self.opened_ms, self.moved_ms) = (steady_ms, steady_ms);
            self.destination = Some(ticket.destination);
        } else if self.destination != Some(ticket.destination) {
            self.destination = None;
        }
        self.sends += 1;
        self.unanswered += 1;
    }

    /// A send ended.
    pub(super) fn delivered(&mut self, result: &Result<(), Refusal>, steady_ms: i64) {
        self.unanswered -= 1;
        self.moved_ms = steady_ms;
        if let Err(refusal) = result {
            self.failed = true;
            self.refused |= *refusal != Refusal::Undone;
        }
    }

    /// The transaction must not be committed: it has records of a partition that was given up, or
    /// the producer refuses to go on with it.
    pub(super) fn fail(&mut self) {
        self.failed |= matches!(self.state, State::Opening | State::Open | State::Ending);
    }

    /// Whether it has a commit of `partition` already.
    pub(super) fn has_commit_of(&self, partition: i32) -> bool {
        self.known_by == Some(partition)
    }

    /// The transaction ends as soon as it can.
    pub(super) fn end(&mut self) {
        if matches!(self.state, State::Open) {
            self.state = State::Ending;
        }
    }

    /// Whether something has to end before the next record can be sent.
    pub(super) fn is_ending(&self) -> bool {
        !matches!(self.state, State::Open) || self.failed
    }

    /// When [`Self::tick`] wants to be called again, if no event comes first.
    pub(super) fn wakeup_ms(&self, steady_ms: i64) -> Option<i64> {
        let commit = (self.sends > 0 && matches!(self.state, State::Open)).then_some(self.next_ms);
        let pause = Some(self.paused_until_ms).filter(|until_ms| *until_ms > steady_ms);
        let give_up =
            (self.sends > 0 && matches!(self.state, State::Ending)).then_some(self.give_up_ms());
        commit.into_iter().chain(pause).chain(give_up).min()
    }

    /// When it is given up, if no send ends before.
    fn give_up_ms(&self) -> i64 {
        if self.alone { self.opened_ms + TRIAL_MS } else { self.moved_ms + PATIENCE_MS }
    }

    /// Goes on as far as things are by now. `quiet`: nothing more is to be sent right now.
    pub(super) fn tick<P: Port>(
        &mut self,
        engine: &Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
        quiet: bool,
    ) {
        if matches!(self.state, State::Open) && self.should_end(engine, steady_ms, quiet) {
            self.state = State::Ending;
        }
        if matches!(self.state, State::Ending) && steady_ms >= self.give_up_ms() {
            self.gave_up = self.unanswered > 0;
            self.failed |= self.gave_up;
        }
        let silent = self.sends > 0 && self.unanswered == self.sends && self.known_by.is_none();
        match self.state {
            State::Open | State::Ending if self.failed => {
                let unknown = self.known_by.is_none() && self.sends > 0;
                let known_by = engine.lanes().next().filter(|_| unknown).map(Lane::present_commit);
                port.abort(known_by.as_ref());
                self.state = State::Aborting;
            }
            State::Ending if self.unanswered == 0 => self.commit(engine, port, steady_ms),
            State::Ending if silent && steady_ms >= self.opened_ms + MAKE_KNOWN_MS => {
                if let Some(commit) = engine.lanes().next().map(Lane::present_commit) {
                    self.make_known(port, &commit);
                }
            }
            State::Opening
            | State::Open
            | State::Ending
            | State::Committing(_)
            | State::Aborting => {}
        }
    }

    fn should_end<R: Record>(&self, engine: &Engine<R>, steady_ms: i64, quiet: bool) -> bool {
        if self.sends == 0 {
            // The coordinator would wait for the end of what never came.
            return self.known_by.is_some()
                || steady_ms >= self.offsets_ms && engine.uncommitted().next().is_some();
        }
        let gives_back =
            |lane: &Lane<R>| lane.phase() == Phase::Draining && lane.is_in_transaction();
        self.sends >= MAX_RECORDS
            || steady_ms - self.opened_ms >= MAX_AGE_MS
            || (quiet && steady_ms >= self.next_ms)
            || engine.lanes().any(gives_back)
    }

    fn commit<P: Port>(&mut self, engine: &Engine<P::Record>, port: &mut P, steady_ms: i64) {
        self.next_ms = steady_ms + GAP_MS;
        self.offsets_ms = steady_ms + self.offsets_every_ms;
        let commits: Vec<Commit> = engine.uncommitted().collect();
        if commits.is_empty() {
            match self.known_by {
                Some(_) => self.abort(port),
                None => self.state = State::Open,
            }
            return;
        }
        match port.commit(&commits) {
            Ok(()) => self.state = State::Committing(commits),
            Err(error) => {
                tracing::warn!(%error, "transaction not committed");
                self.abort(port);
            }
        }
    }

    /// Aborts what the coordinator has heard of, or what has no records.
    fn abort<P: Port>(&mut self, port: &mut P) {
        port.abort(None);
        self.state = State::Aborting;
    }

    /// The commit ended; `None` when it was refused, and the abort begins.
    pub(super) fn committed<P: Port>(
        &mut self,
        taken: bool,
        engine: &mut Engine<P::Record>,
        port: &mut P,
        steady_ms: i64,
    ) -> Option<Ended> {
        let State::Committing(commits) = std::mem::replace(&mut self.state, State::Open) else {
            return None;
        };
        if !taken {
            self.abort(port);
            return None;
        }
        engine.transaction_committed();
        for commit in &commits {
            engine.committed(commit);
        }
        self.aborts_in_a_row = 0;
        Some(self.begin(steady_ms))
    }

    /// The abort ended, and with it every send.
    pub(super) fn aborted<R: Record>(
        &mut self,
        cause: Option<&AbortCause>,
        engine: &mut Engine<R>,
        steady_ms: i64,
    ) {
        let given = cause.and_then(|cause| cause.trouble).filter(|_| !self.refused);
        let trouble = if self.gave_up { Some(Trouble::Transient) } else { given };
        // Of several destinations nobody knows which it was, or it was those that have not
        // answered. Each is then tried by itself.
        let blame = trouble.map(|trouble| match self.destination {
            Some(_) => trouble,
            None => Trouble::Transient,
        });
        engine.transaction_aborted(blame, steady_ms);
        // A destination in trouble has pauses of its own.
        if !self.alone || self.sends == 0 {
            let pause_ms = FIRST_PAUSE_MS << self.aborts_in_a_row.min(6);
            if self.aborts_in_a_row > 0 {
                self.paused_until_ms = steady_ms + pause_ms.min(MAX_PAUSE_MS);
            }
            self.aborts_in_a_row += 1;
        }
        self.begin(steady_ms);
    }

    /// Begins the next one; what the last one was.
    fn begin(&mut self, steady_ms: i64) -> Ended {
        let began_ms = if self.sends > 0 { self.opened_ms } else { steady_ms };
        let ended = Ended { records: self.sends, took_ms: steady_ms - began_ms };
        self.state = State::Open;
        (self.sends, self.unanswered) = (0, 0);
        (self.failed, self.refused, self.gave_up, self.alone) = (false, false, false, false);
        (self.destination, self.known_by) = (None, None);
        ended
    }
}
