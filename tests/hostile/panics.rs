//! Panics wherever the engine runs code of the user's.

use crate::support::setup::{Fired, HOUR, ms, rate, secs, set_of, wait_until};
use crate::{DRIVES, ERRORS, arm, install_logger, is_logged, one_shard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Cancel, Clock, Drive, EngineState, EventLoopTimer, Executor, Expired, LocalTimer,
    ManualClock, PanicReport, Settings, Shutdown, StopError, Time, Timer, TimerTask, executor_fn,
};

/// What bombs have in common.
struct Fuse {
    armed: AtomicBool,
    drops: AtomicU32,
    clones_left: AtomicU32,
}

impl Fuse {
    fn new(armed: bool, clones: u32) -> Arc<Self> {
        let (armed, clones_left) = (AtomicBool::new(armed), AtomicU32::new(clones));
        Arc::new(Self {
            armed,
            drops: AtomicU32::new(0),
            clones_left,
        })
    }

    fn bomb(self: &Arc<Self>) -> Bomb {
        Bomb(Arc::clone(self))
    }

    fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    fn drops(&self) -> u32 {
        self.drops.load(Ordering::SeqCst)
    }
}

/// A value whose destructor panics while its fuse is armed, and whose `Clone` panics when no clone is left.
struct Bomb(Arc<Fuse>);

impl Bomb {
    /// Called by closures, which capture the whole of it for that.
    fn stay(&self) {
        assert!(Arc::strong_count(&self.0) > 0);
    }
}

impl Clone for Bomb {
    fn clone(&self) -> Self {
        let left = self.0.clones_left.load(Ordering::SeqCst);
        assert!(left > 0, "no clone any more");
        self.0.clones_left.store(left - 1, Ordering::SeqCst);
        self.0.bomb()
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Ordering::SeqCst);
        assert!(!self.0.armed.load(Ordering::SeqCst), "a bomb");
    }
}

impl Clock for Bomb {
    fn now(&self) -> Time {
        Time::from(Instant::now())
    }
}

type End = fn(&Arc<Fuse>);

/// Where timers with ten bombs for payloads end.
#[rustfmt::skip]
const ENDS: [(&str, End); 7] = [
    ("the last handle of an engine with workers", |fuse| with_its_last_handle(Drive::Workers, fuse)),
    ("the last handle of an engine turned by hand", |fuse| with_its_last_handle(Drive::Manual, fuse)),
    ("the last handle of an engine, in a handler", in_a_handler),
    ("guards", with_their_guards),
    ("an event loop's timer", with_their_event_loop),
    ("what an event loop's timer gives out", with_the_rest_of_a_drain),
    ("timers of one thread", with_their_thread),
];

fn with_its_last_handle(drive: Drive, fuse: &Arc<Fuse>) {
    let timer = one_shard()
        .drive(drive)
        .build_with(|_: Expired<Bomb>| ())
        .unwrap();
    (0..10).for_each(|_| arm(&timer, HOUR, fuse.bomb()));
}

fn in_a_handler(fuse: &Arc<Fuse>) {
    let timer = one_shard().shards(2).build().unwrap();
    for _ in 0..10 {
        let bomb = fuse.bomb();
        arm(&timer, HOUR, TimerTask::new(move || drop(bomb)));
    }
    let (last, (let_go, gate)) = (timer.clone(), channel::<()>());
    let drops_the_last = move || {
        gate.recv().unwrap();
        drop(last);
    };
    timer.run_after(Duration::ZERO, drops_the_last).unwrap();
    drop(timer);
    let_go.send(()).unwrap();
}

/// Half of them go with a panic of the request that holds them.
fn with_their_guards(fuse: &Arc<Fuse>) {
    let engine = Arc::new(());
    let owned = Arc::clone(&engine);
    let builder = one_shard()
        .drive(Drive::Manual)
        .on_panic(move |_| _ = &owned);
    let timer = builder.build_with(|_: Expired<Bomb>| ()).unwrap();
    let guard = || {
        timer
            .schedule_handle(HOUR, fuse.bomb())
            .unwrap()
            .cancel_on_drop()
    };
    for _ in 0..5 {
        drop(guard());
        let request = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard();
            panic!("the request");
        }));
        assert!(request.is_err());
    }
    assert_eq!(timer.pending(), 0);
    drop(timer);
    assert_eq!(Arc::strong_count(&engine), 1, "no guard keeps the engine");
}

fn with_their_event_loop(fuse: &Arc<Fuse>) {
    install_logger();
    let mut timer = EventLoopTimer::with_waker(Settings::new(), || ()).unwrap();
    let now = timer.now();
    (0..10).for_each(|_| _ = timer.schedule(now, HOUR, fuse.bomb()).unwrap());
}

fn with_the_rest_of_a_drain(fuse: &Arc<Fuse>) {
    install_logger();
    let mut timer = EventLoopTimer::with_waker(Settings::new(), || ()).unwrap();
    let now = timer.now();
    for clear in [true, false] {
        (0..5).for_each(|_| _ = timer.schedule(now, HOUR, fuse.bomb()).unwrap());
        if clear {
            timer.clear();
        } else {
            let mut drain = timer.drain();
            let first = drain.next();
            drop(drain);
            assert_eq!(fuse.drops(), 9, "all but the first");
            assert!(catch_unwind(AssertUnwindSafe(|| drop(first))).is_err());
        }
    }
}

fn with_their_thread(fuse: &Arc<Fuse>) {
    install_logger();
    let before = ERRORS.get();
    let mut local = LocalTimer::new(ms(1)).unwrap();
    for n in 1..=10 {
        let _ = local.schedule(Time::ZERO, HOUR, fuse.bomb());
        if n == 6 {
            local.clear();
            assert!(local.is_empty() && fuse.drops() == 6);
            let logged = ERRORS.get() - before;
            assert!(logged == 6 || cfg!(feature = "tracing"), "{logged} of 6");
        }
    }
}

#[test]
fn payloads_that_panic_when_they_are_dropped_are_all_dropped() {
    for (place, end) in ENDS {
        let fuse = Fuse::new(true, 0);
        end(&fuse);
        wait_until(place, || fuse.drops() == 10);
    }
}

#[test]
fn a_clone_and_a_destructor_that_both_panic_end_no_timer() {
    let fuse = Fuse::new(false, 1);
    let (sender, receiver) = channel();
    let inside = Arc::clone(&fuse);
    let timer = one_shard()
        .build_with(move |expired: Expired<Bomb>| {
            inside.arm(false);
            drop(expired);
            // Armed from now on: the next clones panic.
            inside.arm(true);
            sender.send(()).unwrap();
        })
        .unwrap();
    let key = timer
        .schedule_periodic(ms(1), rate(ms(1)), fuse.bomb())
        .unwrap();
    receiver.recv_timeout(secs(20)).unwrap();
    wait_until("two clones have panicked", || timer.stats().panics >= 2);
    arm(&timer, Duration::ZERO, fuse.bomb());
    receiver.recv_timeout(secs(20)).unwrap();
    assert_eq!(timer.state(), EngineState::Started);
    let kept = timer.cancel(key);
    fuse.arm(false);
    assert!(!matches!(kept, Cancel::Gone) && timer.stop().unwrap().is_empty());
}

/// Its call is left out and the timer returned, as if its next period had come; the other one fires.
#[test]
fn a_shutdown_that_fires_ends_beside_a_timer_whose_clones_panic() {
    for drive in DRIVES {
        let fuse = Fuse::new(false, 0);
        let timer = one_shard()
            .drive(drive)
            .build_with(|_: Expired<Bomb>| ())
            .unwrap();
        timer
            .schedule_periodic(HOUR, rate(HOUR), fuse.bomb())
            .unwrap();
        arm(&timer, 2 * HOUR, fuse.bomb());
        let rest = timer.shutdown(Shutdown::FireAll, secs(20)).unwrap();
        let stats = timer.stats();
        assert_eq!(
            (rest.len(), stats.fired, stats.panics),
            (1, 1, 1),
            "{drive:?}"
        );
    }
}

#[test]
fn handler_and_hook_and_logger_panic_and_the_others_fire() {
    for drive in DRIVES {
        let told = Arc::new(Mutex::new(Vec::<PanicReport>::new()));
        let (hook, (fired, log)) = (Arc::clone(&told), Fired::pair());
        let timer = one_shard()
            .drive(drive)
            // It stands: all timers have one tick, and fire in their order.
            .clock(ManualClock::new())
            .on_panic(move |report| {
                hook.lock().unwrap().push(report.clone());
                panic!("the hook");
            })
            .build_with(move |expired: Expired<u64>| {
                assert!(expired.payload % 2 == 0, "number {}", expired.payload);
                log.push(expired);
            })
            .unwrap();
        let keys = (0..100).map(|id| timer.schedule(Duration::ZERO, id).unwrap().to_raw());
        let keys: Vec<_> = keys.collect();
        timer.wait_idle();
        let _ = timer.turn();
        assert_eq!(fired.ids(), (0..100).step_by(2).collect::<Vec<_>>());
        let told = told.lock().unwrap();
        assert!(
            told.iter()
                .map(|report| report.key)
                .eq(keys.into_iter().skip(1).step_by(2))
        );
        assert!(
            told.iter()
                .all(|it| it.shard == 0 && it.message.starts_with("number "))
        );
        assert!(told.iter().all(|report| is_logged(&report.to_string())));
        let stats = timer.stats();
        assert_eq!(
            (stats.panics, stats.fired),
            (50, 100),
            "whose handler panics, has fired"
        );
        assert_eq!(timer.state(), EngineState::Started);
    }
}

/// Refuses everything; what it refused lands here.
struct Refusing(Arc<Mutex<Vec<u64>>>);

impl Executor<(u64, Bomb)> for Refusing {
    fn execute(&self, expired: Expired<(u64, Bomb)>) -> Result<(), Expired<(u64, Bomb)>> {
        Err(expired)
    }

    fn rejected(&self, expired: Expired<(u64, Bomb)>) {
        self.0.lock().unwrap().push(expired.payload.0);
        drop(expired);
        unreachable!("the bomb goes off");
    }
}

#[test]
fn a_refused_timer_whose_payload_panics_when_dropped_costs_no_other() {
    let (back, fuse) = (Arc::new(Mutex::default()), Fuse::new(true, 0));
    let timer = one_shard().build_on(Refusing(Arc::clone(&back))).unwrap();
    (0..20).for_each(|id| arm(&timer, Duration::ZERO, (id, fuse.bomb())));
    wait_until("all came back", || back.lock().unwrap().len() == 20);
    assert_eq!(set_of(back.lock().unwrap().drain(..)), (0..20).collect());
    wait_until("all panics are counted", || timer.stats().panics == 20);
    assert_eq!(timer.stats().refused_by_executor, 20);
    assert!(timer.stop().unwrap().is_empty());
}

/// Stops its engine when it is dropped, and tells the answer.
#[derive(Clone)]
struct Stopper {
    timer: Arc<OnceLock<Timer<Stopper>>>,
    answers: Sender<Result<usize, StopError>>,
}

impl Drop for Stopper {
    fn drop(&mut self) {
        let timer = self.timer.get().expect("it is there from the beginning");
        self.answers
            .send(timer.stop().map(|rest| rest.len()))
            .unwrap();
    }
}

#[test]
fn a_destructor_that_stops_its_own_engine_is_told_where_it_is() {
    for drive in DRIVES {
        let (answers, receiver) = channel();
        let answer = || receiver.recv_timeout(secs(20)).unwrap();
        let stopper = Stopper {
            timer: Arc::default(),
            answers,
        };
        let captured = stopper.clone();
        let handler = move |_: Expired<Stopper>| assert!(captured.timer.get().is_some());
        let timer = one_shard().drive(drive).build_with(handler).unwrap();
        assert!(stopper.timer.set(timer.clone()).is_ok());
        let key = timer
            .schedule_periodic(Duration::ZERO, rate(HOUR), stopper)
            .unwrap();
        timer.wait_idle();
        let _ = timer.turn();
        assert_eq!(
            answer(),
            Err(StopError::InsideHandler),
            "what the call was given"
        );
        // Here a user's thread drops it: that may stop the engine, whose handler goes with it.
        drop(timer.cancel(key));
        let inside = Err(StopError::InsideHandler);
        assert_eq!([(); 2].map(|()| answer()), [inside, Ok(0)], "handler, kept");
    }
}

/// Each panics, and the engine works and stops all the same; `stop` has waited for the second.
#[test]
fn the_hooks_of_a_worker_that_panic_end_no_worker() {
    let calls = Arc::new(AtomicU32::new(0));
    let hook = || {
        let calls = Arc::clone(&calls);
        move |shard| {
            calls.fetch_add(1, Ordering::SeqCst);
            panic!("the hook of shard {shard}");
        }
    };
    let builder = one_shard().on_worker_start(hook()).on_worker_stop(hook());
    let (fired, log) = Fired::pair();
    let timer = builder
        .build_with(move |expired| log.push(expired))
        .unwrap();
    timer.schedule(ms(1), 1).unwrap();
    wait_until("it fires", || fired.len() == 1);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    timer.stop().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// A builder with six values that panic when dropped.
fn owning(fuse: &Arc<Fuse>) -> Builder {
    let [a, b, c, d, e, clock] = [(); 6].map(|()| fuse.bomb());
    one_shard()
        .shards(2)
        .clock(clock)
        .on_panic(move |_| a.stay())
        .on_worker_failure(move |_| b.stay())
        .on_slow_handler(HOUR, move |_| c.stay())
        .on_worker_start(move |_| d.stay())
        .on_worker_stop(move |_| e.stay())
}

/// An executor of two closures that own a bomb each.
fn executor([a, b]: [Bomb; 2]) -> impl Executor<u64> {
    let execute = move |expired: Expired<u64>| {
        a.stay();
        Err(expired)
    };
    executor_fn(execute, move |_| b.stay())
}

#[test]
fn everything_that_an_engine_owns_panics_when_dropped() {
    for (drive, executes) in DRIVES
        .into_iter()
        .flat_map(|drive| [(drive, false), (drive, true)])
    {
        for timers in [0, 10] {
            let fuse = Fuse::new(true, 0);
            let (builder, captured) = (owning(&fuse).drive(drive), fuse.bomb());
            let timer = match executes {
                false => builder.build_with(move |_: Expired<u64>| captured.stay()),
                true => builder.build_on(executor([captured, fuse.bomb()])),
            };
            let timer = timer.unwrap();
            let held: Vec<_> = (0..timers)
                .map(|id| timer.schedule_handle(HOUR, id).unwrap())
                .collect();
            assert_eq!(timer.stop().unwrap().len(), held.len());
            assert_eq!(timer.stats().returned, timers);
            drop((timer, held));
            // The next build frees the engine.
            drop(one_shard().build().unwrap());
            let owned = 7 + u32::from(executes);
            wait_until("all of it is dropped", || fuse.drops() == owned);
        }
    }
}

#[test]
fn a_build_that_fails_drops_what_it_was_given() {
    let fuse = Fuse::new(true, 0);
    let fails = || owning(&fuse).tick(Duration::ZERO);
    let [captured, again, wake] = [(); 3].map(|()| fuse.bomb());
    assert!(
        fails()
            .build_with(move |_: Expired<u64>| captured.stay())
            .is_err()
    );
    let per_shard = move |_| {
        again.stay();
        |_: &Timer<u64>, _| ()
    };
    assert!(fails().build_per_shard(per_shard).is_err());
    assert!(
        fails()
            .build_on(executor([(); 2].map(|()| fuse.bomb())))
            .is_err()
    );
    // A builder that nobody builds with, and a second one that shares its values.
    drop(owning(&fuse).clone());
    let events = Settings::new().clock(fuse.bomb()).tick(Duration::ZERO);
    assert!(EventLoopTimer::<u64>::with_waker(events, move || wake.stay()).is_err());
    assert_eq!(fuse.drops(), 4 * 6 + 4 + 2);
}
