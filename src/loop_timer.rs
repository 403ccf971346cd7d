//! `LoopTimer`: what the timers that a loop drives have in common, above all how they fire.
//!
//! `poll` and `poll_with` are made of [`Expirations`]: there is one way to fire.

use crate::drive::TurnState;
use crate::time::{Time, whole_ms};
use crate::types::{Budget, Cancel, Expired, Key, Polled, Unfired};
use core::time::Duration;

/// A poll under way.
#[doc(hidden)]
pub struct Poll {
    pub(crate) turn: TurnState,
    /// The time of the poll.
    pub(crate) now: Time,
    /// A handler's end can be told by a clock, so that a fixed delay counts from there.
    pub(crate) has_clock: bool,
    /// Everything that is due has been taken, or the budget is used up.
    exhausted: bool,
}

impl Poll {
    pub(crate) fn new(turn: TurnState, now: Time) -> Self {
        Self {
            turn,
            now,
            has_clock: false,
            exhausted: false,
        }
    }
}

mod sealed {
    use super::{Expired, Poll, Polled, Time};

    /// The steps of a poll.
    pub trait Steps {
        type Payload;

        /// Returns whether a poll at `now` would do nothing, and takes note of its time then.
        fn is_idle(&mut self, now: Time) -> bool;

        /// Begins a poll; `None` if one is under way, because the caller is a handler.
        fn begin(&mut self, now: Time) -> Option<Poll>;

        /// Returns the next timer that fires.
        fn next(&mut self, poll: &mut Poll) -> Option<Expired<Self::Payload>>;

        /// Notes that the timer handed out last has been handled.
        fn after_handler(&mut self, poll: &mut Poll);

        fn finish(&mut self, poll: Poll) -> Polled;
    }
}

pub(crate) use sealed::Steps;

/// A timer that a loop drives: [`EventLoopTimer`](crate::EventLoopTimer), [`LocalTimer`](crate::LocalTimer) or
/// [`FixedTimer`](crate::FixedTimer), and nothing else.
///
/// The trait has the calls that all three share, for code that works on any of them. Each is described at the timers,
/// which have the same calls without the trait.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{FixedTimer, LocalTimer, LoopTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Jumps to each deadline until nothing is pending; returns the number of fired timers.
/// fn run_all<L: LoopTimer>(timer: &mut L) -> usize {
///     let mut fired = 0;
///     while let Some(now) = timer.next_deadline() {
///         fired += timer.poll(now, |_| ()).fired;
///     }
///     fired
/// }
///
/// let mut any = LocalTimer::new(Duration::from_millis(1))?;
/// let mut fixed = FixedTimer::with_delay(Duration::from_secs(30));
/// for n in 0..5 {
///     any.schedule(Time::ZERO, Duration::from_millis(n), n)?;
///     fixed.schedule(Time::ZERO, n)?;
/// }
/// assert_eq!((run_all(&mut any), run_all(&mut fixed)), (5, 5));
/// # Ok(()) }
/// ```
pub trait LoopTimer: sealed::Steps + Sized {
    /// Cancels a pending timer and returns its payload.
    fn cancel(&mut self, key: Key<Self::Payload>) -> Cancel<Self::Payload>;

    /// Returns whether the timer has not ended.
    fn is_pending(&self, key: Key<Self::Payload>) -> bool;

    /// Returns when a pending timer is due.
    fn deadline(&self, key: Key<Self::Payload>) -> Option<Time>;

    /// Returns the number of pending timers.
    fn pending(&self) -> usize;

    /// Returns the keys and deadlines of all pending timers, in no particular order.
    fn keys(&self) -> impl Iterator<Item = (Key<Self::Payload>, Time)>;

    /// Takes all pending timers out, in no particular order.
    fn drain(&mut self) -> impl Iterator<Item = Unfired<Self::Payload>>;

    /// Makes room for this many more timers.
    fn reserve(&mut self, timers: usize);

    /// Changes how much one poll may do.
    fn set_budget(&mut self, budget: Budget);

    /// Returns the bytes held for timers and wheel.
    fn held_bytes(&self) -> usize;

    /// Returns when to poll next; `None` if nothing is pending.
    fn next_deadline(&self) -> Option<Time>;

    /// Returns how long the loop may sleep; `None` for ever.
    fn poll_timeout(&self, now: Time) -> Option<Duration>;

    /// Like [`poll_timeout`](Self::poll_timeout), in whole milliseconds, rounded up; -1 for ever.
    fn poll_timeout_ms(&self, now: Time) -> i32 {
        whole_ms(self.poll_timeout(now))
    }

    /// Returns whether no timer is pending.
    fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Drops all pending timers.
    fn clear(&mut self) {
        drop(self.drain());
    }

    /// Yields the timers that are due at `now`, one at a time and within the budget.
    fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
        Expirations::begin(self, now)
    }

    /// Fires what is due at `now`, within the budget.
    fn poll(&mut self, now: Time, mut handler: impl FnMut(Expired<Self::Payload>)) -> Polled {
        self.poll_with(now, |_, expired| handler(expired))
    }

    /// Like [`poll`](Self::poll), for handlers that use the timer.
    fn poll_with(
        &mut self,
        now: Time,
        handler: impl FnMut(&mut Self, Expired<Self::Payload>),
    ) -> Polled {
        poll_with(self, now, handler)
    }
}

/// The answer of a poll that has done nothing.
const NOTHING: Polled = Polled {
    fired: 0,
    more: false,
};

/// Hands each timer that is due to `handler`, together with the timer that it was scheduled on. Inlined, so that a round
/// in which nothing is due costs some comparisons.
#[inline(always)]
pub(crate) fn poll_with<F: LoopTimer>(
    timer: &mut F,
    now: Time,
    handler: impl FnMut(&mut F, Expired<F::Payload>),
) -> Polled {
    if timer.is_idle(now) {
        return NOTHING;
    }
    fire_due(timer, now, handler)
}

#[inline(never)]
fn fire_due<F: LoopTimer>(
    timer: &mut F,
    now: Time,
    mut handler: impl FnMut(&mut F, Expired<F::Payload>),
) -> Polled {
    let poll = timer.begin(now);
    let mut due = Expirations { timer, poll };
    while let Some(expired) = due.next() {
        handler(due.timer, expired);
    }
    due.end()
}

/// Implements the calls of [`LoopTimer`] by those of the timer itself, which have the same names.
macro_rules! loop_timer {
    ($($name:ident(self: $this:ty $(, $argument:ident: $type:ty)?) -> $answer:ty;)+) => {$(
        fn $name(self: $this $(, $argument: $type)?) -> $answer {
            self.$name($($argument)?)
        }
    )+};
    () => {
        crate::loop_timer::loop_timer! {
            cancel(self: &mut Self, key: Key<T>) -> Cancel<T>;
            is_pending(self: &Self, key: Key<T>) -> bool;
            deadline(self: &Self, key: Key<T>) -> Option<Time>;
            pending(self: &Self) -> usize;
            keys(self: &Self) -> impl Iterator<Item = (Key<T>, Time)>;
            drain(self: &mut Self) -> impl Iterator<Item = Unfired<T>>;
            reserve(self: &mut Self, timers: usize) -> ();
            set_budget(self: &mut Self, budget: Budget) -> ();
            held_bytes(self: &Self) -> usize;
            next_deadline(self: &Self) -> Option<Time>;
            poll_timeout(self: &Self, now: Time) -> Option<Duration>;
        }
    };
}
pub(crate) use loop_timer;

/// The timers that are due, one at a time: what `expired(now)` of a timer gives.
///
/// Each timer has fired when it is handed out. Between two of them the timer can be used through
/// [`timer`](Self::timer); what is scheduled then fires in a later poll at the earliest, and a poll does nothing. What
/// is left when this is dropped stays due, and the next poll goes on with it: an error may leave the loop at any time.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Time};
///
/// fn fire(timer: &mut LocalTimer<u32>, now: Time) -> Result<(), String> {
///     let mut due = timer.expired(now);
///     while let Some(expired) = due.next() {
///         if expired.payload == 13 {
///             return Err("unlucky".to_owned());
///         }
///         due.timer().schedule(now, Duration::from_secs(1), expired.payload).map_err(|e| e.to_string())?;
///     }
///     println!("{} have fired", due.finish().fired);
///     Ok(())
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// for payload in [1, 13, 2] {
///     timer.schedule(Time::ZERO, Duration::ZERO, payload)?;
/// }
/// assert!(fire(&mut timer, Time::ZERO).is_err());
/// // The third one is still due, the first one again in a second.
/// assert_eq!(timer.poll_timeout(Time::ZERO), Some(Duration::ZERO));
/// assert!(fire(&mut timer, Time::ZERO).is_ok());
/// assert_eq!(timer.pending(), 2);
/// # Ok(()) }
/// ```
///
/// It must be dropped: while one exists, leaked or not, polls do nothing.
#[must_use = "timers fire as they are taken"]
pub struct Expirations<'a, F: LoopTimer> {
    timer: &'a mut F,
    poll: Option<Poll>,
}

impl<'a, F: LoopTimer> Expirations<'a, F> {
    #[inline(always)]
    pub(crate) fn begin(timer: &'a mut F, now: Time) -> Self {
        let poll = if timer.is_idle(now) {
            None
        } else {
            timer.begin(now)
        };
        Self { timer, poll }
    }

    /// Returns the timer itself.
    pub fn timer(&mut self) -> &mut F {
        self.timer
    }

    /// Returns the poll that is under way, if one is.
    pub(crate) fn poll(&mut self) -> Option<&mut Poll> {
        self.poll.as_mut()
    }

    /// Ends the poll, and says what it came to: how many have been taken, and whether more may be due.
    pub fn finish(mut self) -> Polled {
        self.end()
    }

    /// Ends the poll. Where none began, as in an idle round, that is one comparison.
    #[inline(always)]
    fn end(&mut self) -> Polled {
        if self.poll.is_none() {
            return NOTHING;
        }
        self.end_poll()
    }

    #[inline(never)]
    fn end_poll(&mut self) -> Polled {
        let Some(mut poll) = self.poll.take() else {
            return NOTHING;
        };
        self.timer.after_handler(&mut poll);
        // Left half-way: more may be due.
        poll.turn.cut_short |= !poll.exhausted;
        self.timer.finish(poll)
    }
}

impl<F: LoopTimer> Iterator for Expirations<'_, F> {
    type Item = Expired<F::Payload>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let poll = self.poll.as_mut()?;
        self.timer.after_handler(poll);
        let expired = self.timer.next(poll);
        if expired.is_none() {
            poll.exhausted = true;
        }
        expired
    }
}

impl<F: LoopTimer> Drop for Expirations<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}
