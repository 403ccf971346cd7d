//! The other end of a node's HTTP interface. Knows several nodes and asks the next one if one does not
//! answer; every request that changes something carries a key, so that asking twice changes it once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::job::{Accepted, FARTHEST, Found, JobId, NewJob, Priority, Queue, State, When, as_json};
use crate::link::prepare_tls;
use crate::settings::Secret;
use crate::store::Overview;
use crate::units::{millis, random, without_login};

/// Most of the answer of a proxy that an error shows, in characters.
const REASON: usize = 200;

/// Distance of rounds over all nodes.
const PAUSE: Duration = Duration::from_millis(50);

type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A node has refused it, and the others would, too.
    #[error("{status}: {reason}")]
    Refused {
        /// The HTTP status, 400 to 499.
        status: u16,
        /// What the node says.
        reason: String,
    },
    /// No node could carry it out in time. Whether it was carried out is not known; asking again with
    /// the same idempotency key is safe.
    #[error("no node has answered in time: {0}")]
    Away(String),
}

impl ClientError {
    /// Whether the job has ended otherwise: a conflict.
    #[must_use]
    pub fn is_too_late(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }
}

/// A job as a node shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct ShownJob {
    /// Its name.
    pub id: JobId,
    /// How far it has come.
    pub state: State,
    /// When it is or was due, in milliseconds since 1970.
    pub due_ms: u64,
    /// What it carries, as JSON text, until it is done or cancelled.
    #[serde(default, deserialize_with = "some_text")]
    pub payload: Option<String>,
}

/// A delivery as a node shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct ShownDelivery {
    /// The job's name, by which a repeated delivery is told.
    pub id: JobId,
    /// The queue it was taken from.
    pub queue: Queue,
    /// Its priority there.
    #[serde(default)]
    pub priority: Priority,
    /// Names this attempt; it is given back to acknowledge, fail or extend it.
    pub receipt: String,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// After so many failed attempts the job is dead.
    pub max_attempts: u32,
    /// When it was due, in milliseconds since 1970.
    pub due_ms: u64,
    /// The recurring schedule that has made it.
    pub schedule: Option<String>,
    /// The trace that it is a part of.
    pub traceparent: Option<String>,
    /// What it carries, as JSON text.
    #[serde(deserialize_with = "text")]
    pub payload: String,
}

/// Reads JSON as the text that it is written in.
fn text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    Box::<RawValue>::deserialize(from).map(|raw| Box::<str>::from(raw).into())
}

fn some_text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<String>, D::Error> {
    text(from).map(Some)
}

/// A request for a job: the payload is written as it is.
#[derive(Serialize)]
struct NewRequest<'a> {
    #[serde(flatten)]
    rest: Value,
    #[serde(serialize_with = "as_json")]
    payload: &'a str,
}

/// A part of the list of pending jobs.
#[derive(Clone, Debug, Deserialize)]
pub struct ShownPage {
    /// Pending jobs.
    pub jobs: Vec<ShownJob>,
    /// Where the list goes on, if it does.
    pub next: Option<String>,
}

/// Asks nodes over HTTP. Clones share their connections.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    token: Option<Secret>,
    name: String,
    nodes: Vec<String>,
    first: AtomicUsize,
    patience: Duration,
    one_try: Duration,
}

impl Client {
    /// A client of nodes such as `http://127.0.0.1:8080`, which gives a request up after `patience`, of at most ten years.
    ///
    /// # Errors
    ///
    /// No node is given, or the system refuses a client.
    pub fn new(nodes: Vec<String>, patience: Duration) -> Result<Self> {
        if nodes.is_empty() {
            return Err(ClientError::Away("no node is given".to_owned()));
        }
        // Later moments are beyond what clocks can tell.
        let patience = patience.min(FARTHEST);
        let one_try = (patience / 3).max(Duration::from_millis(100));
        prepare_tls();
        let nodes = nodes
            .iter()
            .map(|node| node.trim_end_matches('/').to_owned());
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|error| ClientError::Away(error.to_string()))?;
        Ok(Self {
            http,
            token: None,
            name: String::new(),
            nodes: nodes.collect(),
            first: AtomicUsize::new(0),
            patience,
            one_try,
        })
    }

    /// Sends a bearer token with each request.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned().into()),
            ..self
        }
    }

    /// Names the consumer to people who look at the jobs that it holds: letters, digits, and `-_.:@/`.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    /// Makes a job. Without a key of the caller's the request gets a random one.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn create(&self, payload: Value, when: When, key: Option<&str>) -> Result<Accepted> {
        let key = key.map(str::to_owned);
        let payload = payload.to_string();
        let new = NewJob {
            idempotency_key: key,
            ..NewJob::new(payload, when)
        };
        self.make(&new).await
    }

    /// Makes a job of any queue, tried as it says. Its payload is sent as JSON, or as a text if it is none; a backoff's
    /// `factor` counts as 2 unless it is 1.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn make(&self, new: &NewJob) -> Result<Accepted> {
        let mut body = request(new.when, new.idempotency_key.as_deref());
        body["queue"] = json!(new.queue);
        body["priority"] = json!(new.priority);
        if let Some(lasts) = new.expires {
            body["expires"] = json!(format!("{}ms", millis(lasts)));
        }
        if let Some(trace) = &new.traceparent {
            body["traceparent"] = json!(trace);
        }
        if let Some(retry) = &new.retry {
            let ms = |rest: Duration| format!("{}ms", millis(rest));
            body["max_attempts"] = json!(retry.max_attempts);
            body["backoff"] = json!({
                "kind": if retry.factor == 1.0 { "fixed" } else { "exponential" },
                "delay": ms(retry.first),
                "longest": ms(retry.longest),
                "jitter": retry.jitter,
            });
        }
        let body = NewRequest {
            rest: body,
            payload: &new.payload,
        };
        let body = serde_json::to_string(&body);
        let body = body.map_err(|error| ClientError::Away(error.to_string()))?;
        self.ask(Method::POST, "/v1/jobs", Some(body)).await
    }

    /// Looks a job up.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn get(&self, id: &JobId) -> Result<ShownJob> {
        self.ask(Method::GET, &format!("/v1/jobs/{id}"), None).await
    }

    /// Cancels a job that has not ended; once more changes nothing.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`is_too_late`](ClientError::is_too_late) if it has ended.
    pub async fn cancel(&self, id: &JobId) -> Result<Found> {
        self.ask(Method::DELETE, &format!("/v1/jobs/{id}"), None)
            .await
    }

    /// Moves the deadline of a job that no consumer has taken.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`is_too_late`](ClientError::is_too_late) if a consumer has it, or it has ended.
    pub async fn reschedule(&self, id: &JobId, when: When) -> Result<Found> {
        self.ask(
            Method::PATCH,
            &format!("/v1/jobs/{id}"),
            Some(request(when, None).to_string()),
        )
        .await
    }

    /// Pending jobs, from where another page ended.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn list(&self, from: Option<&str>, limit: usize) -> Result<ShownPage> {
        let from = from.map(|from| format!("&from={from}")).unwrap_or_default();
        let path = format!("/v1/jobs?limit={limit}{from}");
        self.ask(Method::GET, &path, None).await
    }

    /// Pauses a queue, or lets it go on.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn set_paused(&self, queue: &Queue, paused: bool) -> Result<()> {
        let what = if paused { "pause" } else { "resume" };
        let path = format!("/v1/queues/{queue}/{what}");
        self.ask::<Value>(Method::POST, &path, None).await.map(drop)
    }

    /// Takes at most `max` jobs of one of some queues that have fired, and holds them for `hold`. Waits for the first one for at
    /// most `wait`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn take(
        &self,
        queues: &[Queue],
        max: usize,
        wait: Duration,
        hold: Duration,
    ) -> Result<Vec<ShownDelivery>> {
        let wait = wait.min(FARTHEST);
        let (wait_ms, hold_ms) = (millis(wait), millis(hold));
        let name = &self.name;
        let queues: Vec<String> = queues.iter().map(Queue::to_string).collect();
        let queue = queues.join(",");
        let path = format!(
            "/v1/deliveries?queue={queue}&max={max}&wait={wait_ms}ms&hold={hold_ms}ms&consumer={name}"
        );
        let mut taken: HashMap<String, _> = self.ask_for(Method::POST, &path, None, wait).await?;
        Ok(taken.remove("deliveries").unwrap_or_default())
    }

    /// The ids of all dead jobs.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn dead(&self) -> Result<Vec<JobId>> {
        let (mut ids, mut from) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/dead?limit=1000{from}");
            let page: ShownPage = self.ask(Method::GET, &path, None).await?;
            ids.extend(page.jobs.into_iter().map(|job| job.id));
            match page.next {
                Some(next) => from = format!("&from={next}"),
                None => return Ok(ids),
            }
        }
    }

    /// Ends deliveries.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn acknowledge(&self, receipts: &[String]) -> Result<()> {
        self.tell("ack", json!({ "receipts": receipts })).await
    }

    /// Gives failed deliveries back.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn fail(&self, receipts: &[String], reason: &str) -> Result<()> {
        self.tell("nack", json!({ "receipts": receipts, "reason": reason }))
            .await
    }

    /// Holds deliveries for longer. Returns those whose jobs were cancelled, so that their work is to end.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn extend(&self, receipts: &[String], hold: Duration) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Extended {
            #[serde(default)]
            cancelled: Vec<String>,
        }
        let body = json!({ "receipts": receipts, "hold": format!("{}ms", millis(hold)) });
        let path = "/v1/deliveries/extend";
        let answer = self.ask(Method::POST, path, Some(body.to_string()));
        answer.await.map(|Extended { cancelled }| cancelled)
    }

    async fn tell(&self, what: &str, body: Value) -> Result<()> {
        let path = format!("/v1/deliveries/{what}");
        self.ask::<Value>(Method::POST, &path, Some(body.to_string()))
            .await
            .map(drop)
    }

    /// What everything looks like now.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn overview(&self) -> Result<Overview> {
        self.ask(Method::GET, "/v1/overview", None).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T> {
        self.ask_for(method, path, body, Duration::ZERO).await
    }

    /// Asks one node after the other until one has an answer that counts, which may take `wait` longer.
    async fn ask_for<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        wait: Duration,
    ) -> Result<T> {
        let end = Instant::now() + self.patience + wait;
        // ORDERING: Relaxed; any node will do, this only spreads the requests.
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let mut step = 0;
        loop {
            let node = &self.nodes[(first + step) % self.nodes.len()];
            let mut request = self.http.request(method.clone(), format!("{node}{path}"));
            request = request.timeout(self.one_try + wait);
            if let Some(token) = &self.token {
                request = request.bearer_auth(token.reveal());
            }
            if let Some(body) = &body {
                let kind = (CONTENT_TYPE, "application/json");
                request = request.header(kind.0, kind.1).body(body.clone());
            }
            let why = match answer(request).await {
                Err(ClientError::Away(why)) => format!("{}: {why}", without_login(node)),
                counts => return counts,
            };
            if Instant::now() >= end {
                return Err(ClientError::Away(why));
            }
            step += 1;
            if step % self.nodes.len() == 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Asks one node. [`ClientError::Away`] means that another one may know better.
async fn answer<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T> {
    let away = |error: reqwest::Error| ClientError::Away(error.to_string());
    let response = request.send().await.map_err(away)?;
    let status = response.status();
    if status.is_success() {
        return response.json().await.map_err(away);
    }
    let text = response.text().await.unwrap_or_default();
    let said: Value = serde_json::from_str(&text).unwrap_or_default();
    // What has no code is not of a node: a proxy answers like this until it is right again.
    let is_own = said["error"]["code"].is_string();
    let reason = said["error"]["reason"].as_str().map_or(text, str::to_owned);
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    if !is_own || status.is_server_error() || passes.contains(&status) {
        let reason: String = reason.chars().take(REASON).collect();
        return Err(ClientError::Away(format!("{status}: {reason}")));
    }
    Err(ClientError::Refused {
        status: status.as_u16(),
        reason,
    })
}

fn request(when: When, key: Option<&str>) -> Value {
    let key = key.map_or_else(
        || format!("r-{:016x}{:016x}", random(), random()),
        str::to_owned,
    );
    match when {
        When::After(delay) => json!({ "delay_ms": millis(delay), "idempotency_key": key }),
        When::At(due) => json!({ "due_ms": due, "idempotency_key": key }),
    }
}
