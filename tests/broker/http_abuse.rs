//! What strangers may send to the HTTP port of a working daemon: it answers or hangs up, keeps
//! forwarding, and a probe still gets its answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::rig::{PATIENCE, Rig, overdue, texts};
use crate::support::{Daemon, shared};

/// Only ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Everything that comes back until the server hangs up, which it must.
#[track_caller]
fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may hang up before it has read all of it.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("neither an answer nor the end: {error}"),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

/// A daemon that works, before and after.
fn undisturbed(abuse: impl FnOnce(&Daemon, SocketAddr)) {
    let rig = Rig::new(&shared().client(), "1s");
    let destination = rig.destination(1);
    let daemon = rig.config.start_ready();
    let before = daemon.resident_bytes();
    abuse(&daemon, daemon.http_address());
    rig.send(&[overdue("x", &destination)]);
    assert_eq!(texts(&rig.exactly(&destination, 1)), ["x"]);
    assert_eq!(daemon.http_get("/livez"), Ok((200, "ok\n".to_owned())));
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert!(!daemon.log().contains("panic"), "{}", daemon.log());
    daemon.stop(PATIENCE);
}

#[test]
fn methods_that_write_are_refused_and_bodies_not_read() {
    undisturbed(|_, address| {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            for path in ["/", "/metrics", "/status", "/livez"] {
                let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close");
                let answer = exchange(address, format!("{head}\r\n\r\n").as_bytes());
                assert_eq!(code(&answer), "405", "{method} {path}: {answer}");
            }
        }
        let answer = exchange(
            address,
            b"CONNECT evil:443 HTTP/1.1\r\nhost: evil:443\r\nconnection: close\r\n\r\n",
        );
        assert!(["400", "404", "405"].contains(&code(&answer)), "{answer}");
        // Announced, never sent: the answer does not wait for it.
        let huge = b"POST /status HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n";
        assert_eq!(code(&exchange(address, huge)), "405");
    });
}

#[test]
fn paths_lead_to_the_pages_and_nowhere_else() {
    undisturbed(|_, address| {
        for path in [
            "/../../../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/status/../../etc/passwd",
            "/metrics%00",
            "/config.toml",
            "/.env",
            "/debug/pprof",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let answer = exchange(address, request.as_bytes());
            assert!(["400", "404"].contains(&code(&answer)), "{path}: {answer}");
            assert!(!answer.contains("root:"), "{answer}");
        }
        let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(1 << 20));
        assert!(["404", "414", "431", "none"].contains(&code(&exchange(address, long.as_bytes()))));
    });
}

#[test]
fn old_and_sloppy_clients_are_answered() {
    undisturbed(|_, address| {
        assert_eq!(code(&exchange(address, b"GET /livez HTTP/1.0\r\n\r\n")), "200");
        let no_host = b"GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n";
        assert!(["200", "400"].contains(&code(&exchange(address, no_host))));
        let absolute = b"GET http://x/livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        assert_eq!(code(&exchange(address, absolute)), "200");
        // Many requests in one packet: as many answers.
        let mut pipeline = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".repeat(99);
        pipeline += "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let answers = exchange(address, pipeline.as_bytes());
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 100, "{answers}");
    });
}

#[test]
fn what_is_no_http_or_too_large_is_cut_off() {
    undisturbed(|_, address| {
        for garbage in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"\r\n\r\n\r\n\0\0\0\0\xff\xff\xff\xff",
            b"GET /livez\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: x\r\n\r\n",
        ] {
            let answer = exchange(address, garbage);
            assert!(["none", "400", "505"].contains(&code(&answer)), "{answer}");
        }
        let line = format!("x: {}\r\n", "a".repeat(1_000));
        let one_huge = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(4 << 20));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", line.repeat(10_000));
        let short = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000));
        for bomb in [one_huge, many, short] {
            let answer = exchange(address, bomb.as_bytes());
            assert!(["none", "431"].contains(&code(&answer)), "{}", code(&answer));
        }
    });
}

#[test]
fn a_probe_is_answered_while_others_hold_more_connections_than_there_are() {
    undisturbed(|daemon, address| {
        let mut held = Vec::new();
        for number in 0..600 {
            let mut stream = connect(address);
            // Idle ones, and ones that send their request for ever.
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ");
            }
            held.push(stream);
            if number % 50 == 49 {
                assert_eq!(daemon.http_get("/livez"), Ok((200, "ok\n".to_owned())), "{number}");
                assert_eq!(daemon.http_get("/readyz").map(|(code, _)| code), Ok(200), "{number}");
            }
        }
    });
}
