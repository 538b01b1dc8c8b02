//! librdkafka's statistics as broker metrics.

use std::sync::Arc;

use crate::kafka::{BrokerState, ClientName, Observer};
use crate::metrics::{BrokerSample, ClientKind, Metrics};

/// Takes statistics to the metrics.
pub(super) struct BrokerObserver(pub(super) Arc<Metrics>);

impl Observer for BrokerObserver {
    fn brokers(&self, client: ClientName, brokers: &[BrokerState]) {
        let kind = match client {
            ClientName::Consumer => ClientKind::Consumer,
            ClientName::Producer => ClientKind::Producer,
            ClientName::Lookup => ClientKind::Lookup,
        };
        let samples: Vec<BrokerSample> = brokers
            .iter()
            .map(|broker| BrokerSample {
                broker_id: broker.id,
                connected: broker.connected,
                rtt_p50_seconds: broker.rtt.map(|(median, _)| median.as_secs_f64()),
                rtt_p99_seconds: broker.rtt.map(|(_, p99)| p99.as_secs_f64()),
            })
            .collect();
        self.0.observe_brokers(kind, &samples);
    }
}
