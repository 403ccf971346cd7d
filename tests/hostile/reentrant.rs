//! Calls from where one does not expect them: out of a closure that runs already, out of the end of a thread.

use crate::support::setup::{HOUR, each_setup, ms, rate, reflexive, secs, wait_until};
use crate::{DRIVES, one_shard};
use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{Clock, Drive, MonotonicClock, Shutdown, StopError, Time, Timer, TurnError};

/// Runs `test` on a thread of its own; fails if it does not end.
#[track_caller]
fn must_end(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    assert!(
        ended.recv_timeout(secs(20)).is_ok(),
        "it hangs, or has panicked"
    );
    thread.join().unwrap();
}

#[test]
fn a_repeating_closure_that_cancels_itself_and_runs_itself_by_hand() {
    for drive in DRIVES {
        must_end(move || {
            let timer = one_shard().drive(drive).build().unwrap();
            let ((name, own), (tell, told)) = (channel(), channel());
            let calls = Arc::new(Mutex::new(0));
            let (counted, weak) = (Arc::clone(&calls), timer.downgrade());
            let run = move || {
                *counted.lock().unwrap() += 1;
                let timer = weak.upgrade().expect("the test has it");
                // The closure is at work: once more within itself is nothing.
                timer
                    .cancel(own.recv().unwrap())
                    .into_payload()
                    .expect("it repeats")
                    .run();
                tell.send(()).unwrap();
            };
            let key = timer.repeat(Duration::ZERO, rate(ms(1)), run).unwrap();
            name.send(key).unwrap();
            // At the next tick, with a worker or by hand.
            std::thread::sleep(ms(3));
            let _ = timer.turn();
            told.recv_timeout(secs(10)).unwrap();
            assert_eq!(*calls.lock().unwrap(), 1);
            assert!(timer.stop().unwrap().is_empty());
        });
    }
}

#[test]
fn a_repeating_closure_that_runs_elsewhere_is_not_waited_for() {
    must_end(|| {
        let timer = one_shard().build().unwrap();
        let lock = Arc::new(Mutex::new(0));
        let (inside, (entered, has_entered)) = (Arc::clone(&lock), channel());
        let held = lock.lock().unwrap();
        let run = move || {
            entered.send(()).unwrap();
            *inside.lock().unwrap() += 1;
        };
        let key = timer.repeat(Duration::ZERO, rate(ms(1)), run).unwrap();
        has_entered.recv().unwrap();
        // The worker waits for the lock, and this must not wait for the worker.
        timer.cancel(key).into_payload().expect("it repeats").run();
        drop(held);
        assert!(timer.stop().unwrap().is_empty());
        assert_eq!(*lock.lock().unwrap(), 1);
    });
}

#[test]
fn a_handler_may_neither_stop_nor_turn_its_engine_but_stop_another() {
    let modes = [
        Shutdown::ReturnUnfired,
        Shutdown::Drain {
            within: Duration::ZERO,
        },
        Shutdown::FireAll,
    ];
    each_setup(|at| {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mine = Arc::clone(&answers);
        let (other, _fired) = at.recording();
        other.schedule(HOUR, 1).unwrap();
        let stopped = other.clone();
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, _| {
            timer.wait_idle();
            let stop = |timer: &Timer<u64>| timer.stop().map(|rest| rest.len());
            let ends = modes.map(|mode| timer.shutdown(mode, Duration::ZERO).err());
            let driven = timer.drive_shard(0).err();
            mine.lock()
                .unwrap()
                .push((stop(timer), ends, timer.turn(), driven, stop(&stopped)));
        });
        timer.schedule(Duration::ZERO, 1).unwrap();
        at.wait_idle(&timer);
        let turned = match at.drive {
            Drive::Manual => TurnError::InsideHandler,
            _ => TurnError::DrivenByWorkers,
        };
        let inside = (
            Err(StopError::InsideHandler),
            [Some(StopError::InsideHandler); 3],
            Err(turned),
            Some(TurnError::InsideHandler),
            Ok(1),
        );
        assert_eq!(*answers.lock().unwrap(), [inside]);
        assert!(!timer.is_stopped() && other.is_stopped());
        timer.stop().unwrap();
    });
}

thread_local!(static KEPT: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });

/// Does the rest of a thread's work with an engine while the thread's values are destroyed.
struct AtTheEnd {
    timer: Timer,
    work: fn(&Timer),
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        (self.work)(&self.timer);
    }
}

#[test]
fn the_last_timer_of_an_engine_in_a_thread_local() {
    let works: [fn(&Timer); 3] = [
        |_| (),
        |timer| assert!(timer.stop().is_ok()),
        |timer| {
            assert!(matches!(
                timer.turn(),
                Ok(0) | Err(TurnError::DrivenByWorkers)
            ));
            timer.wait_idle();
        },
    ];
    for work in works {
        for (drive, starts) in [
            (Drive::Manual, true),
            (Drive::Workers, true),
            (Drive::Workers, false),
        ] {
            let payload = Arc::new(());
            let alive = Arc::downgrade(&payload);
            must_end(move || {
                // Used before the engine is, so it is destroyed after all that the engine keeps for this thread.
                KEPT.with_borrow(|kept| assert!(kept.is_none()));
                let timer = one_shard().drive(drive).build().unwrap();
                if starts {
                    let _ = timer.run_after(HOUR, move || drop(payload)).unwrap();
                }
                timer.wait_idle();
                let _ = timer.turn();
                KEPT.set(Some(AtTheEnd { timer, work }));
            });
            wait_until("the payload is dropped", || alive.strong_count() == 0);
        }
    }
}

/// What an engine owns besides its shards goes when its memory does: by a hook or a clock it may own another engine's
/// last `Timer`.
#[test]
fn an_engine_whose_end_is_the_end_of_another() {
    struct Owning(
        #[allow(dead_code, reason = "dropped")] Timer,
        MonotonicClock,
    );
    impl Clock for Owning {
        fn now(&self) -> Time {
            self.1.now()
        }
    }
    for drive in DRIVES {
        for (by_clock, keeps_handle) in [(false, false), (true, false), (false, true), (true, true)]
        {
            must_end(move || {
                let other = || one_shard().drive(drive).build().unwrap();
                let payload = Arc::new(());
                let alive = Arc::downgrade(&payload);
                let owned = other();
                owned.run_after(HOUR, move || drop(payload)).unwrap();
                let builder = one_shard().drive(drive);
                let builder = if by_clock {
                    builder.clock(Owning(owned, MonotonicClock::new()))
                } else {
                    builder.on_panic(move |_| _ = owned.pending())
                };
                let timer = builder.build().unwrap();
                let handle = timer.run_after_handle(HOUR, || ()).unwrap();
                let handle = keeps_handle.then_some(handle);
                timer.stop().unwrap();
                drop(timer);
                drop(handle);
                // Frees what had a handle.
                let is_gone = || {
                    drop(other());
                    alive.strong_count() == 0
                };
                wait_until("the other engine's timer is dropped", is_gone);
            });
        }
    }
}
