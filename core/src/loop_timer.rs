//! How the timers that a loop drives fire. `poll` and `poll_with` are made of [`Expirations`]: there is one way.

use crate::time::Time;
use crate::types::{Expired, Polled};

/// A poll under way.
#[doc(hidden)]
pub struct Poll {
    /// The time of the poll.
    pub now: Time,
    /// A handler's end can be told by a clock, so that a fixed delay counts from there.
    pub(crate) has_clock: bool,
}

impl Poll {
    pub const fn at(now: Time) -> Self {
        Self {
            now,
            has_clock: false,
        }
    }
}

mod sealed {
    use super::{Expired, Poll, Polled, Time};

    /// The steps of a poll, which each timer of a loop takes in its own way.
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

        fn finish(&mut self) -> Polled;
    }
}

pub use sealed::Steps;

/// The answer of a poll that has done nothing.
const NOTHING: Polled = Polled {
    fired: 0,
    more: false,
};

/// Hands each timer that is due to `handler`, together with the timer that it was scheduled on. Inlined, so that a round
/// in which nothing is due costs some comparisons.
#[inline(always)]
pub fn poll_with<F: Steps>(
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
fn fire_due<F: Steps>(
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
///         due.timer()
///             .schedule(now, Duration::from_secs(1), expired.payload)
///             .map_err(|e| e.to_string())?;
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
/// It must be dropped: while one exists that has begun a poll, leaked or not, polls do nothing. Where nothing is due it
/// begins none.
///
/// `F` is an `EventLoopTimer` or a [`LocalTimer`](crate::LocalTimer).
#[must_use = "timers fire as they are taken"]
pub struct Expirations<'a, F: Steps> {
    timer: &'a mut F,
    poll: Option<Poll>,
}

debug_fields!([F: Steps] Expirations<'_, F>, "Expirations", it, polling: it.poll.is_some());

impl<'a, F: Steps> Expirations<'a, F> {
    #[inline(always)]
    #[doc(hidden)]
    pub fn begin(timer: &'a mut F, now: Time) -> Self {
        // Two values and no common one that is changed: a `for` moves it, and a byte that was just written and is read
        // as a part of a word costs more than all the rest of an idle round.
        if timer.is_idle(now) {
            return Self { timer, poll: None };
        }
        let poll = Self::begin_poll(timer, now);
        Self { timer, poll }
    }

    /// Begins a poll. Apart, so that a round in which nothing is due stays small in the caller's code.
    #[inline(never)]
    fn begin_poll(timer: &mut F, now: Time) -> Option<Poll> {
        timer.begin(now)
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
        self.timer.finish()
    }
}

impl<F: Steps> Iterator for Expirations<'_, F> {
    type Item = Expired<F::Payload>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let poll = self.poll.as_mut()?;
        self.timer.after_handler(poll);
        self.timer.next(poll)
    }
}

impl<F: Steps> Drop for Expirations<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}
