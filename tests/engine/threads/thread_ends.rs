//! Threads that end: with nodes in their caches, handles in their thread-locals, an engine in their hands.

use crate::support::ledger::{Ledger, Payload};
use crate::support::setup::{Fired, HOUR, ms, one_shard, recording, stress, wait_until};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tickwheel::{Expired, Key, ScheduleErrorKind, Timer, TimerHandle};

/// One generation of four threads; each schedules 50 timers, cancels half, and dies.
fn generation(timer: &Timer<u64>, number: u64) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let keys: Vec<Key<u64>> = (0..50)
                    .map(|n| {
                        let delay = if n % 2 == 0 { HOUR } else { Duration::ZERO };
                        timer.schedule_key(delay, (number * 4 + thread) * 50 + n).unwrap()
                    })
                    .collect();
                assert!(keys.into_iter().step_by(2).all(|key| timer.cancel(key).won()));
            });
        }
    });
}

/// Bytes that the engine holds once it is idle.
fn held(timer: &Timer<u64>, fired: &Fired) -> u64 {
    // A timer that stays, and one that fires, make the worker publish what it holds.
    let before = fired.len();
    timer.schedule(HOUR, u64::MAX).unwrap();
    timer.schedule(Duration::ZERO, u64::MAX).unwrap();
    wait_until("the inbox is read", || fired.len() > before);
    wait_until("all have fired", || timer.stats().scheduled() == pending_or_ended(timer));
    timer.wait_idle();
    let held = timer.stats().shards[0].held_bytes;
    assert!(held > 0);
    held
}

/// Timers that have ended, and the hour-long ones of [`held`].
fn pending_or_ended(timer: &Timer<u64>) -> u64 {
    let stats = timer.stats();
    let far = if stats.pending <= 2 { stats.pending } else { 0 };
    stats.fired() + stats.cancelled() + far
}

/// What threads have got back under `max_pending` is there for others, whether they live on or not.
#[test]
fn permits_of_idle_and_ended_threads_are_there_for_others() {
    const LIMIT: usize = 2_000;
    let timer = one_shard().max_pending(LIMIT).build_with(|_: Expired<u64>| ()).unwrap();
    let (idle, is_idle) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let churn = |timer: &Timer<u64>| {
        let keys: Vec<_> = (0..200).map(|n| timer.schedule_key(HOUR, n).unwrap()).collect();
        assert!(keys.into_iter().all(|key| timer.cancel(key).won()));
    };
    std::thread::scope(|scope| {
        let firing = scope.spawn(|| {
            // Timers that fire give theirs to the owner.
            (0..200).for_each(|n| _ = timer.schedule_key(Duration::ZERO, n).unwrap());
        });
        firing.join().unwrap();
        scope.spawn(|| churn(&timer)).join().unwrap();
        let timer = &timer;
        scope.spawn(move || {
            churn(timer);
            idle.send(()).unwrap();
            may_go_on.recv().unwrap();
            let error = timer.schedule_key(HOUR, 0).unwrap_err();
            let kind = ScheduleErrorKind::TooManyPending { pending: LIMIT, max_pending: LIMIT };
            assert_eq!(error.kind(), &kind);
        });
        is_idle.recv().unwrap();
        wait_until("all have fired", || timer.pending() == 0);
        timer.wait_idle();
        for pending in 0..LIMIT as u64 {
            timer.schedule_key(HOUR, pending).expect("fewer than the limit are pending");
        }
        go_on.send(()).unwrap();
    });
    assert_eq!(timer.stop().unwrap().len(), LIMIT);
}

#[test]
fn thousands_of_short_lived_threads_leak_no_node() {
    let generations = stress(1_000);
    let (timer, fired) = recording(one_shard());
    let mut held_half_way = 0;
    for number in 0..generations {
        generation(&timer, number);
        if number == generations / 2 {
            held_half_way = held(&timer, &fired);
        }
    }
    let held_at_the_end = held(&timer, &fired);
    assert_eq!(fired.len() as u64, generations * 100 + 2);
    // A node lost per timer would be so much; how many are in use at once is up to the scheduler.
    let lost = generations / 2 * 100 * 32;
    assert!(
        held_at_the_end <= held_half_way + lost / 2,
        "{held_half_way} bytes after half of the threads, {held_at_the_end} after all"
    );
    timer.stop().unwrap();
}

#[test]
fn every_timer_of_a_dying_thread_ends_once() {
    const THREADS: u64 = 300;
    let ledger = Ledger::all_begun(THREADS * 20);
    let fires = Arc::clone(&ledger);
    let timer =
        one_shard().build_with(move |expired: Expired<u64>| fires.fired(expired.payload)).unwrap();
    for thread in 0..THREADS {
        let (timer, ledger) = (timer.clone(), Arc::clone(&ledger));
        // Not joined here: the next one starts while this one ends.
        let handle = std::thread::spawn(move || {
            for n in 0..20 {
                let id = thread * 20 + n;
                let timeout = timer.schedule(Duration::from_micros(n * 100), id).unwrap();
                if n % 3 == 0 {
                    timeout.cancel().into_payload().into_iter().for_each(|id| ledger.cancelled(id));
                }
            }
        });
        if thread % 8 == 7 {
            handle.join().unwrap();
        }
    }
    wait_until("all timers are scheduled", || timer.stats().scheduled() == THREADS * 20);
    wait_until("none is pending", || timer.pending() == 0);
    timer.wait_idle();
    let ends = ledger.check();
    assert!(ends.fired > 0 && ends.cancelled > 0);
    timer.stop().unwrap();
}

/// Cancels every second timeout it holds and drops the others, when its thread ends.
struct AtThreadEnd {
    timeouts: Vec<TimerHandle<u64>>,
    timer: Option<Timer<u64>>,
    ledger: Option<Arc<Ledger>>,
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let Some((timer, ledger)) = self.timer.take().zip(self.ledger.take()) else { return };
        for (n, timeout) in self.timeouts.drain(..).enumerate() {
            match n % 4 {
                0 => {
                    timeout.cancel().into_payload().into_iter().for_each(|id| ledger.cancelled(id))
                }
                1 => timer.cancel(timeout.detach()).into_payload().into_iter().for_each(|id| {
                    ledger.cancelled(id);
                    // A destructor may even schedule.
                    timer.schedule_key(Duration::ZERO, id + 1_000_000).unwrap();
                }),
                2 => assert!(timeout.reschedule(Duration::ZERO).moved()),
                _ => drop(timeout),
            }
        }
    }
}

thread_local! {
    static HELD: RefCell<AtThreadEnd> =
        const { RefCell::new(AtThreadEnd { timeouts: Vec::new(), timer: None, ledger: None }) };
}

#[test]
fn thread_local_destructors_may_use_the_engine() {
    const EACH: u64 = 40;
    let threads = stress(100);
    let ledger = Ledger::all_begun(threads * EACH);
    let fires = Arc::clone(&ledger);
    let rescheduled = Arc::new(AtomicU32::new(0));
    let late = Arc::clone(&rescheduled);
    let timer = one_shard()
        .build_with(move |expired: Expired<u64>| match expired.payload.checked_sub(1_000_000) {
            Some(_) => {
                late.fetch_add(1, Ordering::SeqCst);
            }
            None => fires.fired(expired.payload),
        })
        .unwrap();
    for thread in 0..threads {
        let (timer, ledger) = (timer.clone(), Arc::clone(&ledger));
        std::thread::spawn(move || {
            if thread % 2 == 0 {
                // The engine's own thread-locals come first, so they are gone when the destructor runs,
                // or the other way round: either order has to work.
                assert!(timer.cancel(timer.schedule_key(HOUR, 0).unwrap()).won());
            }
            HELD.with_borrow_mut(|held| {
                held.timeouts =
                    (0..EACH).map(|n| timer.schedule(HOUR, thread * EACH + n).unwrap()).collect();
                held.timer = Some(timer.clone());
                held.ledger = Some(ledger);
            });
        })
        .join()
        .unwrap();
    }
    let quarter = (threads * EACH / 4) as usize;
    wait_until("the moved ones have fired", || timer.pending() == quarter);
    timer.wait_idle();
    assert_eq!(rescheduled.load(Ordering::SeqCst) as usize, quarter);
    for unfired in timer.stop().unwrap() {
        ledger.returned(unfired.payload);
    }
    let ends = ledger.check();
    assert_eq!((ends.fired, ends.cancelled), (threads * EACH / 4, threads * EACH / 2));
}

#[test]
fn a_thread_local_may_hold_the_last_handle() {
    thread_local!(static LAST: RefCell<Option<Timer<Payload>>> = const { RefCell::new(None) });
    for round in 0..stress(40) {
        let ledger = Ledger::of_payloads();
        let payload = ledger.payload(round);
        std::thread::spawn(move || {
            if round % 2 == 0 {
                LAST.with_borrow(|last| assert!(last.is_none()));
            }
            let timer = one_shard().build_with(|_: Expired<Payload>| ()).unwrap();
            timer.schedule_key(HOUR, payload).unwrap();
            LAST.set(Some(timer));
        })
        .join()
        .unwrap();
        // A thread's destructors may still run when `join` returns.
        wait_until("the payload is dropped", || ledger.alive() == 0);
    }
}

#[test]
fn many_threads_at_once_share_an_engine() {
    const THREADS: u64 = 100;
    let (timer, fired) = recording(one_shard().shards(2));
    // All of them live at once, or they would inherit each other's numbers and with them the shard.
    let all_live = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (timer, all_live) = (&timer, &all_live);
            scope.spawn(move || {
                all_live.wait();
                for n in 0..50 {
                    timer.schedule_key(ms(n % 5), thread * 50 + n).unwrap();
                }
                all_live.wait();
            });
        }
    });
    wait_until("all have fired", || fired.len() as u64 == THREADS * 50);
    let stats = timer.stats();
    assert!(stats.shards.iter().all(|shard| shard.fired > 0), "both shards are used");
    assert!(timer.stop().unwrap().is_empty());
}
