//! The topics that records go to, and how one in trouble is kept from holding up the others.
//!
//! A destination is *open* until it refuses a record in a way that may pass. From then on its
//! records wait here, in the order in which their lanes handed them on, and are tried in rounds: a
//! round begins when nothing is under way to that topic, so its outcome belongs to its records
//! alone. A round that succeeds doubles the next one, a round that fails halves it.
//!
//! - unknown topic, not authorised: tried again for `grace`; then the destination is *condemned*:
//!   what waits and what comes is rejected at once, except for one probe at a time that finds out
//!   whether the topic has appeared;
//! - too large: the broker refuses the whole batch for one record. A record that is refused alone
//!   in its round is too large itself; the others go through;
//! - transient, and everything at the dead-letter topic: tried again without end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::action::Ticket;
use super::isolation::{Isolation, Trouble, rejection};
use super::reject::Rejection;

/// Destinations remembered. Names are attacker-controlled; idle ones make room for new ones.
pub const MAX_DESTINATIONS: usize = 10_000;

/// Records that wait for one unknown or unauthorised destination; further ones are rejected.
pub const MAX_WAITING: usize = 10_000;

/// Dead letters that were refused for themselves wait behind all others, from this order on.
const ASIDE: u64 = 1 << 63;

/// Index of a destination in [`Destinations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(usize);

/// Whether a topic is a destination of its own or takes dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Named by records.
    Origin,
    /// The dead-letter topic: never condemned.
    DeadLetter,
}

/// Settings of the retries.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How long an unknown or unauthorised destination is tried again.
    pub grace_ms: i64,
    /// First pause between two rounds that fail.
    pub initial_backoff_ms: i64,
    /// Longest pause.
    pub max_backoff_ms: i64,
}

/// What to do with a record that is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send it now; it counts as under way.
    Send,
    /// It waits here.
    Wait,
    /// The destination is condemned.
    Reject(Rejection),
}

/// What to do with a record that its destination refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It waits here.
    Waits,
    /// It will never be taken.
    Reject(Rejection),
}

#[derive(Debug)]
struct Destination {
    name: Arc<str>,
    role: Role,
    under_way: u32,
    /// It has taken a record.
    proven: bool,
    isolation: Option<Box<Isolation>>,
}

impl Destination {
    fn is_idle(&self) -> bool {
        let waits = self.isolation.as_ref().is_some_and(|isolation| !isolation.waiting.is_empty());
        self.under_way == 0 && !waits && self.role == Role::Origin
    }
}

/// All destinations that records went to lately.
#[derive(Debug)]
pub struct Destinations {
    policy: RetryPolicy,
    table: Vec<Destination>,
    by_name: HashMap<Arc<str>, DestinationId>,
    free: Vec<DestinationId>,
    /// Destinations that may begin a round, by the moment from which they may.
    rounds: BTreeSet<(i64, DestinationId)>,
    /// Order of the next dead letter that steps aside.
    next_aside: u64,
    /// Idle destinations are forgotten when there are this many.
    evict_at: usize,
}

impl Destinations {
    /// An empty table.
    pub fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            table: Vec::new(),
            by_name: HashMap::new(),
            free: Vec::new(),
            rounds: BTreeSet::new(),
            next_aside: ASIDE,
            evict_at: MAX_DESTINATIONS,
        }
    }

    /// The entry of topic `name`, made if need be.
    pub fn intern(&mut self, name: &str, role: Role) -> DestinationId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        if self.by_name.len() >= self.evict_at {
            self.evict_idle();
            // When few were idle, looking again at each new name would be in vain.
            self.evict_at = MAX_DESTINATIONS.max(self.by_name.len() * 2);
        }
        let name: Arc<str> = name.into();
        let entry = Destination {
            name: Arc::clone(&name),
            role,
            under_way: 0,
            proven: false,
            isolation: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.table[id.0] = entry;
                id
            }
            None => {
                self.table.push(entry);
                DestinationId(self.table.len() - 1)
            }
        };
        self.by_name.insert(name, id);
        id
    }

    /// Where records stand that were refused while there is no dead-letter topic.
    pub fn nowhere(&mut self) -> DestinationId {
        self.intern("", Role::DeadLetter)
    }

    /// Whether the destination is in trouble.
    pub fn is_isolated(&self, id: DestinationId) -> bool {
        self.table[id.0].isolation.is_some()
    }

    /// Whether the destination has taken a record before and is in no trouble.
    pub fn is_proven(&self, id: DestinationId) -> bool {
        let destination = &self.table[id.0];
        destination.proven && destination.isolation.is_none()
    }

    /// The topic's name.
    pub fn name(&self, id: DestinationId) -> &Arc<str> {
        &self.table[id.0].name
    }

    /// Whether a record may be sent to `id` now.
    pub fn admit(
        &mut self,
        id: DestinationId,
        ticket: Ticket,
        order: u64,
        steady_ms: i64,
    ) -> Admission {
        let destination = &mut self.table[id.0];
        let Some(isolation) = &mut destination.isolation else {
            destination.under_way += 1;
            return Admission::Send;
        };
        let full = isolation.waiting.len() >= MAX_WAITING;
        let passing = matches!(isolation.trouble, Trouble::TooLarge | Trouble::Transient);
        if isolation.condemned || (full && !passing && destination.role == Role::Origin) {
            if isolation.condemned && destination.under_way == 0 && isolation.retry_ms <= steady_ms
            {
                isolation.released = 1;
                isolation.round_failed = false;
                isolation.round_answered = false;
                destination.under_way += 1;
                return Admission::Send;
            }
            return Admission::Reject(rejection(isolation.trouble, &destination.name));
        }
        let others_aside = isolation.waiting.keys().next().is_some_and(|first| *first >= ASIDE);
        if destination.role == Role::DeadLetter && others_aside {
            isolation.retry_ms = isolation.retry_ms.min(steady_ms);
        }
        isolation.waiting.insert(order, ticket);
        self.queue(id);
        Admission::Wait
    }

    /// A record of which [`Self::accepted`] or [`Self::forgotten`] was told is under way again.
    pub fn under_way_again(&mut self, id: DestinationId) {
        self.table[id.0].under_way += 1;
    }

    /// A record under way to `id` was acknowledged. True when that ended the destination's trouble.
    pub fn accepted(&mut self, id: DestinationId, steady_ms: i64) -> bool {
        let destination = &mut self.table[id.0];
        destination.under_way -= 1;
        destination.proven = true;
        let Some(isolation) = &mut destination.isolation else { return false };
        isolation.round_answered = true;
        if isolation.released > 0 {
            isolation.condemned = false;
            isolation.since_ms = steady_ms;
            isolation.backoff_ms = self.policy.initial_backoff_ms;
        }
        self.end_round(id, steady_ms)
    }

    /// A record under way to `id` was refused.
    pub fn refused(
        &mut self,
        id: DestinationId,
        ticket: Ticket,
        order: u64,
        trouble: Trouble,
        steady_ms: i64,
    ) -> Refused {
        let policy = self.policy;
        let destination = &mut self.table[id.0];
        destination.under_way -= 1;
        let new = || Box::new(Isolation::new(trouble, steady_ms, policy));
        let isolation = destination.isolation.get_or_insert_with(new);
        let alone = isolation.released == 1;
        let reject = isolation.refused(destination.role, trouble, steady_ms, policy);
        let name = Arc::clone(&destination.name);
        if !reject {
            // A dead letter that is refused for itself must not keep all others waiting behind it.
            let aside = destination.role == Role::DeadLetter && alone && !trouble.lasts();
            let order = if aside { self.next_aside } else { order };
            self.next_aside += u64::from(aside);
            isolation.waiting.insert(order, ticket);
        }
        self.end_round(id, steady_ms);
        if reject { Refused::Reject(rejection(trouble, &name)) } else { Refused::Waits }
    }

    /// A record under way to `id` was refused for itself: the destination is in no trouble.
    pub fn answered(&mut self, id: DestinationId, steady_ms: i64) {
        if let Some(isolation) = &mut self.table[id.0].isolation {
            isolation.round_answered = true;
        }
        self.forgotten(id, steady_ms);
    }

    /// A record under way to `id` came to an end that says nothing about the destination.
    pub fn forgotten(&mut self, id: DestinationId, steady_ms: i64) {
        let destination = &mut self.table[id.0];
        destination.under_way -= 1;
        match &mut destination.isolation {
            // A round without any answer ended no trouble.
            Some(isolation) if !isolation.round_answered => {
                if destination.under_way == 0 {
                    isolation.released = 0;
                }
                self.queue(id);
            }
            _ => {
                self.end_round(id, steady_ms);
            }
        }
    }

    /// Takes the next round of some destination whose time has come, or what a condemned one still
    /// has waiting. The caller sends (or drops) every ticket and then calls [`Self::released`].
    pub fn next_round(&mut self, steady_ms: i64) -> Option<Round> {
        let (_, id) = *self.rounds.first().filter(|(from_ms, _)| *from_ms <= steady_ms)?;
        self.rounds.pop_first();
        let destination = &mut self.table[id.0];
        let isolation = destination.isolation.as_mut().expect("only isolated ones are queued");
        isolation.queued_ms = None;
        if isolation.condemned {
            let rejection = rejection(isolation.trouble, &destination.name);
            let tickets = std::mem::take(&mut isolation.waiting).into_values().collect();
            return Some(Round { destination: id, tickets, rejection: Some(rejection) });
        }
        let mut tickets = Vec::new();
        while tickets.len() < isolation.round as usize {
            match isolation.waiting.pop_first() {
                Some((_, ticket)) => tickets.push(ticket),
                None => break,
            }
        }
        isolation.round_failed = false;
        isolation.round_answered = false;
        Some(Round { destination: id, tickets, rejection: None })
    }

    /// Of the last round, `count` records were sent.
    pub fn released(&mut self, id: DestinationId, count: u32, steady_ms: i64) {
        let destination = &mut self.table[id.0];
        destination.under_way += count;
        if let Some(isolation) = &mut destination.isolation {
            isolation.released = count;
        }
        self.end_round(id, steady_ms);
    }

    /// When the next round can begin; `None`: only after an event.
    pub fn next_wakeup_ms(&self) -> Option<i64> {
        self.rounds.first().map(|(from_ms, _)| *from_ms)
    }

    /// Destinations in trouble, for people.
    pub fn in_trouble(&self) -> impl Iterator<Item = (&str, Trouble)> {
        self.table.iter().filter_map(|destination| {
            Some((&*destination.name, destination.isolation.as_ref()?.trouble))
        })
    }

    /// When nothing is under way any more: sizes the next round, or opens the destination. True
    /// when that ended its trouble.
    fn end_round(&mut self, id: DestinationId, steady_ms: i64) -> bool {
        let opens = self.close_round(id, steady_ms);
        self.queue(id);
        opens
    }

    /// Puts a destination into the queue of rounds, or takes it out, as its state says.
    fn queue(&mut self, id: DestinationId) {
        let destination = &mut self.table[id.0];
        let Some(isolation) = &mut destination.isolation else { return };
        let waits = !isolation.waiting.is_empty();
        let key = match (waits, isolation.condemned, destination.under_way) {
            (true, true, _) => Some(i64::MIN),
            (true, false, 0) => Some(isolation.retry_ms),
            (true, false, _) | (false, _, _) => None,
        };
        if let Some(old) = isolation.queued_ms.take() {
            self.rounds.remove(&(old, id));
        }
        if let Some(new) = key {
            self.rounds.insert((new, id));
        }
        isolation.queued_ms = key;
    }

    fn close_round(&mut self, id: DestinationId, steady_ms: i64) -> bool {
        let destination = &mut self.table[id.0];
        let Some(isolation) = &mut destination.isolation else { return false };
        if destination.under_way > 0 {
            return false;
        }
        isolation.end_round(steady_ms);
        if !isolation.waiting.is_empty() {
            return false;
        }
        // A condemned destination needs no rounds: its next record is its probe.
        let opens = !isolation.condemned;
        if opens {
            destination.isolation = None;
        }
        opens
    }

    fn evict_idle(&mut self) {
        for (index, destination) in self.table.iter_mut().enumerate() {
            let id = DestinationId(index);
            if destination.is_idle() && self.by_name.get(&destination.name) == Some(&id) {
                self.by_name.remove(&destination.name);
                destination.isolation = None;
                self.free.push(id);
            }
        }
    }
}

/// Records that leave the waiting room together.
#[derive(Debug)]
pub struct Round {
    /// Where they were going.
    pub destination: DestinationId,
    /// The records, in order.
    pub tickets: Vec<Ticket>,
    /// Set when the destination is condemned: they are all rejected.
    pub rejection: Option<Rejection>,
}
