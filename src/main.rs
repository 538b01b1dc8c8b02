//! The `kafka-delay` program. See `kafka_delay::cli` for its commands.

fn main() {
    kafka_delay::cli::run()
}
