//! How lines look, and which of them are left out.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{self, FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::WallClock;
use super::repeats::{Line, Repeats, Summary};

/// Tells how often lines were repeated; otherwise that would wait for the next line.
#[derive(Clone)]
pub struct LogFlusher {
    write: Arc<dyn Fn(Expire) + Send + Sync>,
}

/// Which windows to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expire {
    Over,
    All,
}

impl LogFlusher {
    /// Prints what was counted in windows that are over. To be called every few seconds.
    pub fn tick(&self) {
        (self.write)(Expire::Over);
    }

    /// Prints all that was counted. To be called before the process ends.
    pub fn finish(&self) {
        (self.write)(Expire::All);
    }
}

/// Where lines go and what they look like there.
pub(super) struct Sink<W> {
    pub(super) writer: W,
    pub(super) json: bool,
    pub(super) ansi: bool,
}

/// What the layer and the flusher have in common.
#[derive(Clone)]
pub(super) struct Shared {
    repeats: Arc<Mutex<Repeats>>,
    window: Duration,
    json: bool,
    clock: WallClock,
}

impl Shared {
    pub(super) fn new(window: Duration, json: bool, clock: WallClock) -> Self {
        let window_ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        Self { repeats: Arc::new(Mutex::new(Repeats::new(window_ms))), window, json, clock }
    }

    /// The layer that writes to `sink`.
    pub(super) fn layer<S, W>(&self, sink: Sink<W>) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let timer = Timer(Arc::clone(&self.clock));
        let layer = tracing_subscriber::fmt::layer();
        if sink.json {
            let inner = format::format().json().with_timer(timer);
            let collapsing = Collapsing { inner, shared: self.clone() };
            let layer = layer.event_format(collapsing).fmt_fields(JsonFields::new());
            Box::new(layer.with_ansi(false).with_writer(sink.writer))
        } else {
            let inner = format::format().with_timer(timer);
            let collapsing = Collapsing { inner, shared: self.clone() };
            Box::new(layer.event_format(collapsing).with_ansi(sink.ansi).with_writer(sink.writer))
        }
    }

    /// Writes the same lines to the same place without an event.
    pub(super) fn flusher<W>(&self, writer: W) -> LogFlusher
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let shared = self.clone();
        let write = move |expire| {
            let now_ms = (shared.clock)();
            let mut repeats = shared.repeats.lock().unwrap_or_else(PoisonError::into_inner);
            let summaries = match expire {
                Expire::Over => repeats.expire(now_ms),
                Expire::All => repeats.expire_all(),
            };
            drop(repeats);
            let lines = summaries.iter().map(|summary| shared.summary_line(now_ms, summary));
            // A log that cannot be written has nowhere to say so.
            let _ = writer.make_writer().write_all(lines.collect::<String>().as_bytes());
        };
        LogFlusher { write: Arc::new(write) }
    }

    /// A whole line, its end included.
    fn summary_line(&self, now_ms: i64, summary: &Summary) -> String {
        let Summary { level, target, text, repeated, similar } = summary;
        let window = humantime::format_duration(self.window);
        let timestamp = timestamp(now_ms);
        let message = match similar {
            false => format!("repeated {repeated} more times in {window}: {text}"),
            true => format!("{repeated} more of this kind in {window}, such as: {text}"),
        };
        if self.json {
            let fields = serde_json::json!({ "message": message, "repeated": repeated });
            let level = level.as_str();
            let line = serde_json::json!({
                "timestamp": timestamp, "level": level, "fields": fields, "target": target,
            });
            format!("{line}\n")
        } else {
            format!("{timestamp} {level:>5} {target}: {message}\n")
        }
    }
}

/// A format that leaves out repetitions.
struct Collapsing<F> {
    inner: F,
    shared: Shared,
}

impl<S, N, F> FormatEvent<S, N> for Collapsing<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now_ms = (self.shared.clock)();
        let line = Line::of(event);
        let mut repeats = self.shared.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        let summaries = repeats.expire(now_ms);
        let print = line.is_none_or(|line| repeats.admit(now_ms, line));
        drop(repeats);
        for summary in &summaries {
            writer.write_str(&self.shared.summary_line(now_ms, summary))?;
        }
        if print { self.inner.format_event(context, writer, event) } else { Ok(()) }
    }
}

/// Writes the time of a line.
struct Timer(WallClock);

impl FormatTime for Timer {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&timestamp((self.0)()))
    }
}

/// RFC 3339 in UTC with milliseconds.
fn timestamp(now_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(now_ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => now_ms.to_string(),
    }
}
