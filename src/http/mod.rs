//! The HTTP server of one instance: for probes, Prometheus and people.
//!
//! | path | answer |
//! | --- | --- |
//! | `/` | links to the others |
//! | `/livez` | 200 while the loop passes, else 503 |
//! | `/readyz` | 200 when ready, else 503; `?verbose` gives the reasons as JSON |
//! | `/metrics` | Prometheus text format |
//! | `/status` | what each level and partition is doing, as JSON |
//! | `/version` | what the binary was built from, as JSON |
//!
//! All of it only reads. There is no TLS and no authentication: bind to the loopback interface, or
//! put a network policy or a proxy in front. HTTP/1.1 only.

mod listener;
mod pages;
mod probes;
mod scrape;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::build_info::BuildInfo;
use crate::metrics::{HttpPath, LabelValue, Metrics};
use crate::status::{Health, SharedStatus};

/// What the pages are made from.
#[derive(Clone)]
pub struct HttpState {
    /// The snapshot that the worker writes.
    pub status: SharedStatus,
    /// What the probes answer from.
    pub health: Arc<Health>,
    /// What `/metrics` exports.
    pub metrics: Arc<Metrics>,
    /// What the binary was built from.
    pub build: BuildInfo,
    /// Reads the monotonic clock that [`Health`] is told the time by, in milliseconds.
    pub now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// `/livez` fails when the loop is silent for longer.
    pub stall_after_ms: u64,
}

/// Serves until `shutdown` completes and the requests then in progress are answered, or cut off
/// for being too slow.
pub async fn serve(
    listener: TcpListener,
    state: HttpState,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = listener::BoundedListener::new(listener, listener::Limits::default());
    axum::serve(listener, router(state)).with_graceful_shutdown(shutdown).await
}

fn router(state: HttpState) -> Router {
    Router::new()
        .route(HttpPath::Index.name(), get(pages::index))
        .route(HttpPath::Livez.name(), get(probes::livez))
        .route(HttpPath::Readyz.name(), get(probes::readyz))
        .route(HttpPath::Metrics.name(), get(scrape::metrics))
        .route(HttpPath::Status.name(), get(scrape::status))
        .route(HttpPath::Version.name(), get(pages::version))
        .fallback(pages::not_found)
        .method_not_allowed_fallback(pages::method_not_allowed)
        .layer(middleware::from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

/// Counts each request, and forbids caches to keep what changes at every moment.
async fn observe(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    let asked = request.uri().path();
    let known = HttpPath::ALL.iter().copied().find(|path| path.name() == asked);
    let mut response = next.run(request).await;
    state.metrics.count_http_request(known.unwrap_or(HttpPath::Other), response.status().as_u16());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
