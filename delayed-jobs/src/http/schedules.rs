//! Recurring jobs over HTTP.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::request::{Backoff, PAYLOAD, duration, retry};
use super::{ListQuery, Shares, counted, parse};
use crate::node::Shared;
use crate::recurrence::Recurrence;
use crate::store::{NewSchedule, Schedule, Scheduled};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/schedules", get(list))
        .route("/v1/schedules/{name}", get(read).put(put).delete(end))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleRequest {
    every: Option<String>,
    cron: Option<String>,
    timezone: Option<String>,
    #[serde(default)]
    payload: Value,
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
}

impl ScheduleRequest {
    fn recurrence(&self) -> Result<Recurrence, Refusal> {
        let zone = self.timezone.as_deref();
        match (&self.every, &self.cron, zone) {
            (Some(every), None, None) => {
                Recurrence::every(duration("every", every)?).map_err(Refusal::bad)
            }
            (None, Some(pattern), zone) => {
                Recurrence::cron(pattern, zone.unwrap_or("")).map_err(Refusal::bad)
            }
            _ => Err(Refusal::bad("give either every, or cron and perhaps timezone")),
        }
    }
}

fn shown(schedule: Schedule) -> Value {
    let payload = serde_json::from_str(&schedule.payload);
    let mut shown = json!(schedule);
    shown["payload"] = payload.unwrap_or(Value::String(schedule.payload));
    shown
}

async fn put(
    State(shared): Shares,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let result = async {
        let request: ScheduleRequest = parse(body)?;
        let default = &shared.store.settings().retry;
        let retry = retry(request.max_attempts, request.backoff.as_ref(), default)?;
        let (recurrence, payload) = (request.recurrence()?, request.payload.to_string());
        if payload.len() > PAYLOAD {
            return Err(Refusal::too_large(payload.len(), PAYLOAD));
        }
        let new = NewSchedule { name: name.clone(), recurrence, payload, retry };
        Ok(shared.store.schedule(&new).await?)
    };
    let (scheduled, next_ms) = counted(&shared, result.await)?;
    let status = match scheduled {
        Scheduled::Created => StatusCode::CREATED,
        Scheduled::Changed | Scheduled::Known => StatusCode::OK,
    };
    let changed = scheduled != Scheduled::Known;
    Ok((status, Json(json!({ "name": name, "next_ms": next_ms, "changed": changed }))))
}

async fn read(State(shared): Shares, Path(name): Path<String>) -> Result<Json<Value>, Refusal> {
    let result = async { Ok(shared.store.get_schedule(&name).await?) };
    Ok(Json(shown(counted(&shared, result.await)?)))
}

async fn end(State(shared): Shares, Path(name): Path<String>) -> Result<Json<Value>, Refusal> {
    let result = async { Ok(shared.store.unschedule(&name).await?) };
    counted(&shared, result.await)?;
    Ok(Json(json!({ "name": name, "ended": true })))
}

async fn list(
    State(shared): Shares,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let result = async {
        let query = ListQuery::read(query)?;
        Ok(shared.store.schedules(query.from.as_deref(), query.limit()?).await?)
    };
    let (names, next) = counted(&shared, result.await)?;
    let mut schedules = Vec::with_capacity(names.len());
    for name in names {
        // One that has ended since is left out.
        if let Ok(schedule) = shared.store.get_schedule(&name).await {
            schedules.push(shown(schedule));
        }
    }
    Ok(Json(json!({ "schedules": schedules, "next": next })))
}
