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
use super::{oauth, raw, refusal, settings};
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
    #[error(
        "the daemon's user may not describe topic `{0}`: grant it Read if it is the delay topic, \
         Write if it is the dead-letter topic (both include Describe)"
    )]
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
    config: Config,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Admin")
    }
}

impl Admin {
    /// A client whose calls take at most `kafka.request_timeout`.
    /// The error is for people.
    pub fn new(config: &Config) -> Result<Self, String> {
        // All clients, so that none of them fails later.
        settings::check(config)?;
        Self::clients(&settings::lookup(config), config).map_err(|error| {
            let error = refusal::cannot_be_made(&error, config);
            format!("the Kafka client refuses its configuration: {error}")
        })
    }

    fn clients(settings: &ClientConfig, config: &Config) -> KafkaResult<Self> {
        let (events, _) = channel();
        let clients = Clients::new(config, events, Arc::default(), None);
        let context = || LookupContext(Shared::new(ClientName::Lookup, &clients));
        let client: AdminClient<LookupContext> = settings.create_with_context(context())?;
        // Nobody polls this short-lived client for token requests: it gets one for its life. What
        // is wrong with the file is the prober's to tell.
        if let Some(Ok(token)) = clients.token_file.as_deref().map(oauth::read_token) {
            raw::set_token(client.inner().native_ptr(), &token);
        }
        let prober = settings.create_with_context(context())?;
        Ok(Self { client, prober, config: config.clone() })
    }

    /// Asks for the cluster's first answer. Blocks for up to `timeout`.
    pub fn connect(&self, timeout: Duration) -> Result<(), ConnectError> {
        // Serves token requests, and shows what went wrong before.
        let before = self.poll_errors();
        let topic = &self.config.source.topic;
        let Err(error) = self.prober.fetch_metadata(Some(topic), timeout) else { return Ok(()) };
        let codes = [before, self.poll_errors()].concat();
        let failure = self.prober.context().0.failure();
        let denial = codes.iter().find(|code| refusal::is_denied(**code));
        let denied = denial.is_some() || failure.as_deref().is_some_and(refusal::says_denied);
        let code = denial.or(codes.last()).map(ToString::to_string);
        let cause = failure.or(code).unwrap_or_else(|| error.to_string());
        Err(ConnectError { denied, cause: refusal::explain(&cause, &self.config) })
    }

    /// The errors that came up since the last call.
    fn poll_errors(&self) -> Vec<RDKafkaErrorCode> {
        let polled = std::iter::from_fn(|| self.prober.poll(Duration::ZERO));
        polled.filter_map(|polled| polled.err()?.rdkafka_error_code()).collect()
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
            .fetch_metadata(Some(topic), self.config.kafka.request_timeout)
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
                Err(TopicError::Missing(_))
                    if started.elapsed() < self.config.kafka.request_timeout =>
                {
                    std::thread::sleep(VISIBLE_POLL);
                }
                answer => return answer.map(|_| ()),
            }
        }
    }

    /// The topic's settings; `None` without the right to read them.
    async fn settings(&self, topic: &str) -> Option<BTreeMap<String, String>> {
        let options = AdminOptions::new().request_timeout(Some(self.config.kafka.request_timeout));
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
            .request_timeout(Some(self.config.kafka.request_timeout))
            .operation_timeout(Some(self.config.kafka.request_timeout))
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
