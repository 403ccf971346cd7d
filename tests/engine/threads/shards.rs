//! Several shards: all used under any affinity mask, with handlers of their own or an executor.

use crate::support::setup::{Fired, HOUR, ms, one_shard, secs, set_of, wait_until};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    BuildError, Builder, Clock, Executor, Expired, PinState, Pinning, Routing, Time, Timer,
};

#[cfg(target_os = "linux")]
mod masks {
    use super::*;
    use crate::support::system::pins_threads;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    fn allowed() -> Vec<usize> {
        let mask = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect()
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
        assert_eq!(receiver.recv_timeout(secs(20)), Ok(Timer::new().unwrap().shards()));
        timer.stop().unwrap();
    }

    /// The masks of an engine's workers, each seen from a handler, and the statistics of them.
    fn masks_of(builder: Builder) -> Vec<(Vec<usize>, PinState)> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let timer = builder
            .routing(Routing::Spread)
            .build_with(move |e: Expired<u64>| log.lock().unwrap().push((e.shard, allowed())))
            .unwrap();
        let shards = timer.shards();
        for id in 0..shards as u64 {
            timer.schedule_key(Duration::ZERO, id).unwrap();
        }
        wait_until("all have fired", || seen.lock().unwrap().len() == shards);
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_unstable();
        let stats = timer.stats();
        timer.stop().unwrap();
        seen.into_iter().zip(&stats.shards).map(|((_, mask), it)| (mask, it.pinning)).collect()
    }

    #[test]
    fn workers_are_pinned_to_the_cores_of_the_process() {
        if !pins_threads() {
            return;
        }
        let cores = allowed();
        under_mask(&cores[..1], || {
            let workers = masks_of(Builder::new().shards(cores.len()));
            let pinned: BTreeSet<usize> = workers
                .iter()
                .map(|(mask, state)| {
                    assert_eq!(*state, PinState::Pinned(mask[0]));
                    assert_eq!(mask.len(), 1);
                    mask[0]
                })
                .collect();
            assert_eq!(pinned.into_iter().collect::<Vec<_>>(), cores, "a core for each worker");
        });
        let missing = CpuSet::MAX_CPU - 1;
        if !cores.contains(&missing) {
            let list = Builder::new().pinning(Pinning::List(vec![missing])).build();
            let unknown = BuildError::UnknownCore { core: missing, allowed: cores };
            assert_eq!(list.err(), Some(unknown));
        }
    }

    #[test]
    fn a_list_of_cores_is_followed() {
        if !pins_threads() {
            return;
        }
        for core in allowed() {
            let workers = masks_of(Builder::new().shards(2).pinning(Pinning::List(vec![core])));
            assert!(workers.iter().all(|it| *it == (vec![core], PinState::Pinned(core))));
        }
    }

    #[test]
    fn engines_of_one_shard_do_not_share_one_core() {
        if !pins_threads() {
            return;
        }
        let cores = allowed().len();
        // Other tests build engines meanwhile: so many engines cannot all have met the same core by chance.
        let pinned = (0..32).map(|_| masks_of(Builder::new().shards(1))[0].0[0]);
        assert_eq!(pinned.collect::<BTreeSet<_>>().len(), cores);
    }

    /// On this clock every sleep lasts twice as long as it should: so it looks to a worker that waits for its core.
    #[derive(Clone)]
    struct Twice(Instant);

    impl Clock for Twice {
        fn now(&self) -> Time {
            Time::ZERO + self.0.elapsed() * 2
        }
    }

    fn leaves_its_core(clock: impl Clock + Clone) {
        let cores = allowed();
        for (pinning, leaves) in [(Pinning::Cores, true), (Pinning::List(cores.clone()), false)] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let log = Arc::clone(&seen);
            let timer = Builder::new()
                .shards(1)
                .pinning(pinning)
                .clock(clock.clone())
                .build_with(move |_: Expired<u64>| log.lock().unwrap().push(allowed()))
                .unwrap();
            for round in 1..=6 {
                timer.schedule_key(ms(20), 0).unwrap();
                wait_until("it has fired", || seen.lock().unwrap().len() == round);
            }
            let last = seen.lock().unwrap().pop().unwrap();
            let state = timer.stats().shards[0].pinning;
            if leaves {
                assert_eq!(last, cores, "all cores of the process");
                assert!(matches!(state, PinState::Widened(_)), "{state:?}");
            } else {
                assert_eq!(last.len(), 1);
                assert!(matches!(state, PinState::Pinned(_)), "{state:?}");
            }
            timer.stop().unwrap();
        }
    }

    #[test]
    fn a_worker_that_is_kept_waiting_leaves_its_core() {
        if !pins_threads() {
            return;
        }
        leaves_its_core(Twice(Instant::now()));
    }

    #[test]
    fn without_pinning_workers_keep_the_builders_mask() {
        let (timer, fired) = crate::support::setup::recording(Builder::new().pinning(Pinning::Off));
        timer.schedule_key(Duration::ZERO, 1).unwrap();
        wait_until("it has fired", || fired.len() == 1);
        assert!(timer.stats().shards.iter().all(|shard| shard.pinning.core().is_none()));
        timer.stop().unwrap();
    }
}

#[test]
fn one_thread_reaches_every_shard_when_timers_are_spread() {
    let builder = one_shard().shards(7).routing(Routing::Spread);
    let (timer, _fired) = crate::support::setup::recording(builder);
    let shards: Vec<usize> =
        (0..70).map(|id| timer.schedule_key(HOUR, id).unwrap().shard()).collect();
    assert_eq!(shards.iter().copied().collect::<BTreeSet<_>>().len(), 7);
    assert!(timer.stats().shards.iter().all(|shard| shard.scheduled == 10));
    assert_eq!(timer.stop().unwrap().len(), 70);
}

#[test]
fn a_handlers_timers_stay_on_its_shard() {
    let (fired, log) = Fired::pair();
    let builder = one_shard().shards(3).routing(Routing::Home);
    let timer = crate::support::setup::reflexive(builder, move |timer: &Timer<u64>, expired| {
        if expired.payload > 0 {
            let key = timer.schedule_key(Duration::ZERO, expired.payload - 1).unwrap();
            assert_eq!(key.shard(), expired.shard);
        }
        log.push(expired);
    });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| timer.schedule_key(Duration::ZERO, 9).unwrap());
        }
    });
    wait_until("the chains have ended", || fired.len() == 30);
    assert_eq!(timer.stats().panics(), 0);
    timer.stop().unwrap();
}

#[test]
fn each_shard_has_a_handler_of_its_own_that_needs_no_lock() {
    const TIMERS: u64 = 3_000;
    let (sender, receiver) = channel();
    let mut made = Vec::new();
    let timer = one_shard()
        .shards(3)
        .routing(Routing::Spread)
        .thread_name("own")
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
        timer.schedule_key(Duration::from_micros(id % 700), id).unwrap();
    }
    let mut counts: Vec<_> =
        (0..3).map(|_| receiver.recv_timeout(secs(20)).expect("every shard fires")).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(0, TIMERS / 3), (1, TIMERS / 3), (2, TIMERS / 3)]);
    assert_eq!(timer.stats().panics(), 0);
    timer.stop().unwrap();
}

/// Hands expired timers to a bounded queue; keeps those that it has no place for.
struct Pool {
    queue: SyncSender<Expired<u64>>,
    overflow: Fired,
}

impl Executor<u64> for Pool {
    fn execute(&self, expired: Expired<u64>) -> Result<(), Expired<u64>> {
        assert_ne!(expired.payload, 13, "an executor may panic, too");
        self.queue.try_send(expired).map_err(|error| match error {
            TrySendError::Full(expired) | TrySendError::Disconnected(expired) => expired,
        })
    }

    fn rejected(&self, expired: Expired<u64>) {
        self.overflow.push(expired);
    }
}

fn pooled(places: usize) -> (Timer<u64>, Receiver<Expired<u64>>, Fired) {
    let (queue, taken) = sync_channel(places);
    let overflow = Fired::default();
    let timer = one_shard().build_on(Pool { queue, overflow: overflow.clone() }).unwrap();
    (timer, taken, overflow)
}

#[test]
fn an_executor_gets_what_expires_and_what_it_refuses_is_not_lost() {
    let (timer, taken, overflow) = pooled(10);
    for id in 100..130 {
        timer.schedule_key(ms(1), id).unwrap();
    }
    wait_until("ten are taken and twenty refused", || overflow.len() == 20);
    timer.wait_idle();
    let accepted = taken.try_iter().map(|expired| expired.payload);
    assert_eq!(set_of(accepted.chain(overflow.ids())), (100..130).collect());
    let stats = timer.stats();
    assert_eq!((stats.shards[0].refused_by_executor, stats.fired(), stats.panics()), (20, 30, 0));
    // A shutdown executor refuses everything.
    drop(taken);
    timer.schedule_key(Duration::ZERO, 1).unwrap();
    wait_until("it has come back", || overflow.len() == 1);
    assert_eq!(timer.stats().panics(), 0);
    timer.stop().unwrap();
}

#[test]
fn a_panicking_executor_is_survived() {
    let (timer, taken, _overflow) = pooled(10);
    timer.schedule_key(Duration::ZERO, 13).unwrap();
    timer.schedule_key(Duration::ZERO, 14).unwrap();
    assert_eq!(taken.recv_timeout(secs(20)).unwrap().payload, 14);
    assert_eq!(timer.stats().panics(), 1);
    timer.stop().unwrap();
}
