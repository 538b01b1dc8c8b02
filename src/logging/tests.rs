//! Tests of formats and of collapsing repetitions.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tracing::{debug, error, info, warn};

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A logger on a clock that stands at 2026-01-01 until a test moves it.
struct Log {
    captured: Captured,
    now_ms: Arc<AtomicI64>,
    warnings: Arc<AtomicUsize>,
    errors: Arc<AtomicUsize>,
    flusher: LogFlusher,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Log {
    fn new(format: LogFormat) -> Self {
        let captured = Captured::default();
        let now_ms = Arc::new(AtomicI64::new(1_767_225_600_000));
        let warnings = Arc::new(AtomicUsize::new(0));
        let errors = Arc::new(AtomicUsize::new(0));
        let (clock_ms, warn_count, error_count) =
            (Arc::clone(&now_ms), Arc::clone(&warnings), Arc::clone(&errors));
        let clock: WallClock = Arc::new(move || clock_ms.load(Ordering::Relaxed));
        let options = LogOptions {
            filter: "info".to_owned(),
            format,
            repeat_window: Duration::from_secs(10),
        };
        let json = format == LogFormat::Json;
        let sink = Sink { writer: captured.clone(), json, ansi: false };
        let count = move |severity| {
            match severity {
                Severity::Warn => &warn_count,
                Severity::Error => &error_count,
            }
            .fetch_add(1, Ordering::Relaxed);
        };
        let (subscriber, flusher) = build(&options, sink, clock, Box::new(count)).unwrap();
        let _guard = tracing::subscriber::set_default(subscriber);
        Self { captured, now_ms, warnings, errors, flusher, _guard }
    }

    fn advance_ms(&self, by_ms: i64) {
        self.now_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

fn refuse(topic: &str, offset: i64) {
    warn!(topic, offset, "destination refuses records");
}

fn fail(partition: i32) {
    error!(partition, offset = 1, "level is halted");
}

#[test]
fn text_lines_have_time_level_target_message_and_fields() {
    let log = Log::new(LogFormat::Text);
    info!(level = 3, "assigned");
    debug!("not shown");
    assert_eq!(
        log.captured.take(),
        "2026-01-01T00:00:00.000Z  INFO kafka_delay::logging::tests: assigned level=3\n"
    );
}

// R24
#[test]
fn repeated_warnings_are_counted_and_told_with_the_next_line() {
    let log = Log::new(LogFormat::Text);
    for offset in 0..5 {
        refuse("orders", offset);
    }
    refuse("mail", 5);
    let text = log.captured.take();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("orders") && text.contains("mail"), "{text}");
    log.advance_ms(10_000);
    info!("something else");
    let text = log.captured.take();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    let told =
        "repeated 4 more times in 10s: destination refuses records topic=\"orders\" offset=0";
    assert!(lines[0].ends_with(told), "{text}");
    assert!(lines[0].contains(" WARN kafka_delay::logging::tests: "), "{text}");
    assert!(lines[1].ends_with("something else"), "{text}");
    assert_eq!(log.warnings.load(Ordering::Relaxed), 6, "repetitions are counted too");
}

#[test]
fn repeated_warnings_are_told_by_the_flusher_if_no_line_follows() {
    let log = Log::new(LogFormat::Text);
    refuse("orders", 0);
    refuse("orders", 1);
    log.captured.take();
    log.flusher.tick();
    assert_eq!(log.captured.take(), "");
    log.advance_ms(10_000);
    log.flusher.tick();
    assert!(log.captured.take().contains("repeated 1 more times"));
    refuse("orders", 2);
    refuse("orders", 3);
    log.captured.take();
    log.flusher.finish();
    assert!(log.captured.take().contains("repeated 1 more times"));
}

#[test]
fn errors_of_different_content_are_all_printed() {
    let log = Log::new(LogFormat::Text);
    for partition in 0..300 {
        fail(partition);
    }
    fail(0);
    let text = log.captured.take();
    assert_eq!(text.lines().count(), 300, "{text}");
    assert_eq!(log.errors.load(Ordering::Relaxed), 301);
    log.flusher.finish();
    assert!(log.captured.take().contains("ERROR"));
}

#[test]
fn json_lines_are_objects_summaries_included() {
    let log = Log::new(LogFormat::Json);
    refuse("evil\n\u{1b}[31m", 0);
    refuse("evil\n\u{1b}[31m", 1);
    log.advance_ms(10_000);
    info!(level = 3, "assigned");
    let text = log.captured.take();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    for line in &lines {
        assert_eq!(line["target"], "kafka_delay::logging::tests", "{line}");
        assert!(line["timestamp"].as_str().unwrap().starts_with("2026-01-01T00:00:"), "{line}");
    }
    assert_eq!(lines[0]["fields"]["topic"], "evil\n\u{1b}[31m");
    assert_eq!((&lines[1]["level"], &lines[1]["fields"]["repeated"]), (&"WARN".into(), &1.into()));
    assert_eq!(lines[2]["fields"]["level"], 3);
}

#[test]
fn bad_filters_are_refused_with_what_to_write() {
    for good in
        ["info", "off", "INFO", "info,kafka_delay::worker=debug", "warn,[lane{level=3}]=trace"]
    {
        check_filter(good).unwrap();
    }
    for (bad, needle) in [
        ("", "`info`"),
        (" ", "`info`"),
        ("inof", "`inof` is no log level"),
        ("info,kafka_delay", "`kafka_delay=debug`"),
        ("info,kafka_delay=loud", "is no log filter"),
    ] {
        let message = check_filter(bad).unwrap_err().to_string();
        assert!(message.contains(needle), "{bad}: {message}");
    }
}
