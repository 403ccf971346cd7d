//! Shards that a caller turns in place of their workers: who has them, who wakes whom, and that nothing is lost when
//! they change hands.

use crate::support::breakable::Breakable;
use crate::support::ledger::{Ends, Ledger};
use crate::support::setup::{HOUR, Setup, ms, one_shard, recording, secs, stress, us, wait_until};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tickwheel::__internal::wake_by;
use tickwheel::{
    Budget, Builder, DrivenShard, EngineState, Expired, IdleStrategy, PinState, Pinning,
    ScheduleErrorKind, Shutdown, StartError, Timer, TimerTask, TurnError, WeakTimer,
};

/// Each turn leaves one timer behind, which is due just now.
#[test]
fn the_lag_is_that_of_the_oldest_timer_although_each_turn_is_cut_short() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(at.builder().budget(Budget::new().fire(1)));
    let mut shard = timer.drive_shard(0).unwrap();
    timer.schedule(ms(1), 0).unwrap();
    for id in 1..=200 {
        timer.schedule(ms(1), id).unwrap();
        at.clock.advance(ms(1));
        let turned = shard.turn(Waker::noop());
        assert_eq!(turned, Ok(Some(Duration::ZERO)));
    }
    assert!(fired.len() > 190);
    let lag = timer.stats().lag;
    assert!(lag < ms(10), "{lag:?}");
    timer.stop().unwrap();
}

/// The worker waits for its shard; it does not ask for it again and again.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_whose_shard_is_driven_takes_no_time_of_a_processor() {
    let (tell, told) = channel();
    // `PID/task/TID`, of the thread that reads it.
    let tell_thread = move |_| tell.send(std::fs::read_link("/proc/thread-self")).unwrap();
    let builder = one_shard().on_worker_start(tell_thread);
    let timer = builder.build_with(|_: Expired<()>| ()).unwrap();
    timer.start().unwrap();
    let worker = told.recv().unwrap().unwrap();
    let shard = timer.drive_shard(0).unwrap();
    let file = std::path::Path::new("/proc").join(worker).join("schedstat");
    // A kernel may be built without it.
    if !file.exists() {
        return;
    }
    let nanos_on_processors = || -> u64 {
        let text = std::fs::read_to_string(&file).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let before = nanos_on_processors();
    std::thread::sleep(ms(300));
    let taken = Duration::from_nanos(nanos_on_processors() - before);
    assert!(taken < ms(20), "{taken:?}");
    drop(shard);
    timer.stop().unwrap();
}

/// Counts its calls, and unparks a thread.
struct Bell(AtomicUsize, std::thread::Thread);

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0), std::thread::current()))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.unpark();
    }
}

/// Payloads, and the threads of their handler's calls.
type Calls = Arc<Mutex<Vec<(u64, ThreadId)>>>;

/// An engine whose handler writes down on which thread it runs.
fn noting_threads() -> (Timer<u64>, Calls) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let handler = move |expired: Expired<u64>| {
        noted
            .lock()
            .unwrap()
            .push((expired.payload, std::thread::current().id()));
    };
    (one_shard().build_with(handler).unwrap(), calls)
}

#[test]
fn a_driven_shard_that_is_dropped_keeps_nothing_of_its_task() {
    let (timer, _calls) = noting_threads();
    let bell = Bell::new();
    let mut shard = timer.drive_shard(0).unwrap();
    shard.turn(&Waker::from(Arc::clone(&bell))).unwrap();
    assert_eq!(Arc::strong_count(&bell), 2);
    drop(shard);
    assert_eq!(Arc::strong_count(&bell), 1);
    timer.stop().unwrap();
}

/// Turns a shard until `done`.
fn turn_until<T: Send>(shard: &mut DrivenShard<T>, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    let waker = Waker::from(Bell::new());
    while !done() {
        assert!(start.elapsed() < secs(120), "turned in vain");
        let pause = shard.turn(&waker).unwrap();
        std::thread::park_timeout(pause.unwrap_or(HOUR).min(ms(20)));
    }
}

#[test]
fn a_shard_changes_hands_between_its_worker_and_a_caller() {
    let (timer, calls) = noting_threads();
    let here = std::thread::current().id();
    let count = |n: usize| calls.lock().unwrap().len() == n;
    // Before there is a worker.
    let mut shard = timer.drive_shard(0).unwrap();
    assert_eq!(shard.shard(), 0);
    timer.schedule(us(100), 1).unwrap();
    turn_until(&mut shard, || count(1));
    // To a worker, which fires what was armed before.
    timer.schedule(ms(5), 2).unwrap();
    drop(shard);
    wait_until("the worker has fired it", || count(2));
    for round in 0..20 {
        // Back from the worker, which sleeps or is about to.
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(us(100), 3 + 2 * round).unwrap();
        turn_until(&mut shard, || count(3 + 2 * round as usize));
        timer.schedule(us(100), 4 + 2 * round).unwrap();
        drop(shard);
        wait_until("the worker has fired it", || count(4 + 2 * round as usize));
    }
    let calls = calls.lock().unwrap();
    let workers: Vec<_> = calls
        .iter()
        .filter(|(id, _)| id % 2 == 0)
        .map(|call| call.1)
        .collect();
    assert!(
        calls
            .iter()
            .all(|(id, thread)| (*thread == here) == (id % 2 == 1)),
        "{calls:?}"
    );
    assert!(
        workers.windows(2).all(|pair| pair[0] == pair[1]),
        "one worker for good: {workers:?}"
    );
}

/// What a worker's hooks and an engine's handler have noted: what it was, and its thread.
type Notes = Arc<Mutex<Vec<(&'static str, ThreadId)>>>;

#[test]
fn each_worker_calls_its_hooks_on_its_own_thread_also_one_that_takes_a_shard_over() {
    let notes = Notes::default();
    let note = |what| {
        let notes = Arc::clone(&notes);
        move || {
            notes
                .lock()
                .unwrap()
                .push((what, std::thread::current().id()))
        }
    };
    let (start, fire, stop) = (note("start"), note("fire"), note("stop"));
    let builder = one_shard()
        .on_worker_start(move |shard| [&start][shard]())
        .on_worker_stop(move |shard| [&stop][shard]());
    let timer = builder.build_with(move |_: Expired<u64>| fire()).unwrap();
    let here = std::thread::current().id();
    // On this thread first: no worker, no hook.
    let mut shard = timer.drive_shard(0).unwrap();
    timer.schedule(Duration::ZERO, 1).unwrap();
    turn_until(&mut shard, || notes.lock().unwrap().len() == 1);
    assert_eq!(*notes.lock().unwrap(), [("fire", here)]);
    drop(shard);
    // The worker that takes the shard over fires the second timer, lends the shard once more, and fires the third.
    timer.schedule(Duration::ZERO, 2).unwrap();
    wait_until("it has fired", || notes.lock().unwrap().len() == 3);
    drop(timer.drive_shard(0).unwrap());
    timer.schedule(Duration::ZERO, 3).unwrap();
    wait_until("it has fired", || notes.lock().unwrap().len() == 4);
    timer.stop().unwrap();
    let notes = notes.lock().unwrap();
    let worker = notes[1].1;
    let expected = ["start", "fire", "fire", "stop"].map(|what| (what, worker));
    assert!(worker != here && notes[1..] == expected, "{notes:?}");
}

#[test]
fn an_earlier_timer_of_another_thread_calls_the_waker() {
    let (timer, fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    let bell = Bell::new();
    let waker = Waker::from(Arc::clone(&bell));
    timer.schedule(HOUR, 1).unwrap();
    let mut pause = shard.turn(&waker).unwrap();
    while pause == Some(Duration::ZERO) {
        pause = shard.turn(&waker).unwrap();
    }
    let pause = pause.expect("an hour is a known time");
    assert!(
        pause > HOUR - secs(60) && pause < HOUR + secs(1),
        "{pause:?}"
    );
    assert_eq!(bell.0.load(Ordering::Relaxed), 0);
    std::thread::scope(|threads| {
        threads.spawn(|| timer.schedule(2 * HOUR, 2).unwrap());
    });
    assert_eq!(
        bell.0.load(Ordering::Relaxed),
        0,
        "a later one needs no turn"
    );
    std::thread::scope(|threads| {
        threads.spawn(|| timer.schedule(ms(1), 3).unwrap());
    });
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    turn_until(&mut shard, || fired.len() == 1);
}

/// They are far away and cancelled, but lie in the inbox until the owner reads it.
#[test]
fn messages_that_pile_up_call_the_waker_once() {
    let (timer, _fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    let bell = Bell::new();
    let waker = Waker::from(Arc::clone(&bell));
    while shard.turn(&waker).unwrap() == Some(Duration::ZERO) {}
    // The first one ends the endless sleep.
    timer.schedule(HOUR, 0).unwrap();
    while shard.turn(&waker).unwrap() == Some(Duration::ZERO) {}
    let before = bell.0.load(Ordering::Relaxed);
    let calls_after = |pairs| {
        for n in 0..pairs {
            assert!(timer.cancel(timer.schedule(2 * HOUR, n).unwrap()).is_won());
        }
        bell.0.load(Ordering::Relaxed) - before
    };
    assert_eq!((calls_after(50_000), calls_after(30_000)), (0, 1));
    shard.turn(&waker).unwrap();
    assert_eq!((timer.stats().inbox, timer.pending()), (0, 1));
}

#[test]
fn a_driven_shard_on_a_virtual_clock_is_woken_by_it() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    let mut shard = timer.drive_shard(0).unwrap();
    let bell = Bell::new();
    let waker = Waker::from(Arc::clone(&bell));
    timer.schedule(HOUR, 1).unwrap();
    while shard.turn(&waker).unwrap().is_some() {}
    at.clock.advance(HOUR);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(shard.turn(&waker).is_ok() && fired.ids() == [1]);
}

#[test]
fn no_wake_is_lost_between_producers_and_a_shard_that_sleeps() {
    const LONG: Duration = secs(30);
    let rounds = stress(5_000);
    let fired: Arc<[AtomicU64; 2]> = Arc::default();
    let counts = Arc::clone(&fired);
    let handler = move |expired: Expired<u64>| {
        counts[expired.payload as usize].fetch_add(1, Ordering::Release);
    };
    let timer = one_shard().tick(us(1)).build_with(handler).unwrap();
    let mut shard = timer.drive_shard(0).unwrap();
    let mut slept_through = false;
    let has_come_to = |producer: usize, round| fired[producer].load(Ordering::Acquire) >= round;
    std::thread::scope(|threads| {
        for producer in 0..2 {
            let (timer, has_come_to) = (&timer, &has_come_to);
            threads.spawn(move || {
                for round in 1..=rounds {
                    // The next one only when this one has fired: a lost wake leaves everything asleep.
                    timer.schedule(us(round % 3), producer as u64).unwrap();
                    while !has_come_to(producer, round) {
                        std::hint::spin_loop();
                    }
                }
            });
        }
        let waker = Waker::from(Bell::new());
        loop {
            let pause = shard
                .turn(&waker)
                .unwrap()
                .map_or(LONG, |pause| pause.min(LONG));
            if has_come_to(0, rounds) && has_come_to(1, rounds) {
                break;
            }
            let asleep = Instant::now();
            std::thread::park_timeout(pause);
            slept_through |= asleep.elapsed() >= LONG;
        }
    });
    assert!(!slept_through, "a timer was slept through");
}

/// The function is called once per future, and may leave out [`Waker::wake`].
#[test]
fn a_driven_shard_wakes_futures_by_the_function_it_was_given() {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    fn count(waker: Waker) {
        GIVEN.fetch_add(1, Ordering::SeqCst);
        drop(waker);
    }
    // Also if each call is timed.
    let timed = one_shard().on_slow_handler(Duration::ZERO, |_| ());
    for (builder, times) in [(one_shard(), 0), (timed, 3)] {
        GIVEN.store(0, Ordering::SeqCst);
        let handler = |_: Expired<TimerTask>| panic!("futures need no handler");
        let timer = builder.build_with(handler).unwrap();
        let mut shard = wake_by(timer.drive_shard(0).unwrap(), count);
        let bell = Bell::new();
        let waker = Waker::from(Arc::clone(&bell));
        let mut sleeps = [us(100); 3].map(|delay| timer.sleep(delay));
        for sleep in &mut sleeps {
            let polled = sleep.poll_sleep(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        turn_until(&mut shard, || sleeps.iter().all(|sleep| sleep.is_elapsed()));
        assert_eq!(
            (GIVEN.load(Ordering::SeqCst), bell.0.load(Ordering::SeqCst)),
            (3, 0)
        );
        let stats = timer.stats();
        assert_eq!(
            (stats.shards[0].handler_time.count(), stats.panics),
            (times, 0)
        );
        timer.stop().unwrap();
    }
}

#[test]
fn a_waker_that_panics_harms_no_caller() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let (timer, fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    while shard
        .turn(&Waker::from(Arc::new(Panics)))
        .unwrap()
        .is_some()
    {}
    timer.schedule(ms(1), 1).unwrap();
    timer.schedule(us(10), 2).unwrap();
    turn_until(&mut shard, || fired.len() == 2);
}

/// A wake calls a clone of the waker, so it has woken no task if `clone` panics.
#[test]
fn a_waker_whose_clone_panics_is_called_by_the_next_producer() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, |_| ());
    fn clone(_: *const ()) -> RawWaker {
        assert!(!PANICS.load(Ordering::SeqCst), "a clone");
        RawWaker::new(std::ptr::null(), &VTABLE)
    }
    fn wake(_: *const ()) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let (timer, fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    // SAFETY: the functions take no data, and any thread may call them.
    let waker = unsafe { Waker::new(std::ptr::null(), &VTABLE) };
    while shard.turn(&waker).unwrap().is_some() {}
    let calls_after = |id, panics| {
        PANICS.store(panics, Ordering::SeqCst);
        timer.schedule(ms(5), id).unwrap();
        CALLS.load(Ordering::SeqCst)
    };
    let calls = [true, true, false, false].map(|panics| calls_after(1, panics));
    assert_eq!(calls, [0, 0, 1, 1]);
    turn_until(&mut shard, || fired.len() == 4);
}

/// Nobody has stopped it.
#[test]
fn an_engine_whose_shards_all_failed_before_its_start_says_so() {
    for shards in [1, 2] {
        let clock = Breakable::default();
        let timer = one_shard()
            .shards(shards)
            .clock(clock.clone())
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        let driven: Vec<_> = (0..shards)
            .map(|it| timer.drive_shard(it).unwrap())
            .collect();
        clock.set_broken(true);
        for mut shard in driven {
            assert!(shard.turn(Waker::noop()).is_err());
        }
        clock.set_broken(false);
        let refused = timer.schedule(Duration::ZERO, 1).unwrap_err();
        let ScheduleErrorKind::WorkerFailed { message, .. } = refused.kind() else {
            panic!("{refused}")
        };
        assert!(message.contains("the clock"), "{message}");
        assert_eq!(timer.state(), EngineState::Failed);
        timer.start().unwrap();
        timer.wait_idle();
        assert_eq!(timer.stop().unwrap().len(), 0);
        assert_eq!(timer.start(), Err(StartError::Stopped));
    }
}

#[test]
fn a_worker_goes_when_its_shard_fails_in_the_hands_of_a_driver() {
    let clock = Breakable::default();
    let (workers, changed) = channel();
    let (begun, gone) = (workers.clone(), workers);
    let timer: Timer = one_shard()
        .clock(clock.clone())
        .on_worker_start(move |_| begun.send("begun").unwrap())
        .on_worker_stop(move |_| gone.send("gone").unwrap())
        .build()
        .unwrap();
    timer.start().unwrap();
    assert_eq!(changed.recv_timeout(secs(60)), Ok("begun"));
    let mut shard = timer.drive_shard(0).unwrap();
    clock.set_broken(true);
    assert!(shard.turn(Waker::noop()).is_err());
    clock.set_broken(false);
    // The driver stays.
    assert_eq!(changed.recv_timeout(secs(60)), Ok("gone"));
    drop(shard);
    timer.stop().unwrap();
}

#[test]
fn a_shard_that_cannot_be_driven_says_why() {
    let timer: Timer = one_shard().shards(2).build().unwrap();
    assert_eq!(
        timer.drive_shard(2).unwrap_err(),
        TurnError::NoShard {
            shard: 2,
            shards: 2
        }
    );
    let mut first = timer.drive_shard(0).unwrap();
    assert_eq!(
        timer.drive_shard(0).unwrap_err(),
        TurnError::Driven { shard: 0 }
    );
    let other = timer.drive_shard(1).unwrap();
    assert_eq!(other.shard(), 1);
    drop(other);
    let again = timer.drive_shard(1).unwrap();
    assert_eq!(timer.stop().unwrap().len(), 0);
    assert_eq!(first.turn(Waker::noop()), Err(TurnError::Stopped));
    assert_eq!(timer.drive_shard(1).unwrap_err(), TurnError::Stopped);
    drop((first, again));
    assert!(timer.is_stopped());
}

#[test]
fn a_driver_that_leaves_an_engine_turned_by_hand_leaves_no_worker() {
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    let shard = timer.drive_shard(0).unwrap();
    timer.schedule(ms(1), 1).unwrap();
    drop(shard);
    at.advance(&timer, ms(1));
    assert_eq!(fired.ids(), [1]);
}

/// What `wake_by` was given may gather wakers for the driver's task, which is gone.
#[test]
fn a_turn_by_hand_calls_wakers_itself_when_the_driver_has_left() {
    let at = Setup::by_hand();
    let timer: Timer = at.builder().build().unwrap();
    let mut shard = wake_by(timer.drive_shard(0).unwrap(), drop);
    while shard.turn(Waker::noop()).unwrap() == Some(Duration::ZERO) {}
    drop(shard);
    let bell = Bell::new();
    let waker = Waker::from(Arc::clone(&bell));
    let mut sleep = timer.sleep(ms(1));
    let polled = sleep.poll_sleep(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    at.advance(&timer, ms(1));
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
}

/// The thread that would turn the shard is the one that ends the engine.
#[test]
fn the_end_of_an_engine_waits_for_no_driver() {
    let returns = Shutdown::ReturnUnfired;
    let drains = Shutdown::Drain { within: secs(1) };
    let fires = Shutdown::FireAll;
    let all: &[u64] = &[1, 2];
    for (started, mode, fires) in [
        (false, returns, &all[..0]),
        (true, returns, &all[..0]),
        (false, drains, &all[..1]),
        (true, drains, &all[..1]),
        (false, fires, all),
        (true, fires, all),
    ] {
        let (timer, fired) = recording(one_shard());
        if started {
            timer.start().unwrap();
        }
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(ms(300), 1).unwrap();
        timer.schedule(HOUR, 2).unwrap();
        let left = timer.shutdown(mode, secs(60)).unwrap();
        assert_eq!((&*fired.ids(), left.len()), (fires, 2 - fires.len()));
        assert_eq!(shard.turn(Waker::noop()), Err(TurnError::Stopped));
    }
    // With the last handle, which a driver is not.
    let (timer, fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    drop(timer);
    assert_eq!(
        (shard.turn(Waker::noop()), fired.len()),
        (Err(TurnError::Stopped), 0)
    );
}

#[test]
fn a_turn_that_is_under_way_ends_before_its_engine_does() {
    let modes = [Shutdown::ReturnUnfired, Shutdown::FireAll];
    // With and without a worker that waits for its shard.
    for (mode, started) in modes
        .into_iter()
        .flat_map(|mode| [(mode, false), (mode, true)])
    {
        let ((enter, entered), (leave, may_leave)) = (channel(), channel::<()>());
        let may_leave = Mutex::new(may_leave);
        let handler = move |_: Expired<u64>| {
            enter.send(()).unwrap();
            let _ = may_leave.lock().unwrap().recv();
        };
        let timer = one_shard().build_with(handler).unwrap();
        if started {
            timer.start().unwrap();
        }
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(Duration::ZERO, 1).unwrap();
        timer.schedule(HOUR, 2).unwrap();
        let left = std::thread::scope(|threads| {
            let turning = threads.spawn(move || while shard.turn(Waker::noop()).is_ok() {});
            entered.recv().unwrap();
            let stopping = threads.spawn(|| timer.shutdown(mode, secs(60)).unwrap());
            std::thread::sleep(ms(20));
            assert!(!stopping.is_finished(), "the handler runs yet");
            drop(leave);
            turning.join().unwrap();
            stopping.join().unwrap()
        });
        let fires = usize::from(mode == Shutdown::FireAll);
        assert_eq!((entered.try_iter().count(), left.len()), (fires, 1 - fires));
    }
}

#[test]
fn wait_idle_waits_for_a_driver_on_another_thread() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    let mut shard = timer.drive_shard(0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| turn_until(&mut shard, || done.load(Ordering::Acquire)));
        for n in 1..50 {
            timer.schedule(ms(1), n).unwrap();
            at.clock.advance(ms(2));
            timer.wait_idle();
            assert_eq!(fired.len() as u64, n);
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn nothing_is_lost_while_shards_change_hands() {
    let timers = stress(40_000);
    let ledger = Ledger::all_begun(timers);
    let fired = Arc::clone(&ledger);
    let handler = move |expired: Expired<u64>| fired.fired(expired.payload);
    let timer = one_shard().shards(2).build_with(handler).unwrap();
    let producing = AtomicUsize::new(2);
    std::thread::scope(|threads| {
        for number in 0..2 {
            let (timer, ledger, producing) = (&timer, &ledger, &producing);
            threads.spawn(move || {
                for id in (number as u64..timers).step_by(2) {
                    let delay = us([0, 30, 400, 3000][id as usize / 2 % 4]);
                    let key = timer.schedule(delay, id).unwrap();
                    if id % 8 < 2 {
                        let won = timer.cancel(key).into_payload();
                        won.into_iter().for_each(|id| ledger.cancelled(id));
                    }
                }
                producing.fetch_sub(1, Ordering::Release);
            });
            threads.spawn(move || {
                while producing.load(Ordering::Acquire) > 0 {
                    let mut shard = timer.drive_shard(number).unwrap();
                    (0..10).for_each(|_| _ = shard.turn(Waker::noop()).unwrap());
                    drop(shard);
                    std::thread::sleep(us(100));
                }
            });
        }
    });
    // By the workers.
    wait_until("all have ended", || timer.pending() == 0);
    assert_eq!(timer.stop().unwrap().len(), 0);
    let Ends {
        fired, cancelled, ..
    } = ledger.check();
    assert_eq!(fired + cancelled, timers);
}

/// A thread that has begun to call the waker may be scheduled away in there: another one calls it as well.
#[test]
fn a_thread_that_stops_in_the_waker_stops_no_other_wake() {
    /// Its first call does not return before `go_on`.
    struct Stops {
        calls: AtomicUsize,
        go_on: Mutex<std::sync::mpsc::Receiver<()>>,
    }
    impl Wake for Stops {
        fn wake(self: Arc<Self>) {
            if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let _ = self.go_on.lock().unwrap().recv();
            }
        }
    }
    let (go_on, gate) = channel();
    let stops = Arc::new(Stops {
        calls: AtomicUsize::new(0),
        go_on: Mutex::new(gate),
    });
    let calls = || stops.calls.load(Ordering::SeqCst);
    let (timer, fired) = recording(one_shard());
    let mut shard = timer.drive_shard(0).unwrap();
    let waker = Waker::from(Arc::clone(&stops));
    while shard.turn(&waker).unwrap().is_some() {}
    std::thread::scope(|threads| {
        threads.spawn(|| timer.schedule(HOUR, 1).unwrap());
        wait_until("it has called", || calls() == 1);
        timer.schedule(Duration::ZERO, 2).unwrap();
        assert_eq!(
            calls(),
            2,
            "the second timer's producer relies on the first one"
        );
        drop(go_on);
    });
    turn_until(&mut shard, || *fired.ids() == [2]);
}

/// A driver that waits for its waker's call comes to know of every end of its engine. Several shards give
/// worker time to take it.
#[test]
fn a_driver_is_told_of_a_shutdown() {
    const SHARDS: usize = 4;
    let modes = [
        Shutdown::ReturnUnfired,
        Shutdown::FireAll,
        Shutdown::Drain {
            within: Duration::ZERO,
        },
    ];
    for round in 0..stress(300) {
        let (timer, _fired) = recording(one_shard().shards(SHARDS));
        // Mostly with workers that wait for their shards.
        if round % 8 != 0 {
            timer.start().unwrap();
        }
        timer.schedule(HOUR, 1).unwrap();
        let mut drivers: Vec<_> = (0..SHARDS)
            .map(|shard| {
                let bell = Bell::new();
                let waker = Waker::from(Arc::clone(&bell));
                let mut shard = timer.drive_shard(shard).unwrap();
                while shard.turn(&waker).unwrap() == Some(Duration::ZERO) {}
                (bell.0.load(Ordering::SeqCst), bell, shard)
            })
            .collect();
        let mode = modes[round as usize % 3];
        timer.shutdown(mode, secs(60)).unwrap();
        for (before, bell, shard) in &mut drivers {
            let called = bell.0.load(Ordering::SeqCst) > *before;
            assert!(called, "round {round}: nobody told a driver of {mode:?}");
            assert_eq!(shard.turn(Waker::noop()), Err(TurnError::Stopped));
        }
    }
}

/// What the first one's handler holds waits in its destructor for what the second one's holds.
#[test]
fn a_worker_is_told_of_a_stop_though_another_shard_is_long_in_ending() {
    /// Says that it is dropped, or waits for that.
    enum Last {
        Tells(Sender<()>),
        Waits(Receiver<()>, Arc<AtomicBool>),
    }
    impl Drop for Last {
        fn drop(&mut self) {
            match self {
                Self::Tells(tell) => tell.send(()).unwrap(),
                Self::Waits(told, heard) => {
                    heard.store(told.recv_timeout(secs(20)).is_ok(), Ordering::SeqCst);
                }
            }
        }
    }
    for idle in [
        IdleStrategy::Park,
        IdleStrategy::BusySpin,
        IdleStrategy::SpinThenPark { spin: HOUR },
    ] {
        let (tell, told) = channel();
        let heard = Arc::new(AtomicBool::new(false));
        let mut lasts = [
            Some(Last::Waits(told, Arc::clone(&heard))),
            Some(Last::Tells(tell)),
        ];
        let timer = one_shard()
            .shards(2)
            .idle(idle)
            .build_per_shard(|shard| {
                let last = lasts[shard].take();
                move |_: &Timer<u64>, _| _ = &last
            })
            .unwrap();
        let mut shard = timer.drive_shard(0).unwrap();
        timer.start().unwrap();
        while shard.turn(Waker::noop()).unwrap() == Some(Duration::ZERO) {}
        wait_until("the worker has turned", || {
            timer.stats().shards[1].turns > 0
        });
        std::thread::sleep(ms(20));
        timer.stop().unwrap();
        assert!(
            heard.load(Ordering::SeqCst),
            "{idle:?}: the worker rested on"
        );
    }
}

/// As an executor's does that runs the task of a driver in the call, and the task ends the engine for good.
#[test]
fn a_waker_that_is_told_of_a_stop_may_stop_the_engine() {
    struct Stops(WeakTimer<u64>, Sender<usize>);
    impl Wake for Stops {
        fn wake(self: Arc<Self>) {
            if let Some(timer) = self.0.upgrade() {
                self.1.send(timer.stop().unwrap().len()).unwrap();
            }
        }
    }
    for mode in [Shutdown::ReturnUnfired, Shutdown::FireAll] {
        let (timer, fired) = recording(one_shard());
        let (tell, told) = channel();
        let waker = Waker::from(Arc::new(Stops(timer.downgrade(), tell)));
        let mut shard = timer.drive_shard(0).unwrap();
        timer.schedule(HOUR, 1).unwrap();
        while shard.turn(&waker).unwrap() == Some(Duration::ZERO) {}
        // On a thread of its own: a call that waits for itself never returns.
        let stopping = timer.clone();
        let stopping = std::thread::spawn(move || stopping.shutdown(mode, Duration::MAX));
        wait_until("it has stopped", || stopping.is_finished());
        let returned = stopping.join().unwrap().unwrap().len();
        let ends = fired.len() + returned + told.try_iter().sum::<usize>();
        assert_eq!(ends, 1, "{mode:?}");
        assert_eq!(shard.turn(&waker), Err(TurnError::Stopped));
    }
}

/// A shutdown that fires must not wait for a task, also for one that claims the shard at that very moment.
#[test]
fn a_shutdown_that_fires_does_not_wait_for_a_driver_that_has_just_come() {
    const SHARDS: usize = 48;
    for round in 0..stress(24) {
        let (timer, fired) = recording(one_shard().shards(SHARDS));
        timer.schedule(HOUR, 1).unwrap();
        timer.start().unwrap();
        let drivers: Vec<_> = (0..SHARDS)
            .map(|shard| timer.drive_shard(shard).unwrap())
            .collect();
        let is_ready = AtomicBool::new(false);
        std::thread::scope(|threads| {
            // Claims the first shard as soon as it is to be had, keeps it, and never turns it.
            let claiming = threads.spawn(|| {
                loop {
                    let claimed = timer.drive_shard(0);
                    is_ready.store(true, Ordering::SeqCst);
                    if claimed.as_ref().err() != Some(&TurnError::Driven { shard: 0 }) {
                        return claimed;
                    }
                }
            });
            while !is_ready.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            let left = timer.shutdown(Shutdown::FireAll, secs(10));
            assert_eq!((left, fired.len()), (Ok(Vec::new()), 1), "round {round}");
            drop(claiming.join().unwrap());
        });
        drop(drivers);
    }
}

/// Tries to have the shard itself when its last clone is dropped.
struct Successor {
    timer: Timer<u64>,
    told: Sender<Option<TurnError>>,
}

impl Wake for Successor {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Successor {
    fn drop(&mut self) {
        let claimed = self.timer.drive_shard(0);
        self.told.send(claimed.err()).unwrap();
    }
}

/// Otherwise the next one's waker would be forgotten with it, and its task would sleep on.
#[test]
fn a_driver_that_leaves_forgets_its_waker_before_another_can_have_the_shard() {
    for at in [Setup::with_workers(), Setup::by_hand()] {
        let (timer, _fired) = at.recording();
        let (told, claims) = channel();
        let mut shard = timer.drive_shard(0).unwrap();
        let successor = Successor {
            timer: timer.clone(),
            told,
        };
        let waker = Waker::from(Arc::new(successor));
        shard.turn(&waker).unwrap();
        drop(waker);
        assert_eq!(claims.try_recv().ok(), None, "the shard has the waker");
        drop(shard);
        let refused = claims.recv_timeout(secs(20)).unwrap();
        assert_eq!(refused, Some(TurnError::Driven { shard: 0 }));
        drop(timer.drive_shard(0).unwrap());
        timer.stop().unwrap();
    }
}

/// What the statistics say of a worker's core follows the shard from hand to hand.
#[test]
fn a_shard_is_pinned_again_after_each_driver() {
    let Some(core) = core_affinity::get_core_ids().and_then(|cores| Some(cores.first()?.id)) else {
        return;
    };
    let builder = Builder::new().shards(1).pinning(Pinning::List(vec![core]));
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    let pinning = || timer.stats().shards[0].pinning;
    timer.start().unwrap();
    timer.wait_idle();
    let pinned = pinning();
    for _ in 0..3 {
        let mut shard = timer.drive_shard(0).unwrap();
        shard.turn(Waker::noop()).unwrap();
        wait_until("the driver has it", || pinning() == PinState::Unpinned);
        drop(shard);
        wait_until("its worker has it again", || pinning() == pinned);
    }
    assert!(pinned == PinState::Pinned(core) || cfg!(not(target_os = "linux")));
    timer.stop().unwrap();
}
