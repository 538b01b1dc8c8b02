//! The worker's port onto the simulated world: the same calls in the same order as
//! `src/kafka/port.rs` and `src/kafka/consumer.rs` make to librdkafka.

use std::collections::BTreeMap;

use kafka_delay::engine::{Commit, Form, Outgoing, Ticket};
use kafka_delay::kafka::{Event, Fetched, Port, PortError, Probe, SendError};

use crate::checks::Sending;
use crate::fetch::Polled;
use crate::group::{Committed, Rebalance};
use crate::record::SimRecord;
use crate::scenario::Fault;
use crate::transaction::{Call, GroupOffsets, Stage};
use crate::world::{Shared, What, World, note};

/// One process's port.
pub struct SimPort {
    client: usize,
    world: Shared,
    /// Records taken out of queues by [`Self::touch`], by partition.
    touched: BTreeMap<i32, Fetched<SimRecord>>,
}

impl SimPort {
    pub fn new(client: usize, world: Shared) -> Self {
        Self { client, world, touched: BTreeMap::new() }
    }

    /// As `KafkaPort::touch`.
    fn touch(&mut self) {
        self.sweep();
        let partitions = self.world.borrow().scenario.partitions;
        for slot in 0..partitions {
            let partition = i32::try_from(slot).unwrap();
            if !self.touched.contains_key(&partition)
                && let Some(fetched) = self.take(slot)
            {
                self.touched.insert(partition, fetched);
            }
        }
    }

    /// As `DelayConsumer::next_record`.
    fn take(&mut self, slot: usize) -> Option<Fetched<SimRecord>> {
        let mut world = self.world.borrow_mut();
        if !world.clients[self.client].fetchers[slot].ready {
            return None;
        }
        let polled = world.poll(self.client, slot);
        if polled.is_none() {
            world.clients[self.client].fetchers[slot].ready = false;
        }
        Some(match polled? {
            Polled::Record(record) => Fetched::Record(record),
            Polled::Gone => Fetched::OffsetGone,
        })
    }

    /// Runs a call on the world, unless the process died at an earlier one. A call that ends the
    /// process has no effect.
    fn call<T>(&mut self, dead: T, call: impl FnOnce(&mut World, usize) -> T) -> T {
        let client = self.client;
        let mut world = self.world.borrow_mut();
        world.clients[client].moved = true;
        if let Some(left) = world.clients[client].dies_after {
            world.clients[client].dies_after = Some(left.saturating_sub(1));
            if left == 0 {
                return dead;
            }
        }
        call(&mut world, client)
    }
}

fn slot(partition: i32) -> usize {
    usize::try_from(partition).unwrap()
}

fn committed(commit: &Commit) -> Committed {
    let Commit { partition, offset, ahead, .. } = commit;
    Committed { partition: slot(*partition), offset: Some(*offset), ahead: ahead.clone() }
}

fn failed(call: &'static str) -> PortError {
    PortError { call, cause: "simulated".to_owned() }
}

impl World {
    /// As `DelayConsumer::group_offsets`: only a member has any.
    fn group_offsets(
        &self,
        client: usize,
        offsets: Vec<Committed>,
    ) -> Result<GroupOffsets, PortError> {
        let generation = self.clients[client].generation;
        if generation == 0 {
            return Err(failed("group metadata"));
        }
        Ok(GroupOffsets { generation, offsets })
    }
}

impl Port for SimPort {
    type Record = SimRecord;

    fn serve(&mut self) {}

    /// Never answered: G4 is checked from outside, and the watch has tests of its own.
    fn probe(&mut self, _probe: Probe) {}

    fn next_event(&mut self) -> Option<Event> {
        self.world.borrow_mut().next_inbox(self.client)
    }

    fn next_record(&mut self, partition: i32) -> Option<Fetched<SimRecord>> {
        let fetched = self.touched.remove(&partition).or_else(|| self.take(slot(partition)))?;
        let client = self.client;
        let mut world = self.world.borrow_mut();
        world.clients[client].moved = true;
        match &fetched {
            Fetched::Record(record) => {
                note!(world, "{client}: reads {}", world.name(record.0.id));
                world.check_read(client, slot(partition), record);
            }
            Fetched::OffsetGone => note!(world, "{client}: position of {partition} is gone"),
        }
        Some(fetched)
    }

    fn sweep(&mut self) {
        for fetcher in &mut self.world.borrow_mut().clients[self.client].fetchers {
            fetcher.ready = true;
        }
    }

    fn send(
        &mut self,
        ticket: Ticket,
        outgoing: &Outgoing<'_, SimRecord>,
    ) -> Result<(), SendError> {
        let sending = Sending {
            ticket,
            record: outgoing.record.0.id,
            topic: outgoing.topic,
            due_ms: outgoing.due_ms,
            rejection: match outgoing.form {
                Form::Forward { .. } => None,
                Form::DeadLetter { rejection, .. } => Some(rejection.reason),
            },
            partition: match outgoing.form {
                Form::Forward { partition, .. } => partition,
                Form::DeadLetter { .. } => None,
            },
        };
        self.call(Ok(()), |world, client| {
            if let Some(call) = &world.clients[client].transactions.call {
                let text = format!("{client} sends during {call:?}");
                world.fail("contract", text);
            }
            world.send(client, &sending)
        })
    }

    /// As `DelayConsumer::park`.
    fn park(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        let parked = self.call(Ok(()), |world, client| {
            let slot = slot(partition);
            if world.strikes(Fault::Calls, 15) {
                note!(world, "{client}: park {partition}@{offset}: pause failed");
                return Err(failed("pause"));
            }
            world.pause(client, slot);
            // A seek that timed out may have been made all the same.
            let timeout = world.strikes(Fault::Calls, 15);
            let made = timeout && world.rng.bool();
            let sought = (!timeout || made) && world.seek(client, slot, offset);
            if timeout || !sought {
                note!(world, "{client}: park {partition}@{offset}: seek failed");
                world.resume(client, slot);
                return Err(failed("seek"));
            }
            note!(world, "{client}: park {partition}@{offset}");
            while world.poll(client, slot).is_some() {}
            world.put_back(client, slot, offset);
            Ok(())
        });
        parked?;
        self.touched.remove(&partition);
        Ok(())
    }

    /// As `DelayConsumer::unpark`.
    fn unpark(&mut self, partition: i32, offset: i64) -> Result<(), PortError> {
        self.call(Ok(()), |world, client| {
            let slot = slot(partition);
            if world.strikes(Fault::Calls, 15) {
                return Err(failed("resume"));
            }
            world.resume(client, slot);
            if world.strikes(Fault::Calls, 15) || !world.seek(client, slot, offset) {
                note!(world, "{client}: unpark {partition}@{offset}: seek failed");
            }
            note!(world, "{client}: unpark {partition}@{offset}");
            Ok(())
        })
    }

    fn locate(&mut self, request: u64, partitions: Vec<i32>) {
        self.call((), |world, client| {
            let partitions = partitions.into_iter().map(slot).collect();
            let pause = world.latency();
            world.after(pause, What::LookUpCommits { client, request, partitions });
        });
    }

    /// As `KafkaPort::assign` and `DelayConsumer::assign`.
    fn assign(&mut self, starts: &[(i32, i64)]) -> Result<(), PortError> {
        for (partition, _) in starts {
            self.touched.remove(partition);
        }
        self.call(Ok(()), |world, client| {
            note!(world, "{client}: assign {starts:?}");
            let starts: Vec<(usize, i64)> =
                starts.iter().map(|(partition, offset)| (slot(*partition), *offset)).collect();
            world.check_assign(client, &starts);
            for (slot, offset) in &starts {
                world.start_fetching(client, *slot, *offset);
                // A partition that was paused when it was lost is still paused when it comes back.
                world.resume(client, *slot);
            }
            if world.clients[client].relocating.take().is_none() {
                match world.clients[client].outstanding.pop_front() {
                    Some(event @ Rebalance::Assign(_)) => world.answered(client, event),
                    other => world.fail("contract", format!("assign answers {other:?}")),
                }
            }
            world.go_on_fetching(client);
            Ok(())
        })?;
        self.touch();
        Ok(())
    }

    /// As `KafkaPort::unassign`.
    fn unassign(&mut self, partitions: &[i32]) -> Result<(), PortError> {
        self.call(Ok(()), |world, client| {
            note!(world, "{client}: unassign {partitions:?}");
            let slots: Vec<usize> = partitions.iter().map(|partition| slot(*partition)).collect();
            match world.clients[client].outstanding.pop_front() {
                None => world.clients[client].relocating = slots.first().copied(),
                Some(event @ Rebalance::Revoke { .. }) => {
                    world.check_release(client, &slots, &event);
                    world.answered(client, event);
                }
                other => world.fail("contract", format!("unassign answers {other:?}")),
            }
            for slot in slots {
                if !world.clients[client].held.remove(&slot) {
                    let text = format!("unassign of {slot}, which is not assigned");
                    world.fail("contract", text);
                }
                world.stop_fetching(client, slot);
                if world.clients[client].relocating != Some(slot) {
                    world.clients[client].taken[slot].clear();
                }
            }
            Ok(())
        })?;
        self.touch();
        for partition in partitions {
            self.touched.remove(partition);
        }
        Ok(())
    }

    fn commit(&mut self, commits: &[Commit]) -> Result<(), PortError> {
        self.call(Ok(()), |world, client| {
            let offsets: Vec<Committed> = commits.iter().map(committed).collect();
            note!(world, "{client}: commit {}", Committed::list(&offsets));
            let exactly_once = world.scenario.exactly_once;
            world.check_commit(client, &offsets, exactly_once);
            if exactly_once {
                let offsets = world.group_offsets(client, offsets)?;
                world.start_call(client, Call::Commit(offsets, Stage::First));
                return Ok(());
            }
            if world.strikes(Fault::Commits, 5) {
                world.clients[client].commit_trouble = true;
                return Err(failed("commit"));
            }
            world.commit(client, offsets);
            Ok(())
        })
    }

    fn open(&mut self, commit: &Commit) -> Result<(), PortError> {
        self.call(Ok(()), |world, client| {
            let offsets = vec![committed(commit)];
            note!(world, "{client}: open with {}", Committed::list(&offsets));
            world.check_commit(client, &offsets, false);
            let offsets = world.group_offsets(client, offsets)?;
            world.start_call(client, Call::Open(offsets));
            Ok(())
        })
    }

    fn abort(&mut self, known_by: Option<&Commit>) {
        self.call((), |world, client| {
            let offsets: Vec<Committed> = known_by.into_iter().map(committed).collect();
            note!(world, "{client}: abort, known by {}", Committed::list(&offsets));
            world.check_commit(client, &offsets, false);
            if !world.scenario.exactly_once {
                world.fail("contract", format!("{client} aborts without transactions"));
            }
            let offsets = world.group_offsets(client, offsets);
            world.clients[client].transactions.is_nobody =
                offsets.is_err() || world.clients[client].held.is_empty();
            let known_by = known_by.and_then(|_| offsets.ok());
            // A failed transaction tells the cause of its failure.
            let cause = world.clients[client].transactions.error.clone();
            world.start_call(client, Call::Abort(known_by, cause, Stage::First));
        });
    }
}
