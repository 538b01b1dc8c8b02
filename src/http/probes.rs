//! Liveness and readiness. See [`Health`](crate::status::Health) for what they mean.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::HttpState;

/// The body of `/readyz?verbose`.
#[derive(Serialize)]
struct Readiness {
    ready: bool,
    reasons: Vec<&'static str>,
}

pub(super) async fn livez(State(state): State<HttpState>) -> Response {
    let now_ms = (state.now_ms)();
    if state.health.live(now_ms, state.stall_after_ms) {
        return "ok\n".into_response();
    }
    let silent_ms = state.health.silent_ms(now_ms);
    let limit_ms = state.stall_after_ms;
    let body = format!("the loop has been silent for {silent_ms} ms, more than {limit_ms} ms\n");
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

pub(super) async fn readyz(State(state): State<HttpState>, uri: Uri) -> Response {
    let reasons = state.health.ready().err().unwrap_or_default();
    let ready = reasons.is_empty();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if asks_for_details(&uri) {
        (code, Json(Readiness { ready, reasons })).into_response()
    } else if ready {
        (code, "ready\n").into_response()
    } else {
        (code, format!("not ready: {}\n", reasons.join("; "))).into_response()
    }
}

fn asks_for_details(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter == "verbose" || parameter.starts_with("verbose="))
}
