//! Reads what is asked for. Each refusal has a status, a code for programs, and a reason for people: what is
//! wrong and what is allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json::{Json, Object, given, given_object};
use super::payload::{PAYLOAD, payload};
use crate::error::StoreError;
use crate::job::{FARTHEST, NewJob, Priority, Queue, Retry, When};
use crate::metrics::Metrics;
use crate::units::{parse_duration, parse_moment};

/// Longest body of a request for many jobs.
pub(super) const BATCH: usize = 64 * PAYLOAD;

/// Longest body of another request: room for the rest of it around a payload, which is judged by itself.
pub(super) const BODY: usize = 4 * PAYLOAD;

const TOO_LARGE: &str =
    "the body is too large: /v1/jobs/batch takes at most 4 MiB, other requests 256 KiB";

const _: () = assert!(BATCH == 4 << 20 && BODY == 256 << 10);

/// Longest idempotency key.
const KEY: usize = 200;

/// Whether the body of a request is being read.
#[derive(Clone, Default)]
pub(super) struct Reading(Arc<AtomicBool>);

impl Reading {
    pub(super) fn is_under_way(&self) -> bool {
        // ORDERING: Relaxed, because one task writes and reads it.
        self.0.load(Ordering::Relaxed)
    }
}

/// A body of JSON, whatever the header says that it is.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let reading = request.extensions().get::<Reading>().cloned();
        let reading = reading.unwrap_or_default();
        reading.0.store(true, Ordering::Relaxed);
        let body = Bytes::from_request(request, state).await;
        reading.0.store(false, Ordering::Relaxed);
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::body(error.status(), TOO_LARGE.to_owned()),
            status => Refusal::body(status, error.body_text()),
        })?;
        let read = serde_json::from_slice(&body).map(|Object(value)| Self(value));
        read.map_err(|error| Refusal::bad(format!("body: {error}")))
    }
}

/// The part of the URL after the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::from_request_parts(parts, state).await;
        query
            .map(|Query(asked)| Self(asked))
            .map_err(|error| Refusal::bad(error.body_text()))
    }
}

/// The part of the path that names a job, a queue or a schedule.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let name = Path::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|error| Refusal::bad(error.body_text()))
    }
}

const ONE_TIME: &str = "give exactly one of delay_ms, delay, due_ms and due";

/// When, in one of four ways.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveRequest {
    #[serde(default, deserialize_with = "given")]
    delay_ms: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<String>,
    #[serde(default, deserialize_with = "given")]
    due_ms: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    due: Option<String>,
    #[serde(default, deserialize_with = "given")]
    idempotency_key: Option<String>,
}

/// A job to be made: the same and what it carries. The fields are named here one by one, because serde reads those of
/// `flatten` twice, and keeps them as values in between.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateRequest {
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    delay_ms: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<String>,
    #[serde(default, deserialize_with = "given")]
    due_ms: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    due: Option<String>,
    #[serde(default, deserialize_with = "given")]
    idempotency_key: Option<String>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "given_object")]
    backoff: Option<Backoff>,
    #[serde(default)]
    queue: Queue,
    #[serde(default)]
    priority: Priority,
    #[serde(default, deserialize_with = "given")]
    expires: Option<String>,
    #[serde(default, deserialize_with = "given")]
    traceparent: Option<String>,
}

/// How often a job is tried; the node's settings say what is left out.
pub(super) struct Tries {
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Option<Backoff>,
}

/// The rest between two attempts: always the same, or longer each time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backoff {
    kind: BackoffKind,
    delay: String,
    #[serde(default, deserialize_with = "given")]
    longest: Option<String>,
    #[serde(default, deserialize_with = "given")]
    jitter: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum BackoffKind {
    Fixed,
    Exponential,
}

impl Tries {
    /// The retry policy of a request; `None` if it leaves everything to the node.
    pub(super) fn retry(&self, default: &Retry) -> Result<Option<Retry>, Refusal> {
        if self.max_attempts.is_none() && self.backoff.is_none() {
            return Ok(None);
        }
        let mut retry = default.clone();
        retry.max_attempts = self.max_attempts.unwrap_or(retry.max_attempts);
        if let Some(backoff) = &self.backoff {
            retry.first = duration("backoff.delay", &backoff.delay)?;
            retry.factor = match backoff.kind {
                BackoffKind::Fixed => 1.0,
                BackoffKind::Exponential => 2.0,
            };
            let longest = optional("backoff.longest", backoff.longest.as_deref())?;
            retry.longest = longest.unwrap_or_else(|| retry.longest.max(retry.first));
            retry.jitter = backoff.jitter.unwrap_or(retry.jitter);
        }
        retry.check().map_err(Refusal::bad)?;
        Ok(Some(retry))
    }
}

impl CreateRequest {
    pub(super) fn into_job(self, headers: &HeaderMap, default: &Retry) -> Result<NewJob, Refusal> {
        let tries = Tries {
            max_attempts: self.max_attempts,
            backoff: self.backoff,
        };
        let time = MoveRequest {
            delay_ms: self.delay_ms,
            delay: self.delay,
            due_ms: self.due_ms,
            due: self.due,
            idempotency_key: self.idempotency_key,
        };
        let (retry, when) = (tries.retry(default)?, time.given()?);
        // Without a time it is due now.
        let when = when.unwrap_or(When::After(Duration::ZERO));
        Ok(NewJob {
            payload: payload(self.payload)?,
            when,
            idempotency_key: time.key(headers)?,
            retry,
            queue: self.queue,
            priority: self.priority,
            expires: optional("expires", self.expires.as_deref())?,
            traceparent: traceparent(self.traceparent, headers)?,
        })
    }
}

/// From the body, which must be right, or from the header, which says nothing if it is wrong: so W3C's Trace Context has it.
fn traceparent(in_body: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    match in_body {
        Some(text) if is_traceparent(&text) => Ok(Some(text)),
        Some(_) => Err(Refusal::bad(
            "traceparent: not like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )),
        None => {
            let text = headers.get("traceparent").map(|value| value.to_str());
            let text = text
                .and_then(Result::ok)
                .filter(|text| is_traceparent(text));
            Ok(text.map(str::to_owned))
        }
    }
}

/// Whether it has a version, a trace, a span and flags, each of its length and in small hexadecimal digits.
fn is_traceparent(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    lengths.eq([2, 32, 16, 2]) && text.chars().all(|c| c == '-' || hex(c)) && &text[..2] != "ff"
}

impl MoveRequest {
    /// The one that was given.
    pub(super) fn when(&self) -> Result<When, Refusal> {
        self.given()?.ok_or_else(|| Refusal::bad(ONE_TIME))
    }

    /// The one that was given, if one was.
    fn given(&self) -> Result<Option<When>, Refusal> {
        let given = [
            self.delay_ms.map(|ms| after(Duration::from_millis(ms))),
            self.delay
                .as_deref()
                .map(|text| after(duration("delay", text)?)),
            self.due_ms.map(at),
            self.due.as_deref().map(|text| at(moment(text)?)),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (when, None) => when.transpose(),
            _ => Err(Refusal::bad(ONE_TIME)),
        }
    }

    /// From the body or the header.
    pub(super) fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let in_header = headers
            .get("idempotency-key")
            .map(|value| value.to_str())
            .transpose();
        let in_header =
            in_header.map_err(|_| Refusal::bad("the idempotency key is not plain text"))?;
        let key = match (self.idempotency_key.as_deref(), in_header) {
            (Some(one), Some(other)) if one != other => {
                return Err(Refusal::bad(
                    "header and body have different idempotency keys",
                ));
            }
            (in_body, in_header) => in_body.or(in_header),
        };
        match key {
            Some(key) if key.is_empty() || key.len() > KEY => Err(Refusal::bad(format!(
                "an idempotency key has 1 to {KEY} bytes"
            ))),
            key => Ok(key.map(str::to_owned)),
        }
    }
}

fn after(delay: Duration) -> Result<When, Refusal> {
    if delay > FARTHEST {
        return Err(Refusal::bad(
            "the delay is too long; at most ten years are possible",
        ));
    }
    Ok(When::After(delay))
}

fn at(due_ms: u64) -> Result<When, Refusal> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    if Duration::from_millis(due_ms) > now.saturating_add(FARTHEST) {
        let hint = "the time is too far ahead; at most ten years are possible (in milliseconds?)";
        return Err(Refusal::bad(hint));
    }
    Ok(When::At(due_ms))
}

pub(super) fn duration(field: &str, text: &str) -> Result<Duration, Refusal> {
    parse_duration(text).map_err(|error| {
        Refusal::bad(format!(
            "{field}: not a duration like 1500ms, 2h 5m ({error})"
        ))
    })
}

pub(super) fn optional(field: &str, text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    text.map(|text| duration(field, text)).transpose()
}

fn moment(text: &str) -> Result<u64, Refusal> {
    parse_moment(text).map_err(|error| {
        Refusal::bad(format!(
            "due: not a time like 2030-01-31T12:00:00Z or 2030-01-31T12:00:00+02:00 ({error})"
        ))
    })
}

/// A request that is not carried out.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    code: &'static str,
    reason: String,
}

/// Marks the answer to a request that was refused.
#[derive(Clone, Copy)]
pub(super) struct Refused;

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status,
            code,
            reason: reason.into(),
        }
    }

    pub(super) fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", reason)
    }

    /// A body that cannot be read.
    pub(super) fn body(status: StatusCode, reason: String) -> Self {
        let is_large = status == StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(
            status,
            if is_large { "too_large" } else { "bad_request" },
            reason,
        )
    }

    /// The same of one job among many.
    pub(super) fn of_job(self, at: usize) -> Self {
        Self {
            reason: format!("jobs[{at}]: {}", self.reason),
            ..self
        }
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        json!({ "error": { "code": self.code, "reason": self.reason } })
    }

    /// Counts what was refused: the request was wrong, or Redis did not carry it out.
    pub(super) fn count(status: StatusCode, metrics: &Metrics) {
        if status.is_client_error() {
            &metrics.refused
        } else {
            &metrics.redis_errors
        }
        .inc();
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let (status, code) = match &error {
            StoreError::Away(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_away"),
            StoreError::Denied(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_denied"),
            StoreError::Full(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_full"),
            StoreError::Disk(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_disk"),
            StoreError::Replicas(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_replicas"),
            StoreError::Evicts(_) => (StatusCode::SERVICE_UNAVAILABLE, "redis_evicts"),
            StoreError::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            StoreError::KeyReused(_) => (StatusCode::CONFLICT, "conflict"),
            StoreError::Unfit(_) => (StatusCode::BAD_REQUEST, "bad_request"),
        };
        Self::new(status, code, error.to_string())
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
        response
            .headers_mut()
            .insert(hint.0, HeaderValue::from_static(hint.1));
        response
    }
}
