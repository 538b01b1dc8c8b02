//! The types a key can have, and how a text from the environment or a flag becomes such a value.

use std::fmt;

use toml::Value;

/// The type of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(Vec<&'static str>),
    /// A span of time such as `"1h 30m"`.
    Duration,
    /// Several spans of time.
    Durations,
    /// A whole number.
    Integer,
    /// Several texts.
    List,
    /// librdkafka properties, handed on.
    Properties,
    /// A number of bytes such as `"64KiB"`.
    Size,
    /// Any text.
    Text,
}

impl Kind {
    /// How a value of this kind is written in TOML, for messages.
    pub(super) fn in_toml(&self) -> &'static str {
        match self {
            Self::Boolean => "true or false (without quotes)",
            Self::Choice(_) | Self::Text => "a string in quotes",
            Self::Duration => "a duration in quotes, such as \"15s\"",
            Self::Durations => "a list of durations, such as [\"1s\", \"5m\"]",
            Self::Integer => "a whole number (without quotes)",
            Self::List => "a list of strings, such as [\"a\", \"b\"]",
            Self::Properties => "a table of strings",
            Self::Size => "a size in quotes, such as \"64KiB\"",
        }
    }

    /// Reads `text` as a value of this kind; lists are separated by commas.
    pub(super) fn parse(&self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        match self {
            Self::Boolean => match trimmed {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => Err(format!("`{text}` is neither true nor false")),
            },
            Self::Integer => match trimmed.parse() {
                Ok(number) => Ok(Value::Integer(number)),
                Err(_) => Err(format!("`{text}` is not a whole number")),
            },
            Self::Durations | Self::List if trimmed.is_empty() => Ok(Value::Array(Vec::new())),
            Self::Durations | Self::List => {
                let items = trimmed.split(',').map(|item| Value::String(item.trim().to_owned()));
                Ok(Value::Array(items.collect()))
            }
            Self::Choice(_) | Self::Duration | Self::Properties | Self::Size | Self::Text => {
                Ok(Value::String(text.to_owned()))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => formatter.write_str("boolean"),
            Self::Choice(words) => formatter.write_str(&words.join(" | ")),
            Self::Duration => formatter.write_str("duration"),
            Self::Durations => formatter.write_str("list of durations"),
            Self::Integer => formatter.write_str("integer"),
            Self::List => formatter.write_str("list of strings"),
            Self::Properties => formatter.write_str("properties"),
            Self::Size => formatter.write_str("size"),
            Self::Text => formatter.write_str("string"),
        }
    }
}

/// A closed set of words.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every word with its meaning.
    const ALL: &'static [(&'static str, Self)];

    /// The word for this value.
    fn name(self) -> &'static str {
        let entry = Self::ALL.iter().find(|(_, value)| *value == self);
        entry.expect("ALL lists every value").0
    }

    /// The value of `word`; the error lists the words.
    fn parse(word: &str) -> Result<Self, String> {
        match Self::ALL.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => Ok(*value),
            None => {
                let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
                Err(format!("`{word}` is none of {}", names.join(", ")))
            }
        }
    }
}
