//! Memory and processor time while records wait and nothing is due.

use std::time::{Duration, Instant};

use super::support::{Daemon, DaemonConfig, Record, eventually, now_ms, shared, unique};

const RECORDS_PER_LEVEL: usize = 20_000;
const WATCHED: Duration = Duration::from_secs(20);

pub fn run() {
    println!("\nidle: 18 levels, {RECORDS_PER_LEVEL} x 100 B waiting in each, {WATCHED:?} each");
    println!("{:<32} {:>10} {:>10}", "", "RSS MB", "CPU %");
    // (what, park_after, how far the heads are off)
    for (what, park_after, due_in_ms) in [
        ("nothing waits", "10s", None),
        ("all heads parked", "10s", Some(300_000)),
        ("all heads held", "30m", Some(300_000)),
    ] {
        let cluster = shared();
        let delay_topic = unique("delay");
        cluster.admin().create_topic(&delay_topic, 18);
        cluster.admin().create_topic(&format!("{delay_topic}_dlq"), 1);
        if let Some(due_in_ms) = due_in_ms {
            load(&delay_topic, due_in_ms);
        }
        let levels: Vec<String> = (1..=18).map(|number| format!("{}m", 20 * number)).collect();
        let daemon = DaemonConfig::new(&cluster.client(), &delay_topic)
            .set("log.filter", "warn")
            .set("delay.levels", &levels.join(","))
            .set("delay.park_after", park_after)
            .start_ready();
        if due_in_ms.is_some() {
            heads_known(&daemon);
        }
        std::thread::sleep(Duration::from_secs(3));
        let (before, started) = (cpu_ticks(daemon.pid()), Instant::now());
        std::thread::sleep(WATCHED);
        let ticks = cpu_ticks(daemon.pid()) - before;
        let share = ticks as f64 / 100.0 / started.elapsed().as_secs_f64() * 100.0;
        let megabytes = daemon.resident_bytes() as f64 / 1e6;
        println!("{what:<32} {megabytes:>10.1} {share:>10.2}");
        daemon.stop(Duration::from_secs(60));
    }
}

fn load(delay_topic: &str, due_in_ms: i64) {
    let producer = shared().producer();
    let value = [b'x'; 100];
    for partition in 0..18 {
        let delay_ms = 20 * 60_000 * (i64::from(partition) + 1);
        let timestamp_ms = now_ms() + due_in_ms - delay_ms;
        let records: Vec<Record> = (0..RECORDS_PER_LEVEL)
            .map(|_| Record::new(value).partition(partition).timestamp(timestamp_ms).to("nowhere"))
            .collect();
        producer.send_all(delay_topic, &records);
    }
}

/// Waits until every level has read its head.
fn heads_known(daemon: &Daemon) {
    eventually(Duration::from_secs(60), || {
        let read = daemon.metric("kafka_delay_records_consumed_total", &[]).unwrap_or(0.0);
        if read >= 18.0 { Ok(()) } else { Err(format!("{read} heads read")) }
    });
}

/// User and system time of a process, in hundredths of a second.
fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
