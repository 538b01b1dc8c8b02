//! Topics, groups and access control lists of a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::wait::eventually;
use super::{Acl, Client, acl};

/// One request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A topic becoming visible, on a busy machine.
const VISIBLE_DEADLINE: Duration = Duration::from_secs(30);

/// Does what an operator does. Every call fails the test when the cluster refuses it.
pub struct Admin {
    admin: AdminClient<DefaultClientContext>,
    probe: BaseConsumer,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

/// A consumer group as the broker describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `Stable`, `PreparingRebalance`, `Empty`, `Dead`, ...
    pub state: String,
    /// Client ids of its members, sorted.
    pub members: Vec<String>,
}

impl Admin {
    pub(super) fn new(client: &Client) -> Self {
        let admin: AdminClient<_> = client.config().create().expect("valid settings");
        // Once librdkafka knows the brokers of the cluster it drops those it began with, and
        // whatever was asked of them fails.
        let _ = admin.inner().fetch_metadata(None, TIMEOUT);
        let probe = client.config().create().expect("valid settings");
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().expect("a runtime");
        Self { admin, probe, client: client.clone(), runtime }
    }

    /// Creates a topic with the cluster's replication, and waits until it can be used.
    #[track_caller]
    pub fn create_topic(&self, topic: &str, partitions: i32) {
        self.create_topic_with(topic, partitions, &[]);
    }

    /// Creates a topic with settings, and waits until it can be used.
    #[track_caller]
    pub fn create_topic_with(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let cluster_default = TopicReplication::Fixed(-1);
        let mut new = NewTopic::new(topic, partitions, cluster_default);
        for (key, value) in settings {
            new = new.set(key, value);
        }
        eventually(VISIBLE_DEADLINE, || {
            let created = self.runtime.block_on(self.admin.create_topics([&new], &options()));
            // On a busy machine a broker may miss its heartbeats: then there is none for a moment.
            let nobody = RDKafkaErrorCode::InvalidReplicationFactor;
            match created.as_deref() {
                Ok([Err((_, code))]) if *code == nobody => return Err(*code),
                _ => check_topics(&format!("create {topic}"), created),
            }
            Ok(())
        });
        self.wait_usable(topic, partitions);
    }

    /// Adds partitions up to `partitions`.
    #[track_caller]
    pub fn grow_topic(&self, topic: &str, partitions: i32) {
        let count = usize::try_from(partitions).expect("positive");
        let new = NewPartitions::new(topic, count);
        let grown = self.runtime.block_on(self.admin.create_partitions([&new], &options()));
        check_topics(&format!("grow {topic}"), grown);
        self.wait_usable(topic, partitions);
    }

    /// Deletes a topic and waits until it is gone.
    #[track_caller]
    pub fn delete_topic(&self, topic: &str) {
        let deleted = self.runtime.block_on(self.admin.delete_topics(&[topic], &options()));
        check_topics(&format!("delete {topic}"), deleted);
        eventually(VISIBLE_DEADLINE, || {
            if self.topics()?.contains(&topic.to_owned()) {
                return Err(format!("{topic} still exists"));
            }
            Ok(())
        });
    }

    /// Deletes the records of a partition below `before`.
    #[track_caller]
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset(topic, partition, Offset::Offset(before))
            .expect("valid offset");
        let deleted = self.runtime.block_on(self.admin.delete_records(&offsets, &options()));
        let deleted = deleted.unwrap_or_else(|error| panic!("delete records of {topic}: {error}"));
        for element in deleted.elements() {
            element.error().unwrap_or_else(|error| panic!("delete records of {topic}: {error}"));
        }
    }

    /// The settings of a topic; empty when it does not exist.
    #[track_caller]
    pub fn topic_settings(&self, topic: &str) -> BTreeMap<String, Option<String>> {
        let resource = ResourceSpecifier::Topic(topic);
        let described = self.runtime.block_on(self.admin.describe_configs([&resource], &options()));
        let described = described.unwrap_or_else(|error| panic!("describe {topic}: {error}"));
        let resource = described.into_iter().next().expect("one answer");
        let resource = resource.unwrap_or_else(|error| panic!("describe {topic}: {error}"));
        resource.entries.into_iter().map(|entry| (entry.name, entry.value)).collect()
    }

    /// Replaces the settings of a topic: those not named fall back to the broker's.
    #[track_caller]
    pub fn set_topic_settings(&self, topic: &str, settings: &[(&str, &str)]) {
        let mut alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
        for (key, value) in settings {
            alter = alter.set(key, value);
        }
        let altered = self.runtime.block_on(self.admin.alter_configs([&alter], &options()));
        let altered = altered.unwrap_or_else(|error| panic!("alter {topic}: {error}"));
        for result in altered {
            result.unwrap_or_else(|(_, code)| panic!("alter {topic}: {code}"));
        }
    }

    /// Names of all topics.
    pub fn topics(&self) -> Result<Vec<String>, String> {
        let metadata = self.metadata(None)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// The id of the node that leads the partition.
    #[track_caller]
    pub fn leader(&self, topic: &str, partition: i32) -> i32 {
        eventually(VISIBLE_DEADLINE, || {
            let metadata = self.metadata(Some(topic))?;
            let partitions = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
            let found = partitions.iter().find(|p| p.id() == partition && p.leader() > 0);
            found.map(|p| p.leader()).ok_or_else(|| format!("{topic}-{partition} has no leader"))
        })
    }

    /// First offset and end offset (the next record's) of a partition.
    #[track_caller]
    pub fn watermarks(&self, topic: &str, partition: i32) -> (i64, i64) {
        eventually(VISIBLE_DEADLINE, || self.probe.fetch_watermarks(topic, partition, TIMEOUT))
    }

    /// The end offsets of all partitions.
    #[track_caller]
    pub fn end_offsets(&self, topic: &str) -> Vec<i64> {
        let metadata = eventually(VISIBLE_DEADLINE, || self.metadata(Some(topic)));
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        let partitions = i32::try_from(partitions).expect("few partitions");
        (0..partitions).map(|partition| self.watermarks(topic, partition).1).collect()
    }

    /// What the group has committed, for the partitions that have a commit.
    #[track_caller]
    pub fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let mut config = self.client.config();
        let member: BaseConsumer = config.set("group.id", group).create().expect("valid settings");
        let metadata = eventually(VISIBLE_DEADLINE, || self.metadata(Some(topic)));
        let mut asked = TopicPartitionList::new();
        for partition in metadata.topics().first().map_or(&[][..], |topic| topic.partitions()) {
            asked.add_partition(topic, partition.id());
        }
        let found =
            eventually(VISIBLE_DEADLINE, || member.committed_offsets(asked.clone(), TIMEOUT));
        let offset = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            Some((element.partition(), element.offset().to_raw().filter(|offset| *offset >= 0)?))
        };
        found.elements().iter().filter_map(offset).collect()
    }

    /// The group, or `None` while the broker does not know it. Classic protocol only.
    pub fn group(&self, group: &str) -> Option<Group> {
        let list = self.probe.fetch_group_list(Some(group), TIMEOUT).ok()?;
        let found = list.groups().iter().find(|info| info.name() == group)?;
        let mut members: Vec<String> =
            found.members().iter().map(|member| member.client_id().to_owned()).collect();
        members.sort();
        Some(Group { state: found.state().to_owned(), members })
    }

    /// Waits until the group is stable with this many members.
    #[track_caller]
    pub fn wait_for_members(&self, group: &str, members: usize, deadline: Duration) {
        eventually(deadline, || match self.group(group) {
            Some(found) if found.state == "Stable" && found.members.len() == members => Ok(()),
            other => Err(format!("group {group} is {other:?}, not stable with {members} members")),
        });
    }

    /// Adds access control entries and waits until the broker applies them.
    #[track_caller]
    pub fn add_acls(&self, acls: &[Acl]) {
        let native = self.admin.inner().native_ptr();
        acl::create(native, acls).unwrap_or_else(|error| panic!("{acls:?}: {error}"));
    }

    /// Removes access control entries, each of which must be there.
    #[track_caller]
    pub fn remove_acls(&self, acls: &[Acl]) {
        let native = self.admin.inner().native_ptr();
        acl::remove(native, acls).unwrap_or_else(|error| panic!("{acls:?}: {error}"));
    }

    fn metadata(&self, topic: Option<&str>) -> Result<Metadata, String> {
        self.probe.fetch_metadata(topic, TIMEOUT).map_err(|error| error.to_string())
    }

    /// A new topic answers "not leader" for up to a second.
    #[track_caller]
    fn wait_usable(&self, topic: &str, partitions: i32) {
        eventually(VISIBLE_DEADLINE, || {
            let metadata = self.metadata(Some(topic))?;
            let found = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
            let led = found.iter().filter(|partition| partition.leader() > 0).count();
            if led != usize::try_from(partitions).expect("positive") {
                return Err(format!("{topic}: {led} of {partitions} partitions have a leader"));
            }
            for partition in 0..partitions {
                self.probe
                    .fetch_watermarks(topic, partition, TIMEOUT)
                    .map_err(|error| format!("{topic}-{partition}: {error}"))?;
            }
            Ok(())
        });
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT))
}

#[track_caller]
fn check_topics(what: &str, result: rdkafka::error::KafkaResult<Vec<rdkafka::admin::TopicResult>>) {
    let results = result.unwrap_or_else(|error| panic!("{what}: {error}"));
    for result in results {
        result.unwrap_or_else(|(_, code)| panic!("{what}: {code}"));
    }
}
