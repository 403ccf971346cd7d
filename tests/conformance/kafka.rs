//! What Kafka's `TimingWheel` and `SystemTimer` do, and what tickwheel does about it, row by row.
//!
//! The wheel is checked by itself where the reference checks its wheel, and through the engine where the
//! reference checks its timer. Driving from the caller's thread is `Drive::Manual` here.

use crate::support::setup::{
    Fired, HOUR, Setup, each_setup, ms, one_shard, recording, secs, set_of, spread, us, wait_until,
};
use std::sync::Arc;
use std::time::Duration;
use tickwheel::__internal::{Entry, Rings};
use tickwheel::{Drive, Expired, ManualClock, Time, Timer};

/// An engine that is turned by hand.
fn by_hand() -> (ManualClock, Timer<u64>, Fired) {
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    (at.clock, timer, fired)
}

fn entry(deadline: u64) -> Entry {
    Entry {
        deadline,
        index: deadline as u32,
        mark: 0,
    }
}

/// Advances without a budget; the deadlines that came due, in order.
fn advance(rings: &mut Rings, to: u64) -> Vec<u64> {
    let mut due = Vec::new();
    let more = rings.advance(to, usize::MAX, &mut due).is_none();
    assert!(!more);
    due.iter().map(|entry| entry.deadline).collect()
}

#[test]
fn kafka_rings_of_growing_ticks_take_any_delay() {
    let mut rings = Rings::new();
    // One in each ring, and on both sides of each border.
    let mut deadlines: Vec<u64> = (1..11)
        .flat_map(|ring| [(1 << (6 * ring)) - 1, 1 << (6 * ring)])
        .collect();
    deadlines.push(u64::MAX - 1);
    deadlines
        .iter()
        .rev()
        .for_each(|deadline| rings.insert(entry(*deadline)));
    for deadline in deadlines {
        assert_eq!(rings.earliest(), Some(deadline));
        assert!(advance(&mut rings, deadline - 1).is_empty());
        assert_eq!(advance(&mut rings, deadline), [deadline]);
    }
    assert!(rings.is_empty());
}

/// Netty runs zero and negative delays, which are deadlines in the past here, at the next tick; here in the next turn.
#[test]
fn kafka_and_netty_timers_that_are_due_already_all_run_at_once() {
    let (clock, timer, fired) = by_hand();
    clock.advance(secs(1));
    for id in 0..10 {
        timer
            .schedule(Time::ZERO + ms(1000 - 100 * id), id)
            .unwrap();
    }
    timer.schedule(Duration::ZERO, 10).unwrap();
    assert_eq!(timer.turn(), Ok(11), "without waiting for a tick");
    assert_eq!(set_of(fired.ids()), (0..11).collect());
    let (timer, fired) = recording(one_shard().tick(HOUR));
    timer.schedule(Duration::ZERO, 1).unwrap();
    wait_until("it fires at once, although a tick is an hour", || {
        fired.len() == 1
    });
}

#[test]
fn kafka_all_tasks_expire_once_and_in_order() {
    let (clock, timer, fired) = by_hand();
    let twice = (10..100).flat_map(|delay| [delay, delay]);
    let delays: Vec<u64> = (0..5).chain(twice).chain(100..500).collect();
    // Not in the order of their delays.
    for n in 0..delays.len() {
        let delay = delays[n * 271 % delays.len()];
        timer.schedule(ms(delay), delay).unwrap();
    }
    assert_eq!(timer.pending(), delays.len());
    let mut order = Vec::new();
    while timer.pending() > 0 {
        timer.turn().unwrap();
        order.extend(fired.ids());
        clock.advance(ms(1));
    }
    assert_eq!(order, delays);
    assert_eq!(timer.stats().fired, delays.len() as u64);
}

#[test]
fn kafka_only_buckets_that_hold_something_cost_anything() {
    let mut rings = Rings::new();
    for n in 1..100 {
        rings.insert(entry(n << 32));
    }
    // By far too many ticks to visit.
    for n in 1..100 {
        assert_eq!(advance(&mut rings, n << 32), [n << 32]);
    }
    let (clock, timer, fired) = by_hand();
    timer.schedule(1000 * HOUR, 1).unwrap();
    timer.turn().unwrap();
    let before = timer.stats().shards[0].turns;
    clock.advance(1000 * HOUR);
    timer.turn().unwrap();
    assert_eq!(fired.ids(), [1]);
    assert!(timer.stats().shards[0].turns - before <= 3);
}

#[test]
fn kafka_expired_buckets_reinsert_what_is_not_due_into_finer_rings() {
    let mut rings = Rings::new();
    // One bucket of the third ring (4096 ticks wide), and a bucket of the second within it.
    let deadlines = [8192, 8193, 8255, 8256, 8300, 12_287];
    deadlines
        .iter()
        .for_each(|deadline| rings.insert(entry(*deadline)));
    assert_eq!(advance(&mut rings, 8192), [8192]);
    assert_eq!((rings.len(), rings.earliest()), (5, Some(8193)));
    assert_eq!(advance(&mut rings, 8255), [8193, 8255]);
    assert_eq!(advance(&mut rings, 8299), [8256]);
    assert_eq!(advance(&mut rings, 12_286), [8300]);
    assert_eq!(advance(&mut rings, 12_287), [12_287]);
}

#[test]
fn unlike_kafka_a_coarse_ring_is_never_early() {
    for tick in [ms(1), ms(10), ms(20), secs(1)] {
        each_setup(|at| {
            let (timer, fired) = recording(at.builder().tick(tick));
            for n in [63_u32, 64, 65, 100, 4095, 4096, 5000] {
                let before = at.clock.now();
                let timeout = timer
                    .schedule_handle(tick * n - us(1), u64::from(n))
                    .unwrap();
                let due = timeout.deadline();
                assert!(due >= before + (tick * n - us(1)));
                at.go_to(&timer, Time::from_nanos(due.as_nanos() - 1));
                assert!(fired.ids().is_empty(), "{n} ticks of {tick:?}");
                at.go_to(&timer, due);
                assert_eq!(fired.ids(), [u64::from(n)]);
            }
        });
    }
}

#[test]
fn kafka_adding_again_moves_the_task_and_counts_it_once() {
    let (clock, timer, fired) = by_hand();
    let key = timer.schedule(ms(100), 1).unwrap();
    timer.schedule(ms(200), 2).unwrap();
    timer.turn().unwrap();
    for delay in [50, 300, 20, 500, 150, 400] {
        assert!(timer.reschedule(key, ms(delay)).is_moved());
        timer.turn().unwrap();
        assert_eq!(timer.pending(), 2, "a moved task is counted once");
    }
    clock.advance(ms(200));
    assert_eq!((timer.turn(), timer.pending()), (Ok(1), 1));
    clock.advance(ms(199));
    assert_eq!(timer.turn(), Ok(0));
    clock.advance(ms(1));
    assert_eq!((timer.turn(), timer.pending()), (Ok(1), 0));
    clock.advance(secs(1));
    assert_eq!(timer.turn(), Ok(0));
    assert_eq!(fired.ids(), [2, 1]);
}

#[test]
fn kafka_the_size_stays_right_while_tasks_move_between_rings() {
    let (clock, timer, fired) = by_hand();
    for id in 0..300 {
        timer.schedule(ms(100 * id), id).unwrap();
    }
    for id in 0..300 {
        timer.turn().unwrap();
        assert_eq!((fired.ids(), timer.pending() as u64), (vec![id], 299 - id));
        clock.advance(ms(100));
    }
}

#[test]
fn kafka_cancelling_empties() {
    let (clock, timer, fired) = by_hand();
    let keys: Vec<_> = (0..100)
        .map(|id| timer.schedule(ms(id * id), id).unwrap())
        .collect();
    assert!(keys.into_iter().all(|key| timer.cancel(key).is_won()));
    assert_eq!(timer.pending(), 0);
    clock.advance(HOUR);
    assert_eq!(timer.turn(), Ok(0));
    assert!(fired.ids().is_empty());
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn kafka_an_entry_inside_the_current_tick_counts_as_due() {
    let mut rings = Rings::new();
    assert!(advance(&mut rings, 100).is_empty());
    rings.insert(entry(100));
    rings.insert(entry(99));
    rings.insert(entry(101));
    assert!(rings.earliest().is_some_and(|next| next <= 100));
    let mut due = advance(&mut rings, 100);
    due.sort_unstable();
    assert_eq!(due, [99, 100]);
}

#[test]
fn kafka_advancing_within_a_tick_moves_nothing_and_to_the_next_one_expires_what_is_due() {
    let mut rings = Rings::new();
    advance(&mut rings, 7);
    assert_eq!(rings.hand(), 7);
    advance(&mut rings, 7);
    assert_eq!(rings.hand(), 7);
    advance(&mut rings, 8);
    assert_eq!(rings.hand(), 8);
    // Within a tick of the engine's clock: each turn says whether anything expired.
    let (clock, timer, fired) = by_hand();
    timer.schedule(ms(1), 1).unwrap();
    for expired in [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0] {
        clock.advance(us(100));
        assert_eq!(timer.turn(), Ok(expired));
    }
    assert_eq!(fired.ids(), [1]);
}

#[test]
fn kafka_rings_share_one_time_and_far_entries_keep_their_tick() {
    // There every ring's hand is the time rounded down to that ring's tick; here one hand serves all, so
    // an entry set at any hand, aligned to a ring or not, comes due on its tick.
    for hand in [0, 1, 63, 64, 65, 4_095, 4_096, 4_097, 262_143, 262_145] {
        let mut rings = Rings::new();
        advance(&mut rings, hand);
        for delay in [1, 63, 64, 65, 4_096, 262_144, 262_145] {
            rings.insert(entry(hand + delay));
        }
        for delay in [1, 63, 64, 65, 4_096, 262_144, 262_145] {
            assert!(advance(&mut rings, hand + delay - 1).is_empty());
            assert_eq!(advance(&mut rings, hand + delay), [hand + delay]);
        }
    }
}

#[test]
fn unlike_kafka_overflow_rings_are_not_created_on_demand() {
    let mut rings = Rings::new();
    rings.insert(entry(1));
    let near = rings.held_bytes();
    // Ten rings further out: memory for entries, none for rings.
    for ring in 1..10 {
        rings.insert(entry(1 << (6 * ring)));
    }
    let far = rings.held_bytes();
    for ring in 1..10 {
        rings.insert(entry((1 << (6 * ring)) + (1 << (6 * (ring - 1)))));
    }
    assert_eq!(
        rings.held_bytes(),
        far,
        "a second entry of a ring costs nothing more"
    );
    assert!(far - near < 64 * 1024, "{near} bytes, then {far}");
}

#[test]
fn kafka_one_of_two_users_of_a_timer_ends_and_the_other_goes_on() {
    each_setup(|at| {
        let (first, fired) = at.recording();
        let second = first.clone();
        first.schedule(ms(5), 1).unwrap();
        second.schedule(ms(10), 2).unwrap();
        drop(first);
        at.advance(&second, ms(5));
        assert_eq!(fired.ids(), [1], "the timer of the user that has gone");
        second.schedule(ms(3), 3).unwrap();
        at.advance(&second, ms(5));
        assert_eq!((fired.ids(), second.is_stopped()), (vec![3, 2], false));
    });
}

#[test]
fn kafka_a_reaper_thread_waits_for_the_delay_of_the_next_bucket() {
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    let keys: Vec<_> = [7_u64, 7, 30]
        .map(|delay| timer.schedule_handle(ms(delay), delay).unwrap())
        .into();
    // How long a timer still has to go: less as time passes, and nothing once it is due.
    let left = |n: usize| keys[n].deadline().saturating_duration_since(at.clock.now());
    assert_eq!([left(0), left(1), left(2)], [ms(7), ms(7), ms(30)]);
    at.clock.advance(ms(6));
    assert_eq!((left(0), left(2)), (ms(1), ms(24)));
    let reaper = std::thread::scope(|scope| {
        let reap = || {
            let mut turns = Vec::new();
            while let Some(next) = keys
                .iter()
                .filter(|it| it.is_pending())
                .map(|it| it.deadline())
                .min()
            {
                at.clock.set(next);
                turns.push(timer.turn().unwrap());
            }
            turns
        };
        scope.spawn(reap).join().unwrap()
    });
    assert_eq!((reaper, fired.ids()), (vec![2, 1], vec![7, 7, 30]));
    assert_eq!([left(0), left(2)], [Duration::ZERO; 2]);
}

#[test]
fn kafka_closing_wakes_the_reaper_and_ends_its_thread() {
    let held_by_workers = Arc::new(());
    let seen = Arc::downgrade(&held_by_workers);
    let timer = one_shard()
        .shards(2)
        .drive(Drive::Workers)
        .build_with(move |_: Expired<u64>| drop(Arc::clone(&held_by_workers)))
        .unwrap();
    // Asleep for an hour, and for ever.
    spread(&timer, HOUR, 1);
    spread(&timer, Duration::MAX, 2);
    timer.wait_idle();
    assert!(seen.upgrade().is_some());
    assert_eq!(timer.stop().unwrap().len(), 2);
    assert!(
        seen.upgrade().is_none(),
        "the workers have gone, their handlers with them"
    );
}
