//! Reads topics from their beginning without a group: how `demo` sees what arrives.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Message, Offset, TopicPartitionList};

use super::context::{ClientName, LookupContext, Shared};
use super::record::{HeaderList, KafkaRecord};
use super::settings::{self, Clients};
use crate::config::Config;

/// A record that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Topic that has it.
    pub topic: String,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: HeaderList,
}

/// A consumer of whole topics.
pub struct Tail {
    consumer: BaseConsumer<LookupContext>,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tail")
    }
}

impl Tail {
    /// Reads `topics`, given with their number of partitions.
    pub fn new(config: &Config, topics: &[(&str, i32)]) -> KafkaResult<Self> {
        let (events, _) = channel();
        let clients = Clients::new(config, events, Arc::default(), None);
        let context = LookupContext(Shared::new(ClientName::Lookup, &clients));
        let mut settings = settings::lookup(config);
        settings.set("fetch.wait.max.ms", "5");
        let consumer: BaseConsumer<LookupContext> = settings.create_with_context(context)?;
        let mut list = TopicPartitionList::new();
        for (topic, partitions) in topics {
            for partition in 0..*partitions {
                list.add_partition_offset(topic, partition, Offset::Beginning)?;
            }
        }
        consumer.assign(&list)?;
        Ok(Self { consumer })
    }

    /// The next record, or `None` after `timeout`.
    pub fn next(&self, timeout: Duration) -> Option<Arrived> {
        let message = self.consumer.poll(timeout)?.ok()?;
        let topic = message.topic().to_owned();
        let record = KafkaRecord::Buffered(message);
        Some(Arrived {
            topic,
            key: record.key().map(<[u8]>::to_vec),
            value: record.value().map(<[u8]>::to_vec),
            headers: record.header_list(),
        })
    }
}
