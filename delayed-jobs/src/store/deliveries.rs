//! Hands jobs that have fired to consumers, and hears how they end.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{FromRedisValue, Script, ToRedisArgs};
use serde::{Serialize, Serializer};

use super::Store;
use crate::error::{Result, StoreError};
use crate::job::{JobId, Priority, Queue, as_json, most_attempts};
use crate::units::millis;

/// A job in a consumer's hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// The job's name, by which a repeated delivery is told.
    pub id: JobId,
    /// The queue it was taken from.
    pub queue: Queue,
    /// Its priority there.
    pub priority: Priority,
    /// What the job carries.
    #[serde(serialize_with = "as_json")]
    pub payload: String,
    /// When it was due, in milliseconds since 1970 on the clock of Redis.
    pub due_ms: u64,
    /// When it was made ready, on the same clock.
    pub fired_ms: u64,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// After so many failed attempts the job is dead.
    pub max_attempts: u32,
    /// The recurring schedule that has made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The trace that it is a part of, as W3C's Trace Context writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub(crate) receipt: Receipt,
}

fn as_text<S: Serializer>(receipt: &Receipt, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(receipt)
}

impl Delivery {
    /// Names this attempt when it is acknowledged over HTTP.
    #[must_use]
    pub fn receipt(&self) -> String {
        self.receipt.to_string()
    }
}

/// Ends a receipt whose job holds a permit of its queue.
const PERMIT: &str = "p";

/// One attempt of a job: all that is needed to end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) id: JobId,
    /// Counts requeued jobs' earlier attempts as well.
    pub(crate) take: u32,
    /// Whether a permit of its queue is held as long as the job.
    pub(crate) has_permit: bool,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.has_permit { PERMIT } else { "" };
        write!(f, "{}.{}{mark}", self.id, self.take)
    }
}

impl FromStr for Receipt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(id, take)| {
            let number = take.strip_suffix(PERMIT);
            Some((id, number.unwrap_or(take).parse().ok()?, number.is_some()))
        });
        match parts {
            Some((id, take, has_permit)) => Ok(Self {
                id: id.parse()?,
                take,
                has_permit,
            }),
            None => Err(format!(
                "`{}` is not a receipt of a delivery",
                text.chars().take(80).collect::<String>()
            )),
        }
    }
}

/// How a consumer takes jobs.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// How long it has for each.
    pub(crate) lasts: Duration,
    /// Its name, if it has one, for people.
    pub(crate) by: String,
}

/// What partitions have handed over.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) deliveries: Vec<Delivery>,
    /// Jobs that are still ready, or whose hold has ended.
    pub(crate) left: u64,
    /// Jobs whose record is gone.
    pub(crate) orphans: u64,
    /// Jobs whose attempts were found to be used up.
    pub(crate) died: u64,
    /// The queue has limits, and the request had no permits.
    pub(crate) needs_permits: bool,
    /// Jobs that are left of each priority, from 0 on, if the request was for none.
    pub(crate) waiting: Vec<u64>,
}

/// How jobs have failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nack {
    /// When the next attempt is due, instead of after the job's backoff.
    pub(crate) delay: Option<Duration>,
    /// There is no further attempt.
    pub(crate) dead: bool,
    /// What people are told.
    pub(crate) reason: String,
}

/// What a request to hold a job for longer has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Longer,
    /// This attempt did not hold the job any more.
    Stale,
    /// Neither did it, because the job was cancelled.
    Cancelled,
}

/// What a failed job has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The next attempt is due at this moment.
    Again(u64),
    Dead,
    /// This attempt did not hold the job any more.
    Stale,
}

impl Store {
    /// Takes at most `most` jobs of a queue from one partition, to be ended within the hold, or by the moment at which the
    /// permits for them end; that is 0 without permits. With a `most` of 0 it only counts what is left. If nothing is,
    /// this inbox is told of the next job.
    pub(crate) async fn take(
        &self,
        partition: u16,
        queue: &Queue,
        most: usize,
        hold: &Hold,
        permits_end_ms: u64,
        inbox: &str,
    ) -> Result<Taken> {
        let inbox = self.inbox_channel(partition, inbox);
        let (lasts_ms, by) = (millis(hold.lasts), &hold.by);
        let args = (most, lasts_ms, queue.suffix(), permits_end_ms, by, inbox);
        type Reply = (i64, u64, u64, Vec<Fields>, Vec<u64>);
        let (left, orphans, died, jobs, waiting): Reply =
            self.run(script!("take"), partition, args).await?;
        let deliveries = jobs.into_iter().map(delivery).collect::<Result<_, _>>()?;
        Ok(Taken {
            deliveries,
            left: u64::try_from(left).unwrap_or(0),
            orphans,
            died,
            needs_permits: left < 0,
            waiting,
        })
    }

    /// Tells another inbox that a partition has jobs of a queue.
    pub(crate) async fn pass(&self, partition: u16, queue: &Queue) -> Result<()> {
        let passed = self.run::<u8>(script!("pass"), partition, queue.suffix());
        passed.await.map(drop)
    }

    /// Ends jobs; whether each was still held.
    pub(crate) async fn acknowledge(&self, receipts: &[Receipt]) -> Result<Vec<bool>> {
        let retention = millis(self.settings().retention);
        let ended = self
            .for_each(receipts, script!("ack"), retention, false)
            .await?;
        self.give_permits_back(receipts).await;
        Ok(ended)
    }

    /// Lets jobs be held for longer.
    pub(crate) async fn extend(&self, receipts: &[Receipt], hold: Duration) -> Result<Vec<Held>> {
        // The permits first: a job that is held for longer than its permit is one too many.
        self.hold_permits(receipts, hold).await?;
        let held = self
            .for_each(receipts, script!("extend"), millis(hold), 0_i64)
            .await?;
        let one = |held: i64| match held {
            1 => Held::Longer,
            -1 => Held::Cancelled,
            _ => Held::Stale,
        };
        let held: Vec<Held> = held.into_iter().map(one).collect();
        // The hold of a job may have ended after its permit was kept.
        let stale = receipts.iter().zip(&held);
        let stale = stale.filter(|(_, held)| **held != Held::Longer);
        let stale: Vec<Receipt> = stale.map(|(receipt, _)| receipt.clone()).collect();
        self.give_permits_back(&stale).await;
        Ok(held)
    }

    /// Gives failed jobs back.
    pub(crate) async fn nack(&self, receipts: &[Receipt], nack: &Nack) -> Result<Vec<Failed>> {
        let delay = nack
            .delay
            .map_or_else(String::new, |delay| millis(delay).to_string());
        let args = (delay, u8::from(nack.dead), &nack.reason, fastrand::u32(..));
        let failed: Vec<i64> = self.for_each(receipts, script!("nack"), args, -2).await?;
        self.give_permits_back(receipts).await;
        let one = |moment: i64| match moment {
            -1 => Failed::Dead,
            moment => u64::try_from(moment).map_or(Failed::Stale, Failed::Again),
        };
        Ok(failed.into_iter().map(one).collect())
    }

    /// Runs a script for each partition that the receipts name; `none` answers for those of partitions
    /// that do not exist.
    async fn for_each<T: FromRedisValue + Clone>(
        &self,
        receipts: &[Receipt],
        script: &Script,
        args: impl ToRedisArgs,
        none: T,
    ) -> Result<Vec<T>> {
        let mut parts: HashMap<u16, Vec<usize>> = HashMap::new();
        for (at, receipt) in receipts.iter().enumerate() {
            parts.entry(receipt.id.partition()).or_default().push(at);
        }
        let calls = parts.into_iter().map(|(partition, places)| {
            let one = |at: &usize| (receipts[*at].id.as_str(), receipts[*at].take);
            let args = (&args, places.iter().map(one).collect::<Vec<_>>());
            async move { (places, self.run::<Vec<T>>(script, partition, args).await) }
        });
        let mut answers = vec![none; receipts.len()];
        for (places, result) in join_all(calls).await {
            for (at, answer) in places.into_iter().zip(result?) {
                answers[at] = answer;
            }
        }
        Ok(answers)
    }
}

/// A delivery as the script returns it.
type Fields = (
    String,
    u32,
    u32,
    String,
    u64,
    u64,
    String,
    Option<String>,
    Option<String>,
);

fn delivery(fields: Fields) -> Result<Delivery> {
    let (id, take, spent, policy, due_ms, fired_ms, payload, schedule, traceparent) = fields;
    let id: JobId = id.parse().map_err(StoreError::Unfit)?;
    Ok(Delivery {
        receipt: Receipt {
            id: id.clone(),
            take,
            has_permit: false,
        },
        queue: id.queue(),
        priority: id.priority(),
        id,
        payload,
        due_ms,
        fired_ms,
        attempt: take.saturating_sub(spent),
        max_attempts: most_attempts(&policy),
        schedule,
        traceparent,
    })
}
