//! Figures that move rarely: each is made to move, and compared with what has happened.

use crate::support::setup::{HOUR, Setup, ZOMBIE_CONSTANT, ms, rate, recording, spread};
use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::Duration;
use tickwheel::{Budget, Builder, Expired, ShardStats, Timer};

/// What may be found, and what is.
type Row = (&'static str, RangeInclusive<u64>, u64);

fn by_hand(set: impl FnOnce(Builder) -> Builder) -> (Setup, Timer<u64>) {
    let at = Setup::by_hand();
    let (timer, _fired) = recording(set(at.builder()));
    (at, timer)
}

fn shard(timer: &Timer<u64>) -> ShardStats {
    timer.stats().shards.remove(0)
}

/// Makes the owner look at all messages, by one that is due.
fn read_inbox(timer: &Timer<u64>) {
    timer.schedule(Duration::ZERO, u64::MAX).unwrap();
    assert_eq!(timer.turn(), Ok(1));
}

/// 25 timers are due, and a turn may fire ten, whoever makes it.
fn turns_cut_short() -> Vec<Row> {
    let of = |at: Setup| {
        let (timer, _fired) = recording(at.builder().budget(Budget::new().fire(10)));
        (0..25).for_each(|id| _ = timer.schedule(ms(1), id).unwrap());
        at.advance(&timer, ms(1));
        shard(&timer).cut_short
    };
    vec![
        ("cut_short", 2..=2, of(Setup::by_hand())),
        ("cut_short of a worker", 2..=2, of(Setup::with_workers())),
    ]
}

/// An owner that sleeps is woken for a timer.
fn wakes() -> Vec<Row> {
    let (timer, _fired) = Setup::with_workers().recording();
    let mut driven = timer.drive_shard(0).unwrap();
    let mut turn = || _ = driven.turn(Waker::noop()).unwrap();
    (0..3).for_each(|_| turn());
    let asleep = shard(&timer).wakes;
    timer.schedule(ms(5), 1).unwrap();
    turn();
    let sum = timer.stats().wakes;
    vec![
        ("wakes of a sleep that nobody ended", 0..=0, asleep),
        ("wakes", 1..=1, shard(&timer).wakes),
        ("wakes of all shards", 1..=1, sum),
    ]
}

/// Seven timers come, and the owner looks at them later.
fn messages() -> Vec<Row> {
    let (_, timer) = by_hand(|builder| builder);
    (0..7).for_each(|id| _ = timer.schedule(HOUR, id).unwrap());
    let unread = shard(&timer).inbox;
    read_inbox(&timer);
    vec![
        ("inbox", 7..=7, unread),
        ("inbox after a turn", 0..=0, shard(&timer).inbox),
    ]
}

/// Four of ten timers are cancelled in the wheel, or all of very many.
fn zombies() -> Vec<Row> {
    let cancelled = |timers: u64, cancelled| {
        let (_, timer) = by_hand(|builder| builder);
        let keys: Vec<_> = (0..timers)
            .map(|id| timer.schedule(HOUR, id).unwrap())
            .collect();
        read_inbox(&timer);
        for key in &keys[..cancelled] {
            assert!(timer.cancel(*key).is_won());
        }
        timer
    };
    let (few, many) = (cancelled(10, 4), cancelled(200_000, 200_000));
    many.turn().unwrap();
    let left = shard(&many);
    let gone = 200_000 - left.entries;
    vec![
        ("zombies", 4..=4, shard(&few).zombies),
        ("zombies that are left", 0..=ZOMBIE_CONSTANT, left.zombies),
        ("swept", gone.max(1)..=gone, left.swept),
    ]
}

/// Ten thousand timers need a node of 24 bytes at least and an entry of 16, which goes with the wheel.
fn bytes() -> Vec<Row> {
    let (_, timer) = by_hand(|builder| builder);
    (0..10_000).for_each(|id| _ = timer.schedule(HOUR, id).unwrap());
    read_inbox(&timer);
    let held = shard(&timer).held_bytes;
    timer.stop().unwrap();
    let left = shard(&timer).held_bytes;
    vec![
        ("held_bytes", 400_000..=4_000_000, held),
        ("held_bytes after a stop", 240_000..=held - 160_000, left),
    ]
}

/// An hour after its timer's tick an engine is behind, unless it was stopped meanwhile.
fn lag() -> Vec<Row> {
    let of = |is_stopped| {
        let (at, timer) = by_hand(|builder| builder);
        timer.schedule(HOUR, 1).unwrap();
        read_inbox(&timer);
        if is_stopped {
            timer.stop().unwrap();
        }
        at.clock.advance(2 * HOUR);
        shard(&timer).lag.as_secs()
    };
    vec![
        ("seconds of lag", 3600..=3600, of(false)),
        ("lag after a stop", 0..=0, of(true)),
    ]
}

/// Three handlers take two milliseconds each, by the engine's clock.
fn handlers() -> Vec<Row> {
    let at = Setup::by_hand();
    let builder = at.builder().on_slow_handler(HOUR, |_| ());
    let clock = at.clock.clone();
    let slow = move |_: Expired<u64>| _ = clock.advance(ms(2));
    let timer = builder.build_with(slow).unwrap();
    (0..3).for_each(|id| _ = timer.schedule(Duration::ZERO, id).unwrap());
    timer.turn().unwrap();
    let ran = shard(&timer).handler_time;
    let sum = u64::try_from(ran.sum().as_millis()).unwrap();
    vec![
        ("handler_time", 3..=3, ran.count()),
        ("milliseconds of handlers", 6..=6, sum),
    ]
}

/// Two of five timers are too many, and so is a periodic one; one comes too late.
fn refusals() -> Vec<Row> {
    let (_, timer) = by_hand(|builder| builder.max_pending(3));
    let accepted = (0..5)
        .filter(|id| timer.schedule(HOUR, *id).is_ok())
        .count() as u64;
    timer.schedule_periodic(HOUR, rate(HOUR), 5).unwrap_err();
    let full = timer.stats().rejected;
    timer.stop().unwrap();
    timer.schedule(HOUR, 5).unwrap_err();
    vec![
        ("timers accepted", 3..=3, accepted),
        ("rejected by a limit", 3..=3, full),
        ("rejected", 4..=4, timer.stats().rejected),
    ]
}

/// Each of two shards has 25 timers at once, of which a turn may fire ten and two panic, then two that are cancelled
/// and one that is returned.
fn sums() -> Vec<Row> {
    let at = Setup::by_hand();
    let builder = at.builder().shards(2);
    let panics = |it: Expired<u64>| assert!(it.payload >= 4, "the handler");
    let timer = builder
        .budget(Budget::new().fire(10))
        .build_with(panics)
        .unwrap();
    (0..50).for_each(|id| _ = spread(&timer, ms(1), id));
    let unread = timer.stats().inbox;
    at.advance(&timer, ms(1));
    let keys = [4, 5, 6, 7, 8, 9].map(|id| spread(&timer, HOUR, id));
    assert!(keys[..4].iter().all(|key| timer.cancel(*key).is_won()));
    timer.stop().unwrap();
    let stats = timer.stats();
    vec![
        ("inbox of all shards", 50..=50, unread),
        ("cut_short of all shards", 4..=4, stats.cut_short),
        ("panics of all shards", 4..=4, stats.panics),
        ("cancelled of all shards", 4..=4, stats.cancelled),
        ("returned of all shards", 2..=2, stats.returned),
    ]
}

#[test]
fn figures_that_move_rarely_say_what_has_happened() {
    let tables = [
        turns_cut_short(),
        wakes(),
        messages(),
        zombies(),
        bytes(),
        lag(),
        handlers(),
        refusals(),
        sums(),
    ];
    let is_wrong = |(_, expected, found): &Row| !expected.contains(found);
    let wrong: Vec<Row> = tables.into_iter().flatten().filter(is_wrong).collect();
    assert!(
        wrong.is_empty(),
        "figure, what it may be, what it is: {wrong:#?}"
    );
}
