//! The interface of a node: JSON over HTTP.
//!
//! * `deliveries` - consumers, and dead jobs; `schedules` - recurring jobs
//! * `guard` - tokens, limits, how long answers take
//! * `request` - reads what is asked for; `refusal` - answers that say no
//! * `openapi.json` - the interface as machines read it; `page.html` - the page for people

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::refusal::Refusal;
use self::request::{CreateRequest, MoveRequest, PAYLOAD};
use crate::error::StoreError;
use crate::job::{Job, JobId, NewJob, State as JobState};
use crate::node::{Node, Shared};
use crate::store::{Page, Search, Store};

pub(crate) mod deliveries;
pub(crate) mod guard;
mod refusal;
pub(crate) mod request;
mod schedules;

/// Serves a node until `end` is ready.
///
/// # Errors
///
/// What the system says of the listener.
pub async fn serve(
    node: &Node,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let address: SocketAddr = listener.local_addr()?;
    node.shared().set_address(format!("http://{address}"));
    node.shared().tokens.load().map_err(std::io::Error::other)?;
    let router = router(Arc::clone(node.shared()));
    let shared = Arc::clone(node.shared());
    let end = async move {
        end.await;
        // Requests that wait for deliveries end now.
        shared.inbox().close();
    };
    axum::serve(listener, router).with_graceful_shutdown(end).await
}

/// Longest body of a request for many jobs.
const BATCH: usize = 64 * PAYLOAD;

type Shares = State<Arc<Shared>>;

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .route("/v1/overview", get(overview))
        .route("/v1/jobs", get(list).post(create))
        .route("/v1/jobs/{id}", get(read).delete(cancel).patch(reschedule))
        .merge(deliveries::routes())
        .merge(schedules::routes())
        .fallback(async || Refusal::no_route())
        .method_not_allowed_fallback(async || Refusal::no_method())
        // Room for the rest of the request around a payload, which is judged by itself.
        .layer(DefaultBodyLimit::max(4 * PAYLOAD))
        .route("/v1/jobs/batch", post(create_many).layer(DefaultBodyLimit::max(BATCH)))
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

/// Counts what was refused.
fn counted<T>(shared: &Shared, result: Result<T, Refusal>) -> Result<T, Refusal> {
    if let Err(refusal) = &result {
        let metrics = &shared.metrics;
        if refusal.is_callers() { &metrics.refused } else { &metrics.redis_errors }.inc();
    }
    result
}

fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|error| Refusal::body(error.status(), error.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| Refusal::bad(format!("body: {error}")))
}

fn id(text: &str) -> Result<JobId, Refusal> {
    text.parse().map_err(Refusal::bad)
}

/// A job as JSON, its payload as it was given.
fn shown(job: Job) -> Value {
    let payload = serde_json::from_str(&job.payload).unwrap_or(Value::String(job.payload.clone()));
    let mut shown = json!(job);
    shown["payload"] = payload;
    shown
}

async fn create(
    State(shared): Shares,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let result = async {
        let default = &shared.store.settings().retry;
        let job = parse::<CreateRequest>(body)?.into_job(&headers, default)?;
        guard::room(&shared, 1)?;
        Ok(shared.store.create(job).await?)
    };
    let accepted = counted(&shared, result.await)?;
    let (status, counter) = match accepted.repeated {
        true => (StatusCode::OK, &shared.metrics.repeated),
        false => (StatusCode::CREATED, &shared.metrics.accepted),
    };
    counter.inc();
    let place = [(header::LOCATION, format!("/v1/jobs/{}", accepted.id))];
    let body = json!({
        "id": accepted.id, "due_ms": accepted.due_ms, "repeated": accepted.repeated,
    });
    Ok((status, place, Json(body)).into_response())
}

async fn read(State(shared): Shares, Path(text): Path<String>) -> Result<Json<Value>, Refusal> {
    let result = async { Ok(shared.store.get(&id(&text)?).await?) };
    Ok(Json(shown(counted(&shared, result.await)?)))
}

async fn cancel(State(shared): Shares, Path(text): Path<String>) -> Result<Json<Value>, Refusal> {
    let result = async {
        let id = id(&text)?;
        let found = shared.store.cancel(&id).await?;
        match found.state {
            JobState::Cancelled => Ok((id, found)),
            state => Err(Refusal::conflict(format!("too late to cancel: the job is {state}"))),
        }
    };
    let (id, found) = counted(&shared, result.await)?;
    shared.metrics.cancelled.inc();
    Ok(Json(json!({ "id": id, "state": found.state, "due_ms": found.due_ms })))
}

async fn reschedule(
    State(shared): Shares,
    Path(text): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let result = async {
        let id = id(&text)?;
        let request: MoveRequest = parse(body)?;
        let (when, key) = (request.when()?, request.key(&headers)?);
        let found = shared.store.reschedule(&id, when, key.as_deref()).await?;
        match found.state {
            JobState::Pending => Ok((id, found)),
            state => Err(Refusal::conflict(format!("too late to move: the job is {state}"))),
        }
    };
    let (id, found) = counted(&shared, result.await)?;
    shared.metrics.rescheduled.inc();
    Ok(Json(json!({ "id": id, "state": found.state, "due_ms": found.due_ms })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    jobs: Vec<CreateRequest>,
}

async fn create_many(
    State(shared): Shares,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let read = || {
        let BatchRequest { jobs } = parse(body)?;
        if !(1..=deliveries::MOST).contains(&jobs.len()) {
            return Err(Refusal::bad(format!("jobs: use 1 to {}", deliveries::MOST)));
        }
        let (default, none) = (&shared.store.settings().retry, HeaderMap::new());
        let jobs = jobs.into_iter().zip(0..);
        // Nothing is accepted if one of them is wrong.
        jobs.map(|(job, at)| job.into_job(&none, default).map_err(|bad| bad.of_job(at))).collect()
    };
    let jobs: Vec<NewJob> = counted(&shared, read())?;
    counted(&shared, guard::room(&shared, jobs.len() as u64))?;
    let mut answers = Vec::with_capacity(jobs.len());
    for accepted in shared.store.create_many(jobs).await {
        let result = counted(&shared, accepted.map_err(Refusal::from));
        answers.push(match result {
            Ok(accepted) => {
                let metrics = &shared.metrics;
                if accepted.repeated { &metrics.repeated } else { &metrics.accepted }.inc();
                json!({
                    "id": accepted.id, "due_ms": accepted.due_ms, "repeated": accepted.repeated,
                })
            }
            Err(refusal) => refusal.json(),
        });
    }
    Ok(Json(json!({ "jobs": answers })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<usize>,
    from: Option<String>,
}

impl ListQuery {
    fn read(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Refusal> {
        query.map(|Query(query)| query).map_err(|error| Refusal::bad(error.body_text()))
    }

    fn limit(&self) -> Result<usize, Refusal> {
        match self.limit.unwrap_or(100) {
            limit @ 1..=1000 => Ok(limit),
            _ => Err(Refusal::bad("limit: use 1 to 1000")),
        }
    }
}

/// The same with a choice of jobs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchQuery {
    limit: Option<usize>,
    from: Option<String>,
    state: Option<JobState>,
    key: Option<String>,
    after_ms: Option<u64>,
    before_ms: Option<u64>,
}

impl SearchQuery {
    async fn run(self, store: &Store) -> Result<Page, Refusal> {
        let Self { limit, from, state, key, after_ms, before_ms } = self;
        if let Some(key) = key {
            if state.is_some() || after_ms.is_some() || before_ms.is_some() {
                return Err(Refusal::bad("key: a key alone names the job"));
            }
            let found = async { store.get(&store.by_key(&key).await?).await };
            let jobs = match found.await {
                Ok(job) => vec![job],
                Err(StoreError::Unknown(_)) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            return Ok(Page { jobs, next: None });
        }
        let list = ListQuery { limit, from };
        let all = Search::default();
        let search = Search {
            state: state.unwrap_or(all.state),
            after_ms: after_ms.unwrap_or(all.after_ms),
            before_ms: before_ms.unwrap_or(all.before_ms),
        };
        Ok(store.search(&search, list.from.as_deref(), list.limit()?).await?)
    }
}

fn page_of(page: Page) -> Json<Value> {
    let jobs: Vec<Value> = page.jobs.into_iter().map(shown).collect();
    Json(json!({ "jobs": jobs, "next": page.next }))
}

async fn list(
    State(shared): Shares,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let result = async {
        let Query(query) = query.map_err(|error| Refusal::bad(error.body_text()))?;
        query.run(&shared.store).await
    };
    Ok(page_of(counted(&shared, result.await)?))
}

async fn overview(State(shared): Shares) -> Result<Response, Refusal> {
    let result = async { Ok(shared.store.overview().await?) };
    Ok(Json(counted(&shared, result.await)?).into_response())
}

async fn health(State(shared): Shares) -> Response {
    let asked = async {
        shared.store.probe().await?;
        shared.store.durability().await
    };
    let silent = shared.silence() > shared.store.settings().lease.max(Duration::from_secs(1));
    let (status, redis, log) = match asked.await {
        Ok(log) if !silent => (StatusCode::OK, "up", log.word()),
        Ok(log) => (StatusCode::SERVICE_UNAVAILABLE, "up", log.word()),
        Err(error) => {
            let trouble = error.redis_trouble().unwrap_or("away");
            (StatusCode::SERVICE_UNAVAILABLE, trouble, "unknown")
        }
    };
    let body = json!({
        "node": shared.name,
        "redis": redis,
        "append_only_file": log,
        "partitions": shared.held(),
        "of": shared.store.partitions(),
    });
    (status, Json(body)).into_response()
}

async fn metrics(State(shared): Shares) -> impl IntoResponse {
    let metrics = &shared.metrics;
    metrics.held.set(i64::try_from(shared.held()).unwrap_or(i64::MAX));
    metrics.armed.set(i64::try_from(shared.armed()).unwrap_or(i64::MAX));
    let up = shared.silence() <= shared.store.settings().lease;
    metrics.redis_up.set(u64::from(up));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let overview = shared.store.overview();
    let overview = tokio::time::timeout(shared.store.settings().patience, overview).await;
    let overview = overview.ok().and_then(Result::ok);
    ([(header::CONTENT_TYPE, kind)], metrics.text(overview.as_ref()))
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("http/openapi.json"))
}

async fn page() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("http/page.html"))
}
