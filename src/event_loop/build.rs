//! From settings and a waker to an event-loop timer.

use super::REMOTES;
use super::own::{LoopShard, OwnTimers};
use super::timer::{EventLoopTimer, Waker};
use crate::contain::{self, Contained};
use crate::node::limit::Limit;
use crate::park::WakeState;
use crate::settings::Settings;
use crate::sync::way;
use crate::types::BuildError;
#[cfg(feature = "mio")]
use std::io;
use std::sync::Arc;

impl<T: Send + 'static> EventLoopTimer<T> {
    /// Builds a timer whose remotes wake the loop through its own poll (feature `mio`): an event with `token` arrives
    /// then, and needs no handling beyond the poll of the timer that every round of the loop makes anyway.
    ///
    /// # Errors
    ///
    /// If a setting is out of range, or `mio` cannot register a waker: a poll takes one waker in its life. If it has
    /// one, give it to [`with_mio_waker`](Self::with_mio_waker).
    #[cfg(feature = "mio")]
    pub fn with_mio(
        settings: Settings,
        registry: &mio::Registry,
        token: mio::Token,
    ) -> Result<Self, BuildError> {
        // Checked first: a poll that has given its one waker away has no other for the corrected call.
        settings.check()?;
        // With debug assertions `mio` panics on a poll that has, or had, a waker.
        let made = contain::call(|| mio::Waker::new(registry, token));
        match made.unwrap_or_else(|message| Err(io::Error::other(message))) {
            Ok(waker) => Self::with_mio_waker(settings, Arc::new(waker)),
            Err(error) => Err(BuildError::Waker {
                source: error.into(),
            }),
        }
    }

    /// Like [`with_mio`](Self::with_mio), through a waker that the poll has already.
    ///
    /// The timer keeps the waker as long as it lives; its remotes do not.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tickwheel::{EventLoopTimer, Settings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let poll = mio::Poll::new()?;
    /// let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0))?);
    /// let timer: EventLoopTimer<u64> =
    ///     EventLoopTimer::with_mio_waker(Settings::new(), Arc::clone(&waker))?;
    /// waker.wake()?; // the loop has reasons of its own to be woken
    /// # drop(timer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    #[cfg(feature = "mio")]
    pub fn with_mio_waker(settings: Settings, waker: Arc<mio::Waker>) -> Result<Self, BuildError> {
        let text = "an event loop could not be woken for its timers";
        Self::build_loop(
            settings,
            Arc::new(move || {
                let woken = waker.wake();
                woken
                    .inspect_err(|error| contain::error(format_args!("{text}: {error}")))
                    .is_ok()
            }),
        )
    }

    /// Builds a timer whose remotes call `wake` when the loop has to look at its timers earlier than it
    /// planned.
    ///
    /// The timer keeps `wake` as long as it lives; its remotes do not.
    ///
    /// It must end the loop's current sleep, or its next one if it does not sleep yet: writing to an
    /// eventfd or a pipe, unparking a thread, posting a message. It is called from any thread and must
    /// not block. One that panics has woken no loop: the error is logged, the timer stays accepted, and the next
    /// remote that has something earlier than the sleep's end calls again. It must not use remotes of this timer:
    /// it would be called from within itself. For a loop that never sleeps, or has no remotes, it may do nothing.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn with_waker(
        settings: Settings,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let wake = Contained::new("a waker", wake);
        // On the way of a producer whose timer is accepted already: a panic must not take its key away.
        let what = "an event loop's waker";
        Self::build_loop(
            settings,
            Arc::new(move || {
                wake.get()
                    .and_then(|wake| contain::catch_and_log(what, wake))
                    .is_some()
            }),
        )
    }

    fn build_loop(settings: Settings, waker: Waker) -> Result<Self, BuildError> {
        let rate = settings.check()?;
        let limit = settings.max_pending.map(|max| Arc::new(Limit::new(max)));
        // The remotes do not keep the waker: a loop that is gone takes it with it, and needs none.
        let weak = Arc::downgrade(&waker);
        let wake_owner = move || weak.upgrade().is_none_or(|waker| waker());
        let shard = LoopShard::with(
            OwnTimers::new(),
            WakeState::new(),
            way::new_group(),
            REMOTES,
            limit,
            Box::new(wake_owner),
            &rate,
        );
        let capacity = settings.capacity;
        let mut timer = Self::new(shard, rate, settings, waker);
        timer.reserve(capacity);
        Ok(timer)
    }
}
