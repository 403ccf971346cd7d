//! How engines end: modes, time limits, and drops that wait for nobody.

use crate::support::breakable::Breakable;
use crate::support::setup::{
    HOUR, ms, recording, reflexive, secs, set_of, sorted, spread, stress, wait_until,
};
use crate::{DRIVES, arm, one_shard};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    Budget, Drive, EngineState, Expired, IdleStrategy, ManualClock, MissedTicks, Period,
    ScheduleErrorKind, Shutdown, StartError, StopError, Time, Timer, WeakTimer,
};

/// An engine whose handler waits until it is let go, once it has said that it runs.
fn blocked() -> (Timer<u64>, std::sync::mpsc::Sender<()>) {
    let (let_go, gate) = channel::<()>();
    let (running, runs) = channel::<()>();
    let gate = Mutex::new(gate);
    let timer = one_shard()
        .build_with(move |_: Expired<u64>| {
            running.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        })
        .unwrap();
    timer.schedule(Duration::ZERO, 0).unwrap();
    runs.recv_timeout(secs(20)).unwrap();
    (timer, let_go)
}

/// Told when another thread, which waits from now on, has found the engine idle.
fn waits_until_idle(timer: &Timer<u64>) -> Receiver<()> {
    let (done, idle) = channel();
    let waiting = timer.clone();
    std::thread::spawn(move || {
        waiting.wait_idle();
        let _ = done.send(());
    });
    idle
}

#[test]
fn dropping_the_last_handle_does_not_wait_for_a_handler() {
    let (timer, let_go) = blocked();
    timer.schedule(HOUR, 1).unwrap();
    // The handler is let go only after the drop: a drop that waits hangs.
    let (done, dropped) = channel();
    std::thread::spawn(move || {
        drop(timer);
        done.send(()).unwrap();
    });
    dropped
        .recv_timeout(secs(20))
        .expect("the drop has not returned");
    drop(let_go);
}

#[test]
fn a_time_limit_is_kept_and_nothing_is_lost_by_it() {
    for mode in [
        Shutdown::ReturnUnfired,
        Shutdown::Drain {
            within: Duration::ZERO,
        },
    ] {
        let (timer, let_go) = blocked();
        (1..=10).for_each(|id| arm(&timer, HOUR, id));
        assert_eq!(
            timer.shutdown(mode, ms(20)),
            Err(StopError::TimedOut { shards: 1 })
        );
        // A call that would let the timers live on changes nothing: the stricter one counts.
        let milder = Shutdown::Drain {
            within: Duration::MAX,
        };
        assert_eq!(
            timer.shutdown(milder, ms(1)),
            Err(StopError::TimedOut { shards: 1 })
        );
        let refused = timer.schedule(HOUR, 99).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.payload()),
            (&ScheduleErrorKind::Stopped, &99)
        );
        drop(let_go);
        let rest = timer.shutdown(milder, secs(20)).unwrap();
        assert_eq!(set_of(rest.iter().map(|it| it.payload)), (1..=10).collect());
        assert!(timer.stop().unwrap().is_empty());
    }
}

#[test]
fn fire_all_fires_in_the_order_of_deadlines_and_refuses_what_comes() {
    for drive in DRIVES {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let clock = ManualClock::new();
        let builder = one_shard().drive(drive).clock(clock);
        let timer = reflexive(builder, move |timer: &Timer<u64>, expired| {
            let refused = timer.schedule(HOUR, 1).unwrap_err();
            assert_eq!(*refused.kind(), ScheduleErrorKind::Stopped);
            assert_eq!(expired.lateness, Duration::ZERO);
            log.lock().unwrap().push(expired.payload);
        });
        // None is due already: a worker might call it before the end begins.
        let delays = [ms(30), HOUR, ms(20), Duration::MAX, 1000 * HOUR, ms(1)];
        for (id, delay) in delays.into_iter().enumerate() {
            timer.schedule(delay, id as u64).unwrap();
        }
        let moved = timer.schedule(ms(1), 6).unwrap();
        assert!(timer.reschedule(moved, 2 * HOUR).is_moved());
        let cancelled = timer.schedule(ms(5), 7).unwrap();
        assert!(timer.cancel(cancelled).is_won());
        let rest = timer.shutdown(Shutdown::FireAll, Duration::MAX).unwrap();
        assert!(rest.is_empty(), "{rest:?}");
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        // The one that was pushed out was so before any turn had seen it.
        assert_eq!(seen, [5, 2, 0, 1, 6, 4, 3]);
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.cancelled, stats.returned), (7, 1, 0));
        assert_eq!((timer.pending(), timer.state()), (0, EngineState::Stopped));
    }
}

#[test]
fn an_end_that_fires_does_so_on_every_shard() {
    let modes = [
        Shutdown::FireAll,
        Shutdown::Drain {
            within: Duration::MAX,
        },
    ];
    for drive in DRIVES {
        for mode in modes {
            let clock = ManualClock::new();
            let builder = one_shard().shards(3).drive(drive).clock(clock.clone());
            let (timer, fired) = recording(builder);
            (0..300).for_each(|id| _ = spread(&timer, HOUR * (1 + id as u32 % 50), id));
            // A drain by hand fires what is due.
            if mode != Shutdown::FireAll {
                clock.advance(50 * HOUR);
            }
            assert_eq!(timer.shutdown(mode, secs(20)), Ok(vec![]));
            assert_eq!(set_of(fired.ids()), (0..300).collect());
        }
    }
}

#[test]
fn fire_all_fires_a_periodic_timer_once_however_it_is_moved() {
    for drive in DRIVES {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let moving = Arc::clone(&keys);
        let budget = Budget::new().drain(1).fire(1).sweep(1);
        let builder = one_shard()
            .drive(drive)
            .clock(ManualClock::new())
            .budget(budget);
        let timer = reflexive(builder, move |timer: &Timer<u64>, expired| {
            for key in moving.lock().unwrap().iter() {
                let to = [ms(1), HOUR][expired.payload as usize % 2];
                assert!(timer.reschedule(*key, to).is_moved());
            }
        });
        for id in 0..20 {
            let every = Period::fixed_rate(ms(10), MissedTicks::Burst);
            keys.lock()
                .unwrap()
                .push(timer.schedule_periodic(ms(10), every, id).unwrap());
        }
        let rest = timer.shutdown(Shutdown::FireAll, secs(20)).unwrap();
        assert_eq!((timer.stats().fired, rest.len()), (20, 20), "{drive:?}");
    }
}

/// That period is due at the last tick, and so are all timers then.
#[test]
fn fire_all_fires_a_periodic_timer_once_though_its_next_period_never_comes() {
    let never = [
        Period::fixed_rate(Duration::MAX, MissedTicks::Skip),
        Period::fixed_delay(Duration::MAX),
    ];
    for (drive, period) in DRIVES
        .into_iter()
        .flat_map(|drive| never.map(|it| (drive, it)))
    {
        let (timer, fired) = recording(one_shard().drive(drive));
        timer.schedule_periodic(HOUR, period, 1).unwrap();
        timer.schedule_periodic(Time::MAX, period, 2).unwrap();
        arm(&timer, 2 * HOUR, 3);
        let ending = timer.clone();
        let end = std::thread::spawn(move || ending.shutdown(Shutdown::FireAll, Duration::MAX));
        wait_until("all have fired", || fired.len() >= 3);
        std::thread::sleep(ms(20));
        // A shutdown that fires for ever ends with this.
        timer.stop().unwrap();
        assert_eq!(fired.ids(), [1, 3, 2], "{drive:?}, {period:?}");
        end.join().unwrap().unwrap();
    }
}

#[test]
fn a_drain_fires_what_is_due_until_its_time_and_returns_the_rest() {
    let (timer, fired) = recording(one_shard());
    for (id, delay) in [ms(20), ms(40), HOUR].into_iter().enumerate() {
        timer.schedule(delay, id as u64).unwrap();
    }
    let (begun, within) = (timer.now(), ms(300));
    let rest = timer
        .shutdown(Shutdown::Drain { within }, Duration::MAX)
        .unwrap();
    assert_eq!(rest.iter().map(|it| it.payload).collect::<Vec<_>>(), [2]);
    assert!(timer.now() >= begun + within);
    assert_eq!(sorted(fired.ids()), [0, 1]);
}

#[test]
fn a_drain_ends_with_its_last_timer() {
    for idle in [IdleStrategy::Park].into_iter().chain(SPINNING) {
        let (timer, fired) = recording(one_shard().shards(2).idle(idle));
        spread(&timer, ms(30), 1);
        let far = spread(&timer, HOUR, 2);
        let mode = Shutdown::Drain { within: HOUR };
        // The shard of the far timer cannot be done; the other one may be.
        let cut_short = timer.shutdown(mode, ms(1));
        assert!(
            matches!(cut_short, Err(StopError::TimedOut { shards: 1 | 2 })),
            "{cut_short:?}"
        );
        assert_eq!(timer.state(), EngineState::Draining);
        // Nobody wakes the worker for a cancel; the drain notices all the same.
        assert!(timer.cancel(far).is_won());
        assert_eq!(timer.shutdown(mode, secs(20)), Ok(vec![]));
        assert_eq!(fired.ids(), [1]);
    }
}

/// A cancel tells no worker, and the clock stands.
#[test]
fn a_drain_ends_with_its_last_timer_though_the_clock_stands() {
    for idle in [IdleStrategy::Park].into_iter().chain(SPINNING) {
        let builder = one_shard().idle(idle).clock(Breakable::default());
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        let far = timer.schedule(HOUR, 2).unwrap();
        let mode = Shutdown::Drain {
            within: Duration::MAX,
        };
        let cut_short = timer.shutdown(mode, ms(50));
        assert_eq!(cut_short, Err(StopError::TimedOut { shards: 1 }));
        assert!(timer.cancel(far).is_won());
        let ended = timer.shutdown(mode, secs(20));
        timer.stop().unwrap();
        assert_eq!(ended, Ok(vec![]), "{idle:?}");
    }
}

#[test]
fn a_stop_cuts_a_drain_short() {
    let (timer, _fired) = recording(one_shard());
    timer.schedule(HOUR, 1).unwrap();
    let drained = std::thread::scope(|scope| {
        let drain = scope.spawn(|| {
            timer.shutdown(
                Shutdown::Drain {
                    within: Duration::MAX,
                },
                secs(60),
            )
        });
        wait_until("it drains", || timer.state() == EngineState::Draining);
        let stopped = timer.stop().unwrap();
        (drain.join().unwrap().unwrap(), stopped)
    });
    assert_eq!(
        drained.0.len() + drained.1.len(),
        1,
        "each timer is returned by one of them"
    );
}

#[test]
fn an_engine_turned_by_hand_drains_what_is_due() {
    let clock = ManualClock::new();
    let (timer, fired) = recording(one_shard().drive(Drive::Manual).clock(clock.clone()));
    (0..10).for_each(|id| arm(&timer, ms(id), id));
    clock.advance(ms(4));
    let mode = Shutdown::Drain {
        within: Duration::MAX,
    };
    let rest = timer.shutdown(mode, Duration::MAX).unwrap();
    assert_eq!(sorted(fired.ids()), (0..=4).collect::<Vec<_>>());
    assert_eq!(
        sorted(rest.iter().map(|it| it.payload)),
        (5..10).collect::<Vec<_>>()
    );
}

/// Two ways to repeat, and each with its next call soon and far away.
fn periods() -> [(Duration, Period); 4] {
    let rate = |every| Period::fixed_rate(every, MissedTicks::Burst);
    let delay = |pause| Period::fixed_delay(pause);
    [
        (Duration::ZERO, rate(ms(1))),
        (HOUR, rate(HOUR)),
        (ms(1), delay(ms(1))),
        (HOUR, delay(ms(1))),
    ]
}

/// However the shard is turned, beside timers that fire once.
#[test]
fn a_drain_waits_for_no_periodic_timer() {
    let by_driver = |timer: &Timer<u64>| timer.drive_shard(0).ok();
    let by_worker = |_: &Timer<u64>| None;
    type Driver = fn(&Timer<u64>) -> Option<tickwheel::DrivenShard<u64>>;
    let ways: [(Drive, Driver); 3] = [
        (Drive::Workers, by_worker),
        (Drive::Workers, by_driver),
        (Drive::Manual, by_worker),
    ];
    for (way, (drive, driver)) in ways.into_iter().enumerate() {
        for once in [0, 3] {
            let (timer, fired) = recording(one_shard().drive(drive).max_pending(100));
            let driven = driver(&timer);
            for (id, (first, period)) in periods().into_iter().enumerate() {
                timer
                    .schedule_periodic(first, period, 100 + id as u64)
                    .unwrap();
            }
            (0..once).for_each(|id| arm(&timer, ms(id * 20), id));
            if drive == Drive::Manual {
                std::thread::sleep(ms(60));
            }
            let mode = Shutdown::Drain {
                within: Duration::MAX,
            };
            let rest = timer.shutdown(mode, secs(20)).unwrap();
            let returned = sorted(rest.iter().map(|it| it.payload));
            assert_eq!(returned, [100, 101, 102, 103], "way {way}");
            let ids = fired.ids();
            let fired_once = ids.iter().filter(|id| **id < 100).copied();
            assert_eq!(sorted(fired_once), (0..once).collect::<Vec<_>>());
            assert!(!ids.contains(&101) && !ids.contains(&103), "{ids:?}");
            let shard = timer.stats().shards.remove(0);
            assert_eq!((shard.returned, shard.pending), (4, 0));
            assert_eq!(shard.scheduled, shard.fired + shard.returned);
            drop(driven);
        }
    }
}

/// Beside a timer that fires once, after many periods: by hand at the moment of the call, on a worker while time goes by.
#[test]
fn a_drain_calls_no_periodic_timer() {
    for drive in DRIVES {
        let clock = ManualClock::new();
        let (timer, fired) = recording(one_shard().drive(drive).clock(clock.clone()));
        let period = Period::fixed_rate(ms(1), MissedTicks::Burst);
        timer.schedule_periodic(ms(1), period, 1).unwrap();
        arm(&timer, HOUR, 2);
        let mode = Shutdown::Drain {
            within: Duration::MAX,
        };
        if drive == Drive::Workers {
            let cut_short = timer.shutdown(mode, Duration::ZERO);
            assert_eq!(cut_short, Err(StopError::TimedOut { shards: 1 }));
        }
        clock.advance(HOUR);
        let rest = timer.shutdown(mode, secs(20)).unwrap();
        assert_eq!(
            (fired.ids(), rest.len(), rest[0].payload),
            (vec![2], 1, 1),
            "{drive:?}"
        );
    }
}

/// The call that runs is the last one. A cancel that comes meanwhile is as good as ever.
#[test]
fn a_drain_lets_the_call_of_a_periodic_timer_end() {
    for cancels in [false, true] {
        let (running, runs) = channel();
        let (let_go, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let timer = one_shard()
            .build_with(move |expired: Expired<u64>| {
                running.send(expired.payload).unwrap();
                let _ = gate.lock().unwrap().recv();
            })
            .unwrap();
        let period = Period::fixed_rate(ms(1), MissedTicks::Burst);
        let key = timer.schedule_periodic(ms(1), period, 7).unwrap();
        assert_eq!(runs.recv_timeout(secs(20)), Ok(7));
        let mode = Shutdown::Drain {
            within: Duration::MAX,
        };
        let cut_short = timer.shutdown(mode, ms(20));
        assert_eq!(cut_short, Err(StopError::TimedOut { shards: 1 }));
        let won = cancels && timer.cancel(key).is_won();
        drop(let_go);
        let rest = timer.shutdown(mode, secs(20)).unwrap();
        assert_eq!(won, cancels);
        assert_eq!(rest.len(), usize::from(!cancels));
        assert_eq!(runs.try_iter().count(), 0, "no further call");
        assert_eq!(timer.pending(), 0);
    }
}

/// Threads go on scheduling until they are refused: what each of them was granted is fired or returned.
#[test]
fn periodic_timers_that_are_scheduled_beside_a_drain_do_not_keep_it_open() {
    for _ in 0..stress(20) {
        let timer = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
        let (rest, accepted) = std::thread::scope(|scope| {
            let schedule = || {
                let period = Period::fixed_rate(ms(2), MissedTicks::Skip);
                let granted = |n: &u64| timer.schedule_periodic(ms(2), period, *n).is_ok();
                (0..100_000).take_while(granted).count()
            };
            let threads = [(); 2].map(|()| scope.spawn(schedule));
            wait_until("some are pending", || timer.pending() > 50);
            let mode = Shutdown::Drain {
                within: Duration::MAX,
            };
            let rest = timer.shutdown(mode, secs(60)).unwrap();
            (rest, threads.map(|thread| thread.join().unwrap()))
        });
        assert_eq!(rest.len(), accepted.iter().sum::<usize>());
    }
}

/// The stricter of the two modes counts, also for a shard that is at its end already.
#[test]
fn a_drain_by_hand_fires_the_rest_if_all_is_to_fire_meanwhile() {
    let (running, runs) = channel();
    let (let_go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let builder = one_shard().drive(Drive::Manual);
    let timer = builder
        .build_with(move |expired: Expired<u64>| {
            running.send(expired.payload).unwrap();
            let _ = gate.lock().unwrap().recv();
        })
        .unwrap();
    arm(&timer, Duration::ZERO, 0);
    arm(&timer, HOUR, 1);
    let mode = Shutdown::Drain {
        within: Duration::MAX,
    };
    let rest = std::thread::scope(|scope| {
        let drain = scope.spawn(|| timer.shutdown(mode, Duration::MAX).unwrap());
        assert_eq!(runs.recv_timeout(secs(20)), Ok(0));
        // It asks, and does not wait.
        let asked = timer.shutdown(Shutdown::FireAll, Duration::ZERO);
        assert_eq!(asked, Err(StopError::TimedOut { shards: 1 }));
        drop(let_go);
        drain.join().unwrap()
    });
    assert_eq!((rest, runs.try_iter().collect()), (vec![], vec![1]));
}

/// A stop waits for the handler that runs, not for all that is due.
#[test]
fn a_stop_does_not_wait_for_a_long_turn() {
    let (timer, let_go) = blocked();
    // All due in the turn that is under way or in the next one.
    (1..=1000).for_each(|id| arm(&timer, Duration::ZERO, id));
    let rest = std::thread::scope(|scope| {
        let stop = scope.spawn(|| timer.stop().unwrap());
        wait_until("it stops", || timer.is_stopped());
        // For one more handler call than the one that runs.
        let_go.send(()).unwrap();
        stop.join().unwrap()
    });
    assert_eq!(rest.len(), 1000);
}

const SPINNING: [IdleStrategy; 2] = [
    IdleStrategy::BusySpin,
    IdleStrategy::SpinThenPark { spin: HOUR },
];

#[test]
fn waiting_for_a_spinning_engine_to_be_idle_ends() {
    for idle in SPINNING {
        let (timer, fired) = recording(one_shard().shards(2).idle(idle));
        arm(&timer, HOUR, 0);
        for round in 1..=50 {
            (0..4).for_each(|id| _ = spread(&timer, Duration::ZERO, round * 4 + id));
            waits_until_idle(&timer)
                .recv_timeout(secs(20))
                .expect("it is idle");
            assert_eq!(fired.take().len(), 4, "all handlers have returned");
        }
        timer.stop().unwrap();
    }
}

#[test]
fn an_engine_that_has_ended_its_drain_is_stopped() {
    for (drive, starts) in DRIVES
        .into_iter()
        .flat_map(|drive| [(drive, true), (drive, false)])
    {
        let (timer, _fired) = recording(one_shard().shards(2).drive(drive));
        if starts {
            arm(&timer, HOUR, 1);
        }
        let mode = Shutdown::Drain {
            within: Duration::ZERO,
        };
        assert_eq!(
            timer.shutdown(mode, secs(20)).unwrap().len(),
            usize::from(starts)
        );
        assert_eq!(
            (timer.state(), timer.is_stopped()),
            (EngineState::Stopped, true),
            "{drive:?}"
        );
        waits_until_idle(&timer)
            .recv_timeout(secs(20))
            .expect("it is idle");
        let refused = timer.schedule(HOUR, 2).unwrap_err();
        assert_eq!(*refused.kind(), ScheduleErrorKind::Stopped);
        assert_eq!(timer.start(), Err(StartError::Stopped));
        for mode in [mode, Shutdown::FireAll, Shutdown::ReturnUnfired] {
            assert_eq!(timer.shutdown(mode, secs(20)), Ok(vec![]));
            assert!(timer.is_stopped());
        }
    }
}

#[test]
fn waiting_for_an_engine_that_drains_ends_when_its_handlers_have_returned() {
    for mode in [
        Shutdown::Drain {
            within: Duration::MAX,
        },
        Shutdown::FireAll,
    ] {
        let (timer, let_go) = blocked();
        let idle = waits_until_idle(&timer);
        assert_eq!(
            timer.shutdown(mode, ms(20)),
            Err(StopError::TimedOut { shards: 1 })
        );
        assert_eq!(
            (timer.state(), timer.is_stopped()),
            (EngineState::Draining, false)
        );
        let idle_later = waits_until_idle(&timer);
        assert!(idle_later.recv_timeout(ms(20)).is_err() && idle.try_recv().is_err());
        drop(let_go);
        for idle in [idle, idle_later] {
            idle.recv_timeout(secs(20)).expect("it is idle");
        }
        assert_eq!(timer.shutdown(mode, secs(20)), Ok(vec![]));
        assert!(timer.is_stopped());
    }
}

#[test]
fn a_shard_that_has_ended_its_drain_is_idle_beside_one_that_has_not() {
    let (timer, _fired) = recording(one_shard().shards(2));
    arm(&timer, HOUR, 1);
    let mode = Shutdown::Drain {
        within: Duration::MAX,
    };
    wait_until("one shard is left", || {
        timer.shutdown(mode, ms(1)) == Err(StopError::TimedOut { shards: 1 })
    });
    assert_eq!(timer.state(), EngineState::Draining);
    waits_until_idle(&timer)
        .recv_timeout(secs(20))
        .expect("it is idle");
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert!(timer.is_stopped());
}

/// The hook may be what waits for the caller of `wait_idle`.
#[test]
fn a_shard_that_has_ended_is_idle_while_its_workers_hook_runs() {
    for mode in [
        Shutdown::Drain {
            within: Duration::MAX,
        },
        Shutdown::FireAll,
    ] {
        let ((running, runs), (let_go, gate)) = (channel(), channel::<()>());
        let ((hand_in, idle), (say, said)) = (channel::<Receiver<()>>(), channel());
        let (gate, idle) = (Mutex::new(gate), Mutex::new(idle));
        let timer = one_shard()
            .on_worker_stop(move |_| {
                let idle = idle.lock().unwrap().recv_timeout(secs(20)).unwrap();
                say.send(idle.recv_timeout(secs(20))).unwrap();
            })
            .build_with(move |_: Expired<u64>| {
                running.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            })
            .unwrap();
        arm(&timer, Duration::ZERO, 0);
        runs.recv_timeout(secs(20)).unwrap();
        hand_in.send(waits_until_idle(&timer)).unwrap();
        std::thread::sleep(ms(20));
        assert_eq!(
            timer.shutdown(mode, ms(20)),
            Err(StopError::TimedOut { shards: 1 })
        );
        drop(let_go);
        let idle = said.recv_timeout(secs(60)).unwrap();
        assert_eq!(idle, Ok(()), "{mode:?}: it waits for the hook");
        timer.stop().unwrap();
    }
}

/// All three are due in one turn.
#[test]
fn a_stop_waits_for_the_handler_that_runs_and_for_no_other() {
    let ((running, runs), (let_go, gate)) = (channel(), channel::<()>());
    let gate = Mutex::new(gate);
    let timer = one_shard()
        .build_with(move |expired: Expired<u64>| {
            running.send(expired.payload).unwrap();
            let _ = gate.lock().unwrap().recv();
        })
        .unwrap();
    let due = timer.now() + ms(50);
    for id in 0..3 {
        timer.schedule(due, id).unwrap();
    }
    assert_eq!(runs.recv_timeout(secs(20)), Ok(0));
    assert_eq!(
        timer.shutdown(Shutdown::ReturnUnfired, ms(20)),
        Err(StopError::TimedOut { shards: 1 })
    );
    drop(let_go);
    assert_eq!(timer.stop().unwrap().len(), 2);
    assert!(runs.try_recv().is_err(), "one fired after the stop");
}

/// Its shard has ended, but the worker still calls a hook.
#[test]
fn a_worker_in_its_stop_hook_counts_as_alive() {
    let (let_go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let timer = one_shard()
        .on_worker_stop(move |_| _ = gate.lock().unwrap().recv())
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    timer.start().unwrap();
    let timed_out = Err(StopError::TimedOut { shards: 1 });
    assert_eq!(timer.shutdown(Shutdown::ReturnUnfired, ms(20)), timed_out);
    wait_until("it has stopped", || timer.is_stopped());
    assert_eq!(timer.shutdown(Shutdown::ReturnUnfired, ms(20)), timed_out);
    drop(let_go);
    timer.stop().unwrap();
}

/// The stop waits for the thread that calls the hook.
#[test]
fn a_stop_hook_that_stops_its_engine_is_refused() {
    let (say, said) = channel();
    let (hand_in, engine) = channel::<WeakTimer<u64>>();
    let engine = Mutex::new(engine);
    let timer = one_shard()
        .on_worker_stop(move |_| {
            let timer = engine.lock().unwrap().recv().unwrap().upgrade().unwrap();
            let stopped = timer.shutdown(Shutdown::ReturnUnfired, secs(5));
            say.send(stopped.map(|unfired| unfired.len())).unwrap();
        })
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    hand_in.send(timer.downgrade()).unwrap();
    timer.start().unwrap();
    assert_eq!(timer.stop().unwrap().len(), 0);
    let answer = said.recv_timeout(secs(20)).unwrap();
    assert_eq!(answer, Err(StopError::InsideHandler));
}

thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });

/// Holds its thread's end up until it is let go.
struct Late(Receiver<()>);

impl Drop for Late {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// A shard has ended when its worker has done its part, whatever the handlers have left in that thread.
#[test]
fn the_thread_locals_of_a_worker_are_not_waited_for() {
    let (let_go, gate) = channel();
    let (running, runs) = channel();
    let timer = one_shard().build().unwrap();
    let keep = move || {
        LATE.set(Some(Late(gate)));
        running.send(()).unwrap();
    };
    let _ = timer.run_after(Duration::ZERO, keep).unwrap();
    runs.recv_timeout(secs(20)).unwrap();
    assert!(
        timer
            .shutdown(Shutdown::ReturnUnfired, secs(20))
            .is_ok_and(|rest| rest.is_empty())
    );
    drop(let_go);
}

/// A caller that has waited for the end may then free what the hooks use.
#[test]
fn a_worker_that_has_been_waited_for_keeps_nothing_of_its_engine() {
    for _ in 0..20 {
        let probe = Arc::new(());
        let kept = Arc::clone(&probe);
        let builder = one_shard().on_worker_stop(move |_| _ = &kept);
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        arm(&timer, HOUR, 1);
        assert_eq!(timer.stop().unwrap().len(), 1);
        drop(timer);
        assert_eq!(Arc::strong_count(&probe), 1);
    }
}
