//! Reads what is asked for. Each refusal says what is wrong and what is allowed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::refusal::Refusal;
use crate::job::{FARTHEST, NewJob, Retry, When};

/// Longest payload, as JSON text.
pub(crate) const PAYLOAD: usize = 64 * 1024;

/// Longest idempotency key.
const KEY: usize = 200;

/// When, in one of four ways.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
}

/// A job to be made: the same and what it carries. (`flatten` would let unknown fields pass.)
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    #[serde(default)]
    pub(crate) payload: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<Backoff>,
}

/// The rest between two attempts: always the same, or longer each time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backoff {
    pub(crate) kind: BackoffKind,
    pub(crate) delay: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) longest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jitter: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackoffKind {
    Fixed,
    Exponential,
}

impl Backoff {
    pub(crate) fn of(retry: &Retry) -> Self {
        let text = |rest: Duration| format!("{}ms", crate::settings::millis(rest));
        let fixed = retry.factor == 1.0;
        Self {
            kind: if fixed { BackoffKind::Fixed } else { BackoffKind::Exponential },
            delay: text(retry.first),
            longest: Some(text(retry.longest)),
            jitter: Some(retry.jitter),
        }
    }
}

/// The retry policy of a request; `None` if it leaves everything to the node.
pub(super) fn retry(
    max_attempts: Option<u32>,
    backoff: Option<&Backoff>,
    default: &Retry,
) -> Result<Option<Retry>, Refusal> {
    let mut retry = default.clone();
    if max_attempts.is_none() && backoff.is_none() {
        return Ok(None);
    }
    retry.max_attempts = max_attempts.unwrap_or(retry.max_attempts);
    if let Some(backoff) = backoff {
        retry.first = duration("backoff.delay", &backoff.delay)?;
        retry.factor = match backoff.kind {
            BackoffKind::Fixed => 1.0,
            BackoffKind::Exponential => 2.0,
        };
        let longest = backoff.longest.as_deref();
        let longest = longest.map(|text| duration("backoff.longest", text)).transpose()?;
        retry.longest = longest.unwrap_or_else(|| retry.longest.max(retry.first));
        retry.jitter = backoff.jitter.unwrap_or(retry.jitter);
    }
    retry.check().map_err(Refusal::bad)?;
    Ok(Some(retry))
}

impl CreateRequest {
    pub(super) fn into_job(self, headers: &HeaderMap, default: &Retry) -> Result<NewJob, Refusal> {
        let Self { payload, delay_ms, delay, due_ms, due, idempotency_key, .. } = self;
        let retry = retry(self.max_attempts, self.backoff.as_ref(), default)?;
        let payload = payload.to_string();
        if payload.len() > PAYLOAD {
            return Err(Refusal::too_large(payload.len(), PAYLOAD));
        }
        let when = MoveRequest { delay_ms, delay, due_ms, due, idempotency_key };
        Ok(NewJob { payload, when: when.when()?, idempotency_key: when.key(headers)?, retry })
    }
}

impl MoveRequest {
    /// The one that was given.
    pub(super) fn when(&self) -> Result<When, Refusal> {
        let given = [
            self.delay_ms.map(|ms| after(Duration::from_millis(ms))),
            self.delay.as_deref().map(|text| after(duration("delay", text)?)),
            self.due_ms.map(at),
            self.due.as_deref().map(|text| at(moment(text)?)),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(when), None) => when,
            _ => Err(Refusal::bad("give exactly one of delay_ms, delay, due_ms and due")),
        }
    }

    /// From the body or the header.
    pub(super) fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let in_header = match headers.get("idempotency-key").map(|value| value.to_str()) {
            Some(Ok(text)) => Some(text.to_owned()),
            Some(Err(_)) => return Err(Refusal::bad("the idempotency key is not plain text")),
            None => None,
        };
        let key = match (&self.idempotency_key, in_header) {
            (Some(one), Some(other)) if *one != other => {
                return Err(Refusal::bad("header and body have different idempotency keys"));
            }
            (Some(key), _) => Some(key.clone()),
            (None, key) => key,
        };
        match key {
            Some(key) if key.is_empty() || key.len() > KEY => {
                Err(Refusal::bad(format!("an idempotency key has 1 to {KEY} bytes")))
            }
            key => Ok(key),
        }
    }
}

fn after(delay: Duration) -> Result<When, Refusal> {
    if delay > FARTHEST {
        return Err(Refusal::bad("the delay is too long; at most ten years are possible"));
    }
    Ok(When::After(delay))
}

fn at(due_ms: u64) -> Result<When, Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if Duration::from_millis(due_ms) > now.saturating_add(FARTHEST) {
        let hint = "the time is too far ahead; at most ten years are possible (in milliseconds?)";
        return Err(Refusal::bad(hint));
    }
    Ok(When::At(due_ms))
}

pub(super) fn duration(field: &str, text: &str) -> Result<Duration, Refusal> {
    humantime::parse_duration(text).map_err(|error| {
        Refusal::bad(format!("{field}: not a duration like 1500ms, 2h 5m ({error})"))
    })
}

/// Milliseconds since 1970, rounded up.
fn moment(text: &str) -> Result<u64, Refusal> {
    let moment = humantime::parse_rfc3339(text).map_err(|error| {
        Refusal::bad(format!("due: not a time like 2030-01-31T12:00:00Z ({error})"))
    })?;
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(crate::settings::millis(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(text: &str) -> Result<When, String> {
        let request: MoveRequest = serde_json::from_str(text).unwrap();
        request.when().map_err(|refusal| refusal.reason().to_owned())
    }

    #[test]
    fn a_time_is_given_in_one_of_four_ways() {
        assert_eq!(when(r#"{"delay_ms": 1500}"#), Ok(When::After(Duration::from_millis(1500))));
        assert_eq!(when(r#"{"delay": "2h 5m"}"#), Ok(When::After(Duration::from_secs(7500))));
        assert_eq!(when(r#"{"due_ms": 5}"#), Ok(When::At(5)));
        assert_eq!(when(r#"{"due": "1970-01-01T00:00:01.0005Z"}"#), Ok(When::At(1001)));
    }

    #[test]
    fn an_invalid_time_is_explained() {
        for (text, hint) in [
            ("{}", "exactly one"),
            (r#"{"delay_ms": 1, "due_ms": 1}"#, "exactly one"),
            (r#"{"delay": "soon"}"#, "like 1500ms"),
            (r#"{"due": "tomorrow"}"#, "2030-01-31"),
            (r#"{"delay_ms": 18446744073709551615}"#, "ten years"),
            (r#"{"due_ms": 1763772000000000}"#, "in milliseconds?"),
        ] {
            let said = when(text).unwrap_err();
            assert!(said.contains(hint), "{text}: {said}");
        }
    }

    #[test]
    fn header_and_body_must_agree_on_the_key() {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", "a".parse().unwrap());
        let with = |key: Option<&str>| MoveRequest {
            idempotency_key: key.map(str::to_owned),
            ..MoveRequest::default()
        };
        assert_eq!(with(None).key(&headers).unwrap().as_deref(), Some("a"));
        assert_eq!(with(Some("a")).key(&headers).unwrap().as_deref(), Some("a"));
        assert!(with(Some("b")).key(&headers).is_err());
        let none = HeaderMap::new();
        assert!(
            with(Some("")).key(&none).is_err() && with(Some(&"x".repeat(201))).key(&none).is_err()
        );
    }
}
