//! Panics wherever the engine runs code of the user's.

use crate::support::setup::{HOUR, ms, one_shard, rate, secs, set_of, wait_until};
use crate::{Bomb, arm, install_logger};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, Drive, EngineState, Executor, Expired, FixedTimer, LocalTimer, Settings,
    StopError, Time, Timer, TimerTask, executor_fn,
};

/// A payload whose `Clone` and whose destructor panic on demand.
struct Unruly {
    bomb: Bomb,
    clones_left: Arc<AtomicU32>,
}

impl Clone for Unruly {
    fn clone(&self) -> Self {
        let left = self.clones_left.load(Ordering::SeqCst);
        assert!(left > 0, "no clone any more");
        self.clones_left.store(left - 1, Ordering::SeqCst);
        Self {
            bomb: Bomb::new(&self.bomb.armed, &self.bomb.drops),
            clones_left: Arc::clone(&self.clones_left),
        }
    }
}

struct Fuse {
    armed: Arc<AtomicBool>,
    drops: Arc<AtomicU32>,
}

impl Fuse {
    fn new(armed: bool) -> Self {
        Self { armed: Arc::new(AtomicBool::new(armed)), drops: Arc::default() }
    }

    fn bomb(&self) -> Bomb {
        Bomb::new(&self.armed, &self.drops)
    }

    fn unruly(&self, clones: u32) -> Unruly {
        Unruly { bomb: self.bomb(), clones_left: Arc::new(AtomicU32::new(clones)) }
    }

    fn drops(&self) -> u32 {
        self.drops.load(Ordering::SeqCst)
    }
}

#[test]
fn a_kept_payload_whose_destructor_panics_in_stop_loses_nothing() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        let fuse = Fuse::new(false);
        let timer = one_shard().drive(drive).build_with(|_: Expired<Unruly>| ()).unwrap();
        for _ in 0..3 {
            timer.schedule_periodic(HOUR, rate(HOUR), fuse.unruly(9)).unwrap();
        }
        timer.schedule_key(HOUR, fuse.unruly(0)).unwrap();
        fuse.armed.store(true, Ordering::SeqCst);
        let rest = timer.stop().unwrap();
        assert_eq!((rest.len(), timer.pending()), (4, 0));
        fuse.armed.store(false, Ordering::SeqCst);
        drop(rest);
    }
}

#[test]
fn a_clone_and_a_destructor_that_both_panic_end_no_timer() {
    install_logger();
    let fuse = Fuse::new(false);
    let (sender, receiver) = channel();
    let inside = fuse.armed.clone();
    let timer = one_shard()
        .build_with(move |expired: Expired<Unruly>| {
            inside.store(false, Ordering::SeqCst);
            drop(expired);
            // Armed from now on: the next clones panic, and so does the template's destructor.
            inside.store(true, Ordering::SeqCst);
            sender.send(()).unwrap();
        })
        .unwrap();
    let key = timer.schedule_periodic(ms(1), rate(ms(1)), fuse.unruly(2)).unwrap();
    receiver.recv_timeout(secs(20)).unwrap();
    wait_until("two clones have panicked", || timer.stats().panics() >= 2);
    timer.schedule_key(Duration::ZERO, fuse.unruly(0)).unwrap();
    receiver.recv_timeout(secs(20)).unwrap();
    assert_eq!(timer.state(), EngineState::Started);
    let kept = timer.cancel(key);
    fuse.armed.store(false, Ordering::SeqCst);
    assert!(kept.won() && timer.stop().unwrap().is_empty());
}

#[test]
fn handler_and_hook_and_logger_panic_and_the_others_fire() {
    install_logger();
    let (sender, receiver) = channel();
    let timer = one_shard()
        .on_panic(|_| panic!("the hook"))
        .build_with(move |expired: Expired<u64>| {
            assert!(expired.payload % 2 == 0, "the handler");
            sender.send(expired.payload).unwrap();
        })
        .unwrap();
    for id in 0..100 {
        timer.schedule_key(Duration::ZERO, id).unwrap();
    }
    let fired = set_of((0..50).map(|_| receiver.recv_timeout(secs(20)).unwrap()));
    assert_eq!(fired, (0..100).step_by(2).collect());
    wait_until("all panics are counted", || timer.stats().panics() == 50);
    assert_eq!(timer.state(), EngineState::Started);
    timer.stop().unwrap();
}

#[test]
fn captures_of_the_handler_that_panic_when_dropped_lose_no_timer() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        for start in [true, false] {
            let fuse = Fuse::new(true);
            let captured = fuse.bomb();
            let timer = one_shard()
                .drive(drive)
                .build_with(move |_: Expired<u64>| assert!(captured.armed.load(Ordering::SeqCst)))
                .unwrap();
            if start {
                (0..10).for_each(|id| arm(&timer, HOUR, id));
            }
            let rest = timer.stop().unwrap();
            assert_eq!(rest.len(), if start { 10 } else { 0 });
            assert_eq!(timer.stats().returned(), rest.len() as u64);
            assert!(fuse.drops() >= 1, "the handler is gone");
        }
    }
}

#[test]
fn the_last_handle_dropped_in_a_handler_beside_payloads_that_panic() {
    install_logger();
    let fuse = Fuse::new(true);
    let timer = Builder::new().shards(2).build().unwrap();
    for _ in 0..50 {
        let bomb = fuse.bomb();
        arm(&timer, HOUR, TimerTask::new(move || drop(bomb)));
    }
    let (let_go, gate) = channel::<()>();
    let last = timer.clone();
    timer
        .run_after(Duration::ZERO, move || {
            gate.recv().unwrap();
            drop(last);
        })
        .unwrap();
    drop(timer);
    let_go.send(()).unwrap();
    wait_until("every payload is dropped", || fuse.drops() == 50);
}

#[test]
fn the_last_handle_dropped_outside_beside_payloads_that_panic() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        let fuse = Fuse::new(true);
        let timer = one_shard().drive(drive).build_with(|_: Expired<Bomb>| ()).unwrap();
        (0..50).for_each(|_| arm(&timer, HOUR, fuse.bomb()));
        drop(timer);
        wait_until("every payload is dropped", || fuse.drops() == 50);
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
    install_logger();
    let (back, fuse) = (Arc::new(Mutex::default()), Fuse::new(true));
    let timer = one_shard().build_on(Refusing(Arc::clone(&back))).unwrap();
    for id in 0..20 {
        timer.schedule_key(Duration::ZERO, (id, fuse.bomb())).unwrap();
    }
    wait_until("all came back", || back.lock().unwrap().len() == 20);
    assert_eq!(set_of(back.lock().unwrap().drain(..)), (0..20).collect());
    wait_until("all panics are counted", || timer.stats().panics() == 20);
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn a_waker_that_panics_takes_no_key_away() {
    install_logger();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let wake = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("the waker");
    };
    let timer = Settings::new().build_with_waker::<u64>(wake).unwrap();
    let remote = timer.remote();
    assert_eq!(timer.poll_timeout(timer.now()), None);
    let key = remote.schedule(HOUR, 7).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(remote.is_pending(key));
    assert_eq!(timer.close().len(), 1);
}

#[test]
fn an_event_loop_dropped_with_payloads_that_panic() {
    install_logger();
    let fuse = Fuse::new(true);
    let mut timer = Settings::new().build_with_waker::<Bomb>(|| ()).unwrap();
    let now = timer.now();
    for _ in 0..10 {
        timer.schedule(now, HOUR, fuse.bomb()).unwrap();
    }
    drop(timer);
    assert_eq!(fuse.drops(), 10);
}

/// A value whose destructor panics whenever it runs.
struct Fatal(Arc<AtomicU32>);

impl Drop for Fatal {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("fatal");
    }
}

#[test]
fn timers_of_one_thread_drop_payloads_that_panic() {
    install_logger();
    let drops = Arc::new(AtomicU32::new(0));
    let fatal = || Fatal(Arc::clone(&drops));
    let mut local = LocalTimer::new(ms(1)).unwrap();
    let mut fixed = FixedTimer::with_delay(ms(1));
    for clears in [true, false] {
        for _ in 0..3 {
            local.schedule(Time::ZERO, HOUR, fatal()).unwrap();
            fixed.schedule(Time::ZERO, fatal()).unwrap();
        }
        if clears {
            local.clear();
            fixed.clear();
            assert!(local.is_empty() && fixed.is_empty());
            assert_eq!(drops.swap(0, Ordering::SeqCst), 6);
        }
    }
    drop((local, fixed));
    assert_eq!(drops.load(Ordering::SeqCst), 6);
}

#[test]
fn a_guard_that_goes_with_a_panic_drops_a_payload_that_panics() {
    install_logger();
    let drops = Arc::new(AtomicU32::new(0));
    let timer = one_shard().build_with(|_: Expired<Fatal>| ()).unwrap();
    let request = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = timer.schedule(HOUR, Fatal(Arc::clone(&drops))).unwrap().cancel_on_drop();
        panic!("the request");
    }));
    assert!(request.is_err());
    assert_eq!((drops.load(Ordering::SeqCst), timer.pending()), (1, 0));
}

/// What a handler has captured is dropped while the engine stops; its destructor must not wait for itself.
#[test]
fn a_destructor_that_stops_its_own_engine_is_told_where_it_is() {
    install_logger();
    struct AtTheEnd {
        timer: Arc<Mutex<Option<Timer<u64>>>>,
        answers: Sender<Result<usize, StopError>>,
    }
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let timer = self.timer.lock().unwrap().take().expect("it is there until the end");
            self.answers.send(timer.stop().map(|rest| rest.len())).unwrap();
        }
    }
    for drive in [Drive::Workers, Drive::Manual] {
        let (answers, receiver) = channel();
        let own = Arc::new(Mutex::new(None));
        let captured = AtTheEnd { timer: Arc::clone(&own), answers };
        let handler = move |_: Expired<u64>| assert!(captured.timer.lock().unwrap().is_some());
        let timer = one_shard().drive(drive).build_with(handler).unwrap();
        *own.lock().unwrap() = Some(timer.clone());
        arm(&timer, HOUR, 1);
        assert_eq!(timer.stop().unwrap().len(), 1);
        assert_eq!(receiver.recv_timeout(secs(20)), Ok(Err(StopError::InsideHandler)));
    }
}

/// Panics when it is dropped, also if something panics already.
struct Stubborn(Arc<AtomicU32>);

impl Stubborn {
    /// Called by closures, which capture the whole of it for that.
    fn stay(&self) {
        assert!(Arc::strong_count(&self.0) > 0);
    }
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a stubborn value");
    }
}

impl Clock for Stubborn {
    fn now(&self) -> Time {
        Time::from(Instant::now())
    }
}

/// A builder with four values that panic when dropped.
fn stubborn(drops: &Arc<AtomicU32>) -> Builder {
    let [a, b, c] = [(); 3].map(|()| Stubborn(Arc::clone(drops)));
    one_shard()
        .shards(2)
        .clock(Stubborn(Arc::clone(drops)))
        .on_panic(move |_| a.stay())
        .on_worker_failure(move |_| b.stay())
        .on_slow_handler(HOUR, move |_| c.stay())
}

#[test]
fn everything_that_an_engine_owns_panics_when_dropped() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        let drops = Arc::new(AtomicU32::new(0));
        let captured = Stubborn(Arc::clone(&drops));
        let handler = move |_: Expired<u64>| captured.stay();
        let timer = stubborn(&drops).drive(drive).build_with(handler).unwrap();
        let held = timer.schedule(HOUR, 1).unwrap();
        assert_eq!(timer.stop().unwrap().len(), 1);
        drop(timer);
        drop(held);
        // The next build frees the engine.
        drop(one_shard().build().unwrap());
        wait_until("all five are dropped", || drops.load(Ordering::SeqCst) == 5);
    }
}

#[test]
fn an_executor_of_two_closures_that_panic_when_dropped() {
    install_logger();
    let drops = Arc::new(AtomicU32::new(0));
    let [a, b] = [(); 2].map(|()| Stubborn(Arc::clone(&drops)));
    let execute = move |expired: Expired<u64>| {
        a.stay();
        Err(expired)
    };
    let timer = stubborn(&drops).build_on(executor_fn(execute, move |_| b.stay())).unwrap();
    timer.schedule_key(Duration::ZERO, 1).unwrap();
    wait_until("it is refused", || timer.stats().fired() == 1);
    assert!(timer.stop().unwrap().is_empty());
    drop(timer);
    wait_until("all six are dropped", || drops.load(Ordering::SeqCst) == 6);
}

#[test]
fn a_build_that_fails_drops_what_it_was_given() {
    install_logger();
    let drops = Arc::new(AtomicU32::new(0));
    let one = || Stubborn(Arc::clone(&drops));
    let fails = || stubborn(&drops).tick(Duration::ZERO);
    let (captured, again) = (one(), one());
    assert!(fails().build_with(move |_: Expired<u64>| captured.stay()).is_err());
    assert!(
        fails()
            .build_per_shard(move |_| {
                again.stay();
                |_: &Timer<u64>, _| ()
            })
            .is_err()
    );
    let (execute, rejected) = (one(), one());
    let execute = move |expired: Expired<u64>| {
        execute.stay();
        Err(expired)
    };
    let executor = executor_fn(execute, move |_| rejected.stay());
    assert!(fails().build_on(executor).is_err());
    // A builder that nobody builds with, and a second one that shares its values.
    drop(stubborn(&drops).clone());
    let events = Settings::new().clock(one()).tick(Duration::ZERO);
    let wake = one();
    assert!(events.build_with_waker::<u64>(move || wake.stay()).is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 4 * 4 + 4 + 2);
}
