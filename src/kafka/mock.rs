//! librdkafka's embedded mock broker: what `demo` and the fast tests run on.
//!
//! It listens on a free port of 127.0.0.1, keeps at most 5 MB a partition in memory, and knows
//! neither topic settings nor real transactions.

use rdkafka::error::KafkaResult;
use rdkafka::mocking::MockCluster;

/// A broker inside this process. Ends when dropped.
pub struct MockBroker {
    cluster: MockCluster<'static, rdkafka::producer::DefaultProducerContext>,
}

impl std::fmt::Debug for MockBroker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MockBroker({})", self.bootstrap_servers())
    }
}

impl MockBroker {
    /// Starts a cluster of one broker.
    pub fn start() -> KafkaResult<Self> {
        Ok(Self { cluster: MockCluster::new(1)? })
    }

    /// Where clients connect.
    pub fn bootstrap_servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Makes a topic with one replica.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> KafkaResult<()> {
        self.cluster.create_topic(topic, partitions, 1)
    }

    /// The cluster, for fault injection.
    pub fn cluster(&self) -> &MockCluster<'static, rdkafka::producer::DefaultProducerContext> {
        &self.cluster
    }
}
