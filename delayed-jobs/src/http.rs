//! The interface of a node: JSON over HTTP.
//!
//! * `deliveries` - consumers, and dead jobs; `queues` - pauses and limits of queues
//! * `guard` - tokens, limits, how long answers take; `origin` - keeps other sites out; `server` - connections, and how
//!   long clients may take
//! * `common` - what handlers share; `request`, `payload` - read what is asked for, or refuse it
//! * `openapi.json` - the interface as machines read it; `page.html` - the page for people

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::common::{Answer, ListQuery, Shares, limit};
pub(crate) use self::deliveries::LONGEST_HOLD;
use self::deliveries::{
    acknowledge, cancel as cancel_many, dead, extend, nack, purge, requeue, take,
};
use self::json::{Json, Object, given, given_object, many};
pub(crate) use self::origin::check_address;
use self::payload::payload;
use self::queues::{pause, queues, resume, set_limits};
use self::request::{
    Asked, BATCH, BODY, Backoff, Body, CreateRequest, MoveRequest, Named, Refusal, Tries, duration,
};
use self::server::Limits;
use crate::error::StoreError;
use crate::job::{Found, Job, JobId, NewJob, Priority, Queue, State as JobState};
use crate::metrics::plain;
use crate::node::{Node, Shared};
use crate::recurrence::Recurrence;
use crate::store::{Listed, NewSchedule, Overlap, Overview, Page, Schedule, Scheduled, Search};

mod common;
mod deliveries;
#[cfg(test)]
mod description;
pub(crate) mod guard;
mod json;
mod origin;
mod payload;
mod queues;
mod request;
mod server;

/// Serves a node until `end` is ready, and for at most 5 s longer if requests are under way then.
///
/// # Errors
///
/// What the system says of the listener, or an address of a network without tokens.
pub async fn serve(
    node: &Node,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let shared = Arc::clone(&node.shared);
    let address = listener.local_addr()?;
    check_address(shared.store.settings(), address).map_err(std::io::Error::other)?;
    let _ = shared.address.set(format!("http://{address}"));
    shared.tokens.load().map_err(std::io::Error::other)?;
    let router = router(Arc::clone(&shared));
    let limits = Limits::of(shared.store.settings());
    let end = async move {
        end.await;
        // Requests that wait for deliveries end now.
        shared.inbox().close();
    };
    server::serve(listener, router, limits, end).await;
    Ok(())
}

/// How long requests under way are waited for at the end. A client may never send the rest of one.
pub(crate) const LAST: Duration = Duration::from_secs(5);

/// No other site shows the page within one of its own, where a click would be meant for something else.
const ALONE: [(header::HeaderName, &str); 1] =
    [(header::CONTENT_SECURITY_POLICY, "frame-ancestors 'self'")];

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get((ALONE, Html(include_str!("http/page.html")))))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route(
            "/openapi.json",
            get((JSON, include_str!("http/openapi.json"))),
        )
        .route("/v1/overview", get(overview))
        .route("/v1/jobs", get(list).post(create))
        .route("/v1/jobs/cancel", post(cancel_many))
        .route("/v1/jobs/{id}", get(read).delete(cancel).patch(reschedule))
        .route("/v1/deliveries", post(take))
        .route("/v1/deliveries/ack", post(acknowledge))
        .route("/v1/deliveries/nack", post(nack))
        .route("/v1/deliveries/extend", post(extend))
        .route("/v1/dead", get(dead))
        .route("/v1/dead/requeue", post(requeue))
        .route("/v1/dead/purge", post(purge))
        .route("/v1/queues", get(queues))
        .route("/v1/queues/{queue}", put(set_limits))
        .route("/v1/queues/{queue}/pause", post(pause))
        .route("/v1/queues/{queue}/resume", post(resume))
        .route("/v1/schedules", get(list_schedules))
        .route(
            "/v1/schedules/{name}",
            get(read_schedule).put(put_schedule).delete(end_schedule),
        )
        .layer(DefaultBodyLimit::max(BODY))
        .route(
            "/v1/jobs/batch",
            post(create_many).layer(DefaultBodyLimit::max(BATCH)),
        )
        .fallback(async || {
            let reason = "no such path; GET /openapi.json lists them";
            Refusal::new(StatusCode::NOT_FOUND, "not_found", reason)
        })
        .method_not_allowed_fallback(async || {
            let reason = "this path has other methods; GET /openapi.json lists them";
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
        })
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

async fn create(
    State(shared): Shares,
    headers: HeaderMap,
    Body(request): Body<CreateRequest>,
) -> Result<Response, Refusal> {
    let job = request.into_job(&headers, &shared.store.settings().retry)?;
    guard::room(&shared, 1)?;
    let accepted = shared.store.create(job).await?;
    shared.metrics.created(&accepted);
    let status = if accepted.repeated {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let place = [(header::LOCATION, format!("/v1/jobs/{}", accepted.id))];
    Ok((status, place, Json(accepted)).into_response())
}

async fn read(State(shared): Shares, Named(id): Named) -> Answer<Job> {
    let mut job = shared.store.get(&parsed(&id)?).await?;
    job.waits = shared.store.why(&job).await?;
    Ok(Json(job))
}

fn parsed(id: &str) -> Result<JobId, Refusal> {
    id.parse().map_err(Refusal::bad)
}

async fn cancel(State(shared): Shares, Named(id): Named) -> Answer {
    let found = shared.store.cancel(&parsed(&id)?).await?;
    let answer = changed(&id, found, JobState::Cancelled, "cancel")?;
    shared.metrics.cancelled.inc();
    Ok(answer)
}

async fn reschedule(
    State(shared): Shares,
    Named(id): Named,
    headers: HeaderMap,
    Body(request): Body<MoveRequest>,
) -> Answer {
    let (when, key) = (request.when()?, request.key(&headers)?);
    let found = shared
        .store
        .reschedule(&parsed(&id)?, when, key.as_deref())
        .await?;
    let answer = changed(&id, found, JobState::Pending, "move")?;
    shared.metrics.rescheduled.inc();
    Ok(answer)
}

fn changed(id: &str, found: Found, to: JobState, what: &str) -> Answer {
    let Found {
        state,
        due_ms,
        running,
    } = found;
    if state != to {
        let reason = format!("too late to {what}: the job is {state}");
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", reason));
    }
    let mut answer = json!({ "id": id, "state": state, "due_ms": due_ms });
    if running {
        answer["running"] = json!(true);
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    #[serde(deserialize_with = "many")]
    jobs: Vec<Object<CreateRequest>>,
}

async fn create_many(
    State(shared): Shares,
    Body(BatchRequest { jobs }): Body<BatchRequest>,
) -> Answer {
    let (default, none) = (&shared.store.settings().retry, HeaderMap::new());
    let jobs = jobs.into_iter().zip(0..);
    // Nothing is accepted if one of them is wrong.
    let jobs: Vec<NewJob> = jobs
        .map(|(Object(job), at)| job.into_job(&none, default).map_err(|bad| bad.of_job(at)))
        .collect::<Result<_, _>>()?;
    guard::room(&shared, jobs.len() as u64)?;
    let accepted = shared
        .store
        .create_many(jobs)
        .await
        .into_iter()
        .map(|accepted| {
            let refusal = match accepted {
                Ok(accepted) => {
                    shared.metrics.created(&accepted);
                    return json!(accepted);
                }
                Err(error) => Refusal::from(error),
            };
            Refusal::count(refusal.status, &shared.metrics);
            refusal.json()
        });
    Ok(Json(json!({ "jobs": accepted.collect::<Vec<_>>() })))
}

/// The same with a choice of jobs. (`flatten` reads no numbers from a query.)
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchQuery {
    limit: Option<usize>,
    from: Option<String>,
    state: Option<Listed>,
    key: Option<String>,
    after_ms: Option<u64>,
    before_ms: Option<u64>,
    queue: Option<Queue>,
}

async fn list(State(shared): Shares, Asked(query): Asked<SearchQuery>) -> Answer<Page> {
    let SearchQuery {
        state,
        key,
        after_ms,
        before_ms,
        queue,
        ..
    } = query;
    if let Some(key) = key {
        if state.is_some() || after_ms.is_some() || before_ms.is_some() || queue.is_some() {
            return Err(Refusal::bad("key: a key alone names the job"));
        }
        let found = async { shared.store.get(&shared.store.by_key(&key).await?).await };
        return match found.await {
            Ok(job) => Ok(Json(Page {
                jobs: vec![job],
                next: None,
            })),
            Err(StoreError::Unknown(_)) => Ok(Json(Page {
                jobs: Vec::new(),
                next: None,
            })),
            Err(error) => Err(error.into()),
        };
    }
    let all = Search::default();
    let search = Search {
        state: state.unwrap_or(all.state),
        after_ms: after_ms.unwrap_or(all.after_ms),
        before_ms: before_ms.unwrap_or(all.before_ms),
        queue,
    };
    let (from, limit) = (query.from.as_deref(), limit(query.limit)?);
    Ok(Json(shared.store.search(&search, from, limit).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleRequest {
    #[serde(default, deserialize_with = "given")]
    every: Option<String>,
    #[serde(default, deserialize_with = "given")]
    cron: Option<String>,
    #[serde(default, deserialize_with = "given")]
    timezone: Option<String>,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "given_object")]
    backoff: Option<Backoff>,
    #[serde(default)]
    queue: Queue,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    overlap: Overlap,
}

impl ScheduleRequest {
    fn recurrence(&self) -> Result<Recurrence, Refusal> {
        let recurrence = match (&self.every, &self.cron, self.timezone.as_deref()) {
            (Some(every), None, None) => Recurrence::every(duration("every", every)?),
            (None, Some(pattern), zone) => Recurrence::cron(pattern, zone.unwrap_or("UTC")),
            _ => {
                return Err(Refusal::bad(
                    "give either every, or cron and perhaps timezone",
                ));
            }
        };
        recurrence.map_err(Refusal::bad)
    }
}

async fn put_schedule(
    State(shared): Shares,
    Named(name): Named,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let (recurrence, payload) = (request.recurrence()?, payload(request.payload)?);
    let tries = Tries {
        max_attempts: request.max_attempts,
        backoff: request.backoff,
    };
    let retry = tries.retry(&shared.store.settings().retry)?;
    let new = NewSchedule {
        name,
        recurrence,
        payload,
        retry,
        queue: request.queue,
        priority: request.priority,
        overlap: request.overlap,
    };
    let (scheduled, next_ms) = shared.store.schedule(&new).await?;
    let is_new = scheduled == Scheduled::Created;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let changed = scheduled != Scheduled::Known;
    Ok((
        status,
        Json(json!({ "name": new.name, "next_ms": next_ms, "changed": changed })),
    ))
}

async fn read_schedule(State(shared): Shares, Named(name): Named) -> Answer<Schedule> {
    Ok(Json(shared.store.get_schedule(&name).await?))
}

async fn end_schedule(State(shared): Shares, Named(name): Named) -> Answer {
    shared.store.unschedule(&name).await?;
    Ok(Json(json!({ "name": name, "ended": true })))
}

#[derive(Serialize)]
struct Schedules {
    schedules: Vec<Schedule>,
    next: Option<String>,
}

async fn list_schedules(
    State(shared): Shares,
    Asked(query): Asked<ListQuery>,
) -> Answer<Schedules> {
    let (names, next) = shared
        .store
        .schedules(query.from.as_deref(), limit(query.limit)?)
        .await?;
    let mut schedules = Vec::with_capacity(names.len());
    for name in names {
        match shared.store.get_schedule(&name).await {
            Ok(schedule) => schedules.push(schedule),
            // It has ended since.
            Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(Schedules { schedules, next }))
}

async fn overview(State(shared): Shares) -> Result<Json<Overview>, Refusal> {
    Ok(Json(shared.store.overview().await?))
}

/// Whether the node takes every request.
async fn health(State(shared): Shares) -> Response {
    let (is_well, _, body) = look(&shared).await;
    (status(is_well), Json(body)).into_response()
}

/// Whether the node takes requests of some kind, so that a proxy may send them here.
async fn ready(State(shared): Shares) -> Response {
    let (_, is_ready, body) = look(&shared).await;
    (status(is_ready), Json(body)).into_response()
}

fn status(is_well: bool) -> StatusCode {
    match is_well {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Asks Redis, and says whether the node is well, whether it is ready, and what people want to know.
async fn look(shared: &Shared) -> (bool, bool, Value) {
    let asked = shared.store.probe().await;
    let redis = match &asked {
        Ok(()) => "up",
        Err(error) => error.redis_trouble().unwrap_or("away"),
    };
    // A Redis that is full or evicts takes no new jobs, and everything else.
    let works = matches!(redis, "up" | "full" | "evicts");
    let log = match works {
        true => shared.store.durability().await,
        false => Ok("unknown"),
    };
    let lost_ms = match works {
        true => shared.store.lost_ms().await.unwrap_or(None),
        false => None,
    };
    let silent = shared.silence() > shared.store.settings().lease.max(Duration::from_secs(1));
    let mut body = json!({
        "node": shared.name,
        "redis": redis,
        "append_only_file": log.as_ref().unwrap_or(&"unknown"),
        "partitions": shared.held(),
        "of": shared.store.partitions(),
    });
    if let Some(lost_ms) = lost_ms {
        body["lost_ms"] = json!(lost_ms);
    }
    let is_ready = works && log.is_ok() && !silent;
    (is_ready && redis == "up", is_ready, body)
}

async fn metrics(State(shared): Shares, headers: HeaderMap) -> impl IntoResponse {
    let metrics = &shared.metrics;
    metrics
        .held
        .set(i64::try_from(shared.held()).unwrap_or(i64::MAX));
    metrics
        .armed
        .set(i64::try_from(shared.armed()).unwrap_or(i64::MAX));
    let up = shared.silence() <= shared.store.settings().lease;
    metrics.redis_up.set(u64::from(up));
    metrics.redis_full.set(u64::from(shared.news.is_full()));
    let overview = shared.store.overview();
    let overview = tokio::time::timeout(shared.store.settings().patience, overview).await;
    let overview = overview.ok().and_then(Result::ok);
    let text = metrics.text(overview.as_ref());
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    let (kind, text) = if accepted.any(|value| value.contains("application/openmetrics-text")) {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (kind, text)
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", plain(&text))
    };
    ([(header::CONTENT_TYPE, kind)], text)
}
