//! Before anything is read: does the cluster answer, and are the topics fit for their purpose?

use std::time::Duration;

use tracing::{info, warn};

use super::AppError;
use crate::clock::Moment;
use crate::config::{Config, VerifyTopic};
use crate::kafka::admin::{Admin, TopicError, TopicState};
use crate::kafka::guards::{Finding, Severity, check_dead_letter_topic, check_delay_topic};

/// One try to reach the cluster.
const CONNECT_TRY: Duration = Duration::from_secs(2);

/// What the start needs to know of the delay topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Topics {
    /// Number of partitions.
    pub(super) partitions: i32,
    /// How long records are kept; `None` without limit, or when it may not be read.
    pub(super) retention: Option<Duration>,
}

/// Waits for the cluster, then checks the topics as `source.verify_topic` says.
pub(super) async fn prepare(config: &Config) -> Result<Topics, AppError> {
    let owned = config.clone();
    let admin = tokio::task::spawn_blocking(move || connect(&owned))
        .await
        .map_err(|error| AppError::Internal(format!("connecting: {error}")))??;
    info!(brokers = %config.kafka.bootstrap_servers.join(","), "connected");
    let (delay_topic, findings) = match config.source.verify_topic {
        VerifyTopic::Off => {
            let partitions = admin.partitions(&config.source.topic).map_err(from_topic_error)?;
            (TopicState { partitions, settings: None }, Vec::new())
        }
        VerifyTopic::Strict | VerifyTopic::Warn => check_topics(config, &admin).await?,
    };
    let strict = config.source.verify_topic == VerifyTopic::Strict;
    let mut faults = Vec::new();
    for finding in findings {
        if finding.severity == Severity::Error && strict {
            faults.push(finding.to_string());
        } else {
            warn!(topic = %finding.topic, "{}", finding.text);
        }
    }
    if !faults.is_empty() {
        faults.push("source.verify_topic = \"warn\" starts all the same".to_owned());
        return Err(AppError::Config(faults.join("\n")));
    }
    let partitions = usize::try_from(delay_topic.partitions).unwrap_or(0);
    if !config.delay.levels.fits(partitions) {
        // Never started, whatever verify_topic says: records would wait for the wrong delay.
        let levels = config.delay.levels.count();
        return Err(AppError::Config(format!(
            "topic `{}` has {partitions} partitions, which is no multiple of the {levels} levels",
            config.source.topic
        )));
    }
    let retention = delay_topic.settings.as_ref().and_then(|settings| {
        let retention_ms: i64 = settings.get("retention.ms")?.parse().ok()?;
        u64::try_from(retention_ms).ok().map(Duration::from_millis)
    });
    Ok(Topics { partitions: delay_topic.partitions, retention })
}

/// Waits up to `kafka.connect_timeout` for the cluster's first answer. Blocks.
pub fn connect(config: &Config) -> Result<Admin, AppError> {
    let admin = Admin::new(config).map_err(AppError::Config)?;
    let started = Moment::now();
    let brokers = config.kafka.bootstrap_servers.join(",");
    loop {
        let Err(refusal) = admin.connect(CONNECT_TRY) else { return Ok(admin) };
        if refusal.denied {
            return Err(AppError::Denied(format!("{brokers}: {}", refusal.cause)));
        }
        if started.elapsed() >= config.kafka.connect_timeout {
            return Err(AppError::Unavailable(format!(
                "no answer from {brokers} within {}: {}",
                humantime::format_duration(config.kafka.connect_timeout),
                refusal.cause
            )));
        }
    }
}

/// What is known of the delay topic, and all that should be otherwise with it and the dead-letter
/// topic.
pub async fn check_topics(
    config: &Config,
    admin: &Admin,
) -> Result<(TopicState, Vec<Finding>), AppError> {
    let topic = &config.source.topic;
    let delay_topic = admin.describe(topic).await.map_err(from_topic_error)?;
    let margin_ms = i64::try_from(config.source.retention_margin.as_millis()).unwrap_or(i64::MAX);
    let mut findings = check_delay_topic(topic, &delay_topic, &config.delay.levels, margin_ms);
    if let Some(dead_letter) = &config.dead_letter.topic {
        match admin.describe(dead_letter).await {
            Ok(state) => {
                findings.extend(check_dead_letter_topic(dead_letter, &state, &delay_topic));
            }
            Err(error @ TopicError::Unavailable { .. }) => return Err(from_topic_error(error)),
            Err(error) => findings.push(Finding {
                severity: Severity::Error,
                topic: dead_letter.clone(),
                text: error.to_string(),
            }),
        }
    }
    Ok((delay_topic, findings))
}

fn from_topic_error(error: TopicError) -> AppError {
    match error {
        TopicError::Missing(_) => AppError::Config(error.to_string()),
        TopicError::Denied(_) => AppError::Denied(error.to_string()),
        TopicError::Unavailable { .. } => AppError::Unavailable(error.to_string()),
    }
}
