//! Timers of one thread.

use super::{HASHED_BUCKETS, MS};
use crate::hashed_wheel::{HashedKey, HashedWheel};
use crate::slots::{SlotKey, Slots};
use crate::spinning_loop::SpinClock;
use bitwheel::timer::{BitWheelWithFailover, LargePreciseWheelWithFailover};
use nexus_timer::{BoundedWheel, TimerHandle};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{EventLoopTimer, Key, LocalTimer, MonotonicClock, Remote, Settings, Time};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::coop::unconstrained;
use tokio::time::{self, Sleep, sleep_until};
use tokio_util::time::{DelayQueue, delay_queue};

/// A timer of one thread, on a clock that [`advance`](Self::advance) moves.
pub trait LocalPeer: Sized {
    /// The name of one timer.
    type Handle;

    /// Makes a timer that will hold at most `capacity` timers at once.
    fn new(capacity: usize) -> Self;

    /// Schedules `delay` from now.
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle;

    /// Schedules without any wish to cancel.
    #[inline]
    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    /// Cancels a timer that has not fired; returns its payload, 0 where the peer keeps none.
    fn cancel(&mut self, handle: Self::Handle) -> u64;

    /// Moves a timer to `delay` from now.
    fn rearm(&mut self, handle: Self::Handle, delay: Duration) -> Self::Handle;

    /// Moves the clock and fires what is due then; returns how many.
    fn advance(&mut self, by: Duration) -> usize;
}

/// What a loop does besides, on the real clock or on one that stands still in between.
pub trait LoopPeer: LocalPeer {
    /// Like [`advance`](LocalPeer::advance), by the call without a handler, if the peer has two.
    fn advance_and_collect(&mut self, by: Duration) -> usize {
        self.advance(by)
    }

    /// Returns how long the loop may sleep.
    fn timeout(&mut self) -> Option<Duration>;

    /// Takes the time from the clock that the peer's page names.
    fn read_clock(&mut self);

    /// Fires what is due by the real clock, in the way that costs a loop least which never sleeps.
    #[inline]
    fn spin(&mut self) -> usize {
        self.read_clock();
        self.advance(Duration::ZERO)
    }
}

/// The same code for all: they have the same calls, of which no trait has `schedule`.
macro_rules! own_peer {
    ($(#[$about:meta])* $peer:ident, $timer:ty, $new:expr, $remote:ty, $remote_of:expr, $clock:expr) => {
        $(#[$about])*
        pub struct $peer {
            timer: $timer,
            now: Time,
            spin: SpinClock,
            _remote: $remote,
        }

        impl LoopPeer for $peer {
            fn advance_and_collect(&mut self, by: Duration) -> usize {
                self.now += by;
                let mut fired = 0;
                for expired in self.timer.expired(self.now) {
                    black_box(expired.payload);
                    fired += 1;
                }
                fired
            }

            #[inline]
            fn timeout(&mut self) -> Option<Duration> {
                self.timer.poll_timeout(self.now)
            }

            #[inline]
            fn read_clock(&mut self) {
                self.now = $clock(&self.timer);
            }

            #[inline]
            fn spin(&mut self) -> usize {
                self.now = self.spin.now();
                self.advance(Duration::ZERO)
            }
        }

        impl LocalPeer for $peer {
            type Handle = Key<u64>;

            fn new(_capacity: usize) -> Self {
                let timer = $new.expect("the settings are valid");
                let _remote = $remote_of(&timer);
                Self { timer, now: Time::ZERO, spin: SpinClock::new(), _remote }
            }

            #[inline]
            fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
                self.timer.schedule(self.now, delay, payload).expect("there is no limit")
            }

            #[inline]
            fn cancel(&mut self, key: Key<u64>) -> u64 {
                self.timer.cancel(key).into_payload().expect("the timer is pending")
            }

            #[inline]
            fn rearm(&mut self, key: Key<u64>, delay: Duration) -> Key<u64> {
                assert!(self.timer.reschedule(self.now, key, delay).is_moved());
                key
            }

            fn advance(&mut self, by: Duration) -> usize {
                self.now += by;
                let mut fired = 0;
                loop {
                    let polled = self.timer.poll(self.now, |expired| {
                        black_box(expired.payload);
                    });
                    fired += polled.fired;
                    if !polled.more {
                        return fired;
                    }
                }
            }
        }
    };
}

own_peer! {
    /// `tickwheel::LocalTimer` at the default settings.
    LocalTimerPeer, LocalTimer<u64>, LocalTimer::new(Duration::from_millis(1)),
    (), |_: &_| (), |_: &_| MonotonicClock::new().now()
}

own_peer! {
    /// `tickwheel::EventLoopTimer` at the default settings, used by its owner. No remote exists, so nobody is ever woken.
    EventLoopPeer, EventLoopTimer<u64>, EventLoopTimer::with_waker(Settings::new(), || ()),
    (), |_: &_| (), EventLoopTimer::now
}

own_peer! {
    /// The same, with a remote that sends nothing.
    EventLoopRemotePeer, EventLoopTimer<u64>, EventLoopTimer::with_waker(Settings::new(), || ()),
    Remote<u64>, EventLoopTimer::remote, EventLoopTimer::now
}

/// nexus-timer: bounded, as its page advises where the number of timers is known. Collects and rebalances in one go, the
/// poll that its page calls complete.
pub struct NexusPeer {
    wheel: BoundedWheel<u64>,
    now: Instant,
    due: Vec<u64>,
}

impl LocalPeer for NexusPeer {
    type Handle = TimerHandle<u64>;

    fn new(capacity: usize) -> Self {
        let now = Instant::now();
        Self {
            wheel: BoundedWheel::bounded(capacity, now),
            now,
            due: Vec::new(),
        }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.wheel.schedule(self.now + delay, payload)
    }

    #[inline]
    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        self.wheel.schedule_forget(self.now + delay, payload);
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> u64 {
        self.wheel.cancel(handle).unwrap_or_default()
    }

    #[inline]
    fn rearm(&mut self, handle: Self::Handle, delay: Duration) -> Self::Handle {
        self.wheel.reschedule(handle, self.now + delay)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by;
        let fired = self.wheel.poll_and_rebalance(self.now, &mut self.due);
        self.due
            .drain(..)
            .for_each(|payload| _ = black_box(payload));
        fired
    }
}

impl LoopPeer for NexusPeer {
    #[inline]
    fn timeout(&mut self) -> Option<Duration> {
        let next = self.wheel.next_deadline()?;
        Some(next.saturating_duration_since(self.now))
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now = Instant::now();
    }
}

/// A payload of bitwheel.
struct Noted(u64);

impl bitwheel::timer::Timer for Noted {
    type Context = ();

    fn fire(&mut self, _: &mut ()) {
        black_box(self.0);
    }
}

/// bitwheel with its largest slots, because it holds a fixed number of timers; the rest lies in its `BTreeMap`.
pub struct BitwheelPeer {
    wheel: Box<LargePreciseWheelWithFailover<Noted>>,
    now: Instant,
}

impl LocalPeer for BitwheelPeer {
    type Handle = bitwheel::timer::TimerHandle;

    fn new(_capacity: usize) -> Self {
        let now = Instant::now();
        Self {
            wheel: BitWheelWithFailover::boxed_with_epoch(now),
            now,
        }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.wheel.insert(self.now + delay, Noted(payload))
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> u64 {
        let timer = self.wheel.cancel(handle);
        timer.expect("the timer is pending").0
    }

    /// It has no call of its own for it.
    #[inline]
    fn rearm(&mut self, handle: Self::Handle, delay: Duration) -> Self::Handle {
        let payload = self.cancel(handle);
        self.schedule(delay, payload)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by;
        self.wheel.poll(self.now, &mut ())
    }
}

impl LoopPeer for BitwheelPeer {
    #[inline]
    fn timeout(&mut self) -> Option<Duration> {
        let next = self.wheel.peek_next_fire()?;
        Some(next.saturating_duration_since(self.now))
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now = Instant::now();
    }
}

/// A runtime that this thread is inside of for good. Its clock stands until it is advanced.
struct Paused {
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
    now: time::Instant,
}

impl Paused {
    fn enter() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        // Leaked: it lives as long as the process, and the guard borrows it.
        let runtime: &Runtime = Box::leak(Box::new(runtime.expect("a runtime of one thread")));
        Self {
            runtime,
            _inside: runtime.enter(),
            now: time::Instant::now(),
        }
    }
}

/// tokio-util's `DelayQueue`, with room for all timers from the start, and deadlines as points in time: it neither grows
/// nor reads a clock.
pub struct DelayQueuePeer {
    // Before the runtime's guard: its own sleep is dropped inside the runtime.
    queue: DelayQueue<u64>,
    paused: Paused,
}

impl LocalPeer for DelayQueuePeer {
    type Handle = delay_queue::Key;

    fn new(capacity: usize) -> Self {
        let paused = Paused::enter();
        Self {
            queue: DelayQueue::with_capacity(capacity),
            paused,
        }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.queue.insert_at(payload, self.paused.now + delay)
    }

    #[inline]
    fn cancel(&mut self, key: Self::Handle) -> u64 {
        self.queue.remove(&key).into_inner()
    }

    #[inline]
    fn rearm(&mut self, key: Self::Handle, delay: Duration) -> Self::Handle {
        self.queue.reset_at(&key, self.paused.now + delay);
        key
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.paused.now += by;
        let queue = &mut self.queue;
        self.paused.runtime.block_on(unconstrained(async {
            time::advance(by).await;
            let mut fired = 0;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    black_box(expired.into_inner());
                    fired += 1;
                }
                Poll::Ready(fired)
            })
            .await
        }))
    }
}

/// One waker for all timers: it counts. A waker per timer would be one more allocation each.
#[derive(Default)]
struct Fires(AtomicUsize);

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        // ORDERING: Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// tokio's `sleep`: boxed, polled once so that it is registered.
pub struct TokioSleepPeer {
    paused: Paused,
    fires: Arc<Fires>,
    waker: Waker,
}

impl LocalPeer for TokioSleepPeer {
    type Handle = Pin<Box<Sleep>>;

    fn new(_capacity: usize) -> Self {
        let fires = Arc::new(Fires::default());
        let waker = Waker::from(Arc::clone(&fires));
        Self {
            paused: Paused::enter(),
            fires,
            waker,
        }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Self::Handle {
        let mut sleep = Box::pin(sleep_until(self.paused.now + delay));
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(&self.waker))
                .is_pending()
        );
        sleep
    }

    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        std::mem::forget(self.schedule(delay, payload));
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> u64 {
        drop(handle);
        0
    }

    #[inline]
    fn rearm(&mut self, mut handle: Self::Handle, delay: Duration) -> Self::Handle {
        handle.as_mut().reset(self.paused.now + delay);
        handle
    }

    fn advance(&mut self, by: Duration) -> usize {
        // ORDERING: Relaxed, here and below: one thread.
        let before = self.fires.0.load(Ordering::Relaxed);
        self.paused.now += by;
        self.paused.runtime.block_on(time::advance(by));
        self.fires.0.load(Ordering::Relaxed) - before
    }
}

/// A binary heap of deadlines in nanoseconds, with lazy removal: the slots say which of its entries are alive.
#[derive(Default)]
pub struct HeapPeer {
    heap: BinaryHeap<Reverse<(u64, SlotKey)>>,
    slots: Slots<()>,
    now: u64,
}

impl HeapPeer {
    fn push(&mut self, key: SlotKey, delay: Duration) -> SlotKey {
        self.heap
            .push(Reverse((self.now + delay.as_nanos() as u64, key)));
        key
    }

    /// Builds the heap anew once dead entries are half of it, as most implementations do. That is the bound which our
    /// timers keep, too, but for the 16 Ki dead entries that they always allow.
    fn compact(&mut self) {
        if self.heap.len() > 64 && self.heap.len() > 2 * self.slots.len() {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, key))| slots.is_pending(*key));
        }
    }
}

impl LocalPeer for HeapPeer {
    type Handle = SlotKey;

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> SlotKey {
        let key = self.slots.insert(payload, ());
        self.push(key, delay)
    }

    #[inline]
    fn cancel(&mut self, key: SlotKey) -> u64 {
        let payload = self.slots.remove(key);
        self.compact();
        payload
    }

    #[inline]
    fn rearm(&mut self, key: SlotKey, delay: Duration) -> SlotKey {
        let key = self.slots.renew(key.0);
        self.push(key, delay);
        self.compact();
        key
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        let mut fired = 0;
        while let Some(Reverse((deadline, key))) = self.heap.peek().copied() {
            if deadline > self.now {
                break;
            }
            self.heap.pop();
            if self.slots.is_pending(key) {
                black_box(self.slots.remove(key));
                fired += 1;
            }
        }
        fired
    }
}

/// Nanoseconds since the first call of the process, as a loop without a timer library would count them.
fn nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl LoopPeer for HeapPeer {
    #[inline]
    fn timeout(&mut self) -> Option<Duration> {
        let Reverse((deadline, _)) = self.heap.peek()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.now)))
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now = nanos();
    }
}

/// Netty's wheel, with a tick of a millisecond.
pub(super) struct HashedPeer {
    wheel: HashedWheel<u64>,
    due: Vec<u64>,
    now: u64,
}

impl LocalPeer for HashedPeer {
    type Handle = HashedKey;

    fn new(_capacity: usize) -> Self {
        Self {
            wheel: HashedWheel::new(HASHED_BUCKETS, 0),
            due: Vec::new(),
            now: 0,
        }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> HashedKey {
        let deadline = self.now + delay.as_nanos() as u64;
        self.wheel.schedule(deadline.div_ceil(MS), payload)
    }

    #[inline]
    fn cancel(&mut self, key: HashedKey) -> u64 {
        self.wheel.cancel(key).expect("the timer is pending")
    }

    #[inline]
    fn rearm(&mut self, key: HashedKey, delay: Duration) -> HashedKey {
        let payload = self.cancel(key);
        self.schedule(delay, payload)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        while self.wheel.hand() < self.now / MS {
            self.wheel.advance(&mut self.due);
        }
        let fired = self.due.len();
        self.due
            .drain(..)
            .for_each(|payload| _ = black_box(payload));
        fired
    }
}

/// A `BTreeMap` by deadline and number.
#[derive(Default)]
pub struct TreePeer {
    tree: BTreeMap<(u64, u64), u64>,
    number: u64,
    now: u64,
}

impl LocalPeer for TreePeer {
    type Handle = (u64, u64);

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.number += 1;
        let key = (self.now + delay.as_nanos() as u64, self.number);
        self.tree.insert(key, payload);
        key
    }

    #[inline]
    fn cancel(&mut self, key: Self::Handle) -> u64 {
        self.tree.remove(&key).expect("the timer is pending")
    }

    #[inline]
    fn rearm(&mut self, key: Self::Handle, delay: Duration) -> Self::Handle {
        let payload = self.cancel(key);
        self.schedule(delay, payload)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        let mut fired = 0;
        while let Some(first) = self.tree.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            black_box(first.remove());
            fired += 1;
        }
        fired
    }
}

impl LoopPeer for TreePeer {
    #[inline]
    fn timeout(&mut self) -> Option<Duration> {
        let ((deadline, _), _) = self.tree.first_key_value()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.now)))
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now = nanos();
    }
}

/// No timer at all: payloads and deadlines in slots. Nothing ever fires.
///
/// Every timer has to do at least this for a schedule and a cancel, so the figure says how much of a pair is the timer's
/// own work, and how much is waiting for memory and the benchmark's loop.
#[derive(Default)]
pub struct FloorPeer {
    slots: Slots<u64>,
    now: u64,
}

impl LocalPeer for FloorPeer {
    type Handle = SlotKey;

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> SlotKey {
        self.slots
            .insert(payload, self.now + delay.as_nanos() as u64)
    }

    #[inline]
    fn cancel(&mut self, key: SlotKey) -> u64 {
        self.slots.remove(key)
    }

    #[inline]
    fn rearm(&mut self, key: SlotKey, delay: Duration) -> SlotKey {
        assert!(self.slots.is_pending(key), "the timer is pending");
        *self.slots.extra(key.0) = black_box(self.now + delay.as_nanos() as u64);
        key
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        0
    }
}
