//! Whoever can connect may send anything, slowly, at length, and on many connections.
//!
//! `make fuzz` runs the first of these at length.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

/// Only ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nearly a request, and any bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PRI * HTTP/2.0",
        b"/",
        b"/livez",
        b"/metrics",
        b"/status",
        b"/readyz?verbose",
        b"/..%2f..",
        b"http://x/livez",
        b"*",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b" HTTP/9.9",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"host: x\r\n",
        b"connection: close\r\n",
        b"content-length: 5\r\n",
        b"content-length: -1\r\n",
        b"content-length: 99999999999\r\n",
        b"transfer-encoding: chunked\r\n",
        b"expect: 100-continue\r\n",
        b"upgrade: h2c\r\n",
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"\0",
        b"\xff\xfe",
        b": ",
        b"a",
    ];
    let piece = prop_oneof![
        12 => prop::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => any::<Vec<u8>>(),
        1 => (0..2_000_usize).prop_map(|length| vec![b'x'; length]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Sends all of it, says that no more will come, and reads what is answered.
fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Errors: the server has heard enough and closed.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "never closed: {request:?}");
    }
    answer
}

fn code_of(answer: &[u8]) -> Option<u16> {
    let head = answer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(head).ok()?.parse().ok()
}

#[test]
fn any_bytes_are_answered_or_the_connection_is_closed_and_the_server_goes_on() {
    let fixture = Fixture::new();
    let usual = ProptestConfig::default();
    let cases = usual.cases.div_ceil(32);
    let codes = fixture.serve(move |address| {
        let codes = std::cell::RefCell::new(BTreeSet::new());
        let mut runner =
            TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..usual });
        let outcome = runner.run(&bytes(), |request| {
            let answer = exchange(address, &request);
            let code = code_of(&answer);
            prop_assert!(answer.is_empty() || code.is_some(), "{answer:?}");
            codes.borrow_mut().extend(code);
            Ok(())
        });
        outcome.unwrap();
        assert_eq!(request(address, "GET", "/livez").code, 200);
        codes.into_inner()
    });
    let known = BTreeSet::from([100, 200, 400, 404, 405, 413, 414, 431, 503]);
    assert!(codes.is_subset(&known), "{codes:?}");
    // Attackers cannot make series: a path and a code from short lists.
    let metrics = fixture.get("/metrics").body;
    let series = metrics.lines().filter(|line| line.starts_with("kafka_delay_http_requests_total"));
    assert!(series.count() <= 9 * known.len(), "{metrics}");
}

#[test]
fn endless_headers_and_addresses_are_cut_off_early() {
    let fixture = Fixture::new();
    fixture.serve(|address| {
        let long = "x".repeat(1 << 20);
        for request in [
            format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
            format!("GET /livez HTTP/1.1\r\nhost: x\r\na: {long}\r\n\r\n"),
            format!("GET /livez HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(10_000)),
            format!("{long}{long}{long}"),
        ] {
            let answer = exchange(address, request.as_bytes());
            let code = code_of(&answer);
            assert!(code.is_none_or(|code| (400..500).contains(&code)), "{code:?}");
        }
        let body =
            format!("POST /status HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 1 << 30);
        assert_eq!(code_of(&exchange(address, body.as_bytes())), Some(405));
        assert_eq!(request(address, "GET", "/livez").code, 200);
    });
}

#[test]
fn hundreds_of_silent_connections_make_room_for_a_probe() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_millis(300);
    let limits = listener::Limits { connections: 64, request: limit, idle: limit };
    let router = router(Fixture::new().state);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener::BoundedListener::new(listener, limits);
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = move || {
            let silent: Vec<TcpStream> = (0..400)
                .map(|number| {
                    let mut stream = TcpStream::connect(address).unwrap();
                    // A part of a request, from every other one.
                    if number % 2 == 0 {
                        stream.write_all(b"GET /livez HT").unwrap();
                    }
                    stream
                })
                .collect();
            let code = request(address, "GET", "/livez").code;
            drop(silent);
            code
        };
        assert_eq!(tokio::task::spawn_blocking(client).await.unwrap(), 200);
        server.abort();
    });
}
