//! Pages that do not change, and answers to what does not exist.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse};

use super::HttpState;
use crate::build_info::BuildInfo;

const INDEX: &str = r#"<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>kafka-delay</title></head>
<body>
<h1>kafka-delay</h1>
<ul>
<li><a href="/status">/status</a>: what each level and partition is doing</li>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/livez">/livez</a>: whether the loop passes</li>
<li><a href="/readyz?verbose">/readyz</a>: whether this instance is ready</li>
<li><a href="/version">/version</a>: what the binary was built from</li>
</ul>
</body>
</html>
"#;

const NOT_FOUND: &str = "not found; this server has / /livez /readyz /metrics /status /version\n";

const METHOD_NOT_ALLOWED: &str = "method not allowed; this server only answers GET and HEAD\n";

pub(super) async fn index() -> Html<&'static str> {
    Html(INDEX)
}

pub(super) async fn version(State(state): State<HttpState>) -> Json<BuildInfo> {
    Json(state.build)
}

pub(super) async fn not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, NOT_FOUND)
}

pub(super) async fn method_not_allowed() -> impl IntoResponse {
    (StatusCode::METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED)
}
