//! Answers that say no: a status, a code for programs, a reason for people.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::StoreError;

/// A request that is not carried out.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    reason: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, reason: impl Into<String>) -> Self {
        Self { status, code, reason: reason.into() }
    }

    pub(crate) fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    pub(crate) fn too_large(bytes: usize, most: usize) -> Self {
        let reason = format!("the payload has {bytes} bytes; at most {most} are possible");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", reason)
    }

    pub(crate) fn body(status: StatusCode, reason: String) -> Self {
        let code =
            if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
        Self::new(status, code, reason)
    }

    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", reason)
    }

    pub(crate) fn no_token() -> Self {
        let reason = "this needs a header `Authorization: Bearer TOKEN` with a token that is known";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", reason)
    }

    pub(crate) fn only_reads() -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "this token may only read")
    }

    pub(crate) fn too_many(code: &'static str, reason: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, reason)
    }

    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "no such path; GET /openapi.json lists them")
    }

    pub(crate) fn no_method() -> Self {
        let reason = "this path has other methods; GET /openapi.json lists them";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
    }

    /// The same of one job among many.
    pub(crate) fn of_job(self, at: usize) -> Self {
        Self { reason: format!("jobs[{at}]: {}", self.reason), ..self }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        json!({ "error": { "code": self.code, "reason": self.reason } })
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the request was wrong, as opposed to badly timed.
    pub(crate) fn is_callers(&self) -> bool {
        self.status.is_client_error()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = error.to_string();
        match error {
            StoreError::Away(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "redis_away", reason),
            StoreError::Denied(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "redis_denied", reason)
            }
            StoreError::Full(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "redis_full", reason),
            StoreError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, "not_found", reason),
            StoreError::KeyReused(_) => Self::conflict(reason),
            StoreError::Unfit(_) => Self::bad(reason),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert("www-authenticate", bearer);
        }
        if matches!(self.status.as_u16(), 429 | 503) {
            let soon = axum::http::HeaderValue::from_static("1");
            response.headers_mut().insert("retry-after", soon);
        }
        response
    }
}
