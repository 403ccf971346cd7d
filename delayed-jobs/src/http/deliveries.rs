//! Consumers over HTTP: they take what has fired, and say how it ended. Dead jobs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::common::{Answer, Shares, limit};
use super::json::{Json, MOST, given, many};
use super::request::{Asked, Body, Refusal, duration, optional};
use crate::inbox;
use crate::job::{FARTHEST, JobId, Queue, State as JobState};
use crate::store::{DeadJobs, Failed, Held, Hold, Listed, Nack, Page, Receipt, Search};

/// Longest wait of a request for deliveries.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Longest hold.
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);

/// Longest reason for a failure that is kept, in characters.
const REASON: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TakeQuery {
    max: Option<usize>,
    wait: Option<String>,
    hold: Option<String>,
    #[serde(default)]
    queue: Queues,
    consumer: Option<String>,
}

/// Most queues that one request takes from.
const MOST_QUEUES: usize = 100;

/// Names of queues, with commas between them.
struct Queues(Vec<Queue>);

impl Default for Queues {
    fn default() -> Self {
        Self(vec![Queue::default()])
    }
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let queues: Result<Vec<Queue>, String> = text.split(',').map(str::parse).collect();
        let queues = queues.map_err(D::Error::custom)?;
        match queues.len() {
            1..=MOST_QUEUES => Ok(Self(queues)),
            _ => Err(D::Error::custom(format!("queue: use 1 to {MOST_QUEUES}"))),
        }
    }
}

/// Longest name of a consumer.
const NAME: usize = 100;

fn hold(text: &str) -> Result<Duration, Refusal> {
    let hold = duration("hold", text)?;
    match hold.is_zero() || hold > LONGEST_HOLD {
        true => Err(Refusal::bad("hold: use more than 0 and at most 24h")),
        false => Ok(hold),
    }
}

pub(super) async fn take(
    State(shared): Shares,
    Asked(query): Asked<TakeQuery>,
) -> Result<Response, Refusal> {
    let max = query.max.unwrap_or(1);
    if !(1..=inbox::MOST).contains(&max) {
        return Err(Refusal::bad(format!("max: use 1 to {}", inbox::MOST)));
    }
    let wait = optional("wait", query.wait.as_deref())?.unwrap_or_default();
    if wait > LONGEST_WAIT {
        return Err(Refusal::bad("wait: at most 60s are possible"));
    }
    let hold = query.hold.as_deref().map(hold).transpose()?;
    let by = query.consumer.unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@/".contains(c);
    if by.len() > NAME || !by.chars().all(fits) {
        let why = format!("consumer: a name has at most {NAME} letters, digits and `-_.:@/`");
        return Err(Refusal::bad(why));
    }
    let hold = Hold {
        lasts: hold.unwrap_or(shared.store.settings().hold),
        by,
    };
    let arrived = shared
        .inbox()
        .take(&query.queue.0, max, &hold, Instant::now() + wait)
        .await?;
    shared.metrics.arrived(&arrived);
    Ok(Json(HashMap::from([("deliveries", arrived.deliveries)])).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AckRequest {
    #[serde(deserialize_with = "many")]
    receipts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendRequest {
    #[serde(deserialize_with = "many")]
    receipts: Vec<String>,
    hold: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NackRequest {
    #[serde(deserialize_with = "many")]
    receipts: Vec<String>,
    #[serde(default, deserialize_with = "given")]
    delay: Option<String>,
    #[serde(default)]
    dead: bool,
    #[serde(default)]
    reason: String,
}

fn receipts(texts: &[String]) -> Result<Vec<Receipt>, Refusal> {
    texts
        .iter()
        .map(|text| text.parse().map_err(Refusal::bad))
        .collect()
}

/// How many receipts were good, and those that no longer hold a job.
fn outcome(word: &str, texts: &[String], held: &[bool]) -> Json<Value> {
    let stale: Vec<&String> = texts
        .iter()
        .zip(held)
        .filter(|(_, held)| !**held)
        .map(|(text, _)| text)
        .collect();
    Json(json!({ word: texts.len() - stale.len(), "stale": stale }))
}

pub(super) async fn acknowledge(State(shared): Shares, Body(request): Body<AckRequest>) -> Answer {
    let held = shared
        .store
        .acknowledge(&receipts(&request.receipts)?)
        .await?;
    shared
        .metrics
        .acknowledged
        .inc_by(held.iter().filter(|held| **held).count() as u64);
    Ok(outcome("done", &request.receipts, &held))
}

pub(super) async fn extend(State(shared): Shares, Body(request): Body<ExtendRequest>) -> Answer {
    let (hold, receipts) = (hold(&request.hold)?, receipts(&request.receipts)?);
    let found = shared.store.extend(&receipts, hold).await?;
    let held: Vec<bool> = found.iter().map(|one| *one == Held::Longer).collect();
    let Json(mut answer) = outcome("held", &request.receipts, &held);
    let all = request.receipts.iter().zip(found);
    let cancelled = all.filter(|(_, one)| *one == Held::Cancelled);
    answer["cancelled"] = cancelled.map(|(receipt, _)| receipt.as_str()).collect();
    Ok(Json(answer))
}

pub(super) async fn nack(State(shared): Shares, Body(request): Body<NackRequest>) -> Answer {
    let delay = optional("delay", request.delay.as_deref())?;
    if delay.is_some_and(|delay| delay > FARTHEST) {
        return Err(Refusal::bad("delay: at most ten years are possible"));
    }
    let reason = request.reason.chars().take(REASON).collect();
    let nack = Nack {
        delay,
        dead: request.dead,
        reason,
    };
    let failed = shared
        .store
        .nack(&receipts(&request.receipts)?, &nack)
        .await?;
    shared.metrics.failed(&failed);
    let (mut again, mut dead, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for (receipt, failed) in request.receipts.into_iter().zip(failed) {
        match failed {
            Failed::Again(due_ms) => again.push(json!({ "receipt": receipt, "due_ms": due_ms })),
            Failed::Dead => dead.push(receipt),
            Failed::Stale => stale.push(receipt),
        }
    }
    Ok(Json(
        json!({ "again": again, "dead": dead, "stale": stale }),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadQuery {
    limit: Option<usize>,
    from: Option<String>,
    queue: Option<Queue>,
}

pub(super) async fn dead(State(shared): Shares, Asked(query): Asked<DeadQuery>) -> Answer<Page> {
    let (from, limit) = (query.from.as_deref(), limit(query.limit)?);
    let search = Search {
        state: Listed::Dead,
        queue: query.queue,
        ..Search::default()
    };
    Ok(Json(shared.store.search(&search, from, limit).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadRequest {
    #[serde(default, deserialize_with = "given")]
    ids: Option<Vec<JobId>>,
    #[serde(default, deserialize_with = "given")]
    queue: Option<Queue>,
    #[serde(default)]
    all: bool,
}

impl DeadRequest {
    fn jobs(&self) -> Result<DeadJobs<'_>, Refusal> {
        match (&self.ids, &self.queue, self.all) {
            (Some(ids), None, false) if ids.len() <= MOST => Ok(DeadJobs::These(ids)),
            (None, Some(queue), false) => Ok(DeadJobs::Of(queue)),
            (None, None, true) => Ok(DeadJobs::All),
            _ => Err(Refusal::bad(format!(
                "give one of ids, at most {MOST}, queue, and \"all\": true"
            ))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelRequest {
    #[serde(default, deserialize_with = "given")]
    ids: Option<Vec<JobId>>,
    #[serde(default, deserialize_with = "given")]
    queue: Option<Queue>,
}

/// Cancels jobs by their ids, or those of a queue that wait for a consumer.
pub(super) async fn cancel(State(shared): Shares, Body(request): Body<CancelRequest>) -> Answer {
    let (cancelled, running) = match (&request.ids, &request.queue) {
        (Some(ids), None) if ids.len() <= MOST => {
            let found = shared.store.cancel_many(ids).await?;
            let found = found.iter().zip(ids);
            let cancelled = found.filter_map(|(one, id)| Some((one.as_ref()?, id)));
            let cancelled = cancelled.filter(|(one, _)| one.state == JobState::Cancelled);
            let running: Vec<&JobId> = cancelled
                .clone()
                .filter_map(|(one, id)| one.running.then_some(id))
                .collect();
            (cancelled.count() as u64, running)
        }
        (None, Some(queue)) => (shared.store.empty(queue).await?, Vec::new()),
        _ => {
            let why = format!("give either ids, at most {MOST}, or queue");
            return Err(Refusal::bad(why));
        }
    };
    shared.metrics.cancelled.inc_by(cancelled);
    Ok(Json(json!({ "cancelled": cancelled, "running": running })))
}

pub(super) async fn requeue(State(shared): Shares, Body(dead): Body<DeadRequest>) -> Answer {
    Ok(Json(
        json!({ "requeued": shared.store.requeue(dead.jobs()?).await? }),
    ))
}

pub(super) async fn purge(State(shared): Shares, Body(dead): Body<DeadRequest>) -> Answer {
    Ok(Json(
        json!({ "purged": shared.store.purge(dead.jobs()?).await? }),
    ))
}
