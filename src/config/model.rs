//! The checked configuration. Whoever holds a [`Config`] need not check anything again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::choice::{
    Compression, ForwardTimestamp, GroupProtocol, Guarantee, LogFormat, OnDeadLetterFailure,
    OnMissingOffset, SaslMechanism, VerifyTopic,
};
use super::librdkafka::Properties;
use crate::engine::{DestinationPolicy, LevelTable, TopicPattern};

/// Every setting of the daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[kafka]`: what the consumer and the producer have in common.
    pub kafka: KafkaConfig,
    /// `[source]`: the delay topic and the consumer group on it.
    pub source: SourceConfig,
    /// `[delay]`: how long records wait.
    pub delay: DelayConfig,
    /// `[forward]`: where records go when they are due.
    pub forward: ForwardConfig,
    /// `[dead_letter]`: where records go that cannot be forwarded.
    pub dead_letter: DeadLetterConfig,
    /// `[retry]`: pauses between attempts to produce a record that was refused.
    pub retry: RetryConfig,
    /// `[http]`: probes, metrics and status.
    pub http: HttpConfig,
    /// `[log]`: what is logged, and how.
    pub log: LogConfig,
    /// `[metrics]`: what is measured.
    pub metrics: MetricsConfig,
    /// `[health]`: when the daemon is taken for stuck.
    pub health: HealthConfig,
    /// `[shutdown]`: how long it may take to end.
    pub shutdown: ShutdownConfig,
}

impl Config {
    /// Which topics records may be forwarded to.
    pub fn destination_policy(&self) -> DestinationPolicy {
        DestinationPolicy::new(
            self.source.topic.clone(),
            self.dead_letter.topic.clone(),
            self.forward.allow_topics.clone(),
            self.forward.deny_topics.clone(),
        )
    }
}

/// `[kafka]`: what the consumer and the producer have in common.
#[derive(Debug, Clone)]
pub struct KafkaConfig {
    /// Brokers to ask for the rest of the cluster, `host` or `host:port`; at least one.
    pub bootstrap_servers: Vec<String>,
    /// The name in broker logs and quotas.
    pub client_id: String,
    /// `client.rack`: fetch from the nearest replica.
    pub rack: Option<String>,
    /// How long the cluster may take to answer at start-up before the daemon gives up.
    pub connect_timeout: Duration,
    /// How long one request to a broker may take.
    pub request_timeout: Duration,
    /// `[kafka.tls]`: encryption and client certificate.
    pub tls: TlsConfig,
    /// `[kafka.sasl]`: credentials; none = no authentication but a client certificate, if any.
    pub sasl: Option<SaslConfig>,
    /// `[kafka.librdkafka]`: further properties of both clients.
    pub librdkafka: Properties,
}

impl KafkaConfig {
    /// The value of `security.protocol` that follows from `tls` and `sasl`.
    pub fn security_protocol(&self) -> &'static str {
        match (self.tls.enabled, self.sasl.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        }
    }
}

/// `[kafka.tls]`: encryption and client certificate.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// Whether connections are encrypted; also switched on by a CA or a client certificate.
    pub enabled: bool,
    /// PEM file of certificate authorities; none = those of the system.
    pub ca_file: Option<PathBuf>,
    /// For mutual TLS.
    pub client_certificate: Option<ClientCertificate>,
    /// Whether the name in the broker's certificate must be the broker's.
    pub verify_hostname: bool,
}

/// What the daemon shows to brokers that ask for a certificate.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// PEM file of the certificate and its chain.
    pub cert_file: PathBuf,
    /// PEM file of its private key.
    pub key_file: PathBuf,
    /// Password of `key_file`, read from `key_password_file`.
    pub key_password: Option<SecretString>,
}

/// `[kafka.sasl]`: how the daemon proves who it is.
#[derive(Debug, Clone)]
pub struct SaslConfig {
    /// The mechanism; its kind of credentials is in `credentials`.
    pub mechanism: SaslMechanism,
    /// The proof.
    pub credentials: Credentials,
}

/// The proof that a SASL mechanism takes.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// For PLAIN and SCRAM.
    Password {
        /// From `username` or `username_file`.
        username: String,
        /// From `password` or `password_file`.
        password: SecretString,
    },
    /// For OAUTHBEARER: the file with a JWT, to be read again before the token expires.
    TokenFile(PathBuf),
}

/// `[source]`: the delay topic and the consumer group on it.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The delay topic; partition `p` holds level `p mod levels + 1`.
    pub topic: String,
    /// The consumer group that all instances share.
    pub group_id: String,
    /// Static membership; needs a name that survives a restart.
    pub group_instance_id: Option<String>,
    /// How members agree on who reads which partition.
    pub group_protocol: GroupProtocol,
    /// Silence after which the broker drops a member. For the classic protocol.
    pub session_timeout: Duration,
    /// Pause between signs of life, at most a third of `session_timeout`. For the classic protocol.
    pub heartbeat_interval: Duration,
    /// A member whose loop is stuck for this long leaves the group.
    pub max_poll_interval: Duration,
    /// How often the offset below which everything is forwarded gets committed.
    pub commit_interval: Duration,
    /// Records fetched ahead, in bytes a partition.
    pub max_queued_bytes: u64,
    /// What to do when the committed offset no longer exists.
    pub on_missing_offset: OnMissingOffset,
    /// Whether the settings of the delay topic are checked at start-up.
    pub verify_topic: VerifyTopic,
    /// `retention.ms` of the delay topic must exceed the longest delay by this.
    pub retention_margin: Duration,
    /// `[source.librdkafka]`: further properties of the consumer.
    pub librdkafka: Properties,
}

/// `[delay]`: how long records wait.
#[derive(Debug, Clone)]
pub struct DelayConfig {
    /// The delay levels, shortest first.
    pub levels: LevelTable,
    /// A partition whose next record is due later than this is paused and its memory given back.
    pub park_after: Duration,
    /// A parked partition is fetched again this long before its next record is due.
    pub wake_lead: Duration,
    /// Record timestamps further ahead of the daemon's clock are counted and logged.
    pub future_tolerance: Duration,
}

/// `[forward]`: where records go when they are due.
#[derive(Debug, Clone)]
pub struct ForwardConfig {
    /// Destinations a record may name.
    pub allow_topics: Vec<TopicPattern>,
    /// Destinations it may not name; wins over `allow_topics`.
    pub deny_topics: Vec<TopicPattern>,
    /// Whether records are forwarded in transactions.
    pub guarantee: Guarantee,
    /// `transactional.id` of the producer, with `exactly_once`; one of its own for each instance.
    pub transactional_id: String,
    /// The broker aborts a transaction that is older, with `exactly_once`.
    pub transaction_timeout: Duration,
    /// The timestamp of the forwarded record.
    pub timestamp: ForwardTimestamp,
    /// Whether the headers that steer the delay stay on the forwarded record.
    pub keep_control_headers: bool,
    /// How long an unknown or unauthorised destination is tried again before the record is
    /// dead-lettered.
    pub destination_grace: Duration,
    /// Compression of forwarded batches.
    pub compression: Compression,
    /// How long the producer waits to fill a batch.
    pub linger: Duration,
    /// Bytes forwarded and not yet acknowledged, all levels together.
    pub max_in_flight_bytes: u64,
    /// `[forward.librdkafka]`: further properties of the producer.
    pub librdkafka: Properties,
}

/// `[dead_letter]`: where records go that cannot be forwarded.
#[derive(Debug, Clone)]
pub struct DeadLetterConfig {
    /// The dead-letter topic; none = `on_failure` decides at once.
    pub topic: Option<String>,
    /// What to do with a record that the dead-letter topic does not take.
    pub on_failure: OnDeadLetterFailure,
}

/// `[retry]`: pauses between attempts to produce a record that was refused.
#[derive(Debug, Clone)]
pub struct RetryConfig {
    /// The first pause; later ones grow.
    pub initial_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
}

/// `[http]`: probes, metrics and status.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// The address to listen on; none = no HTTP at all.
    pub listen: Option<SocketAddr>,
}

/// `[log]`: what is logged, and how.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Level, also by module: `info,kafka_delay::worker=debug`.
    pub filter: String,
    /// The shape of log lines.
    pub format: LogFormat,
    /// A warning repeated within this time is counted instead of printed.
    pub repeat_window: Duration,
}

/// `[metrics]`: what is measured.
#[derive(Debug, Clone)]
pub struct MetricsConfig {
    /// Upper bounds of the lateness histogram, strictly increasing.
    pub lateness_buckets: Vec<Duration>,
    /// Whether forwarded records are also counted by destination.
    pub per_topic: bool,
    /// Destinations beyond this many count as `other`.
    pub per_topic_limit: u32,
    /// How often broker connection metrics are taken; none = never.
    pub librdkafka_interval: Option<Duration>,
    /// How often log ends are asked for backlog figures.
    pub lag_interval: Duration,
}

/// `[health]`: when the daemon is taken for stuck.
#[derive(Debug, Clone)]
pub struct HealthConfig {
    /// `/livez` fails when the loop is silent this long; at twice this the process ends.
    pub stall_after: Duration,
    /// A partition that does not move for this long although the cluster would let it is stuck; at
    /// twice this the process ends.
    pub stuck_after: Duration,
}

/// `[shutdown]`: how long it may take to end.
#[derive(Debug, Clone)]
pub struct ShutdownConfig {
    /// After this the process ends whatever is unfinished.
    pub timeout: Duration,
}
