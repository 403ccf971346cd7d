//! `tickwheel::Timer`, by each of its ways to schedule.

use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{Builder, Expired, Key, Timer, TimerHandle, TimerTask};

/// The default settings, except for what the figure asks for.
pub(super) fn builder(setup: &Setup) -> Builder {
    let builder = Builder::new().tick(setup.tick);
    match setup.shards {
        Some(shards) => builder.shards(shards),
        None => builder,
    }
}

/// Starts an engine whose timers go into the book.
pub(super) fn typed(builder: Builder, book: Arc<Book>) -> Timer<u64> {
    let timer = builder.build_with(move |expired: Expired<u64>| book.fired(expired.payload));
    let timer = timer.expect("the settings are in range");
    timer.start().expect("the workers start");
    timer
}

/// Typed payloads and plain keys.
pub struct EnginePeer(Timer<u64>);

impl CrossPeer for EnginePeer {
    type Session = Timer<u64>;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup), setup.book))
    }

    fn session(&self, _thread: usize) -> Timer<u64> {
        self.0.clone()
    }
}

impl Session for Timer<u64> {
    type Handle = Key<u64>;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.schedule_key(delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, key: Key<u64>) {
        assert!(Self::cancel(self, key).won());
    }

    #[inline]
    fn launch(&mut self, delay: Duration, payload: u64) {
        self.schedule_key(delay, payload).expect("there is no limit");
    }
}

/// Typed payloads and owned handles.
pub struct HandlesPeer(Timer<u64>);

/// One thread's clone of it.
pub struct Handles(Timer<u64>);

impl CrossPeer for HandlesPeer {
    type Session = Handles;

    fn start(setup: Setup) -> Self {
        Self(typed(builder(&setup), setup.book))
    }

    fn session(&self, _thread: usize) -> Handles {
        Handles(self.0.clone())
    }
}

impl Session for Handles {
    type Handle = TimerHandle<u64>;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> TimerHandle<u64> {
        self.0.schedule(delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, timeout: TimerHandle<u64>) {
        assert!(timeout.cancel().won());
    }

    #[inline]
    fn launch(&mut self, delay: Duration, payload: u64) {
        self.0.schedule(delay, payload).expect("there is no limit");
    }
}

/// Closures and plain keys.
pub struct ClosuresPeer {
    timer: Timer<TimerTask>,
    /// Leaked, so that a closure holds it without a shared count.
    book: &'static Book,
}

/// One thread's clone of it.
pub struct Closures {
    timer: Timer<TimerTask>,
    book: &'static Book,
}

impl CrossPeer for ClosuresPeer {
    type Session = Closures;

    fn start(setup: Setup) -> Self {
        let timer = builder(&setup).build().expect("the settings are in range");
        timer.start().expect("the workers start");
        let book: &'static _ = Box::leak(Box::new(setup.book));
        Self { timer, book }
    }

    fn session(&self, _thread: usize) -> Closures {
        Closures { timer: self.timer.clone(), book: self.book }
    }
}

impl Session for Closures {
    type Handle = Key<TimerTask>;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<TimerTask> {
        let book = self.book;
        let task = TimerTask::new(move || book.fired(payload));
        self.timer.schedule_key(delay, task).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, key: Key<TimerTask>) {
        assert!(self.timer.cancel(key).won());
    }
}
