//! Recurring jobs over HTTP.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::request::{Asked, Body, Tries, duration, payload};
use super::{Answer, ListQuery, Shares, shown};
use crate::node::Shared;
use crate::recurrence::Recurrence;
use crate::store::{NewSchedule, Scheduled};

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
    #[serde(flatten)]
    tries: Tries,
}

impl ScheduleRequest {
    fn recurrence(&self) -> Result<Recurrence, Refusal> {
        let recurrence = match (&self.every, &self.cron, self.timezone.as_deref()) {
            (Some(every), None, None) => Recurrence::every(duration("every", every)?),
            (None, Some(pattern), zone) => Recurrence::cron(pattern, zone.unwrap_or("")),
            _ => return Err(Refusal::bad("give either every, or cron and perhaps timezone")),
        };
        recurrence.map_err(Refusal::bad)
    }
}

async fn put(
    State(shared): Shares,
    Path(name): Path<String>,
    Body(request): Body<ScheduleRequest>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let retry = request.tries.retry(&shared.store.settings().retry)?;
    let (recurrence, payload) = (request.recurrence()?, payload(&request.payload)?);
    let new = NewSchedule { name, recurrence, payload, retry };
    let (scheduled, next_ms) = shared.store.schedule(&new).await?;
    let status = match scheduled {
        Scheduled::Created => StatusCode::CREATED,
        Scheduled::Changed | Scheduled::Known => StatusCode::OK,
    };
    let changed = scheduled != Scheduled::Known;
    Ok((status, Json(json!({ "name": new.name, "next_ms": next_ms, "changed": changed }))))
}

async fn read(State(shared): Shares, Path(name): Path<String>) -> Answer {
    Ok(Json(shown(&shared.store.get_schedule(&name).await?)))
}

async fn end(State(shared): Shares, Path(name): Path<String>) -> Answer {
    shared.store.unschedule(&name).await?;
    Ok(Json(json!({ "name": name, "ended": true })))
}

async fn list(State(shared): Shares, Asked(query): Asked<ListQuery>) -> Answer {
    let (names, next) = shared.store.schedules(query.from.as_deref(), query.limit()?).await?;
    let mut schedules = Vec::with_capacity(names.len());
    for name in names {
        // One that has ended since is left out.
        if let Ok(schedule) = shared.store.get_schedule(&name).await {
            schedules.push(shown(&schedule));
        }
    }
    Ok(Json(json!({ "schedules": schedules, "next": next })))
}
