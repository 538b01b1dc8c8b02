//! Connections to brokers, from the statistics that librdkafka emits now and then.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus::{Error, GaugeVec};

use super::families::Families;
use super::labels::{ByLabel, ClientKind, LabelValue};

/// What one client's statistics say about one broker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrokerSample {
    /// Node id of the broker; connections that have none, as to bootstrap servers, are left out.
    pub broker_id: i32,
    /// Whether the client is connected to it.
    pub connected: bool,
    /// Median round trip over the statistics window; none when nothing was sent in it.
    pub rtt_p50_seconds: Option<f64>,
    /// 99th percentile of the same.
    pub rtt_p99_seconds: Option<f64>,
}

pub(super) struct BrokerGauges {
    connected: GaugeVec,
    rtt: GaugeVec,
    known: ByLabel<ClientKind, Mutex<BTreeSet<i32>>>,
}

impl BrokerGauges {
    pub(super) fn new(families: &Families<'_>) -> Result<Self, Error> {
        Ok(Self {
            connected: families.gauges(
                "broker_connected",
                "Whether the client is connected to this broker.",
                &["client", "broker_id"],
            )?,
            rtt: families.gauges(
                "broker_rtt_seconds",
                "Round-trip time to this broker over the last statistics window.",
                &["client", "broker_id", "quantile"],
            )?,
            known: ByLabel::new(|_| Mutex::default()),
        })
    }

    /// Takes over `samples`; brokers that `client` no longer knows disappear.
    pub(super) fn observe(&self, client: ClientKind, samples: &[BrokerSample]) {
        let mut known = self.known.of(client).lock().unwrap_or_else(PoisonError::into_inner);
        let current: BTreeSet<i32> = samples.iter().map(|sample| sample.broker_id).collect();
        for &broker_id in known.difference(&current) {
            self.set(client, broker_id, None, [None, None]);
        }
        for sample in samples {
            let connected = Some(f64::from(u8::from(sample.connected)));
            let rtt = [sample.rtt_p50_seconds, sample.rtt_p99_seconds];
            self.set(client, sample.broker_id, connected, rtt);
        }
        *known = current;
    }

    fn set(&self, client: ClientKind, id: i32, connected: Option<f64>, rtt: [Option<f64>; 2]) {
        let id = id.to_string();
        let client = client.name();
        super::state::set_or_remove(&self.connected, &[client, &id], connected);
        for (quantile, rtt) in ["0.5", "0.99"].into_iter().zip(rtt) {
            super::state::set_or_remove(&self.rtt, &[client, &id, quantile], rtt);
        }
    }
}
