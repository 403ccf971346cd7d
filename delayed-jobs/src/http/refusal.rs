//! Answers that say no: a status, a code for programs, a reason for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::StoreError;
use crate::metrics::Metrics;

/// A request that is not carried out.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    reason: String,
}

/// Marks the answer to a request that was refused.
#[derive(Clone, Copy)]
pub(super) struct Refused;

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, reason: impl Into<String>) -> Self {
        Self { status, code, reason: reason.into() }
    }

    pub(super) fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    pub(super) fn too_large(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", reason)
    }

    /// A body that cannot be read.
    pub(super) fn body(status: StatusCode, reason: String) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(reason),
            _ => Self::new(status, "bad_request", reason),
        }
    }

    pub(super) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", reason)
    }

    /// The same of one job among many.
    pub(super) fn of_job(self, at: usize) -> Self {
        Self { reason: format!("jobs[{at}]: {}", self.reason), ..self }
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        json!({ "error": { "code": self.code, "reason": self.reason } })
    }

    /// Counts what was refused: the request was wrong, or Redis did not carry it out.
    pub(super) fn count(status: StatusCode, metrics: &Metrics) {
        if status.is_client_error() { &metrics.refused } else { &metrics.redis_errors }.inc();
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = error.to_string();
        let unavailable = |code, reason| Self::new(StatusCode::SERVICE_UNAVAILABLE, code, reason);
        match error {
            StoreError::Away(_) => unavailable("redis_away", reason),
            StoreError::Denied(_) => unavailable("redis_denied", reason),
            StoreError::Full(_) => unavailable("redis_full", reason),
            StoreError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, "not_found", reason),
            StoreError::KeyReused(_) => Self::conflict(reason),
            StoreError::Unfit(_) => Self::bad(reason),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        response.extensions_mut().insert(Refused);
        let hint = match self.status.as_u16() {
            401 => ("www-authenticate", "Bearer"),
            429 | 503 => ("retry-after", "1"),
            _ => return response,
        };
        response.headers_mut().insert(hint.0, HeaderValue::from_static(hint.1));
        response
    }
}
