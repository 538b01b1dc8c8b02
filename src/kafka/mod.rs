//! The edge to Kafka: librdkafka's callbacks become plain [`Event`]s, the engine's decisions become
//! calls. Nothing here decides what to forward.
//!
//! Threads: the engine thread owns the consumer and its queues; the producer has a thread for
//! delivery reports and one for the ends of [`Transactions`]; [`lookup`] asks for offsets on a
//! client of its own. All events reach the engine thread through one channel, and [`Waker`] ends
//! its sleep.

pub mod admin;
mod consumer;
mod context;
mod error;
pub mod guards;
mod lookup;
mod metadata;
pub mod mock;
mod oauth;
mod port;
mod producer;
mod raw;
mod record;
mod refusal;
pub mod sender;
pub mod settings;
pub mod tail;
mod transactions;
mod waker;

pub use consumer::DelayConsumer;
pub use context::{BrokerState, ClientName, Observer};
pub use error::code_name;
pub use lookup::Lookup;
pub use port::{
    AbortCause, Event, Fetched, KafkaPort, Located, LogRange, Port, PortError, Probe, SendError,
};
pub use producer::{ForwardProducer, ForwardStyle};
pub use raw::end_process;
pub use record::{HeaderList, KafkaRecord};
pub use transactions::{InitError, Timeouts, Transactions};
pub use waker::Waker;

/// What the librdkafka that is linked in was built with; the error is for people.
pub fn library_features() -> Result<String, String> {
    let config = rdkafka::ClientConfig::new().create_native_config();
    config.and_then(|config| config.get("builtin.features")).map_err(|error| error.to_string())
}

/// Version of the librdkafka that is linked in.
pub fn library_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

/// Prefix of the headers that a dead-lettered record carries.
pub const DEAD_LETTER_PREFIX: &str = "kafka_delay_dlq_";
