//! Jobs whose attempts are used up: they wait for a person.

use std::collections::HashMap;

use redis::{AsyncCommands, Script};

use super::access::{Store, script};
use super::view::Page;
use crate::error::StoreError;
use crate::job::JobId;

/// Ids that one script is given.
const AT_ONCE: usize = 500;

impl Store {
    /// Gives the dead ones of these jobs, or all dead jobs, all their attempts again, and makes them due
    /// now. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be due again.
    pub async fn requeue(&self, ids: Option<&[JobId]>) -> Result<u64, StoreError> {
        self.resolve(script!("requeue"), ids).await
    }

    /// Forgets the dead ones of these jobs, or all dead jobs. Returns how many they were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; some of them may be forgotten.
    pub async fn purge(&self, ids: Option<&[JobId]>) -> Result<u64, StoreError> {
        self.resolve(script!("purge"), ids).await
    }

    async fn resolve(&self, script: &Script, ids: Option<&[JobId]>) -> Result<u64, StoreError> {
        let Some(ids) = ids else {
            self.refresh().await?;
            let mut count = 0;
            for partition in 0..self.partitions() {
                // Jobs that die meanwhile are left to the next request.
                let ids = self.range("dead", partition, 0, usize::MAX).await?;
                for ids in ids.chunks(AT_ONCE) {
                    count += self.run_on(script, partition, ids).await?;
                }
            }
            return Ok(count);
        };
        let mut parts: HashMap<u16, Vec<String>> = HashMap::new();
        for id in ids {
            parts.entry(id.partition()).or_default().push(id.to_string());
        }
        let mut count = 0;
        for (partition, ids) in parts {
            count += self.run_on(script, partition, &ids).await?;
        }
        Ok(count)
    }

    async fn run_on(
        &self,
        script: &Script,
        partition: u16,
        ids: &[String],
    ) -> Result<u64, StoreError> {
        let mut call = script.key(self.base(partition));
        call.arg(ids);
        Ok(self.call(&call).await?.value)
    }

    /// Dead jobs, at most `limit`, those that died first coming first in each partition, from where another
    /// page ended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if `from` is not the end of a page, [`StoreError::Away`].
    pub async fn dead(&self, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let (ids, next) = self.members("dead", from, limit).await?;
        let mut page = Page { jobs: Vec::with_capacity(ids.len()), next };
        for id in ids.iter().filter_map(|id| id.parse::<JobId>().ok()) {
            match self.get(&id).await {
                Ok(job) => page.jobs.push(job),
                // It was purged while the list was read.
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Members of the sorted set `set` of each partition, at most `limit`, from where another page ended,
    /// and where the list goes on.
    pub(super) async fn members(
        &self,
        set: &str,
        from: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<String>), StoreError> {
        let (mut partition, mut skip) = match from {
            None => (0, 0),
            Some(text) => text
                .split_once('.')
                .and_then(|(partition, skip)| Some((partition.parse().ok()?, skip.parse().ok()?)))
                .ok_or_else(|| {
                    StoreError::Unfit(format!("`{text}` is not the end of a page of this list"))
                })?,
        };
        self.refresh().await?;
        let mut members = Vec::new();
        while partition < self.partitions() && members.len() < limit {
            let found = self.range(set, partition, skip, limit - members.len()).await?;
            skip += found.len();
            if found.is_empty() {
                (partition, skip) = (partition + 1, 0);
            }
            members.extend(found);
        }
        let next = partition < self.partitions();
        Ok((members, next.then(|| format!("{partition}.{skip}"))))
    }

    async fn range(
        &self,
        set: &str,
        partition: u16,
        skip: usize,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut loan = self.link().loan().await?;
        let last = isize::try_from(skip.saturating_add(most)).unwrap_or(isize::MAX) - 1;
        let key = format!("{}:{set}", self.base(partition));
        let skip = isize::try_from(skip).unwrap_or(isize::MAX);
        Ok(loan.connection.zrange(key, skip, last).await?)
    }
}
