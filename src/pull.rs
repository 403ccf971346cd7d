//! Firing by pulling: the timers that are due, one after the other, without a handler.
//!
//! `poll` and `poll_with` of the timers that a loop drives are made of this as well: there is one way to fire.

use crate::drive::TurnState;
use crate::time::Time;
use crate::types::{Expired, Polled};

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
        Self { turn, now, has_clock: false, exhausted: false }
    }
}

mod sealed {
    use super::{Expired, Poll, Polled, Time};

    /// The steps of a poll.
    pub trait Steps {
        type Payload;

        /// `None` if a poll is under way: this is a handler.
        fn begin(&mut self, now: Time) -> Option<Poll>;

        /// The next timer that fires, if the poll is this timer's.
        fn next(&mut self, poll: &mut Poll) -> Option<Expired<Self::Payload>>;

        /// The timer that was handed out last has been handled.
        fn after_handler(&mut self, poll: &mut Poll);

        fn finish(&mut self, poll: Poll) -> Polled;
    }
}

pub(crate) use sealed::Steps;

/// A timer that a loop drives: [`EventLoopTimer`](crate::EventLoopTimer), [`LocalTimer`](crate::LocalTimer) or
/// [`FixedTimer`](crate::FixedTimer), and nothing else.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Expirations, LocalTimer, Pull, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Fires at most `most` timers of any of the three fronts; the rest stays due.
/// fn fire_some<F: Pull>(due: Expirations<'_, F>, most: usize) -> usize {
///     due.take(most).count()
/// }
///
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// for n in 0..5 {
///     timer.schedule(Time::ZERO, Duration::ZERO, n)?;
/// }
/// assert_eq!(fire_some(timer.expired(Time::ZERO), 2), 2);
/// assert_eq!(timer.pending(), 3);
/// # Ok(()) }
/// ```
pub trait Pull: sealed::Steps {}

impl<F: sealed::Steps> Pull for F {}

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
pub struct Expirations<'a, F: Pull> {
    timer: &'a mut F,
    poll: Option<Poll>,
}

impl<'a, F: Pull> Expirations<'a, F> {
    #[inline]
    pub(crate) fn begin(timer: &'a mut F, now: Time) -> Self {
        let poll = timer.begin(now);
        Self { timer, poll }
    }

    /// The timer itself.
    pub fn timer(&mut self) -> &mut F {
        self.timer
    }

    /// Hands each timer to `handler`, together with the timer that it was scheduled on.
    pub(crate) fn handle_with(
        mut self,
        mut handler: impl FnMut(&mut F, Expired<F::Payload>),
    ) -> Polled {
        while let Some(expired) = self.next() {
            handler(self.timer, expired);
        }
        self.end()
    }

    /// The timer, and the poll that is under way, if one is.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut F, Option<&mut Poll>) {
        (self.timer, self.poll.as_mut())
    }

    /// Ends the poll, and says what it came to: how many have been taken, and whether more may be due.
    pub fn finish(mut self) -> Polled {
        self.end()
    }

    #[inline]
    fn end(&mut self) -> Polled {
        let Some(mut poll) = self.poll.take() else { return Polled { fired: 0, more: false } };
        self.timer.after_handler(&mut poll);
        // Left half-way: more may be due.
        poll.turn.cut_short |= !poll.exhausted;
        self.timer.finish(poll)
    }
}

impl<F: Pull> Iterator for Expirations<'_, F> {
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

impl<F: Pull> Drop for Expirations<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}
