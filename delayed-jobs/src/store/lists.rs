//! Lists of jobs by state, idempotency key and time, page by page; what is done to all dead jobs.

use std::collections::HashMap;

use futures_util::future::join_all;
use redis::{Cmd, Script};
use serde::{Deserialize, Serialize};

use super::Store;
use crate::error::{Result, StoreError};
use crate::job::{Job, JobId, State};

/// Ids that one script is given.
const AT_ONCE: usize = 500;

/// The jobs that a list is of.
#[derive(Clone, Debug)]
pub struct Search {
    /// Pending, fired or dead; Redis keeps no list of ended jobs.
    pub state: State,
    /// Due at this moment or later, in milliseconds since 1970.
    pub after_ms: u64,
    /// Due before this moment.
    pub before_ms: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            state: State::Pending,
            after_ms: 0,
            before_ms: u64::MAX,
        }
    }
}

/// A part of a list of jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    /// Jobs, partition by partition; pending ones in the order of their deadlines.
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

    /// Lists jobs, at most `limit`, partition by partition, from where another page ended. A page may hold
    /// fewer jobs though there are more.
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
        let (ids, next) = self.members(list, from, limit).await?;
        let ids = ids.iter().filter_map(|id| id.parse::<JobId>().ok());
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
        let begin = if let List::Due(search) = list {
            search.after_ms
        } else {
            0
        };
        let (mut partition, mut moment, mut skip) = place(from, begin)?;
        let mut ids = Vec::new();
        let index = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
        while partition < self.partitions() && ids.len() < limit {
            let base = self.base(partition);
            let (first, most) = (index(skip), index(limit - ids.len()));
            let last = first.saturating_add(most - 1);
            let found: Vec<String> = match list {
                List::Due(search) => {
                    let (key, before) = (base + ":due", format!("({}", search.before_ms));
                    let range =
                        Cmd::zrangebyscore_limit_withscores(key, moment, before, first, most);
                    let found: Vec<(String, u64)> = self.ask(&range).await?;
                    // Several jobs can be due at one moment: a place is a moment and how many of it.
                    if let Some(&(_, last)) = found.last() {
                        let before = if last == moment { skip } else { 0 };
                        skip = before + found.iter().filter(|(_, due)| *due == last).count();
                        moment = last;
                    }
                    found.into_iter().map(|(id, _)| id).collect()
                }
                List::Fired => {
                    let (ready, held) = (format!("{base}:ready"), base + ":held");
                    let waiting: isize = self.ask(&Cmd::llen(&ready)).await?;
                    let mut found: Vec<String> = self.ask(&Cmd::lrange(ready, first, last)).await?;
                    if found.is_empty() {
                        let (first, last) = ((first - waiting).max(0), (last - waiting).max(0));
                        found = self.ask(&Cmd::zrange(held, first, last)).await?;
                    }
                    skip += found.len();
                    let id = |item: &String| Some(item.split(' ').next()?.to_owned());
                    found.iter().filter_map(id).collect()
                }
                List::Set(set) => {
                    let found: Vec<String> = self
                        .ask(&Cmd::zrange(format!("{base}:{set}"), first, last))
                        .await?;
                    skip += found.len();
                    found
                }
            };
            if found.is_empty() {
                (partition, moment, skip) = (partition + 1, begin, 0);
            }
            ids.extend(found);
        }
        let next = partition < self.partitions();
        Ok((ids, next.then(|| format!("{partition}.{moment}.{skip}"))))
    }

    /// Gives the dead ones of these jobs, or all dead jobs, all their attempts again, and makes them due
    /// now. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be due again.
    pub async fn requeue(&self, ids: Option<&[JobId]>) -> Result<u64> {
        self.resolve(script!("requeue"), ids).await
    }

    /// Forgets the dead ones of these jobs, or all dead jobs. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be forgotten.
    pub async fn purge(&self, ids: Option<&[JobId]>) -> Result<u64> {
        self.resolve(script!("purge"), ids).await
    }

    async fn resolve(&self, script: &Script, ids: Option<&[JobId]>) -> Result<u64> {
        let mut parts: HashMap<u16, Vec<String>> = HashMap::new();
        for id in ids.unwrap_or_default() {
            parts
                .entry(id.partition())
                .or_default()
                .push(id.to_string());
        }
        if ids.is_none() {
            self.refresh().await?;
            for partition in 0..self.partitions() {
                // Jobs that die meanwhile are left to the next request.
                let all = Cmd::zrange(self.base(partition) + ":dead", 0, -1);
                parts.insert(partition, self.ask(&all).await?);
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
