//! Threads that end: with nodes in their caches, handles in their thread-locals, an engine in their hands.

use crate::support::ledger::Ledger;
use crate::support::setup::{HOUR, one_shard, recording, stress, wait_until};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tickwheel::{Expired, ScheduleErrorKind, Timer, TimerHandle};

/// Bytes that the engine holds once it is idle.
fn held(timer: &Timer<u64>) -> u64 {
    // A timer that fires makes the worker publish what it holds.
    timer.schedule(Duration::ZERO, u64::MAX).unwrap();
    wait_until("all have fired", || timer.pending() == 0);
    timer.wait_idle();
    timer.stats().shards[0].held_bytes
}

/// What threads have got back under `max_pending` is there for others, whether they live on or not.
#[test]
fn permits_of_idle_and_ended_threads_are_there_for_others() {
    const LIMIT: usize = 2_000;
    let timer = one_shard()
        .max_pending(LIMIT)
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    let (idle, is_idle) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let churn = |timer: &Timer<u64>| {
        let keys: Vec<_> = (0..200).map(|n| timer.schedule(HOUR, n).unwrap()).collect();
        assert!(keys.into_iter().all(|key| timer.cancel(key).is_won()));
    };
    std::thread::scope(|scope| {
        let firing = scope.spawn(|| {
            // Timers that fire give theirs to the owner.
            (0..200).for_each(|n| _ = timer.schedule(Duration::ZERO, n).unwrap());
        });
        firing.join().unwrap();
        scope.spawn(|| churn(&timer)).join().unwrap();
        let timer = &timer;
        scope.spawn(move || {
            churn(timer);
            idle.send(()).unwrap();
            may_go_on.recv().unwrap();
            let error = timer.schedule(HOUR, 0).unwrap_err();
            let kind = ScheduleErrorKind::TooManyPending {
                pending: LIMIT,
                max_pending: LIMIT,
            };
            assert_eq!(error.kind(), &kind);
        });
        is_idle.recv().unwrap();
        wait_until("all have fired", || timer.pending() == 0);
        timer.wait_idle();
        for pending in 0..LIMIT as u64 {
            timer
                .schedule(HOUR, pending)
                .expect("fewer than the limit are pending");
        }
        go_on.send(()).unwrap();
    });
    assert_eq!(timer.stop().unwrap().len(), LIMIT);
}

/// Four threads at a time; each schedules 50 timers, cancels half, and dies.
#[test]
fn thousands_of_short_lived_threads_leak_no_node() {
    let generations = stress(1_000);
    let (timer, fired) = recording(one_shard());
    let live_and_die = || {
        let delays = [HOUR, Duration::ZERO].into_iter().cycle().take(50);
        let keys: Vec<_> = delays
            .map(|delay| timer.schedule(delay, 0).unwrap())
            .collect();
        assert!(
            keys.into_iter()
                .step_by(2)
                .all(|key| timer.cancel(key).is_won())
        );
    };
    let mut held_half_way = 0;
    for number in 0..generations {
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(live_and_die)));
        // Or all nodes are in use at once where the worker is slow.
        timer.wait_idle();
        if number == generations / 2 {
            held_half_way = held(&timer);
        }
    }
    let held_at_the_end = held(&timer);
    assert_eq!(fired.len() as u64, generations * 100 + 2);
    // A node lost per timer would be so much; how many a generation uses at once is up to the scheduler.
    let lost = generations / 2 * 100 * 32;
    assert!(
        held_at_the_end <= held_half_way + lost / 2,
        "{held_half_way} bytes after half of the threads, {held_at_the_end} after all"
    );
    timer.stop().unwrap();
}

/// Ends the timers that it holds in four ways, when its thread ends.
struct AtThreadEnd {
    handles: Vec<TimerHandle<u64>>,
    timer: Timer<u64>,
    ledger: Arc<Ledger>,
}

/// Payloads from here on are those that a destructor has scheduled.
const LATE: u64 = 1_000_000;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let Self {
            handles,
            timer,
            ledger,
        } = self;
        for (n, handle) in handles.drain(..).enumerate() {
            match n % 4 {
                0 => ledger.cancelled(handle.cancel().into_payload().expect("an hour is left")),
                1 => {
                    let id = timer
                        .cancel(handle.detach())
                        .into_payload()
                        .expect("an hour is left");
                    ledger.cancelled(id);
                    timer.schedule(Duration::ZERO, id + LATE).unwrap();
                }
                2 => assert!(handle.reschedule(Duration::ZERO).is_moved()),
                _ => drop(handle),
            }
        }
    }
}

thread_local!(static HELD: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) });

#[test]
fn thread_local_destructors_may_use_the_engine() {
    const EACH: u64 = 40;
    let threads = stress(100);
    let ledger = Ledger::all_begun(threads * EACH);
    let (fires, late) = (Arc::clone(&ledger), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&late);
    let handler = move |expired: Expired<u64>| match expired.payload {
        id if id < LATE => fires.fired(id),
        _ => _ = count.fetch_add(1, Ordering::SeqCst),
    };
    let timer = one_shard().build_with(handler).unwrap();
    for thread in 0..threads {
        let (timer, ledger) = (timer.clone(), Arc::clone(&ledger));
        std::thread::spawn(move || {
            // The engine's own thread-locals are gone when the destructor runs, or the other way round: either order
            // has to work.
            if thread % 2 == 0 {
                assert!(timer.cancel(timer.schedule(HOUR, 0).unwrap()).is_won());
            } else {
                HELD.with_borrow(|held| assert!(held.is_none()));
            }
            let ids = thread * EACH..(thread + 1) * EACH;
            let handles = ids
                .map(|id| timer.schedule_handle(HOUR, id).unwrap())
                .collect();
            HELD.set(Some(AtThreadEnd {
                handles,
                timer,
                ledger,
            }));
        })
        .join()
        .unwrap();
    }
    let quarter = threads * EACH / 4;
    wait_until("the moved ones have fired", || {
        timer.pending() as u64 == quarter
    });
    timer.wait_idle();
    assert_eq!(late.load(Ordering::SeqCst), quarter);
    timer
        .stop()
        .unwrap()
        .into_iter()
        .for_each(|unfired| ledger.returned(unfired.payload));
    let ends = ledger.check();
    assert_eq!((ends.fired, ends.cancelled), (quarter, 2 * quarter));
}
