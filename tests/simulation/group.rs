//! The group: a coordinator with generations, and each member's side as librdkafka has it.
//!
//! A rebalance goes in rounds: all members join, the coordinator answers with a new generation,
//! members give back what moves and join again. A member has one rebalance event at a time and
//! waits for the worker's answer.

use std::collections::{BTreeMap, BTreeSet};

use kafka_delay::engine::Ahead;
use kafka_delay::kafka::{Event, Located, LogRange};

use crate::client::Inbox;
use crate::scenario::Fault;
use crate::world::{What, World, note};

/// The coordinator's state.
#[derive(Debug)]
pub struct Group {
    pub generation: u32,
    pub members: BTreeSet<usize>,
    pub owners: Vec<Option<usize>>,
    pub committed: Vec<Option<i64>>,
    /// What each commit says about records above it.
    pub ahead: Vec<Ahead>,
    /// Members that have joined, while a round is under way.
    joined: Option<BTreeSet<usize>>,
    round: u64,
    /// Shifts who gets what.
    shift: usize,
    /// Partitions that need not stay with their owners in the next round.
    pub unstuck: BTreeSet<usize>,
}

/// A commit of one partition, or that there is none.
#[derive(Debug, Clone)]
pub struct Committed {
    pub partition: usize,
    pub offset: Option<i64>,
    pub ahead: Ahead,
}

/// A commit on its way to the coordinator.
#[derive(Debug)]
pub struct CommitRequest {
    pub generation: u32,
    pub offsets: Vec<Committed>,
    /// The client does not wait for the answer: it says that the request timed out.
    pub timed_out: bool,
}

impl Committed {
    /// The offset, and those after the records that it has as settled above.
    pub fn offsets(&self) -> Vec<i64> {
        self.offset.into_iter().chain(self.ahead.offsets().map(|offset| offset + 1)).collect()
    }

    /// For people: `0@7 and [9]`.
    pub fn list(all: &[Self]) -> String {
        let text = |commit: &Self| {
            let Self { partition, offset, ahead } = commit;
            let ahead: Vec<i64> = ahead.offsets().collect();
            let ahead = if ahead.is_empty() { String::new() } else { format!(" and {ahead:?}") };
            format!("{partition}@{}{ahead}", offset.unwrap_or(-1))
        };
        all.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// A rebalance event of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebalance {
    Assign(Vec<usize>),
    Revoke { partitions: Vec<usize>, lost: bool },
}

impl Rebalance {
    fn event(&self) -> Event {
        let numbers = |partitions: &[usize]| {
            partitions.iter().map(|partition| i32::try_from(*partition).unwrap()).collect()
        };
        match self {
            Self::Assign(partitions) => Event::Assigned(numbers(partitions)),
            Self::Revoke { partitions, lost } => {
                Event::Revoked { partitions: numbers(partitions), lost: *lost }
            }
        }
    }
}

impl Group {
    pub fn new(partitions: usize) -> Self {
        Self {
            generation: 0,
            members: BTreeSet::new(),
            owners: vec![None; partitions],
            committed: vec![None; partitions],
            ahead: vec![Ahead::default(); partitions],
            joined: None,
            round: 0,
            shift: 0,
            unstuck: BTreeSet::new(),
        }
    }

    /// The commit of a partition.
    pub fn of(&self, partition: usize) -> Committed {
        let (offset, ahead) = (self.committed[partition], self.ahead[partition].clone());
        Committed { partition, offset, ahead }
    }

    /// Who is to own what: even shares, moving as little as need be.
    fn target(&self, partitions: usize, eager: bool) -> BTreeMap<usize, BTreeSet<usize>> {
        let members: Vec<usize> = self.members.iter().copied().collect();
        let mut target: BTreeMap<usize, BTreeSet<usize>> =
            members.iter().map(|member| (*member, BTreeSet::new())).collect();
        let most = partitions.div_ceil(members.len());
        let mut free = Vec::new();
        for partition in 0..partitions {
            let stuck = !eager && !self.unstuck.contains(&partition);
            let owner = self.owners[partition].filter(|_| stuck);
            match owner.and_then(|owner| target.get_mut(&owner)) {
                Some(owned) if owned.len() < most => {
                    owned.insert(partition);
                }
                _ => free.push(partition),
            }
        }
        for partition in free {
            let turn = |member: &usize| {
                let place = members.iter().position(|known| known == member).unwrap();
                (place + self.shift) % members.len()
            };
            let poorest = members.iter().min_by_key(|member| (target[member].len(), turn(member)));
            target.get_mut(poorest.unwrap()).unwrap().insert(partition);
        }
        target
    }
}

impl World {
    /// The group has to be balanced anew: everybody joins again.
    pub fn begin_round(&mut self) {
        if self.group.joined.is_none() {
            self.group.joined = Some(BTreeSet::new());
            self.group.shift += 1;
        }
        for client in self.group.members.clone() {
            let heartbeat = self.latency() + if self.scenario.calm { 1 } else { 50 };
            self.after(heartbeat, What::Join { client });
        }
    }

    /// A member asks to join, unless it has something to give back first.
    pub fn join(&mut self, client: usize) {
        let this = &self.clients[client];
        let busy = !this.outstanding.is_empty() || !this.rebalances.is_empty();
        if !this.alive || busy || this.awaits_sync {
            // It joins after its answer.
            return;
        }
        if !self.group.members.contains(&client) && !this.owned.is_empty() {
            self.notice_loss(client);
            return;
        }
        if self.group.members.insert(client) {
            note!(self, "{client}: becomes a member");
            self.begin_round();
            return;
        }
        if self.group.joined.is_none() {
            return;
        }
        if self.scenario.eager && !self.clients[client].owned.is_empty() {
            let partitions = self.clients[client].owned.iter().copied().collect();
            self.rebalance(client, Rebalance::Revoke { partitions, lost: false });
            return;
        }
        self.group.joined.as_mut().unwrap().insert(client);
        self.all_joined();
    }

    fn all_joined(&mut self) {
        if self.group.joined.as_ref().is_some_and(|joined| *joined == self.group.members) {
            self.group.round += 1;
            let (round, pause) = (self.group.round, self.latency());
            self.after(pause, What::Sync { round });
        }
    }

    /// The coordinator answers all members.
    pub fn sync(&mut self, round: u64) {
        let complete = self.group.joined.as_ref().is_some_and(|all| *all == self.group.members);
        if round != self.group.round || !complete || self.group.members.is_empty() {
            return;
        }
        self.group.joined = None;
        self.group.generation += 1;
        let generation = self.group.generation;
        let target = self.group.target(self.scenario.partitions, self.scenario.eager);
        self.group.unstuck.clear();
        note!(self, "group: generation {generation}, target {target:?}");
        for (client, wanted) in target {
            let owned = &self.clients[client].owned;
            let revoked: Vec<usize> = owned.difference(&wanted).copied().collect();
            let free = |partition: &usize| self.group.owners[*partition].is_none();
            let added: Vec<usize> =
                wanted.difference(owned).copied().filter(|partition| free(partition)).collect();
            for partition in &added {
                self.group.owners[*partition] = Some(client);
            }
            self.clients[client].awaits_sync = true;
            let pause = self.latency();
            self.after(pause, What::Synced { client, generation, revoked, added });
        }
    }

    /// A member learns its assignment.
    pub fn synced(
        &mut self,
        client: usize,
        generation: u32,
        revoked: Vec<usize>,
        added: Vec<usize>,
    ) {
        self.clients[client].awaits_sync = false;
        if !self.clients[client].alive {
            return;
        }
        if !self.group.members.contains(&client) {
            self.join(client);
            return;
        }
        self.clients[client].generation = generation;
        self.clients[client].owned.extend(&added);
        if !revoked.is_empty() {
            self.rebalance(client, Rebalance::Revoke { partitions: revoked, lost: false });
        }
        self.rebalance(client, Rebalance::Assign(added));
    }

    fn rebalance(&mut self, client: usize, event: Rebalance) {
        self.clients[client].rebalances.push_back(event);
        self.next_rebalance(client);
    }

    /// Tells the worker of the next rebalance event, when the one before was answered.
    pub fn next_rebalance(&mut self, client: usize) {
        if self.clients[client].outstanding.is_empty()
            && let Some(event) = self.clients[client].rebalances.pop_front()
        {
            self.tell(client, event);
        }
    }

    fn tell(&mut self, client: usize, event: Rebalance) {
        self.interrupt_fetching(client);
        let this = &mut self.clients[client];
        this.inbox.push_back(Inbox::Rebalance(event.event()));
        this.outstanding.push_back(event);
        let pause = self.rng.i64(0..self.scenario.serve_ms);
        self.wake(client, pause);
    }

    /// The worker answered its oldest rebalance event.
    pub fn answered(&mut self, client: usize, event: Rebalance) {
        if self.clients[client].outstanding.is_empty() {
            self.go_on_fetching(client);
        }
        if let Rebalance::Revoke { partitions, lost } = event {
            for partition in partitions {
                self.clients[client].owned.remove(&partition);
                if self.group.owners[partition] == Some(client) && !lost {
                    self.group.owners[partition] = None;
                }
            }
            if !lost && !self.scenario.eager && self.group.members.contains(&client) {
                self.begin_round();
            }
        }
        let pause = self.latency();
        self.after(pause, What::NextRebalance { client });
        self.after(pause, What::Join { client });
    }

    /// The coordinator drops a member; others take over. The member does not know.
    pub fn evict(&mut self, client: usize) {
        if !self.group.members.remove(&client) {
            return;
        }
        note!(self, "group: {client} is no member any more");
        for owner in &mut self.group.owners {
            owner.take_if(|owner| *owner == client);
        }
        if let Some(joined) = &mut self.group.joined {
            joined.remove(&client);
        }
        if !self.group.members.is_empty() {
            self.begin_round();
            self.all_joined();
        }
    }

    /// A session ends, if the member is still silent.
    pub fn expire(&mut self, client: usize, silent_ms: i64) {
        if self.now < self.dark_until {
            let time = self.dark_until + self.scenario.session_ms;
            self.at(time, What::Expire { client, silent_ms });
            return;
        }
        let this = &self.clients[client];
        if !this.alive || this.frozen_ms == Some(silent_ms) {
            for partition in self.clients[client].owned.clone() {
                self.soil(partition);
            }
            self.evict(client);
        }
    }

    /// A member that was dropped learns of it: all it had is lost, and it joins anew.
    pub fn notice_loss(&mut self, client: usize) {
        if !self.clients[client].alive || self.group.members.contains(&client) {
            return;
        }
        let immediate = self.rng.bool();
        let this = &mut self.clients[client];
        this.rebalances.clear();
        this.generation = 0;
        let partitions: Vec<usize> = this.owned.iter().copied().collect();
        let pending = matches!(this.outstanding.back(), Some(Rebalance::Revoke { lost: true, .. }));
        if partitions.is_empty() || pending {
            self.join(client);
            return;
        }
        let lost = Rebalance::Revoke { partitions, lost: true };
        if immediate && !this.outstanding.is_empty() {
            // The loss of a deleted topic does not wait for the answer to the event before.
            self.tell(client, lost);
        } else {
            self.rebalance(client, lost);
        }
    }

    /// A frozen process goes on; if it was dropped meanwhile, the next heartbeat says so.
    pub fn thaw(&mut self, client: usize) {
        let frozen = self.clients[client].frozen_until.is_some_and(|until| until <= self.now);
        if !self.clients[client].alive || !frozen {
            return;
        }
        note!(self, "{client}: goes on");
        let (now, shortest) = (self.now, self.scenario.drain_timeout_ms());
        let this = &mut self.clients[client];
        this.frozen_until = None;
        let since = this.frozen_ms.take();
        this.thawed_ms = since.filter(|since| now - since > shortest).map(|_| now);
        self.wake(client, 0);
        let pause = self.rng.i64(5..1_300);
        self.after(pause, What::Notice { client });
    }

    /// Starts a commit. librdkafka always tells of its end, be it that the coordinator's answer did
    /// not come in time: then nobody knows whether it was, or will be, taken.
    pub fn commit(&mut self, client: usize, offsets: Vec<Committed>) {
        let generation = self.clients[client].generation;
        let timed_out = self.strikes(Fault::Commits, 5);
        let slow = self.strikes(Fault::Commits, 15);
        let pause = if slow { self.rng.i64(100..4_000) } else { self.latency() };
        self.after(pause, What::Commit { client });
        if timed_out {
            let pause = self.rng.i64(100..6_000);
            let event = Event::Committed(Err("timed out".to_owned()));
            self.after(pause, What::Deliver { client, inbox: Inbox::Other(event) });
        }
        self.clients[client].commits.push_back(CommitRequest { generation, offsets, timed_out });
    }

    /// A commit reaches the coordinator.
    pub fn commit_arrived(&mut self, client: usize) {
        let Some(CommitRequest { generation, offsets, timed_out }) =
            self.clients[client].commits.pop_front()
        else {
            return;
        };
        let refusal = if !self.group.members.contains(&client) {
            Some("unknown member")
        } else if generation != self.group.generation {
            Some("illegal generation")
        } else if self.group.joined.is_some() && self.rng.u32(0..3) == 0 {
            Some("rebalance in progress")
        } else if self.strikes(Fault::Commits, 15) {
            Some("coordinator loading")
        } else {
            None
        };
        note!(
            self,
            "group: commit of {client}: {} {}",
            Committed::list(&offsets),
            refusal.unwrap_or("taken"),
        );
        if refusal.is_none() {
            for commit in &offsets {
                self.group.committed[commit.partition] = commit.offset;
                self.group.ahead[commit.partition] = commit.ahead.clone();
            }
        }
        if timed_out {
            return;
        }
        let result = refusal.map_or(Ok(()), |refusal| Err(refusal.to_owned()));
        let slow = self.strikes(Fault::Commits, 20);
        let pause = if slow { self.rng.i64(100..4_000) } else { self.latency() };
        self.after(pause, What::Deliver { client, inbox: Inbox::Other(Event::Committed(result)) });
    }

    /// The lookup has the commits; log ends are asked next.
    pub fn look_up_commits(&mut self, client: usize, request: u64, partitions: &[usize]) {
        if partitions.iter().any(|partition| self.is_unstable(*partition)) {
            let partitions = partitions.to_vec();
            let pause = self.rng.i64(20..200);
            self.after(pause, What::LookUpCommits { client, request, partitions });
            return;
        }
        let committed = partitions.iter().map(|slot| self.group.of(*slot)).collect();
        let slow = self.strikes(Fault::Lookups, 30);
        let pause = if slow { self.rng.i64(100..3_000) } else { self.latency() };
        self.after(pause, What::LookUpRanges { client, request, committed });
    }

    pub fn look_up_ranges(&mut self, client: usize, request: u64, committed: &[Committed]) {
        // One partition without a leader: log ends are done without.
        let without = committed.len() > 1 && self.strikes(Fault::Lookups, 20);
        let located: Vec<Located> = committed
            .iter()
            .map(|Committed { partition: slot, offset, ahead }| {
                let assumed = offset.unwrap_or(0);
                let (start, end) = if without {
                    (assumed, assumed)
                } else {
                    (self.logs[*slot].start, self.logs[*slot].end)
                };
                let partition = i32::try_from(*slot).unwrap();
                Located { partition, committed: *offset, ahead: ahead.clone(), start, end }
            })
            .collect();
        let slow = self.strikes(Fault::Lookups, 30);
        let pause = if slow { self.rng.i64(100..3_000) } else { self.latency() };
        for commit in committed {
            self.clients[client].ahead[commit.partition] = commit.ahead.clone();
        }
        let event = Event::Located { request, located };
        self.after(pause, What::Deliver { client, inbox: Inbox::Other(event) });
    }

    /// Log ends at intervals.
    pub fn report_ranges(&mut self, client: usize) {
        if !self.clients[client].alive {
            return;
        }
        let ranges = self.logs.iter().enumerate().map(|(slot, log)| LogRange {
            partition: i32::try_from(slot).unwrap(),
            start: log.start,
            end: log.end,
        });
        let event = Event::LogRanges(ranges.collect());
        let pause = self.latency();
        self.after(pause, What::Deliver { client, inbox: Inbox::Other(event) });
        self.after(10_000, What::Ranges { client });
    }
}
