//! A client for the daemon's small HTTP endpoints.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// `GET path` of `127.0.0.1:port`: status and body, or why there was no answer.
pub fn http_get(port: u16, path: &str) -> Result<(u16, String), String> {
    let answer = exchange(port, path).map_err(|error| format!("GET {path}: {error}"))?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("GET {path}: cut off: {answer:?}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("GET {path}: not HTTP: {head:?}"))?;
    Ok((status, body.to_owned()))
}

/// The value of a metric in Prometheus text format: the sum of the series of that name that carry
/// all of `labels`, `None` when there is none.
pub fn metric(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (series_name, series_labels) = match series.split_once('{') {
            Some((series_name, rest)) => (series_name, rest.strip_suffix('}')?),
            None => (series, ""),
        };
        let matches = |label: &String| {
            series_labels
                .match_indices(label.as_str())
                .any(|(at, _)| at == 0 || series_labels.as_bytes()[at - 1] == b',')
        };
        let found = series_name == name && wanted.iter().all(matches);
        if found { value.parse::<f64>().ok() } else { None }
    };
    text.lines().filter_map(value).reduce(|sum, value| sum + value)
}

/// HTTP/1.0, so that the answer is neither chunked nor followed by another.
fn exchange(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
