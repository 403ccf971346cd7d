//! Periodic timers whose users' code does what it likes: it copies, drops, looks at clocks, and comes back.

use crate::support::setup::{one_shard, rate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;
use tickwheel::{
    Cancel, Clock, Drive, EventLoopTimer, Expired, Key, ManualClock, Period, StopError, Time, Timer,
};

const MS: Duration = Duration::from_millis(1);

/// Runs a test on a thread of its own: what waits for itself fails instead of hanging.
fn must_end(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    let ended = receiver.recv_timeout(Duration::from_secs(60));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    thread.join().unwrap();
}

/// What a payload's `Clone` or `Drop` finds when it runs: the timer and its own key, once they are known.
type Inside<T> = Arc<OnceLock<(Timer<T>, Key<T>)>>;

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
    must_end(|| {
        let users = Arc::new(Mutex::new(()));
        let timer = one_shard()
            .tick(Duration::from_micros(20))
            .build_with(|_: Expired<Guarded>| ())
            .unwrap();
        for _ in 0..200 {
            let period = rate(Duration::from_micros(20));
            let key = timer
                .schedule_periodic(Duration::ZERO, period, Guarded(Arc::clone(&users)))
                .unwrap();
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
    });
}

/// Its copies ask after their own timer, and the third one cancels it.
struct Selfish {
    inside: Inside<Selfish>,
    copies: Arc<AtomicUsize>,
}

impl Clone for Selfish {
    fn clone(&self) -> Self {
        let copy = Self { inside: Arc::clone(&self.inside), copies: Arc::clone(&self.copies) };
        let copies = self.copies.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((timer, key)) = self.inside.get() {
            assert!(timer.is_pending(*key));
            assert_eq!(timer.pending(), 1);
            if copies == 3 {
                assert!(timer.cancel(*key).won());
            }
        }
        copy
    }
}

#[test]
fn a_copy_may_cancel_its_own_timer_and_then_there_is_no_call() {
    must_end(|| {
        let clock = ManualClock::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let timer = one_shard()
            .clock(clock.clone())
            .max_pending(1)
            .build_with(move |_: Expired<Selfish>| {
                counted.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let (inside, copies) = (Inside::default(), Arc::new(AtomicUsize::new(0)));
        let payload = Selfish { inside: Arc::clone(&inside), copies: Arc::clone(&copies) };
        let key = timer.schedule_periodic(10 * MS, rate(10 * MS), payload).unwrap();
        assert!(inside.set((timer.clone(), key)).is_ok());
        for _ in 0..5 {
            clock.advance(10 * MS);
            timer.wait_idle();
        }
        // One copy ahead: the third is made for the second call, which it prevents.
        assert_eq!((copies.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (3, 1));
        let stats = timer.stats();
        assert_eq!((stats.scheduled(), stats.fired(), stats.cancelled()), (2, 1, 1));
        assert_eq!((stats.panics(), timer.pending()), (0, 0));
        drop(timer.stop().unwrap());
    });
}

/// Panics in the second copy, and stops the engine when it is dropped.
struct Stopper {
    inside: Inside<Stopper>,
    copies: Arc<AtomicUsize>,
    stops: Arc<Mutex<Vec<Result<usize, StopError>>>>,
}

impl Clone for Stopper {
    fn clone(&self) -> Self {
        assert!(self.copies.fetch_add(1, Ordering::SeqCst) < 1, "no second copy");
        let Self { inside, copies, stops } = self;
        let (inside, copies, stops) = (Arc::clone(inside), Arc::clone(copies), Arc::clone(stops));
        Self { inside, copies, stops }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        if let Some((timer, _)) = self.inside.get() {
            let stopped = timer.stop().map(|unfired| unfired.len());
            self.stops.lock().unwrap().push(stopped);
        }
    }
}

#[test]
fn a_payload_that_stops_the_engine_when_it_is_dropped_waits_for_nothing() {
    must_end(|| {
        let clock = ManualClock::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let timer = one_shard()
            .clock(clock.clone())
            .build_with(move |_: Expired<Stopper>| {
                counted.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let (inside, stops) = (Inside::default(), Arc::new(Mutex::new(Vec::new())));
        let copies = Arc::default();
        let payload = Stopper { inside: Arc::clone(&inside), copies, stops: Arc::clone(&stops) };
        let key = timer.schedule_periodic(10 * MS, rate(10 * MS), payload).unwrap();
        assert!(inside.set((timer.clone(), key)).is_ok());
        clock.advance(10 * MS);
        timer.wait_idle();
        // The call that the second copy was to follow is made; what was kept is dropped on the worker before it,
        // what it was handed after it.
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let refused = vec![Err(StopError::InsideHandler); 2];
        assert_eq!(*stops.lock().unwrap(), refused);
        let stats = timer.stats();
        assert_eq!((stats.scheduled(), stats.fired(), stats.panics()), (1, 1, 1));
        assert!(!timer.is_pending(key) && timer.pending() == 0);

        // Here a user's thread drops it: that may stop the engine.
        let copies = Arc::default();
        let payload = Stopper { inside: Arc::clone(&inside), copies, stops: Arc::clone(&stops) };
        let key = timer.schedule_periodic(10 * MS, rate(10 * MS), payload).unwrap();
        stops.lock().unwrap().clear();
        drop(timer.cancel(key));
        assert_eq!(*stops.lock().unwrap(), [Ok(0), Ok(0)], "the copy ahead, then what was kept");
    });
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
    let key = timer.schedule_periodic(10 * MS, rate(10 * MS), payload).unwrap();
    clock.advance(10 * MS);
    assert_eq!(timer.turn().unwrap(), 1);
    let Cancel::Won(kept) = timer.cancel(key) else { panic!("nobody else ends it") };
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "the handler's, and the copy ahead");
    assert!(!kept.copy);
    drop(kept);
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

/// A clock that does something once, the next time it is read.
#[derive(Default)]
struct Busybody {
    time: ManualClock,
    armed: AtomicBool,
    prank: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Clock for Busybody {
    fn now(&self) -> Time {
        if self.armed.swap(false, Ordering::SeqCst) {
            (self.prank.get().expect("it is set"))();
        }
        self.time.now()
    }
}

/// The clock is read for the lateness between the decision that a timer is due and its call: a cancel that wins
/// there wins.
#[test]
fn a_cancel_between_the_decision_and_the_call_prevents_the_call() {
    /// After so many timers of a turn the clock is read again.
    const FIRES_PER_CLOCK_READ: u32 = 64;
    let clock = Arc::new(Busybody::default());
    let called = Arc::new(Mutex::new(Vec::new()));
    let (calls, armed) = (Arc::clone(&called), Arc::clone(&clock));
    let timer: Timer<u32> = one_shard()
        .clock(Arc::clone(&clock))
        .drive(Drive::Manual)
        .build_with(move |expired: Expired<u32>| {
            calls.lock().unwrap().push(expired.payload);
            if expired.payload == FIRES_PER_CLOCK_READ - 1 {
                armed.armed.store(true, Ordering::SeqCst);
            }
        })
        .unwrap();
    for n in 1..FIRES_PER_CLOCK_READ {
        timer.schedule_key(10 * MS, n).unwrap();
    }
    let key = timer.schedule_periodic(11 * MS, rate(10 * MS), FIRES_PER_CLOCK_READ).unwrap();
    // Weak, because the engine has the clock.
    let (weak, won) = (timer.downgrade(), Arc::new(AtomicUsize::new(0)));
    let wins = Arc::clone(&won);
    let prank = move || {
        let timer = weak.upgrade().unwrap();
        assert_eq!(timer.cancel(key), Cancel::Won(FIRES_PER_CLOCK_READ));
        wins.fetch_add(1, Ordering::SeqCst);
    };
    assert!(clock.prank.set(Box::new(prank)).is_ok());
    clock.time.advance(20 * MS);
    let fired = timer.turn().unwrap();
    assert_eq!(won.load(Ordering::SeqCst), 1, "the cancel came in between");
    assert_eq!(fired, FIRES_PER_CLOCK_READ as usize - 1);
    assert!(!called.lock().unwrap().contains(&FIRES_PER_CLOCK_READ), "called after its cancel");
    let stats = timer.stats();
    assert_eq!((stats.fired(), stats.cancelled()), (fired as u64, 1));
    assert_eq!((stats.scheduled(), timer.pending()), (u64::from(FIRES_PER_CLOCK_READ), 0));
}

/// Every sum that a user can read holds while periodic timers are called and cancelled.
#[test]
fn a_timer_that_is_always_pending_always_counts_as_pending() {
    let timer =
        one_shard().tick(Duration::from_micros(10)).build_with(|_: Expired<u8>| ()).unwrap();
    let key = timer.schedule_periodic(Duration::ZERO, rate(Duration::from_micros(10)), 1).unwrap();
    for look in 0..crate::support::setup::stress(100_000) {
        // The end of one period and the beginning of the next may both come between the looks.
        assert!(timer.pending() >= 1, "look {look}");
        let stats = timer.stats();
        let ended = stats.fired() + stats.cancelled() + stats.returned();
        assert!(ended <= stats.scheduled(), "look {look}: {ended} of {}", stats.scheduled());
    }
    assert!(timer.stats().fired() > 0 && timer.cancel(key).won());
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_periodic_timer_is_rescheduled_from_within_and_from_without() {
    let clock = ManualClock::new();
    let (fires, inside) = (Arc::new(Mutex::new(Vec::new())), Inside::<u32>::default());
    let (log, time, own) = (Arc::clone(&fires), clock.clone(), Arc::clone(&inside));
    let timer = one_shard()
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build_with(move |_: Expired<u32>| {
            let ms = time.now().as_nanos() / 1_000_000;
            log.lock().unwrap().push(ms);
            let (timer, key) = own.get().unwrap();
            match ms {
                // Later than the next period, then earlier.
                20 => assert!(timer.reschedule(*key, 25 * MS).moved()),
                45 => assert!(timer.reschedule(*key, 2 * MS).moved()),
                _ => {}
            }
        })
        .unwrap();
    let key = timer.schedule_periodic(10 * MS, rate(10 * MS), 1).unwrap();
    assert!(inside.set((timer.clone(), key)).is_ok());
    let run_to = |ms: u64| {
        while clock.now() < Time::ZERO + Duration::from_millis(ms) {
            clock.advance(MS);
            while timer.turn().unwrap() > 0 {}
        }
        std::mem::take(&mut *fires.lock().unwrap())
    };
    assert_eq!(run_to(58), [10, 20, 45, 47, 57]);
    assert!(timer.reschedule(key, 30 * MS).moved(), "later");
    assert_eq!(run_to(89), [88]);
    assert!(timer.reschedule(key, MS).moved(), "earlier");
    assert!(timer.reschedule(key, 3 * MS).moved(), "and a little later");
    assert_eq!(run_to(103), [92, 102]);
    assert_eq!((timer.pending(), timer.cancel(key)), (1, Cancel::Won(1)));
    assert!(!timer.reschedule(key, MS).moved());
    assert_eq!(run_to(200), []);
    let stats = timer.stats();
    assert_eq!((stats.scheduled(), stats.fired(), stats.cancelled()), (9, 8, 1));
    // The handler, and with it the timer that it has.
    timer.stop().unwrap();
}

fn event_loop() -> (EventLoopTimer<u32>, ManualClock) {
    let clock = ManualClock::new();
    let timer = EventLoopTimer::builder().clock(clock.clone()).build_with_waker(|| ()).unwrap();
    (timer, clock)
}

/// A regression: after a panic the pause was counted from the origin of time, and the timer fired at once, for ever.
#[test]
fn a_handler_that_always_panics_does_not_hurry_a_fixed_delay() {
    let (mut timer, clock) = event_loop();
    let pause = Period::fixed_delay(10 * MS).unwrap();
    let key = timer.schedule_periodic(clock.now(), 10 * MS, pause, 1).unwrap();
    let mut panics = Vec::new();
    for ms in 1..=45 {
        clock.advance(MS);
        let poll = || timer.poll(clock.now(), |_| panic!("the handler panics"));
        if catch_unwind(AssertUnwindSafe(poll)).is_err() {
            panics.push(ms);
        }
    }
    assert_eq!(panics, [10, 20, 30, 40]);
    assert!(timer.is_pending(key) && timer.pending() == 1);
    // The one that missed its periods by a panic keeps its policy.
    let rate = timer.schedule_periodic(clock.now(), 5 * MS, rate(10 * MS), 2).unwrap();
    clock.advance(28 * MS);
    let poll = || timer.poll(clock.now(), |expired| assert_ne!(expired.payload, 2, "boom"));
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    assert!(timer.cancel(key).won());
    let mut calls = Vec::new();
    for ms in 74..=95 {
        clock.advance(MS);
        let _ = timer.poll(clock.now(), |expired| calls.push((ms, expired.payload)));
    }
    assert_eq!(calls, [(80, 2), (90, 2)]);
    assert!(timer.cancel(rate).won());
}

#[test]
fn a_poll_from_inside_a_handler_of_an_event_loop_does_nothing() {
    let (mut timer, clock) = event_loop();
    let pause = Period::fixed_delay(10 * MS).unwrap();
    let key = timer.schedule_periodic(clock.now(), 10 * MS, pause, 1).unwrap();
    timer.schedule(clock.now(), 10 * MS, 2u32).unwrap();
    let mut fires = Vec::new();
    for ms in 1..=35 {
        clock.advance(MS);
        let polled = timer.poll_with(clock.now(), |timer, expired| {
            fires.push((ms, expired.payload));
            let nested = timer.poll(Time::MAX, |_| panic!("fires inside a handler"));
            assert!(nested.fired == 0 && !nested.more);
            assert!(timer.is_pending(key));
        });
        assert!(!polled.more);
    }
    fires.sort_unstable();
    assert_eq!(fires, [(10, 1), (10, 2), (20, 1), (30, 1)]);
}

#[test]
fn event_loops_and_their_remotes_reschedule_periodic_timers() {
    let (mut timer, clock) = event_loop();
    let remote = timer.remote();
    let own = timer.schedule_periodic(clock.now(), 10 * MS, rate(10 * MS), 1).unwrap();
    let theirs = remote.schedule_periodic(10 * MS, rate(10 * MS), 2).unwrap();
    assert!(remote.reschedule(own, 3 * MS).moved());
    assert!(timer.reschedule(clock.now(), theirs, 12 * MS).moved());
    let mut fires = Vec::new();
    for ms in 1..=40 {
        clock.advance(MS);
        let _ = timer.poll_with(clock.now(), |timer, expired| {
            fires.push((ms, expired.payload));
            if ms == 13 {
                // From its own handler, and by somebody else meanwhile: the last one holds.
                assert!(timer.reschedule(clock.now(), own, 4 * MS).moved());
                assert!(remote.reschedule(own, 20 * MS).moved());
            }
        });
    }
    assert_eq!(fires, [(3, 1), (12, 2), (13, 1), (22, 2), (32, 2), (33, 1)]);
    assert_eq!((timer.pending(), timer.close().len()), (2, 2));
    assert!(!remote.is_pending(own) && !remote.cancel(theirs).won());
}

#[test]
fn an_event_loop_that_goes_away_drops_what_its_periodic_timers_carry() {
    let clock = ManualClock::new();
    let mut timer: EventLoopTimer<Arc<()>> =
        EventLoopTimer::builder().clock(clock.clone()).build_with_waker(|| ()).unwrap();
    let payload = Arc::new(());
    for _ in 0..3 {
        timer.schedule_periodic(Time::ZERO, MS, rate(MS), Arc::clone(&payload)).unwrap();
    }
    clock.advance(MS);
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 3);
    let unfired = timer.close();
    assert!(unfired.iter().all(|one| one.deadline == Time::ZERO + 2 * MS), "{unfired:?}");
    drop(unfired);
    assert_eq!(Arc::strong_count(&payload), 1);
}
