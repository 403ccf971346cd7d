//! Lists of jobs by state, idempotency key and time, page by page; what is done to all dead jobs.

use std::collections::HashMap;

use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, Script};
use serde::Serialize;

use super::Store;
use crate::error::{Result, StoreError};
use crate::job::{Job, JobId, Priority, Queue, State};

/// Ids that one script is given.
const AT_ONCE: usize = 500;

/// Pages that are looked through for a job of the wanted queue before an empty one is the answer.
const PAGES: usize = 20;

/// The jobs that a list is of.
#[derive(Clone, Debug)]
pub struct Search {
    /// Pending, fired or dead; Redis keeps no list of ended jobs.
    pub state: State,
    /// Due at this moment or later, in milliseconds since 1970.
    pub after_ms: u64,
    /// Due before this moment.
    pub before_ms: u64,
    /// Only those of this queue.
    pub queue: Option<Queue>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            state: State::Pending,
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
    /// Pending jobs in the order of their deadlines; others partition by partition.
    pub jobs: Vec<Job>,
    /// Where the list goes on, if it does.
    pub next: Option<String>,
}

/// What a page is a part of.
#[derive(Clone, Copy)]
pub(super) enum List<'a> {
    /// Pending jobs by their moments.
    Due(&'a Search),
    /// Fired jobs: in each partition those that wait for a consumer, then those that consumers hold.
    Fired,
    /// The members of a sorted set of each partition.
    Set(&'static str),
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
    /// end of a page counts jobs, of those that are pending only those due at its last moment: if some of them leave the
    /// list before the next page is asked for, as many others are passed over.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page or the state has no list,
    /// [`StoreError::Away`].
    pub async fn search(&self, search: &Search, from: Option<&str>, limit: usize) -> Result<Page> {
        let list = match search.state {
            State::Pending => List::Due(search),
            State::Fired => List::Fired,
            State::Dead => List::Set("dead"),
            ended => {
                let hint = format!("there is no list of {ended} jobs; ask by id or key");
                return Err(StoreError::Unfit(hint));
            }
        };
        let (mut ids, mut next) = self.members(list, from, limit).await?;
        let is_wanted = |id: &JobId| {
            search
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == id.queue())
        };
        let wanted = |ids: Vec<String>| -> Vec<JobId> {
            let ids = ids.iter().filter_map(|id| id.parse().ok());
            ids.filter(is_wanted).collect()
        };
        let mut found = wanted(std::mem::take(&mut ids));
        // The jobs of a small queue are few among all.
        for _ in 0..PAGES {
            let Some(from) = next.as_deref().filter(|_| found.is_empty()) else {
                break;
            };
            (ids, next) = self.members(list, Some(from), AT_ONCE.min(limit)).await?;
            found = wanted(ids);
        }
        let ids = found.into_iter();
        let found = join_all(ids.map(async |id| self.get(&id).await)).await;
        // A job that is unknown has ended while the list was read.
        let found = found
            .into_iter()
            .filter(|job| !matches!(job, Err(StoreError::Unknown(_))));
        let mut jobs: Vec<Job> = found.collect::<Result<_>>()?;
        jobs.retain(|job| (search.after_ms..search.before_ms).contains(&job.due_ms));
        Ok(Page { jobs, next })
    }

    /// Dead jobs, at most `limit`, those that died first coming first in each partition, from where another
    /// page ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn dead(&self, from: Option<&str>, limit: usize) -> Result<Page> {
        self.search(
            &Search {
                state: State::Dead,
                ..Search::default()
            },
            from,
            limit,
        )
        .await
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

    /// Returns the members of a list, at most `limit`, from where another page ended, and where it goes on.
    pub(super) async fn members(
        &self,
        list: List<'_>,
        from: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<String>)> {
        self.refresh().await?;
        if let List::Due(search) = list {
            return self.due(search, from, limit).await;
        }
        let (mut partition, _, mut skip) = place(from, 0)?;
        let mut ids = Vec::new();
        while partition < self.partitions() && ids.len() < limit {
            let base = self.base(partition);
            let (first, most) = (index(skip), index(limit - ids.len()));
            let last = first.saturating_add(most - 1);
            let found: Vec<String> = match list {
                List::Set(set) => {
                    let range = Cmd::zrange(format!("{base}:{set}"), first, last);
                    self.ask(&range).await?
                }
                _ => self.fired(&base, first, last).await?,
            };
            skip += found.len();
            if found.is_empty() {
                (partition, skip) = (partition + 1, 0);
            }
            ids.extend(found);
        }
        let next = partition < self.partitions();
        Ok((ids, next.then(|| format!("{partition}.0.{skip}"))))
    }

    /// Returns fired jobs of a partition, queue by queue: those that wait for a consumer, then those that are held.
    async fn fired(&self, base: &str, mut first: isize, mut last: isize) -> Result<Vec<String>> {
        let named: Vec<String> = self.ask(&Cmd::hkeys(format!("{base}:queues"))).await?;
        let mut suffixes: Vec<String> = named.iter().map(|name| format!(":{name}")).collect();
        suffixes.push(String::new());
        suffixes.sort_unstable();
        for suffix in suffixes {
            let held = format!("{base}:held{suffix}");
            let urgent = (1..=Priority::HIGHEST.get()).rev();
            let urgent = urgent.map(|priority| format!("{base}:ready{priority}{suffix}"));
            let mut lists: Vec<String> = urgent.collect();
            // Most queues have no priorities.
            if self.ask::<u64>(&Cmd::exists(&lists)).await? == 0 {
                lists.clear();
            }
            lists.push(format!("{base}:ready{suffix}"));
            for ready in lists {
                let found: Vec<String> = self.ask(&Cmd::lrange(&ready, first, last)).await?;
                if !found.is_empty() {
                    let id = |item: &String| Some(item.split(' ').next()?.to_owned());
                    return Ok(found.iter().filter_map(id).collect());
                }
                let waiting: isize = self.ask(&Cmd::llen(ready)).await?;
                (first, last) = ((first - waiting).max(0), (last - waiting).max(0));
            }
            let found: Vec<String> = self.ask(&Cmd::zrange(&held, first, last)).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            let taken: isize = self.ask(&Cmd::zcard(held)).await?;
            (first, last) = ((first - taken).max(0), (last - taken).max(0));
        }
        Ok(Vec::new())
    }

    /// Returns pending jobs in the order of their moments, partition by partition where several are due at one.
    async fn due(
        &self,
        search: &Search,
        from: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<String>)> {
        let (begin, moment, skip) = place(from, search.after_ms)?;
        let partitions = self.partitions();
        // Twice its share of each: jobs are spread at random.
        let share = limit.saturating_mul(2) / usize::from(partitions);
        let most = share.saturating_add(10).min(limit);
        let parts = (0..partitions).map(async |partition| -> Result<Vec<(u64, u16, String)>> {
            // The page before has ended amid the jobs of its last moment.
            let after = match partition < begin {
                true => format!("({moment}"),
                false => moment.to_string(),
            };
            let skip = if partition == begin { skip } else { 0 };
            let (key, before) = (
                self.base(partition) + ":due",
                format!("({}", search.before_ms),
            );
            let (skip, most) = (index(skip), index(most));
            let range = Cmd::zrangebyscore_limit_withscores(key, after, before, skip, most);
            let found: Vec<(String, u64)> = self.ask(&range).await?;
            let one = |(id, due)| (due, partition, id);
            Ok(found.into_iter().map(one).collect())
        });
        let parts = try_join_all(parts).await?;
        // Behind the last one of a partition that may have more nothing is known to be next.
        let cut = parts.iter().filter(|part| part.len() == most);
        let cut = cut
            .filter_map(|part| part.last().map(|last| (last.0, last.1)))
            .min();
        let mut found: Vec<_> = parts.into_iter().flatten().collect();
        found.sort_by_key(|one| (one.0, one.1));
        let all = found.len();
        if let Some(cut) = cut {
            found.retain(|one| (one.0, one.1) <= cut);
        }
        found.truncate(limit);
        let next = found.last().filter(|_| cut.is_some() || found.len() < all);
        let next = next.map(|&(due, partition, _)| {
            let of_last = |one: &&(u64, u16, String)| (one.0, one.1) == (due, partition);
            let before = if (moment, begin) == (due, partition) {
                skip
            } else {
                0
            };
            let skip = before + found.iter().filter(of_last).count();
            format!("{partition}.{due}.{skip}")
        });
        Ok((found.into_iter().map(|one| one.2).collect(), next))
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
        let mut parts: HashMap<u16, Vec<String>> = HashMap::new();
        if let DeadJobs::These(ids) = jobs {
            for id in ids {
                parts
                    .entry(id.partition())
                    .or_default()
                    .push(id.to_string());
            }
        } else {
            self.refresh().await?;
            for partition in 0..self.partitions() {
                // Jobs that die meanwhile are left to the next request.
                let all = Cmd::zrange(self.base(partition) + ":dead", 0, -1);
                let mut ids: Vec<String> = self.ask(&all).await?;
                if let DeadJobs::Of(queue) = jobs {
                    ids.retain(|id| id.parse().is_ok_and(|id: JobId| id.queue() == *queue));
                }
                parts.insert(partition, ids);
            }
        }
        let mut count = 0;
        for (partition, ids) in parts {
            for ids in ids.chunks(AT_ONCE) {
                count += self.run::<u64>(script, partition, ids).await?;
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
