//! What any process may ask for a job. Requests for new jobs that come while others are under way go to
//! Redis together: one script for up to [`MOST`] of them.

use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::future::join_all;
use redis::ErrorKind;
use tokio::runtime;
use tokio::sync::oneshot;

use super::{AGREEMENTS, Place, Store};
use crate::error::{Result, StoreError};
use crate::job::{Accepted, Found, Job, JobId, NewJob, Queue, Retry, State, When, most_attempts};
use crate::units::{lock, millis};

/// Jobs accepted by one script; Redis does nothing else meanwhile.
const MOST: usize = 128;

/// Most jobs that are cancelled by one script.
const EMPTIED: u64 = 500;

/// Most queues with jobs in a partition: each one has metrics. Those of jobs that schedules make are not refused.
const MOST_QUEUES: usize = 1000;

type Answer = Result<Accepted>;

/// A job, and where the task that asks for it waits for the answer.
type Waiting = (NewJob, oneshot::Sender<Reply>);

/// What a task is told that waits for an answer.
pub(super) enum Reply {
    Answer(Answer),
    /// Redis has lost what it kept: the job may belong to another partition now.
    Again(NewJob),
}

/// The runtime that carries requests, and where their keys lead; `None` is for jobs that may go to any partition. Each
/// runtime has lanes of its own, because one that nobody drives carries nothing, and others would wait for it.
type Lane = (runtime::Id, Option<Place>);

/// Requests that wait. A lane exists while a task empties it.
pub(super) type Lanes = Mutex<HashMap<Lane, Vec<Waiting>>>;

impl Store {
    /// Accepts a job. When this returns, Redis has it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for attempts that cannot be made, [`StoreError::KeyReused`], [`StoreError::Away`].
    pub async fn create(&self, mut new: NewJob) -> Result<Accepted> {
        check(new.retry.as_ref())?;
        self.refuse_eviction()?;
        for _ in 0..AGREEMENTS {
            match self.try_create(new).await {
                Reply::Answer(answer) => return answer,
                Reply::Again(job) => new = job,
            }
        }
        Err(restless())
    }

    async fn try_create(&self, new: NewJob) -> Reply {
        let (answer, answered) = oneshot::channel();
        // The same key always leads to the same script's memory.
        let place = new
            .idempotency_key
            .as_deref()
            .map(|key| self.place_of_key(key));
        let lane = (runtime::Handle::current().id(), place);
        let is_first = {
            let mut lanes = lock(&self.lanes);
            let is_first = !lanes.contains_key(&lane);
            lanes.entry(lane.clone()).or_default().push((new, answer));
            is_first
        };
        if is_first {
            let emptying = Emptying {
                store: self.clone(),
                lane,
                has_ended: false,
            };
            tokio::spawn(emptying.run());
        }
        answered.await.unwrap_or_else(|_| {
            let hint = "the runtime has ended that asked Redis";
            Reply::Answer(Err(StoreError::Away((ErrorKind::Io, hint).into())))
        })
    }

    /// Accepts many jobs; the answers are in the order of the jobs.
    pub async fn create_many(&self, new: Vec<NewJob>) -> Vec<Result<Accepted>> {
        join_all(new.into_iter().map(|job| self.create(job))).await
    }

    /// Runs the script; one answer for each job, or none if the partition has lost what it kept.
    async fn accept(&self, place: Option<&Place>, jobs: &[NewJob]) -> Result<Option<Vec<Answer>>> {
        let (partition, birth) = match place {
            Some(place) => (place.partition, &*place.birth),
            None => (fastrand::u16(..self.partitions()), ""),
        };
        let each = jobs.iter().map(|job| {
            let retry = job.retry.as_ref().unwrap_or(&self.settings.retry);
            let (id, once) = (
                JobId::random(partition, &job.queue, job.priority).to_string(),
                job.idempotency_key.as_deref(),
            );
            (
                id,
                &job.payload,
                parts(job.when),
                once.unwrap_or(""),
                retry.policy(),
                job.expires
                    .map_or_else(String::new, |lasts| millis(lasts).min(LAST_MS).to_string()),
                job.traceparent.as_deref().unwrap_or(""),
            )
        });
        let args = (MOST_QUEUES, birth, each.collect::<Vec<_>>());
        let script = script!("create", "#!lua\n");
        let replies: Vec<(String, String, u64)> = self.run(script, partition, args).await?;
        if matches!(&replies[..], [(word, ..), ..] if word == "lost") {
            return Ok(None);
        }
        Ok(Some(replies.into_iter().map(answer).collect()))
    }
}

/// Empties a lane. If it is dropped amid that, for instance because its runtime ends, those that wait hear of it.
struct Emptying {
    store: Store,
    lane: Lane,
    /// The lane is gone; another one may have its name by now.
    has_ended: bool,
}

impl Drop for Emptying {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.store.lanes).remove(&self.lane);
        }
    }
}

impl Emptying {
    /// Takes what waits, up to so many jobs.
    fn take(&self, most: usize) -> Vec<Waiting> {
        let mut lanes = lock(&self.store.lanes);
        let waiting = lanes.entry(self.lane.clone()).or_default();
        waiting.drain(..waiting.len().min(most)).collect()
    }

    /// Ends the lane if nothing waits in it.
    fn end(&mut self) {
        let mut lanes = lock(&self.store.lanes);
        if lanes.get(&self.lane).is_none_or(Vec::is_empty) {
            lanes.remove(&self.lane);
            self.has_ended = true;
        }
    }

    /// Runs the script; `None` if the jobs may belong to another place now. Where they belong to this one they stay in
    /// their order, in which those of one key are accepted.
    async fn accept(&self, jobs: &[NewJob]) -> Result<Option<Vec<Answer>>> {
        let place = self.lane.1.as_ref();
        for _ in 0..AGREEMENTS {
            let accepted = self.store.accept(place, jobs).await?;
            let (None, Some(place)) = (&accepted, place) else {
                return Ok(accepted);
            };
            if !self.store.renew_place(place).await? {
                break;
            }
        }
        Ok(None)
    }

    /// Accepts what waits until nothing does.
    async fn run(mut self) {
        while !self.has_ended {
            let (jobs, waiting): (Vec<NewJob>, Vec<_>) = self.take(MOST).into_iter().unzip();
            match self.accept(&jobs).await {
                Ok(Some(answers)) => {
                    send(
                        waiting
                            .into_iter()
                            .zip(answers.into_iter().map(Reply::Answer)),
                    );
                }
                Ok(None) => send(waiting.into_iter().zip(jobs.into_iter().map(Reply::Again))),
                Err(error) => {
                    // After a silence, those that have come meanwhile would each wait as long for the same.
                    let more = if error.is_timeout() { usize::MAX } else { 0 };
                    let others = self.take(more).into_iter().map(|(_, waiting)| waiting);
                    let all = waiting.into_iter().chain(others);
                    send(all.map(|waiting| (waiting, Reply::Answer(Err(error.clone())))));
                }
            }
            self.end();
        }
    }
}

fn send(answers: impl Iterator<Item = (oneshot::Sender<Reply>, Reply)>) {
    for (waiting, answer) in answers {
        // Whoever has asked may have gone.
        let _ = waiting.send(answer);
    }
}

fn answer((word, id, due_ms): (String, String, u64)) -> Answer {
    if word == "conflict" {
        return Err(StoreError::KeyReused(id));
    }
    if word == "crowded" {
        let queue = Queue::of_suffix(&id);
        let said = format!("queue: `{queue}` is one too many, {MOST_QUEUES} have jobs already");
        return Err(StoreError::Unfit(said));
    }
    let id = id.parse().map_err(StoreError::Unfit)?;
    Ok(Accepted {
        id,
        due_ms,
        repeated: word == "known",
    })
}

impl Store {
    /// Cancels a job that has not ended; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn cancel(&self, id: &JobId) -> Result<Found> {
        let found = self.cancel_many(std::slice::from_ref(id)).await?.pop();
        found
            .flatten()
            .ok_or_else(|| StoreError::Unknown(id.to_string()))
    }

    /// Cancels those of these jobs that have not ended. Returns what each was found to be, if it is known.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be cancelled.
    pub async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Option<Found>>> {
        let mut parts: HashMap<u16, Vec<usize>> = HashMap::new();
        for (at, id) in ids.iter().enumerate() {
            parts.entry(id.partition()).or_default().push(at);
        }
        let retention = millis(self.settings.retention);
        let mut found = vec![None; ids.len()];
        for (partition, places) in parts {
            let of_one: Vec<&str> = places.iter().map(|at| ids[*at].as_str()).collect();
            let cancelled = self.run(script!("cancel"), partition, (retention, of_one));
            let answers: Vec<(String, u64, bool)> = cancelled.await?;
            for (at, (state, due_ms, running)) in places.into_iter().zip(answers) {
                found[at] = State::parse(&state).map(|state| Found {
                    state,
                    due_ms,
                    running,
                });
            }
        }
        Ok(found)
    }

    /// Cancels the jobs of a queue that wait for a consumer. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be cancelled.
    pub async fn empty(&self, queue: &Queue) -> Result<u64> {
        self.refresh().await?;
        let args = (millis(self.settings.retention), queue.suffix(), EMPTIED);
        let mut count = 0;
        for partition in 0..self.partitions() {
            loop {
                let some: u64 = self.run(script!("empty"), partition, args).await?;
                count += some;
                if some < EMPTIED {
                    break;
                }
            }
        }
        Ok(count)
    }

    /// Moves the deadline of a job that is pending or waits for a consumer. With an idempotency key a repetition moves it only once, and is answered
    /// alike when the job has fired, unless another request has moved it in between: only the last key is kept. A job that
    /// was cancelled is no longer moved, and the answer says so.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn reschedule(
        &self,
        id: &JobId,
        when: When,
        idempotency_key: Option<&str>,
    ) -> Result<Found> {
        let key = idempotency_key.unwrap_or("");
        let args = (id.as_str(), parts(when), key);
        found(
            id,
            self.run(script!("reschedule"), id.partition(), args)
                .await?,
        )
    }

    /// Looks a job up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn get(&self, id: &JobId) -> Result<Job> {
        let script = script!("get");
        let record = self.run(script, id.partition(), id.as_str());
        let record: HashMap<String, String> = record.await?;
        let text = |name: &str| record.get(name).cloned();
        let number = |name: &str| record.get(name).and_then(|text| text.parse().ok());
        let state = record.get("state").and_then(|text| State::parse(text));
        let (Some(state), Some(due_ms), Some(created_ms)) =
            (state, number("due"), number("created"))
        else {
            return Err(StoreError::Unknown(id.to_string()));
        };
        let has_ended = matches!(state, State::Done | State::Cancelled);
        let by = record.get("by").and_then(|by| by.split_once(' '));
        let attempts = number("attempt").unwrap_or(0) - number("spent").unwrap_or(0);
        Ok(Job {
            id: id.clone(),
            queue: id.queue(),
            priority: id.priority(),
            state,
            due_ms,
            created_ms,
            fired_ms: number("fired"),
            taken_ms: by.and_then(|(ms, _)| ms.parse().ok()),
            consumer: by
                .map(|(_, name)| name.to_owned())
                .filter(|name| !name.is_empty()),
            held_until_ms: number("held_until"),
            expires_ms: number("expires"),
            died_ms: number("died"),
            attempts: u32::try_from(attempts).unwrap_or(0),
            max_attempts: text("policy").map_or(0, |policy| most_attempts(&policy)),
            waits: None,
            reason: text("reason"),
            traceparent: text("trace"),
            payload: text("payload").filter(|_| !has_ended),
        })
    }
}

/// The answer where Redis loses what nodes have agreed on again and again.
pub(super) fn restless() -> StoreError {
    let hint = "what it keeps is lost again and again";
    StoreError::Away((ErrorKind::Io, hint).into())
}

/// Refuses attempts that the scripts could not make.
pub(super) fn check(retry: Option<&Retry>) -> Result<()> {
    retry
        .map_or(Ok(()), Retry::check)
        .map_err(StoreError::Unfit)
}

fn found(id: &JobId, (state, due_ms): (String, u64)) -> Result<Found> {
    let state = State::parse(&state).ok_or_else(|| StoreError::Unknown(id.to_string()))?;
    Ok(Found {
        state,
        due_ms,
        running: false,
    })
}

/// The last moment that a script can write down exactly.
const LAST_MS: u64 = 1 << 53;

/// The two arguments of a script that say when: one of them is empty.
fn parts(when: When) -> (String, String) {
    match when {
        When::After(delay) => (String::new(), millis(delay).min(LAST_MS).to_string()),
        When::At(due) => (due.min(LAST_MS).to_string(), String::new()),
    }
}

/// Fowler, Noll and Vo's hash (FNV-1a): every node and every version must compute the same.
pub(super) fn spread(key: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    // Its low bits alone are weak.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_partitions_and_stay_there() {
        let mut counts = [0; 16];
        (0..16_000).for_each(|n| counts[(spread(&format!("order-{n}")) % 16) as usize] += 1);
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
        assert_eq!(spread("a"), 0xaf63_dc4c_8601_ec8c ^ 0xaf63_dc4c);
    }
}
