//! Owned handles, weak timers, guards: who keeps an engine, and when its memory goes.
//!
//! A probe shows when an engine's memory goes: the engine's panic hook owns it, and lives as long as the engine.

use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, one_shard, stress, wait_until};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    BuildError, Builder, Drive, Expired, ScheduleErrorKind, Timer, TimerHandle, TimerState,
};

/// Counts the engines that hold memory.
#[derive(Clone)]
struct Probe(Arc<()>);

impl Probe {
    fn new() -> Self {
        Self(Arc::new(()))
    }

    fn watched(&self, builder: Builder) -> Builder {
        let probe = Arc::clone(&self.0);
        builder.on_panic(move |_| _ = &probe)
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

fn by_hand(probe: &Probe) -> Timer<u64> {
    probe
        .watched(one_shard().drive(Drive::Manual))
        .build_with(|_: Expired<u64>| ())
        .unwrap()
}

/// Frees the retired engines whose handles are gone, as every build does.
fn collect() {
    drop(by_hand(&Probe::new()));
}

/// Waits until no engine is left: another test's build may be about to free it.
fn wait_until_gone(probes: &[&Probe]) {
    wait_until("every engine is gone", || {
        collect();
        probes.iter().all(|probe| probe.alive() == 0)
    });
}

#[test]
fn the_next_build_or_retirement_frees_an_engine_without_handles() {
    for by_a_build in [false, true] {
        let (probe, other) = (Probe::new(), by_hand(&Probe::new()));
        let timer = by_hand(&probe);
        let [first, last] = [1, 2].map(|n| timer.schedule_handle(HOUR, n).unwrap());
        drop(timer);
        drop(first);
        collect();
        assert_eq!((probe.alive(), last.state()), (1, TimerState::Returned));
        assert!(!last.cancel().is_won());
        // By a thread that knows nothing else of the engine.
        std::thread::spawn(move || drop(last)).join().unwrap();
        let built = by_a_build.then(|| by_hand(&Probe::new()));
        drop(other);
        wait_until("it is freed", || probe.alive() == 0);
        drop(built);
    }
}

#[test]
fn a_handle_that_is_kept_for_ever_holds_only_its_own_engine() {
    let (forgotten, probe) = (Probe::new(), Probe::new());
    std::mem::forget(by_hand(&forgotten).schedule_handle(HOUR, 1).unwrap());
    for _ in 0..20 {
        drop(by_hand(&probe).schedule_handle(HOUR, 1).unwrap());
    }
    wait_until_gone(&[&probe]);
    assert_eq!(forgotten.alive(), 1);
}

#[test]
fn an_engines_end_may_drop_handles_of_other_engines() {
    let (first, second) = (Probe::new(), Probe::new());
    let inner = by_hand(&first);
    let held = Mutex::new(Some(inner.schedule_handle(HOUR, 1).unwrap()));
    drop(inner);
    // The hook of the outer engine owns the handle of the inner one.
    let outer = second.watched(one_shard().drive(Drive::Manual));
    let outer = outer.on_panic(move |_| _ = held.lock().unwrap().take());
    let outer = outer.build_with(|_: Expired<u64>| ()).unwrap();
    let last = outer.schedule_handle(HOUR, 1).unwrap();
    drop((outer, last));
    wait_until_gone(&[&first, &second]);
}

/// Engines and handles in every order, on threads that come and go.
#[test]
fn no_engine_is_lost_or_freed_early_under_random_load() {
    let probe = Probe::new();
    for round in 0..stress(30) {
        let engine = |n: usize| probe.watched(one_shard().shards(1 + n % 2));
        let timers: Vec<Timer<u64>> = (0..3)
            .map(|n| engine(n).build_with(|_: Expired<u64>| ()).unwrap())
            .collect();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..4).map(|_| channel::<TimerHandle<u64>>()).unzip();
        std::thread::scope(|scope| {
            for (receiver, n) in receivers.into_iter().zip(0..) {
                let (mut timers, senders) = (timers.clone(), senders.clone());
                scope.spawn(move || {
                    let mut random = Random::new(round * 4 + n);
                    for step in 0..200 {
                        let Some(which) = random.next().checked_rem(timers.len() as u64) else {
                            break;
                        };
                        let handle = timers[which as usize]
                            .schedule_handle(ms(step % 3), step)
                            .unwrap();
                        match random.below(4) {
                            0 => drop(handle),
                            1 => _ = handle.cancel(),
                            // A thread that has ended gives it back, and it is dropped here.
                            _ => _ = senders[random.below(4) as usize].send(handle),
                        }
                        if random.chance(1) {
                            timers.swap_remove(which as usize);
                        }
                        if random.chance(60) {
                            receiver.try_iter().take(3).for_each(drop);
                        }
                    }
                    // What is left in the channel is dropped with it, on whatever thread that is.
                });
            }
            drop((timers, senders));
        });
        wait_until_gone(&[&probe]);
    }
}

#[test]
fn a_weak_timer_keeps_nothing() {
    let probe = Probe::new();
    let timer = by_hand(&probe);
    let weak = timer.downgrade();
    let again = weak.upgrade().unwrap();
    drop(timer);
    assert!(
        again.schedule_handle(HOUR, 1).is_ok(),
        "an upgraded timer keeps the engine"
    );
    drop(again);
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
    assert_eq!(probe.alive(), 0);
}

#[test]
fn an_upgrade_races_with_the_last_timer() {
    let probe = Probe::new();
    for _ in 0..stress(200) {
        let timer = by_hand(&probe);
        let weak = timer.downgrade();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(timer));
            scope.spawn(move || {
                while let Some(timer) = weak.upgrade() {
                    assert!(matches!(timer.schedule_handle(HOUR, 1), Ok(timeout) if timeout.is_pending()));
                }
            });
        });
        assert_eq!(probe.alive(), 0);
    }
}

#[test]
fn a_handler_is_lent_the_timer_and_does_not_keep_the_engine() {
    let probe = Probe::new();
    let (sender, receiver) = channel();
    let builder = probe.watched(one_shard());
    let handler = move |timer: &Timer<u64>, expired: Expired<u64>| {
        if expired.payload < 3 {
            let next = timer.schedule_handle(ms(1), expired.payload + 1).unwrap();
            assert!(timer.reschedule(next.key(), ms(2)).is_moved());
            let unwanted = timer.schedule(ms(1), 99).unwrap();
            assert_eq!(timer.cancel(unwanted).into_payload(), Some(99));
        }
        sender.send(expired.payload).unwrap();
    };
    let timer = builder.build_per_shard(|_| handler.clone()).unwrap();
    timer.schedule_handle(Duration::ZERO, 0).unwrap();
    assert_eq!(receiver.iter().take(4).collect::<Vec<_>>(), [0, 1, 2, 3]);
    timer.schedule_handle(HOUR, 4).unwrap();
    drop(timer);
    wait_until("the engine is gone", || probe.alive() == 0);
}

#[test]
fn a_clone_of_the_lent_timer_counts() {
    let probe = Probe::new();
    let (sender, receiver) = channel();
    let ((go, gate), (begin, begun)) = (channel::<()>(), channel());
    let mut handler = Some(move |timer: &Timer<u64>, _: Expired<u64>| {
        begin.send(()).unwrap();
        gate.recv().unwrap();
        sender.send(timer.clone()).unwrap();
    });
    let timer = probe
        .watched(one_shard())
        .build_per_shard(|_| handler.take().unwrap())
        .unwrap();
    // While the engine is wanted by others: the clone keeps it.
    timer.schedule_handle(Duration::ZERO, 1).unwrap();
    begun.recv().unwrap();
    go.send(()).unwrap();
    let clone = receiver.recv().unwrap();
    drop(timer);
    assert!(clone.schedule_handle(HOUR, 2).is_ok());
    // By a handler that runs when the last other timer goes: it keeps the memory of an engine that is stopped.
    clone.schedule_handle(Duration::ZERO, 1).unwrap();
    begun.recv().unwrap();
    let weak = clone.downgrade();
    let dropper = std::thread::spawn(move || drop(clone));
    wait_until("the last timer is gone", || weak.upgrade().is_none());
    go.send(()).unwrap();
    let late = receiver.recv().unwrap();
    dropper.join().unwrap();
    assert_eq!(
        late.schedule_handle(HOUR, 2).unwrap_err().kind(),
        &ScheduleErrorKind::Stopped
    );
    // The worker ends by itself; nobody waits for it.
    wait_until("nothing is pending", || late.pending() == 0);
    assert_eq!(probe.alive(), 1);
    drop((late, receiver));
    wait_until("the engine is gone", || probe.alive() == 0);
}

#[test]
fn a_guard_cancels_when_it_is_dropped_and_not_when_it_is_given_up() {
    let timer = by_hand(&Probe::new());
    let guard = timer.schedule_handle(HOUR, 1).unwrap().cancel_on_drop();
    assert!(guard.is_pending() && format!("{guard:?}").contains("Pending"));
    let key = guard.key();
    drop(guard);
    assert!(!timer.is_pending(key));
    let timeout = timer
        .schedule_handle(HOUR, 1)
        .unwrap()
        .cancel_on_drop()
        .into_handle();
    assert_eq!(timeout.state(), TimerState::Pending);
    let key = timeout.detach();
    assert_eq!(timer.pending(), 1);
    assert!(timer.cancel(key).is_won());
}

#[test]
fn the_process_has_one_shared_engine() {
    let first = tickwheel::global().unwrap();
    assert!(std::ptr::eq(first, tickwheel::global().unwrap()));
    let second = one_shard().build_global();
    assert!(
        matches!(second, Err(error @ BuildError::GlobalExists) if error.to_string().contains("before"))
    );
    let (sender, receiver) = channel();
    first
        .run_after_handle(ms(1), move || sender.send(()).unwrap())
        .unwrap();
    assert_eq!(receiver.recv(), Ok(()));
}
