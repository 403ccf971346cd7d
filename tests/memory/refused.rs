//! No memory for what grows with the number of timers, or for what a timer's own thread files: blocks of the log, chunks
//! of the wheel. The call says so, and all that was accepted lives on.
//!
//! A thread needs memory for its stack, too: a call that cannot start one says so, or its shard fails.
//!
//! Each test has a process of its own: the limit on mappings is the process's, and while one test refuses memory, no
//! other test's thread may begin.

use crate::allocator::{refusing_from, refusing_pieces_from};
use crate::children::in_a_process_of_its_own;
use crate::support::loop_timer::LoopTimer;
use crate::support::random::Random;
use crate::support::setup::{ms, one_shard, rate, secs, spread};
use crate::{by_hand, engine, holds_soon};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::__internal::{Entry, Rings};
use tickwheel::{
    Builder, EngineState, EventLoopTimer, Expired, Key, LocalTimer, ManualClock, Pinning,
    ScheduleError, ScheduleErrorKind, Settings, Shutdown, StartError, SystemError, Time, Timer,
};

const DELAY: Duration = secs(1);
/// What a thread may have at a time: a block of the inbox. A table of a few hundred timers grows by more.
const BLOCK: usize = 12 * 1024;
/// The wheels grow by 16 KiB and more at a time, the log by 8 KiB.
const LESS_THAN_ENTRIES_NEED: [usize; 3] = [1, 1024, 8 * 1024];
/// More timers than a test schedules until some are refused.
const MOST: u64 = 20_000;
/// Later than any of them.
const END: Time = Time::from_nanos(1 << 60);

type Scheduled = Result<Key<u64>, ScheduleError<u64>>;

/// Schedules timers, farther and farther away, until there is no memory, and then with memory again; how many were
/// accepted.
fn until_refused(
    mut schedule: impl FnMut(Duration, u64) -> Scheduled,
    before: u64,
    allowed: usize,
) -> usize {
    (0..before).for_each(|n| _ = schedule(ms(n * 7), n).unwrap());
    let (mut accepted, mut refused) = (before as usize, 0);
    refusing_from(allowed, || {
        for n in before..MOST {
            match schedule(ms(n * 7), n) {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert!(is_out_of_memory(&error, n), "{error}");
                    refused += 1;
                }
            }
            if refused == 20 {
                break;
            }
        }
    });
    assert_eq!(refused, 20, "of {accepted}");
    // With memory again, it grows.
    (0..500).for_each(|n| _ = schedule(ms(n), n).unwrap());
    accepted + 500
}

#[test]
fn a_timer_for_which_there_is_no_memory_comes_back() {
    if in_a_process_of_its_own(a_timer_for_which_there_is_no_memory_comes_back, &[]) {
        return;
    }
    type Schedule = fn(&Timer<u64>, Duration, u64) -> Scheduled;
    let once: Schedule = |timer, delay, n| timer.schedule(delay, n);
    let handles: Schedule =
        |timer, delay, n| timer.schedule_handle(delay, n).map(|held| held.detach());
    let again: Schedule = |timer, delay, n| timer.schedule_periodic(delay, rate(DELAY), n);
    for schedule in [once, handles, again] {
        for before in [1, 100, 1000, 3000] {
            let clock = ManualClock::new();
            let timer = engine(&clock);
            let accepted = until_refused(|delay, n| schedule(&timer, delay, n), before, BLOCK);
            assert_eq!(timer.pending(), accepted, "refused ones do not count");
            clock.set(END);
            let turns = std::iter::repeat_with(|| timer.turn().unwrap());
            assert_eq!(
                turns.take_while(|fired| *fired > 0).sum::<usize>(),
                accepted
            );
        }
    }
}

/// A refused timer has taken a node's number. Were it not given back, each refusal would use one up.
#[test]
fn refused_timers_use_up_no_nodes() {
    if in_a_process_of_its_own(refused_timers_use_up_no_nodes, &[]) {
        return;
    }
    let clock = ManualClock::new();
    let timer = engine(&clock);
    let (mut accepted, mut refused) = (0, 0);
    let mut schedule = || match timer.schedule(DELAY, 0) {
        Ok(key) => accepted = key.to_raw().to_bits() as u32,
        Err(error) => {
            assert!(is_out_of_memory(&error, 0), "{error}");
            refused += 1;
        }
    };
    (0..1000).for_each(|_| schedule());
    refusing_from(BLOCK, || (0..MOST).for_each(|_| schedule()));
    schedule();
    let (highest, pending) = (accepted as usize, timer.pending());
    assert!(refused > 1000, "{refused} refused, {pending} pending");
    assert!(highest < pending + 200, "node {highest} of {pending}");
}

/// A refused timer has taken a permit as well, before it has found no place for its message, or no node.
#[test]
fn refused_timers_use_up_no_permits() {
    if in_a_process_of_its_own(refused_timers_use_up_no_permits, &[]) {
        return;
    }
    const LIMIT: usize = 30_000;
    for (allowed, before) in [1, BLOCK]
        .into_iter()
        .flat_map(|allowed| [1, 100, 1000, 3000].map(|before| (allowed, before)))
    {
        let clock = ManualClock::new();
        let builder = by_hand(&clock).max_pending(LIMIT);
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        let schedule = |delay, n| timer.schedule(delay, n);
        let accepted = until_refused(schedule, before, allowed);
        (accepted..LIMIT).for_each(|_| _ = schedule(DELAY, 0).unwrap());
        let full = schedule(DELAY, 0).unwrap_err();
        assert!(matches!(
            full.kind(),
            ScheduleErrorKind::TooManyPending { .. }
        ));
    }
}

/// Neither where a node is missing nor where the entry finds no place.
#[test]
fn refused_timers_of_a_loop_use_up_no_permits() {
    if in_a_process_of_its_own(refused_timers_of_a_loop_use_up_no_permits, &[]) {
        return;
    }
    const LIMIT: usize = 30_000;
    for (allowed, before) in [1, BLOCK]
        .into_iter()
        .flat_map(|allowed| [1, 100, 1000, 3000].map(|before| (allowed, before)))
    {
        let settings = Settings::new().clock(ManualClock::new()).max_pending(LIMIT);
        let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
        let schedule = |delay, n| timer.schedule(Time::ZERO, delay, n);
        let accepted = until_refused(schedule, before, allowed);
        let mut schedule = || timer.schedule(Time::ZERO, DELAY, 0);
        (accepted..LIMIT).for_each(|_| _ = schedule().unwrap());
        let full = schedule().unwrap_err();
        assert!(matches!(
            full.kind(),
            ScheduleErrorKind::TooManyPending { .. }
        ));
    }
}

/// Schedules timers of a front until there is no memory; what was accepted fires in the end.
fn comes_back<L: LoopTimer<Payload = u64>>(
    timer: &mut L,
    schedule: impl Fn(&mut L, Duration, u64) -> Scheduled,
    before: u64,
    allowed: usize,
) -> usize {
    let accepted = until_refused(|delay, n| schedule(timer, delay, n), before, allowed);
    fire_all(timer, accepted);
    accepted
}

fn fire_all(timer: &mut impl LoopTimer<Payload = u64>, accepted: usize) {
    assert_eq!(timer.pending(), accepted, "refused ones do not count");
    let mut fired = 0;
    while timer.poll(END, |_| fired += 1).more {}
    assert_eq!((fired, timer.pending()), (accepted, 0));
}

/// Timers before the first refusal, and bytes that are allowed at a time, where there is room for the timers, and none
/// for their entries.
fn without_entries() -> impl Iterator<Item = (u64, usize)> {
    LESS_THAN_ENTRIES_NEED
        .into_iter()
        .flat_map(|allowed| [(0, allowed), (5_000, allowed)])
}

#[test]
fn a_timer_of_one_thread_for_which_there_is_no_memory_comes_back() {
    if in_a_process_of_its_own(
        a_timer_of_one_thread_for_which_there_is_no_memory_comes_back,
        &[],
    ) {
        return;
    }
    let no_table = [1, 100, 1000].map(|before| (0, (before, 4096)));
    let no_entry = without_entries().map(|case| (MOST as usize + 2000, case));
    for (capacity, (before, allowed)) in no_table.into_iter().chain(no_entry) {
        let mut timer = Settings::new().capacity(capacity).build_local().unwrap();
        let schedule = |timer: &mut LocalTimer<_>, delay, n| timer.schedule(Time::ZERO, delay, n);
        comes_back(&mut timer, schedule, before, allowed);
    }
}

/// While there is no block for the log, far timers go to the wheel, but not past those that lie in the log.
#[test]
fn a_timer_for_which_the_log_has_no_memory_overtakes_none() {
    if in_a_process_of_its_own(a_timer_for_which_the_log_has_no_memory_overtakes_none, &[]) {
        return;
    }
    let mut timer = Settings::new().capacity(10_000).build_local().unwrap();
    let mut schedule = |delay, n| timer.schedule(Time::ZERO, delay, n);
    // What is due so soon goes past the log: there is a chunk of it, and room for more.
    schedule(ms(1), 0).unwrap();
    let (far, is_full) = refusing_from(1, || {
        let far = schedule(DELAY, 1).is_ok();
        // Until there is room only in chunks that have been begun.
        (far, (0..10_000).any(|_| schedule(ms(1), 0).is_err()))
    });
    assert!(far && is_full);
    // As many as a block of the log has places; the first will find no chunk in the wheel.
    schedule(2 * DELAY, 0).unwrap();
    (2..=512).for_each(|n| _ = schedule(DELAY, n).unwrap());
    let last = refusing_from(1, || schedule(DELAY, 513));
    assert!(is_out_of_memory(&last.unwrap_err(), 513));
    let (mut fired, end) = (Vec::new(), Time::ZERO + DELAY);
    while timer.poll(end, |it| fired.push(it.payload)).more {}
    fired.retain(|n| *n > 0);
    assert!(fired.into_iter().eq(1..=512));
    // With room in the wheel, what lies in the log makes place for the next one.
    let mut timer = Settings::new().capacity(10_000).build_local().unwrap();
    timer.schedule(Time::ZERO, ms(1), 0).unwrap();
    (1..=512).for_each(|n| _ = timer.schedule(Time::ZERO, DELAY, n).unwrap());
    let next = refusing_from(1, || timer.schedule(Time::ZERO, DELAY, 513).is_ok());
    assert!(next);
    let mut fired = Vec::new();
    while timer.poll(end, |it| fired.push(it.payload)).more {}
    assert!(fired.into_iter().eq(0..=513));
    // A timer that goes to the wheel in place of the log is known as the next one.
    let mut timer = Settings::new().capacity(10).build_local().unwrap();
    timer.schedule(Time::ZERO, ms(1), 0).unwrap();
    assert_eq!(timer.poll(Time::ZERO + ms(1), |_| ()).fired, 1);
    let far = refusing_from(1, || timer.schedule(Time::ZERO, DELAY, 1).is_ok());
    assert!(far);
    assert_eq!(timer.next_deadline(), Some(end));
}

#[test]
fn an_event_loops_timer_whose_entry_finds_no_room_comes_back() {
    if in_a_process_of_its_own(
        an_event_loops_timer_whose_entry_finds_no_room_comes_back,
        &[],
    ) {
        return;
    }
    for (before, allowed) in without_entries() {
        let builder = Settings::new().max_pending(MOST as usize + 2000);
        let mut timer =
            EventLoopTimer::with_waker(builder.clock(ManualClock::new()), || ()).unwrap();
        timer.reserve(MOST as usize + 2000);
        let schedule =
            |timer: &mut EventLoopTimer<_>, delay, n| timer.schedule(Time::ZERO, delay, n);
        let accepted = comes_back(&mut timer, schedule, before, allowed);
        assert_eq!(timer.stats().scheduled, accepted as u64);
        // Every permit is back.
        let again = |n| timer.schedule(Time::ZERO, DELAY, n).is_ok();
        assert_eq!(
            (0..MOST + 3000).map(again).filter(|ok| *ok).count() as u64,
            MOST + 2000
        );
    }
}

/// A node's number without memory must not hide the nodes that are free.
#[test]
fn free_nodes_serve_where_there_is_no_memory_for_more() {
    if in_a_process_of_its_own(free_nodes_serve_where_there_is_no_memory_for_more, &[]) {
        return;
    }
    let clock = ManualClock::new();
    let timer = engine(&clock);
    let schedule = |n| timer.schedule(DELAY, n).is_ok();
    // The first segments, of magazines for one.
    assert!(schedule(0));
    let accepted = 1 + refusing_from(BLOCK, || (1..MOST).take_while(|n| schedule(*n)).count());
    assert!((300..600).contains(&accepted), "{accepted}");
    clock.advance(2 * DELAY);
    // With memory for the magazines of all of them; the owner keeps two.
    assert_eq!(timer.turn(), Ok(accepted));
    let again = refusing_from(BLOCK, || (0..100).filter(|n| schedule(*n)).count());
    assert_eq!(again, 100);
}

/// A tick: overdue, recent, near and far ones, and one that never fires.
fn tick(random: &mut Random, hand: u64) -> u64 {
    let far = 7 + 7 * random.below(7);
    match random.below(6) {
        0 => random.below(hand + 1),
        1 => hand + 1 + random.below(64),
        2 => u64::MAX,
        _ => hand + random.below(1 << far),
    }
}

/// What a wheel refuses has left no trace in it, and what it has accepted comes out in time.
fn refused_by(mut rings: Rings, seed: u64) {
    let mut random = Random::new(seed);
    let (mut filed, mut due, mut refused) = (Vec::new(), Vec::with_capacity(100_000), 0);
    let mut changed = None;
    filed.reserve(100_000);
    for round in 0..40 {
        let allowed = [1, 2000, usize::MAX][random.below(3) as usize];
        let count = random.below(1000);
        refusing_from(allowed, || {
            for _ in 0..count {
                let deadline = tick(&mut random, rings.hand());
                let entry = Entry {
                    deadline,
                    index: filed.len() as u32,
                    mark: 7,
                };
                let before = (rings.len(), rings.earliest(), rings.held_bytes());
                if rings.try_insert(entry) {
                    filed.push(entry);
                } else {
                    refused += 1;
                    let after = (rings.len(), rings.earliest(), rings.held_bytes());
                    if before != after || allowed == usize::MAX {
                        changed = Some((before, after));
                    }
                }
            }
        });
        // Not in there, where a panic has no memory either.
        assert_eq!(changed, None);
        if round % 4 == 3 {
            let far = 3 * random.below(9);
            let to = rings.hand() + random.below(1 << far);
            while rings.advance(to, 100, &mut due).is_none() {}
            assert!(due.iter().all(|entry| entry.deadline <= to));
            assert!(rings.earliest().is_none_or(|next| next > to));
        }
    }
    assert!(
        refused > 300 && filed.len() > 3000,
        "{refused} refused, {} filed",
        filed.len()
    );
    while rings.advance(u64::MAX, 1000, &mut due).is_none() {}
    while rings.has_backlog() {
        rings.take_backlog(1000, &mut due);
    }
    assert_eq!(rings.len(), 0);
    due.sort_unstable_by_key(|entry| entry.index);
    assert_eq!(due, filed);
}

#[test]
fn a_wheel_that_refuses_an_entry_stays_as_it_was() {
    if in_a_process_of_its_own(a_wheel_that_refuses_an_entry_stays_as_it_was, &[]) {
        return;
    }
    for seed in 0..4 {
        refused_by(Rings::new(), seed);
    }
}

fn is_out_of_memory(refused: &ScheduleError<u64>, payload: u64) -> bool {
    refused.kind() == &ScheduleErrorKind::OutOfMemory && *refused.payload() == payload
}

/// Neither for the box of what it repeats, nor, where there is one, for its entry.
#[test]
fn a_periodic_timer_for_which_there_is_no_memory_comes_back() {
    if in_a_process_of_its_own(
        a_periodic_timer_for_which_there_is_no_memory_comes_back,
        &[],
    ) {
        return;
    }
    let (period, clock) = (rate(DELAY), ManualClock::new());
    let engine = engine(&clock);
    let mut local = Settings::new().capacity(10).build_local().unwrap();
    let mut of_a_loop =
        EventLoopTimer::with_waker(Settings::new().clock(clock.clone()), || ()).unwrap();
    // Nodes that are free.
    assert!(engine.cancel(engine.schedule(DELAY, 0).unwrap()).is_won());
    of_a_loop.reserve(2000);
    // The loop's wheel has no chunk left: each of these needs one.
    let is_full = refusing_from(1, || {
        (1..2000).any(|n| {
            let far = of_a_loop.schedule(Time::ZERO, ms(n * 65_537), 0);
            far.is_err_and(|error| is_out_of_memory(&error, 0))
        })
    });
    let full = of_a_loop.pending();
    assert!(is_full && full > 100);
    for allowed in [1, 2000] {
        let [in_engine, in_local, in_loop] = refusing_from(allowed, || {
            [
                engine.schedule_periodic(DELAY, period, 7),
                local.schedule_periodic(Time::ZERO, DELAY, period, 8),
                of_a_loop.schedule_periodic(Time::ZERO, DELAY, period, 9),
            ]
        });
        assert!(is_out_of_memory(&in_local.unwrap_err(), 8));
        assert!(is_out_of_memory(&in_loop.unwrap_err(), 9));
        match in_engine {
            Err(error) => assert!(allowed == 1 && is_out_of_memory(&error, 7)),
            // Its entry is made by its worker, later.
            Ok(key) => assert!(allowed > 1 && engine.cancel(key).is_won()),
        }
    }
    assert_eq!(
        (engine.pending(), local.pending(), of_a_loop.pending()),
        (0, 0, full)
    );
    of_a_loop.clear();
    engine.schedule_periodic(DELAY, period, 7).unwrap();
    local
        .schedule_periodic(Time::ZERO, DELAY, period, 8)
        .unwrap();
    of_a_loop
        .schedule_periodic(Time::ZERO, DELAY, period, 9)
        .unwrap();
    let now = clock.advance(DELAY);
    let polled = [local.poll(now, |_| ()), of_a_loop.poll(now, |_| ())];
    assert_eq!(
        (engine.turn(), polled.map(|polled| polled.fired)),
        (Ok(1), [1, 1])
    );
}

#[test]
fn room_for_which_there_is_no_memory_is_not_made() {
    if in_a_process_of_its_own(room_for_which_there_is_no_memory_is_not_made, &[]) {
        return;
    }
    let (most, all) = (1 << 20, usize::MAX);
    refusing_from(most, || {
        let mut local = LocalTimer::with_capacity(ms(1), all).unwrap();
        let mut built = Settings::new().capacity(all).build_local().unwrap();
        local.reserve(all);
        for n in 0..100 {
            local.schedule(Time::ZERO, DELAY, n).unwrap();
            built.schedule(Time::ZERO, DELAY, n).unwrap();
        }
        // There is memory for a part of what so many timers need, which would be held in vain.
        let held = local.held_bytes();
        local.reserve(100_000);
        assert_eq!(local.held_bytes(), held);
    });
}

/// The places of the first 64 threads come with the shard, those of later ones when they are needed.
#[test]
fn a_thread_without_a_place_gets_its_timer_back() {
    if in_a_process_of_its_own(a_thread_without_a_place_gets_its_timer_back, &[]) {
        return;
    }
    const THREADS: usize = 70;
    let clock = ManualClock::new();
    let [elsewhere, timer] = [engine(&clock), engine(&clock)];
    // Without a place for where a thread is at home, it has none of its own there either.
    let shared = by_hand(&clock).shards(3).build_with(|_: Expired<u64>| ());
    let shared = shared.unwrap();
    // Free nodes for everybody.
    let keys: Vec<_> = (0..20_000)
        .map(|n| timer.schedule(DELAY, n).unwrap())
        .collect();
    assert!(keys.iter().all(|key| timer.cancel(*key).is_won()));
    let (gate, refused) = (Barrier::new(THREADS), AtomicUsize::new(0));
    // The limit on mappings is the process's.
    let one_by_one = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // What the thread needs once, wherever it goes.
                elsewhere.schedule(DELAY, 0).unwrap();
                gate.wait();
                let turn = one_by_one.lock().unwrap();
                let answer = refusing_from(BLOCK, || timer.schedule(DELAY, 7));
                _ = refusing_from(1024, || shared.schedule(DELAY, 7).is_ok());
                drop(turn);
                if let Err(error) = answer {
                    assert!(is_out_of_memory(&error, 7), "{error}");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                gate.wait();
                timer.schedule(DELAY, 8).unwrap();
            });
        }
    });
    let refused = refused.into_inner();
    assert!(
        (6..20).contains(&refused),
        "{refused} threads have no place"
    );
    assert_eq!(timer.pending(), 2 * THREADS - refused);
    clock.advance(DELAY);
    assert_eq!(timer.turn(), Ok(2 * THREADS - refused));
}

/// The epoch behind an inbox has no way to say that there is no memory: for the place of a thread that comes there for
/// the first time, and for what it retires.
#[test]
fn an_inbox_asks_no_memory_of_its_epoch_that_is_not_there() {
    if in_a_process_of_its_own(an_inbox_asks_no_memory_of_its_epoch_that_is_not_there, &[]) {
        return;
    }
    let clock = ManualClock::new();
    let [timer, elsewhere] = [engine(&clock), engine(&clock)];
    // Free nodes for everybody, and blocks that are read and not retired yet.
    (0..40_000).for_each(|n| _ = timer.schedule(Duration::ZERO, n).unwrap());
    while timer.turn().unwrap() > 0 {}
    let out_of_memory = || {
        let mut refused = (0..MOST).filter_map(|n| Some((timer.schedule(DELAY, n).err()?, n)));
        refusing_from(1024, || refused.next()).is_some_and(|(error, n)| is_out_of_memory(&error, n))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What the thread needs once, wherever it goes.
            elsewhere.schedule(DELAY, 0).unwrap();
            assert!(out_of_memory(), "it has no place");
        });
    });
    assert!(out_of_memory(), "it retires nothing");
    timer.schedule(DELAY, 0).unwrap();
}

/// What answers no error finds its place among those that the build has made.
#[test]
fn calls_that_return_no_error_need_no_memory() {
    if in_a_process_of_its_own(calls_that_return_no_error_need_no_memory, &[]) {
        return;
    }
    let clock = ManualClock::new();
    let [timer, elsewhere] = [engine(&clock), engine(&clock)];
    let mut events = EventLoopTimer::<u64>::with_waker(Settings::new(), || ()).unwrap();
    let remote = events.remote();
    // What the thread needs once, wherever it goes.
    let key = elsewhere.schedule(DELAY, 0).unwrap();
    let another = EventLoopTimer::with_waker(Settings::new(), || ()).unwrap();
    let theirs = another.remote().schedule(DELAY, 0).unwrap();
    let refused = refusing_from(1024, || {
        assert!(!timer.cancel(key).is_won() && !timer.reschedule(key, DELAY).is_moved());
        assert!(!remote.cancel(theirs).is_won() && !remote.reschedule(theirs, DELAY).is_moved());
        timer.schedule(DELAY, 7).unwrap_err()
    });
    assert!(is_out_of_memory(&refused, 7));
    assert_eq!(events.poll(Time::ZERO, |_| ()).fired, 0);

    let closures: Timer = by_hand(&clock).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let polled = refusing_from(1024, || closures.sleep(DELAY).poll_sleep(&mut cx));
    let Poll::Ready(Err(error)) = polled else {
        panic!("the sleep has a timer")
    };
    assert_eq!(error.kind(), &ScheduleErrorKind::OutOfMemory);
    // What a turn gathers to wake has its room, too; the wheel's is there from the timers before, and so is the block.
    (0..100).for_each(|_| _ = closures.run_after(DELAY, || ()).unwrap());
    clock.advance(DELAY);
    assert_eq!(closures.turn(), Ok(100));
    let mut sleeps: Vec<_> = (0..40).map(|_| closures.sleep(DELAY)).collect();
    sleeps
        .iter_mut()
        .for_each(|sleep| assert!(sleep.poll_sleep(&mut cx).is_pending()));
    clock.advance(DELAY);
    assert_eq!(refusing_from(256, || closures.turn()), Ok(40));
}

#[test]
fn a_loop_is_cleared_without_memory() {
    if in_a_process_of_its_own(a_loop_is_cleared_without_memory, &[]) {
        return;
    }
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
    (0..MOST).for_each(|n| _ = timer.schedule(Time::ZERO, DELAY, n).unwrap());
    refusing_from(BLOCK, || timer.clear());
    assert!(timer.is_empty());
}

/// What a handler has scheduled for now leaves a list behind, which the next poll gives back.
#[test]
fn a_poll_after_many_zero_delays_needs_no_large_piece() {
    if in_a_process_of_its_own(a_poll_after_many_zero_delays_needs_no_large_piece, &[]) {
        return;
    }
    let zero_delay = |timer: &mut LocalTimer<_>| timer.schedule(Time::ZERO, Duration::ZERO, ());
    let mut timer = LocalTimer::new(ms(1)).unwrap();
    zero_delay(&mut timer).unwrap();
    timer.poll_with(Time::ZERO, |timer, _| {
        (0..40_000).for_each(|_| _ = zero_delay(timer).unwrap());
    });
    // A segment of the wheel has 64 KiB.
    let polled = refusing_pieces_from(128 * 1024, || timer.poll(Time::ZERO, |_| ()));
    assert!(polled.fired > 0);
}

/// An allocator may need memory for a smaller copy.
#[test]
fn giving_memory_back_needs_none() {
    if in_a_process_of_its_own(giving_memory_back_needs_none, &[]) {
        return;
    }
    let mut local = LocalTimer::new(ms(1)).unwrap();
    let keys = (0..MOST).map(|n| local.schedule(Time::ZERO, DELAY, n).unwrap());
    let keys: Vec<_> = keys.collect();
    let (kept, rest) = keys.split_at(MOST as usize / 2);
    rest.iter()
        .for_each(|key| assert!(local.cancel(*key).is_won()));
    let held = local.held_bytes();
    refusing_from(BLOCK, || local.shrink_to_fit());
    assert!(kept.iter().all(|key| local.is_pending(*key)));
    local.shrink_to_fit();
    assert!(local.held_bytes() < held);
    fire_all(&mut local, kept.len());
}

/// Less than the stack of a thread.
const NO_THREAD: usize = 64 * 1024;

/// Whether a thread finds no memory for its stack within the limit.
fn threads_are_refused() -> bool {
    let spawn = || std::thread::Builder::new().spawn(|| ()).is_err();
    let refused = refusing_from(NO_THREAD, spawn);
    if !refused {
        eprintln!("skipped: the system sets no limit to mappings");
    }
    refused
}

/// The signals that the calling thread blocks, as Linux lists them.
fn blocked_signals() -> Option<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let blocked = status.lines().find(|line| line.starts_with("SigBlk:"));
    blocked.map(str::to_owned)
}

#[cfg(feature = "futures")]
fn a_sleep_tells_the_systems_reason() {
    let timer = one_shard().build().unwrap();
    let mut sleep = timer.sleep(ms(1));
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = refusing_from(NO_THREAD, || sleep.poll_sleep(&mut cx)) else {
        panic!("there was memory for a thread")
    };
    let reason = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    assert!(
        reason.is_some_and(|it| it.raw_os_error().is_some()),
        "{error:?}"
    );
}

#[test]
fn reasons_of_the_system_are_equal_if_kind_and_text_are() {
    let reason = |kind, text: &str| SystemError::from(io::Error::new(kind, text));
    let (full, few) = (ErrorKind::OutOfMemory, ErrorKind::WouldBlock);
    assert_eq!(reason(full, "no stack"), reason(full, "no stack"));
    assert_ne!(reason(full, "no stack"), reason(full, "no thread"));
    assert_ne!(reason(full, "no stack"), reason(few, "no stack"));
}

/// Stacks have two mebibytes here, so the limit has room for the first of two workers, which keeps its thread.
#[test]
fn an_engine_whose_worker_was_refused_can_be_stopped_and_started_again() {
    if in_a_process_of_its_own(
        an_engine_whose_worker_was_refused_can_be_stopped_and_started_again,
        &[("RUST_MIN_STACK", "2097152".as_ref())],
    ) || !threads_are_refused()
    {
        return;
    }
    let without = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
    let own_signals = blocked_signals();
    let start = refusing_from(NO_THREAD, || without.start());
    assert!(matches!(start, Err(StartError::Spawn { shard: 0, .. })));
    assert_eq!(blocked_signals(), own_signals);
    let left = without.shutdown(Shutdown::ReturnUnfired, secs(20));
    assert_eq!(left.unwrap().len(), 0);
    #[cfg(feature = "futures")]
    a_sleep_tells_the_systems_reason();
    let [fired, started] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let add_to = |counter: &Arc<AtomicUsize>| {
        let counter = Arc::clone(counter);
        move || _ = counter.fetch_add(1, Ordering::SeqCst)
    };
    let (count_fired, count_started) = (add_to(&fired), add_to(&started));
    let timer = Builder::new()
        .shards(2)
        .pinning(Pinning::Off)
        .on_worker_start(move |_| count_started())
        .build_with(move |_: Expired<u64>| count_fired())
        .unwrap();
    let refused = refusing_from(3 << 20, || timer.schedule(ms(1), 7)).unwrap_err();
    let (kind, payload) = (refused.kind().clone(), refused.into_payload());
    let ScheduleErrorKind::Start(StartError::Spawn { shard: 1, .. }) = kind else {
        panic!("{kind:?}")
    };
    assert_eq!((payload, timer.state()), (7, EngineState::Init));
    assert_eq!(timer.stats().rejected, 1);
    // The shard that has its worker already goes from there to a caller and back.
    drop(timer.drive_shard(0).unwrap());
    (0..10).for_each(|id| _ = spread(&timer, ms(1), id));
    assert!(holds_soon(|| fired.load(Ordering::SeqCst) == 10));
    assert_eq!(timer.stop().unwrap().len(), 0);
    assert_eq!(started.load(Ordering::SeqCst), 2);
}

/// The shard has no worker, because its driver took it before the engine started.
#[test]
fn a_shard_whose_driver_leaves_fails_if_its_thread_is_refused() {
    if in_a_process_of_its_own(
        a_shard_whose_driver_leaves_fails_if_its_thread_is_refused,
        &[],
    ) || !threads_are_refused()
    {
        return;
    }
    let timer = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
    let shard = timer.drive_shard(0).unwrap();
    timer.schedule(ms(1), 7).unwrap();
    refusing_from(NO_THREAD, || drop(shard));
    let refused = timer.schedule(ms(1), 8).unwrap_err();
    let (kind, payload) = (refused.kind().clone(), refused.into_payload());
    let ScheduleErrorKind::WorkerFailed { shard: 0, message } = kind else {
        panic!("{kind:?}")
    };
    assert!(message.contains("thread"), "{message}");
    assert_eq!((payload, timer.state()), (8, EngineState::Failed));
    let left = timer.stop().unwrap();
    assert!(left.into_iter().map(|it| it.payload).eq([7]));
}
