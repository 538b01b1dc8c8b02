//! Writes delayed records, as a producer of the delay topic does: for `send` and `demo`.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, channel};
use std::time::Duration;

use rdkafka::error::KafkaResult;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message};

use super::context::{ClientName, LookupContext, Shared};
use super::settings::{self, Clients};
use crate::config::Config;
use crate::engine::ORIGIN_TOPIC;

/// A record for the delay topic.
#[derive(Debug, Clone, Copy)]
pub struct DelayedRecord<'a> {
    /// The delay topic.
    pub topic: &'a str,
    /// Its partition: the level, and the shard.
    pub partition: i32,
    /// Where the record goes when its delay has passed.
    pub origin_topic: &'a str,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Headers beside `origin_topic`.
    pub headers: &'a [(String, String)],
    /// Timestamp; `None` is now.
    pub timestamp_ms: Option<i64>,
}

/// Where a record was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Partition of the delay topic.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}

type Answer = Result<Stored, String>;

/// The answer to one send.
#[derive(Debug)]
pub struct Receipt(Receiver<Answer>);

impl Receipt {
    /// Waits for the acknowledgement. The error is for people.
    pub fn wait(self, timeout: Duration) -> Result<Stored, String> {
        self.0.recv_timeout(timeout).unwrap_or_else(|_| {
            let limit = humantime::format_duration(timeout);
            Err(format!("no acknowledgement within {limit}"))
        })
    }
}

struct SenderContext(LookupContext);

impl ClientContext for SenderContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, text: &str) {
        self.0.log(level, facility, text);
    }

    fn generate_oauth_token(
        &self,
        config: Option<&str>,
    ) -> Result<rdkafka::client::OAuthToken, Box<dyn std::error::Error>> {
        self.0.generate_oauth_token(config)
    }
}

impl ProducerContext for SenderContext {
    type DeliveryOpaque = Box<mpsc::Sender<Answer>>;

    fn delivery(&self, delivery: &DeliveryResult<'_>, answer: Self::DeliveryOpaque) {
        let result = match delivery {
            Ok(message) => Ok(Stored { partition: message.partition(), offset: message.offset() }),
            Err((error, _)) => Err(error.to_string()),
        };
        // Whoever dropped the receipt does not want the answer.
        let _ = answer.send(result);
    }
}

/// A producer of the delay topic.
pub struct Sender {
    producer: ThreadedProducer<SenderContext>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sender")
    }
}

impl Sender {
    /// A producer with the daemon's connection settings.
    pub fn new(config: &Config) -> KafkaResult<Self> {
        let (events, _) = channel();
        let clients = Clients::new(config, events, Arc::default(), None);
        let context = SenderContext(LookupContext(Shared::new(ClientName::Producer, &clients)));
        let mut settings = settings::producer(config);
        settings.set("statistics.interval.ms", "0");
        Ok(Self { producer: settings.create_with_context(context)? })
    }

    /// Sends a record; the error is for people.
    pub fn send(&self, record: &DelayedRecord<'_>) -> Result<Receipt, String> {
        let mut headers = OwnedHeaders::new()
            .insert(Header { key: ORIGIN_TOPIC, value: Some(record.origin_topic) });
        for (name, value) in record.headers {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        let (answer, receipt) = channel();
        let mut message = BaseRecord::with_opaque_to(record.topic, Box::new(answer));
        message.partition = Some(record.partition);
        message.key = record.key;
        message.payload = record.value;
        message.headers = Some(headers);
        message.timestamp = record.timestamp_ms;
        self.producer.send(message).map_err(|(error, _)| error.to_string())?;
        Ok(Receipt(receipt))
    }
}
