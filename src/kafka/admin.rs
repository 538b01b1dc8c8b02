//! Topic settings: read for the checks at start-up, written by `topics create`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;

use super::context::{ClientName, LookupContext, Shared};
use super::settings::Clients;
use super::{oauth, raw};
use crate::clock::Moment;
use crate::config::Config;

/// A new topic is asked for this often.
const VISIBLE_POLL: Duration = Duration::from_millis(50);

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

/// Why the cluster did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// Waiting does not help: credentials or certificates are refused.
    pub denied: bool,
    /// For people.
    pub cause: String,
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
    client: AdminClient<LookupContext>,
    /// Asks for metadata; unlike the admin client, it tells why a connection fails.
    prober: BaseConsumer<LookupContext>,
    topic: String,
    timeout: Duration,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Admin")
    }
}

impl Admin {
    /// A client whose calls take at most `kafka.request_timeout`.
    pub fn new(settings: &ClientConfig, config: &Config) -> KafkaResult<Self> {
        let (events, _) = channel();
        let clients = Clients::new(config, events, Arc::default(), None);
        let context = || LookupContext(Shared::new(ClientName::Lookup, &clients));
        let client: AdminClient<LookupContext> = settings.create_with_context(context())?;
        if let Some(file) = &clients.token_file {
            // Nobody polls this short-lived client for token requests: it gets one for its life.
            let token = oauth::read_token(file).map_err(KafkaError::ClientCreation)?;
            raw::set_token(client.inner().native_ptr(), &token);
        }
        let prober = settings.create_with_context(context())?;
        let (topic, timeout) = (config.source.topic.clone(), config.kafka.request_timeout);
        Ok(Self { client, prober, topic, timeout })
    }

    /// Asks for the cluster's first answer. Blocks for up to `timeout`.
    pub fn connect(&self, timeout: Duration) -> Result<(), ConnectError> {
        // Serves token requests, and shows what went wrong before.
        let mut cause = None;
        while let Some(polled) = self.prober.poll(Duration::ZERO) {
            cause = polled.err().and_then(|error| error.rdkafka_error_code()).or(cause);
        }
        match self.prober.fetch_metadata(Some(&self.topic), timeout) {
            Ok(_) => Ok(()),
            Err(error) => {
                while let Some(polled) = self.prober.poll(Duration::ZERO) {
                    let code = polled.err().and_then(|error| error.rdkafka_error_code());
                    cause = match (code, cause) {
                        (_, Some(known)) if is_denied(known) => cause,
                        (Some(code), _) => Some(code),
                        (None, _) => cause,
                    };
                }
                Err(ConnectError {
                    denied: cause.is_some_and(is_denied),
                    cause: cause.map_or_else(|| error.to_string(), |code| code.to_string()),
                })
            }
        }
    }

    /// Partitions and settings of `topic`.
    pub async fn describe(&self, topic: &str) -> Result<TopicState, TopicError> {
        let partitions = self.partitions(topic)?;
        let settings = self.settings(topic).await;
        Ok(TopicState { partitions, settings })
    }

    /// Number of partitions of `topic`.
    pub fn partitions(&self, topic: &str) -> Result<i32, TopicError> {
        let unavailable =
            |cause: String| TopicError::Unavailable { topic: topic.to_owned(), cause };
        let metadata = self
            .prober
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

    /// Waits until brokers know of a topic that was just made: until then they deny that it exists.
    /// Blocks for up to `kafka.request_timeout`.
    pub fn wait_visible(&self, topic: &str) -> Result<(), TopicError> {
        let started = Moment::now();
        loop {
            match self.partitions(topic) {
                Err(TopicError::Missing(_)) if started.elapsed() < self.timeout => {
                    std::thread::sleep(VISIBLE_POLL);
                }
                answer => return answer.map(|_| ()),
            }
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

fn is_denied(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::SSL
    )
}
