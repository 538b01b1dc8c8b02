//! Exactly once: each process's transactional producer as librdkafka has it, and the coordinator
//! of each host's transactional id.
//!
//! What a batch appends in a transaction counts as arrived when the coordinator decides to commit;
//! that is when readers of committed records get to see it. Offsets of a transaction hold up
//! lookups until it has ended.

use std::collections::{BTreeMap, BTreeSet};

use kafka_delay::engine::Trouble;
use kafka_delay::kafka::{AbortCause, Event};

use crate::client::{Inbox, SendState};
use crate::group::Committed;
use crate::produce::{Landed, LaneKey};
use crate::record::RecordId;
use crate::scenario::Fault;
use crate::world::{What, World, note};

/// How soon the client asks again while the markers of the transaction before are being written.
const CONCURRENT_MS: i64 = 20;

/// How often the coordinator looks for transactions that are too old.
const CHECK_MS: i64 = 2_000;

/// A process's transactional producer.
#[derive(Debug, Default)]
pub struct Transactions {
    /// Whoever came later has a higher one.
    pub epoch: u32,
    /// Partitions that the coordinator has added to the open transaction.
    added: BTreeSet<LaneKey>,
    /// The coordinator was asked to add something, so an abort tells it of the end.
    asked: bool,
    /// What it refused before it knew of the transaction: a topic.
    refused_first: Option<usize>,
    /// It has put the first request off while it ends the transaction before.
    put_off: bool,
    /// Topics that have taken a record of this process.
    pub proven: BTreeSet<usize>,
    /// Why the open transaction can only be aborted.
    pub error: Option<AbortCause>,
    /// The call under way.
    pub call: Option<Call>,
    /// The producer cannot go on.
    pub fatal: bool,
    /// The coordinator gave its transaction up.
    pub fenced: bool,
    /// It had no partition by whose offsets an abort could make its transaction known.
    pub is_nobody: bool,
    /// The producer had to abort a transaction of which the coordinator never heard.
    pub never_begun: bool,
    /// Sends since the last end.
    pub sends: Vec<Send>,
    /// The worker was told which record was refused, and needs no other cause.
    pub refused: bool,
    /// Records that wait for a destination in trouble: assignment, record, topic.
    pub in_trouble: BTreeSet<(u32, RecordId, usize)>,
}

impl Transactions {
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// A destination has taken a record, or refused it for itself: it may be in no trouble now.
    pub fn answered(&mut self, topic: usize) {
        self.in_trouble.retain(|(_, _, at)| *at != topic);
    }

    /// The end of the transaction is with the coordinator, whatever the process does.
    pub fn is_on_its_way(&self) -> bool {
        matches!(self.call, Some(Call::Commit(_, Stage::End) | Call::Abort(_, _, Stage::End)))
    }
}

/// A send in the open transaction.
#[derive(Debug, Clone, Copy)]
pub struct Send {
    pub epoch: u32,
    pub record: RecordId,
    pub topic: usize,
    /// It is tried again, at a destination that refused it.
    pub trial: bool,
}

/// What the thread that ends transactions is doing.
#[derive(Debug, Clone)]
pub enum Call {
    Open(GroupOffsets),
    Commit(GroupOffsets, Stage),
    /// What makes the transaction known first, why it is aborted, how far that is.
    Abort(Option<GroupOffsets>, Option<AbortCause>, Stage),
}

/// Offsets, and the generation of the group that they are committed in.
#[derive(Debug, Clone)]
pub struct GroupOffsets {
    pub generation: u32,
    pub offsets: Vec<Committed>,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Offsets are on their way to the group, or what waits is about to be purged.
    First,
    /// What was sent has to end.
    Flush,
    /// The end is on its way to the coordinator.
    End,
}

/// The coordinator's state of one transactional id.
#[derive(Debug, Default)]
pub struct Coordinator {
    pub epoch: u32,
    open: Option<Open>,
    begun: u64,
    last_aborted: bool,
}

#[derive(Debug, Default)]
struct Open {
    number: u64,
    landed: Vec<Landed>,
    offsets: BTreeMap<usize, Committed>,
    /// It was decided, and its markers are being written.
    ended: bool,
}

/// How the coordinator answers.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    /// The transaction before has not quite ended.
    Concurrent,
    Fenced,
    /// The group does not take the offsets.
    Refused(&'static str),
}

impl World {
    /// A process starts: what an earlier one of the same host left open is aborted. How long that
    /// takes.
    pub fn init_transactions(&mut self, client: usize) -> i64 {
        let host = self.clients[client].host;
        self.coordinators[host].epoch += 1;
        self.clients[client].transactions.epoch = self.coordinators[host].epoch;
        let left_open = self.coordinators[host].open.as_ref().is_some_and(|open| !open.ended);
        if left_open {
            note!(self, "{client}: aborts what an earlier process left open");
            self.decide(host, false);
        }
        if left_open { self.rng.i64(20..800) } else { self.latency() }
    }

    /// Adds something to the transaction of `client`, which begins it if need be.
    fn enter(&mut self, client: usize) -> Answer {
        let host = self.clients[client].host;
        let this = &mut self.clients[client].transactions;
        this.asked = true;
        let coordinator = &mut self.coordinators[host];
        if coordinator.epoch != this.epoch {
            return Answer::Fenced;
        }
        match &coordinator.open {
            Some(open) if open.ended => return Answer::Concurrent,
            Some(_) => return Answer::Taken,
            None => {}
        }
        coordinator.begun += 1;
        let number = coordinator.begun;
        coordinator.open = Some(Open { number, ..Open::default() });
        note!(self, "coordinator: transaction {number} of host {host} begins");
        let longest = self.scenario.transaction_ms + self.rng.i64(0..CHECK_MS);
        self.after(longest, What::TransactionTimeout { host, number });
        Answer::Taken
    }

    /// The coordinator gives a transaction up.
    pub fn transaction_timeout(&mut self, host: usize, number: u64) {
        let coordinator = &mut self.coordinators[host];
        if coordinator.open.as_ref().is_some_and(|open| open.number == number && !open.ended) {
            note!(self, "coordinator: gives up transaction {number} of host {host}");
            self.coordinators[host].epoch += 1;
            self.decide(host, false);
        }
    }

    /// The markers of a transaction are written.
    pub fn markers(&mut self, host: usize) {
        self.coordinators[host].open = None;
    }

    /// Whether a transaction that has not ended has offsets of `partition`.
    pub fn is_unstable(&self, partition: usize) -> bool {
        let mut open = self.coordinators.iter().filter_map(|at| at.open.as_ref());
        open.any(|open| open.offsets.contains_key(&partition))
    }

    /// Whether the transaction of `client` is open, and leaders take what it sends.
    pub fn has_open_transaction(&self, client: usize) -> bool {
        let this = &self.clients[client];
        let coordinator = &self.coordinators[this.host];
        coordinator.epoch == this.transactions.epoch
            && coordinator.open.as_ref().is_some_and(|open| !open.ended)
    }

    /// A batch for `lane` is about to be sent: false when it has to wait, or will never be.
    pub fn may_produce(&mut self, client: usize, lane: LaneKey) -> bool {
        let topic = &self.topics[lane.0];
        // Of what does not exist the client knows without asking the coordinator.
        let known = topic.exists && lane.1 < topic.partitions;
        let allowed = topic.allowed;
        let this = &mut self.clients[client].transactions;
        if !known || this.added.contains(&lane) {
            return true;
        }
        this.asked = true;
        if !allowed {
            // Refused before the transaction begins by it.
            let text = "Failed to add partition: topic authorization failed";
            if !self.has_open_transaction(client) {
                self.clients[client].transactions.refused_first = Some(lane.0);
            }
            self.fail_transaction(client, text, Some(Trouble::Unauthorized));
            self.after(1, What::Batch { client, lane });
            return false;
        }
        let pause = match self.enter(client) {
            Answer::Taken => {
                self.clients[client].transactions.added.insert(lane);
                self.latency()
            }
            Answer::Concurrent => {
                self.clients[client].transactions.put_off = true;
                CONCURRENT_MS
            }
            Answer::Fenced | Answer::Refused(_) => {
                self.fenced(client);
                return false;
            }
        };
        self.after(pause, What::Batch { client, lane });
        false
    }

    /// A destination has a record of the open transaction.
    pub fn landed_in_transaction(&mut self, client: usize, landed: Landed) {
        let host = self.clients[client].host;
        self.coordinators[host].open.as_mut().unwrap().landed.push(landed);
    }

    /// The open transaction can only be aborted; what waits in the producer is undone.
    pub fn fail_transaction(&mut self, client: usize, text: &str, trouble: Option<Trouble>) {
        let this = &mut self.clients[client].transactions;
        if this.error.is_none() {
            this.error = Some(AbortCause { text: text.to_owned(), trouble });
            note!(self, "{client}: transaction failed: {text}");
        }
        self.purge(client);
    }

    fn fenced(&mut self, client: usize) {
        self.clients[client].transactions.fenced = true;
        self.fatal(client, "fenced by a newer instance");
    }

    fn fatal(&mut self, client: usize, text: &str) {
        if !std::mem::replace(&mut self.clients[client].transactions.fatal, true) {
            note!(self, "{client}: producer: {text}");
            let inbox = Inbox::Other(Event::Fatal(text.to_owned()));
            self.after(1, What::Deliver { client, inbox });
        }
    }

    /// Starts a call of the thread that ends transactions.
    pub fn start_call(&mut self, client: usize, call: Call) {
        if let Some(under_way) = &self.clients[client].transactions.call {
            let text = format!("{client} calls {call:?} during {under_way:?}");
            self.fail("contract", text);
        }
        self.clients[client].transactions.call = Some(call);
        let slow = self.strikes(Fault::Commits, 15);
        let pause = if slow { self.rng.i64(100..3_000) } else { self.latency() };
        self.after(pause, What::Call { client });
    }

    fn go_on(&mut self, client: usize, call: Call, pause_ms: i64) {
        self.clients[client].transactions.call = Some(call);
        self.after(pause_ms, What::Call { client });
    }

    fn answer(&mut self, client: usize, event: Event) {
        let slow = self.strikes(Fault::Commits, 10);
        let pause = if slow { self.rng.i64(100..2_000) } else { self.latency() };
        self.after(pause, What::Deliver { client, inbox: Inbox::Other(event) });
    }

    /// The next step of the call under way.
    pub fn call(&mut self, client: usize) {
        let Some(call) = self.clients[client].transactions.call.take() else { return };
        if !self.clients[client].alive {
            // Its process died, but the request may have been on its way.
            if let Call::Commit(_, Stage::End) = call
                && self.has_open_transaction(client)
                && self.rng.bool()
            {
                self.decide(self.clients[client].host, true);
            }
            return;
        }
        match call {
            Call::Open(offsets) => self.open_call(client, offsets),
            Call::Commit(offsets, stage) => self.commit_call(client, offsets, stage),
            Call::Abort(known_by, cause, stage) => self.abort_call(client, known_by, cause, stage),
        }
    }

    fn open_call(&mut self, client: usize, offsets: GroupOffsets) {
        match self.add_offsets(client, &offsets) {
            Answer::Taken => self.answer(client, Event::Opened(Ok(()))),
            Answer::Concurrent => self.go_on(client, Call::Open(offsets), CONCURRENT_MS),
            Answer::Fenced => self.fenced(client),
            Answer::Refused(text) => {
                self.fail_transaction(client, text, None);
                self.answer(client, Event::Opened(Err(text.to_owned())));
            }
        }
    }

    fn commit_call(&mut self, client: usize, offsets: GroupOffsets, stage: Stage) {
        if let Some(error) = &self.clients[client].transactions.error {
            let text = error.text.clone();
            self.answer(client, Event::Committed(Err(text)));
            return;
        }
        let (stage, pause) = match stage {
            Stage::First => match self.add_offsets(client, &offsets) {
                Answer::Taken => (Stage::Flush, self.latency()),
                Answer::Concurrent => (Stage::First, CONCURRENT_MS),
                Answer::Fenced => return self.fenced(client),
                Answer::Refused(text) => {
                    self.fail_transaction(client, text, None);
                    self.answer(client, Event::Committed(Err(text.to_owned())));
                    return;
                }
            },
            Stage::Flush if self.clients[client].producer.len() > 0 => (Stage::Flush, 2),
            Stage::Flush => (Stage::End, self.latency()),
            Stage::End if !self.has_open_transaction(client) => return self.fenced(client),
            Stage::End => {
                self.decide(self.clients[client].host, true);
                self.ended(client);
                self.answer(client, Event::Committed(Ok(())));
                return;
            }
        };
        self.go_on(client, Call::Commit(offsets, stage), pause);
    }

    fn abort_call(
        &mut self,
        client: usize,
        known_by: Option<GroupOffsets>,
        cause: Option<AbortCause>,
        stage: Stage,
    ) {
        let host = self.clients[client].host;
        let (stage, pause) = match stage {
            Stage::First => {
                if self.make_known(client, known_by.as_ref()) {
                    self.purge(client);
                    (Stage::Flush, 1)
                } else {
                    (Stage::First, CONCURRENT_MS)
                }
            }
            Stage::Flush if self.clients[client].producer.len() > 0 => (Stage::Flush, 2),
            Stage::Flush if self.clients[client].transactions.asked => (Stage::End, self.latency()),
            Stage::Flush => {
                self.ended(client);
                self.answer(client, Event::Aborted(cause));
                return;
            }
            Stage::End => {
                let coordinator = &self.coordinators[host];
                let current = coordinator.epoch == self.clients[client].transactions.epoch;
                match &coordinator.open {
                    _ if !current => return self.fenced(client),
                    Some(open) if open.ended => (Stage::End, CONCURRENT_MS),
                    None if !coordinator.last_aborted => return self.never_begun(client),
                    open => {
                        if open.is_some() {
                            self.decide(host, false);
                        }
                        self.ended(client);
                        self.answer(client, Event::Aborted(cause));
                        return;
                    }
                }
            }
        };
        self.go_on(client, Call::Abort(known_by, cause, stage), pause);
    }

    /// Adds offsets to a transaction that is to be aborted, if it still can be. False while the
    /// coordinator puts it off.
    fn make_known(&mut self, client: usize, offsets: Option<&GroupOffsets>) -> bool {
        let Some(offsets) = offsets.filter(|_| !self.clients[client].transactions.has_failed())
        else {
            return true;
        };
        match self.add_offsets(client, offsets) {
            Answer::Concurrent => return false,
            Answer::Refused(text) => self.fail_transaction(client, text, None),
            // The abort finds out.
            Answer::Taken | Answer::Fenced => {}
        }
        true
    }

    /// An abort of a transaction of which the coordinator never heard ends the process. It must not
    /// come to that at a destination that may be forbidden for all the worker knows. It may when a
    /// right was taken away, and when it fails, or loses all partitions, while the end of the one
    /// before takes long.
    fn never_begun(&mut self, client: usize) {
        let this = &mut self.clients[client].transactions;
        let deprived = this.refused_first.is_some_and(|topic| this.proven.contains(&topic));
        this.never_begun = deprived || this.put_off && (this.error.is_some() || this.is_nobody);
        if this.never_begun {
            self.fatal(client, "invalid transaction state");
        } else {
            let text = format!("{client} aborts what the coordinator never heard of");
            self.fail("contract", text);
        }
    }

    /// The client may begin the next transaction.
    fn ended(&mut self, client: usize) {
        let this = &mut self.clients[client].transactions;
        this.added.clear();
        (this.asked, this.put_off) = (false, false);
        (this.error, this.refused_first) = (None, None);
    }

    /// Offsets of the transaction reach the group.
    fn add_offsets(&mut self, client: usize, at: &GroupOffsets) -> Answer {
        let GroupOffsets { generation, offsets } = at;
        let answer = self.enter(client);
        if answer != Answer::Taken {
            return answer;
        }
        let refusal = if !self.group.members.contains(&client) {
            Some("unknown member")
        } else if *generation != self.group.generation {
            Some("illegal generation")
        } else {
            None
        };
        note!(
            self,
            "group: offsets in the transaction of {client}: {} {}",
            Committed::list(offsets),
            refusal.unwrap_or("taken"),
        );
        if let Some(refusal) = refusal {
            return Answer::Refused(refusal);
        }
        let host = self.clients[client].host;
        let open = self.coordinators[host].open.as_mut().unwrap();
        for commit in offsets {
            open.offsets.insert(commit.partition, commit.clone());
        }
        Answer::Taken
    }

    /// The coordinator ends the open transaction of `host`.
    fn decide(&mut self, host: usize, commit: bool) {
        let coordinator = &mut self.coordinators[host];
        coordinator.last_aborted = !commit;
        let open = coordinator.open.as_mut().unwrap();
        open.ended = true;
        let (landed, offsets) = (open.landed.clone(), open.offsets.clone());
        let number = open.number;
        let end = if commit { "committed" } else { "aborted" };
        note!(self, "coordinator: transaction {number} of host {host} is {end}");
        if commit {
            self.visible(&landed, &offsets);
        }
        let slow = self.strikes(Fault::Commits, 10);
        let pause = if slow { self.rng.i64(100..3_000) } else { self.latency() };
        self.after(pause, What::Markers { host });
    }

    /// G8: what readers of committed records see, and the offsets that come with it.
    fn visible(&mut self, landed: &[Landed], offsets: &BTreeMap<usize, Committed>) {
        for landed in landed {
            self.check_visible(landed, offsets);
            self.ledger.acknowledge(landed.record);
        }
        for commit in offsets.values() {
            self.check_passed_over(commit);
            self.group.committed[commit.partition] = commit.offset;
            self.group.ahead[commit.partition] = commit.ahead.clone();
        }
    }

    /// The worker is told of the end of its transaction.
    pub fn told_end(&mut self, client: usize, event: &Event) {
        let taken = match event {
            Event::Committed(Ok(())) => true,
            Event::Aborted(_) => false,
            _ => return,
        };
        let refused = std::mem::take(&mut self.clients[client].transactions.refused);
        let trouble = match event {
            Event::Aborted(Some(cause)) if !refused => cause.trouble,
            _ => None,
        };
        let sends = std::mem::take(&mut self.clients[client].transactions.sends);
        self.note_blame(client, &sends, trouble);
        for Send { epoch, record, topic, .. } in sends {
            let fate = &mut self.ledger.fates[record];
            let this = &mut self.clients[client];
            let state = this.sends.get_mut(&(epoch, record)).unwrap();
            if taken {
                this.taken[fate.partition].remove(&fate.offset);
            } else {
                // It may have been given up for not answering.
                if *state != SendState::Acknowledged {
                    this.troubled.insert(topic);
                }
                if trouble.is_some() && *state != SendState::Acknowledged {
                    fate.waited = true;
                    this.transactions.in_trouble.insert((epoch, record, topic));
                }
                *state = SendState::Refused;
            }
        }
    }
}
