//! What only the node that has leased a partition asks of it.

use redis::Cmd;

use super::access::{Store, Timed, script};
use super::schedules::Passed;
use crate::error::StoreError;

/// The answer to a wish for a partition.
#[derive(Debug)]
pub(crate) enum Acquired {
    /// The lease as it was granted: `token@node`.
    Granted(String),
    /// Somebody has it, for so many milliseconds if nothing is heard of them.
    Held(u64),
}

/// What a lease was found to be.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) held: bool,
    /// Notices of near jobs sent so far.
    pub(crate) notices: u64,
    pub(crate) now_us: u64,
}

/// What firing came to.
#[derive(Debug)]
pub(crate) enum Fired {
    /// The lease is somebody else's, or nobody's.
    Fenced,
    Some {
        now_us: u64,
        /// What is left: the earliest moment at which something is due.
        next_ms: Option<u64>,
        /// One for each job.
        lateness_ms: Vec<u64>,
        /// Schedules whose moment has passed.
        passed: Vec<Passed>,
    },
}

/// A page of the window.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) now_us: u64,
    pub(crate) notices: u64,
    /// Up to here, inclusive, every moment is known now.
    pub(crate) up_to_ms: u64,
    pub(crate) more: bool,
    pub(crate) moments: Vec<u64>,
}

impl Store {
    pub(crate) async fn acquire(
        &self,
        partition: u16,
        node: &str,
    ) -> Result<Timed<Acquired>, StoreError> {
        let args = (node, self.settings().lease_ms());
        let timed = self.timed(script!("acquire"), self.base(partition), args).await?;
        Ok(timed.map(|(lease, left): (Option<String>, u64)| {
            lease.map_or(Acquired::Held(left), Acquired::Granted)
        }))
    }

    pub(crate) async fn renew(
        &self,
        partition: u16,
        lease: &str,
    ) -> Result<Timed<Renewed>, StoreError> {
        let args = (lease, self.settings().lease_ms());
        let timed = self.timed(script!("renew"), self.base(partition), args).await?;
        Ok(timed.map(|(held, notices, now_us)| Renewed { held, notices, now_us }))
    }

    pub(crate) async fn release(&self, partition: u16, lease: &str) -> Result<(), StoreError> {
        self.run::<u8>(script!("release"), partition, lease).await.map(drop)
    }

    /// Makes at most `most` due jobs ready for the consumers.
    pub(crate) async fn fire(
        &self,
        partition: u16,
        lease: &str,
        most: usize,
    ) -> Result<Timed<Fired>, StoreError> {
        type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Vec<Passed>>);
        let args = (lease, most, self.ready_channel(), partition);
        let timed = self.timed(script!("fire"), self.base(partition), args).await?;
        Ok(timed.map(|(now, next, lateness, passed): Reply| match lateness {
            Some(lateness_ms) => Fired::Some {
                now_us: now.unsigned_abs(),
                next_ms: next.and_then(|next| u64::try_from(next).ok()),
                lateness_ms,
                passed: passed.unwrap_or_default(),
            },
            None => Fired::Fenced,
        }))
    }

    /// Reads moments after `after` (everything if `None`).
    pub(crate) async fn load(
        &self,
        partition: u16,
        after: Option<u64>,
        most: usize,
    ) -> Result<Timed<Loaded>, StoreError> {
        let after = after.map_or_else(|| "-inf".to_owned(), |after| format!("({after}"));
        let args = (after, self.settings().window_ms(), most);
        let timed = self.timed(script!("load"), self.base(partition), args).await?;
        Ok(timed.map(|(now_us, notices, up_to_ms, more, moments)| Loaded {
            now_us,
            notices,
            up_to_ms,
            more,
            moments,
        }))
    }

    /// Says that a node is alive; the names of all that are.
    pub(crate) async fn beat(&self, node: &str, said: &str) -> Result<Vec<String>, StoreError> {
        let args = (node, said, self.settings().lease_ms());
        Ok(self.timed(script!("beat"), self.nodes_base(), args).await?.value)
    }

    /// Takes a node off the list of those that are alive.
    pub(crate) async fn leave(&self, node: &str) -> Result<(), StoreError> {
        let base = self.nodes_base();
        let _: u64 = self.ask(&Cmd::zrem(format!("{base}:alive"), node)).await?;
        let _: u64 = self.ask(&Cmd::hdel(format!("{base}:said"), node)).await?;
        Ok(())
    }

    pub(super) fn nodes_base(&self) -> String {
        format!("{}:{{nodes}}", self.settings().namespace)
    }
}

impl<T> Timed<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Timed<U> {
        Timed { value: change(self.value), sent: self.sent, received: self.received }
    }
}
