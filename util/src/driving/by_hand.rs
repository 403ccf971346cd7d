//! What the unit tests here turn shards with: an alarm and a clock that the test moves.

use super::Alarm;
use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;
use tickwheel::{Builder, Clock, Pinning, Time, Timer};

/// Counts how often a task is woken.
#[derive(Default)]
pub(super) struct Wakes(AtomicUsize);

impl Wakes {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Milliseconds that the test counts, and that are not virtual: a turn returns how long to wait.
#[derive(Clone, Default)]
pub(super) struct Millis(Arc<AtomicUsize>);

impl Millis {
    pub(super) fn set(&self, millis: usize) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

impl Clock for Millis {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::SeqCst) as u64 * 1_000_000)
    }
}

/// An engine of this many shards on a clock of the test's.
pub(super) fn engine(shards: usize) -> (Timer, Millis) {
    let clock = Millis::default();
    let builder = Builder::new().shards(shards).pinning(Pinning::Off);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

thread_local! {
    /// What the alarm of the thread's test was set to, and what it wakes.
    static SET: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
    static WAKES: RefCell<Waker> = RefCell::new(Waker::noop().clone());
    /// What the wake of a `moody` waker does, and what the next drop of one does.
    static CALLS: Cell<fn()> = const { Cell::new(|| ()) };
    static DROPS: Cell<fn()> = const { Cell::new(|| ()) };
    /// The alarm has gone off, and was not asked since.
    static GONE_OFF: Cell<bool> = const { Cell::new(false) };
}

/// An alarm that goes off when the test says so.
pub(super) struct ByHand;

impl Alarm for ByHand {
    fn new() -> Self {
        Self
    }

    fn set(&mut self, pause: Duration) {
        SET.with_borrow_mut(|set| set.push(pause));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        WAKES.set(cx.waker().clone());
        if GONE_OFF.take() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

pub(super) fn go_off() {
    WAKES.with_borrow(Clone::clone).wake();
}

/// Lets the alarm have gone off when it is asked next, without a wake.
pub(super) fn has_gone_off() {
    GONE_OFF.set(true);
}

/// Returns what the alarm was set to since this was called last.
pub(super) fn take_set() -> Vec<Duration> {
    SET.take()
}

/// A waker that does what the thread has set.
pub(super) fn moody() -> Waker {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(null(), &VTABLE),
        |_| CALLS.get()(),
        |_| CALLS.get()(),
        |_| DROPS.replace(|| ())(),
    );
    // SAFETY: the table's functions do not look at the data.
    unsafe { Waker::new(null(), &VTABLE) }
}

pub(super) fn set_moods(wake: fn(), drop: fn()) {
    CALLS.set(wake);
    DROPS.set(drop);
}
