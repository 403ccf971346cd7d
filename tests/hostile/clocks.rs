//! Clocks that panic, now and then or for ever.

use crate::support::setup::{HOUR, ms, one_shard, secs, set_of, wait_until};
use crate::{arm, install_logger};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, Drive, EngineState, Expired, MonotonicClock, ScheduleErrorKind, Time, Timer,
    TurnError,
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
        if left > 0 && on_worker {
            self.panics.store(left.saturating_sub(u32::from(left < 1_000)), Ordering::SeqCst);
            panic!("the clock");
        }
        Time::ZERO + self.start.elapsed()
    }
}

fn moody(panics: &Arc<AtomicU32>) -> Builder {
    let clock = Moody { start: Instant::now(), panics: Arc::clone(panics) };
    one_shard().shards(2).thread_name("moody").clock(clock).routing(tickwheel::Routing::Spread)
}

#[test]
fn a_clock_that_panics_now_and_then_stands_still_meanwhile() {
    install_logger();
    let panics = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = channel();
    let timer = moody(&panics).build_with(move |e: Expired<u64>| sender.send(e).unwrap()).unwrap();
    for round in 0..20 {
        panics.store(5, Ordering::SeqCst);
        timer.schedule_key(ms(2), round).unwrap();
        let expired = receiver.recv_timeout(secs(20)).unwrap();
        assert_eq!(expired.payload, round);
        assert!(timer.now() >= expired.deadline, "never early");
    }
    assert_eq!(timer.state(), EngineState::Started);
    assert!(timer.stop().unwrap().is_empty());
}

/// It is asked for nothing but the time once the engine is built.
#[test]
fn a_clock_whose_other_answers_panic() {
    install_logger();
    struct Silent(MonotonicClock);
    impl Clock for Silent {
        fn now(&self) -> Time {
            self.0.now()
        }
        fn longest_sleep(&self) -> Option<Duration> {
            panic!("the longest sleep")
        }
        fn is_virtual(&self) -> bool {
            panic!("whether it is virtual")
        }
    }
    struct Deaf;
    impl Clock for Deaf {
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn is_virtual(&self) -> bool {
            true
        }
        fn on_advance(&self, _: Weak<dyn Fn() + Send + Sync>) {
            panic!("the hook")
        }
    }
    fn fires(builder: Builder, delays: &[Duration]) -> bool {
        let (sender, receiver) = channel();
        let timer = builder.build_with(move |e: Expired<u64>| sender.send(e).unwrap()).unwrap();
        timer.schedule_key(HOUR, 1).unwrap();
        for delay in delays {
            timer.schedule_key(*delay, 2).unwrap();
            assert_eq!(receiver.recv_timeout(secs(20)).unwrap().payload, 2);
        }
        timer.state() == EngineState::Started && timer.stop().unwrap().len() == 1
    }
    let silent = one_shard().clock(Silent(MonotonicClock::new()));
    assert!(fires(silent, &[Duration::ZERO, ms(2), ms(2)]));
    assert!(fires(one_shard().clock(Deaf), &[Duration::ZERO, Duration::ZERO]));
}

/// What counts is how often a worker finds it broken, not how often it is read meanwhile.
#[test]
fn a_clock_that_is_out_of_order_for_a_moment_ends_no_worker() {
    install_logger();
    struct Outage(MonotonicClock, Arc<Mutex<Option<Instant>>>);
    impl Clock for Outage {
        fn now(&self) -> Time {
            let until = *self.1.lock().unwrap();
            if until.is_some_and(|until| Instant::now() < until) {
                std::panic::resume_unwind(Box::new("an outage"));
            }
            self.0.now()
        }
    }
    for shards in [1, 16] {
        let until = Arc::new(Mutex::new(None));
        let (begin, fired) = (Arc::clone(&until), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&fired);
        let timer = one_shard()
            .shards(shards)
            .routing(tickwheel::Routing::Spread)
            .clock(Outage(MonotonicClock::new(), until))
            .on_slow_handler(HOUR, |_| ())
            .build_with(move |expired: Expired<u64>| {
                if expired.payload == 0 {
                    *begin.lock().unwrap() = Some(Instant::now() + ms(20));
                }
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        timer.start().unwrap();
        let due = timer.now() + ms(50);
        for id in 0..1000 {
            timer.schedule_key(due, id).unwrap();
        }
        wait_until("all have fired, or a worker has ended", || {
            fired.load(Ordering::SeqCst) == 1000 || timer.state() != EngineState::Started
        });
        assert_eq!(timer.state(), EngineState::Started, "{:?}", timer.stats().shards);
        assert!(timer.stop().unwrap().is_empty());
    }
}

#[test]
fn no_sleep_is_reckoned_from_what_a_clock_said_before_it_panicked() {
    install_logger();
    /// What it says, in hours, and how many readings panic before it says it.
    #[derive(Clone, Default)]
    struct Jumping(Arc<(AtomicU32, AtomicU32)>);
    impl Clock for Jumping {
        fn now(&self) -> Time {
            let (hours, panics) = &*self.0;
            let left = panics.load(Ordering::SeqCst);
            panics.store(left.saturating_sub(1), Ordering::SeqCst);
            assert_eq!(left, 0, "the clock");
            Time::ZERO + HOUR * hours.load(Ordering::SeqCst)
        }
    }
    let clock = Jumping::default();
    let (jumps, (sender, receiver)) = (clock.clone(), channel());
    let timer = one_shard()
        .clock(clock)
        .build_with(move |expired: Expired<u64>| {
            // It jumps to where the second timer is due, and its next readings panic.
            jumps.0.1.store(5, Ordering::SeqCst);
            jumps.0.0.store(2, Ordering::SeqCst);
            sender.send(expired.payload).unwrap();
        })
        .unwrap();
    timer.schedule_key(HOUR, 2).unwrap();
    timer.schedule_key(Duration::ZERO, 1).unwrap();
    let mut fired = (0..2).map(|_| receiver.recv_timeout(secs(20)).unwrap());
    assert_eq!((fired.next(), fired.next()), (Some(1), Some(2)));
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
        Ok(key) => timer.cancel(key).payload().is_none(),
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
        assert_eq!(timer.stop().unwrap().len(), 1);
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
        // A worker may begin its turn before all of them have been scheduled, and ends after that one.
        assert!(fired == 500 || drive == Drive::Workers && fired > 0, "{fired} fired");
    }
}
