//! Lists of jobs by state, idempotency key and time, page by page; what is done to all dead jobs.

use std::collections::HashMap;

use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, Script};
use serde::{Deserialize, Serialize};

use super::Store;
use crate::error::{Result, StoreError};
use crate::job::{Job, JobId, Queue};
use crate::units::millis;

/// Ids that one script is given.
const AT_ONCE: usize = 500;

/// The jobs that a list is of. Redis keeps no list of ended ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listed {
    /// Those that wait for their time, the next first.
    #[default]
    Pending,
    /// The pending ones that have failed, the next first.
    Retrying,
    /// Those that wait for a consumer, the first one that has fired first.
    Waiting,
    /// Those that consumers hold, in the order in which their holds end.
    Running,
    /// Those whose attempts are used up, the last first.
    Dead,
}

impl Listed {
    /// As the scripts name the sets.
    fn kind(self) -> &'static str {
        match self {
            Self::Pending => "due",
            Self::Retrying => "retry",
            Self::Waiting => "ready",
            Self::Running => "held",
            Self::Dead => "dead",
        }
    }
}

/// Which jobs are wanted.
#[derive(Clone, Debug)]
pub struct Search {
    /// The list they are in.
    pub state: Listed,
    /// At this moment or later, in milliseconds since 1970: when they are due, have fired, or died, or when
    /// their holds end.
    pub after_ms: u64,
    /// Before this moment.
    pub before_ms: u64,
    /// Only those of this queue.
    pub queue: Option<Queue>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            state: Listed::Pending,
            after_ms: 0,
            before_ms: u64::MAX,
            queue: None,
        }
    }
}

/// Which dead jobs something is done to.
#[derive(Clone, Copy, Debug)]
pub enum DeadJobs<'a> {
    /// Those of these that are dead.
    These(&'a [JobId]),
    /// Those of a queue.
    Of(&'a Queue),
    /// All.
    All,
}

/// A part of a list of jobs.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// In the order that the list has.
    pub jobs: Vec<Job>,
    /// Where the list goes on, if it does.
    pub next: Option<String>,
}

/// Members of a list, and where it goes on.
type Members = (Vec<String>, Option<String>);

/// A range of a partition's jobs that have moments.
struct Range<'a> {
    kind: &'a str,
    queue: Option<&'a Queue>,
    /// As Redis writes ranges: `(` excludes what comes after it.
    first: String,
    last: String,
    backwards: bool,
    skip: usize,
    most: usize,
}

impl Store {
    /// Pending jobs, at most `limit`, from where another page ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn list(&self, from: Option<&str>, limit: usize) -> Result<Page> {
        self.search(&Search::default(), from, limit).await
    }

    /// Lists jobs, at most `limit`, from where another page ended. A page may hold fewer jobs though there are more. The
    /// end of a page counts the jobs of its last moment: if some of them leave the list before the next page is asked for,
    /// as many others are passed over.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn search(&self, search: &Search, from: Option<&str>, limit: usize) -> Result<Page> {
        self.refresh().await?;
        let (ids, next) = self.by_moment(search, from, limit).await?;
        let ids = ids.iter().filter_map(|id| id.parse().ok());
        let found = join_all(ids.map(async |id: JobId| self.get(&id).await)).await;
        // A job that is unknown has ended while the list was read.
        let found = found
            .into_iter()
            .filter(|job| !matches!(job, Err(StoreError::Unknown(_))));
        let jobs = found.collect::<Result<_>>()?;
        Ok(Page { jobs, next })
    }

    /// Dead jobs, at most `limit`, those that died last coming first, from where another page ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn dead(&self, from: Option<&str>, limit: usize) -> Result<Page> {
        let dead = Search {
            state: Listed::Dead,
            ..Search::default()
        };
        self.search(&dead, from, limit).await
    }

    /// Finds the job that an idempotency key has made.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn by_key(&self, key: &str) -> Result<JobId> {
        let once = format!("{}:once:{key}", self.base(self.partition_of_key(key)));
        let id: Option<String> = self.ask(&Cmd::hget(once, "id")).await?;
        let id = id.and_then(|id| id.parse().ok());
        id.ok_or_else(|| StoreError::Unknown(format!("of the key `{key}`")))
    }

    /// Returns names of schedules, partition by partition.
    pub(super) async fn schedule_names(&self, from: Option<&str>, limit: usize) -> Result<Members> {
        let (mut partition, _, mut skip) = place(from, 0)?;
        let mut names = Vec::new();
        while partition < self.partitions() && names.len() < limit {
            let (first, most) = (index(skip), index(limit - names.len()));
            let last = first.saturating_add(most - 1);
            let key = format!("{}:schedules", self.base(partition));
            let found: Vec<String> = self.ask(&Cmd::zrange(key, first, last)).await?;
            skip += found.len();
            if found.is_empty() {
                (partition, skip) = (partition + 1, 0);
            }
            names.extend(found);
        }
        let next = partition < self.partitions();
        Ok((names, next.then(|| format!("{partition}.0.{skip}"))))
    }

    /// Returns jobs in the order of their moments, partition by partition where several have one.
    async fn by_moment(
        &self,
        search: &Search,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Members> {
        let backwards = search.state == Listed::Dead;
        let end = if backwards {
            search.before_ms
        } else {
            search.after_ms
        };
        let (begin, moment, skip) = place(from, end)?;
        let partitions = self.partitions();
        // Twice its share of each: jobs are spread at random.
        let share = limit.saturating_mul(2) / usize::from(partitions);
        let most = share.saturating_add(10).min(limit);
        let parts = (0..partitions).map(async |partition| -> Result<Vec<(u64, u16, String)>> {
            // The page before has ended amid the jobs of its last moment.
            let is_passed = from.is_some() && partition < begin;
            let excluded = is_passed || from.is_none() && backwards;
            let (first, last) = match backwards {
                true => {
                    let edge = format!("{}{moment}", if excluded { "(" } else { "" });
                    (search.after_ms.to_string(), edge)
                }
                // A moment of firing has parts.
                false => {
                    let edge = moment.saturating_add(u64::from(excluded));
                    (edge.to_string(), format!("({}", search.before_ms))
                }
            };
            let range = Range {
                kind: search.state.kind(),
                queue: search.queue.as_ref(),
                first,
                last,
                backwards,
                skip: if partition == begin { skip } else { 0 },
                most,
            };
            let found = self.range(partition, range).await?;
            Ok(found
                .into_iter()
                .map(|(id, at)| (at, partition, id))
                .collect())
        });
        let parts = try_join_all(parts).await?;
        let order = |one: &(u64, u16, String)| match backwards {
            true => (u64::MAX - one.0, one.1),
            false => (one.0, one.1),
        };
        // Behind the last one of a partition that may have more nothing is known to be next.
        let cut = parts.iter().filter(|part| part.len() == most);
        let cut = cut.filter_map(|part| part.last().map(order)).min();
        let mut found: Vec<_> = parts.into_iter().flatten().collect();
        found.sort_by_key(order);
        let all = found.len();
        if let Some(cut) = cut {
            found.retain(|one| order(one) <= cut);
        }
        found.truncate(limit);
        let next = found.last().filter(|_| cut.is_some() || found.len() < all);
        let next = next.map(|&(at, partition, _)| {
            let of_last = |one: &&(u64, u16, String)| (one.0, one.1) == (at, partition);
            let before = if (moment, begin) == (at, partition) {
                skip
            } else {
                0
            };
            let skip = before + found.iter().filter(of_last).count();
            format!("{partition}.{at}.{skip}")
        });
        Ok((found.into_iter().map(|one| one.2).collect(), next))
    }

    /// Returns a range of a partition's jobs, with their moments.
    async fn range(&self, partition: u16, range: Range<'_>) -> Result<Vec<(String, u64)>> {
        let args = (
            range.kind,
            range.queue.map_or("*", Queue::suffix),
            range.first,
            range.last,
            u8::from(range.backwards),
            range.skip,
            // A number that the script can count with.
            range.most.min(u32::MAX as usize),
        );
        self.run(script!("list"), partition, args).await
    }

    /// Gives dead jobs all their attempts again, and makes them due now. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be due again.
    pub async fn requeue(&self, jobs: DeadJobs<'_>) -> Result<u64> {
        self.resolve(script!("requeue"), jobs).await
    }

    /// Forgets dead jobs. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be forgotten.
    pub async fn purge(&self, jobs: DeadJobs<'_>) -> Result<u64> {
        self.resolve(script!("purge"), jobs).await
    }

    async fn resolve(&self, script: &Script, jobs: DeadJobs<'_>) -> Result<u64> {
        let mut count = 0;
        let queue = match jobs {
            DeadJobs::These(ids) => {
                let mut parts: HashMap<u16, Vec<&str>> = HashMap::new();
                for id in ids {
                    parts.entry(id.partition()).or_default().push(id.as_str());
                }
                for (partition, ids) in parts {
                    for ids in ids.chunks(AT_ONCE) {
                        count += self.run::<u64>(script, partition, ids).await?;
                    }
                }
                return Ok(count);
            }
            DeadJobs::Of(queue) => Some(queue),
            DeadJobs::All => None,
        };
        self.refresh().await?;
        // Jobs that die from now on are left to the next request.
        let last = self.redis_ms().await?;
        for partition in 0..self.partitions() {
            while let Some(resolved) = self
                .resolve_first(script, partition, queue, &last.to_string(), AT_ONCE)
                .await?
            {
                count += resolved;
            }
        }
        Ok(count)
    }

    /// Does something to the first dead jobs of a partition, at most `most`, that died until `last`; `None` if there are
    /// none.
    async fn resolve_first(
        &self,
        script: &Script,
        partition: u16,
        queue: Option<&Queue>,
        last: &str,
        most: usize,
    ) -> Result<Option<u64>> {
        let range = Range {
            kind: "dead",
            queue,
            first: "-inf".to_owned(),
            last: last.to_owned(),
            backwards: false,
            skip: 0,
            most,
        };
        let dead = self.range(partition, range).await?;
        if dead.is_empty() {
            return Ok(None);
        }
        let ids: Vec<String> = dead.into_iter().map(|(id, _)| id).collect();
        self.run(script, partition, ids).await.map(Some)
    }

    /// Forgets dead jobs of a partition that the settings do not keep, at most [`AT_ONCE`] for each of the two settings;
    /// how many they were.
    pub(crate) async fn prune(&self, partition: u16) -> Result<u64> {
        let (settings, script) = (self.settings(), script!("purge"));
        let mut count = 0;
        if let Some(kept) = settings.dead_retention {
            let last = self.redis_ms().await?.saturating_sub(millis(kept));
            let forgotten = self
                .resolve_first(script, partition, None, &last.to_string(), AT_ONCE)
                .await?;
            count += forgotten.unwrap_or(0);
        }
        if let Some(most) = settings.max_dead {
            let kept = most.div_ceil(u64::from(self.partitions()));
            let more = self.dead_in(partition).await?.saturating_sub(kept);
            let more = usize::try_from(more).unwrap_or(AT_ONCE).min(AT_ONCE);
            if more > 0 {
                let forgotten = self.resolve_first(script, partition, None, "+inf", more);
                count += forgotten.await?.unwrap_or(0);
            }
        }
        Ok(count)
    }
}

fn index(n: usize) -> isize {
    isize::try_from(n).unwrap_or(isize::MAX)
}

/// Reads where a page ended: partition, moment, and how many entries come before.
fn place(from: Option<&str>, begin: u64) -> Result<(u16, u64, usize)> {
    let Some(text) = from else {
        return Ok((0, begin, 0));
    };
    let mut parts = text.split('.');
    let mut part = || parts.next()?.parse::<u64>().ok();
    let read = (|| Some((part()?.try_into().ok()?, part()?, part()?.try_into().ok()?)))();
    read.filter(|_| parts.next().is_none())
        .ok_or_else(|| StoreError::Unfit(format!("`{text}` is not the end of a page of this list")))
}
