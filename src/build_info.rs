//! What this binary was built from, for `--version`, `/version` and `kafka_delay_build_info`.

use serde::Serialize;

/// Version, revision, compiler and client library of this binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildInfo {
    /// Version of the crate.
    pub version: &'static str,
    /// Commit it was built from, or "unknown".
    pub revision: &'static str,
    /// Version of the compiler.
    pub rustc: &'static str,
    /// Version of librdkafka, as the linked library reports it.
    pub librdkafka: String,
}

impl BuildInfo {
    /// The build's own facts, with the version that librdkafka reports at run time.
    pub fn new(librdkafka: String) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            revision: env!("KAFKA_DELAY_REVISION"),
            rustc: env!("KAFKA_DELAY_RUSTC"),
            librdkafka,
        }
    }
}
