//! What users' code does around the call of a periodic timer: payloads that lock, stop and panic, clocks and wakers
//! that cancel.

use crate::support::setup::{HOUR, ms, one_shard, rate, us};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tickwheel::{
    Cancel, Clock, Drive, Expired, Key, ManualClock, StopError, Time, Timer, TimerTask, WeakTimer,
};

/// Its copies are made under a lock of the user's.
struct Guarded(Arc<Mutex<()>>);

impl Clone for Guarded {
    fn clone(&self) -> Self {
        let _held = self.0.lock().unwrap();
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn copies_under_a_users_lock_do_not_meet_a_lock_of_the_timers() {
    let users = Arc::new(Mutex::new(()));
    let timer = one_shard().tick(us(20)).build_with(|_: Expired<Guarded>| ()).unwrap();
    for _ in 0..200 {
        let period = rate(us(20));
        let key =
            timer.schedule_periodic(Duration::ZERO, period, Guarded(Arc::clone(&users))).unwrap();
        for _ in 0..20 {
            let _held = users.lock().unwrap();
            assert!(timer.is_pending(key));
            assert!(timer.reschedule(key, Duration::ZERO).moved());
            std::thread::yield_now();
        }
        let _held = users.lock().unwrap();
        assert!(timer.cancel(key).won());
    }
    assert!(timer.stop().unwrap().is_empty());
}

/// Stops the engine when it is dropped.
#[derive(Clone, Default)]
struct Stopper {
    timer: Arc<OnceLock<Timer<Stopper>>>,
    stops: Arc<Mutex<Vec<Result<usize, StopError>>>>,
}

impl Drop for Stopper {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get() {
            let stopped = timer.stop().map(|unfired| unfired.len());
            self.stops.lock().unwrap().push(stopped);
        }
    }
}

#[test]
fn a_payload_that_stops_the_engine_when_it_is_dropped_waits_for_nothing() {
    let clock = ManualClock::new();
    let builder = one_shard().clock(clock.clone());
    let timer = builder.build_with(|_: Expired<Stopper>| ()).unwrap();
    let payload = Stopper::default();
    let (engine, stops) = (Arc::clone(&payload.timer), Arc::clone(&payload.stops));
    let key = timer.schedule_periodic(ms(10), rate(ms(10)), payload).unwrap();
    assert!(engine.set(timer.clone()).is_ok());
    clock.advance(ms(10));
    timer.wait_idle();
    assert_eq!(*stops.lock().unwrap(), [Err(StopError::InsideHandler)], "what the call was given");
    stops.lock().unwrap().clear();
    // Here a user's thread drops it: that may stop the engine.
    drop(timer.cancel(key));
    assert_eq!(*stops.lock().unwrap(), [Ok(0), Ok(0)], "the template, then what was kept");
}

/// Panics when it is dropped, if it is a copy.
struct Brittle {
    copy: bool,
    dropped: Arc<AtomicUsize>,
}

impl Clone for Brittle {
    fn clone(&self) -> Self {
        Self { copy: true, dropped: Arc::clone(&self.dropped) }
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        assert!(!self.copy, "a copy is dropped");
    }
}

#[test]
fn a_copy_that_panics_when_it_is_dropped_does_not_get_in_the_way_of_a_cancel() {
    let clock = ManualClock::new();
    let timer = one_shard()
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build_with(|mut expired: Expired<Brittle>| expired.payload.copy = false)
        .unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let payload = Brittle { copy: false, dropped: Arc::clone(&dropped) };
    let key = timer.schedule_periodic(ms(10), rate(ms(10)), payload).unwrap();
    clock.advance(ms(10));
    assert_eq!(timer.turn().unwrap(), 1);
    let Cancel::Won(kept) = timer.cancel(key) else { panic!("nobody else ends it") };
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "the handler's, and the template");
    assert!(!kept.copy);
    drop(kept);
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

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

/// With a hook for slow handlers the clock is read once more before each of them, and without one before every 64th.
#[test]
fn a_cancel_at_any_reading_of_the_clock_prevents_the_call_or_comes_after_it() {
    for (ahead, reading) in (1..8).map(|n| (0, n)).chain((1..200).map(|n| (63, n))) {
        let clock = Arc::new(Busy::default());
        let (won, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (has_won, calls) = (Arc::clone(&won), Arc::clone(&late));
        let builder = one_shard().clock(Arc::clone(&clock)).drive(Drive::Manual);
        let builder = if ahead == 0 { builder.on_slow_handler(HOUR, |_| ()) } else { builder };
        let timer = builder
            .build_with(move |expired: Expired<u32>| {
                let late = expired.payload == 7 && has_won.load(Ordering::SeqCst);
                calls.fetch_add(usize::from(late), Ordering::SeqCst);
            })
            .unwrap();
        for _ in 0..ahead {
            timer.schedule_key(ms(5), 1).unwrap();
        }
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
    timer: OnceLock<(WeakTimer, Key<TimerTask>)>,
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
