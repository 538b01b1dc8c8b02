//! One broker or three, to use or to break.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataPartition;

use super::java::START_DEADLINE;
use super::node::Jvm;
use super::permit::Permit;
use super::wait::eventually;
use super::{Admin, Client, Node, Producer, Reader, workspace};

/// The user that may do everything, in clusters with users.
const SUPER_USER: &str = "admin";
const SUPER_PASSWORD: &str = "admin-secret";

/// What kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Options {
    nodes: i32,
    jvm: Jvm,
    properties: Vec<(String, String)>,
    /// Name and protocol.
    listeners: Vec<(String, String)>,
    users: Vec<(String, String)>,
    with_users: bool,
}

impl Options {
    /// One broker.
    pub fn one_node() -> Self {
        let jvm = Jvm { heap: "256m".to_owned(), system: Vec::new() };
        let (properties, listeners, users) = (Vec::new(), Vec::new(), Vec::new());
        Self { nodes: 1, jvm, properties, listeners, users, with_users: false }
    }

    /// Three brokers; topics have three replicas, of which two must be in sync.
    pub fn three_nodes() -> Self {
        Self { nodes: 3, ..Self::one_node() }
    }

    /// A line of `server.properties`; it overrides the fixture's own.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Java heap of each broker, as in `-Xmx`; 256m if not set.
    pub fn heap(mut self, heap: &str) -> Self {
        heap.clone_into(&mut self.jvm.heap);
        self
    }

    /// A Java system property of each broker.
    pub fn system_property(mut self, key: &str, value: &str) -> Self {
        self.jvm.system.push(format!("{key}={value}"));
        self
    }

    /// A further listener for clients, with Kafka's name of its protocol (`SSL`, `SASL_SSL`, ...)
    /// and settings without their `listener.name.<name>.`. [`Cluster::listener`] has its address.
    pub fn listener(mut self, name: &str, protocol: &str, settings: &[(&str, &str)]) -> Self {
        self.listeners.push((name.to_owned(), protocol.to_owned()));
        for (key, value) in settings {
            let key = format!("listener.name.{}.{key}", name.to_lowercase());
            self.properties.push((key, (*value).to_owned()));
        }
        self
    }

    /// Clients must log in (SCRAM-SHA-512), and may do nothing that no [`Acl`](super::Acl) allows.
    /// The fixture itself is a super user.
    pub fn users(mut self, users: &[(&str, &str)]) -> Self {
        self.with_users = true;
        let users = users.iter().map(|(name, password)| (name.to_string(), password.to_string()));
        self.users.extend(users);
        self
    }

    /// Starts the cluster and waits until it is ready.
    #[track_caller]
    pub fn start(self, _permit: &Permit) -> Cluster {
        Cluster::start(self)
    }

    fn node_properties(&self, node: &Node, voters: &str) -> Vec<(String, String)> {
        let replicas = self.nodes.to_string();
        let in_sync = if self.nodes == 1 { "1" } else { "2" }.to_owned();
        let protocol = if self.with_users { "SASL_PLAINTEXT" } else { "PLAINTEXT" };
        let mut listeners =
            format!("CLIENT://{},CONTROLLER://{}", node.address(), node.controller_address());
        let mut protocols = format!("CONTROLLER:PLAINTEXT,CLIENT:{protocol}");
        for (index, (name, protocol)) in self.listeners.iter().enumerate() {
            listeners += &format!(",{name}://{}", node.further_address(index));
            protocols += &format!(",{name}:{protocol}");
        }
        let mut properties = vec![
            ("node.id", node.id.to_string()),
            ("process.roles", "broker,controller".to_owned()),
            ("controller.quorum.voters", voters.to_owned()),
            ("listeners", listeners),
            ("controller.listener.names", "CONTROLLER".to_owned()),
            ("inter.broker.listener.name", "CLIENT".to_owned()),
            ("listener.security.protocol.map", protocols),
            ("default.replication.factor", replicas.clone()),
            ("offsets.topic.replication.factor", replicas.clone()),
            ("transaction.state.log.replication.factor", replicas),
            ("transaction.state.log.min.isr", in_sync.clone()),
            ("min.insync.replicas", in_sync),
            ("auto.create.topics.enable", "false".to_owned()),
            ("group.initial.rebalance.delay.ms", "0".to_owned()),
        ];
        properties.extend(SMALL.map(|(key, value)| (key, value.to_owned())));
        if self.with_users {
            let login = "org.apache.kafka.common.security.scram.ScramLoginModule required";
            let login = format!("{login} username={SUPER_USER} password={SUPER_PASSWORD};");
            properties.extend([
                ("sasl.enabled.mechanisms", "SCRAM-SHA-512".to_owned()),
                ("sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512".to_owned()),
                ("listener.name.client.scram-sha-512.sasl.jaas.config", login),
                ("authorizer.class.name", AUTHORIZER.to_owned()),
                // Controllers talk among themselves without a login.
                ("super.users", format!("User:{SUPER_USER};User:ANONYMOUS")),
            ]);
        }
        let mut properties: Vec<(String, String)> =
            properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        // In a properties file the last line of a key counts.
        properties.extend(self.properties.iter().cloned());
        properties
    }

    fn format_arguments(&self) -> Vec<String> {
        if !self.with_users {
            return Vec::new();
        }
        let mut users = vec![(SUPER_USER.to_owned(), SUPER_PASSWORD.to_owned())];
        users.extend(self.users.iter().cloned());
        let scram = |(name, password)| {
            ["--add-scram".to_owned(), format!("SCRAM-SHA-512=[name={name},password={password}]")]
        };
        users.into_iter().flat_map(scram).collect()
    }
}

/// Settings that make a broker small and quick. The defaults are for large machines.
const SMALL: [(&str, &str); 10] = [
    ("offsets.topic.num.partitions", "4"),
    ("transaction.state.log.num.partitions", "4"),
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("background.threads", "2"),
    ("log.cleaner.dedupe.buffer.size", "4194304"),
    ("log.index.size.max.bytes", "1048576"),
    // A killed broker holds up its partitions until its session ends: 9 s by default.
    ("broker.session.timeout.ms", "4000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("controlled.shutdown.enable", "true"),
];

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// A running cluster; it ends and its data are removed when it is dropped.
pub struct Cluster {
    options: Options,
    nodes: Vec<Node>,
    dir: PathBuf,
}

impl Cluster {
    #[track_caller]
    fn start(options: Options) -> Self {
        let dir = workspace::new_dir("cluster");
        let mut nodes = Vec::new();
        for id in 1..=options.nodes {
            let node_dir = dir.join(format!("node-{id}"));
            fs::create_dir_all(&node_dir).expect("target/tmp is writable");
            nodes.push(Node::new(id, node_dir, options.jvm.clone(), options.listeners.len()));
        }
        let voter = |node: &Node| format!("{}@{}", node.id, node.controller_address());
        let voters = nodes.iter().map(voter).collect::<Vec<_>>().join(",");
        for node in &nodes {
            node.prepare(&options.node_properties(node, &voters), &options.format_arguments());
        }
        let cluster = Self { options, nodes, dir };
        cluster.nodes.iter().for_each(Node::start);
        cluster.wait_ready();
        cluster
    }

    /// Addresses of all nodes.
    pub fn bootstrap(&self) -> String {
        self.nodes.iter().map(Node::address).collect::<Vec<_>>().join(",")
    }

    /// Addresses of all nodes at one of [`Options::listener`].
    #[track_caller]
    pub fn listener(&self, name: &str) -> String {
        let index = self.options.listeners.iter().position(|(known, _)| known == name);
        let index = index.unwrap_or_else(|| panic!("the cluster has no listener {name}"));
        self.nodes.iter().map(|node| node.further_address(index)).collect::<Vec<_>>().join(",")
    }

    /// A node, from 0; to kill, stop, suspend and start it.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of the node that leads the partition.
    #[track_caller]
    pub fn leader_of(&self, topic: &str, partition: i32) -> usize {
        let leader = self.admin().leader(topic, partition);
        usize::try_from(leader - 1).expect("node ids are from 1")
    }

    /// Waits until every started node is registered and every partition has a leader.
    #[track_caller]
    pub fn wait_ready(&self) {
        let probe: BaseConsumer = self.client().config().create().expect("valid settings");
        eventually(START_DEADLINE, || {
            self.nodes.iter().for_each(Node::check_alive);
            let metadata = probe
                .fetch_metadata(None, Duration::from_secs(2))
                .map_err(|error| format!("{error}"))?;
            let known: Vec<i32> = metadata.brokers().iter().map(|broker| broker.id()).collect();
            let started = self.nodes.iter().filter(|node| node.is_started());
            if let Some(missing) = started.map(|node| node.id).find(|id| !known.contains(id)) {
                return Err(format!("broker {missing} is not registered; known: {known:?}"));
            }
            for topic in metadata.topics() {
                if let Some(partition) = topic.partitions().iter().find(|p| p.leader() < 0) {
                    return Err(format!("{}-{} has no leader", topic.name(), partition.id()));
                }
            }
            Ok(())
        });
    }

    /// Waits until every replica of every partition is in sync.
    #[track_caller]
    pub fn wait_in_sync(&self) {
        let probe: BaseConsumer = self.client().config().create().expect("valid settings");
        eventually(START_DEADLINE, || {
            let metadata = probe
                .fetch_metadata(None, Duration::from_secs(2))
                .map_err(|error| format!("{error}"))?;
            for topic in metadata.topics() {
                let behind = |p: &&MetadataPartition| p.isr().len() < p.replicas().len();
                if let Some(partition) = topic.partitions().iter().find(behind) {
                    return Err(format!("{}-{} is not in sync", topic.name(), partition.id()));
                }
            }
            Ok(())
        });
    }

    /// Starts a node that was killed or terminated, and waits until it takes part.
    #[track_caller]
    pub fn restart(&self, index: usize) {
        self.nodes[index].start();
        self.wait_ready();
    }

    /// Client settings; those of the super user in a cluster with users.
    pub fn client(&self) -> Client {
        let credentials =
            self.options.with_users.then(|| (SUPER_USER.to_owned(), SUPER_PASSWORD.to_owned()));
        Client { bootstrap: self.bootstrap(), credentials }
    }

    /// Client settings of one of [`Options::users`].
    #[track_caller]
    pub fn client_as(&self, user: &str) -> Client {
        let credentials = self.options.users.iter().find(|(name, _)| name == user).cloned();
        assert!(credentials.is_some(), "the cluster has no user {user}");
        Client { bootstrap: self.bootstrap(), credentials }
    }

    /// Short for `client().admin()`.
    pub fn admin(&self) -> Admin {
        self.client().admin()
    }

    /// Short for `client().producer()`.
    pub fn producer(&self) -> Producer {
        self.client().producer()
    }

    /// Short for `client().reader(topic)`.
    pub fn reader(&self, topic: &str) -> Reader {
        self.client().reader(topic)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The broker of this test process, started by the first test that asks. Do not disturb it; its
/// topics and groups are everybody's, so give yours [`unique`](super::unique) names.
#[track_caller]
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(Options::one_node().heap("384m")))
}
