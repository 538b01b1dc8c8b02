//! Log lines on standard error, as text or JSON.
//!
//! WARN means that nothing was lost, ERROR that someone must act. Both are counted, and a line that
//! is the same as one printed within the repeat window is counted instead of printed; when the
//! window ends, one line says how often. An error is never taken for another one: all its fields
//! count in the comparison.

mod lines;
mod repeats;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

pub use self::lines::LogFlusher;

use self::lines::{Shared, Sink};
use crate::metrics::Severity;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One line of text each.
    Text,
    /// One JSON object a line.
    Json,
}

/// What to log and how.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// A level, or a list of them by module: `info,kafka_delay::worker=debug`.
    pub filter: String,
    /// How lines are written.
    pub format: LogFormat,
    /// Within this time a repeated line is counted and not printed; zero prints all.
    pub repeat_window: Duration,
}

/// Reads the wall clock, in milliseconds of Unix time.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Is told of each warning and error.
type LineObserver = Box<dyn Fn(Severity) + Send + Sync>;

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A filter without any directive.
    #[error("the log filter is empty; write a level such as `info`, or `off`")]
    EmptyFilter,
    /// A word that is no level. It would be taken for a module, and silence all others.
    #[error(
        "`{0}` is no log level (error, warn, info, debug, trace, off); for a module, write `{0}=debug`"
    )]
    NoLevel(String),
    /// Anything else that the parser refuses.
    #[error("`{filter}` is no log filter: {error}; write a level, or `info,module=debug`")]
    BadFilter {
        /// The filter as given.
        filter: String,
        /// What the parser says.
        error: String,
    },
    /// A logger was set up before.
    #[error("a logger is already set up: {0}")]
    AlreadySet(String),
}

/// Checks a filter as the configuration has it.
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(filter).map(drop)
}

/// Sets up logging of the process on standard error. `on_line` is called for each warning and
/// error that the filter lets through, repetitions included.
pub fn init(
    options: &LogOptions,
    clock: WallClock,
    on_line: impl Fn(Severity) + Send + Sync + 'static,
) -> Result<LogFlusher, LogError> {
    let terminal = io::stderr().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let sink = Sink {
        writer: io::stderr,
        json: match options.format {
            LogFormat::Auto => !terminal,
            LogFormat::Text => false,
            LogFormat::Json => true,
        },
        ansi: terminal && !plain,
    };
    let (subscriber, flusher) = build(options, sink, clock, Box::new(on_line))?;
    subscriber.try_init().map_err(|error| LogError::AlreadySet(error.to_string()))?;
    Ok(flusher)
}

fn build<W>(
    options: &LogOptions,
    sink: Sink<W>,
    clock: WallClock,
    on_line: LineObserver,
) -> Result<(impl Subscriber + Send + Sync + use<W>, LogFlusher), LogError>
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let filter = parse_filter(&options.filter)?;
    let shared = Shared::new(options.repeat_window, sink.json, clock);
    let flusher = shared.flusher(sink.writer.clone());
    let counter = Counter { on_line };
    let subscriber = Registry::default().with(filter).with(counter).with(shared.layer(sink));
    Ok((subscriber, flusher))
}

fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    if filter.trim().is_empty() {
        return Err(LogError::EmptyFilter);
    }
    let words = filter.split(',').map(str::trim).filter(|word| !word.is_empty());
    let mut bare = words.filter(|word| !word.contains(['=', '[']));
    if let Some(word) = bare.find(|word| word.parse::<LevelFilter>().is_err()) {
        return Err(LogError::NoLevel(word.to_owned()));
    }
    EnvFilter::builder().parse(filter).map_err(|error| LogError::BadFilter {
        filter: filter.to_owned(),
        error: error.to_string(),
    })
}

/// Counts warnings and errors.
struct Counter {
    on_line: LineObserver,
}

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        match *event.metadata().level() {
            Level::ERROR => (self.on_line)(Severity::Error),
            Level::WARN => (self.on_line)(Severity::Warn),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
