//! What handlers did to the timers around them in other systems, and shards that were silently off.

use crate::support::setup::{
    Fired, each_setup, ms, one_shard, recording, reflexive, spread, wait_until,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, Key, Timer, TimerHandle};

#[test]
fn a_handler_may_drop_its_own_timer() {
    each_setup(|at| {
        let handles = Arc::new(Mutex::new(Vec::<TimerHandle<u64>>::new()));
        let (mine, (fired, log)) = (Arc::clone(&handles), Fired::pair());
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, expired| {
            let own = mine.lock().unwrap().pop().unwrap();
            assert_eq!(own.key(), expired.key);
            assert!(own.is_fired() && !own.cancel().is_won());
            assert!(!timer.cancel(expired.key).is_won());
            drop(own);
            log.push(expired);
        });
        let scheduled = (0..100).map(|id| timer.schedule_handle(ms(1), id).unwrap());
        // The last one that is popped fires last.
        *handles.lock().unwrap() = scheduled.collect::<Vec<_>>().into_iter().rev().collect();
        at.advance(&timer, ms(1));
        assert_eq!((fired.len(), timer.stats().panics), (100, 0));
        timer.stop().unwrap();
    });
}

#[test]
fn a_handler_may_cancel_its_neighbour_in_the_same_bucket() {
    each_setup(|at| {
        let keys = Arc::new(OnceLock::<Vec<Key<u64>>>::new());
        let (mine, (fired, log)) = (Arc::clone(&keys), Fired::pair());
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, expired| {
            // Each cancels the one after it.
            if let Some(next) = mine.get().unwrap().get(expired.payload as usize + 1) {
                assert_eq!(
                    timer.cancel(*next).into_payload(),
                    Some(expired.payload + 1)
                );
            }
            log.push(expired);
        });
        let scheduled = (0..1_001).map(|id| timer.schedule(ms(3), id).unwrap());
        keys.set(scheduled.collect()).unwrap();
        at.advance(&timer, ms(3));
        assert_eq!(fired.ids(), (0..1_001).step_by(2).collect::<Vec<_>>());
        assert_eq!((timer.pending(), timer.stats().panics), (0, 0));
        timer.stop().unwrap();
    });
}

#[test]
fn a_handler_that_schedules_zero_delay_for_ever_starves_nobody() {
    each_setup(|at| {
        let go_on = Arc::new(AtomicBool::new(true));
        let (more, (fired, log)) = (Arc::clone(&go_on), Fired::pair());
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, expired| {
            if expired.payload > 0 {
                log.push(expired);
            } else if more.load(Ordering::SeqCst) {
                timer.schedule(Duration::ZERO, 0).unwrap();
            }
        });
        timer.schedule(Duration::ZERO, 0).unwrap();
        for round in 1..=50 {
            timer.schedule(ms(1), round).unwrap();
            at.clock.advance(ms(1));
            if at.drive == Drive::Manual {
                timer.turn().unwrap();
            }
            wait_until("the other timer has fired", || {
                fired.len() == round as usize
            });
        }
        go_on.store(false, Ordering::SeqCst);
        timer.stop().unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn sharding_is_not_silently_off_under_a_restricted_affinity_mask() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    if !crate::support::system::pins_threads() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mask = sched_getaffinity(None).unwrap();
            let core = (0..CpuSet::MAX_CPU)
                .find(|core| mask.is_set(*core))
                .unwrap();
            let mut one = CpuSet::new();
            one.set(core);
            sched_setaffinity(None, &one).unwrap();
            let (timer, fired) = recording(Builder::new().shards(4));
            let gate = std::sync::Barrier::new(4);
            std::thread::scope(|producers| {
                for id in 0..4 {
                    let (timer, gate) = (&timer, &gate);
                    producers.spawn(move || {
                        timer.schedule(Duration::ZERO, id).unwrap();
                        gate.wait();
                    });
                }
            });
            wait_until("all four have fired", || fired.len() == 4);
            let used = timer
                .stats()
                .shards
                .iter()
                .filter(|shard| shard.fired == 1)
                .count();
            assert_eq!(used, 4, "four threads, four shards, one core");
        });
    });
}

#[test]
fn a_slow_handler_of_one_shard_does_not_hold_up_another() {
    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(Some(gate));
    let (fired, log) = Fired::pair();
    let builder = one_shard().shards(2);
    let timer = builder
        .build_with(move |expired: Expired<u64>| {
            if expired.payload == 0 {
                let gate = gate.lock().unwrap().take().unwrap();
                gate.recv().unwrap();
            }
            log.push(expired);
        })
        .unwrap();
    let slow = spread(&timer, Duration::ZERO, 0);
    let quick = spread(&timer, ms(1), 1);
    assert_ne!(slow.shard(), quick.shard());
    wait_until("the other shard fires", || fired.len() == 1);
    assert_eq!(fired.ids(), [1]);
    let_go.send(()).unwrap();
    wait_until("the slow one has returned", || fired.len() == 1);
}
