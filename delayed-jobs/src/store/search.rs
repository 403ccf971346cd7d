//! Lists of jobs: by state, by idempotency key, by time.

use futures_util::future::join_all;
use redis::AsyncCommands;

use super::access::Store;
use super::view::Page;
use crate::error::StoreError;
use crate::job::{JobId, State};

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
        Self { state: State::Pending, after_ms: 0, before_ms: u64::MAX }
    }
}

impl Store {
    /// Pending jobs, at most `limit`, from where another page ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn list(&self, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.search(&Search::default(), from, limit).await
    }

    /// Lists jobs, at most `limit`, partition by partition, from where another page ended. A page may hold
    /// fewer jobs though there are more.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page or the state has no list,
    /// [`StoreError::Away`].
    pub async fn search(
        &self,
        search: &Search,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut page = match search.state {
            State::Pending => self.pending(search, from, limit).await?,
            State::Fired => self.fired(from, limit).await?,
            State::Dead => self.dead(from, limit).await?,
            ended => {
                let hint = format!("there is no list of {ended} jobs; ask by id or key");
                return Err(StoreError::Unfit(hint));
            }
        };
        page.jobs.retain(|job| (search.after_ms..search.before_ms).contains(&job.due_ms));
        Ok(page)
    }

    /// Finds the job that an idempotency key has made.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn by_key(&self, key: &str) -> Result<JobId, StoreError> {
        let base = self.base(self.partition_of_key(key));
        let mut loan = self.link().loan().await?;
        let id: Option<String> = loan.connection.hget(format!("{base}:once:{key}"), "id").await?;
        let id = id.and_then(|id| id.parse().ok());
        id.ok_or_else(|| StoreError::Unknown(format!("of the key `{key}`")))
    }

    async fn pending(
        &self,
        search: &Search,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.refresh().await?;
        let begin = (0, search.after_ms, 0);
        let (mut partition, mut score, mut skip) = place(from, begin)?;
        let mut ids: Vec<(String, u64)> = Vec::new();
        while partition < self.partitions() && ids.len() < limit {
            let mut loan = self.link().loan().await?;
            let found: Vec<(String, u64)> = redis::cmd("ZRANGEBYSCORE")
                .arg(format!("{}:due", self.base(partition)))
                .arg(score)
                .arg(format!("({}", search.before_ms))
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(skip)
                .arg(limit - ids.len())
                .query_async(&mut loan.connection)
                .await?;
            match found.last() {
                Some((_, last)) => {
                    // Several jobs can be due at one moment: a place is a moment and how many of it.
                    let same = found.iter().rev().take_while(|(_, due)| due == last).count();
                    skip = if *last == score { skip + same } else { same };
                    score = *last;
                    ids.extend(found);
                }
                None => (partition, score, skip) = (partition + 1, search.after_ms, 0),
            }
        }
        let next = (ids.len() == limit && partition < self.partitions())
            .then(|| format!("{partition}.{score}.{skip}"));
        self.page(ids.into_iter().map(|(id, _)| id), next).await
    }

    /// Those that wait for a consumer come first in each partition, then those that consumers hold.
    async fn fired(&self, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.refresh().await?;
        let (mut partition, _, mut skip) = place(from, (0, 0, 0))?;
        let mut ids: Vec<String> = Vec::new();
        let index = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
        while partition < self.partitions() && ids.len() < limit {
            let mut loan = self.link().loan().await?;
            let (ready, held) = (self.base(partition) + ":ready", self.base(partition) + ":held");
            let waiting: usize = loan.connection.llen(&ready).await?;
            let (first, last) = (index(skip), index(skip + limit - ids.len() - 1));
            let mut found: Vec<String> = loan.connection.lrange(&ready, first, last).await?;
            if found.is_empty() {
                let before = index(waiting);
                let range = ((first - before).max(0), (last - before).max(0));
                found = loan.connection.zrange(&held, range.0, range.1).await?;
            }
            if found.is_empty() {
                (partition, skip) = (partition + 1, 0);
                continue;
            }
            skip += found.len();
            ids.extend(found.iter().filter_map(|item| Some(item.split(' ').next()?.to_owned())));
        }
        let next = (partition < self.partitions()).then(|| format!("{partition}.0.{skip}"));
        self.page(ids.into_iter(), next).await
    }

    async fn page(
        &self,
        ids: impl Iterator<Item = String>,
        next: Option<String>,
    ) -> Result<Page, StoreError> {
        let ids = ids.filter_map(|id| id.parse::<JobId>().ok());
        let jobs = join_all(ids.map(async |id| self.get(&id).await)).await;
        let mut page = Page { jobs: Vec::with_capacity(jobs.len()), next };
        for job in jobs {
            match job {
                Ok(job) => page.jobs.push(job),
                // It ended while the list was read.
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}

/// Partition, moment, and how many jobs come before.
type Place = (u16, u64, usize);

/// Reads where a page ended.
fn place(from: Option<&str>, begin: Place) -> Result<Place, StoreError> {
    let Some(text) = from else { return Ok(begin) };
    let read = || -> Option<Place> {
        let mut parts = text.split('.');
        let place =
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(place)
    };
    let wrong = || format!("`{text}` is not the end of a page of this list");
    read().ok_or_else(|| StoreError::Unfit(wrong()))
}
