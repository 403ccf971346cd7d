//! `tickwheel::Timer` for callers who can keep something: a submitter per thread, a time read once.

use super::engine::{builder, typed};
use super::peer::{CrossPeer, Session, Setup};
use crate::stream::Step;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;
use tickwheel::{Key, Submitter, Time, Timer};

/// Slack of the engine whose timers share wake-ups.
const SLACK: Duration = Duration::from_micros(100);

/// A way for one thread, which stays there.
pub(super) trait Way {
    /// What a piece of work begins with.
    fn of(timer: &Timer<u64>) -> impl Session<Handle = Key<u64>>;
}

/// An engine, used in this way.
pub(super) struct ByWay<W>(Timer<u64>, PhantomData<fn(W)>);

impl<W: Way + 'static> CrossPeer for ByWay<W> {
    type Session = Self;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup), setup.book), PhantomData)
    }

    fn session(&self, _thread: usize) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

/// A submitter cannot move to another thread as sessions do, so each piece of work makes one.
impl<W: Way> Session for ByWay<W> {
    type Handle = Key<u64>;

    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        W::of(&self.0).schedule(delay, payload)
    }

    fn cancel(&mut self, key: Key<u64>) {
        W::of(&self.0).cancel(key);
    }

    fn pairs(&mut self, steps: &[Step], ring: &mut VecDeque<Key<u64>>) {
        W::of(&self.0).pairs(steps, ring);
    }

    fn watched_pairs(
        &mut self,
        steps: &[Step],
        ring: &mut VecDeque<Key<u64>>,
        samples: &mut Vec<i64>,
    ) {
        W::of(&self.0).watched_pairs(steps, ring, samples);
    }
}

/// A submitter.
pub(super) struct Keeping;

impl Way for Keeping {
    fn of(timer: &Timer<u64>) -> impl Session<Handle = Key<u64>> {
        timer.submitter()
    }
}

impl Session for Submitter<'_, u64> {
    type Handle = Key<u64>;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        Submitter::schedule(self, delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, key: Key<u64>) {
        assert!(Submitter::cancel(self, key).won());
    }
}

/// A submitter, and deadlines that count from a time which is read once per piece, as a server does per round.
pub(super) struct KeepingTime;

impl Way for KeepingTime {
    fn of(timer: &Timer<u64>) -> impl Session<Handle = Key<u64>> {
        FromNow { submitter: timer.submitter(), now: timer.now() }
    }
}

struct FromNow<'a> {
    submitter: Submitter<'a, u64>,
    now: Time,
}

impl Session for FromNow<'_> {
    type Handle = Key<u64>;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.submitter.schedule(self.now + delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, key: Key<u64>) {
        assert!(self.submitter.cancel(key).won());
    }
}

/// Typed payloads and plain keys of an engine with slack.
pub(super) struct SlackPeer(Timer<u64>);

impl CrossPeer for SlackPeer {
    type Session = Timer<u64>;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup).slack(SLACK), setup.book))
    }

    fn session(&self, _thread: usize) -> Timer<u64> {
        self.0.clone()
    }
}
