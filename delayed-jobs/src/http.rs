//! The interface of a node: JSON over HTTP.
//!
//! * `deliveries` - consumers, and dead jobs
//! * `guard` - tokens, limits, how long answers take
//! * `request` - reads what is asked for, or refuses it
//! * `openapi.json` - the interface as machines read it; `page.html` - the page for people

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_str, json};
use tokio::net::TcpListener;

use self::deliveries::{acknowledge, dead, extend, nack, purge, requeue, take};
use self::request::{
    Asked, Body, CreateRequest, MoveRequest, PAYLOAD, Refusal, Tries, duration, payload,
};
use crate::error::StoreError;
use crate::job::{Found, JobId, NewJob, State as JobState};
use crate::node::{Node, Shared};
use crate::recurrence::Recurrence;
use crate::store::{NewSchedule, Overview, Page, Scheduled, Search};

mod deliveries;
pub(crate) mod guard;
mod request;

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
    let shared = Arc::clone(&node.shared);
    let _ = shared
        .address
        .set(format!("http://{}", listener.local_addr()?));
    shared.tokens.load().map_err(std::io::Error::other)?;
    let router = router(Arc::clone(&shared));
    let end = async move {
        end.await;
        // Requests that wait for deliveries end now.
        shared.inbox().close();
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(end)
        .await
}

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// Longest body of a request for many jobs.
const BATCH: usize = 64 * PAYLOAD;

type Shares = State<Arc<Shared>>;

type Answer = Result<Json<Value>, Refusal>;

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(Html(include_str!("http/page.html"))))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route(
            "/openapi.json",
            get((JSON, include_str!("http/openapi.json"))),
        )
        .route("/v1/overview", get(overview))
        .route("/v1/jobs", get(list).post(create))
        .route("/v1/jobs/{id}", get(read).delete(cancel).patch(reschedule))
        .route("/v1/deliveries", post(take))
        .route("/v1/deliveries/ack", post(acknowledge))
        .route("/v1/deliveries/nack", post(nack))
        .route("/v1/deliveries/extend", post(extend))
        .route("/v1/dead", get(dead))
        .route("/v1/dead/requeue", post(requeue))
        .route("/v1/dead/purge", post(purge))
        .route("/v1/schedules", get(list_schedules))
        .route(
            "/v1/schedules/{name}",
            get(read_schedule).put(put_schedule).delete(end_schedule),
        )
        .fallback(async || {
            let reason = "no such path; GET /openapi.json lists them";
            Refusal::new(StatusCode::NOT_FOUND, "not_found", reason)
        })
        .method_not_allowed_fallback(async || {
            let reason = "this path has other methods; GET /openapi.json lists them";
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason)
        })
        // Room for the rest of the request around a payload, which is judged by itself.
        .layer(DefaultBodyLimit::max(4 * PAYLOAD))
        .route(
            "/v1/jobs/batch",
            post(create_many).layer(DefaultBodyLimit::max(BATCH)),
        )
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

/// A job or schedule as JSON, its payload as it was given.
fn shown(one: &impl Serialize) -> Value {
    let mut shown = json!(one);
    if let Some(payload) = shown["payload"]
        .as_str()
        .and_then(|text| from_str(text).ok())
    {
        shown["payload"] = payload;
    }
    shown
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

async fn read(State(shared): Shares, Path(id): Path<String>) -> Answer {
    Ok(Json(shown(&shared.store.get(&parsed(&id)?).await?)))
}

fn parsed(id: &str) -> Result<JobId, Refusal> {
    id.parse().map_err(Refusal::bad)
}

async fn cancel(State(shared): Shares, Path(id): Path<String>) -> Answer {
    let found = shared.store.cancel(&parsed(&id)?).await?;
    let answer = changed(&id, found, JobState::Cancelled, "cancel")?;
    shared.metrics.cancelled.inc();
    Ok(answer)
}

async fn reschedule(
    State(shared): Shares,
    Path(id): Path<String>,
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
    let Found { state, due_ms } = found;
    if state != to {
        let reason = format!("too late to {what}: the job is {state}");
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", reason));
    }
    Ok(Json(json!({ "id": id, "state": state, "due_ms": due_ms })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    jobs: Vec<CreateRequest>,
}

async fn create_many(
    State(shared): Shares,
    Body(BatchRequest { jobs }): Body<BatchRequest>,
) -> Answer {
    if !(1..=deliveries::MOST).contains(&jobs.len()) {
        return Err(Refusal::bad(format!("jobs: use 1 to {}", deliveries::MOST)));
    }
    let (default, none) = (&shared.store.settings().retry, HeaderMap::new());
    let jobs = jobs.into_iter().zip(0..);
    // Nothing is accepted if one of them is wrong.
    let jobs: Vec<NewJob> = jobs
        .map(|(job, at)| job.into_job(&none, default).map_err(|bad| bad.of_job(at)))
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<usize>,
    from: Option<String>,
}

fn limit(limit: Option<usize>) -> Result<usize, Refusal> {
    let limit = limit.unwrap_or(100);
    let fits = (1..=1000).contains(&limit);
    fits.then_some(limit)
        .ok_or_else(|| Refusal::bad("limit: use 1 to 1000"))
}

/// The same with a choice of jobs. (`flatten` reads no numbers from a query.)
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

async fn list(State(shared): Shares, Asked(query): Asked<SearchQuery>) -> Answer {
    let SearchQuery {
        state,
        key,
        after_ms,
        before_ms,
        ..
    } = query;
    if let Some(key) = key {
        if state.is_some() || after_ms.is_some() || before_ms.is_some() {
            return Err(Refusal::bad("key: a key alone names the job"));
        }
        let found = async { shared.store.get(&shared.store.by_key(&key).await?).await };
        return match found.await {
            Ok(job) => Ok(page_of(&Page {
                jobs: vec![job],
                next: None,
            })),
            Err(StoreError::Unknown(_)) => Ok(page_of(&Page {
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
    };
    Ok(page_of(
        &shared
            .store
            .search(&search, query.from.as_deref(), limit(query.limit)?)
            .await?,
    ))
}

fn page_of(page: &Page) -> Json<Value> {
    let jobs: Vec<Value> = page.jobs.iter().map(shown).collect();
    Json(json!({ "jobs": jobs, "next": page.next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleRequest {
    every: Option<String>,
    cron: Option<String>,
    timezone: Option<String>,
    #[serde(default)]
    payload: Value,
    #[serde(flatten)]
    tries: Tries,
}

impl ScheduleRequest {
    fn recurrence(&self) -> Result<Recurrence, Refusal> {
        let recurrence = match (&self.every, &self.cron, self.timezone.as_deref()) {
            (Some(every), None, None) => Recurrence::every(duration("every", every)?),
            (None, Some(pattern), zone) => Recurrence::cron(pattern, zone.unwrap_or("")),
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
    Path(name): Path<String>,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let retry = request.tries.retry(&shared.store.settings().retry)?;
    let (recurrence, payload) = (request.recurrence()?, payload(&request.payload)?);
    let new = NewSchedule {
        name,
        recurrence,
        payload,
        retry,
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

async fn read_schedule(State(shared): Shares, Path(name): Path<String>) -> Answer {
    Ok(Json(shown(&shared.store.get_schedule(&name).await?)))
}

async fn end_schedule(State(shared): Shares, Path(name): Path<String>) -> Answer {
    shared.store.unschedule(&name).await?;
    Ok(Json(json!({ "name": name, "ended": true })))
}

async fn list_schedules(State(shared): Shares, Asked(query): Asked<ListQuery>) -> Answer {
    let (names, next) = shared
        .store
        .schedules(query.from.as_deref(), limit(query.limit)?)
        .await?;
    let mut schedules = Vec::with_capacity(names.len());
    for name in names {
        // One that has ended since is left out.
        if let Ok(schedule) = shared.store.get_schedule(&name).await {
            schedules.push(shown(&schedule));
        }
    }
    Ok(Json(json!({ "schedules": schedules, "next": next })))
}

async fn overview(State(shared): Shares) -> Result<Json<Overview>, Refusal> {
    Ok(Json(shared.store.overview().await?))
}

async fn health(State(shared): Shares) -> Response {
    let asked = async {
        shared.store.probe().await?;
        shared.store.durability().await
    };
    let silent = shared.silence() > shared.store.settings().lease.max(Duration::from_secs(1));
    let (answers, redis, log) = match asked.await {
        Ok(log) => (!silent, "up", log),
        Err(error) => (false, error.redis_trouble().unwrap_or("away"), "unknown"),
    };
    let status = if answers {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
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
    metrics
        .held
        .set(i64::try_from(shared.held()).unwrap_or(i64::MAX));
    metrics
        .armed
        .set(i64::try_from(shared.armed()).unwrap_or(i64::MAX));
    let up = shared.silence() <= shared.store.settings().lease;
    metrics.redis_up.set(u64::from(up));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let overview = shared.store.overview();
    let overview = tokio::time::timeout(shared.store.settings().patience, overview).await;
    let overview = overview.ok().and_then(Result::ok);
    (
        [(header::CONTENT_TYPE, kind)],
        metrics.text(overview.as_ref()),
    )
}
