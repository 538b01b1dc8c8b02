//! The end of a transaction: what it delivered is settled, or everything it had is sent anew.
//!
//! There is one transaction at a time, and every record sent since the last one ended belongs to
//! it. When it ends, each of them is delivered, refused or undone.

use std::collections::BTreeSet;

use super::action::{Action, Ticket};
use super::commit::Commit;
use super::engine::{Engine, live_lane};
use super::entry::Progress;
use super::isolation::Trouble;
use super::lane::{Lane, Phase};
use super::record::Record;
use super::settlement::Outcome;

impl<R: Record> Engine<R> {
    /// Whether the record of `ticket` shares a transaction only with records for its destination:
    /// that one is in trouble, and a refusal undoes the whole transaction.
    pub fn goes_alone(&self, ticket: Ticket) -> bool {
        self.destinations.is_isolated(ticket.destination)
    }

    /// Whether the destination of `ticket` may be one that the cluster does not let us write to.
    pub fn may_be_forbidden(&self, ticket: Ticket) -> bool {
        !self.destinations.is_proven(ticket.destination)
    }

    /// A commit of what is settled already in the lane of `partition`.
    pub fn present_commit(&self, partition: i32) -> Option<Commit> {
        self.lane(partition).map(Lane::present_commit)
    }

    /// Whether the lane of `partition` has records in the open transaction.
    pub fn is_in_transaction(&self, partition: i32) -> bool {
        self.lane(partition).is_some_and(Lane::is_in_transaction)
    }

    /// Takes back an action that cannot be carried out now; it is the next one again.
    pub fn put_back(&mut self, action: Action) {
        self.actions.push_front(action);
    }

    /// The open transaction was committed: what it delivered is settled.
    pub fn transaction_committed(&mut self) {
        for (_, ticket) in self.tickets(|progress| progress == Progress::Delivered) {
            self.finish(ticket, Outcome::Delivered);
        }
        for lane in self.lanes.iter_mut().flatten() {
            lane.delivered_records = 0;
        }
    }

    /// The open transaction was aborted: its records are sent anew, in the order in which they
    /// were handed on. With `blame`, the destinations of those that were not delivered count as
    /// having refused them.
    pub fn transaction_aborted(&mut self, blame: Option<Trouble>, steady_ms: i64) {
        self.forget_planned_sends(steady_ms);
        let not_delivered: BTreeSet<u64> =
            self.tickets(|progress| progress == Progress::Undone).iter().map(|at| at.0).collect();
        let all = self.tickets(|progress| {
            matches!(progress, Progress::Sent | Progress::Undone | Progress::Delivered)
        });
        for lane in self.lanes.iter_mut().flatten() {
            (lane.sent_records, lane.delivered_records) = (0, 0);
        }
        for (order, ticket) in all {
            let Some(lane) = live_lane(&mut self.lanes, ticket) else { continue };
            if lane.phase() == Phase::Draining {
                if let Some(entry) = lane.window.get_mut(ticket.index) {
                    entry.progress = Progress::Stranded;
                }
                continue;
            }
            match blame {
                Some(trouble) if not_delivered.contains(&order) => {
                    self.destinations.under_way_again(ticket.destination);
                    self.wait_for_destination(ticket, trouble, steady_ms);
                }
                _ => self.submit(ticket, steady_ms),
            }
        }
    }

    /// Drops the sends that wait to be carried out.
    fn forget_planned_sends(&mut self, steady_ms: i64) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send(ticket) => self.destinations.forgotten(ticket.destination, steady_ms),
                Action::Park { .. } | Action::Unpark { .. } => self.actions.push_back(action),
            }
        }
    }

    /// The unsettled records whose progress is `of`, in the order in which they were handed on.
    fn tickets(&self, of: impl Fn(Progress) -> bool) -> Vec<(u64, Ticket)> {
        let mut tickets = Vec::new();
        for lane in self.lanes() {
            let (partition, epoch) = (lane.partition, lane.epoch);
            for (index, entry) in lane.window.unsettled().filter(|(_, entry)| of(entry.progress)) {
                let destination = entry.destination;
                tickets.push((entry.order, Ticket { partition, epoch, index, destination }));
            }
        }
        tickets.sort_unstable_by_key(|(order, _)| *order);
        tickets
    }
}
