//! Many timers at once, from any thread: `schedule_batch` of the engine and of a submitter.

use super::inner::Inner;
use super::submitter::Submitter;
use super::timer::Timer;
use crate::sync::atomic::Ordering;
use crate::sync::slot;
use crate::time::When;
use crate::types::{BatchError, Key, ScheduleError};

impl<T: Send + 'static> Timer<T> {
    /// Schedules all of `timers`, each after its delay or at its point in time ([`When`]); the keys come in the same
    /// order.
    ///
    /// The thread's part of the engine is looked up once, the clock read once (once for all delays, and once for all
    /// points in time that need it), and the worker told once: for a server that gets its timers in bursts. They all go
    /// to one shard, also with [`Routing::Spread`](crate::Routing::Spread), which deals batches out. `timers` is gone
    /// through before the clock is read and the first is armed, so it may take its time and use the engine.
    ///
    /// There is no call to cancel a batch: a [`cancel`](Self::cancel) sends no message and reads no clock, and a
    /// [`submitter`](Self::submitter) saves its look-ups.
    ///
    /// Lock-free. O(timers); allocates twice or three times where the iterator knows its exact length, otherwise as a
    /// vector that grows.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().build_with(|_: Expired<u64>| ())?;
    /// let keys = timer.schedule_batch((0..100).map(|id| (Duration::from_secs(30 + id), id)))?;
    /// assert_eq!(timer.pending(), 100);
    /// assert_eq!(timer.cancel(keys[17]).into_payload(), Some(17));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule). Those before the first that is refused stay accepted; see [`BatchError`]. An
    /// empty batch is refused only where there is no memory.
    pub fn schedule_batch<W: Into<When>>(
        &self,
        timers: impl IntoIterator<Item = (W, T)>,
    ) -> Result<Vec<Key<T>>, BatchError<T>> {
        let timers = self.inner.prepare_batch(timers)?;
        slot::with(|slot| {
            let shard = self.inner.router.route(slot);
            let scheduled = match self.inner.handles[shard].try_producer(slot) {
                Some(producer) => producer.schedule_batch(timers, &self.inner.rate),
                None => Err(BatchError::no_memory(timers, &self.inner.rate)),
            };
            scheduled.map_err(|error| self.inner.rejected_batch(error, shard))
        })
    }
}

impl<T: Send + 'static> Submitter<'_, T> {
    /// Schedules all of `timers`; as [`Timer::schedule_batch`].
    ///
    /// # Errors
    ///
    /// Like [`Timer::schedule_batch`].
    pub fn schedule_batch<W: Into<When>>(
        &self,
        timers: impl IntoIterator<Item = (W, T)>,
    ) -> Result<Vec<Key<T>>, BatchError<T>> {
        let inner = &self.timer.inner;
        let timers = inner.prepare_batch(timers)?;
        self.producer
            .schedule_batch(timers, &inner.rate)
            .map_err(|error| inner.rejected_batch(error, self.shard))
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Returns the ticks and payloads of a batch; starts the engine if need be.
    fn prepare_batch<W: Into<When>>(
        &self,
        timers: impl IntoIterator<Item = (W, T)>,
    ) -> Result<Vec<(u64, T)>, BatchError<T>> {
        let timers = self.source.ticks(&self.rate, timers);
        let timers = timers
            .map_err(|some| self.rejected_batch(BatchError::no_memory(some, &self.rate), 0))?;
        if timers.is_empty() {
            // Nothing can be refused, and nothing is worth a start.
            return Ok(timers);
        }
        if let Err(kind) = self.ready() {
            self.count_rejected(timers.len());
            return Err(BatchError::of_ticks(kind, Vec::new(), timers, &self.rate));
        }
        Ok(timers)
    }

    /// Counts `refused` timers of a batch as rejected; one of them has been counted.
    fn count_rejected(&self, refused: usize) {
        // Addition wraps: where there was memory for no timer, none of them was refused.
        // ORDERING: Relaxed: a statistic.
        self.rejected
            .fetch_add((refused as u64).wrapping_sub(1), Ordering::Relaxed);
    }

    #[cold]
    fn rejected_batch(&self, error: BatchError<T>, shard: usize) -> BatchError<T> {
        let (kind, accepted, refused) = error.into_parts();
        let kind = self
            .rejected(ScheduleError::new(kind, ()), shard)
            .into_kind();
        self.count_rejected(refused.len());
        BatchError::new(kind, accepted, refused)
    }
}
