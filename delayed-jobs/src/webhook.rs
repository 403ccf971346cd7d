//! Pushes what has fired to a URL, signed as Standard Webhooks says. An answer of 200 to 299 ends the job, any
//! other one is a failed attempt.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use sha2::Sha256;
use tokio::task::JoinSet;

use crate::error::{Failure, StoreError};
use crate::job::Queue;
use crate::link::prepare_tls;
use crate::node::{Node, Shared};
use crate::store::{Delivery, Hold, Nack};
use crate::units::{duration, is_http};

/// How long one look for jobs waits.
const WAIT: Duration = Duration::from_secs(5);

/// Distance of tries while Redis does not answer.
const RETRY: Duration = Duration::from_millis(200);

/// The longest time for which an answer is waited for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The longest time that a receiver can put a job off.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);

/// Most of an answer, or of an error, that is kept as the reason of a failure, in characters.
const REASON: usize = 200;

/// Where jobs are pushed to, if anywhere. All nodes of a namespace may push; each job goes out once per attempt.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookSettings {
    /// Each job of the queue that fires is sent here by POST, instead of waiting for a consumer
    #[arg(long, value_name = "URL", requires = "webhook_secret_file")]
    webhook_url: Option<String>,
    /// Holds the key of the signatures: `whsec_` and base64, or any text
    #[arg(long, value_name = "FILE")]
    webhook_secret_file: Option<PathBuf>,
    /// The queue whose jobs are sent; the others wait for consumers
    #[arg(long, default_value_t, value_name = "NAME")]
    webhook_queue: Queue,
    /// How long an answer is waited for
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    webhook_timeout: Duration,
    /// Requests of one node at a time
    #[arg(long, default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1000), value_name = "N")]
    webhook_concurrency: u16,
}

/// Sends jobs to one URL.
struct Pusher {
    shared: Arc<Shared>,
    http: reqwest::Client,
    url: String,
    queue: Queue,
    key: Vec<u8>,
    /// Longer than an answer is waited for.
    hold: Hold,
}

/// Begins to push, if the settings say so. The tasks end after the node's HTTP server.
///
/// # Errors
///
/// A secret that cannot be read, or a URL that cannot be used.
pub(crate) fn push(settings: &WebhookSettings, node: &Node) -> Result<JoinSet<()>, Failure> {
    let (Some(url), Some(file)) = (&settings.webhook_url, &settings.webhook_secret_file) else {
        return Ok(JoinSet::new());
    };
    let wrong = |why| StoreError::Unfit(format!("{}: {why}", file.display()));
    let secret = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let key = key(secret.trim()).map_err(wrong)?;
    if !is_http(url) {
        // It is not shown: it may hold a password.
        let why = "webhook_url: not a URL of http or https, such as https://example.com/jobs";
        return Err(StoreError::Unfit(why.to_owned()).into());
    }
    let timeout = settings.webhook_timeout;
    if timeout.is_zero() || timeout > LONGEST {
        let why = "webhook_timeout: use more than 0 and at most 24h";
        return Err(StoreError::Unfit(why.to_owned()).into());
    }
    prepare_tls();
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
        .build()?;
    let hold = Hold {
        lasts: timeout * 2 + Duration::from_secs(5),
        by: format!("webhook of {}", node.shared.name),
    };
    let shared = Arc::clone(&node.shared);
    let pusher = Arc::new(Pusher {
        shared,
        http,
        url: url.clone(),
        queue: settings.webhook_queue.clone(),
        key,
        hold,
    });
    Ok((0..settings.webhook_concurrency)
        .map(|_| Arc::clone(&pusher).run())
        .collect())
}

/// The bytes of a secret.
fn key(secret: &str) -> Result<Vec<u8>, String> {
    let key = match secret.strip_prefix("whsec_") {
        Some(text) => STANDARD
            .decode(text)
            .map_err(|error| format!("after `whsec_`: {error}"))?,
        None => secret.as_bytes().to_vec(),
    };
    if key.len() < 16 {
        Err("a secret has 16 bytes or more".to_owned())
    } else {
        Ok(key)
    }
}

/// The signature of a body, as Standard Webhooks says: of id, time and body.
fn signature(key: &[u8], id: &str, seconds: u64, body: &str) -> String {
    // HMAC takes keys of any length.
    let mac = Hmac::<Sha256>::new_from_slice(key).map(|mut mac| {
        mac.update(format!("{id}.{seconds}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    });
    mac.unwrap_or_default()
}

/// Reads after how long a receiver wants to be asked again: it says so in seconds, or names a moment of its own clock,
/// which its `Date` tells. A moment that has passed says nothing, and one that is far ahead counts as [`LONGEST_REST`].
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    asked_rest(headers, now).map(|rest| rest.min(LONGEST_REST))
}

fn asked_rest(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER)?;
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let now = text(DATE).and_then(date).unwrap_or(now);
    date(after)?.duration_since(now).ok()
}

/// An error and what has caused it, from the outermost to the first.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.chars().take(REASON).collect()
}

impl Pusher {
    /// Sends one job after the other until the inbox is closed.
    async fn run(self: Arc<Self>) {
        while !self.shared.inbox().is_closed() {
            match self
                .shared
                .inbox()
                .take(
                    std::slice::from_ref(&self.queue),
                    1,
                    &self.hold,
                    Instant::now() + WAIT,
                )
                .await
            {
                Ok(arrived) => {
                    self.shared.metrics.arrived(&arrived);
                    for one in arrived.deliveries {
                        self.deliver(one).await;
                    }
                }
                Err(error) => {
                    tracing::debug!("nothing to push: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn deliver(&self, one: Delivery) {
        let receipts = [one.receipt.clone()];
        let metrics = &self.shared.metrics;
        let told = match self.send(&one).await {
            Ok(()) => self.shared.store.acknowledge(&receipts).await.map(|held| {
                metrics.acknowledged.inc_by(u64::from(held == [true]));
            }),
            Err(nack) => self
                .shared
                .store
                .nack(&receipts, &nack)
                .await
                .map(|failed| {
                    metrics.failed(&failed);
                }),
        };
        if let Err(error) = told {
            tracing::debug!(job = %one.id, "comes again, because its outcome is not noted: {error}");
        }
    }

    /// Sends one job; how it has failed, if it has.
    async fn send(&self, one: &Delivery) -> Result<(), Nack> {
        let failed = |reason: String, delay| Nack {
            reason,
            delay,
            dead: false,
        };
        let body = serde_json::to_string(one);
        let body = body.map_err(|error| failed(error.to_string(), None))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let mut request = self.http.post(&self.url);
        if let Some(trace) = &one.traceparent {
            request = request.header("traceparent", trace);
        }
        let mut answer = request
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", one.id.as_str())
            .header("webhook-timestamp", now)
            .header(
                "webhook-signature",
                signature(&self.key, one.id.as_str(), now, &body),
            )
            .body(body)
            .send()
            .await
            .map_err(|error| failed(causes(&error.without_url()), None))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let busy = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        let delay = retry_after(answer.headers(), SystemTime::now());
        let delay = delay.filter(|_| busy.contains(&status));
        // The answer may have no end.
        let mut said = Vec::new();
        while said.len() < 4 * REASON {
            let Ok(Some(more)) = answer.chunk().await else {
                break;
            };
            said.extend_from_slice(&more);
        }
        let text = String::from_utf8_lossy(&said);
        let text: String = text.chars().take(REASON).collect();
        Err(failed(format!("{status}: {text}"), delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_says_in_seconds_or_by_a_date_when_it_wants_more() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let now = at(784_111_777);
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let ahead = Some("Sun, 06 Nov 1994 08:48:37 GMT");
        for (after, date, delay) in [
            ("6", date, Some(6)),
            ("0", None, Some(0)),
            ("315360000", None, Some(86_400)),
            ("18446744073709551615", None, Some(86_400)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", date, Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:43 GMT", date, Some(6)),
            ("Sun, 06 Nov 1994 08:49:43 GMT", None, Some(6)),
            ("Sunday, 06-Nov-94 08:49:43 GMT", None, Some(6)),
            ("Sun Nov  6 08:49:43 1994", None, Some(6)),
            // The clock of the receiver is behind ours, or says nothing that can be read.
            ("Sun, 06 Nov 1994 08:49:43 GMT", ahead, Some(66)),
            ("Sun, 06 Nov 1994 08:49:43 GMT", Some("x"), Some(6)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", None, None),
            ("-6", None, None),
            ("6.5", None, None),
            ("soon", None, None),
            ("", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            let delay = delay.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), delay, "{after} {date:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        // The example of the specification's libraries.
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signed = signature(&key, id, 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
