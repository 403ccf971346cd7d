//! `EventLoopTimer`: a shard inside the user's own loop, with remotes on other threads.

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod book;
    pub(crate) mod breakable;
    pub(crate) mod choices;
    pub(crate) mod ledger;
    pub(crate) mod properties;
    pub(crate) mod shard_model;
    pub(crate) mod ticks;
}

mod model;
mod own;
mod periodic;
mod waker;

use mio::{Events, Poll, Registry, Token, Waker};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use support::ledger::Ledger;
use tickwheel::{Budget, EventLoopTimer, Key, ManualClock, Settings, Time, TimerTask};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// Late enough for memory of a burst to go back.
const LATER: Time = Time::from_nanos(2_000_000_000);

/// A timer on a clock that is turned by hand, and the number of times its remotes woke the loop.
fn manual<T: Send + 'static>() -> (EventLoopTimer<T>, ManualClock, Arc<AtomicUsize>) {
    let clock = ManualClock::new();
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || _ = counted.fetch_add(1, Ordering::SeqCst);
    (
        EventLoopTimer::with_waker(Settings::new().clock(clock.clone()), wake).unwrap(),
        clock,
        wakes,
    )
}

fn fire_all<T: Send + 'static>(timer: &mut EventLoopTimer<T>, now: Time) -> Vec<T> {
    let mut fired = Vec::new();
    while timer.poll(now, |expired| fired.push(expired.payload)).more {}
    fired
}

#[test]
fn many_timers_wake_a_sleeping_loop_once_and_fire_in_order() {
    let (mut timer, clock, wakes) = manual();
    assert_eq!(timer.poll_timeout(clock.now()), None);
    // The first is the earliest, and there are more than any block of the inbox holds.
    let remote = timer.remote();
    for n in 1..=1000 {
        remote.schedule(MS * n, n).unwrap();
    }
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    assert!(
        fire_all(&mut timer, clock.advance(HOUR))
            .into_iter()
            .eq(1..=1000)
    );
}

#[test]
fn a_timer_that_practically_never_fires_has_no_next_deadline() {
    let (mut timer, _, _) = manual();
    // The last tick of the scale begins after the last time that a clock tells.
    for never in [Time::from_nanos(u64::MAX - 1), Time::MAX] {
        let key = timer.schedule(Time::ZERO, never, ()).unwrap();
        assert_eq!(timer.next_deadline(), None);
        assert_eq!(timer.poll_timeout(Time::ZERO), None);
        assert!(timer.cancel(key).is_won());
    }
}

/// Found by the fuzzer: the word with the earliest unread tick stayed low, which cost one empty poll.
#[test]
fn a_drain_in_pieces_asks_for_no_poll_when_it_is_done() {
    let budget = Budget::new().drain(1);
    let builder = Settings::new().budget(budget).clock(ManualClock::new());
    let mut timer: EventLoopTimer<u32> = EventLoopTimer::with_waker(builder, || ()).unwrap();
    let remote = timer.remote();
    let now = Time::ZERO + MS;
    for n in 0..2 {
        remote.schedule(Time::ZERO, n).unwrap();
    }
    assert!(
        timer
            .poll(now, |expired| assert_eq!(expired.payload, 0))
            .more
    );
    // While the drain goes on.
    remote.schedule(Time::ZERO, 2).unwrap();
    assert_eq!(fire_all(&mut timer, now), [1, 2]);
    assert_eq!(timer.poll_timeout(now), None);
}

/// Producers on other threads schedule, cancel and move while the loop sleeps in its own poll; every timer ends
/// exactly once, none early.
fn a_mio_loop_loses_nothing(build: fn(Settings, &Registry) -> EventLoopTimer<(u64, Instant)>) {
    const PRODUCERS: u64 = 2;
    const EACH: u64 = 3000;
    let mut poll = Poll::new().unwrap();
    let mut events = Events::with_capacity(16);
    let settings = Settings::new().tick(Duration::from_micros(100));
    let mut timer = build(settings, poll.registry());
    let ledger = Ledger::all_begun(PRODUCERS * EACH);
    let (start, begun) = (Barrier::new(PRODUCERS as usize), Instant::now());
    std::thread::scope(|scope| {
        let producers = [0, 1].map(|producer| {
            let (remote, start, ledger) = (timer.remote(), &start, &ledger);
            scope.spawn(move || {
                start.wait();
                for id in producer * EACH..(producer + 1) * EACH {
                    let delay = Duration::from_micros(id * 37 % 5000);
                    let key = remote
                        .schedule(delay, (id, Instant::now() + delay))
                        .unwrap();
                    match id % 4 {
                        0 if remote.cancel(key).is_won() => ledger.cancelled(id),
                        1 => _ = remote.reschedule(key, delay + Duration::from_millis(3)),
                        _ => {}
                    }
                    if id % 100 == 0 {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            })
        });
        while !(producers.iter().all(|it| it.is_finished()) && timer.is_empty()) {
            let timeout = timer.poll_timeout(timer.now());
            let timeout = Some(timeout.unwrap_or(5 * MS).min(5 * MS));
            match poll.poll(&mut events, timeout) {
                // A signal: an empty round.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                polled => polled.unwrap(),
            }
            assert!(events.iter().all(|event| event.token() == Token(7)));
            let now = timer.now();
            timer.poll(now, |expired| {
                let (id, due) = expired.payload;
                assert!(Instant::now() >= due, "timer {id} fired early");
                ledger.fired(id);
            });
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{} are lost",
                timer.pending()
            );
        }
    });
    ledger.check();
}

#[test]
fn mio_loops_and_their_remotes_lose_nothing() {
    a_mio_loop_loses_nothing(|settings, poll| {
        EventLoopTimer::with_mio(settings, poll, Token(7)).unwrap()
    });
    a_mio_loop_loses_nothing(|settings, poll| {
        let waker = Arc::new(Waker::new(poll, Token(7)).unwrap());
        EventLoopTimer::with_mio_waker(settings, waker).unwrap()
    });
}

/// A regression: what was cancelled behind a sweep, with nothing to follow, stayed for as long as its deadline.
#[test]
fn cancels_in_buckets_that_a_sweep_has_passed_are_swept_too() {
    const TIMERS: usize = 400_000;
    let mut timer: EventLoopTimer<usize> =
        EventLoopTimer::with_waker(Settings::new().clock(ManualClock::new()), || ()).unwrap();
    let remote = timer.remote();
    let keys: Vec<_> = (0..TIMERS)
        .map(|n| remote.schedule(HOUR, n).unwrap())
        .collect();
    while timer.poll(Time::ZERO, |_| ()).more {}
    let before = timer.held_bytes();
    // The last ones filed first, so that most of the sweep's way lies before those that follow.
    let (first, last) = keys.split_at(TIMERS * 2 / 5);
    assert!(last.iter().all(|key| remote.cancel(*key).is_won()));
    let mut polls = 0;
    while polls < TIMERS / 2 / Budget::new().sweep {
        assert!(
            timer.poll(Time::ZERO, |_| ()).more,
            "the sweep is over after {polls} polls"
        );
        polls += 1;
    }
    assert!(first.iter().all(|key| remote.cancel(*key).is_won()));
    while timer.poll(Time::ZERO, |_| ()).more {
        polls += 1;
    }
    while timer.poll(LATER, |_| ()).more {}
    // 16 bytes per entry, less what the lists of free nodes have grown by.
    let given_back = before.saturating_sub(timer.held_bytes());
    assert!(
        given_back > TIMERS * 8,
        "only {given_back} bytes given back after {polls} polls"
    );
    assert_eq!(
        timer.poll_timeout(LATER),
        None,
        "nothing is left to wait for"
    );
}

/// Memory of a burst is kept for a second, for which the loop wakes up once.
#[test]
fn a_loop_wakes_once_to_give_the_memory_of_a_burst_back() {
    const TIMERS: usize = 200_000;
    for remotely in [true, false] {
        let (mut timer, ..) = manual();
        let remote = timer.remote();
        for n in 0..TIMERS {
            if remotely {
                _ = remote.schedule(MS, n as u64).unwrap();
            } else {
                _ = timer.schedule(Time::ZERO, MS, n as u64).unwrap();
            }
        }
        let mut now = Time::ZERO + MS;
        while timer.poll(now, |_| ()).more {}
        let full = timer.held_bytes();
        let (mut sleeps, end) = (0, now + 3 * SECOND);
        while let Some(timeout) = timer.poll_timeout(now) {
            sleeps += usize::from(!timeout.is_zero());
            now += timeout;
            timer.poll(now, |_| panic!("nothing is due"));
        }
        assert!(now <= end && sleeps == 1, "{sleeps} sleeps until {now:?}");
        if !remotely {
            assert!(timer.held_bytes() + (1 << 20) < full, "the wheel's goes");
            timer.shrink_to_fit();
        }
        let left = timer.held_bytes();
        // Only Linux takes the memory of shared nodes as well.
        let most = if cfg!(target_os = "linux") || !remotely {
            full / 2
        } else {
            full - (1 << 20)
        };
        assert!(left < most, "{left} of {full} bytes are left");
    }
}

/// A burst that repeats twice a second finds the memory of the one before.
#[test]
fn a_burst_that_repeats_keeps_its_memory() {
    const TIMERS: usize = 200_000;
    let (mut timer, ..) = manual();
    let (mut now, mut held) = (Time::ZERO, Vec::new());
    for _ in 0..10 {
        for n in 0..TIMERS {
            timer.schedule(now, MS, n as u64).unwrap();
        }
        now += MS;
        while timer.poll(now, |_| ()).more {}
        now += 499 * MS;
        assert!(!timer.poll(now, |_| panic!("nothing is due")).more);
        held.push(timer.held_bytes());
    }
    assert_eq!(held[1..].iter().min(), held[1..].iter().max());
}

/// Neither living timers alone nor the end of a burst beside them leave a loop with work for long.
#[test]
fn living_timers_make_no_sweep_and_a_trim_makes_one() {
    const BURST: usize = 150_000;
    const ALIVE: usize = 20_000;
    const PIECE: usize = 512;
    let mut timer: EventLoopTimer<usize> = EventLoopTimer::with_waker(
        Settings::new()
            .clock(ManualClock::new())
            .budget(Budget::new().sweep(PIECE)),
        || (),
    )
    .unwrap();
    let keys: Vec<_> = (0..BURST)
        .map(|n| timer.schedule(Time::ZERO, HOUR, n).unwrap())
        .collect();
    assert!(!timer.poll(Time::ZERO, |_| ()).more, "all are alive");
    assert!(keys[ALIVE..].iter().all(|key| timer.cancel(*key).is_won()));
    let mut polls = 1;
    while timer.poll(Time::ZERO, |_| ()).more {
        polls += 1;
    }
    // Nodes are gathered, released and sorted; entries are swept as too many, and once more.
    assert!(polls < 6 * BURST / PIECE, "{polls} polls");
}

/// A loop that seldom polls files much at a time. If it swept by its budget alone, zombies would gather.
#[test]
fn a_loop_that_seldom_polls_sweeps_as_fast_as_it_files() {
    const BATCH: usize = 20_000;
    let mut timer: EventLoopTimer<usize> = EventLoopTimer::with_waker(
        Settings::new()
            .clock(ManualClock::new())
            .budget(Budget::new().sweep(64)),
        || (),
    )
    .unwrap();
    let remote = timer.remote();
    let mut held = Vec::new();
    for _ in 0..40 {
        let keys: Vec<_> = (0..BATCH)
            .map(|n| remote.schedule(HOUR, n).unwrap())
            .collect();
        // One poll files them all.
        timer.poll(Time::ZERO, |_| ());
        assert!(keys.iter().all(|key| remote.cancel(*key).is_won()));
        held.push(timer.held_bytes());
    }
    // What is pending at most, the constant, and a third more, at 16 bytes each, with the pool's reserve.
    let most = held[0] + 3 * BATCH * 16 + (1 << 20);
    assert!(
        *held.iter().max().unwrap() <= most,
        "{most} bytes are allowed: {held:?}"
    );
}

/// A loop that moves its own timer to and fro for long without a poll: near deadlines and far ones.
#[test]
fn own_moves_between_two_polls_leave_a_bounded_number_of_entries() {
    for near in [MS, HOUR] {
        let (mut timer, ..) = manual();
        let key = timer.schedule(Time::ZERO, 2 * near, 7).unwrap();
        timer.poll(Time::ZERO, |_| ());
        let idle = timer.held_bytes();
        for n in 0..300_000 {
            let delay = if n % 2 == 0 { near } else { 2 * near };
            assert!(timer.reschedule(Time::ZERO, key, delay).is_moved());
        }
        timer.poll(Time::ZERO, |_| panic!("nothing is due"));
        let held = timer.held_bytes();
        assert!(held < idle + (1 << 20), "{idle} bytes, then {held}");
        assert_eq!(fire_all(&mut timer, Time::ZERO + 2 * near), [7]);
    }
}

/// A look at the zombies has a turn follow it.
#[test]
fn a_few_moves_ask_for_no_turn() {
    let (mut timer, ..) = manual();
    let key = timer.schedule(Time::ZERO, 2 * HOUR, 7).unwrap();
    timer.poll(Time::ZERO, |_| ());
    let turns = timer.stats().turns;
    for n in 1..=100 {
        let delay = 2 * HOUR - n * SECOND;
        assert!(timer.reschedule(Time::ZERO, key, delay).is_moved());
        timer.poll(Time::ZERO, |_| panic!("nothing is due"));
    }
    assert_eq!(timer.stats().turns, turns);
}

/// A remote that moves a timer to an earlier deadline cancels none, and asks for no look at the zombies.
#[test]
fn moves_of_remotes_leave_a_bounded_number_of_entries() {
    const TIMERS: u64 = 20_000;
    let (mut timer, clock, _) = manual();
    let (remote, now) = (timer.remote(), clock.advance(MS));
    let keys: Vec<_> = (0..TIMERS)
        .map(|n| remote.schedule(HOUR, n).unwrap())
        .collect();
    timer.poll(now, |_| panic!("nothing is due"));
    for round in 1..20 {
        // Few enough that the loop need not read them before one is due.
        let moved = &keys[round % 2 * keys.len() / 2..][..keys.len() / 2];
        let move_to = |key: &_| remote.reschedule(*key, HOUR - MS * round as u32).is_moved();
        assert!(moved.iter().all(move_to));
        remote.schedule(Duration::ZERO, TIMERS).unwrap();
        assert_eq!(fire_all(&mut timer, now), [TIMERS]);
        let zombies = timer.stats().zombies;
        // Twice as many as are pending, and what comes between two looks at the bound.
        assert!(zombies <= 3 * TIMERS + 16 * 1024, "{zombies} zombies");
    }
}

#[test]
fn closures_of_a_loop_and_of_its_remotes_run_in_order() {
    let (mut timer, clock, wakes) = manual::<TimerTask>();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u32| {
        let ran = Arc::clone(&ran);
        move || ran.lock().unwrap().push(number)
    };
    let remote = timer.remote();
    timer.run_after(Time::ZERO, 2 * MS, note(2)).unwrap();
    let cancelled = timer.run_after(Time::ZERO, 2 * MS, note(9)).unwrap();
    assert_eq!(timer.poll_timeout(Time::ZERO), Some(2 * MS));
    assert_eq!(timer.poll_timeout_ms(Time::ZERO), 2);
    remote.run_after(MS, note(1)).unwrap();
    remote.schedule(3 * MS, note(3).into()).unwrap();
    assert!(timer.cancel(cancelled).is_won());
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    assert!(fire_all(&mut timer, Time::ZERO).is_empty());
    for number in 1..=3 {
        let due = fire_all(&mut timer, clock.advance(MS));
        due.into_iter().for_each(TimerTask::run);
        assert!(ran.lock().unwrap().iter().copied().eq(1..=number));
    }
}

#[test]
fn a_remote_names_a_time_before_it_is_rounded_to_a_tick() {
    let (timer, clock, _) = manual::<u64>();
    clock.advance(MS / 2);
    let (remote, now) = (timer.remote(), Time::ZERO + MS / 2);
    assert_eq!(remote.time_of(MS), now + MS);
    assert_eq!(remote.time_of(now + HOUR), now + HOUR);
    let key = remote.schedule(MS, 7).unwrap();
    assert_eq!(remote.deadline(key), Some(Time::ZERO + 2 * MS));
}

#[test]
fn moves_of_a_loop_and_of_its_remotes_are_counted() {
    let (mut timer, ..) = manual();
    let remote = timer.remote();
    let own = timer.schedule(Time::ZERO, HOUR, 7).unwrap();
    let theirs = remote.schedule(HOUR, 7).unwrap();
    for to in [2 * HOUR, 3 * HOUR, MS, 2 * MS] {
        assert!(timer.reschedule(Time::ZERO, own, to).is_moved());
        assert!(timer.reschedule(Time::ZERO, theirs, to).is_moved());
    }
    assert!(remote.reschedule(theirs, HOUR).is_moved());
    for stats in [timer.stats(), remote.stats()] {
        assert_eq!(
            (stats.shard, stats.rescheduled),
            (0, 9),
            "a loop has one shard"
        );
    }
}

/// As keys of a map, or in somebody's own struct.
#[test]
fn keys_of_remotes_are_equal_ordered_and_hashed_by_the_timers_they_name() {
    let (timer, ..) = manual();
    let remote = timer.remote();
    let keys = [7, 8, 9].map(|payload| remote.schedule(HOUR, payload).unwrap());
    let hash_of = |key| BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    for (at, one) in keys.into_iter().enumerate() {
        for (other_at, other) in keys.into_iter().enumerate() {
            assert_eq!(one == other, at == other_at);
            assert_eq!(hash_of(one) == hash_of(other), at == other_at);
            let order = Key::from(one).cmp(&Key::from(other));
            assert_eq!(
                (one.cmp(&other), one.partial_cmp(&other)),
                (order, Some(order))
            );
        }
    }
}

/// What dies in the log, or in what waits for the next poll, goes without having come due.
#[test]
fn zombies_that_go_before_they_come_due_are_counted() {
    const MANY: u64 = 20_000;
    for delay in [HOUR, Duration::ZERO] {
        let (mut timer, ..) = manual();
        timer.schedule(Time::ZERO, Duration::ZERO, 0).unwrap();
        timer.poll_with(Time::ZERO, |timer, _| {
            for n in 0..MANY {
                let key = timer.schedule(Time::ZERO, delay, n).unwrap();
                assert!(timer.cancel(key).is_won());
            }
        });
        let stats = timer.stats();
        assert_eq!(stats.swept + stats.entries, MANY, "{stats:?}");
        assert!(stats.swept > MANY / 2, "{stats:?}");
    }
}

/// A regression: a fire lowers the bound, and nobody looked at it.
/// That it was told alone is over when there is a remote.
#[test]
fn a_remote_wakes_a_sleep_during_which_a_sweep_has_begun() {
    let (mut timer, clock, wakes) = manual();
    let now = clock.now();
    let keys: Vec<_> = (0..100_000)
        .map(|id| timer.schedule(now, HOUR, id).unwrap())
        .collect();
    while timer.poll(now, |_| ()).more {}
    assert!(timer.poll_timeout(now) > Some(Duration::ZERO));
    let mut victims = keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(4));
    while timer.next_deadline() != Some(Time::ZERO) {
        let victim = victims.next().expect("no sweep begins");
        assert!(timer.cancel(*victim).is_won());
    }
    let remote = timer.remote();
    remote.schedule(MS, 1).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
}

#[test]
fn a_remote_wakes_a_sleep_in_which_all_timers_were_cancelled() {
    let (mut timer, clock, wakes) = manual();
    let now = clock.now();
    for id in 0..100_000 {
        timer.schedule(now, HOUR, id).unwrap();
    }
    while timer.poll(now, |_| ()).more {}
    assert!(timer.poll_timeout(now) > Some(Duration::ZERO));
    timer.clear();
    let remote = timer.remote();
    remote.schedule(MS, 1).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
}

#[test]
fn a_timeout_is_zero_while_messages_are_unread_though_no_timer_is_left_to_fire() {
    let clock = ManualClock::new();
    let settings = Settings::new().budget(Budget::new().drain(1));
    let mut timer: EventLoopTimer<u64> =
        EventLoopTimer::with_waker(settings.clock(clock.clone()), || ()).unwrap();
    let remote = timer.remote();
    for id in 0..1000 {
        remote.schedule(MS, id).unwrap();
    }
    let now = clock.advance(2 * MS);
    let mut due = timer.expired(now);
    assert!(due.by_ref().count() < 1000);
    assert_eq!(due.timer().poll_timeout(now), Some(Duration::ZERO));
    assert_eq!(due.timer().next_deadline(), Some(Time::ZERO));
    assert!(due.finish().more);
}

#[test]
fn zombies_are_bounded_when_the_timers_beside_them_have_fired() {
    const TIMERS: u64 = 200_000;
    let (mut timer, clock, _) = manual();
    let keys: Vec<_> = (0..TIMERS)
        .map(|n| timer.schedule(Time::ZERO, HOUR, n).unwrap())
        .collect();
    timer.poll(Time::ZERO, |_| ());
    let second = 1000 * MS;
    let mut moves = keys
        .iter()
        .map(|key| timer.reschedule(Time::ZERO, *key, second));
    assert!(moves.all(|it| it.is_moved()));
    clock.advance(second);
    assert_eq!(fire_all(&mut timer, clock.now()).len() as u64, TIMERS);
    while timer.poll(clock.now(), |_| ()).more {}
    let stats = timer.stats();
    assert!(stats.zombies <= 48 * 1024, "{stats:?}");
}

#[test]
fn zombies_that_leave_the_log_beside_a_timer_that_is_due_have_not_come_due() {
    let (mut timer, clock, _) = manual();
    let keys = [0; 300].map(|n| timer.schedule(Time::ZERO, HOUR, n).unwrap());
    assert!(keys.into_iter().all(|key| timer.cancel(key).is_won()));
    timer.schedule(Time::ZERO, 100 * MS, 300).unwrap();
    clock.advance(100 * MS);
    assert_eq!(fire_all(&mut timer, clock.now()), [300]);
    let stats = timer.stats();
    assert_eq!((stats.swept, stats.dropped), (300, 0), "{stats:?}");
}

/// A regression: they were told when next the number of entries differed.
#[test]
fn zombies_that_are_dropped_while_as_many_timers_come_are_counted() {
    let (mut timer, clock, _) = manual();
    let keys = [0; 5].map(|n| timer.schedule(Time::ZERO, 10 * MS, n).unwrap());
    timer.poll(Time::ZERO, |_| ());
    assert!(keys.into_iter().all(|key| timer.cancel(key).is_won()));
    (0..5).for_each(|n| _ = timer.schedule(Time::ZERO, HOUR, n).unwrap());
    clock.advance(20 * MS);
    timer.poll(clock.now(), |_| ());
    let stats = timer.stats();
    assert_eq!((stats.entries, stats.dropped), (5, 5), "{stats:?}");
}

#[test]
fn entries_that_a_poll_has_left_half_way_are_counted() {
    let (mut timer, ..) = manual();
    (0..5).for_each(|n| _ = timer.schedule(Time::ZERO, Duration::ZERO, n).unwrap());
    assert!(timer.expired(Time::ZERO).next().is_some());
    assert_eq!(timer.stats().entries, 4);
}

/// A regression: in a log that was full and from which only the dead left, it went past an older one.
#[test]
fn an_arrival_whose_tick_has_come_fires_behind_older_ones_of_that_tick() {
    let (mut timer, clock, _) = manual();
    let (soon, far) = (Duration::from_millis(100), Duration::from_secs(9));
    timer.schedule(timer.now(), soon, 0).unwrap();
    // As many as a log has places at first.
    let keys: Vec<_> = (1..512)
        .map(|n| timer.schedule(timer.now(), far, n).unwrap())
        .collect();
    assert!(keys.into_iter().all(|key| timer.cancel(key).is_won()));
    timer.remote().schedule(soon, 512).unwrap();
    clock.advance(2 * soon);
    let now = timer.now();
    assert_eq!(fire_all(&mut timer, now), [0, 512]);
}

/// A poll that reads a part of the messages knows nothing of the rest, so the lag counts from what it knew first.
#[test]
fn the_lag_stays_while_polls_read_only_a_part_of_the_messages() {
    let clock = ManualClock::new();
    let settings = Settings::new().clock(clock.clone());
    let mut timer =
        EventLoopTimer::with_waker(settings.budget(Budget::new().drain(4)), || ()).unwrap();
    let remote = timer.remote();
    remote.schedule(MS, 1).unwrap();
    (0..20).for_each(|_| _ = remote.schedule(HOUR, 0).unwrap());
    remote.schedule(2 * MS, 2).unwrap();
    clock.advance(100 * MS);
    let (mut fired, mut partial) = (Vec::new(), 0);
    while timer.poll(clock.now(), |due| fired.push(due.payload)).more {
        if !fired.contains(&2) {
            partial += 1;
            assert!(timer.stats().lag >= 98 * MS, "{partial} polls");
        }
    }
    assert!(partial > 2);
    assert_eq!((fired, timer.stats().lag), (vec![1, 2], Duration::ZERO));
}
