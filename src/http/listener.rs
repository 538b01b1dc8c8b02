//! A listener that bounds what clients can hold: connections, and the time of each.
//!
//! `axum::serve` has neither a limit of connections nor a time limit for the request, so both are
//! here, below HTTP: a connection ends with an error when it makes no progress in time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// What clients may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at a time; one more ends the oldest. A flood of idle ones must not keep a probe
    /// out, or it would have this instance restarted.
    pub(super) connections: usize,
    /// From the first byte of a request to the first byte of its answer.
    pub(super) request: Duration,
    /// From a connection or an answer to the next request, and between two parts of an answer.
    pub(super) idle: Duration,
}

impl Default for Limits {
    /// Far above what probes and a pair of Prometheus servers need; a minute and a quarter keeps
    /// their connections alive between two scrapes.
    fn default() -> Self {
        Self { connections: 128, request: Duration::from_secs(10), idle: Duration::from_secs(75) }
    }
}

pub(super) struct BoundedListener {
    inner: TcpListener,
    limits: Limits,
    /// One for each connection, the oldest first. Dropped, it ends its connection.
    open: VecDeque<oneshot::Sender<()>>,
}

impl BoundedListener {
    pub(super) fn new(inner: TcpListener, limits: Limits) -> Self {
        Self { inner, limits, open: VecDeque::new() }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        // The listener's own accept deals with errors.
        let (inner, address) = Listener::accept(&mut self.inner).await;
        self.open.retain(|connection| !connection.is_closed());
        while self.open.len() >= self.limits.connections {
            self.open.pop_front();
        }
        let (connection, evicted) = oneshot::channel();
        self.open.push_back(connection);
        let deadline = Box::pin(sleep(self.limits.idle));
        let limits = self.limits;
        let stream =
            BoundedStream { inner, limits, deadline, evicted, in_request: false, ended: false };
        (stream, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

pub(super) struct BoundedStream {
    inner: TcpStream,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// Completes when a newer connection needs the place.
    evicted: oneshot::Receiver<()>,
    in_request: bool,
    ended: bool,
}

impl BoundedStream {
    fn expect_within(&mut self, limit: Duration) {
        self.deadline.as_mut().reset(Instant::now() + limit);
    }

    /// Waits no longer than until the deadline, or until the place is needed.
    fn or_deadline<T>(
        &mut self,
        progress: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if progress.is_pending() && !self.ended {
            self.ended = self.deadline.as_mut().poll(context).is_ready()
                || Pin::new(&mut self.evicted).poll(context).is_ready();
        }
        if progress.is_pending() && self.ended {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        progress
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.inner).poll_read(context, buffer);
        // Further parts of a request do not move its deadline: they may be sent slowly on purpose.
        if progress.is_ready() && !self.in_request {
            self.in_request = true;
            let limit = self.limits.request;
            self.expect_within(limit);
        }
        self.or_deadline(progress, context)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.inner).poll_write(context, bytes);
        if progress.is_ready() {
            self.in_request = false;
            let limit = self.limits.idle;
            self.expect_within(limit);
        }
        self.or_deadline(progress, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
