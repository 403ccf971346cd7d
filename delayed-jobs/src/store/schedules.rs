//! Recurring jobs: a schedule has a next moment, and makes a job when that has passed.

use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::jobs::{check, restless};
use super::{AGREEMENTS, Place, Store};
use crate::error::{Result, StoreError};
use crate::job::{JobId, Priority, Queue, Retry, as_json, most_attempts};
use crate::recurrence::Recurrence;

/// A schedule to be set up.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// Its name; the same name again changes the schedule.
    pub name: String,
    /// When its jobs are due.
    pub recurrence: Recurrence,
    /// Handed to the consumer as it is.
    pub payload: String,
    /// How often each job is tried; without it, as often as the node's settings say.
    pub retry: Option<Retry>,
    /// Where its jobs wait for a consumer.
    pub queue: Queue,
    /// How urgent its jobs are there.
    pub priority: Priority,
    /// Whether it makes a job while its last one still waits.
    pub overlap: Overlap,
}

/// What a schedule does when its moment comes and its last job has neither ended nor died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It leaves this moment out.
    #[default]
    Skip,
    /// It makes another job.
    Allow,
}

impl Overlap {
    /// As the scripts read it.
    fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
        }
    }
}

/// A schedule as Redis keeps it.
#[derive(Clone, Debug, Serialize)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Where its jobs wait for a consumer.
    pub queue: Queue,
    /// How urgent its jobs are there.
    pub priority: Priority,
    /// `every` and milliseconds, or `cron`, a time zone and a pattern.
    pub recurrence: String,
    /// When its next job is due, in milliseconds since 1970.
    pub next_ms: u64,
    /// Its last job, if it has made one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Whether it makes a job while the last one still waits.
    pub overlap: Overlap,
    /// After so many failed attempts each of its jobs is dead.
    pub max_attempts: u32,
    /// What its jobs carry.
    #[serde(serialize_with = "as_json")]
    pub payload: String,
}

/// A schedule whose moment has passed: its name, this moment, its recurrence, its queue's suffix, and its priority.
pub(crate) type Passed = (String, u64, String, String, u8);

/// What setting a schedule up has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// There was none of this name.
    Created,
    /// There was another one of this name.
    Changed,
    /// There was the same one.
    Known,
}

impl Store {
    /// Sets a schedule up. The same one again changes nothing, so each start of a program can do it.
    /// Returns what was changed, and when the next job is due.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for a name or attempts that cannot be used, or a recurrence that never comes or more often
    /// than [`Recurrence::every`] allows; [`StoreError::Away`].
    pub async fn schedule(&self, new: &NewSchedule) -> Result<(Scheduled, u64)> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if !(1..=200).contains(&new.name.len()) || !new.name.chars().all(fits) {
            let said = "a schedule's name has 1 to 200 letters, digits, `-`, `_`, `.` and `:`";
            return Err(StoreError::Unfit(said.to_owned()));
        }
        check(new.retry.as_ref())?;
        self.refuse_eviction()?;
        if let Recurrence::Every(period) = new.recurrence {
            Recurrence::every(period).map_err(StoreError::Unfit)?;
        }
        for _ in 0..AGREEMENTS {
            let place = self.place_of_key(&new.name);
            match self.schedule_at(&place, new).await? {
                Some(scheduled) => return Ok(scheduled),
                None => _ = self.renew_place(&place).await?,
            }
        }
        Err(restless())
    }

    /// Sets a schedule up in a partition; `None` if that has lost what it kept.
    async fn schedule_at(
        &self,
        place: &Place,
        new: &NewSchedule,
    ) -> Result<Option<(Scheduled, u64)>> {
        let partition = place.partition;
        let now = self.redis_ms().await?;
        let first = new
            .recurrence
            .next(None, now)
            .map_err(|why| StoreError::Unfit(format!("`{}` never comes: {why}", new.recurrence)))?;
        let retry = new.retry.as_ref().unwrap_or(&self.settings.retry);
        let (recurrence, policy) = (new.recurrence.to_string(), retry.policy());
        let args = (
            &new.name,
            recurrence,
            &new.payload,
            policy,
            first,
            new.queue.suffix(),
            &*place.birth,
            new.priority.get(),
            new.overlap.word(),
        );
        let script = script!("schedule", "#!lua\n");
        let (word, next): (String, u64) = self.run(script, partition, args).await?;
        let scheduled = match word.as_str() {
            "created" => Scheduled::Created,
            "changed" => Scheduled::Changed,
            "lost" => return Ok(None),
            _ => Scheduled::Known,
        };
        Ok(Some((scheduled, next)))
    }

    /// Ends a schedule. Jobs that it has made stay.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn unschedule(&self, name: &str) -> Result<()> {
        let (script, partition) = (script!("unschedule"), self.partition_of_key(name));
        match self.run::<bool>(script, partition, (name, "")).await? {
            true => Ok(()),
            false => Err(StoreError::Unknown(name.to_owned())),
        }
    }

    /// Looks a schedule up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn get_schedule(&self, name: &str) -> Result<Schedule> {
        let base = self.base(self.partition_of_key(name));
        let key = format!("{base}:schedule:{name}");
        let fields = [
            "recurrence",
            "payload",
            "policy",
            "queue",
            "overlap",
            "priority",
            "job",
        ];
        let fields: [Option<String>; 7] = self.ask(&Cmd::hmget(key, &fields)).await?;
        let next: Option<u64> = self
            .ask(&Cmd::zscore(format!("{base}:schedules"), name))
            .await?;
        let [
            Some(recurrence),
            Some(payload),
            Some(policy),
            Some(queue),
            overlap,
            priority,
            job,
        ] = fields
        else {
            return Err(StoreError::Unknown(name.to_owned()));
        };
        let next_ms = next.ok_or_else(|| StoreError::Unknown(name.to_owned()))?;
        let priority = priority.and_then(|text| text.parse().ok()).unwrap_or(0);
        let job = job.map(|job| job.parse()).transpose();
        Ok(Schedule {
            name: name.to_owned(),
            queue: Queue::of_suffix(&queue),
            priority: Priority::new(priority).unwrap_or_default(),
            recurrence,
            next_ms,
            job: job.map_err(StoreError::Unfit)?,
            overlap: match overlap.as_deref() {
                Some("allow") => Overlap::Allow,
                _ => Overlap::Skip,
            },
            max_attempts: most_attempts(&policy),
            payload,
        })
    }

    /// The names of schedules, at most `limit`, from where another page ended, and where it goes on.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn schedules(
        &self,
        from: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<String>)> {
        self.refresh().await?;
        self.schedule_names(from, limit).await
    }

    /// Plans moments of a partition's schedules again that were planned while the clock of Redis was ahead.
    pub(crate) async fn replan(&self, partition: u16, now_ms: u64) -> Result<()> {
        let base = self.base(partition);
        let schedules = format!("{base}:schedules");
        let ahead = Cmd::zrangebyscore(&schedules, now_ms, "+inf");
        let names: Vec<String> = self.ask(&ahead).await?;
        for name in names {
            let key = format!("{base}:schedule:{name}");
            let recurrence: Option<String> = self.ask(&Cmd::hget(key, "recurrence")).await?;
            let recurrence = recurrence.and_then(|text| text.parse::<Recurrence>().ok());
            if let Some(Ok(next)) = recurrence.map(|one| one.next(None, now_ms)) {
                // Only if that is earlier, and the schedule has not ended meanwhile.
                let mut earlier = redis::cmd("ZADD");
                earlier
                    .arg(&schedules)
                    .arg("XX")
                    .arg("LT")
                    .arg(next)
                    .arg(name);
                let _: u64 = self.ask(&earlier).await?;
            }
        }
        Ok(())
    }

    /// Makes the job of a schedule whose moment has passed; ends a schedule that has no further one.
    pub(crate) async fn tick(
        &self,
        partition: u16,
        (name, at_ms, recurrence, queue, priority): &Passed,
        now_ms: u64,
    ) -> Result<()> {
        let read = recurrence.parse::<Recurrence>();
        let next = match read.and_then(|recurrence| recurrence.next(Some(*at_ms), now_ms)) {
            Ok(next) => next,
            Err(why) => {
                // Another one may have its name by now.
                let script = script!("unschedule");
                if self.run(script, partition, (name, at_ms)).await? {
                    tracing::error!(schedule = name, recurrence, "the schedule ends: {why}");
                }
                return Ok(());
            }
        };
        let priority = Priority::new(*priority).unwrap_or_default();
        let job = JobId::random(partition, &Queue::of_suffix(queue), priority);
        let args = (name, at_ms, next, job.as_str());
        let script = script!("tick", "#!lua\n");
        self.run::<u8>(script, partition, args).await.map(drop)
    }
}
