//! What a scenario measured: one line for programs, one for people, and a table of all of them.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::support::target_dir;

/// The figures of one scenario. Times are in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub scenario: String,
    pub form: &'static str,
    pub guarantee: &'static str,
    pub records: usize,
    /// Without those that were deleted on purpose.
    pub lost: usize,
    pub early: usize,
    pub duplicated: usize,
    pub out_of_order: usize,
    /// How many went to the dead-letter topic.
    pub dead_lettered: usize,
    /// The longest time from due, or from the end of a fault, to seen.
    pub stall_ms: i64,
    /// The longest time from due to seen.
    pub latest_ms: i64,
    /// The longest time for which a partition of the destination got nothing that was due.
    pub gap_ms: i64,
    /// The longest time between acknowledgements of a bare producer beside the daemon.
    pub bare_gap_ms: Option<i64>,
    /// The same between records that a reader of the bare producer's topic got.
    pub bare_read_gap_ms: Option<i64>,
    /// Daemons that ended by themselves and were started again.
    pub restarts: usize,
    pub seconds: u64,
}

impl Row {
    /// Prints it, and adds it to the table of this run.
    pub fn publish(self) {
        let json = serde_json::to_string(&self).unwrap();
        // The test runner may have begun the line.
        println!("\nchaos {json}\n{}", self.sentence());
        static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());
        let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
        let suffix = if self.form == "long" { "" } else { "-short" };
        rows.push(self);
        let lines: String = rows.iter().map(Self::line).collect();
        let file = target_dir().join(format!("chaos{suffix}.md"));
        std::fs::write(file, format!("{HEAD}{lines}")).unwrap();
    }

    fn sentence(&self) -> String {
        let bare = match (self.bare_gap_ms, self.bare_read_gap_ms) {
            (Some(gap), Some(read)) => format!(", a bare producer {gap} and its reader {read}"),
            _ => String::new(),
        };
        format!(
            "{}, {}: of {} records {} lost, {} early, {} twice, {} out of order, {} dead-lettered; \
             stalled {} ms after the fault, {} ms at most from due to seen, silent {} ms{bare}; \
             {} daemons ended by themselves; {} s",
            self.scenario,
            self.guarantee,
            self.records,
            self.lost,
            self.early,
            self.duplicated,
            self.out_of_order,
            self.dead_lettered,
            self.stall_ms,
            self.latest_ms,
            self.gap_ms,
            self.restarts,
            self.seconds,
        )
    }

    fn line(&self) -> String {
        let shown = |gap: Option<i64>| gap.map_or("–".to_owned(), |gap| gap.to_string());
        let bare = format!("{} | {}", shown(self.bare_gap_ms), shown(self.bare_read_gap_ms));
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {bare} | {} | {} |\n",
            self.scenario,
            self.guarantee,
            self.records,
            self.lost,
            self.early,
            self.duplicated,
            self.out_of_order,
            self.dead_lettered,
            self.stall_ms,
            self.latest_ms,
            self.gap_ms,
            self.restarts,
            self.seconds,
        )
    }
}

const HEAD: &str = "\
| scenario | guarantee | records | lost | early | duplicated | out of order | dead-lettered \
| stall ms | latest ms | gap ms | bare gap ms | bare read gap ms | restarts | s |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
";
