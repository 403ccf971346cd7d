//! A clock that panics ends the worker that reads it, which says why and loses no timer.

use crate::support::breakable::Breakable;
use crate::support::setup::{HOUR, ms, rate, recording, secs, set_of, spread, wait_until};
use crate::{DRIVES, arm, is_logged, one_shard};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Duration;
use tickwheel::__internal::set_home;
use tickwheel::{
    Clock, Drive, EngineState, Expired, Period, ScheduleErrorKind, Shutdown, StopError, Time,
    Timer, TurnError, WeakTimer,
};

#[test]
fn a_worker_that_ends_closes_its_shard_and_says_so() {
    let (clock, failures) = (Breakable::default(), Arc::new(Mutex::new(0)));
    let told = Arc::clone(&failures);
    let builder = one_shard()
        .shards(2)
        .clock(clock.clone())
        .on_worker_failure(move |_| {
            *told.lock().unwrap() += 1;
            panic!("the failure hook");
        });
    let (timer, fired) = recording(builder);
    let far = Time::ZERO + HOUR;
    (0..10).for_each(|id| _ = spread(&timer, far, id));
    clock.set_broken(true);
    // A point in time: no clock is read for it. It wakes a worker that rests; one that has not gone to rest yet fires it
    // at the time that it has read, or has failed by now and refuses it.
    let accepted = (10..12).filter(|&id| {
        set_home(&timer, id as usize % 2);
        timer.schedule(Time::ZERO, id).is_ok()
    });
    let accepted = set_of((0..10).chain(accepted));
    wait_until("both workers have ended", || *failures.lock().unwrap() == 2);
    clock.set_broken(false);
    for shard in 0..2 {
        set_home(&timer, shard);
        let error = timer.schedule(far, 99).unwrap_err();
        assert!(
            error.to_string().contains("the clock") && *error.payload() == 99,
            "{error}"
        );
        assert!(matches!(
            error.kind(),
            ScheduleErrorKind::WorkerFailed { shard: 0 | 1, .. }
        ));
    }
    assert_eq!(timer.state(), EngineState::Failed);
    // Returns, though nothing happens any more.
    timer.wait_idle();
    for shard in &timer.stats().shards {
        assert!(
            shard
                .failure
                .as_ref()
                .is_some_and(|it| it.contains("the clock")),
            "{shard:?}"
        );
    }
    let text = |shard| format!("the worker of shard {shard} panicked and has ended: the clock");
    assert!((0..2).all(|shard| is_logged(&text(shard))));
    let rest = timer.stop().unwrap();
    let returned = rest.iter().map(|it| it.payload);
    assert_eq!(set_of(returned.chain(fired.ids())), accepted);
    assert_eq!((timer.pending(), timer.state()), (0, EngineState::Stopped));
    let again = timer.schedule(far, 1).unwrap_err();
    assert_eq!(*again.kind(), ScheduleErrorKind::Stopped);
    assert_eq!(*failures.lock().unwrap(), 2, "each was told once");
}

/// It has turned well until then: only its end reads the clock.
#[test]
fn a_shard_that_fails_while_it_ends_says_why_once() {
    for drive in DRIVES {
        let (clock, (tell, told)) = (Breakable::default(), channel());
        let builder = one_shard()
            .drive(drive)
            .clock(clock.clone())
            .on_worker_failure(move |it| tell.send(it.message.clone()).unwrap());
        let (timer, fired) = recording(builder);
        arm(&timer, HOUR, 1);
        timer.wait_idle();
        clock.set_broken(true);
        let rest = timer.shutdown(Shutdown::FireAll, secs(20)).unwrap();
        assert_eq!((rest.len(), fired.len()), (1, 0), "{drive:?}");
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["the clock".into()]);
        clock.set_broken(false);
        let failure = timer.stats().shards.remove(0).failure;
        assert_eq!(failure.as_deref(), Some("the clock"), "{drive:?}");
    }
}

/// The clock is well again when the shard ends.
#[test]
fn a_shard_that_fails_in_its_turn_fires_nothing_at_its_end() {
    for drive in DRIVES {
        let (clock, (running, runs)) = (Hiccup::default(), channel());
        let (let_go, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        // It is read after the handler.
        let builder = one_shard().on_slow_handler(HOUR, |_| ());
        let timer = builder
            .drive(drive)
            .clock(clock.clone())
            .build_with(move |expired: Expired<u64>| {
                running.send(expired.payload).unwrap();
                let _ = gate.lock().unwrap().recv();
            })
            .unwrap();
        arm(&timer, Duration::ZERO, 0);
        arm(&timer, HOUR, 1);
        let rest = std::thread::scope(|scope| {
            if drive == Drive::Manual {
                scope.spawn(|| assert_eq!(timer.turn(), Err(TurnError::Failed { shard: 0 })));
            }
            assert_eq!(runs.recv_timeout(secs(20)), Ok(0));
            // It asks, and does not wait.
            let asked = timer.shutdown(Shutdown::FireAll, Duration::ZERO);
            assert_eq!(asked, Err(StopError::TimedOut { shards: 1 }));
            clock.0.store(1, Ordering::SeqCst);
            drop(let_go);
            timer.shutdown(Shutdown::FireAll, secs(20)).unwrap()
        });
        let returned: Vec<_> = rest.iter().map(|it| it.payload).collect();
        assert_eq!(
            (returned, runs.try_iter().count()),
            (vec![1], 0),
            "{drive:?}"
        );
    }
}

#[test]
fn a_turn_on_a_broken_clock_ends_in_an_error() {
    const FAILED: TurnError = TurnError::Failed { shard: 0 };
    for drive in DRIVES {
        let clock = Breakable::default();
        let builder = one_shard().drive(drive).clock(clock.clone());
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        let mut driven = (drive == Drive::Workers).then(|| timer.drive_shard(0).unwrap());
        (0..5).for_each(|id| arm(&timer, HOUR, id));
        clock.set_broken(true);
        let [first, second] = [(); 2].map(|()| match &mut driven {
            Some(shard) => shard.turn(Waker::noop()).map(|_| 1),
            None => timer.turn(),
        });
        // By hand the other shards would go on.
        let goes_on = if drive == Drive::Manual {
            Ok(0)
        } else {
            Err(FAILED)
        };
        assert_eq!((first, second), (Err(FAILED), goes_on));
        clock.set_broken(false);
        assert!(drive == Drive::Manual || timer.drive_shard(0).is_err_and(|error| error == FAILED));
        assert!(timer.schedule(HOUR, 7).is_err());
        assert_eq!(timer.stop().unwrap().len(), 5);
        // From then on it is the stop that counts.
        let stopped = match &mut driven {
            Some(shard) => shard.turn(Waker::noop()).map(|_| 1),
            None => timer.turn(),
        };
        assert_eq!(stopped, Err(TurnError::Stopped));
        assert_eq!(timer.drive_shard(0).unwrap_err(), TurnError::Stopped);
        let refused = timer.schedule(HOUR, 7).unwrap_err();
        assert_eq!(*refused.kind(), ScheduleErrorKind::Stopped);
    }
}

/// After its handler the time is read, from which a fixed delay counts the next deadline.
#[test]
fn a_periodic_timer_whose_call_breaks_the_clock_is_returned() {
    for drive in DRIVES {
        let (clock, payload) = (Breakable::default(), Arc::new(()));
        let builder = one_shard().drive(drive).clock(clock.clone());
        let broken = clock.clone();
        let breaks = move |_: Expired<Arc<()>>| broken.set_broken(true);
        let timer = builder.build_with(breaks).unwrap();
        timer
            .schedule_periodic(
                Duration::ZERO,
                Period::fixed_delay(HOUR),
                Arc::clone(&payload),
            )
            .unwrap();
        if drive == Drive::Manual {
            assert_eq!(timer.turn(), Err(TurnError::Failed { shard: 0 }));
        }
        wait_until("its shard has failed", || {
            timer.state() == EngineState::Failed
        });
        clock.set_broken(false);
        assert_eq!((timer.stop().unwrap().len(), timer.pending()), (1, 0));
        assert_eq!(Arc::strong_count(&payload), 1);
    }
}

#[test]
fn a_turn_that_the_clock_breaks_is_over() {
    for drive in DRIVES {
        let clock = Breakable::default();
        let broken = clock.clone();
        // It is read after the handler.
        let builder = one_shard().on_slow_handler(HOUR, |_| ());
        let breaks = move |_: Expired<u64>| broken.set_broken(true);
        let builder = builder.drive(drive).clock(clock.clone());
        let timer = builder.build_with(breaks).unwrap();
        timer.schedule(Duration::ZERO, 0).unwrap();
        if drive == Drive::Manual {
            assert_eq!(timer.turn(), Err(TurnError::Failed { shard: 0 }));
        }
        wait_until("its shard has failed", || {
            timer.state() == EngineState::Failed
        });
        clock.set_broken(false);
        timer.stop().unwrap();
        assert!(!timer.is_turning(0), "{drive:?}");
    }
}

/// A clock that stands, and panics once: at the reading of this number from now, if that is not 0.
#[derive(Clone, Default)]
struct Hiccup(Arc<AtomicUsize>);

impl Clock for Hiccup {
    fn now(&self) -> Time {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        assert!(left != 1, "the clock");
        Time::ZERO
    }
}

#[test]
fn a_shard_that_fails_by_hand_keeps_no_other_from_turning() {
    let (clock, (tell, told)) = (Hiccup::default(), channel());
    let builder = one_shard()
        .on_worker_failure(move |it| tell.send((it.shard, it.message.clone())).unwrap())
        .shards(3)
        .max_pending(3);
    let (timer, fired) = recording(builder.drive(Drive::Manual).clock(clock.clone()));
    (0..3).for_each(|id| _ = spread(&timer, Duration::ZERO, id));
    // Each shard reads it once.
    clock.0.store(2, Ordering::SeqCst);
    assert_eq!(timer.turn(), Err(TurnError::Failed { shard: 1 }));
    assert_eq!(fired.ids(), [0, 2], "in the same turn");
    assert_eq!(told.try_recv(), Ok((1, "the clock".into())));
    let failures = timer.stats().shards.into_iter().map(|it| it.failure);
    let failed: Vec<_> = failures.map(|failure| failure.is_some()).collect();
    assert_eq!(failed, [false, true, false]);
    // The failed shard has given its permit back, and refuses.
    let accepted = (3..10).filter(|id| {
        set_home(&timer, *id as usize % 3);
        timer.schedule(Duration::ZERO, *id).is_ok()
    });
    assert_eq!(accepted.collect::<Vec<_>>(), [3, 5, 6]);
    assert_eq!((timer.turn(), fired.take().len()), (Ok(3), 3));
    set_home(&timer, 1);
    let refused = timer.schedule_periodic(HOUR, rate(HOUR), 9).unwrap_err();
    assert!(matches!(
        refused.kind(),
        ScheduleErrorKind::WorkerFailed { shard: 1, .. }
    ));
    assert_eq!(refused.into_payload(), 9);
    assert_eq!(timer.stop().unwrap()[0].payload, 1);
}

/// A drain reads the clock on the calling thread. One that panics there gives it no time.
#[test]
fn a_drain_ends_at_once_if_the_clock_panics() {
    for drive in [Drive::Workers, Drive::Manual] {
        let clock = Breakable::default();
        let (timer, fired) = recording(one_shard().drive(drive).clock(clock.clone()));
        timer.schedule(HOUR, 1).unwrap();
        clock.set_broken(true);
        let mode = Shutdown::Drain {
            within: Duration::MAX,
        };
        let rest = timer.shutdown(mode, secs(20)).unwrap();
        assert_eq!((rest.len(), fired.len()), (1, 0), "{drive:?}");
    }
}

/// A handle keeps the engine's memory, not the payloads.
#[test]
fn what_a_failed_shard_has_left_is_dropped_with_the_last_timer() {
    let (clock, payload) = (Breakable::default(), Arc::new(()));
    let builder = one_shard().drive(Drive::Manual).clock(clock.clone());
    let timer = builder.build_with(|_: Expired<Arc<()>>| ()).unwrap();
    let held = timer.schedule_handle(HOUR, Arc::clone(&payload)).unwrap();
    clock.set_broken(true);
    assert_eq!(timer.turn(), Err(TurnError::Failed { shard: 0 }));
    assert_eq!(Arc::strong_count(&payload), 2, "a stop would return it");
    drop(timer);
    assert_eq!(
        (Arc::strong_count(&payload), held.is_cancelled()),
        (1, true)
    );
}

/// A handle keeps the engine's memory: one that was never given out keeps nothing.
#[test]
fn a_handle_that_a_failed_shard_refuses_does_not_count() {
    let (clock, probe) = (Breakable::default(), Arc::new(()));
    let kept = Arc::clone(&probe);
    let builder = one_shard().drive(Drive::Manual).clock(clock.clone());
    let builder = builder.on_worker_stop(move |_| _ = &kept);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    // The thread has a block for its messages from here on, so the shard refuses only when the timer is armed.
    arm(&timer, HOUR, 1);
    clock.set_broken(true);
    assert!(timer.turn().is_err());
    clock.set_broken(false);
    for id in 0..10 {
        assert!(timer.schedule_handle(HOUR, id).is_err());
    }
    drop(timer);
    assert_eq!(Arc::strong_count(&probe), 1, "the engine is freed");
}

/// Whoever is told of a failed worker may take its time: nobody is told meanwhile that a timer is accepted.
#[test]
fn a_failed_shard_is_closed_before_its_failure_is_told() {
    for drive in DRIVES {
        let clock = Breakable::default();
        let (told, hears) = channel();
        let (let_go, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let fired = Arc::new(AtomicUsize::new(0));
        let handler_fired = Arc::clone(&fired);
        let timer = one_shard()
            .drive(drive)
            .clock(clock.clone())
            .on_worker_failure(move |_| {
                told.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            })
            .build_with(move |_: Expired<u64>| {
                handler_fired.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        arm(&timer, HOUR, 1);
        let mut accepted = 1;
        clock.set_broken(true);
        std::thread::scope(|scope| {
            if drive == Drive::Manual {
                scope.spawn(|| while timer.turn().is_ok() {});
            } else {
                // As above: it may fire, or be refused.
                accepted += usize::from(timer.schedule(Time::ZERO, 2).is_ok());
            }
            hears.recv_timeout(secs(20)).unwrap();
            clock.set_broken(false);
            let refused = timer
                .schedule(ms(1), 3)
                .map_err(|error| error.kind().clone());
            timer.wait_idle();
            drop(let_go);
            let Err(ScheduleErrorKind::WorkerFailed { shard: 0, message }) = refused else {
                panic!("{drive:?}: {refused:?}");
            };
            assert!(message.contains("the clock"), "{message}");
        });
        let rest = timer.stop().unwrap().len();
        assert_eq!(rest + fired.load(Ordering::Relaxed), accepted, "{drive:?}");
    }
}

/// Ends the process when it is dropped while its thread unwinds.
struct Explosive(u32);

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(
            !std::thread::panicking(),
            "payload {} is dropped by a panic",
            self.0
        );
    }
}

#[test]
fn a_clock_that_breaks_in_the_middle_of_a_turn_costs_none_of_its_timers() {
    for drive in DRIVES {
        let (clock, fired) = (Breakable::default(), Arc::new(AtomicU32::new(0)));
        let (broken, count) = (clock.clone(), Arc::clone(&fired));
        // A watched handler has the clock read once more before each of its calls.
        let timer = one_shard()
            .drive(drive)
            .clock(clock.clone())
            .on_slow_handler(HOUR, |_| ())
            .build_with(move |_: Expired<Explosive>| {
                // The first one waits until all have been scheduled.
                while !broken.is_broken() && drive == Drive::Workers {
                    std::thread::yield_now();
                }
                broken.set_broken(true);
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        (0..500).for_each(|number| arm(&timer, Duration::ZERO, Explosive(number)));
        arm(&timer, HOUR, Explosive(500));
        if drive == Drive::Manual {
            let answer = (0..1000).map(|_| timer.turn()).find(Result::is_err);
            assert_eq!(answer, Some(Err(TurnError::Failed { shard: 0 })));
        } else {
            clock.set_broken(true);
            wait_until("the worker has ended", || {
                timer.state() == EngineState::Failed
            });
        }
        let rest = timer.stop().unwrap();
        let fired = fired.load(Ordering::SeqCst) as usize;
        assert_eq!(fired + rest.len(), 501, "{drive:?}: {fired} fired");
        // A worker may find the clock broken before it begins its first turn.
        assert!(
            fired < 500 && (fired > 0 || drive == Drive::Workers),
            "{fired} fired"
        );
    }
}

/// Stops its engine, if that is still there, when it is dropped or called.
struct Stops {
    timer: Arc<OnceLock<WeakTimer<u64>>>,
    answers: Sender<Result<usize, StopError>>,
}

impl Stops {
    fn stop(&self) {
        let timer = self.timer.get().and_then(WeakTimer::upgrade);
        if let Some(timer) = timer {
            let answer = timer.stop().map(|rest| rest.len());
            self.answers.send(answer).unwrap();
        }
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        self.stop();
    }
}

/// From the failure hook, and from the destructor of the handler that is dropped then.
#[test]
fn a_stop_while_a_shard_ends_by_a_failure_is_told_where_it_is() {
    for (drive, driven) in [
        (Drive::Workers, false),
        (Drive::Workers, true),
        (Drive::Manual, false),
    ] {
        let clock = Breakable::default();
        let (answers, receiver) = channel();
        let cell = Arc::default();
        let [hook, captured] = [(); 2].map(|()| Stops {
            timer: Arc::clone(&cell),
            answers: answers.clone(),
        });
        let timer = one_shard()
            .drive(drive)
            .clock(clock.clone())
            .on_worker_failure(move |_| hook.stop())
            .build_with(move |_: Expired<u64>| assert!(captured.timer.get().is_some()))
            .unwrap();
        assert!(cell.set(timer.downgrade()).is_ok());
        arm(&timer, HOUR, 1);
        let shard = driven.then(|| timer.drive_shard(0).unwrap());
        clock.set_broken(true);
        // On a thread of its own: a call that waits for itself never returns.
        let turning = timer.clone();
        std::thread::spawn(move || match (drive, shard) {
            (Drive::Manual, _) => _ = turning.turn(),
            (_, Some(mut shard)) => _ = shard.turn(Waker::noop()),
            // A point in time: no clock is read for it.
            _ => _ = turning.schedule(Time::ZERO, 2),
        });
        for place in ["the hook", "the handler's destructor"] {
            let answer = receiver.recv_timeout(secs(20));
            assert_eq!(
                answer,
                Ok(Err(StopError::InsideHandler)),
                "{place}, {drive:?}, {driven}"
            );
        }
        clock.set_broken(false);
        assert!(timer.stop().is_ok());
    }
}

/// A clock that stands, and while it is broken panics with a value whose destructor stops the engine.
#[derive(Clone)]
struct Bitter {
    is_broken: Arc<AtomicBool>,
    timer: Arc<OnceLock<WeakTimer<u64>>>,
    answers: Sender<Result<usize, StopError>>,
}

impl Clock for Bitter {
    fn now(&self) -> Time {
        if self.is_broken.load(Ordering::SeqCst) {
            std::panic::panic_any(Stops {
                timer: Arc::clone(&self.timer),
                answers: self.answers.clone(),
            });
        }
        Time::ZERO
    }
}

#[test]
fn a_stop_from_what_a_clock_has_panicked_with_is_told_where_it_is() {
    type Turn = fn(Timer<u64>);
    let cases: [(Drive, Turn); 4] = [
        // A point in time: no clock is read for it.
        (Drive::Workers, |it| _ = it.schedule(Time::ZERO, 2)),
        (Drive::Workers, |it| {
            _ = it.drive_shard(0).map(|mut shard| shard.turn(Waker::noop()));
        }),
        (Drive::Manual, |it| _ = it.turn()),
        (Drive::Manual, |it| {
            _ = it.shutdown(Shutdown::FireAll, Duration::MAX);
        }),
    ];
    for (number, (drive, turn)) in cases.into_iter().enumerate() {
        let (answers, receiver) = channel();
        let clock = Bitter {
            is_broken: Arc::default(),
            timer: Arc::default(),
            answers,
        };
        let timer = one_shard()
            .drive(drive)
            .clock(clock.clone())
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        assert!(clock.timer.set(timer.downgrade()).is_ok());
        clock.is_broken.store(true, Ordering::SeqCst);
        // On a thread of its own: a call that waits for itself never returns.
        let turning = timer.clone();
        std::thread::spawn(move || turn(turning));
        let answer = receiver.recv_timeout(secs(20));
        assert_eq!(
            answer,
            Ok(Err(StopError::InsideHandler)),
            "case {number}, {drive:?}"
        );
        clock.is_broken.store(false, Ordering::SeqCst);
        assert!(timer.stop().is_ok());
    }
}

/// However its shard ends, a worker that has told of its start tells of its end, once.
#[test]
fn each_start_of_a_worker_has_its_end() {
    let by_stop = |timer: &Timer<u64>, _: &Breakable| _ = timer.stop().unwrap();
    let by_clock = |timer: &Timer<u64>, clock: &Breakable| {
        clock.set_broken(true);
        let _ = timer.schedule(Time::ZERO, 1);
        wait_until("it has failed", || timer.state() == EngineState::Failed);
    };
    let by_driver = |timer: &Timer<u64>, clock: &Breakable| {
        let mut shard = timer.drive_shard(0).unwrap();
        clock.set_broken(true);
        shard.turn(Waker::noop()).unwrap_err();
    };
    let driven_till_the_stop = |timer: &Timer<u64>, _: &Breakable| {
        let shard = timer.drive_shard(0).unwrap();
        timer.stop().unwrap();
        drop(shard);
    };
    type End = fn(&Timer<u64>, &Breakable);
    let ends: [End; 4] = [by_stop, by_clock, by_driver, driven_till_the_stop];
    for (nth, end) in ends.into_iter().enumerate() {
        let (clock, told) = (
            Breakable::default(),
            Arc::new([const { AtomicU32::new(0) }; 2]),
        );
        let tell = |which: usize| {
            let told = Arc::clone(&told);
            move |_| _ = told[which].fetch_add(1, Ordering::SeqCst)
        };
        let timer = one_shard()
            .clock(clock.clone())
            .on_worker_start(tell(0))
            .on_worker_stop(tell(1))
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        timer.start().unwrap();
        timer.wait_idle();
        end(&timer, &clock);
        clock.set_broken(false);
        let counts = || told.each_ref().map(|it| it.load(Ordering::SeqCst));
        wait_until("it has told", || counts() == [1, 1]);
        timer.stop().unwrap();
        drop(timer);
        assert_eq!(counts(), [1, 1], "way {nth}");
    }
}
