//! What no value alone can tell: checks between settings.

use std::time::Duration;

use super::choice::{GroupProtocol, SaslMechanism};
use super::librdkafka::Properties;
use super::model::Config;
use super::reader::Reader;
use crate::engine::TopicPattern;

/// The shipped manifests give a pod 60 s to end; closing the consumer takes some of them.
const SHUTDOWN_WARNING: Duration = Duration::from_secs(55);

/// Looks at pairs of settings whose values are fine by themselves.
pub(super) fn config(config: &Config, reader: &mut Reader<'_>) {
    group_timing(config, reader);
    let (topic, dead_letter) = ("source.topic", "dead_letter.topic");
    if config.dead_letter.topic.as_ref() == Some(&config.source.topic)
        && reader.is_fine(&[topic, dead_letter])
    {
        let message = format!("{topic} and {dead_letter} are the same topic; rename one");
        reader.refuse_together(&[dead_letter, topic], message);
    }
    let [park_after, wake_lead] = ["delay.park_after", "delay.wake_lead"];
    if config.delay.wake_lead >= config.delay.park_after && reader.is_fine(&[park_after, wake_lead])
    {
        let message = format!("{wake_lead} must be shorter than {park_after}");
        reader.refuse_together(&[wake_lead, park_after], message);
    }
    let [initial, max] = ["retry.initial_backoff", "retry.max_backoff"];
    if config.retry.initial_backoff > config.retry.max_backoff && reader.is_fine(&[initial, max]) {
        reader.refuse_together(&[initial, max], format!("{initial} must not exceed {max}"));
    }
    if config.shutdown.timeout >= SHUTDOWN_WARNING {
        let message = "the shipped pods are killed 60s after they are told to end; keep this below \
                       55s, or raise terminationGracePeriodSeconds";
        reader.warn("shutdown.timeout", message);
    }
    allowed_topics(config, reader);
    clear_text_credentials(config, reader);
    set_once(&config.kafka.librdkafka, &config.source.librdkafka, "source", reader);
    set_once(&config.kafka.librdkafka, &config.forward.librdkafka, "forward", reader);
}

fn group_timing(config: &Config, reader: &mut Reader<'_>) {
    let [session, heartbeat, max_poll] =
        ["source.session_timeout", "source.heartbeat_interval", "source.max_poll_interval"];
    let source = &config.source;
    if source.group_protocol == GroupProtocol::Consumer {
        for path in [session, heartbeat] {
            if reader.is_set(path) {
                reader.warn(path, "has no effect: with the consumer protocol the broker decides");
            }
        }
        return;
    }
    if source.heartbeat_interval * 3 > source.session_timeout
        && reader.is_fine(&[session, heartbeat])
    {
        let message = format!(
            "{heartbeat} must be at most a third of {session}, or a lost heartbeat ends the session"
        );
        reader.refuse_together(&[heartbeat, session], message);
    }
    if source.max_poll_interval < source.session_timeout && reader.is_fine(&[session, max_poll]) {
        let message = format!("{max_poll} must not be shorter than {session}");
        reader.refuse_together(&[max_poll, session], message);
    }
}

/// Literal entries that the destination policy denies whatever the lists say.
fn allowed_topics(config: &Config, reader: &mut Reader<'_>) {
    let path = "forward.allow_topics";
    if config.forward.allow_topics.is_empty() && reader.is_fine(&[path]) {
        reader.warn(path, "the list is empty: no record can be forwarded");
    }
    for pattern in &config.forward.allow_topics {
        let TopicPattern::Literal(topic) = pattern else { continue };
        let role = if *topic == config.source.topic {
            "the delay topic"
        } else if config.dead_letter.topic.as_ref() == Some(topic) {
            "the dead-letter topic"
        } else {
            continue;
        };
        let message = format!("`{topic}` is {role}, which is always denied; remove the entry");
        reader.warn(path, message);
    }
}

fn clear_text_credentials(config: &Config, reader: &mut Reader<'_>) {
    let sends_secret = config.kafka.sasl.as_ref().is_some_and(|sasl| {
        matches!(sasl.mechanism, SaslMechanism::Plain | SaslMechanism::OauthBearer)
    });
    if sends_secret && !config.kafka.tls.enabled {
        let message = "sends the credentials unencrypted; switch on kafka.tls.enabled";
        reader.warn("kafka.sasl.mechanism", message);
    }
}

/// A property in `[kafka.librdkafka]` reaches both clients, so it must not be in `own` too.
fn set_once(both: &Properties, own: &Properties, section: &str, reader: &mut Reader<'_>) {
    for (name, _) in both.iter() {
        if own.iter().any(|(its_name, _)| its_name == name) {
            let paths =
                [format!("{section}.librdkafka.{name}"), format!("kafka.librdkafka.{name}")];
            let [own, both] = [paths[0].as_str(), paths[1].as_str()];
            let message = format!("{both} and {own} set the same property; remove one");
            reader.refuse_together(&[own, both], message);
        }
    }
}
