//! What becomes of a record after it was handed on: sent, acknowledged, tried again, dead-lettered,
//! dropped. The half of [`Engine`] that follows one ticket to its end.

use std::sync::Arc;

use super::action::{Action, Notice, Refusal, Ticket};
use super::destinations::{Admission, Refused};
use super::engine::{Engine, live_lane};
use super::entry::{Progress, Target};
use super::isolation::Trouble;
use super::lane::Phase;
use super::record::Record;
use super::reject::Rejection;

pub(super) enum Outcome {
    Delivered,
    Dropped(Rejection),
}

impl<R: Record> Engine<R> {
    /// Sends what waits for destinations whose time to be tried has come.
    pub(super) fn retry_destinations(&mut self, steady_ms: i64) {
        while let Some(round) = self.destinations.next_round(steady_ms) {
            let mut sent = 0;
            for ticket in round.tickets {
                let Some(lane) = live_lane(&mut self.lanes, ticket) else { continue };
                if lane.phase() == Phase::Draining {
                    continue;
                }
                if let Some(rejection) = &round.rejection {
                    self.reject(ticket, rejection.clone(), steady_ms);
                } else if let Some(entry) = lane.window.get_mut(ticket.index) {
                    entry.progress = Progress::Sent;
                    lane.sent_records += 1;
                    sent += 1;
                    self.actions.push_back(Action::Send(ticket));
                }
            }
            if round.rejection.is_none() {
                self.destinations.released(round.destination, sent, steady_ms);
            }
        }
    }

    /// A send that [`Action::Send`] asked for was not made.
    pub fn abandoned(&mut self, ticket: Ticket, steady_ms: i64) {
        self.destinations.forgotten(ticket.destination, steady_ms);
        if let Some(lane) = live_lane(&mut self.lanes, ticket)
            && let Some(entry) = lane.window.get_mut(ticket.index)
            && entry.progress == Progress::Sent
        {
            entry.progress = Progress::Stranded;
            lane.sent_records -= 1;
        }
    }

    /// A send ended: acknowledged, or refused.
    pub fn settled(&mut self, ticket: Ticket, result: Result<(), Refusal>, steady_ms: i64) {
        let Some(lane) = live_lane(&mut self.lanes, ticket) else {
            self.destinations.forgotten(ticket.destination, steady_ms);
            return;
        };
        let draining = lane.phase() == Phase::Draining;
        lane.sent_records -= 1;
        match result {
            Ok(()) => {
                if self.destinations.accepted(ticket.destination, steady_ms) {
                    let topic = Arc::clone(self.destinations.name(ticket.destination));
                    self.notices.push_back(Notice::DestinationRecovered { topic });
                }
                self.delivered(ticket);
            }
            Err(Refusal::Undone) => {
                self.destinations.forgotten(ticket.destination, steady_ms);
                if let Some(entry) = lane.window.get_mut(ticket.index) {
                    entry.progress = Progress::Undone;
                }
            }
            Err(_) if draining => {
                // Not sent again from here: the partition's next owner does (G5).
                self.destinations.forgotten(ticket.destination, steady_ms);
                if let Some(entry) = lane.window.get_mut(ticket.index) {
                    entry.progress = Progress::Stranded;
                }
            }
            Err(refusal) if self.dead_letter == Some(ticket.destination) => {
                self.dead_letter_refused(ticket, refusal, steady_ms);
            }
            Err(Refusal::Trouble(trouble)) => self.wait_for_destination(ticket, trouble, steady_ms),
            Err(Refusal::Permanent(rejection)) => {
                self.destinations.answered(ticket.destination, steady_ms);
                self.reject(ticket, rejection, steady_ms);
            }
        }
    }

    /// A record was acknowledged: it is settled, or will be with its transaction.
    fn delivered(&mut self, ticket: Ticket) {
        if !self.config.transactional {
            self.finish(ticket, Outcome::Delivered);
            return;
        }
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        if let Some(entry) = lane.window.get_mut(ticket.index) {
            entry.progress = Progress::Delivered;
            lane.delivered_records += 1;
            lane.changed();
        }
    }

    /// Sends the record of `ticket` where its entry says, or lets it wait.
    pub(super) fn submit(&mut self, ticket: Ticket, steady_ms: i64) {
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        let Some(entry) = lane.window.get_mut(ticket.index) else { return };
        if let (Target::DeadLetter(rejection), None) = (&entry.target, self.dead_letter) {
            let rejection = rejection.clone();
            self.refuse_for_good(ticket, rejection);
            return;
        }
        match self.destinations.admit(ticket.destination, ticket, entry.order, steady_ms) {
            Admission::Send => {
                entry.progress = Progress::Sent;
                lane.sent_records += 1;
                self.actions.push_back(Action::Send(ticket));
            }
            Admission::Wait => {
                entry.progress = Progress::Waiting;
                entry.record.detach();
            }
            Admission::Reject(rejection) => self.reject(ticket, rejection, steady_ms),
        }
    }

    /// The dead-letter topic refused a record: it is dropped, or tried again without end.
    fn dead_letter_refused(&mut self, ticket: Ticket, refusal: Refusal, steady_ms: i64) {
        let trouble = match refusal {
            Refusal::Trouble(trouble) => trouble,
            Refusal::Permanent(_) | Refusal::Undone => Trouble::Transient,
        };
        let passing = refusal == Refusal::Trouble(Trouble::Transient);
        if passing || !self.config.drop_refused {
            self.wait_for_destination(ticket, trouble, steady_ms);
            return;
        }
        self.destinations.answered(ticket.destination, steady_ms);
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        if let Some((_, entry)) = lane.window.get(ticket.index)
            && let Target::DeadLetter(rejection) = &entry.target
        {
            let rejection = rejection.clone();
            self.refuse_for_good(ticket, rejection);
        }
    }

    pub(super) fn wait_for_destination(
        &mut self,
        ticket: Ticket,
        trouble: Trouble,
        steady_ms: i64,
    ) {
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        let Some(entry) = lane.window.get_mut(ticket.index) else { return };
        entry.progress = Progress::Waiting;
        entry.record.detach();
        let order = entry.order;
        if !self.destinations.is_isolated(ticket.destination) {
            let topic = Arc::clone(self.destinations.name(ticket.destination));
            self.notices.push_back(Notice::DestinationInTrouble { topic, trouble });
        }
        let refused =
            self.destinations.refused(ticket.destination, ticket, order, trouble, steady_ms);
        if let Refused::Reject(rejection) = refused {
            self.reject(ticket, rejection, steady_ms);
        }
    }

    /// Turns a record that will not be forwarded to the dead-letter topic.
    pub(super) fn reject(&mut self, ticket: Ticket, rejection: Rejection, steady_ms: i64) {
        let Some(dead_letter) = self.dead_letter else {
            self.refuse_for_good(ticket, rejection);
            return;
        };
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        let Some(entry) = lane.window.get_mut(ticket.index) else { return };
        entry.target = Target::DeadLetter(rejection);
        entry.destination = dead_letter;
        self.submit(Ticket { destination: dead_letter, ..ticket }, steady_ms);
    }

    /// There is nowhere to put the record: drop it or halt its lane, as configured.
    fn refuse_for_good(&mut self, ticket: Ticket, rejection: Rejection) {
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        if self.config.drop_refused {
            self.finish(ticket, Outcome::Dropped(rejection));
            return;
        }
        let Some((offset, _)) = lane.window.get(ticket.index) else { return };
        if let Some(entry) = lane.window.get_mut(ticket.index) {
            entry.progress = Progress::Stranded;
        }
        lane.halted = true;
        let partition = lane.partition;
        self.notices.push_back(Notice::Halted { partition, offset, rejection });
    }

    pub(super) fn finish(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(lane) = live_lane(&mut self.lanes, ticket) else { return };
        let Some((offset, _)) = lane.window.get(ticket.index) else { return };
        let Some(entry) = lane.window.settle(ticket.index) else { return };
        lane.unsettled_bytes -= entry.size_bytes;
        lane.unsettled_records -= 1;
        self.unsettled_bytes -= entry.size_bytes;
        self.unsettled_records -= 1;
        if entry.progress != Progress::Delivered {
            lane.changed();
        }
        lane.check();
        let partition = ticket.partition;
        self.notices.push_back(match (outcome, entry.target) {
            (Outcome::Dropped(rejection), _) => Notice::Dropped { partition, offset, rejection },
            (Outcome::Delivered, Target::DeadLetter(rejection)) => {
                Notice::DeadLettered { partition, offset, rejection }
            }
            (Outcome::Delivered, Target::Forward(_)) => Notice::Forwarded {
                partition,
                due_ms: entry.due_ms,
                size_bytes: entry.size_bytes,
                topic: Arc::clone(self.destinations.name(entry.destination)),
            },
        });
    }
}
