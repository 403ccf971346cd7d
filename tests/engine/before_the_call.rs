//! What comes between the decision that a periodic timer is due and its call: copies, clocks, wakers. A cancel or a
//! move that has won there has won.

use crate::support::setup::{HOUR, ms, one_shard, rate};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Wake, Waker};
use tickwheel::{
    Clock, Drive, EventLoopBuilder, Expired, Key, ManualClock, Task, Time, Timer, WeakTimer,
};

type Prank = Box<dyn FnMut() + Send>;

/// A clock that is turned by hand and does something while it is read.
#[derive(Default)]
struct Busy {
    time: ManualClock,
    prank: Mutex<Option<Prank>>,
}

impl Clock for Busy {
    fn now(&self) -> Time {
        let prank = self.prank.lock().unwrap().take();
        if let Some(mut prank) = prank {
            prank();
            *self.prank.lock().unwrap() = Some(prank);
        }
        self.time.now()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        self.time.on_advance(wake);
    }
}

/// With a hook for slow handlers the clock is read once more before each of them.
#[test]
fn a_cancel_at_any_reading_of_the_clock_prevents_the_call_or_comes_after_it() {
    for reading in 1..8 {
        let clock = Arc::new(Busy::default());
        let (won, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (has_won, calls) = (Arc::clone(&won), Arc::clone(&late));
        let timer = one_shard()
            .clock(Arc::clone(&clock))
            .drive(Drive::Manual)
            .on_slow_handler(HOUR, |_| ())
            .build_with(move |_: Expired<u32>| {
                calls.fetch_add(usize::from(has_won.load(Ordering::SeqCst)), Ordering::SeqCst);
            })
            .unwrap();
        let key = timer.schedule_periodic(ms(10), rate(ms(10)), 7).unwrap();
        clock.time.advance(ms(20));
        let (mut left, weak, wins) = (reading, timer.downgrade(), Arc::clone(&won));
        *clock.prank.lock().unwrap() = Some(Box::new(move || {
            left -= 1;
            let timer = weak.upgrade().filter(|_| left == 0);
            if timer.is_some_and(|timer| timer.cancel(key).won()) {
                wins.store(true, Ordering::SeqCst);
            }
        }));
        timer.turn().unwrap();
        *clock.prank.lock().unwrap() = None;
        assert!(won.load(Ordering::SeqCst) || reading > 3, "the clock is read that often");
        assert_eq!(late.load(Ordering::SeqCst), 0, "called after the cancel at reading {reading}");
    }
}

/// What a waker cancels, and whether it has.
#[derive(Default)]
struct Victim {
    timer: OnceLock<(WeakTimer, Key<Task>)>,
    won: AtomicBool,
}

impl Wake for Victim {
    fn wake(self: Arc<Self>) {
        let (timer, key) = self.timer.get().unwrap();
        let won = timer.upgrade().unwrap().cancel(*key).won();
        self.won.fetch_or(won, Ordering::SeqCst);
    }
}

/// Wakers of a turn are gathered, and called together later: before a periodic timer's call is decided.
#[test]
fn a_waker_of_the_same_turn_that_cancels_prevents_the_call() {
    let clock = ManualClock::new();
    let timer: Timer = one_shard().clock(clock.clone()).drive(Drive::Manual).build().unwrap();
    let victim = Arc::new(Victim::default());
    let waker = Waker::from(Arc::clone(&victim));
    let mut sleep = timer.sleep(ms(5));
    assert!(sleep.poll_sleep(&mut Context::from_waker(&waker)).is_pending());
    let (inside, late) = (Arc::clone(&victim), Arc::new(AtomicUsize::new(0)));
    let calls = Arc::clone(&late);
    let call = move || {
        calls.fetch_add(usize::from(inside.won.load(Ordering::SeqCst)), Ordering::SeqCst);
    };
    let key = timer.repeat(ms(10), rate(ms(10)), call).unwrap();
    assert!(victim.timer.set((timer.downgrade(), key)).is_ok());
    clock.advance(ms(20));
    timer.turn().unwrap();
    assert!(victim.won.load(Ordering::SeqCst), "the sleep has woken");
    assert_eq!(late.load(Ordering::SeqCst), 0, "called after the cancel");
}

/// A payload that does something when it is copied.
struct Copied(Arc<dyn Fn() + Send + Sync>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        (self.0)();
        Self(Arc::clone(&self.0))
    }
}

/// The coming call's payload is copied ahead, when the timer is due: a move that comes then and says that it has
/// moved the timer has.
#[test]
fn a_timer_that_is_moved_away_while_it_is_copied_is_called_at_its_new_deadline() {
    let clock = ManualClock::new();
    let called: Arc<Mutex<Vec<(Time, Time)>>> = Arc::default();
    let (calls, time) = (Arc::clone(&called), clock.clone());
    let timer = one_shard()
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build_with(move |expired: Expired<Copied>| {
            calls.lock().unwrap().push((time.now(), expired.deadline));
        })
        .unwrap();
    let inside: Arc<OnceLock<(WeakTimer<Copied>, Key<Copied>)>> = Arc::default();
    let (of_copies, moves) = (Arc::clone(&inside), Arc::new(AtomicUsize::new(0)));
    let moved = Arc::clone(&moves);
    let payload = Copied(Arc::new(move || {
        let Some((timer, key)) = of_copies.get() else { return };
        // The first time only.
        if moved.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(timer.upgrade().unwrap().reschedule(*key, HOUR).moved());
        }
    }));
    let key = timer.schedule_periodic(ms(10), rate(ms(10)), payload).unwrap();
    assert!(inside.set((timer.downgrade(), key)).is_ok());
    clock.advance(ms(12));
    let moved_to = clock.now() + HOUR;
    assert_eq!(timer.turn(), Ok(0), "it was moved by an hour");
    assert_eq!((moves.load(Ordering::SeqCst), timer.pending()), (1, 1));
    let stats = timer.stats();
    assert_eq!((stats.scheduled(), stats.fired()), (1, 0));
    assert_eq!(timer.deadline(key), Some(moved_to));
    clock.set(moved_to);
    assert_eq!(timer.turn(), Ok(1));
    assert_eq!(*called.lock().unwrap(), [(moved_to, moved_to)]);
    assert!(timer.cancel(key).won());
}

/// The same for an event loop's timer, moved to where it is due all the same.
#[test]
fn a_timer_of_an_event_loop_that_is_moved_while_it_is_copied_is_called_for_its_new_deadline() {
    for (to, fired) in [(Time::from_nanos(11_000_000), 1), (Time::from_nanos(30_000_000), 0)] {
        let clock = ManualClock::new();
        let mut timer =
            EventLoopBuilder::new().clock(clock.clone()).build_with_waker(|| ()).unwrap();
        let (remote, inside) = (timer.remote(), Arc::new(OnceLock::<Key<Copied>>::new()));
        let key_of = Arc::clone(&inside);
        let payload = Copied(Arc::new(move || {
            if let Some(key) = key_of.get() {
                assert!(remote.reschedule(*key, to).moved());
            }
        }));
        let key = timer.schedule_periodic(clock.now(), ms(10), rate(ms(10)), payload).unwrap();
        inside.set(key).unwrap();
        clock.advance(ms(12));
        let mut deadlines = Vec::new();
        let polled = timer.poll(clock.now(), |expired| deadlines.push(expired.deadline));
        assert_eq!((polled.fired, deadlines.len()), (fired, fired));
        assert!(deadlines.iter().all(|deadline| *deadline == to));
        assert_eq!(timer.pending(), 1);
    }
}
