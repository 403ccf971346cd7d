//! A timer as it is handed out at its end: fired, or returned unfired.

use super::Key;
use crate::time::TickRate;
use crate::time::Time;
use core::time::Duration;

/// A timer that has fired, as its handler sees it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let at = |ms| Time::ZERO + Duration::from_millis(ms);
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let key = timer.schedule(at(0), Duration::from_millis(5), "cache entry")?;
/// timer.poll(at(7), |expired| {
///     assert_eq!((expired.payload, expired.key), ("cache entry", key));
///     assert_eq!((expired.deadline, expired.lateness), (at(5), Duration::from_millis(2)));
/// });
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Expired<T> {
    /// The scheduled payload.
    pub payload: T,
    /// The timer's name: stale by now, unless it is periodic and goes on.
    pub key: Key<T>,
    /// When it was due: the requested time, rounded up to a tick. If it was due at once, the beginning of the tick in
    /// which it was scheduled, or of an earlier one; see [`When`](crate::When).
    pub deadline: Time,
    /// How long after `deadline` the handler is called; if the timer was due at once, with the part of that tick that
    /// was over when it was scheduled. An engine reads the clock once per turn and once every 64 timers of a turn. So
    /// slow handlers of up to 63 other timers, and wakers of 256, may be missing from it. With
    /// `Builder::on_slow_handler` the clock is read for each. In a loop it counts to the `now` of the poll, so the
    /// other handlers of that poll are missing from it.
    pub lateness: Duration,
    /// The shard it fired on, as [`Key::shard`] says.
    pub shard: usize,
    /// No call comes after this one: the timer fires once, or a cancel was told so
    /// ([`Cancel::AfterCall`](crate::Cancel::AfterCall)).
    pub is_last: bool,
}

impl<T> Expired<T> {
    /// Returns a timer that has fired. For `tickwheel`.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn new(
        payload: T,
        key: Key<T>,
        deadline: Time,
        lateness: Duration,
        is_last: bool,
    ) -> Self {
        Self {
            shard: key.shard(),
            payload,
            key,
            deadline,
            lateness,
            is_last,
        }
    }
}

/// A timer that neither fired nor was cancelled before the engine stopped.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new().build_with(|_: Expired<u64>| ())?;
/// timer.schedule(Duration::from_secs(3600), 17)?;
/// let now = timer.now();
/// for unfired in timer.stop()? {
///     println!("job {} was to run in {:?}", unfired.payload, unfired.deadline - now);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unfired<T> {
    /// The scheduled payload.
    pub payload: T,
    /// The timer's name; stale by now.
    pub key: Key<T>,
    /// When it would have been due.
    pub deadline: Time,
}

impl<T> Unfired<T> {
    #[doc(hidden)]
    pub fn new(payload: T, key: Key<T>, tick: u64, rate: &TickRate) -> Self {
        let deadline = rate.start_of(tick);
        Self {
            payload,
            key,
            deadline,
        }
    }
}

impl<T> Expired<T> {
    /// Returns the payload by itself, and everything else: for a queue that takes and gives back payloads only.
    ///
    /// ```
    /// use std::sync::mpsc::{SyncSender, TrySendError};
    /// use tickwheel::Expired;
    ///
    /// fn hand_over(queue: &SyncSender<u64>, expired: Expired<u64>) -> Result<(), Expired<u64>> {
    ///     let (payload, rest) = expired.split();
    ///     queue.try_send(payload).map_err(|refused| match refused {
    ///         TrySendError::Full(payload) | TrySendError::Disconnected(payload) => {
    ///             rest.with_payload(payload)
    ///         }
    ///     })
    /// }
    /// ```
    pub fn split(self) -> (T, Expired<()>) {
        let Self {
            payload,
            key,
            deadline,
            lateness,
            shard,
            is_last,
        } = self;
        let key = Key::from_raw(key.to_raw());
        (
            payload,
            Expired {
                payload: (),
                key,
                deadline,
                lateness,
                shard,
                is_last,
            },
        )
    }

    /// Returns the same timer with another payload; this one is dropped.
    pub fn with_payload<U>(self, payload: U) -> Expired<U> {
        let Expired {
            key,
            deadline,
            lateness,
            shard,
            is_last,
            ..
        } = self.split().1;
        Expired {
            payload,
            key: Key::from_raw(key.to_raw()),
            deadline,
            lateness,
            shard,
            is_last,
        }
    }
}
