//! What most tests begin with: a delay topic, its dead-letter topic and a daemon's settings.

use std::time::Duration;

use crate::support::{
    Admin, Client, Daemon, DaemonConfig, Record, Seen, eventually, now_ms, unique,
};

/// Only ends a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Long enough that a record which must not come would have come.
pub const A_WHILE: Duration = Duration::from_secs(1);

/// The 18 delays of RocketMQ, in milliseconds; written out here so as not to believe the daemon.
pub const REAL_DELAYS_MS: [i64; 18] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000,
    480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];

/// Topics and settings of one daemon or one group of them.
pub struct Rig {
    /// The cluster.
    pub client: Client,
    /// For topics and groups.
    pub admin: Admin,
    /// The delay topic.
    pub delay: String,
    /// The dead-letter topic.
    pub dlq: String,
    /// Settings of the daemon.
    pub config: DaemonConfig,
}

impl Rig {
    /// A delay topic with one partition for each of `levels` ("1s,20s"), and a dead-letter topic.
    #[track_caller]
    pub fn new(client: &Client, levels: &str) -> Self {
        let partitions = i32::try_from(levels.split(',').count()).unwrap();
        let rig = Self::bare(client, partitions, &[]).set("delay.levels", levels);
        rig.admin.create_topic(&rig.dlq, 1);
        rig
    }

    /// A delay topic with these settings; no dead-letter topic, and the default levels.
    #[track_caller]
    pub fn bare(client: &Client, partitions: i32, settings: &[(&str, &str)]) -> Self {
        let admin = client.admin();
        let delay = unique("delay");
        admin.create_topic_with(&delay, partitions, settings);
        let config = DaemonConfig::new(client, &delay);
        Self { client: client.clone(), admin, dlq: format!("{delay}_dlq"), delay, config }
    }

    /// With a setting of the daemon.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.config = self.config.set(key, value);
        self
    }

    /// A new topic to forward to.
    #[track_caller]
    pub fn destination(&self, partitions: i32) -> String {
        let topic = unique("destination");
        self.admin.create_topic(&topic, partitions);
        topic
    }

    /// Writes to the delay topic.
    #[track_caller]
    pub fn send(&self, records: &[Record]) -> Vec<(i32, i64)> {
        self.client.producer().send_all(&self.delay, records)
    }

    /// Waits until everything in the delay topic is committed.
    #[track_caller]
    pub fn wait_committed(&self) {
        eventually(PATIENCE, || {
            let committed = self.admin.committed(&self.config.group, &self.delay);
            let ends = self.admin.end_offsets(&self.delay);
            let partitions = ends.iter().enumerate().filter(|(_, end)| **end > 0);
            let mut behind = partitions
                .map(|(partition, end)| (i32::try_from(partition).unwrap(), *end))
                .filter(|(partition, end)| committed.get(partition) != Some(end));
            match behind.next() {
                None => Ok(()),
                Some(partition) => Err(format!("{partition:?} not committed, but {committed:?}")),
            }
        });
    }

    /// Waits until the commit of partition 0 stands at `offset`, and at no other before: it may
    /// tell of records behind that one, and must not pass over it.
    #[track_caller]
    pub fn wait_committed_at(&self, offset: i64) {
        eventually(PATIENCE, || {
            match self.admin.committed(&self.config.group, &self.delay).get(&0) {
                Some(at) if *at == offset => Ok(()),
                Some(other) => panic!("committed at {other}, not {offset}"),
                None => Err("no commit yet".to_owned()),
            }
        });
    }

    /// Waits for `count` records in `topic`, and that no more come; in order of offsets.
    #[track_caller]
    pub fn exactly(&self, topic: &str, count: usize) -> Vec<Seen> {
        let mut reader = self.client.reader(topic);
        reader.until(count, PATIENCE);
        let mut seen = reader.during(A_WHILE).to_vec();
        assert_eq!(seen.len(), count, "{topic}: {:?}", texts(&seen));
        seen.sort_by_key(|seen| (seen.partition, seen.offset));
        seen
    }
}

/// A record of the level in partition 0 that was due long ago.
pub fn overdue(value: impl AsRef<[u8]>, destination: &str) -> Record {
    Record::new(value).partition(0).timestamp(now_ms() - 60_000).to(destination)
}

/// The values.
pub fn texts(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(Seen::text).collect()
}

/// Waits until the daemon has logged `text`.
#[track_caller]
pub fn wait_log(daemon: &Daemon, text: &str) {
    eventually(PATIENCE, || {
        if daemon.log().contains(text) { Ok(()) } else { Err(format!("no {text:?} in the log")) }
    });
}
