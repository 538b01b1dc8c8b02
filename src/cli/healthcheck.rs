//! `kafka-delay healthcheck`: asks a running daemon, for images without a shell.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;

use super::exit::{self, Failure};
use super::global::GlobalArgs;

/// Arguments of `healthcheck`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kafka-delay healthcheck
  kafka-delay healthcheck --live
  kafka-delay healthcheck --address 10.0.0.7:8080 --timeout 1s

Asks /readyz, or /livez with --live, at http.listen of the configuration. Exit code 0 when the answer
is 200, otherwise 1.")]
pub struct HealthcheckArgs {
    /// Ask whether the process lives rather than whether it is ready
    #[arg(long)]
    live: bool,

    /// Where the daemon serves HTTP [default: http.listen]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<SocketAddr>,

    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

pub(super) fn run(
    args: &HealthcheckArgs,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let address =
        match args.address {
            Some(address) => address,
            None => {
                global.load()?.config.http.listen.map(reachable).ok_or_else(|| {
                    Failure::new(exit::CONFIG, "http.listen is off; give --address")
                })?
            }
        };
    let path = if args.live { "/livez" } else { "/readyz" };
    let failed =
        |cause: String| Failure::new(exit::FAILED, format!("http://{address}{path}: {cause}"));
    let answer = get(address, path, args.timeout).map_err(|error| failed(error.to_string()))?;
    let status = answer.split_whitespace().nth(1).unwrap_or("no HTTP status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    if status != "200" {
        return Err(failed(format!("{status} {body}")));
    }
    writeln!(out, "{body}")?;
    Ok(())
}

/// A server that listens on every address is asked on the loopback one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// One GET; an HTTP client crate would be larger than the daemon's own server.
fn get(address: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(65_536).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
