//! A delay topic with its dead-letter topic and one destination, ready for daemons.

use std::collections::BTreeMap;
use std::time::Duration;

use super::wait::{eventually, unique};
use super::{Admin, Client, Daemon, DaemonConfig, Ledger, Producer, Reader};

/// Topics of one test, and the settings of its daemons.
pub struct Stage {
    /// The delay topic.
    pub delay_topic: String,
    /// Where its records go.
    pub destination: String,
    /// Its number of partitions.
    pub partitions: i32,
    /// Delays of the levels.
    pub delays_ms: Vec<i64>,
    /// Daemons of this stage. Heads due later than 1 s are parked.
    pub config: DaemonConfig,
    /// For the cluster.
    pub admin: Admin,
    client: Client,
}

impl Stage {
    /// Makes the topics: one partition for each level.
    #[track_caller]
    pub fn new(client: &Client, delays_ms: &[i64]) -> Self {
        let admin = client.admin();
        let (delay_topic, destination) = (unique("delay"), unique("destination"));
        let partitions = i32::try_from(delays_ms.len()).expect("few levels");
        admin.create_topic(&delay_topic, partitions);
        admin.create_topic(&format!("{delay_topic}_dlq"), 1);
        admin.create_topic(&destination, 3);
        let levels: Vec<String> = delays_ms.iter().map(|delay| format!("{delay}ms")).collect();
        let config = DaemonConfig::new(client, &delay_topic)
            .set("delay.levels", &levels.join(","))
            .set("delay.park_after", "1s")
            .set("delay.wake_lead", "300ms")
            .set("source.session_timeout", "6s")
            .set("source.heartbeat_interval", "500ms");
        let (delays_ms, client) = (delays_ms.to_vec(), client.clone());
        Self { delay_topic, destination, partitions, delays_ms, config, admin, client }
    }

    /// Changes the settings of its daemons.
    pub fn configure(mut self, change: impl FnOnce(DaemonConfig) -> DaemonConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// An empty ledger of its records.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(&self.delay_topic, &self.destination, &self.delays_ms)
    }

    /// A producer.
    pub fn producer(&self) -> Producer {
        self.client.producer()
    }

    /// A reader of the destination: of what is committed, from the beginning.
    #[track_caller]
    pub fn reader(&self) -> Reader {
        self.client.reader(&self.destination)
    }

    /// Numbers of all partitions.
    pub fn all(&self) -> Vec<i32> {
        (0..self.partitions).collect()
    }

    /// What the daemons' group has committed.
    #[track_caller]
    pub fn committed(&self) -> BTreeMap<i32, i64> {
        self.admin.committed(&self.config.group, &self.delay_topic)
    }

    /// Waits until all records are committed.
    #[track_caller]
    pub fn wait_all_committed(&self, deadline: Duration) {
        let ends = self.admin.end_offsets(&self.delay_topic);
        eventually(deadline, || {
            let committed = self.committed();
            let behind = |(partition, end): (usize, &i64)| {
                let partition = i32::try_from(partition).expect("few partitions");
                let at = committed.get(&partition).copied().unwrap_or(0);
                (at < *end).then(|| format!("{partition}: {at} of {end}"))
            };
            let behind: Vec<String> = ends.iter().enumerate().filter_map(behind).collect();
            if behind.is_empty() { Ok(()) } else { Err(format!("not committed: {behind:?}")) }
        });
    }

    /// Waits until the daemons together have every partition, and each of them some or none as
    /// `shares` says, in any order.
    #[track_caller]
    pub fn wait_shares(&self, daemons: &[&Daemon], shares: &[usize], deadline: Duration) {
        let mut wanted = shares.to_vec();
        wanted.sort_unstable();
        eventually(deadline, || {
            let mut found = Vec::new();
            for daemon in daemons {
                let value = daemon.metric("kafka_delay_assigned_partitions", &[]);
                // A whole number, and small.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                found.push(value.ok_or("no metrics")? as usize);
            }
            found.sort_unstable();
            if found == wanted { Ok(()) } else { Err(format!("{found:?} are not {wanted:?}")) }
        });
    }
}
