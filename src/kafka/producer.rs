//! Writes records to their destinations and to the dead-letter topic.

use std::ffi::CStr;
use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaResult;
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use super::context::{ClientName, ForwardContext, Sent, Shared};
use super::error::{Stage, classify};
use super::port::SendError;
use super::record::KafkaRecord;
use super::settings::Clients;
use super::{DEAD_LETTER_PREFIX, raw};
use crate::clock::{self, Moment};
use crate::config::ForwardTimestamp;
use crate::engine::{Form, KeySource, Outgoing, Record, Refusal, Rejection, Ticket};

const CONTROL_HEADERS: [&CStr; 3] = [c"origin_topic", c"origin_key", c"origin_partition"];

/// How records are written.
#[derive(Debug, Clone)]
pub struct ForwardStyle {
    /// The delay topic, named in dead letters.
    pub source_topic: String,
    /// Timestamp of forwarded records.
    pub timestamp: ForwardTimestamp,
    /// Leave the control headers in place.
    pub keep_control_headers: bool,
}

/// The idempotent producer.
pub struct ForwardProducer {
    producer: ThreadedProducer<ForwardContext>,
    style: ForwardStyle,
}

impl fmt::Debug for ForwardProducer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ForwardProducer({:?})", self.style)
    }
}

impl ForwardProducer {
    /// Makes the producer; it connects by itself.
    pub fn new(
        settings: &ClientConfig,
        clients: &Clients,
        style: ForwardStyle,
    ) -> KafkaResult<Self> {
        let context = ForwardContext(Shared::new(ClientName::Producer, clients));
        Ok(Self { producer: settings.create_with_context(context)?, style })
    }

    /// Why it cannot go on, if it cannot.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(code, text)| format!("{code}: {text}"))
    }

    /// Another handle to the same producer.
    pub(super) fn handle(&self) -> ThreadedProducer<ForwardContext> {
        self.producer.clone()
    }

    pub(super) fn send(
        &self,
        ticket: Ticket,
        outgoing: &Outgoing<'_, KafkaRecord<'_>>,
    ) -> Result<(), SendError> {
        let record = outgoing.record;
        let now_ms = clock::wall_ms();
        let origin_key;
        let partition_named = matches!(outgoing.form, Form::Forward { partition: Some(_), .. });
        let sent = Sent { ticket, at: Moment::now(), partition_named };
        let mut message = BaseRecord::with_opaque_to(outgoing.topic, Box::new(sent));
        message.payload = record.value();
        match outgoing.form {
            Form::Forward { key, partition } => {
                message.key = match key {
                    KeySource::Record => record.key(),
                    KeySource::Header => {
                        origin_key = record.origin_key();
                        origin_key.as_deref()
                    }
                };
                message.partition = partition;
                message.timestamp = Some(match self.style.timestamp {
                    ForwardTimestamp::Now => now_ms,
                    // A timestamp of zero or below would be refused or mean "now" to librdkafka.
                    ForwardTimestamp::Original => {
                        record.timestamp_ms().filter(|millis| *millis > 0).unwrap_or(now_ms)
                    }
                });
                let strip: &[&CStr] =
                    if self.style.keep_control_headers { &[] } else { &CONTROL_HEADERS };
                message.headers = Some(record.headers_without(strip));
            }
            Form::DeadLetter { rejection, level } => {
                message.key = record.key();
                // The time of rejection: the topic's retention counts from here.
                message.timestamp = Some(now_ms);
                message.headers = Some(self.dead_letter_headers(ticket, record, rejection, level));
            }
        }
        self.producer.send(message).map_err(|(error, _)| match error.rdkafka_error_code() {
            Some(code) => classify(code, Stage::Enqueue),
            None => SendError::Refused(Refusal::produce_failed(error.to_string())),
        })
    }

    /// The record's headers, with what an earlier dead-lettering left replaced.
    fn dead_letter_headers(
        &self,
        ticket: Ticket,
        record: &KafkaRecord<'_>,
        rejection: &Rejection,
        level: u16,
    ) -> OwnedHeaders {
        const OWN_HEADERS: [&CStr; 8] = [
            c"kafka_delay_dlq_reason",
            c"kafka_delay_dlq_detail",
            c"kafka_delay_dlq_topic",
            c"kafka_delay_dlq_partition",
            c"kafka_delay_dlq_offset",
            c"kafka_delay_dlq_timestamp",
            c"kafka_delay_dlq_level",
            c"kafka_delay_dlq_redrives",
        ];
        let mut headers = record.headers_without(&OWN_HEADERS);
        let mut add = |name: &str, value: &str| {
            let name = format!("{DEAD_LETTER_PREFIX}{name}");
            raw::append(&mut headers, name.as_bytes(), Some(value.as_bytes()));
        };
        add("reason", rejection.reason.name());
        add("detail", &rejection.detail);
        add("topic", &self.style.source_topic);
        add("partition", &ticket.partition.to_string());
        add("offset", &record.offset().to_string());
        add("timestamp", &record.timestamp_ms().unwrap_or(-1).to_string());
        add("level", &level.to_string());
        add("redrives", &redrives(record).to_string());
        headers
    }
}

/// How often the record was redriven from the dead-letter topic before; whoever redrives counts up.
fn redrives(record: &KafkaRecord<'_>) -> u32 {
    let mut count = 0;
    record.visit_headers(&mut |name, value| {
        if name == b"kafka_delay_dlq_redrives" {
            let text = value.and_then(|value| std::str::from_utf8(value).ok());
            count = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        }
    });
    count
}
