//! `kafka-delay topics`: makes and checks the delay topic and the dead-letter topic.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand};

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use super::output::{self, Severity as Mark, complain};
use super::run::runtime;
use crate::app;
use crate::config::Config;
use crate::kafka::admin::TopicPlan;
use crate::kafka::guards::Severity;

/// Bytes that a dead letter may be larger than the record: its reason and where it came from.
const DEAD_LETTER_ROOM_BYTES: i64 = 65_536;

/// `max.message.bytes` of a topic that does not set it (Kafka 4).
const DEFAULT_MAX_MESSAGE_BYTES: i64 = 1_048_588;

/// A week: what Kafka keeps by default, too.
const MIN_RETENTION_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

pub(super) const EXAMPLES: &str = "\
Examples:
  kafka-delay topics create --dry-run
  kafka-delay topics create -b kafka:9092 --replicas 3
  kafka-delay topics check";

/// What to do with the topics.
#[derive(Subcommand)]
pub enum TopicsCommand {
    /// Create the delay topic and the dead-letter topic with the right settings
    Create(CreateArgs),
    /// Check the topics as the daemon does at start-up
    Check(CheckArgs),
}

/// Arguments of `topics create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay topics create --dry-run
  kafka-delay topics create --replicas 3
  kafka-delay topics create --partitions 36 --replicas 3

A topic that exists is left as it is and checked. --dry-run asks the cluster whether it would accept
the topics, and changes nothing.")]
pub struct CreateArgs {
    /// Partitions of the delay topic, a multiple of the number of levels [default: one a level]
    #[arg(long, value_name = "N")]
    partitions: Option<i32>,

    /// Replicas of each partition [default: the cluster's]
    #[arg(long, value_name = "N", default_value_t = -1, hide_default_value = true)]
    replicas: i32,

    /// Show what would be created
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `topics check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay topics check
  kafka-delay topics check -b kafka:9092 --topic orders_delay

Exit code 1 when something is wrong, 69 when Kafka does not answer, 77 when it refuses.")]
pub struct CheckArgs {}

pub(super) fn run(
    command: &TopicsCommand,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let config = global.load()?.config;
    match command {
        TopicsCommand::Create(args) => create(args, &config, global, out),
        TopicsCommand::Check(_) => check(&config, global, out),
    }
}

fn create(
    args: &CreateArgs,
    config: &Config,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let plans = plans(args, config)?;
    let admin = app::connect(config)?;
    let runtime = runtime()?;
    for plan in &plans {
        let created = runtime.block_on(admin.create(plan, args.dry_run)).map_err(|error| {
            Failure::new(exit::FAILED, format!("topic `{}`: {error}", plan.name))
        })?;
        let done = match (created, args.dry_run) {
            (false, _) => "exists, left as it is",
            (true, true) => "would be created",
            (true, false) => "created",
        };
        writeln!(out, "topic `{}`: {done}", plan.name)?;
        if created && !args.dry_run {
            admin.wait_visible(&plan.name).map_err(|error| {
                Failure::new(exit::UNAVAILABLE, format!("it was created, but: {error}"))
            })?;
        }
        if created {
            let replicas = match plan.replicas {
                -1 => "the cluster's default".to_owned(),
                replicas => replicas.to_string(),
            };
            writeln!(out, "  partitions {}, replicas {replicas}", plan.partitions)?;
            for (key, value) in &plan.settings {
                writeln!(out, "  {key}={value}")?;
            }
        }
    }
    if args.dry_run {
        return Ok(());
    }
    check(config, global, out)
}

fn plans(args: &CreateArgs, config: &Config) -> Result<Vec<TopicPlan>, Failure> {
    let levels = &config.delay.levels;
    let count = i32::try_from(levels.count()).unwrap_or(i32::MAX);
    let partitions = args.partitions.unwrap_or(count);
    if !levels.fits(usize::try_from(partitions).unwrap_or(0)) {
        let message = format!("--partitions {partitions} is no multiple of the {count} levels");
        return Err(Failure::new(exit::USAGE, message));
    }
    let margin_ms = i64::try_from(config.source.retention_margin.as_millis()).unwrap_or(i64::MAX);
    let retention_ms = levels.longest_ms().saturating_add(margin_ms).max(MIN_RETENTION_MS);
    let mut common = BTreeMap::from([("cleanup.policy".to_owned(), "delete".to_owned())]);
    if args.replicas >= 3 {
        common.insert("min.insync.replicas".to_owned(), "2".to_owned());
    }
    let with = |entries: &[(&str, String)]| {
        let mut settings = common.clone();
        settings.extend(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        settings
    };
    let delay_topic = TopicPlan {
        name: config.source.topic.clone(),
        partitions,
        replicas: args.replicas,
        settings: with(&[
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("retention.ms", retention_ms.to_string()),
            ("retention.bytes", "-1".to_owned()),
        ]),
    };
    let dead_letter = config.dead_letter.topic.as_ref().map(|name| TopicPlan {
        name: name.clone(),
        partitions: 1,
        replicas: args.replicas,
        settings: with(&[
            ("retention.ms", (2 * MIN_RETENTION_MS).to_string()),
            ("max.message.bytes", (DEFAULT_MAX_MESSAGE_BYTES + DEAD_LETTER_ROOM_BYTES).to_string()),
        ]),
    });
    Ok(std::iter::once(delay_topic).chain(dead_letter).collect())
}

fn check(config: &Config, global: &GlobalArgs, out: &mut impl Write) -> Result<(), Failure> {
    let admin = app::connect(config)?;
    let (_, findings) = runtime()?.block_on(app::check_topics(config, &admin))?;
    let color = global.color.is_on_for_stderr();
    let mut errors = 0;
    for finding in &findings {
        let mark = match finding.severity {
            Severity::Error => {
                errors += 1;
                Mark::Error
            }
            Severity::Warning => Mark::Warning,
        };
        complain(color, mark, &finding.to_string());
    }
    if errors > 0 {
        return Err(Failure::new(exit::FAILED, ""));
    }
    let warnings = findings.len();
    output::print_line(out, &format!("ok: the topics can be used, {warnings} warnings"))?;
    Ok(())
}
