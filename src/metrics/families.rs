//! Makes metric families: one prefix, one registry, help in one place.

use prometheus::core::Collector;
use prometheus::{
    Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    Opts, Registry,
};

use super::labels::{ByLabel, ByLevel, LabelValue};
use crate::engine::LevelTable;

/// Every metric of the daemon begins with this and an underscore.
const NAMESPACE: &str = "kafka_delay";

/// Labels of metrics that exist once a level: its number and its delay, which say the same.
const LEVEL_LABELS: [&str; 2] = ["level", "delay"];

/// A registry on which families are made.
pub(super) struct Families<'a> {
    pub(super) registry: &'a Registry,
    pub(super) levels: &'a LevelTable,
}

impl Families<'_> {
    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.register(Gauge::with_opts(options(name, help))?)
    }

    pub(super) fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<GaugeVec, Error> {
        self.register(GaugeVec::new(options(name, help), labels)?)
    }

    /// Gauges with the labels of a level and those of `more`.
    pub(super) fn level_gauges(
        &self,
        name: &str,
        help: &str,
        more: &[&str],
    ) -> Result<GaugeVec, Error> {
        self.gauges(name, help, &[&LEVEL_LABELS, more].concat())
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.register(IntCounter::with_opts(options(name, help))?)
    }

    pub(super) fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(options(name, help), labels)?)
    }

    pub(super) fn counters_by<K: LabelValue>(
        &self,
        name: &str,
        help: &str,
        label: &str,
    ) -> Result<ByLabel<K, IntCounter>, Error> {
        let family = self.counters(name, help, &[label])?;
        Ok(ByLabel::new(|value: K| family.with_label_values(&[value.name()])))
    }

    pub(super) fn counters_by_level(
        &self,
        name: &str,
        help: &str,
    ) -> Result<ByLevel<IntCounter>, Error> {
        let family = self.counters(name, help, &LEVEL_LABELS)?;
        let counter = |number: String, delay: String| family.with_label_values(&[number, delay]);
        let levels = self.levels.iter();
        Ok(ByLevel::new(levels.map(|l| counter(l.number.to_string(), l.label())).collect()))
    }

    pub(super) fn histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> Result<Histogram, Error> {
        self.register(Histogram::with_opts(histogram_options(name, help, buckets))?)
    }

    /// Panics if `buckets` do not increase; here they are constants.
    pub(super) fn histograms_by<K: LabelValue>(
        &self,
        name: &str,
        help: &str,
        label: &str,
        buckets: &[f64],
    ) -> Result<ByLabel<K, Histogram>, Error> {
        let options = histogram_options(name, help, buckets);
        let family = self.register(HistogramVec::new(options, &[label])?)?;
        Ok(ByLabel::new(|value: K| family.with_label_values(&[value.name()])))
    }

    /// The delay is no label here: it would lengthen each of the many bucket lines.
    pub(super) fn histograms_by_level(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> Result<ByLevel<Histogram>, Error> {
        let options = histogram_options(name, help, buckets);
        let family = self.register(HistogramVec::new(options, &["level"])?)?;
        let histogram = |number: u16| family.get_metric_with_label_values(&[number.to_string()]);
        let histograms: Result<Vec<_>, Error> =
            self.levels.iter().map(|level| histogram(level.number)).collect();
        Ok(ByLevel::new(histograms?))
    }

    fn register<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, Error> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

fn options(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace(NAMESPACE)
}

fn histogram_options(name: &str, help: &str, buckets: &[f64]) -> HistogramOpts {
    HistogramOpts::new(name, help).namespace(NAMESPACE).buckets(buckets.to_vec())
}
