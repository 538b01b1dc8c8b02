//! `kafka-delay send`: one delayed record, for trying things out and for scripts.

use std::io::{Read, Write};
use std::time::Duration;

use clap::{ArgGroup, Args};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use crate::app;
use crate::clock;
use crate::engine::{Level, LevelTable, is_legal_topic_name};
use crate::kafka::sender::{DelayedRecord, Sender};

/// Arguments of `send`.
#[derive(Args)]
#[command(group = ArgGroup::new("wait").required(true).args(["delay", "level"]))]
#[command(after_help = "\
Examples:
  kafka-delay send --delay 30s --to orders 'cancel 4711'
  kafka-delay send --level 4 --to orders --key 4711 --header trace-id=a1 'cancel 4711'
  cat body.json | kafka-delay send --delay 1h --to reminders -

The record waits in the delay topic; the daemon forwards it when the delay has passed.")]
pub struct SendArgs {
    /// How long the record waits; must be one of the levels (see `kafka-delay levels`)
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,

    /// Number of the level, instead of --delay
    #[arg(long, value_name = "N")]
    level: Option<u16>,

    /// Topic that gets the record when the delay has passed
    #[arg(long, value_name = "TOPIC")]
    to: String,

    /// Key of the record [default: none]
    #[arg(short, long)]
    key: Option<String>,

    /// Header of the record, NAME=VALUE; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,

    /// Which of several partitions of the level, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    shard: i32,

    /// Value of the record; `-` reads standard input; none makes a record without a value
    value: Option<String>,
}

pub(super) fn run(
    args: &SendArgs,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let config = global.load()?.config;
    let levels = &config.delay.levels;
    let level = choose(args, levels)?;
    if !is_legal_topic_name(&args.to) {
        let message = format!("--to `{}` is no topic name: a-z A-Z 0-9 . _ -", args.to);
        return Err(Failure::new(exit::USAGE, message));
    }
    config.destination_policy().check(&args.to).map_err(|rejection| {
        let detail = rejection.detail;
        Failure::new(exit::USAGE, format!("--to {}: the daemon would refuse it: {detail}", args.to))
    })?;
    let count = i32::try_from(levels.count()).unwrap_or(i32::MAX);
    let partition = args.shard.saturating_mul(count) + i32::from(level.number) - 1;
    let value = match args.value.as_deref() {
        None => None,
        Some("-") => {
            let mut value = Vec::new();
            std::io::stdin().lock().read_to_end(&mut value)?;
            Some(value)
        }
        Some(text) => Some(text.as_bytes().to_vec()),
    };
    app::connect(&config)?;
    let failed = |error: String| Failure::new(exit::FAILED, format!("not sent: {error}"));
    let sender = Sender::new(&config).map_err(|error| failed(error.to_string()))?;
    let record = DelayedRecord {
        topic: &config.source.topic,
        partition,
        origin_topic: &args.to,
        key: args.key.as_deref().map(str::as_bytes),
        value: value.as_deref(),
        headers: &args.headers,
        timestamp_ms: None,
    };
    let receipt = sender.send(&record).map_err(failed)?;
    let sent = receipt.wait(config.kafka.request_timeout).map_err(failed)?;
    let due = clock::wall_ms().saturating_add(level.delay_ms);
    writeln!(
        out,
        "sent to {} partition {} offset {} (level {}, {}); due {}, then to {}",
        config.source.topic,
        sent.partition,
        sent.offset,
        level.number,
        level.label(),
        local_time(due),
        args.to
    )?;
    Ok(())
}

fn choose(args: &SendArgs, levels: &LevelTable) -> Result<Level, Failure> {
    let found = match (args.level, args.delay) {
        (Some(number), _) => levels.iter().find(|level| level.number == number),
        (None, Some(delay)) => levels.with_delay(delay),
        (None, None) => None,
    };
    found.ok_or_else(|| {
        let asked = match (args.level, args.delay) {
            (Some(number), _) => format!("--level {number}"),
            (None, Some(delay)) => format!("--delay {}", humantime::format_duration(delay)),
            (None, None) => "no delay".to_owned(),
        };
        Failure::new(exit::USAGE, format!("{asked} is none of the levels: {levels}"))
    })
}

/// A moment as people read it, in the local time zone, to the millisecond.
pub(super) fn local_time(wall_ms: i64) -> String {
    match Timestamp::from_millisecond(wall_ms) {
        Ok(time) => time.to_zoned_datetime(TimeZone::system()).strftime("%F %T%.3f").to_string(),
        Err(_) => format!("{wall_ms} ms"),
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
