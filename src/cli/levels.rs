//! `kafka-delay levels`: which partition delays by how much.

use std::io::Write;
use std::num::NonZeroU16;

use clap::Args;
use jiff::{SignedDuration, ZonedDateTime};
use serde_json::{Value as Json, json};

use super::exit::{self, Failure};
use super::global::GlobalArgs;
use super::output::{self, Format};
use crate::engine::{Level, LevelTable};

/// Arguments of `levels`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay levels
  kafka-delay levels --partitions 36
  kafka-delay levels --set delay.levels=10s,1m,1h -o json")]
pub struct LevelsArgs {
    /// Partitions of the delay topic, a multiple of the number of levels [default: as many]
    #[arg(long, value_name = "N")]
    partitions: Option<NonZeroU16>,

    /// Shape of the output
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

pub(super) fn run(
    args: &LevelsArgs,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let levels = global.load()?.config.delay.levels;
    let partitions = args.partitions.map_or(levels.count(), |count| usize::from(count.get()));
    if !levels.fits(partitions) {
        let count = levels.count();
        let message = format!(
            "--partitions {partitions} is not a multiple of {count}, the number of levels: \
             some levels would have more partitions than others"
        );
        return Err(Failure::new(exit::USAGE, message));
    }
    let now = ZonedDateTime::now();
    match args.output {
        Format::Table => {
            let header = ["LEVEL", "DELAY", "PARTITIONS", "WRITTEN NOW, DUE"];
            let mut table = output::table(&header);
            for level in levels.iter() {
                let shards: Vec<String> =
                    shards(&levels, level, partitions).map(|shard| shard.to_string()).collect();
                let due = due(&now, level).strftime("%F %T %:z").to_string();
                table.add_row([level.number.to_string(), level.label(), shards.join(","), due]);
            }
            output::print(&table, out)?;
        }
        Format::Json => {
            let entry = |level: Level| {
                json!({
                    "level": level.number,
                    "delay": level.label(),
                    "delay_ms": level.delay_ms,
                    "partitions": shards(&levels, level, partitions).collect::<Vec<_>>(),
                    "due_if_written_now": due(&now, level).timestamp().to_string(),
                })
            };
            let entries: Json = levels.iter().map(entry).collect();
            writeln!(out, "{entries:#}")?;
        }
    }
    Ok(())
}

/// The partitions of `level` in a topic of `partitions` partitions.
fn shards(levels: &LevelTable, level: Level, partitions: usize) -> impl Iterator<Item = usize> {
    (usize::from(level.number) - 1..partitions).step_by(levels.count())
}

fn due(now: &ZonedDateTime, level: Level) -> ZonedDateTime {
    now.saturating_add(SignedDuration::from_millis(level.delay_ms))
}
