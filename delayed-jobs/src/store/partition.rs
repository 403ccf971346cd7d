//! What only the node that has leased a partition asks of it.

use redis::Cmd;

use super::access::{Store, Timed, script};
use super::schedules::Passed;
use crate::error::Result;

/// What firing came to.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) now_us: u64,
    /// What is left: the earliest moment at which something is due.
    pub(crate) next_ms: Option<u64>,
    /// One for each job.
    pub(crate) lateness_ms: Vec<u64>,
    /// Schedules whose moment has passed.
    pub(crate) passed: Vec<Passed>,
}

/// A page of the window: the clock of Redis in microseconds, notices sent so far, up to which moment,
/// inclusive, every moment is known now, whether there is more, and the moments.
pub(crate) type Loaded = (u64, u64, u64, bool, Vec<u64>);

impl Store {
    /// Takes a partition: the lease as it was granted, `token@node`, or how many milliseconds another node's
    /// lease lasts if nothing is heard of that node.
    pub(crate) async fn acquire(
        &self,
        partition: u16,
        node: &str,
    ) -> Result<Timed<(Option<String>, u64)>> {
        let args = (node, self.settings().lease_ms());
        self.timed(script!("acquire"), self.base(partition), args).await
    }

    /// Prolongs a lease: whether it is held, notices of near jobs sent so far, and the clock of Redis in
    /// microseconds.
    pub(crate) async fn renew(
        &self,
        partition: u16,
        lease: &str,
    ) -> Result<Timed<(bool, u64, u64)>> {
        let args = (lease, self.settings().lease_ms());
        self.timed(script!("renew"), self.base(partition), args).await
    }

    pub(crate) async fn release(&self, partition: u16, lease: &str) -> Result<()> {
        self.run::<u8>(script!("release"), partition, lease).await.map(drop)
    }

    /// Makes at most `most` due jobs ready for the consumers; nothing if the lease is not held any more.
    pub(crate) async fn fire(
        &self,
        partition: u16,
        lease: &str,
        most: usize,
    ) -> Result<Timed<Option<Fired>>> {
        type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<Passed>>);
        let args = (lease, most, self.ready_channel(), partition);
        let Timed { value, sent, received } =
            self.timed::<Reply>(script!("fire"), self.base(partition), args).await?;
        let (now, next, lateness, passed) = value;
        let value = lateness.map(|lateness_ms| Fired {
            now_us: now.unsigned_abs(),
            next_ms: next.and_then(|next| u64::try_from(next).ok()),
            lateness_ms,
            passed: passed.unwrap_or_default(),
        });
        Ok(Timed { value, sent, received })
    }

    /// Reads moments after `after` (everything if `None`).
    pub(crate) async fn load(
        &self,
        partition: u16,
        after: Option<u64>,
        most: usize,
    ) -> Result<Timed<Loaded>> {
        let after = after.map_or_else(|| "-inf".to_owned(), |after| format!("({after}"));
        let args = (after, self.settings().window_ms(), most);
        self.timed(script!("load"), self.base(partition), args).await
    }

    /// Says that a node is alive; the names of all that are.
    pub(crate) async fn beat(&self, node: &str, said: &str) -> Result<Vec<String>> {
        let args = (node, said, self.settings().lease_ms());
        Ok(self.timed(script!("beat"), self.nodes_base(), args).await?.value)
    }

    /// Takes a node off the list of those that are alive.
    pub(crate) async fn leave(&self, node: &str) -> Result<()> {
        let base = self.nodes_base();
        let _: u64 = self.ask(&Cmd::zrem(format!("{base}:alive"), node)).await?;
        let _: u64 = self.ask(&Cmd::hdel(format!("{base}:said"), node)).await?;
        Ok(())
    }

    pub(super) fn nodes_base(&self) -> String {
        format!("{}:{{nodes}}", self.settings().namespace)
    }
}
