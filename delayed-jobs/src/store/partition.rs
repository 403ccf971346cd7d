//! What only the node that has leased a partition asks of it.

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
        let mut call = script!("acquire").key(self.base(partition));
        call.arg(node).arg(self.settings().lease_ms());
        let timed: Timed<(Option<String>, u64)> = self.call(&call).await?;
        Ok(timed.map(|(lease, left)| lease.map_or(Acquired::Held(left), Acquired::Granted)))
    }

    pub(crate) async fn renew(
        &self,
        partition: u16,
        lease: &str,
    ) -> Result<Timed<Renewed>, StoreError> {
        let mut call = script!("renew").key(self.base(partition));
        call.arg(lease).arg(self.settings().lease_ms());
        let timed: Timed<(u8, u64, u64)> = self.call(&call).await?;
        Ok(timed.map(|(held, notices, now_us)| Renewed { held: held == 1, notices, now_us }))
    }

    pub(crate) async fn release(&self, partition: u16, lease: &str) -> Result<(), StoreError> {
        let mut call = script!("release").key(self.base(partition));
        call.arg(lease);
        self.call::<u8>(&call).await.map(|_| ())
    }

    /// Makes at most `most` due jobs ready for the consumers.
    pub(crate) async fn fire(
        &self,
        partition: u16,
        lease: &str,
        most: usize,
    ) -> Result<Timed<Fired>, StoreError> {
        let mut call = script!("fire").key(self.base(partition));
        call.arg(lease).arg(most).arg(self.ready_channel()).arg(partition);
        type Schedules = Vec<(String, u64, String)>;
        type Reply = (i64, Option<i64>, Option<Vec<u64>>, Option<Schedules>);
        let timed: Timed<Reply> = self.call(&call).await?;
        let passed = |(name, at_ms, recurrence)| Passed { name, at_ms, recurrence };
        Ok(timed.map(|(now, next, lateness, schedules)| match lateness {
            Some(lateness_ms) => Fired::Some {
                now_us: now.unsigned_abs(),
                next_ms: next.and_then(|next| u64::try_from(next).ok()),
                lateness_ms,
                passed: schedules.into_iter().flatten().map(passed).collect(),
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
        let mut call = script!("load").key(self.base(partition));
        call.arg(after).arg(self.settings().window_ms()).arg(most);
        let timed: Timed<Vec<u64>> = self.call(&call).await?;
        match timed.value[..] {
            [now_us, notices, up_to_ms, more, ref moments @ ..] => {
                let moments = moments.to_vec();
                let loaded = Loaded { now_us, notices, up_to_ms, more: more == 1, moments };
                Ok(timed.map(|_| loaded))
            }
            _ => Err(StoreError::Unfit("a script gave half an answer".to_owned())),
        }
    }

    /// Says that a node is alive; the names of all that are.
    pub(crate) async fn beat(&self, node: &str, said: &str) -> Result<Vec<String>, StoreError> {
        let mut call = script!("beat").key(self.nodes_base());
        call.arg(node).arg(said).arg(self.settings().lease_ms());
        Ok(self.call(&call).await?.value)
    }

    /// Takes a node off the list of those that are alive.
    pub(crate) async fn leave(&self, node: &str) -> Result<(), StoreError> {
        let mut loan = self.link().loan().await?;
        let base = self.nodes_base();
        let mut both = redis::pipe();
        both.zrem(format!("{base}:alive"), node).ignore();
        both.hdel(format!("{base}:said"), node).ignore();
        both.query_async::<()>(&mut loan.connection).await.map_err(StoreError::from)
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
