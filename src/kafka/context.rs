//! librdkafka's callbacks, each turned into one [`Event`], log line or observation.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Statistics, TopicPartitionList};
use tracing::{debug, info, warn};

use crate::clock::Moment;

use super::error::{Stage, classify, code_name, fatal_cause};
use super::port::{Event, SendError};
use super::raw;
use super::waker::Waker;
use super::{oauth, refusal, settings::Clients};
use crate::engine::{Refusal, Ticket};

/// Which client an error, log line or statistic comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientName {
    /// Reads the delay topic.
    Consumer,
    /// Writes to destinations.
    Producer,
    /// Asks for offsets and topic settings.
    Lookup,
}

impl ClientName {
    /// The name as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Producer => "producer",
            Self::Lookup => "lookup",
        }
    }
}

/// What a client's statistics say about one broker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrokerState {
    /// Node id of the broker.
    pub id: i32,
    /// Whether the client is connected to it.
    pub connected: bool,
    /// Median and 99th percentile of the round trip over the statistics window, if there was one.
    pub rtt: Option<(Duration, Duration)>,
}

/// Takes librdkafka's statistics.
pub trait Observer: Send + Sync {
    /// Called every `metrics.librdkafka_interval` by each client that has one.
    fn brokers(&self, client: ClientName, brokers: &[BrokerState]);
}

/// What all clients share.
pub(super) struct Shared {
    client: ClientName,
    token_file: Option<PathBuf>,
    observer: Option<Arc<dyn Observer>>,
    events: Sender<Event>,
    waker: Arc<Waker>,
    /// The last thing that went wrong.
    failure: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn new(client: ClientName, clients: &Clients) -> Self {
        Self {
            client,
            token_file: clients.token_file.clone(),
            observer: clients.observer.clone(),
            events: clients.events.clone(),
            waker: Arc::clone(&clients.waker),
            failure: Mutex::default(),
        }
    }

    /// The last thing that went wrong, in librdkafka's words. It tells it once and then keeps quiet
    /// about it for half a minute; its error codes alone do not tell why a connection fails.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_failure(&self, text: &str) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }

    /// Reports an event. The receiver lives until the process ends or the port is gone, when
    /// nobody needs events any more.
    pub(super) fn report(&self, event: Event) {
        if self.events.send(event).is_ok() {
            self.waker.wake();
        }
    }

    pub(super) fn report_error(&self, error: &KafkaError, text: &str) {
        let code = error.rdkafka_error_code();
        let event = match (error, code) {
            (KafkaError::MessageConsumptionFatal(code), _) => {
                Event::Fatal(format!("{}: {code}", self.client.label()))
            }
            (_, Some(rdkafka::types::RDKafkaErrorCode::Fatal)) => {
                Event::Fatal(fatal_cause(self.client.label(), text))
            }
            (_, code) => Event::Error {
                client: self.client.label(),
                code: code.map_or_else(|| "unknown".to_owned(), code_name),
                text: {
                    let text = if text.is_empty() { error.to_string() } else { text.to_owned() };
                    match code.and_then(refusal::missing_right) {
                        Some(advice) => format!("{text}; {advice}"),
                        None => text,
                    }
                },
            },
        };
        self.report(event);
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let client = self.client.label();
        match level {
            // librdkafka calls a refused connection an error; it waits and tries again, and
            // nothing is lost, so for an operator it is a warning.
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => {
                self.note_failure(text);
                warn!(target: "librdkafka", client, facility, "{text}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                if facility == "FAIL" {
                    self.note_failure(text);
                }
                info!(target: "librdkafka", client, facility, "{text}");
            }
            RDKafkaLogLevel::Debug => debug!(target: "librdkafka", client, facility, "{text}"),
        }
    }

    fn statistics(&self, statistics: &Statistics) {
        let Some(observer) = &self.observer else { return };
        let micros = |micros: i64| Duration::from_micros(micros.unsigned_abs());
        // Connections to bootstrap servers have no node id yet.
        let known = statistics.brokers.values().filter(|broker| broker.nodeid >= 0);
        let brokers: Vec<BrokerState> = known
            .map(|broker| {
                let window = broker.rtt.as_ref().filter(|window| window.cnt > 0);
                BrokerState {
                    id: broker.nodeid,
                    connected: broker.state == "UP",
                    rtt: window.map(|window| (micros(window.p50), micros(window.p99))),
                }
            })
            .collect();
        observer.brokers(self.client, &brokers);
    }

    fn token(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let file = self.token_file.as_ref().ok_or("kafka.sasl.token_file is not set")?;
        Ok(oauth::read_token(file).inspect_err(|fault| self.note_failure(fault))?)
    }
}

/// Context of a client that only asks (offsets, topic settings).
pub(super) struct LookupContext(pub(super) Shared);

/// Context of the consumer.
pub(super) struct DelayContext {
    pub(super) shared: Shared,
    /// Set when the engine thread has stopped: partitions are then given back at once.
    pub(super) closing: AtomicBool,
}

/// Travels with a record through the producer.
pub(super) struct Sent {
    pub(super) ticket: Ticket,
    pub(super) at: Moment,
    /// The record named its partition; otherwise the key chose it.
    pub(super) partition_named: bool,
}

/// Context of the producer.
pub(super) struct ForwardContext(pub(super) Shared);

macro_rules! client_context {
    ($context:ty, $self:ident => $shared:expr) => {
        impl ClientContext for $context {
            const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

            fn log(&$self, level: RDKafkaLogLevel, facility: &str, text: &str) {
                $shared.log(level, facility, text);
            }

            fn stats(&$self, statistics: Statistics) {
                $shared.statistics(&statistics);
            }

            fn error(&$self, error: KafkaError, reason: &str) {
                $shared.report_error(&error, reason);
            }

            fn generate_oauth_token(
                &$self,
                _config: Option<&str>,
            ) -> Result<OAuthToken, Box<dyn Error>> {
                $shared.token()
            }
        }
    };
}

client_context!(LookupContext, self => self.0);
client_context!(DelayContext, self => self.shared);
client_context!(ForwardContext, self => self.0);

impl ConsumerContext for LookupContext {}

impl ConsumerContext for DelayContext {
    /// Nothing is assigned or given back here: the worker does so when it is ready, which
    /// librdkafka waits for.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let assigned = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Relaxed) {
            let done = if assigned {
                consumer.incremental_assign(list)
            } else {
                consumer.incremental_unassign(list)
            };
            if let Err(error) = done {
                debug!(%error, "rebalance while closing");
            }
            return;
        }
        let partitions = list.elements().iter().map(|element| element.partition()).collect();
        self.shared.report(if assigned {
            Event::Assigned(partitions)
        } else {
            Event::Revoked { partitions, lost: consumer.assignment_lost() }
        });
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let first_fault = offsets.elements().iter().find_map(|element| element.error().err());
        let result = match (result, first_fault) {
            (Ok(()), None) => Ok(()),
            (Err(error), _) | (Ok(()), Some(error)) => Err(error.to_string()),
        };
        self.shared.report(Event::Committed(result));
    }
}

impl ProducerContext for ForwardContext {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, delivery: &DeliveryResult<'_>, sent: Box<Sent>) {
        let stage = Stage::Delivery { partition_named: sent.partition_named };
        let result = match delivery {
            Ok(_) => Ok(()),
            Err((error, message)) => match error.rdkafka_error_code() {
                Some(code) => match classify(code, stage) {
                    SendError::Refused(refusal) => {
                        // Its sequence number is given to another record now, which a broker that
                        // has this one would take for a copy of it. A new start has a new epoch.
                        if refusal == Refusal::Undone && raw::may_be_written(message) {
                            let cause = "a record was taken back that a broker may have written";
                            self.0.report(Event::Fatal(fatal_cause("producer", cause)));
                        }
                        Err(refusal)
                    }
                    SendError::Fatal(cause) => {
                        self.0.report(Event::Fatal(fatal_cause("producer", &cause)));
                        Err(Refusal::Trouble(crate::engine::Trouble::Transient))
                    }
                    // Only sending can meet these.
                    SendError::Full | SendError::TransactionFailed => {
                        Err(Refusal::Trouble(crate::engine::Trouble::Transient))
                    }
                },
                None => Err(Refusal::produce_failed(error.to_string())),
            },
        };
        let took = sent.at.elapsed();
        self.0.report(Event::Delivered { ticket: sent.ticket, result, took });
    }
}
