//! Several shards: all used under any affinity mask, with handlers of their own or an executor.

use crate::support::setup::{
    Fired, HOUR, ms, one_shard, reflexive, secs, set_of, spread, wait_until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tickwheel::{
    Budget, BuildError, Builder, Clock, Expired, PinState, Pinning, Shutdown, Time, Timer,
    WeakTimer, executor_fn,
};

#[test]
fn what_a_workers_start_hook_schedules_is_its_own_shards() {
    let cell = Arc::new(OnceLock::<WeakTimer<u64>>::new());
    let (inside, (tell, told)) = (Arc::clone(&cell), channel());
    let timer = one_shard()
        .shards(2)
        .on_worker_start(move |shard| {
            if shard == 1 {
                let timer = inside.get().unwrap().upgrade().unwrap();
                tell.send(timer.schedule(HOUR, 0).unwrap().shard()).unwrap();
            }
        })
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    assert!(cell.set(timer.downgrade()).is_ok());
    timer.start().unwrap();
    assert_eq!(told.recv_timeout(secs(60)), Ok(1));
    timer.stop().unwrap();
}

/// Of its own shard, while a handler runs, and of no other.
#[test]
fn a_shard_turns_until_its_handler_has_returned() {
    let (begin, begun) = channel();
    let (go_on, gone_on) = sync_channel(0);
    let gone_on = Mutex::new(gone_on);
    let timer = one_shard()
        .shards(2)
        .build_with(move |expired: Expired<u64>| {
            begin.send(expired.shard).unwrap();
            gone_on.lock().unwrap().recv().unwrap();
        })
        .unwrap();
    let key = timer.schedule(Duration::ZERO, 1).unwrap();
    let shard = begun.recv_timeout(secs(60)).unwrap();
    assert_eq!(shard, key.shard());
    for _ in 0..1000 {
        assert!(timer.is_turning(shard));
    }
    wait_until("the other one sleeps", || !timer.is_turning(1 - shard));
    assert!(!timer.is_turning(2), "there is none");
    go_on.send(()).unwrap();
    wait_until("the handler has returned", || !timer.is_turning(shard));
    timer.stop().unwrap();
}

#[cfg(target_os = "linux")]
mod masks {
    use super::*;
    use crate::support::system::pins_threads;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    fn allowed() -> Vec<usize> {
        let mask = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU)
            .filter(|core| mask.is_set(*core))
            .collect()
    }

    /// Runs `test` on a thread of its own that may use these cores only, and so may the threads it starts.
    fn under_mask(cores: &[usize], test: impl FnOnce() + Send) {
        let mut mask = CpuSet::new();
        cores.iter().for_each(|core| mask.set(*core));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(None, &mask).unwrap();
                test();
            });
        });
    }

    #[test]
    fn an_engine_that_a_handler_builds_has_as_many_shards_as_any() {
        let (sender, receiver) = channel();
        let timer = Builder::new().shards(1).build().unwrap();
        timer
            .run_after(Duration::ZERO, move || {
                sender.send(Timer::new().unwrap().shards()).unwrap();
            })
            .unwrap();
        assert_eq!(
            receiver.recv_timeout(secs(20)),
            Ok(Timer::new().unwrap().shards())
        );
        timer.stop().unwrap();
    }

    /// The masks of an engine's workers, each seen from the last of so many calls of its handler, and what the
    /// statistics say of them.
    fn masks_of(builder: Builder, calls: usize) -> Vec<(Vec<usize>, PinState)> {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let log = Arc::clone(&seen);
        let handler = move |e: Expired<u64>| _ = log.lock().unwrap().insert(e.shard, allowed());
        let timer = builder.build_with(handler).unwrap();
        let shards = timer.shards();
        for call in 1..=calls {
            (0..shards as u64).for_each(|id| _ = spread(&timer, ms(20), id));
            wait_until("all have fired", || {
                timer.stats().fired as usize == call * shards
            });
        }
        timer.wait_idle();
        let stats = timer.stats();
        timer.stop().unwrap();
        let masks = std::mem::take(&mut *seen.lock().unwrap()).into_values();
        masks
            .zip(stats.shards.iter().map(|shard| shard.pinning))
            .collect()
    }

    /// Other tests keep a worker waiting now and then, which leaves its core then: so it need not hold each time.
    fn holds_once_in_thirty(mut holds: impl FnMut() -> bool) {
        assert!((0..30).any(|_| holds()));
    }

    #[test]
    fn workers_are_pinned_to_the_cores_of_the_process_or_of_a_list() {
        if !pins_threads() {
            return;
        }
        let cores = allowed();
        let pinned: Vec<_> = cores
            .iter()
            .map(|core| (vec![*core], PinState::Pinned(*core)))
            .collect();
        under_mask(&cores[..1], || {
            holds_once_in_thirty(|| {
                let mut workers = masks_of(Builder::new().shards(cores.len()), 1);
                workers.sort_by_key(|(mask, _)| mask[0]);
                workers == pinned
            });
        });
        for (core, pinned) in cores.iter().zip(pinned) {
            let builder = Builder::new().shards(2).pinning(Pinning::List(vec![*core]));
            assert_eq!(masks_of(builder, 1), [pinned.clone(), pinned]);
        }
        let missing = CpuSet::MAX_CPU - 1;
        if !cores.contains(&missing) {
            let list = Builder::new().pinning(Pinning::List(vec![missing])).build();
            let unknown = BuildError::UnknownCore {
                core: missing,
                allowed: cores,
            };
            assert_eq!(list.err(), Some(unknown));
        }
    }

    #[test]
    fn engines_of_one_shard_do_not_share_one_core() {
        if !pins_threads() {
            return;
        }
        let cores = allowed().len();
        // Other tests build engines meanwhile: so many engines cannot all have met the same core by chance.
        let pinned = (0..32).map(|_| masks_of(Builder::new().shards(1), 1)[0].0[0]);
        assert_eq!(pinned.collect::<BTreeSet<_>>().len(), cores);
    }

    /// On this clock every sleep lasts twice as long as it should: so it looks to a worker that waits for its core.
    struct Twice(Instant);

    impl Clock for Twice {
        fn now(&self) -> Time {
            Time::ZERO + self.0.elapsed() * 2
        }
    }

    #[test]
    fn a_worker_that_is_kept_waiting_leaves_its_core_unless_that_is_listed() {
        if !pins_threads() {
            return;
        }
        let cores = allowed();
        let waiting = || Builder::new().shards(1).clock(Twice(Instant::now()));
        let [(mask, state)] = &*masks_of(waiting(), 12) else {
            panic!("one shard")
        };
        assert_eq!(*mask, cores, "all cores of the process");
        assert!(matches!(state, PinState::Widened(_)), "{state:?}");
        let listed = masks_of(waiting().pinning(Pinning::List(cores)), 12);
        assert_eq!(listed[0].1, PinState::Pinned(listed[0].0[0]));
    }

    #[test]
    fn a_worker_that_has_left_its_core_is_not_pinned_to_it_after_a_driver() {
        if !pins_threads() {
            return;
        }
        let builder = Builder::new().shards(1).clock(Twice(Instant::now()));
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        let pinning = || timer.stats().shards[0].pinning;
        wait_until("it has left its core", || {
            timer.schedule(ms(20), 0).unwrap();
            timer.wait_idle();
            std::thread::sleep(ms(20));
            matches!(pinning(), PinState::Widened(_))
        });
        let driven = timer.drive_shard(0).unwrap();
        wait_until("the driver has it", || pinning() == PinState::Unpinned);
        drop(driven);
        let fired = timer.stats().fired;
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("its worker has it again", || timer.stats().fired > fired);
        timer.wait_idle();
        assert_eq!(pinning().core(), None);
        timer.stop().unwrap();
    }

    /// Time that moves by hand and calls no hook: a worker that drains looks at it every few milliseconds.
    #[derive(Default)]
    struct Silent(AtomicU64);

    impl Clock for Silent {
        fn now(&self) -> Time {
            Time::from_nanos(self.0.load(Ordering::SeqCst))
        }

        fn is_virtual(&self) -> bool {
            true
        }
    }

    /// How late a worker is in such time says nothing of its core.
    #[test]
    fn a_jump_of_virtual_time_leaves_a_worker_on_its_core() {
        if !pins_threads() {
            return;
        }
        const JUMPS: u32 = 8;
        holds_once_in_thirty(|| {
            let clock = Arc::new(Silent::default());
            let builder = Builder::new().shards(1).clock(Arc::clone(&clock));
            let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
            (1..=JUMPS).for_each(|n| _ = timer.schedule(HOUR * n, 0).unwrap());
            let within = Duration::MAX;
            let drain = || timer.shutdown(Shutdown::Drain { within }, Duration::MAX);
            let jump = (HOUR + secs(1)).as_nanos() as u64;
            std::thread::scope(|scope| {
                let draining = scope.spawn(drain);
                for fired in 1..=u64::from(JUMPS) {
                    // It sleeps then.
                    std::thread::sleep(ms(5));
                    clock.0.fetch_add(jump, Ordering::SeqCst);
                    wait_until("it has fired", || timer.stats().fired == fired);
                }
                assert_eq!(draining.join().unwrap().unwrap().len(), 0);
            });
            matches!(timer.stats().shards[0].pinning, PinState::Pinned(_))
        });
    }

    /// Only a sleep shows that a core keeps its worker waiting.
    #[test]
    fn turns_that_follow_each_other_after_a_sleep_leave_a_worker_on_its_core() {
        if !pins_threads() {
            return;
        }
        holds_once_in_thirty(|| {
            let builder = Builder::new().shards(1).budget(Budget::new().fire(1));
            let slow = |_: Expired<u64>| std::thread::sleep(ms(3));
            let timer = builder.build_with(slow).unwrap();
            (0..12).for_each(|id| _ = timer.schedule(ms(20), id).unwrap());
            wait_until("all have fired", || timer.stats().fired == 12);
            timer.wait_idle();
            let state = timer.stats().shards[0].pinning;
            timer.stop().unwrap();
            matches!(state, PinState::Pinned(_))
        });
    }

    #[test]
    fn without_pinning_workers_keep_the_builders_mask() {
        if !pins_threads() {
            return;
        }
        let workers = masks_of(Builder::new().pinning(Pinning::Off), 1);
        assert!(
            workers
                .iter()
                .all(|(mask, state)| *mask == allowed() && state.core().is_none())
        );
    }
}

#[test]
fn a_handlers_timers_stay_on_its_shard() {
    let (fired, log) = Fired::pair();
    let builder = one_shard().shards(3);
    let timer = crate::support::setup::reflexive(builder, move |timer: &Timer<u64>, expired| {
        if expired.payload > 0 {
            let key = timer.schedule(Duration::ZERO, expired.payload - 1).unwrap();
            assert_eq!(key.shard(), expired.shard);
        }
        log.push(expired);
    });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| timer.schedule(Duration::ZERO, 9).unwrap());
        }
    });
    wait_until("the chains have ended", || fired.len() == 30);
    assert_eq!(timer.stats().panics, 0);
    timer.stop().unwrap();
}

#[test]
fn each_shard_has_a_handler_of_its_own_that_needs_no_lock() {
    const TIMERS: u64 = 3_000;
    let (sender, receiver) = channel();
    let (mut made, noted) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    let note = || {
        let noted = Arc::clone(&noted);
        move |shard| noted.lock().unwrap().push(shard)
    };
    let timer = one_shard()
        .shards(3)
        .thread_name("own")
        .on_worker_start(note())
        .on_worker_stop(note())
        .build_per_shard(|shard| {
            made.push(shard);
            let sender = sender.clone();
            // State of one shard: changed without a lock, by one thread only.
            let (mut count, mut thread) = (0_u64, None);
            move |_: &Timer<u64>, expired: Expired<u64>| {
                count += 1;
                let current = std::thread::current();
                assert_eq!(*thread.get_or_insert(current.id()), current.id());
                assert_eq!(current.name(), Some(format!("own-{shard}").as_str()));
                assert_eq!(expired.shard, shard);
                if count == TIMERS / 3 {
                    sender.send((shard, count)).unwrap();
                }
            }
        })
        .unwrap();
    assert_eq!(made, [0, 1, 2]);
    for id in 0..TIMERS {
        spread(&timer, Duration::from_micros(id % 700), id);
    }
    let mut counts: Vec<_> = (0..3)
        .map(|_| receiver.recv_timeout(secs(20)).expect("every shard fires"))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(0, TIMERS / 3), (1, TIMERS / 3), (2, TIMERS / 3)]);
    assert_eq!(timer.stats().panics, 0);
    timer.stop().unwrap();
    let mut noted = noted.lock().unwrap().clone();
    noted.sort_unstable();
    assert_eq!(noted, [0, 0, 1, 1, 2, 2], "each worker's start and stop");
}

#[test]
fn an_executor_gets_what_expires_and_what_it_refuses_is_not_lost() {
    let (queue, taken) = sync_channel(10);
    let (overflow, log) = Fired::pair();
    let execute = move |expired: Expired<u64>| {
        assert_ne!(expired.payload, 13, "an executor may panic, too");
        queue.try_send(expired).map_err(|error| match error {
            TrySendError::Full(expired) | TrySendError::Disconnected(expired) => expired,
        })
    };
    let executor = executor_fn(execute, move |expired| log.push(expired));
    // Each shard is refused some.
    let builder = one_shard().shards(2);
    let timer = builder.build_on(executor).unwrap();
    for id in (100..130).chain([13]) {
        spread(&timer, ms(1), id);
    }
    wait_until("ten are taken and twenty refused", || overflow.len() == 20);
    timer.wait_idle();
    let accepted = taken.try_iter().map(|expired| expired.payload);
    assert_eq!(set_of(accepted.chain(overflow.ids())), (100..130).collect());
    let stats = timer.stats();
    assert_eq!(
        (stats.refused_by_executor, stats.fired, stats.panics),
        (20, 31, 1)
    );
    // A shutdown executor refuses everything.
    drop(taken);
    timer.schedule(Duration::ZERO, 1).unwrap();
    wait_until("it has come back", || overflow.len() == 1);
    assert_eq!(timer.stats().panics, 1);
    timer.stop().unwrap();
}

#[test]
fn timers_of_handlers_stay_on_the_shard_of_their_worker() {
    const SHARDS: usize = 3;
    let places = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&places);
    let builder = one_shard().shards(SHARDS);
    let timer = reflexive(builder, move |timer: &Timer<u64>, expired| {
        if expired.payload == 0 {
            let next = timer.schedule(secs(3600), 1).unwrap();
            noted.lock().unwrap().push((expired.shard, next.shard()));
        }
    });
    // A thread for each home, one after the other; all live until the end.
    let all_are_done = std::sync::Barrier::new(SHARDS + 1);
    std::thread::scope(|scope| {
        for before in 0..SHARDS {
            scope.spawn(|| {
                timer.schedule(Duration::ZERO, 0).unwrap();
                all_are_done.wait();
            });
            wait_until("it has fired", || places.lock().unwrap().len() > before);
        }
        all_are_done.wait();
    });
    let places = places.lock().unwrap().clone();
    assert_eq!(places, [(0, 0), (1, 1), (2, 2)]);
    timer.stop().unwrap();
}
