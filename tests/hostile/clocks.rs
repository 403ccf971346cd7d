//! A clock that panics ends the worker that reads it, which says why and loses no timer.

use crate::support::setup::{HOUR, ms, one_shard, secs, set_of, wait_until};
use crate::{arm, install_logger};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, Drive, EngineState, Expired, ScheduleErrorKind, Time, Timer, TurnError,
};

/// A clock that panics on the engine's workers on demand.
struct Moody {
    start: Instant,
    panics: Arc<AtomicU32>,
}

impl Clock for Moody {
    fn now(&self) -> Time {
        let left = self.panics.load(Ordering::SeqCst);
        let on_worker = std::thread::current().name().is_some_and(|it| it.starts_with("moody"));
        assert!(left == 0 || !on_worker, "the clock");
        Time::ZERO + self.start.elapsed()
    }
}

fn moody(panics: &Arc<AtomicU32>) -> Builder {
    let clock = Moody { start: Instant::now(), panics: Arc::clone(panics) };
    one_shard().shards(2).thread_name("moody").clock(clock).routing(tickwheel::Routing::Spread)
}

#[test]
fn a_worker_that_ends_closes_its_shard_and_says_so() {
    install_logger();
    let panics = Arc::new(AtomicU32::new(0));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&failures);
    let timer = moody(&panics)
        .on_worker_failure(move |failure| {
            told.lock().unwrap().push(failure.clone());
            panic!("the failure hook");
        })
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    for id in 0..10 {
        timer.schedule_key(HOUR, id).unwrap();
    }
    // It panics for ever from now on.
    panics.store(u32::MAX, Ordering::SeqCst);
    (10..12).for_each(|id| arm(&timer, ms(1), id));
    wait_until("both workers have ended", || failures.lock().unwrap().len() == 2);
    let failed = |timer: &Timer<u64>| match timer.schedule_key(HOUR, 99) {
        Ok(key) => timer.cancel(key).into_payload().is_none(),
        Err(error) => {
            assert_eq!(*error.payload(), 99);
            let kind = error.kind().clone();
            assert!(error.to_string().contains("the clock"), "{error}");
            matches!(kind, ScheduleErrorKind::WorkerFailed { shard: 0 | 1, .. })
        }
    };
    wait_until("schedules are refused", || failed(&timer) && failed(&timer));
    assert_eq!(timer.state(), EngineState::Failed);
    // Returns, though nothing happens any more.
    timer.wait_idle();
    let stats = timer.stats();
    for shard in &stats.shards {
        assert!(shard.failure.as_ref().is_some_and(|it| it.contains("the clock")), "{shard:?}");
    }
    let rest = timer.stop().unwrap();
    assert_eq!(set_of(rest.iter().map(|it| it.payload)), (0..12).collect());
    assert_eq!((timer.pending(), timer.state()), (0, EngineState::Stopped));
    let again = timer.schedule_key(HOUR, 1).unwrap_err();
    assert_eq!(*again.kind(), ScheduleErrorKind::Stopped);
}

/// A clock that stands, and panics from when it is told to.
struct Breakable(Arc<AtomicBool>);

impl Clock for Breakable {
    fn now(&self) -> Time {
        assert!(!self.0.load(Ordering::SeqCst), "the clock");
        Time::ZERO
    }
}

#[test]
fn a_turn_by_hand_on_a_broken_clock_ends_in_an_error() {
    install_logger();
    let broken = Arc::new(AtomicBool::new(false));
    let builder = one_shard().drive(Drive::Manual).clock(Breakable(Arc::clone(&broken)));
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    (0..5).for_each(|id| arm(&timer, HOUR, id));
    broken.store(true, Ordering::SeqCst);
    let answer = (0..1000).map(|_| timer.turn()).find(|answer| answer.is_err());
    assert_eq!(answer, Some(Err(TurnError::Failed { shard: 0 })));
    assert_eq!(timer.turn(), Ok(0), "the other shards would go on");
    broken.store(false, Ordering::SeqCst);
    assert!(timer.schedule_key(HOUR, 7).is_err());
    assert_eq!(timer.stop().unwrap().len(), 5);
}

/// Whoever is told of a failed worker may take its time: nobody is told meanwhile that a timer is accepted.
#[test]
fn a_failed_shard_is_closed_before_its_failure_is_told() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        let broken = Arc::new(AtomicBool::new(false));
        let (told, hears) = channel();
        let (let_go, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let timer = one_shard()
            .drive(drive)
            .clock(Breakable(Arc::clone(&broken)))
            .on_worker_failure(move |_| {
                told.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            })
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        arm(&timer, HOUR, 1);
        broken.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            if drive == Drive::Manual {
                scope.spawn(|| while timer.turn().is_ok() {});
            } else {
                // A point in time: no clock is read for it.
                timer.schedule_key(Time::ZERO, 2).unwrap();
            }
            hears.recv_timeout(secs(20)).unwrap();
            broken.store(false, Ordering::SeqCst);
            let refused = timer.schedule_key(ms(1), 3).map_err(|error| error.kind().clone());
            timer.wait_idle();
            drop(let_go);
            let Err(ScheduleErrorKind::WorkerFailed { shard: 0, message }) = refused else {
                panic!("{drive:?}: {refused:?}");
            };
            assert!(message.contains("the clock"), "{message}");
        });
        let rest = timer.stop().unwrap().len();
        assert_eq!(rest, if drive == Drive::Workers { 2 } else { 1 });
    }
}

/// Ends the process when it is dropped while its thread unwinds.
struct Explosive(u32);

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(!std::thread::panicking(), "payload {} is dropped by a panic", self.0);
    }
}

#[test]
fn a_clock_that_breaks_in_the_middle_of_a_turn_costs_none_of_its_timers() {
    install_logger();
    for drive in [Drive::Workers, Drive::Manual] {
        let (breaks, fired) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (broken, count) = (Arc::clone(&breaks), Arc::clone(&fired));
        // A watched handler has the clock read once more before each of its calls.
        let timer = one_shard()
            .drive(drive)
            .clock(Breakable(Arc::clone(&breaks)))
            .on_slow_handler(HOUR, |_| ())
            .build_with(move |_: Expired<Explosive>| {
                // The first one waits until all have been scheduled.
                while !broken.load(Ordering::SeqCst) && drive == Drive::Workers {
                    std::thread::yield_now();
                }
                broken.store(true, Ordering::SeqCst);
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        (0..500).for_each(|number| arm(&timer, Duration::ZERO, Explosive(number)));
        arm(&timer, HOUR, Explosive(500));
        if drive == Drive::Manual {
            let answer = (0..1000).map(|_| timer.turn()).find(Result::is_err);
            assert_eq!(answer, Some(Err(TurnError::Failed { shard: 0 })));
        } else {
            breaks.store(true, Ordering::SeqCst);
            wait_until("the worker has ended", || timer.state() == EngineState::Failed);
        }
        let rest = timer.stop().unwrap();
        let fired = fired.load(Ordering::SeqCst) as usize;
        assert_eq!(fired + rest.len(), 501, "{drive:?}: {fired} fired");
        // A worker may find the clock broken before it begins its first turn.
        assert!(fired < 500 && (fired > 0 || drive == Drive::Workers), "{fired} fired");
    }
}
