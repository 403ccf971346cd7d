//! `tickwheel::Timer`, by each of its ways to schedule.

use super::{CrossPeer, Pairs, Setup};
use crate::book::Book;
use crate::process::take_priority;
use std::time::Duration;
use tickwheel::{Builder, Expired, Key, Pinning, Timer, TimerHandle, TimerTask};

/// Returns the default settings, except for those that the figure asks for.
pub(super) fn builder(setup: &Setup) -> Builder {
    let builder = Builder::new().tick(setup.tick);
    match setup.shards {
        Some(shards) => builder.shards(shards),
        None => builder,
    }
}

/// Starts an engine whose timers go into the book.
fn typed(builder: Builder, book: &'static Book) -> Timer<u64> {
    let timer = builder.build_with(move |expired: Expired<u64>| book.fired(expired.payload));
    let timer = timer.expect("the settings are in range");
    timer.start().expect("the workers start");
    timer
}

/// Typed payloads and plain keys, of an engine that allows this slack.
#[derive(Clone)]
pub struct Keys<const SLACK_US: u64>(Timer<u64>);

/// At the default settings.
pub type EnginePeer = Keys<0>;
/// Timers share wake-ups.
pub(super) type SlackPeer = Keys<100>;

impl<const SLACK_US: u64> CrossPeer for Keys<SLACK_US> {
    type Handle = Key<u64>;

    fn start(setup: Setup) -> Self {
        Self(typed(
            builder(&setup).slack(Duration::from_micros(SLACK_US)),
            setup.book,
        ))
    }

    #[inline]
    fn schedule(&self, delay: Duration, payload: u64) -> Key<u64> {
        self.0.schedule(delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&self, key: Key<u64>) {
        assert!(self.0.cancel(key).is_won());
    }
}

/// Typed payloads and plain keys, of an engine whose workers run before everything else on their cores.
#[derive(Clone)]
pub(super) struct PriorityPeer(EnginePeer);

impl CrossPeer for PriorityPeer {
    type Handle = Key<u64>;

    fn start(setup: Setup) -> Self {
        let builder =
            builder(&setup).on_worker_start(|_| take_priority().expect("`is_built` has tried it"));
        Self(Keys(typed(builder, setup.book)))
    }

    fn schedule(&self, delay: Duration, payload: u64) -> Key<u64> {
        self.0.schedule(delay, payload)
    }

    fn cancel(&self, key: Key<u64>) {
        self.0.cancel(key);
    }
}

/// Typed payloads and plain keys, of an engine whose workers are pinned to no core.
#[derive(Clone)]
pub(super) struct UnpinnedPeer(EnginePeer);

impl CrossPeer for UnpinnedPeer {
    type Handle = Key<u64>;

    fn start(setup: Setup) -> Self {
        let builder = builder(&setup).pinning(Pinning::Off);
        Self(Keys(typed(builder, setup.book)))
    }

    fn schedule(&self, delay: Duration, payload: u64) -> Key<u64> {
        self.0.schedule(delay, payload)
    }

    fn cancel(&self, key: Key<u64>) {
        self.0.cancel(key);
    }
}

/// Typed payloads and owned handles.
#[derive(Clone)]
pub struct HandlesPeer(Timer<u64>);

impl CrossPeer for HandlesPeer {
    type Handle = TimerHandle<u64>;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup), setup.book))
    }

    #[inline]
    fn schedule(&self, delay: Duration, payload: u64) -> TimerHandle<u64> {
        self.0
            .schedule_handle(delay, payload)
            .expect("there is no limit")
    }

    #[inline]
    fn cancel(&self, handle: TimerHandle<u64>) {
        assert!(handle.cancel().is_won());
    }
}

/// Closures of two words and plain keys.
#[derive(Clone)]
pub struct ClosuresPeer {
    timer: Timer<TimerTask>,
    book: &'static Book,
}

impl CrossPeer for ClosuresPeer {
    type Handle = Key<TimerTask>;

    fn start(setup: Setup) -> Self {
        let timer = builder(&setup).build().expect("the settings are in range");
        timer.start().expect("the workers start");
        Self {
            timer,
            book: setup.book,
        }
    }

    #[inline]
    fn schedule(&self, delay: Duration, payload: u64) -> Key<TimerTask> {
        let book = self.book;
        let task = TimerTask::new(move || book.fired(payload));
        self.timer.schedule(delay, task).expect("there is no limit")
    }

    #[inline]
    fn cancel(&self, key: Key<TimerTask>) {
        assert!(self.timer.cancel(key).is_won());
    }
}

/// Deadlines count from a time that is read once per piece of work, as a server does per round.
#[derive(Clone)]
pub(super) struct TimesPeer(Timer<u64>);

impl CrossPeer for TimesPeer {
    type Handle = Key<u64>;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup), setup.book))
    }

    fn schedule(&self, delay: Duration, payload: u64) -> Key<u64> {
        let at = self.0.now() + delay;
        self.0.schedule(at, payload).expect("there is no limit")
    }

    fn cancel(&self, key: Key<u64>) {
        assert!(self.0.cancel(key).is_won());
    }

    fn pairs(&self, work: Pairs<'_, Key<u64>>) {
        let now = self.0.now();
        let schedule = |delay, payload| {
            let key = self.0.schedule(now + delay, payload);
            key.expect("there is no limit")
        };
        work.run(schedule, |key| assert!(self.0.cancel(key).is_won()));
    }
}
