//! The snapshot, as metrics and as JSON.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::HttpState;
use crate::metrics;
use crate::status::StatusReport;

pub(super) async fn metrics(State(state): State<HttpState>) -> Response {
    state.metrics.observe_health(&state.health);
    state.metrics.observe_status(&state.status.snapshot());
    match state.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be encoded");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

pub(super) async fn status(State(state): State<HttpState>) -> Json<StatusReport> {
    let mut status = state.status.snapshot();
    status.apply_health(&state.health);
    Json(StatusReport::from(status))
}
