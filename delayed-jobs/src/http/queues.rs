//! Queues over HTTP: what they hold, pauses and limits.

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;

use super::common::{Answer, Shares};
use super::json::{Json, given, given_object};
use super::request::{Body, Named, Refusal, duration};
use crate::job::Queue;
use crate::store::{Limits, Rate};

fn parsed(queue: &str) -> Result<Queue, Refusal> {
    queue.parse().map_err(Refusal::bad)
}

pub(super) async fn queues(State(shared): Shares) -> Answer {
    let queues = shared.store.overview().await?.queues;
    Ok(Json(json!({ "queues": queues })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsRequest {
    #[serde(default, deserialize_with = "given")]
    concurrency: Option<u32>,
    #[serde(default, deserialize_with = "given_object")]
    rate: Option<RateRequest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateRequest {
    jobs: u32,
    per: String,
}

pub(super) async fn set_limits(
    State(shared): Shares,
    Named(queue): Named,
    Body(request): Body<LimitsRequest>,
) -> Answer {
    let rate = request.rate.map(|rate| {
        let per = duration("rate.per", &rate.per)?;
        Ok::<_, Refusal>(Rate {
            jobs: rate.jobs,
            per,
        })
    });
    let limits = Limits {
        concurrency: request.concurrency,
        rate: rate.transpose()?,
    };
    let queue = parsed(&queue)?;
    shared.store.set_limits(&queue, &limits).await?;
    let mut answer = json!(limits);
    answer["queue"] = json!(queue);
    Ok(Json(answer))
}

pub(super) async fn pause(State(shared): Shares, Named(queue): Named) -> Answer {
    let queue = parsed(&queue)?;
    shared.store.set_paused(&queue, true).await?;
    Ok(Json(json!({ "queue": queue, "paused": true })))
}

pub(super) async fn resume(State(shared): Shares, Named(queue): Named) -> Answer {
    let queue = parsed(&queue)?;
    shared.store.set_paused(&queue, false).await?;
    Ok(Json(json!({ "queue": queue, "paused": false })))
}
