//! Tests of the pages over a real connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::oneshot;

use super::*;
use crate::engine::LevelTable;
use crate::metrics::MetricsOptions;
use crate::status::{PartitionStatus, Phase};

mod hostile;

struct Fixture {
    health: Arc<Health>,
    now_ms: Arc<AtomicU64>,
    state: HttpState,
}

impl Fixture {
    fn new() -> Self {
        let levels = LevelTable::new(&[Duration::from_secs(1)]).unwrap();
        let build = BuildInfo::new("2.12.1".to_owned());
        let options = MetricsOptions {
            levels: &levels,
            lateness_buckets_seconds: &[1.0],
            per_topic_limit: None,
            config_sha256: "abc",
            build: &build,
        };
        let metrics = Arc::new(Metrics::new(&Registry::new(), &options).unwrap());
        let health = Arc::new(Health::new(0));
        let status = SharedStatus::default();
        status.update(|status| {
            let partition = PartitionStatus::unassigned(0, 1, 1_000);
            let partition = PartitionStatus {
                assigned: true,
                phase: Phase::Reading,
                backlog: Some(3),
                ..partition
            };
            status.partitions.push(partition);
        });
        let now_ms = Arc::new(AtomicU64::new(0));
        let clock_ms = Arc::clone(&now_ms);
        let state = HttpState {
            status,
            health: Arc::clone(&health),
            metrics,
            build,
            now_ms: Arc::new(move || clock_ms.load(Ordering::Relaxed)),
            stall_after_ms: 60_000,
        };
        Self { health, now_ms, state }
    }

    /// Runs `client` on a thread of its own while the server answers it.
    fn serve<R: Send + 'static>(&self, client: impl FnOnce(SocketAddr) -> R + Send + 'static) -> R {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let state = self.state.clone();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = oneshot::channel::<()>();
            let server = tokio::spawn(serve(listener, state, async { drop(stopped.await) }));
            let result = tokio::task::spawn_blocking(move || client(address)).await.unwrap();
            drop(stop);
            server.await.unwrap().unwrap();
            result
        })
    }

    fn get(&self, path: &'static str) -> Answer {
        self.serve(move |address| request(address, "GET", path))
    }
}

#[derive(Debug)]
struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }
}

fn request(address: SocketAddr, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, head: head.to_lowercase(), body: body.to_owned() }
}

#[test]
fn every_page_answers_with_its_content_type() {
    let fixture = Fixture::new();
    fixture.health.set_joined();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/livez", "text/plain; charset=utf-8"),
        ("/readyz", "text/plain; charset=utf-8"),
        ("/readyz?verbose", "application/json"),
        ("/metrics", "text/plain; version=0.0.4"),
        ("/status", "application/json"),
        ("/version", "application/json"),
    ] {
        let answer = fixture.get(path);
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {content_type}\r\n")), "{answer:?}");
        assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    }
}

#[test]
fn the_index_and_the_404_name_every_page() {
    let fixture = Fixture::new();
    let index = fixture.get("/");
    let missing = fixture.get("/metrcs");
    assert_eq!(missing.code, 404);
    for path in HttpPath::ALL.iter().filter(|path| **path != HttpPath::Other) {
        assert!(missing.body.contains(path.name()), "{}", path.name());
        assert!(*path == HttpPath::Index || index.body.contains(path.name()), "{}", path.name());
    }
}

#[test]
fn writing_is_not_allowed() {
    let fixture = Fixture::new();
    let answer = fixture.serve(|address| request(address, "POST", "/metrics"));
    assert_eq!(answer.code, 405);
    assert!(answer.head.contains("allow: get,head"), "{answer:?}");
    assert!(answer.body.contains("only answers GET"), "{answer:?}");
    assert_eq!(fixture.serve(|address| request(address, "HEAD", "/livez")).code, 200);
}

#[test]
fn liveness_fails_while_the_loop_is_silent() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/livez").code, 200);
    fixture.now_ms.store(60_001, Ordering::Relaxed);
    let answer = fixture.get("/livez");
    assert_eq!(answer.code, 503);
    assert!(answer.body.contains("60001 ms"), "{answer:?}");
    fixture.health.beat(60_001);
    assert_eq!(fixture.get("/livez").code, 200);
}

#[test]
fn readiness_begins_with_the_first_assignment_and_ends_with_shutdown() {
    let fixture = Fixture::new();
    let answer = fixture.get("/readyz");
    assert_eq!(answer.code, 503);
    assert!(answer.body.contains("joined"), "{answer:?}");
    fixture.health.set_joined();
    fixture.now_ms.store(1_000_000, Ordering::Relaxed);
    assert_eq!(fixture.get("/readyz").code, 200);
    fixture.health.set_shutting_down();
    let answer = fixture.get("/readyz?verbose");
    assert_eq!(answer.code, 503);
    assert_eq!(answer.json()["reasons"][0], "a shutdown is in progress");
    let status = fixture.get("/status").json();
    assert_eq!((&status["ready"], &status["shutting_down"]), (&false.into(), &true.into()));
}

// R92
#[test]
fn status_and_metrics_show_the_same_snapshot() {
    let fixture = Fixture::new();
    let status = fixture.get("/status").json();
    assert_eq!(status["levels"][0]["backlog"], 3);
    assert_eq!(status["partitions"][0]["phase"], "reading");
    let metrics = fixture.get("/metrics").body;
    let line = r#"kafka_delay_level_backlog_records{delay="1s",level="1"} 3"#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(fixture.get("/version").json()["librdkafka"] == "2.12.1");
}

#[test]
fn requests_are_counted_by_a_bounded_path() {
    let fixture = Fixture::new();
    for path in ["/livez", "/livez", "/readyz?verbose", "/a", "/b", "/livez/", "/other"] {
        fixture.get(path);
    }
    let metrics = fixture.get("/metrics").body;
    for line in [
        r#"http_requests_total{code="200",path="/livez"} 2"#,
        r#"http_requests_total{code="503",path="/readyz"} 1"#,
        r#"http_requests_total{code="404",path="other"} 4"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn slow_and_idle_clients_are_cut_off_and_make_room_for_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_millis(400);
    let limits = listener::Limits { connections: 2, request: limit, idle: limit };
    let router = router(Fixture::new().state);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener::BoundedListener::new(listener, limits);
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = move || {
            let idle = TcpStream::connect(address).unwrap();
            let mut slow = TcpStream::connect(address).unwrap();
            slow.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
            let third = request(address, "GET", "/livez");
            for mut stream in [idle, slow] {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                // Cut off: the end of the stream, or a reset; not the time limit of this client.
                let cut = stream.read_to_end(&mut Vec::new());
                assert!(cut.as_ref().err().is_none_or(|e| e.kind() != io::ErrorKind::WouldBlock));
            }
            third.code
        };
        assert_eq!(tokio::task::spawn_blocking(client).await.unwrap(), 200);
        server.abort();
    });
}
