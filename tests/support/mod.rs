//! Support for tests that run against a real Apache Kafka, without containers.
//!
//! A test crate takes it in with `#[path = "../support/mod.rs"] mod support;`. It gives
//!
//! - [`shared`]: one broker for the whole test process, for tests that do not disturb it, each with
//!   topics of its own ([`unique`] names);
//! - [`Options`] → [`Cluster`]: one or three brokers of the test's own, to kill, stop and restart,
//!   or with SCRAM users and access control lists. They cost memory and processor time, so starting
//!   one takes a permit ([`heavy`]), and few are given out at once;
//! - `tls`, `token`: certificates and signed tokens, for brokers with [`Options::listener`];
//! - [`Client`], and from it [`Admin`], [`Producer`], [`Reader`]: what a test does to a cluster;
//! - [`DaemonConfig`] → [`Daemon`]: the compiled `kafka-delay run` as a child process;
//! - [`Stage`], [`Ledger`], [`Flow`]: topics for a daemon, records sent through them, and what
//!   became of each: lost, early, duplicated, out of order; for large numbers [`Watch`] reads on a
//!   thread of its own, and [`Stalls`] says for how long nothing came;
//! - [`Crew`]: daemons under a supervisor; [`Pulse`]: a bare producer to compare with;
//! - [`eventually`]: the only way to wait. A test never sleeps and hopes.
//!
//! How it works: the first process that needs a broker fetches the jars with Maven into
//! `target/kafka/<version>`, where they stay (`java.rs`); the version is `KAFKA_VERSION` in the
//! environment. Every broker and daemon is a child
//! process that the kernel ends with the test process, however that ends (`process.rs`). Data and
//! logs are under `target/tmp/kafka-runs`: those of a failed test stay until the next run, and
//! their last lines are printed with the failure. Java or Maven missing fails the test; nothing is
//! skipped.
//!
//! Any of it may run in many threads and in many test processes at once.

#![allow(dead_code, reason = "each test crate uses a part of the support library")]
#![allow(unused_imports, reason = "each test crate uses a part of the support library")]
#![allow(unreachable_pub, reason = "the library is included as a private module")]

mod acl;
mod admin;
mod client;
mod cluster;
mod crew;
mod daemon;
mod frozen;
mod headers;
mod http;
pub mod java;
mod ledger;
mod node;
mod permit;
mod ports;
mod process;
mod producer;
mod pulse;
mod reader;
mod record;
mod stage;
mod stall;
pub mod tls;
pub mod token;
mod wait;
mod watch;
mod workspace;

pub use acl::{Acl, Operation, Resource};
pub use admin::{Admin, Group};
pub use client::Client;
pub use cluster::{Cluster, Options, shared};
pub use crew::Crew;
pub use daemon::{Daemon, DaemonConfig};
pub use frozen::FrozenThread;
pub use http::{http_get, metric};
pub use ledger::{Flow, Ledger, Repeat, Sent, Verdict};
pub use node::Node;
pub use permit::{Permit, heavy};
pub use process::Process;
pub use producer::Producer;
pub use pulse::{Pulse, Silence};
pub use reader::Reader;
pub use record::{Header, Record, Seen};
pub use stage::Stage;
pub use stall::{Fault, Stalls};
pub use wait::{eventually, now_ms, unique};
pub use watch::{Arrival, Watch};
pub use workspace::{new_dir, target_dir};
