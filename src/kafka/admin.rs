//! Topic settings: read for the checks at start-up, written by `topics create`.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;

/// What is known of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicState {
    /// Number of partitions.
    pub partitions: i32,
    /// Settings by name; `None` when the daemon may not read them.
    pub settings: Option<BTreeMap<String, String>>,
}

/// Why a topic's state is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// The topic does not exist.
    #[error("topic `{0}` does not exist; create it with `kafka-delay topics create`")]
    Missing(String),
    /// The daemon may not see it.
    #[error("the daemon's user may not describe topic `{0}`: grant it Describe")]
    Denied(String),
    /// The cluster did not answer.
    #[error("cannot describe topic `{topic}`: {cause}")]
    Unavailable {
        /// The topic.
        topic: String,
        /// librdkafka's word.
        cause: String,
    },
}

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    /// Replicas; -1 leaves it to the broker's default.
    pub replicas: i32,
    /// Settings by name.
    pub settings: BTreeMap<String, String>,
}

/// Reads and makes topics.
pub struct Admin {
    client: AdminClient<DefaultClientContext>,
    timeout: Duration,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Admin")
    }
}

impl Admin {
    /// A client whose calls take at most `timeout`.
    pub fn new(settings: &ClientConfig, timeout: Duration) -> KafkaResult<Self> {
        Ok(Self { client: settings.create()?, timeout })
    }

    /// Waits for the cluster's first answer. Blocks for up to the timeout.
    pub fn connect(&self) -> KafkaResult<()> {
        self.client.inner().fetch_metadata(Some("__kafka_delay_probe"), self.timeout).map(drop)
    }

    /// Partitions and settings of `topic`.
    pub async fn describe(&self, topic: &str) -> Result<TopicState, TopicError> {
        let partitions = self.partitions(topic)?;
        let settings = self.settings(topic).await;
        Ok(TopicState { partitions, settings })
    }

    fn partitions(&self, topic: &str) -> Result<i32, TopicError> {
        let unavailable =
            |cause: String| TopicError::Unavailable { topic: topic.to_owned(), cause };
        let metadata = self
            .client
            .inner()
            .fetch_metadata(Some(topic), self.timeout)
            .map_err(|error| unavailable(error.to_string()))?;
        let entry = metadata.topics().iter().find(|entry| entry.name() == topic);
        let entry = entry.ok_or_else(|| TopicError::Missing(topic.to_owned()))?;
        match entry.error().map(RDKafkaErrorCode::from) {
            None => Ok(i32::try_from(entry.partitions().len()).unwrap_or(i32::MAX)),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Err(TopicError::Missing(topic.to_owned()))
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                Err(TopicError::Denied(topic.to_owned()))
            }
            Some(code) => Err(unavailable(code.to_string())),
        }
    }

    /// The topic's settings; `None` without the right to read them.
    async fn settings(&self, topic: &str) -> Option<BTreeMap<String, String>> {
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let resource = ResourceSpecifier::Topic(topic);
        let answer = self.client.describe_configs([&resource], &options).await.ok()?;
        let config = answer.into_iter().next()?.ok()?;
        let entries: BTreeMap<String, String> = config
            .entries
            .into_iter()
            .filter_map(|entry| Some((entry.name, entry.value?)))
            .collect();
        // A topic that is missing or hidden answers with no entries and no error.
        (!entries.is_empty()).then_some(entries)
    }

    /// Makes a topic. `Ok(false)`: it exists already.
    pub async fn create(&self, plan: &TopicPlan, dry_run: bool) -> KafkaResult<bool> {
        let options = AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
            .validate_only(dry_run);
        let mut topic =
            NewTopic::new(&plan.name, plan.partitions, TopicReplication::Fixed(plan.replicas));
        for (key, value) in &plan.settings {
            topic = topic.set(key, value);
        }
        let answer = self.client.create_topics([&topic], &options).await?;
        match answer.into_iter().next() {
            Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
            None => Err(KafkaError::AdminOpCreation("no answer for the topic".to_owned())),
        }
    }
}
