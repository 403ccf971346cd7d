//! Says why a job does not come.

use std::time::Duration;

use humantime::format_duration;
use redis::Cmd;

use super::Store;
use crate::error::Result;
use crate::job::{Job, Queue, State};
use crate::units::millis;

/// Now, how many jobs may come before it, and whether a node holds its partition, its queue is paused, and its queue is
/// limited; when a consumer last asked for the queue.
type Reply = (u64, u64, bool, bool, bool, u64);

impl Store {
    /// Says for what a job waits; `None` for one that has ended or is dead.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`](crate::StoreError::Away).
    pub async fn why(&self, job: &Job) -> Result<Option<String>> {
        if !matches!(job.state, State::Pending | State::Waiting | State::Running) {
            return Ok(None);
        }
        let (id, queue) = (&job.id, &job.queue);
        let script = script!("why");
        let reply = self.run(script, id.partition(), id.as_str());
        let (now, ahead, is_held, is_paused, is_limited, asked_ms): Reply = reply.await?;
        let time = |ms: u64| format_duration(Duration::from_millis(ms)).to_string();
        if job.state == State::Pending && job.due_ms > now {
            let what = match job.attempts {
                0 => "it is due",
                _ => "its next attempt is due",
            };
            return Ok(Some(format!("{what} in {}", time(job.due_ms - now))));
        }
        if let Some(end) = job.held_until_ms {
            let by = job.consumer.as_deref().unwrap_or("a consumer");
            let left = time(end.saturating_sub(now));
            return Ok(Some(format!("{by} holds it for {left} more")));
        }
        if job.state == State::Pending {
            let said = match is_held {
                true => "it is due, and its node is about to fire it",
                false => "it is due, and no node holds its partition",
            };
            return Ok(Some(said.to_owned()));
        }
        if job.expires_ms.is_some_and(|end| end <= now) {
            return Ok(Some(
                "it has expired, and is dead once a consumer asks for its queue".to_owned(),
            ));
        }
        if is_paused {
            return Ok(Some(format!("the queue `{queue}` is paused")));
        }
        if is_limited {
            if let Some(said) = self.reached_limit(queue, now).await? {
                return Ok(Some(said));
            }
        }
        if asked_ms < job.due_ms {
            let since = time(now.saturating_sub(job.due_ms));
            let said = format!(
                "no consumer has asked for the queue `{queue}` since the job was due, {since} ago"
            );
            return Ok(Some(said));
        }
        Ok(Some(format!(
            "it waits for a consumer, behind at most {ahead} jobs of its queue in its partition"
        )))
    }

    /// Says which limit of a queue is used up.
    async fn reached_limit(&self, queue: &Queue, now: u64) -> Result<Option<String>> {
        let Some(limits) = self.queue_rules().await?.0.remove(queue) else {
            return Ok(None);
        };
        let count = async |kind: &str, after: u64| -> Result<u64> {
            let key = self.permits_key(kind, queue);
            self.ask(&Cmd::zcount(key, format!("({after}"), "+inf"))
                .await
        };
        if let Some(most) = limits.concurrency {
            if count("held", now).await? >= u64::from(most) {
                return Ok(Some(format!(
                    "consumers hold {most} jobs of the queue `{queue}`, its limit"
                )));
            }
        }
        if let Some(rate) = limits.rate {
            if count("recent", now.saturating_sub(millis(rate.per))).await? >= u64::from(rate.jobs)
            {
                let per = format_duration(rate.per);
                let most = rate.jobs;
                return Ok(Some(format!(
                    "the queue `{queue}` has handed out {most} jobs within {per}, its limit"
                )));
            }
        }
        Ok(None)
    }
}
