//! Configuration of the librdkafka clients. Every setting that matters has its reason here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rdkafka::ClientConfig;
use secrecy::ExposeSecret;

use super::context::Observer;
use super::port::Event;
use super::refusal;
use super::waker::Waker;
use crate::config::{Choice, Config, Credentials, GroupProtocol, Guarantee};

/// What every client is made with.
#[derive(Clone)]
pub struct Clients {
    /// Where events go.
    pub events: Sender<Event>,
    /// Woken after each event.
    pub waker: Arc<Waker>,
    /// Takes statistics.
    pub observer: Option<Arc<dyn Observer>>,
    /// Token for OAUTHBEARER.
    pub token_file: Option<PathBuf>,
}

impl Clients {
    /// Clients that report to `events` and wake `waker`.
    pub fn new(
        config: &Config,
        events: Sender<Event>,
        waker: Arc<Waker>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let token_file = match config.kafka.sasl.as_ref().map(|sasl| &sasl.credentials) {
            Some(Credentials::TokenFile(file)) => Some(file.clone()),
            Some(Credentials::Password { .. }) | None => None,
        };
        Self { events, waker, observer, token_file }
    }
}

/// Records the producer holds at most; above the engine's own limit, so that that one decides.
pub const PRODUCER_QUEUE_RECORDS: usize = 500_000;

/// In exactly-once mode the producer gives a record up after this at the latest, in milliseconds.
pub const MAX_DELIVERY_MS: i64 = 10_000;

/// Records handed on and not settled, all levels together.
pub const MAX_IN_FLIGHT_RECORDS: usize = 100_000;

/// Settings of the consumer on the delay topic.
pub fn consumer(config: &Config) -> ClientConfig {
    let mut client = common(config, "consumer");
    let source = &config.source;
    client
        .set("group.id", &source.group_id)
        // Offsets are committed by the daemon alone, and only what is settled.
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // A position outside the log is the daemon's to resolve, never a silent jump.
        .set("auto.offset.reset", "error")
        // Records of open or aborted transactions do not exist yet, or never did.
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "false")
        .set("allow.auto.create.topics", "false")
        // A partition that was resumed, or whose queue was full, is asked for with the next fetch;
        // with the default of 500 ms it waits behind the fetch under way.
        .set("fetch.wait.max.ms", "10")
        // The default of 1 s halves the rate at which a backlog drains.
        .set("fetch.queue.backoff.ms", "10")
        .set("fetch.error.backoff.ms", "100")
        // Held partitions keep their prefetched records in memory: 18 of them took 919 MB with the
        // defaults and about 60 MB with these.
        .set("queued.min.messages", "2000")
        .set("queued.max.messages.kbytes", kilobytes(source.max_queued_bytes))
        .set("max.partition.fetch.bytes", "262144")
        .set("fetch.max.bytes", "8388608")
        .set("max.poll.interval.ms", source.max_poll_interval.as_millis().to_string());
    match source.group_protocol {
        GroupProtocol::Classic => {
            client
                .set("group.protocol", "classic")
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", source.session_timeout.as_millis().to_string())
                .set("heartbeat.interval.ms", source.heartbeat_interval.as_millis().to_string());
        }
        GroupProtocol::Consumer => {
            client.set("group.protocol", "consumer");
        }
    }
    if let Some(instance) = &source.group_instance_id {
        client.set("group.instance.id", instance);
    }
    for (key, value) in source.librdkafka.iter() {
        client.set(key, value);
    }
    client
}

/// Settings of the producer to destinations and the dead-letter topic.
pub fn producer(config: &Config) -> ClientConfig {
    let mut client = common(config, "producer");
    let forward = &config.forward;
    client
        // Retries neither duplicate nor reorder.
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // Retried without end: whether a refusal is permanent is decided by its kind, not by time.
        .set("delivery.timeout.ms", "0")
        .set("linger.ms", forward.linger.as_secs_f64().mul_add(1_000.0, 0.0).to_string())
        .set("compression.type", forward.compression.name())
        // Same partitions as the Java client, so that co-partitioned consumers agree.
        .set("partitioner", "murmur2_random")
        // A header must not be able to create topics.
        .set("allow.auto.create.topics", "false")
        // An unknown topic is reported after this; forward.destination_grace goes on from there.
        .set("topic.metadata.propagation.max.ms", "1000")
        // Partitions that were added to a destination are found after this at the latest; until
        // then `origin_partition` cannot name them. The default is 5 minutes.
        .set("topic.metadata.refresh.interval.ms", "10000")
        // The broker decides what is too large.
        .set("message.max.bytes", "1000000000")
        // Batches stay below the default max.message.bytes of a topic (1 048 588).
        .set("batch.size", "500000")
        .set("queue.buffering.max.messages", PRODUCER_QUEUE_RECORDS.to_string())
        .set("queue.buffering.max.kbytes", "2097151");
    for (key, value) in forward.librdkafka.iter() {
        client.set(key, value);
    }
    client
}

/// Settings of the daemon's own producer: as above, or with transactions.
pub fn forwarder(config: &Config) -> ClientConfig {
    let mut client = producer(config);
    let forward = &config.forward;
    if forward.guarantee == Guarantee::ExactlyOnce {
        let timeout_ms = forward.transaction_timeout.as_millis();
        client
            .set("transactional.id", &forward.transactional_id)
            .set("transaction.timeout.ms", timeout_ms.to_string())
            // A request must not outlive the transaction it is for.
            .set(
                "socket.timeout.ms",
                timeout_ms.min(config.kafka.request_timeout.as_millis()).to_string(),
            )
            // What is not acknowledged by then is aborted and sent anew, while the broker has not
            // yet given the transaction up.
            .set("delivery.timeout.ms", (timeout_ms / 3).min(MAX_DELIVERY_MS as u128).to_string())
            // The broker makes a transaction wait while it writes the markers of the one before;
            // with the default it is asked again after 100 ms. Not sooner than a topic's metadata
            // come: a record that is sent again while its topic turns out to be gone is lost track
            // of by librdkafka.
            .set("retry.backoff.ms", "20")
            // Offsets for a group whose coordinator has left the cluster wait at the handle of that
            // broker, for ever: librdkafka looks for another one only when some connection of the
            // client opens or closes. With this one does soon.
            .set("connections.max.idle.ms", "3000")
            // An unknown topic holds up the whole transaction until it is reported.
            .set("topic.metadata.propagation.max.ms", "0");
    }
    client
}

/// Settings of the client that asks for offsets and topic settings. It never joins the group.
pub fn lookup(config: &Config) -> ClientConfig {
    let mut client = common(config, "lookup");
    client
        .set("group.id", &config.source.group_id)
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("allow.auto.create.topics", "false")
        // It reads one record now and then, to see whether it can.
        .set("auto.offset.reset", "error")
        .set("queued.min.messages", "1")
        .set("queued.max.messages.kbytes", "64")
        .set("statistics.interval.ms", "0");
    client
}

/// Whether librdkafka accepts the settings of every client; needs no broker. The error is for
/// people.
pub fn check(config: &Config) -> Result<(), String> {
    for (role, settings) in [
        ("consumer", consumer(config)),
        ("producer", forwarder(config)),
        ("lookup", lookup(config)),
    ] {
        settings.create_native_config().map_err(|error| {
            let error = refusal::cannot_be_made(&error, config);
            format!("the Kafka client ({role}) refuses a setting: {error}")
        })?;
    }
    Ok(())
}

fn common(config: &Config, role: &str) -> ClientConfig {
    let kafka = &config.kafka;
    let mut client = ClientConfig::new();
    let statistics_ms = config.metrics.librdkafka_interval.map_or(0, |every| every.as_millis());
    client
        .set("bootstrap.servers", kafka.bootstrap_servers.join(","))
        .set("client.id", format!("{}-{role}", kafka.client_id))
        .set("socket.timeout.ms", kafka.request_timeout.as_millis().to_string())
        .set("socket.keepalive.enable", "true")
        .set("statistics.interval.ms", statistics_ms.to_string())
        .set("reconnect.backoff.ms", "100")
        .set("reconnect.backoff.max.ms", "1000");
    if let Some(rack) = &kafka.rack {
        client.set("client.rack", rack);
    }
    security(config, &mut client);
    for (key, value) in kafka.librdkafka.iter() {
        client.set(key, value);
    }
    client
}

fn security(config: &Config, client: &mut ClientConfig) {
    let tls = &config.kafka.tls;
    let sasl = config.kafka.sasl.as_ref();
    let protocol = match (tls.enabled, sasl) {
        (false, None) => "plaintext",
        (true, None) => "ssl",
        (false, Some(_)) => "sasl_plaintext",
        (true, Some(_)) => "sasl_ssl",
    };
    client.set("security.protocol", protocol);
    if tls.enabled {
        // The vendored OpenSSL has no certificate directory of its own: `probe` finds the system's.
        let authorities =
            tls.ca_file.as_ref().map_or("probe".into(), |file| file.display().to_string());
        client.set("ssl.ca.location", authorities);
        let identification = if tls.verify_hostname { "https" } else { "none" };
        client.set("ssl.endpoint.identification.algorithm", identification);
        if let Some(certificate) = &tls.client_certificate {
            client
                .set("ssl.certificate.location", certificate.cert_file.display().to_string())
                .set("ssl.key.location", certificate.key_file.display().to_string());
            if let Some(password) = &certificate.key_password {
                client.set("ssl.key.password", password.expose_secret());
            }
        }
    }
    if let Some(sasl) = sasl {
        client.set("sasl.mechanism", sasl.mechanism.name());
        if let Credentials::Password { username, password } = &sasl.credentials {
            client.set("sasl.username", username).set("sasl.password", password.expose_secret());
        }
    }
}

fn kilobytes(bytes: u64) -> String {
    bytes.div_ceil(1024).max(1).to_string()
}
