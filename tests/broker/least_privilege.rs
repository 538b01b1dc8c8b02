//! The access control table of docs/operations.md: what it grants is enough, and each grant that is
//! missing is told with its resource and operation.

use std::path::Path;

use crate::rig::{PATIENCE, Rig, overdue, texts, wait_log};
use crate::secure::{secure, text};
use crate::support::{Acl, Operation, Record, Resource, eventually, unique};

/// One grant: a row of the table and one of its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    resource: String,
    operation: String,
}

/// The table's grants for a daemon with the default delivery.
fn documented() -> Vec<Grant> {
    all_documented().into_iter().filter(|grant| !is_transactional(grant)).collect()
}

fn is_transactional(grant: &Grant) -> bool {
    grant.resource.starts_with("transactional id")
}

/// All of the table's grants.
fn all_documented() -> Vec<Grant> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let document = std::fs::read_to_string(document).unwrap();
    let section = document.split("\n## ").find(|part| part.starts_with("Access control\n"));
    let table = section.unwrap().lines().skip_while(|line| !line.starts_with("| Resource"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let mut grants = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for operation in cells[2].split(", ") {
            grants.push(Grant { resource: cells[1].to_owned(), operation: operation.to_owned() });
        }
    }
    grants
}

/// A daemon of a user of its own, and the prefix of the destinations it may write to.
struct Case {
    rig: Rig,
    user: String,
    destinations: String,
}

impl Case {
    fn new() -> Self {
        let user = unique("least");
        let identity = secure().certificate(&user);
        let rig = secure()
            .rig("MUTUAL", "1s")
            .set("kafka.tls.cert_file", text(&identity.certificate_file()))
            .set("kafka.tls.key_file", text(&identity.key_file(None)))
            .set("forward.destination_grace", "1s");
        Self { rig, user: format!("CN={user}"), destinations: unique("open") }
    }

    fn acl(&self, grant: &Grant) -> Acl {
        let resource = match grant.resource.as_str() {
            "topic `delay_topic`" => Resource::Topic(self.rig.delay.clone()),
            "topic `delay_topic_dlq`" => Resource::Topic(self.rig.dlq.clone()),
            "group `kafka-delay`" => Resource::Group(self.rig.config.group.clone()),
            "each destination, by name or prefix" => {
                Resource::TopicPrefix(self.destinations.clone())
            }
            "transactional id `forward.transactional_id`" => {
                Resource::TransactionalId(self.user.clone())
            }
            other => panic!("docs/operations.md grants something on {other:?}; what is it?"),
        };
        let operation = match grant.operation.as_str() {
            "Read" => Operation::RD_KAFKA_ACL_OPERATION_READ,
            "Write" => Operation::RD_KAFKA_ACL_OPERATION_WRITE,
            "Describe" => Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE,
            "DescribeConfigs" => Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS,
            other => panic!("docs/operations.md grants {other:?}; what is it?"),
        };
        Acl::allow(&self.user, operation, resource)
    }

    fn grant<'a>(&self, grants: impl IntoIterator<Item = &'a Grant>) {
        let acls: Vec<Acl> = grants.into_iter().map(|grant| self.acl(grant)).collect();
        self.rig.admin.add_acls(&acls);
    }

    /// With the other delivery guarantee.
    fn exactly_once(mut self) -> Self {
        self.rig = self
            .rig
            .set("forward.guarantee", "exactly_once")
            .set("forward.transactional_id", &self.user);
        self
    }

    fn destination(&self) -> String {
        let topic = format!("{}-{}", self.destinations, unique("destination"));
        self.rig.admin.create_topic(&topic, 1);
        topic
    }
}

/// The documented grants without one, and what is missing.
fn without(resource: &str, operation: &str) -> (Case, Vec<Grant>, Grant) {
    let missing = Grant { resource: resource.to_owned(), operation: operation.to_owned() };
    let case = Case::new();
    let others: Vec<Grant> = documented().into_iter().filter(|grant| *grant != missing).collect();
    assert_eq!(others.len() + 1, documented().len(), "the table has no {missing:?}");
    case.grant(&others);
    (case, others, missing)
}

#[test]
fn the_documented_rights_are_enough() {
    let case = Case::new();
    case.grant(&documented());
    let destination = case.destination();
    case.rig.send(&[overdue("x", &destination), overdue("bad", "no topic name")]);
    let daemon = case.rig.config.start_ready();
    assert_eq!(texts(&case.rig.exactly(&destination, 1)), ["x"]);
    assert_eq!(texts(&case.rig.exactly(&case.rig.dlq, 1)), ["bad"]);
    case.rig.wait_committed();
    eventually(PATIENCE, || {
        let (_, status) = daemon.http_get("/status")?;
        let shown = status.contains("\"committed\":2") || status.contains("\"committed\": 2");
        if shown { Ok(()) } else { Err(status) }
    });
    let output = case.rig.config.run(&["topics", "check"]);
    assert!(output.status.success(), "{output:?}");
    let output = case.rig.config.run(&["healthcheck"]);
    assert!(!format!("{output:?}").contains("grant"), "{output:?}");
    daemon.stop(PATIENCE);
    for word in ["grant", "uthorization", "ERROR"] {
        assert!(!daemon.log().contains(word), "{word} in {}", daemon.log());
    }
}

#[test]
fn the_documented_rights_are_enough_for_exactly_once() {
    let case = Case::new().exactly_once();
    case.grant(&all_documented());
    let destination = case.destination();
    case.rig.send(&[overdue("x", &destination), overdue("bad", "no topic name")]);
    let daemon = case.rig.config.start_ready();
    assert_eq!(texts(&case.rig.exactly(&destination, 1)), ["x"]);
    assert_eq!(texts(&case.rig.exactly(&case.rig.dlq, 1)), ["bad"]);
    case.rig.wait_committed();
    daemon.stop(PATIENCE);
}

#[test]
fn without_write_on_the_transactional_id_an_exactly_once_daemon_ends_and_names_it() {
    let case = Case::new().exactly_once();
    case.grant(&documented());
    let daemon = case.rig.config.start();
    assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(77), "{}", daemon.log());
    let log = daemon.log();
    let said = log.lines().any(|line| line.contains("transactional_id") && line.contains("Write"));
    assert!(said, "{log}");
}

// The broker refuses to add the destination to the transaction, and librdkafka does not say which
// destination that was; others in the same transaction must get through all the same.
#[test]
fn without_write_on_one_of_several_destinations_exactly_once_forwards_to_the_others() {
    let case = Case::new().exactly_once();
    case.grant(&all_documented());
    let (open, closed) = (case.destination(), unique("closed"));
    case.rig.admin.create_topic(&closed, 1);
    // Describe, so that the topic is known: the refusal then comes with the transaction alone.
    let described = Resource::Topic(closed.clone());
    let describe = Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE;
    case.rig.admin.add_acls(&[Acl::allow(&case.user, describe, described)]);
    let records: Vec<Record> = (0..20)
        .map(|number| overdue(number.to_string(), if number % 4 == 1 { &closed } else { &open }))
        .collect();
    case.rig.send(&records);
    let daemon = case.rig.config.start_ready();
    case.rig.exactly(&open, 15);
    let dead = case.rig.exactly(&case.rig.dlq, 5);
    for record in &dead {
        assert_eq!(record.header_text("kafka_delay_dlq_reason"), "unauthorized");
    }
    case.rig.wait_committed();
    daemon.stop(PATIENCE);
}

/// The start ends with `code`; the last line names the topic and the operation.
#[track_caller]
fn assert_ends(case: &Case, code: i32, topic: &str, operation: &str) {
    let daemon = case.rig.config.start();
    assert_eq!(daemon.wait_exit(PATIENCE).code(), Some(code), "{}", daemon.log());
    let log = daemon.log();
    let said = log.lines().any(|line| line.contains(topic) && line.contains(operation));
    assert!(said, "{topic} with {operation} is missing in {log}");
    let check = case.rig.config.run(&["topics", "check"]);
    assert!(!check.status.success(), "{check:?}");
    assert!(format!("{check:?}").contains(operation), "{check:?}");
}

#[test]
fn without_read_on_the_delay_topic_the_start_ends_and_names_it() {
    let (case, ..) = without("topic `delay_topic`", "Read");
    assert_ends(&case, 77, &case.rig.delay, "Read");
}

#[test]
fn without_write_on_the_dead_letter_topic_the_start_ends_and_names_it() {
    let (case, ..) = without("topic `delay_topic_dlq`", "Write");
    assert_ends(&case, 78, &case.rig.dlq, "Write");
}

#[test]
fn without_describe_configs_the_daemon_works_and_warns() {
    for (resource, is_dead_letter) in
        [("topic `delay_topic`", false), ("topic `delay_topic_dlq`", true)]
    {
        let (case, ..) = without(resource, "DescribeConfigs");
        let destination = case.destination();
        case.rig.send(&[overdue("x", &destination)]);
        let daemon = case.rig.config.start_ready();
        assert_eq!(texts(&case.rig.exactly(&destination, 1)), ["x"]);
        let topic = if is_dead_letter { &case.rig.dlq } else { &case.rig.delay };
        let log = daemon.log();
        let said = |line: &str| {
            line.contains("grant DescribeConfigs") && line.contains(&format!("topic={topic}"))
        };
        assert!(log.lines().any(said), "{log}");
    }
}

#[test]
fn without_read_on_the_group_the_daemon_is_not_ready_until_it_is_granted() {
    let (case, _, missing) = without("group `kafka-delay`", "Read");
    let destination = case.destination();
    case.rig.send(&[overdue("x", &destination)]);
    let daemon = case.rig.config.start();
    wait_log(&daemon, "grant the daemon's user Read on the group of source.group_id");
    assert_ne!(daemon.http_get("/readyz").map(|(status, _)| status), Ok(200));
    case.grant([&missing]);
    daemon.wait_ready();
    assert_eq!(texts(&case.rig.exactly(&destination, 1)), ["x"]);
}

#[test]
fn without_write_on_a_destination_its_records_are_dead_lettered_and_the_log_names_it() {
    let (case, ..) = without("each destination, by name or prefix", "Write");
    let destination = case.destination();
    case.rig.send(&[overdue("x", &destination)]);
    let daemon = case.rig.config.start_ready();
    let dead = case.rig.exactly(&case.rig.dlq, 1);
    let detail = dead[0].header_text("kafka_delay_dlq_detail");
    assert!(detail.contains(&destination) && detail.contains("Write"), "{detail}");
    let log = daemon.log();
    let said = |line: &str| line.contains("grant it Write") && line.contains(&destination);
    assert!(log.lines().any(said), "{log}");
}

// The broker asks for each request anew, so a right may go, and come back, at any time.
#[test]
fn rights_taken_from_a_running_daemon_are_named_and_nothing_is_lost() {
    let case = Case::new();
    case.grant(&documented());
    let destination = case.destination();
    let daemon = case.rig.config.clone().set("forward.destination_grace", "90s").start_ready();
    let mut forwarded = 0;
    for (resource, operation, said) in [
        ("each destination, by name or prefix", "Write", "grant it Write"),
        ("topic `delay_topic`", "Read", "grant the daemon's user Read on source.topic"),
        ("group `kafka-delay`", "Read", "Read on the group of source.group_id"),
    ] {
        let grant = Grant { resource: resource.to_owned(), operation: operation.to_owned() };
        case.rig.admin.remove_acls(&[case.acl(&grant)]);
        case.rig.send(&[overdue(said, &destination)]);
        wait_log(&daemon, said);
        assert!(daemon.is_running(), "{}", daemon.log());
        case.grant([&grant]);
        forwarded += 1;
        let mut reader = case.rig.client.reader(&destination);
        reader.until(forwarded, PATIENCE);
        case.rig.wait_committed();
    }
    daemon.stop(PATIENCE);
}
