//! librdkafka's statistics as broker metrics.

use std::sync::Arc;

use rdkafka::Statistics;

use crate::kafka::{ClientName, Observer};
use crate::metrics::{BrokerSample, ClientKind, Metrics};

/// Takes statistics to the metrics.
pub(super) struct BrokerObserver(pub(super) Arc<Metrics>);

impl Observer for BrokerObserver {
    fn statistics(&self, client: ClientName, statistics: &Statistics) {
        let kind = match client {
            ClientName::Consumer => ClientKind::Consumer,
            ClientName::Producer => ClientKind::Producer,
            ClientName::Lookup => ClientKind::Lookup,
        };
        let seconds = |micros: i64| std::time::Duration::from_micros(micros.unsigned_abs());
        let samples: Vec<BrokerSample> = statistics
            .brokers
            .values()
            .filter(|broker| broker.nodeid >= 0)
            .map(|broker| {
                let window = broker.rtt.as_ref().filter(|window| window.cnt > 0);
                BrokerSample {
                    broker_id: broker.nodeid,
                    connected: broker.state == "UP",
                    rtt_p50_seconds: window.map(|window| seconds(window.p50).as_secs_f64()),
                    rtt_p99_seconds: window.map(|window| seconds(window.p99).as_secs_f64()),
                }
            })
            .collect();
        self.0.observe_brokers(kind, &samples);
    }
}
