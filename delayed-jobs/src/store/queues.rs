//! Queues: what each may hand out, and what it holds. A rule that `take` must know is in each partition, so it counts from
//! the moment at which the request for it is answered. Permits are of the whole namespace: they are in one place.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::Cmd;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::Store;
use super::deliveries::{Delivery, Receipt};
use crate::error::{Result, StoreError};
use crate::job::Queue;
use crate::units::{millis, random};

/// The most that a limit can be.
pub(crate) const MOST: u32 = 100_000;

/// The most queues that may be paused, and the most that may have limits: each one has metrics.
const MOST_RULED: u64 = 1000;

/// The longest time of a rate.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What a queue hands out at most, over all nodes and consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Jobs that consumers hold at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Jobs that are handed out within a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// At most `jobs` within any time of length `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many jobs.
    pub jobs: u32,
    /// Within which time; parts of a millisecond count as one.
    pub per: Duration,
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Rate", 2)?;
        fields.serialize_field("jobs", &self.jobs)?;
        fields.serialize_field("per_ms", &millis(self.per))?;
        fields.end()
    }
}

impl Limits {
    /// Says what is wrong with them, if anything is.
    fn check(&self) -> Result<(), String> {
        let fits = |count: u32| (1..=MOST).contains(&count);
        if !self.concurrency.is_none_or(fits) || !self.rate.is_none_or(|rate| fits(rate.jobs)) {
            return Err(format!("a limit is a number of jobs from 1 to {MOST}"));
        }
        if self
            .rate
            .is_some_and(|rate| rate.per.is_zero() || rate.per > LONGEST)
        {
            return Err("rate.per: use more than 0 and at most 24h".to_owned());
        }
        Ok(())
    }

    /// As the scripts read them: concurrency, rate and its time, each 0 if there is none.
    fn text(&self) -> String {
        let (jobs, per) = self
            .rate
            .map_or((0, 0), |rate| (rate.jobs, millis(rate.per)));
        format!("{} {jobs} {per}", self.concurrency.unwrap_or(0))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let count = |number: u64| u32::try_from(number).ok().filter(|count| *count > 0);
        let (concurrency, jobs, per) = (count(next()?), count(next()?), next()?);
        let rate = |jobs| Rate {
            jobs,
            per: Duration::from_millis(per),
        };
        Some(Self {
            concurrency,
            rate: jobs.map(rate),
        })
    }
}

/// Refuses a rule for another queue if so many queues have such a rule already.
fn check_room(known: bool, count: u64, what: &str) -> Result<()> {
    match known || count < MOST_RULED {
        true => Ok(()),
        false => Err(StoreError::Unfit(format!(
            "queue: this is one too many, {count} {what} already"
        ))),
    }
}

/// Leave to take jobs of a queue that has limits.
#[derive(Debug)]
pub(crate) struct Permits {
    /// How many jobs may be taken.
    pub(crate) count: usize,
    /// Names the request that they were granted to; none if the queue has no limits any more.
    name: Option<String>,
    /// When there may be more.
    pub(crate) again: Option<Duration>,
    /// When they end, in milliseconds since 1970 on the clock of Redis.
    pub(crate) end_ms: u64,
}

impl Permits {
    /// Whether the queue still has limits.
    pub(crate) fn are_needed(&self) -> bool {
        self.name.is_some()
    }
}

impl Store {
    /// Sets the limits of a queue; [`Limits::default`] lifts them. They hold for what is handed out from now on.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for limits that are not possible, or if 1000 other queues have limits;
    /// [`StoreError::Away`], then repeat it.
    pub async fn set_limits(&self, queue: &Queue, limits: &Limits) -> Result<()> {
        limits.check().map_err(StoreError::Unfit)?;
        let key = format!("{}:limits", self.queues_base());
        if *limits == Limits::default() {
            let _: u64 = self.ask(&Cmd::hdel(&key, queue.suffix())).await?;
        } else {
            let known = self.ask(&Cmd::hexists(&key, queue.suffix())).await?;
            let count = self.ask(&Cmd::hlen(&key)).await?;
            check_room(known, count, "have limits")?;
            let set = Cmd::hset(&key, queue.suffix(), limits.text());
            let _: u64 = self.ask(&set).await?;
        }
        let has_limits = Cmd::hexists(key, queue.suffix());
        self.spread_rule("limited", queue, 0, &has_limits).await?;
        self.announce_queue(queue).await
    }

    /// Pauses a queue, or lets it go on. A paused one takes jobs and lets them fire, and hands none out.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if 1000 other queues are paused; [`StoreError::Away`], then repeat it.
    pub async fn set_paused(&self, queue: &Queue, paused: bool) -> Result<()> {
        let of_first = self.rules(0);
        let rule = format!("paused:{}", queue.suffix());
        if paused {
            let known = self.ask(&Cmd::sismember(&of_first, &rule)).await?;
            let (_, paused) = self.queue_rules().await?;
            check_room(known, paused.len() as u64, "are paused")?;
        }
        self.set_rule(0, &rule, paused).await?;
        let is_paused = Cmd::sismember(of_first, rule);
        self.spread_rule("paused", queue, 1, &is_paused).await?;
        self.announce_queue(queue).await
    }

    /// Writes a rule into each partition from `first` on if `holds` says so, or takes it away. Other requests may do the
    /// same, and nodes may add partitions meanwhile: it is written again until nothing has changed.
    async fn spread_rule(&self, kind: &str, queue: &Queue, first: u16, holds: &Cmd) -> Result<()> {
        let rule = format!("{kind}:{}", queue.suffix());
        let mut wanted = (self.ask::<bool>(holds).await?, self.reach().await?);
        loop {
            for partition in first..wanted.1 {
                self.set_rule(partition, &rule, wanted.0).await?;
            }
            let now = (self.ask(holds).await?, self.reach().await?);
            if now == wanted {
                return Ok(());
            }
            wanted = now;
        }
    }

    async fn set_rule(&self, partition: u16, rule: &str, holds: bool) -> Result<()> {
        let key = self.rules(partition);
        let change = match holds {
            true => Cmd::sadd(key, rule),
            false => Cmd::srem(key, rule),
        };
        self.ask::<u64>(&change).await.map(drop)
    }

    /// Lets consumers that wait for this queue ask again.
    async fn announce_queue(&self, queue: &Queue) -> Result<()> {
        let notice = format!("* {}", queue.suffix());
        let _: u64 = self
            .ask(&Cmd::publish(self.ready_channel(), notice))
            .await?;
        Ok(())
    }

    /// Asks how many partitions rules are written into: those that there are, and those that a node is about to add.
    async fn reach(&self) -> Result<u16> {
        let fields = Cmd::hmget(self.noted(), &["partitions", "rule_partitions"]);
        let [partitions, reach]: [Option<u16>; 2] = self.ask(&fields).await?;
        self.learn(partitions.unwrap_or(0));
        Ok(self.partitions().max(reach.unwrap_or(0)))
    }

    /// Copies the rules into partitions that are about to be added, into which requests write rules already.
    pub(super) async fn copy_rules(&self, added: std::ops::Range<u16>) -> Result<()> {
        let mut copied = HashSet::new();
        loop {
            let mut rules: HashSet<String> = self.ask(&Cmd::smembers(self.rules(0))).await?;
            // That is of the jobs there.
            rules.retain(|rule| !rule.starts_with("urgent:"));
            if rules == copied {
                return Ok(());
            }
            for partition in added.clone() {
                for rule in rules.symmetric_difference(&copied) {
                    self.set_rule(partition, rule, rules.contains(rule)).await?;
                }
            }
            copied = rules;
        }
    }

    /// Returns the limits of all queues that have some, and the queues that are paused.
    pub(super) async fn queue_rules(&self) -> Result<(HashMap<Queue, Limits>, Vec<Queue>)> {
        let key = format!("{}:limits", self.queues_base());
        let limits: HashMap<String, String> = self.ask(&Cmd::hgetall(key)).await?;
        let limits = limits
            .into_iter()
            .filter_map(|(queue, text)| Some((Queue::of_suffix(&queue), Limits::parse(&text)?)));
        let rules: Vec<String> = self.ask(&Cmd::smembers(self.rules(0))).await?;
        let paused = rules.iter().filter_map(|rule| rule.strip_prefix("paused:"));
        Ok((limits.collect(), paused.map(Queue::of_suffix).collect()))
    }

    fn rules(&self, partition: u16) -> String {
        format!("{}:rules", self.base(partition))
    }

    fn queues_base(&self) -> String {
        format!("{}:{{queues}}", self.settings().namespace)
    }

    /// The key of a set of the permits of a queue.
    pub(super) fn permits_key(&self, kind: &str, queue: &Queue) -> String {
        let base = self.queues_base();
        match queue.suffix() {
            "" => format!("{base}:{kind}"),
            name => format!("{base}:{kind}:{name}"),
        }
    }

    /// Asks for leave to take at most `most` jobs, each held for `hold`.
    pub(crate) async fn permits(
        &self,
        queue: &Queue,
        most: usize,
        hold: Duration,
    ) -> Result<Permits> {
        let name = format!("{:016x}", random());
        let args = (queue.suffix(), most, millis(hold), &name);
        let granted = self.timed(script!("permit"), self.queues_base(), args);
        let (count, again, end_ms): (i64, i64, u64) = match granted.await {
            Ok(granted) => granted.value,
            Err(error) => {
                // It may have been carried out all the same.
                let granted = Permits {
                    count: most,
                    name: Some(name),
                    again: None,
                    end_ms: 0,
                };
                let _ = self.settle(queue, &granted, &mut []).await;
                return Err(error);
            }
        };
        let again = u64::try_from(again).ok().map(Duration::from_millis);
        Ok(match usize::try_from(count) {
            Ok(count) => Permits {
                count,
                name: Some(name),
                again,
                end_ms,
            },
            Err(_) => Permits {
                count: most,
                name: None,
                again: None,
                end_ms: 0,
            },
        })
    }

    /// Notes for which jobs permits were used, and gives the others back.
    pub(crate) async fn settle(
        &self,
        queue: &Queue,
        permits: &Permits,
        taken: &mut [Delivery],
    ) -> Result<()> {
        let Some(name) = permits.name.as_ref().filter(|_| permits.count > 0) else {
            return Ok(());
        };
        taken
            .iter_mut()
            .for_each(|one| one.receipt.has_permit = true);
        let receipts: Vec<String> = taken.iter().map(Delivery::receipt).collect();
        let args = (
            queue.suffix(),
            name,
            permits.count,
            permits.end_ms,
            receipts,
        );
        let settled = self.timed::<u8>(script!("settle"), self.queues_base(), args);
        settled.await.map(drop)
    }

    /// Gives back the permits of attempts that have ended. Those of a request that fails end with the hold.
    pub(super) async fn give_permits_back(&self, receipts: &[Receipt]) {
        if let Err(error) = self.hold_permits(receipts, Duration::ZERO).await {
            tracing::debug!("permits are kept until their holds end: {error}");
        }
    }

    /// Keeps permits for `hold` from now, or gives them back if that is zero.
    pub(super) async fn hold_permits(&self, receipts: &[Receipt], hold: Duration) -> Result<()> {
        let mut of_queues: HashMap<Queue, Vec<String>> = HashMap::new();
        for receipt in receipts.iter().filter(|receipt| receipt.has_permit) {
            let of_one = of_queues.entry(receipt.id.queue()).or_default();
            of_one.push(receipt.to_string());
        }
        for (queue, receipts) in of_queues {
            let args = (queue.suffix(), millis(hold), self.ready_channel(), receipts);
            let held = self.timed::<u8>(script!("hold_permits"), self.queues_base(), args);
            held.await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let rate = Rate {
            jobs: 7,
            per: Duration::from_millis(1500),
        };
        for (concurrency, rate) in [(Some(3), Some(rate)), (Some(1), None), (None, Some(rate))] {
            let limits = Limits { concurrency, rate };
            assert_eq!(Limits::parse(&limits.text()), Some(limits));
        }
        assert_eq!(Limits::parse("1 2"), None);
    }
}
