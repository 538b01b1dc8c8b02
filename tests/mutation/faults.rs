//! The deliberate faults: a file, the text that is replaced in it, and what it becomes. In each
//! replacement `FAULT` stands for the question whether this fault is the selected one.

/// A fault, put into a copy of the source.
pub struct Fault {
    /// What is wrong with it, in the table of `docs/testing.md` too.
    pub name: &'static str,
    pub file: &'static str,
    /// Stands in the file exactly once.
    pub find: &'static str,
    pub replace: &'static str,
}

const fn fault(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Fault {
    Fault { name, file, find, replace }
}

const LANE: &str = "src/engine/lane.rs";
const ENGINE: &str = "src/engine/engine.rs";
const DESTINATIONS: &str = "src/engine/destinations.rs";
const ISOLATION: &str = "src/engine/isolation.rs";
const SETTLEMENT: &str = "src/engine/settlement.rs";
const MEMBERSHIP: &str = "src/worker/membership.rs";
const WORKER: &str = "src/worker.rs";
const COMMITS: &str = "src/worker/commits.rs";
const TRANSACTIONS: &str = "src/worker/transactions.rs";
const ABORTS: &str = "src/engine/transaction.rs";
const PORT: &str = "tests/simulation/port.rs";

pub const FAULTS: &[Fault] = &[
    fault(
        "a commit passes over a gap",
        "src/engine/offsets.rs",
        "let prefix = first.map_or(self.end_offset, |first| self.entries[first].0);",
        "let prefix = first.filter(|_| !FAULT).map_or(self.end_offset, |first| self.entries[first].0);",
    ),
    fault(
        "a commit before the acknowledgement",
        LANE,
        "self.commit_with(|entry| entry.progress == Progress::Delivered);",
        "self.commit_with(|entry| {
            entry.progress == Progress::Delivered || FAULT && entry.progress == Progress::Sent
        });",
    ),
    fault(
        "a commit of the last record instead of the next",
        LANE,
        "        Commit { partition, epoch, offset, ahead, changes }\n",
        "        let offset = offset - i64::from(FAULT);
        Commit { partition, epoch, offset, ahead, changes }\n",
    ),
    fault(
        "what is settled ahead is forgotten",
        LANE,
        "if self.ahead.contains(offset) {",
        "if !FAULT && self.ahead.contains(offset) {",
    ),
    fault(
        "acknowledgements without an epoch",
        ENGINE,
        "(lane.epoch == ticket.epoch).then_some(lane)",
        "(FAULT || lane.epoch == ticket.epoch).then_some(lane)",
    ),
    fault(
        "sends go on after a revoke",
        LANE,
        "    pub fn drain(&mut self) {\n",
        "    pub fn drain(&mut self) {\n        if FAULT {\n            return;\n        }\n",
    ),
    fault(
        "the due time is counted from now",
        "src/engine/time.rs",
        "Some(timestamp_ms) if timestamp_ms > 0 => timestamp_ms.min(first_seen_ms),",
        "Some(timestamp_ms) if timestamp_ms > 0 && !FAULT => timestamp_ms.min(first_seen_ms),",
    ),
    fault(
        "a record is due a millisecond early",
        "src/engine/time.rs",
        "effective_ms.saturating_add(delay_ms)",
        "effective_ms.saturating_add(delay_ms - i64::from(FAULT))",
    ),
    fault(
        "a held head has no wake-up",
        LANE,
        "State::Holding(head) => Some(head.due_ms),\n            State::Parked(parked) => Some(parked.wake_ms),",
        "State::Holding(head) => Some(head.due_ms).filter(|_| !FAULT),
            State::Parked(parked) => Some(parked.wake_ms),",
    ),
    fault(
        "an unpark that failed is not tried again",
        LANE,
        "parked.wake_ms = now_ms.saturating_add(UNPARK_RETRY_MS);",
        "parked.wake_ms =
                    if FAULT { i64::MAX } else { now_ms.saturating_add(UNPARK_RETRY_MS) };",
    ),
    fault(
        "a stale record is taken",
        LANE,
        "if offset < self.position {\n            return Offered::Stale;",
        "if offset < self.position && !FAULT {\n            return Offered::Stale;",
    ),
    fault(
        "in-flight limits do not hold",
        ENGINE,
        "        lane.unsettled_records == 0\n            || (lane.unsettled_bytes",
        "        FAULT || lane.unsettled_records == 0\n            || (lane.unsettled_bytes",
    ),
    fault(
        "the deny list is not asked",
        ENGINE,
        "self.config.policy.check(&envelope.topic)?;",
        "if !FAULT {\n                self.config.policy.check(&envelope.topic)?;\n            }",
    ),
    fault(
        "a destination in trouble is not tried again",
        DESTINATIONS,
        "(true, false, 0) => Some(isolation.retry_ms),",
        "(true, false, 0) => Some(isolation.retry_ms).filter(|_| !FAULT),",
    ),
    fault(
        "retries come in reverse order",
        DESTINATIONS,
        "match isolation.waiting.pop_first() {",
        "match if FAULT { isolation.waiting.pop_last() } else { isolation.waiting.pop_first() } {",
    ),
    fault(
        "no grace for unknown destinations",
        ISOLATION,
        "steady_ms.saturating_sub(self.since_ms) >= policy.grace_ms",
        "(FAULT || steady_ms.saturating_sub(self.since_ms) >= policy.grace_ms)",
    ),
    fault(
        "dead letters are not awaited",
        SETTLEMENT,
        "    pub(super) fn reject(&mut self, ticket: Ticket, rejection: Rejection, steady_ms: i64) {\n",
        "    pub(super) fn reject(&mut self, ticket: Ticket, rejection: Rejection, steady_ms: i64) {
        if FAULT {
            self.finish(ticket, Outcome::Dropped(rejection));
            return;
        }
",
    ),
    fault(
        "lost partitions are drained and committed",
        MEMBERSHIP,
        "        if lost {\n            self.reporter.lost",
        "        if lost && !FAULT {\n            self.reporter.lost",
    ),
    fault(
        "a revoke does not wait for acknowledgements",
        MEMBERSHIP,
        "            if !(drained || timed_out) {\n                return Ok(());",
        "            if !(drained || timed_out || FAULT) {\n                return Ok(());",
    ),
    fault(
        "a stop does not wait for acknowledgements",
        MEMBERSHIP,
        "if joining || !(drained || timed_out) {",
        "if joining || !(drained || timed_out || FAULT) {",
    ),
    fault(
        "no last commit before giving back",
        COMMITS,
        "        let uncommitted = engine.uncommitted().any(|commit| of(commit.partition));\n",
        "        let uncommitted =
            !FAULT && engine.uncommitted().any(|commit| of(commit.partition));\n",
    ),
    fault(
        "without a commit it starts at the end",
        MEMBERSHIP,
        "starts.push((partition, inside.unwrap_or(start)));",
        "starts.push((partition, inside.unwrap_or(if FAULT { end } else { start })));",
    ),
    fault(
        "an assignment of nothing is not answered",
        MEMBERSHIP,
        "            // Also for none: librdkafka waits for the call. While stopping nothing is taken over.\n",
        "            if FAULT {\n                return Ok(());\n            }\n",
    ),
    fault(
        "no pause after a freeze",
        "src/worker/gaps.rs",
        "self.frozen_until_ms = steady_ms + FREEZE_PAUSE_MS;",
        "self.frozen_until_ms = if FAULT { 0 } else { steady_ms + FREEZE_PAUSE_MS };",
    ),
    fault(
        "a send that found no room is forgotten",
        WORKER,
        "                                self.commits.fail();
                            }
                            self.blocked_send = Some(action);",
        "                                self.commits.fail();
                            }
                            self.blocked_send = Some(action).filter(|_| !FAULT);",
    ),
    fault(
        "parking does not seek back to the head",
        PORT,
        "(!timeout || made) && world.seek(client, slot, offset);",
        "FAULT || (!timeout || made) && world.seek(client, slot, offset);",
    ),
    fault(
        "an assignment does not resume",
        PORT,
        "                world.start_fetching(client, *slot, *offset);\n",
        "                world.start_fetching(client, *slot, *offset);
                if FAULT {
                    continue;
                }\n",
    ),
    fault(
        "an unpark fails when its seek does",
        PORT,
        "                note!(world, \"{client}: unpark {partition}@{offset}: seek failed\");\n",
        "                note!(world, \"{client}: unpark {partition}@{offset}: seek failed\");
                if FAULT {
                    return Err(failed(\"seek\"));
                }\n",
    ),
    fault(
        "a parked head is known by its offset alone",
        LANE,
        ".filter(|(head, _)| *head == (offset, timestamp_ms));",
        ".filter(|(head, _)| head.0 == offset && (FAULT || head.1 == timestamp_ms));",
    ),
    fault(
        "queues are not touched after a rebalance, nor swept",
        PORT,
        "        for fetcher in &mut self.world.borrow_mut().clients[self.client].fetchers {\n",
        "        for fetcher in &mut self.world.borrow_mut().clients[self.client].fetchers {
            if FAULT {
                continue;
            }\n",
    ),
    fault(
        "a second commit beside the first",
        COMMITS,
        "if steady_ms >= self.next_ms && self.under_way.is_none() {",
        "if steady_ms >= self.next_ms && (FAULT || self.under_way.is_none()) {",
    ),
    fault(
        "an acknowledgement settles before its transaction is committed",
        SETTLEMENT,
        "        if !self.config.transactional {\n            self.finish",
        "        if FAULT || !self.config.transactional {\n            self.finish",
    ),
    fault(
        "a commit while sends are under way",
        TRANSACTIONS,
        "State::Ending if self.unanswered == 0 =>",
        "State::Ending if FAULT || self.unanswered == 0 =>",
    ),
    fault(
        "sends go on while a transaction ends",
        TRANSACTIONS,
        "if !matches!(self.state, State::Open) || self.failed",
        "if !FAULT && !matches!(self.state, State::Open) || self.failed",
    ),
    fault(
        "a transaction goes on after a refusal",
        TRANSACTIONS,
        "            self.failed = true;\n            self.refused",
        "            self.failed = !FAULT;\n            self.refused",
    ),
    fault(
        "two destinations in trouble share a transaction",
        TRANSACTIONS,
        "let fits = !(alone || self.alone)",
        "let fits = FAULT || !(alone || self.alone)",
    ),
    fault(
        "the coordinator is not asked before a first record",
        TRANSACTIONS,
        "let unsafe_first = self.known_by.is_none()",
        "let unsafe_first = !FAULT && self.known_by.is_none()",
    ),
    fault(
        "a transaction that was refused counts as committed",
        TRANSACTIONS,
        "        if !taken {\n",
        "        if !taken && !FAULT {\n",
    ),
    fault(
        "an abort sends nothing anew",
        ABORTS,
        "                _ => self.submit(ticket, steady_ms),\n",
        "                _ if FAULT => {}\n                _ => self.submit(ticket, steady_ms),\n",
    ),
    fault(
        "an abort sends anew in reverse order",
        ABORTS,
        "        tickets.sort_unstable_by_key(|(order, _)| *order);\n",
        "        tickets.sort_unstable_by_key(|(order, _)| if FAULT { u64::MAX - *order } else { *order });\n",
    ),
    fault(
        "a transaction with records of a lost partition is committed",
        MEMBERSHIP,
        "if partitions.iter().any(in_transaction) {",
        "if !FAULT && partitions.iter().any(in_transaction) {",
    ),
    fault(
        "a stop does not wait for the end of its transaction",
        COMMITS,
        "Self::Transactions(transactions) if transactions.is_ending() =>",
        "Self::Transactions(transactions) if !FAULT && transactions.is_ending() =>",
    ),
    fault(
        "offsets are committed outside the transaction",
        "tests/simulation/transaction.rs",
        "            open.offsets.insert(commit.partition, commit.clone());\n",
        "            open.offsets.insert(commit.partition, commit.clone());
            if FAULT {
                self.group.committed[commit.partition] = commit.offset;
                self.group.ahead[commit.partition] = commit.ahead.clone();
            }\n",
    ),
    fault(
        "a lookup does not wait for the end of a transaction",
        "tests/simulation/group.rs",
        "if partitions.iter().any(|partition| self.is_unstable(*partition)) {",
        "if !FAULT && partitions.iter().any(|partition| self.is_unstable(*partition)) {",
    ),
    fault(
        "offsets of a transaction name the generation of the moment",
        "tests/simulation/transaction.rs",
        "} else if *generation != self.group.generation {",
        "} else if !FAULT && *generation != self.group.generation {",
    ),
    fault(
        "what a clock that was set back postpones goes at once",
        WORKER,
        "if self.engine.must_wait(ticket, now.wall_ms) {",
        "if !FAULT && self.engine.must_wait(ticket, now.wall_ms) {",
    ),
];
