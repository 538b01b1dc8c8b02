//! The fixture itself: what the other tests rely on.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::support::{
    Acl, DaemonConfig, Options, Record, eventually, heavy, http_get, java, now_ms, shared, unique,
};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn records_round_trip_byte_for_byte() {
    let cluster = shared();
    let topic = unique("round-trip");
    cluster.admin().create_topic(&topic, 3);
    let now = now_ms();
    let records = [
        Record::new("plain").partition(0).timestamp(now - 5_000).key("k"),
        Record::tombstone().partition(1).timestamp(1),
        Record::new("").partition(2).timestamp(now).key(""),
        Record::new(b"\x00\xff\xfe\x00").partition(2).timestamp(now).key(b"\x80\x00").to("orders"),
        Record::new("headers")
            .partition(2)
            .timestamp(now)
            .header(b"\xff\xfe", b"\x00\x01")
            .header("twice", "1")
            .null_header("null")
            .header("twice", "2")
            .header("empty", "")
            .header("", "no name"),
    ];
    let places = cluster.producer().send_all(&topic, &records);
    assert_eq!(places, [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]);

    let mut seen = cluster.reader(&topic).read_all();
    seen.sort_by_key(|seen| (seen.partition, seen.offset));
    assert_eq!(seen.len(), records.len());
    for (seen, record) in seen.iter().zip(&records) {
        assert_eq!(Some(seen.partition), record.partition);
        assert_eq!(Some(seen.timestamp), record.timestamp);
        assert_eq!(seen.key, record.key);
        assert_eq!(seen.value, record.value);
        assert_eq!(seen.headers, record.headers);
        assert!(seen.seen_at >= now);
    }
    assert_eq!(seen[3].header_text("origin_topic"), "orders");
    assert_eq!(seen[4].header("twice"), Some(Some(&b"2"[..])));
    assert_eq!(seen[4].header("null"), Some(None));
    assert_eq!(seen[4].header("absent"), None);
}

#[test]
fn tens_of_thousands_of_records_are_sent_and_read_quickly() {
    let cluster = shared();
    let topic = unique("many");
    cluster.admin().create_topic(&topic, 18);
    let record = |number: usize| {
        let partition = i32::try_from(number % 18).unwrap();
        Record::new(format!("{number:0100}")).partition(partition).to("somewhere")
    };
    let records: Vec<Record> = (0..50_000).map(record).collect();
    let start = Instant::now();
    cluster.producer().send_all(&topic, &records);
    let sent = start.elapsed();
    let seen = cluster.reader(&topic).read_all();
    println!("50 000 records sent in {sent:?}, read in {:?}", start.elapsed() - sent);
    assert_eq!(seen.len(), 50_000);
    let bytes = cluster.node(0).resident_bytes();
    println!("broker: {} MiB resident", bytes >> 20);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn topics_are_created_described_grown_trimmed_and_deleted() {
    let admin = shared().admin();
    let topic = unique("admin");
    assert!(admin.topic_settings(&topic).is_empty());
    admin.create_topic_with(&topic, 2, &[("retention.ms", "123456789")]);
    assert_eq!(admin.topic_settings(&topic)["retention.ms"].as_deref(), Some("123456789"));
    admin.set_topic_settings(&topic, &[("retention.ms", "987654321")]);
    eventually(SOON, || match admin.topic_settings(&topic)["retention.ms"].as_deref() {
        Some("987654321") => Ok(()),
        other => Err(format!("retention.ms is {other:?}")),
    });
    admin.grow_topic(&topic, 4);
    let records: Vec<Record> = (0..10).map(|_| Record::new("x").partition(3)).collect();
    shared().producer().send_all(&topic, &records);
    assert_eq!(admin.end_offsets(&topic), [0, 0, 0, 10]);
    admin.delete_records(&topic, 3, 7);
    assert_eq!(admin.watermarks(&topic, 3), (7, 10));
    admin.delete_topic(&topic);
}

#[test]
fn groups_show_their_members_and_commits() {
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
    let cluster = shared();
    let (topic, group) = (unique("group-topic"), unique("group"));
    let admin = cluster.admin();
    admin.create_topic(&topic, 2);
    cluster.producer().send(&topic, &Record::new("x").partition(1));
    assert!(admin.committed(&group, &topic).is_empty());

    let mut config = cluster.client().config();
    config.set("group.id", &group).set("client.id", "me").set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.set("enable.auto.commit", "false").create().unwrap();
    consumer.subscribe(&[&topic]).unwrap();
    let message = eventually(SOON, || match consumer.poll(Duration::from_millis(100)) {
        Some(Ok(message)) => Ok(message),
        other => Err(format!("{:?}", other.map(|result| result.map(|_| ())))),
    });
    consumer.commit_message(&message, CommitMode::Sync).unwrap();
    drop(message);
    admin.wait_for_members(&group, 1, SOON);
    assert_eq!(admin.group(&group).unwrap().members, ["me"]);
    assert_eq!(admin.committed(&group, &topic), [(1, 1)].into());
}

#[test]
fn records_survive_kill_and_restart() {
    let permit = heavy();
    let start = Instant::now();
    let cluster = Options::one_node().start(&permit);
    println!("ready in {:?}", start.elapsed());
    println!("{} MiB resident", cluster.node(0).resident_bytes() >> 20);
    let topic = unique("kill");
    cluster.admin().create_topic(&topic, 18);
    let producer = cluster.producer();
    producer.send(&topic, &Record::new("before").partition(17));
    let address = cluster.bootstrap();

    cluster.node(0).kill();
    let start = Instant::now();
    cluster.restart(0);
    println!("ready again after kill -9 in {:?}", start.elapsed());
    assert_eq!(cluster.bootstrap(), address);
    producer.send(&topic, &Record::new("after").partition(17));
    println!("first acknowledgement after {:?}", start.elapsed());

    let start = Instant::now();
    cluster.node(0).terminate();
    println!("terminated in {:?}", start.elapsed());
    cluster.restart(0);
    println!("ready again after {:?}", start.elapsed());
    let seen = cluster.reader(&topic).read_all();
    assert_eq!(seen.iter().map(|seen| seen.text()).collect::<Vec<_>>(), ["before", "after"]);

    let segment = cluster.node(0).data_dir().join(format!("{topic}-17/00000000000000000000.log"));
    let dump = java::run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        &["--print-data-log", "--files", segment.to_str().unwrap()],
    );
    assert!(dump.contains("before"), "{dump}");
}

#[test]
fn a_suspended_broker_answers_again_after_it_is_resumed() {
    let permit = heavy();
    let cluster = Options::one_node().start(&permit);
    let topic = unique("suspend");
    cluster.admin().create_topic(&topic, 1);
    cluster.node(0).suspend();
    let producer = cluster.producer();
    std::thread::scope(|scope| {
        let send = scope.spawn(|| producer.send(&topic, &Record::new("x")));
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            assert!(!send.is_finished(), "a suspended broker answered");
            std::thread::yield_now();
        }
        cluster.node(0).resume();
        assert_eq!(send.join().unwrap(), (0, 0));
    });
}

#[test]
fn users_may_do_what_access_control_lists_allow() {
    let permit = heavy();
    let cluster = Options::one_node().users(&[("alice", "wonder"), ("bob", "x")]).start(&permit);
    let (theirs, other) = (unique("alices"), unique("other"));
    let admin = cluster.admin();
    admin.create_topic(&theirs, 1);
    admin.create_topic(&other, 1);
    admin.add_acls(&[Acl::may_write("alice", &theirs), Acl::may_read("alice", &theirs)]);

    let alice = cluster.client_as("alice").producer();
    assert_eq!(alice.send(&theirs, &Record::new("x")), (0, 0));
    let refused = alice.try_send_all(&other, &[Record::new("x")]).remove(0);
    let denied = KafkaError::MessageProduction(RDKafkaErrorCode::TopicAuthorizationFailed);
    assert_eq!(refused, Err(denied.clone()));
    let bob = cluster.client_as("bob").producer();
    assert_eq!(bob.try_send_all(&theirs, &[Record::new("x")]).remove(0), Err(denied));
    let mut reader = cluster.client_as("alice").reader(&theirs);
    assert_eq!(reader.until(1, SOON).len(), 1);
}

#[test]
fn three_nodes_survive_the_loss_of_one() {
    let permit = heavy();
    let start = Instant::now();
    let cluster = Options::three_nodes().start(&permit);
    println!("three nodes ready in {:?}", start.elapsed());
    let topic = unique("three");
    cluster.admin().create_topic(&topic, 18);
    let producer = cluster.producer();
    let records: Vec<Record> =
        (0..18).map(|partition| Record::new("x").partition(partition)).collect();
    producer.send_all(&topic, &records);

    let leader = cluster.leader_of(&topic, 0);
    cluster.node(leader).kill();
    let start = Instant::now();
    producer.send_all(&topic, &records);
    println!("all partitions acknowledged {:?} after kill -9 of a node", start.elapsed());
    assert_eq!(cluster.reader(&topic).read_all().len(), 36);
    cluster.restart(leader);
    producer.send_all(&topic, &records);
    assert_eq!(cluster.reader(&topic).read_all().len(), 54);
}

#[test]
#[should_panic(expected = "not so within 50ms: never")]
fn waiting_ends_at_the_deadline_with_the_last_reason() {
    eventually(Duration::from_millis(50), || Err::<(), _>("never"));
}

#[test]
fn metrics_are_found_by_name_and_labels() {
    use crate::support::metric;
    let text = "# HELP a x\n# TYPE a counter\na{level=\"1\",x=\"y\"} 2\na{level=\"11\",x=\"y\"} 3\n\
                a_total 7\nb{sub_level=\"1\"} 1\n";
    assert_eq!(metric(text, "a", &[("level", "1")]), Some(2.0));
    assert_eq!(metric(text, "a", &[]), Some(5.0));
    assert_eq!(metric(text, "a_total", &[]), Some(7.0));
    assert_eq!(metric(text, "b", &[("level", "1")]), None);
    assert_eq!(metric(text, "c", &[]), None);
    assert!(http_get(1, "/").is_err());
}

#[test]
fn http_answers_are_taken_apart() {
    use std::io::{Read as _, Write as _};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1);
            request.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.0 503 Not now\r\nA: b\r\n\r\nnot\r\n\r\nready").unwrap();
        String::from_utf8(request).unwrap()
    });
    assert_eq!(http_get(port, "/readyz"), Ok((503, "not\r\n\r\nready".to_owned())));
    assert!(served.join().unwrap().starts_with("GET /readyz HTTP/1."));
}

#[test]
fn a_daemon_that_ends_is_noticed_and_its_status_known() {
    let config = DaemonConfig::new(&shared().client(), "no-topic").argument("--no-such-argument");
    let daemon = config.start();
    let status = daemon.wait_exit(SOON);
    assert!(!daemon.is_running());
    assert!(daemon.http_get("/livez").is_err());
    assert!(status.code().is_some(), "{status}");
}
