//! The log: what goes in comes out once, in order, and in time.

use super::*;
use crate::drive::block::RESERVE;
use crate::drive::bound::SKIPPED_LOOKS;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Young entries at most.
const LARGEST: usize = MOST_YOUNG * BLOCK;

fn entry(index: u32, deadline: u64) -> Entry {
    Entry { deadline, index, mark: !index }
}

/// Which indices are dead.
struct Book<'a>(&'a [bool]);

impl TimerStore for Book<'_> {
    type Fired = ();

    fn is_live(&self, entry: &Entry) -> bool {
        !self.0[entry.index as usize]
    }

    fn prefetch(&self, entry: &Entry) {
        assert!((entry.index as usize) < self.0.len(), "only entries that are there");
    }

    fn decide(&mut self, _: Entry, _: u64) -> crate::drive::Fate<()> {
        crate::drive::Fate::Drop
    }

    fn pending(&self) -> u64 {
        self.0.iter().filter(|dead| !**dead).count() as u64
    }
}

/// Evicts the dead, and pushes again until the entry is taken.
fn insert(log: &mut Log, dead: &[bool], inserted: &mut Vec<Entry>, entry: Entry) {
    while !log.push(entry) {
        log.make_room(
            &Book(dead),
            || false,
            |entry| {
                inserted.push(entry);
                true
            },
        );
    }
}

proptest! {
    /// Living entries come out once, whole and in the order of arrival; the minimum is never too late.
    #[test]
    fn the_living_are_filed_in_order(
        steps in prop::collection::vec((NEAR..100_000, any::<u16>(), 0..8_u8), 1..3_000),
        often in 1..8_u8,
    ) {
        let mut log = Log::default();
        let (mut inserted, mut dead) = (Vec::new(), Vec::new());
        let mut expected = Vec::new();
        for (deadline, victim, chance) in steps {
            let young = entry(dead.len() as u32, deadline);
            dead.push(false);
            insert(&mut log, &dead, &mut inserted, young);
            expected.push(young);
            if chance < often {
                let victim = usize::from(victim) % dead.len();
                // What is inserted already is no business of the log buffer any more.
                let of_victim = |entry: &Entry| entry.index as usize == victim;
                dead[victim] |= !inserted.iter().any(of_victim);
            }
            prop_assert!(log.earliest() <= young.deadline);
        }
        log.insert_due(u64::MAX, usize::MAX, &Book(&dead), || false, |entry| inserted.push(entry));
        expected.retain(|entry| !dead[entry.index as usize]);
        prop_assert_eq!(inserted, expected);
        prop_assert_eq!((log.len(), log.earliest()), (0, u64::MAX));
    }
}

#[test]
fn young_blocks_full_of_the_living_become_more_and_then_are_filed() {
    let (mut log, mut inserted, dead) = (Log::default(), Vec::new(), vec![false; LARGEST + 1]);
    assert_eq!(log.held_bytes(), 0, "who schedules nothing holds nothing");
    for index in 0..=LARGEST as u32 {
        assert!(inserted.is_empty());
        insert(&mut log, &dead, &mut inserted, entry(index, 1_000 - u64::from(index % 10)));
        if index < LARGEST as u32 {
            assert_eq!(log.earliest(), 1_000 - u64::from(index.min(9)), "after {index}");
        }
    }
    assert_eq!((log.len(), inserted.len()), (1, LARGEST));
}

#[test]
fn young_blocks_become_fewer_again_when_few_live() {
    let (mut log, mut inserted) = (Log::default(), Vec::new());
    let mut dead = vec![false; LARGEST];
    for index in 0..LARGEST as u32 {
        insert(&mut log, &dead, &mut inserted, entry(index, 1_000));
    }
    assert_eq!((log.most_young, log.blocks.len()), (MOST_YOUNG, MOST_YOUNG - 1));
    dead.fill(true);
    for index in 0..LARGEST as u32 {
        insert(&mut log, &dead, &mut inserted, entry(index, 2_000));
    }
    assert!(inserted.is_empty());
    assert_eq!((log.most_young, log.blocks.len(), log.earliest()), (1, 0, 2_000));
}

#[test]
fn the_threshold_waits_for_an_empty_buffer() {
    let mut log = Log::default();
    assert!(!log.admits(NEAR - 1) && log.admits(NEAR));
    insert(&mut log, &[false], &mut Vec::new(), entry(0, 500));
    log.follow(400);
    assert!(!log.admits(400), "what is due is not kept back");
    assert!(log.admits(401), "an entry for 500 must not go past the one that is here");
    let taken = log.insert_due(500, usize::MAX, &Book(&[false]), || false, |_| ());
    assert_eq!(taken, (1, 0));
    log.follow(400);
    assert!(!log.admits(463) && log.admits(464));
    log.follow(10);
    assert!(!log.admits(463), "a threshold does not come back");
    log.follow(u64::MAX);
    assert!(log.admits(u64::MAX));
}

/// The entries that a wheel gets, and those expected of it.
#[derive(Default)]
struct Wheel {
    /// By deadline: the last one that came.
    came: HashMap<u64, u32>,
    /// By deadline: how many that live are to come still.
    awaited: BTreeMap<u64, u32>,
    /// By index: whether it is to come, dead or alive.
    waits: Vec<bool>,
    /// How many have come.
    len: usize,
}

impl Wheel {
    fn insert(&mut self, dead: &[bool], entry: Entry) {
        let last = self.came.insert(entry.deadline, entry.index);
        assert!(last.is_none_or(|last| last < entry.index), "{entry:?} came after {last:?}");
        assert!(std::mem::take(&mut self.waits[entry.index as usize]), "{entry:?} comes twice");
        self.len += 1;
        if !dead[entry.index as usize] {
            self.forget(entry.deadline);
        }
    }

    fn forget(&mut self, deadline: u64) {
        *self.awaited.get_mut(&deadline).unwrap() -= 1;
    }
}

/// Steps of a timer's owner at random: what is inserted of each tick comes in the order of arrival, all that lives
/// comes once and in time, and nothing is forgotten after any sealing, inserting and sweeping in between.
#[test]
fn sealed_entries_are_inserted_in_order_and_in_time() {
    let (mut sealed, mut swept, mut dropped, mut in_time) = (0, 0, 0, 0);
    for (seed, shortest, dying) in [(1, 600, 4), (2, 5_000, 2), (3, 1, 3), (4, 600, 1)] {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(9);
            (random >> 33) % bound
        };
        let (mut log, mut wheel) = (Log::default(), Wheel::default());
        let (mut dead, mut deadlines, mut now, mut removed) = (Vec::new(), Vec::new(), 0, 0);
        for step in 0..300_000_u32 {
            // Few ticks, so that entries share them.
            let delay = [1 + below(400), shortest + below(3_000), shortest + 8 * below(900)];
            let deadline = now + delay[below(3) as usize];
            dead.push(false);
            deadlines.push(deadline);
            wheel.waits.push(true);
            *wheel.awaited.entry(deadline).or_insert(0) += 1;
            if log.admits(deadline) {
                while !log.push(entry(step, deadline)) {
                    let pays = below(8) > 0;
                    removed += log.make_room(
                        &Book(&dead),
                        || pays,
                        |entry| {
                            wheel.insert(&dead, entry);
                            true
                        },
                    );
                }
            } else {
                wheel.insert(&dead, entry(step, deadline));
            }
            sealed = sealed.max(log.blocks.range(..log.sealed).map(|block| block.len).sum());
            let victim = (step - below(u64::from(step.min(20_000)) + 1) as u32) as usize;
            if below(dying) == 0 && wheel.waits[victim] && !dead[victim] {
                dead[victim] = true;
                wheel.forget(deadlines[victim]);
            }
            if below(4_000) == 0 {
                let book = Book(&dead);
                let sweep = log.sweep(3_000, &book);
                removed += sweep.removed;
                swept += sweep.removed;
            }
            if below(400) == 0 {
                now += 1 + if below(50) == 0 { below(700) } else { below(20) };
                log.follow(now);
                // At times the budget runs out.
                while log.next_look() <= now && below(10) > 0 {
                    let (pays, insert) = (below(8) > 0, |entry| wheel.insert(&dead, entry));
                    let (_, gone) = log.insert_due(now, 1_000, &Book(&dead), || pays, insert);
                    removed += gone;
                    dropped += gone;
                    log.follow(now);
                }
                if log.earliest() > now {
                    let rest = wheel.awaited.split_off(&(now + 1));
                    assert!(wheel.awaited.values().all(|left| *left == 0), "late at {now}");
                    wheel.awaited = rest;
                    in_time += 1;
                }
            }
            assert_eq!(log.len(), dead.len() - wheel.len - removed, "in step {step}");
        }
    }
    assert!(in_time > 2_000, "seldom in time: {in_time}");
    assert!(sealed > 50_000, "{sealed} sealed");
    assert!(swept > 10_000 && dropped > 10_000, "{swept} swept, {dropped} dropped");
}

#[test]
fn sealed_entries_are_not_overtaken_at_short_notice() {
    let mut log = Log::default();
    for index in 0..LARGEST as u32 {
        insert(&mut log, &vec![false; LARGEST], &mut Vec::new(), entry(index, 600));
    }
    log.make_room(&Book(&vec![false; LARGEST]), || true, |_| panic!("it is not due soon"));
    assert_eq!((log.len(), log.sealed), (LARGEST, MOST_YOUNG));
    log.follow(560);
    assert!(!log.admits(599) && log.admits(600), "behind those that are older");
    // A quarter of the limit goes to what is due soon only.
    let insert_due = |log: &mut Log, now| {
        let (mut came, all_live) = (0, vec![false; LARGEST]);
        let insert = |_: Entry| came += 1;
        let taken = log.insert_due(now, 4 * 1024, &Book(&all_live), || true, insert);
        assert_eq!(taken, (came, 0));
        came
    };
    assert_eq!(log.next_look(), 600 - SOON);
    assert_eq!(insert_due(&mut log, 600 - SOON - 1), 0);
    assert_eq!([100, 200, 600].map(|now| insert_due(&mut log, now)), [1024, 1024, 4096]);
    log.follow(600);
    assert_eq!(log.earliest(), 600, "the rest waits for the next turn");
    // What comes for the same tick then waits behind it.
    assert!(log.push(entry(LARGEST as u32, 600)));
    let (mut came, all_live) = (Vec::new(), vec![false; LARGEST + 1]);
    for all in [1024, 2 * 1024 + 1] {
        log.insert_due(600, 1024, &Book(&all_live), || true, |entry| came.push(entry.index));
        assert_eq!((came.len(), came.is_sorted()), (all, true));
    }
}

#[test]
fn sealed_blocks_are_looked_at_where_that_pays() {
    let (mut log, mut inserted) = (Log::default(), 0);
    let blocks = MOST_YOUNG - 1;
    let count = blocks * BLOCK;
    (0..count)
        .for_each(|n| insert(&mut log, &vec![false; count], &mut Vec::new(), entry(n as u32, 90)));
    log.seal();
    // In the first block nothing is dead, in the later ones every second entry.
    let dead: Vec<bool> = (0..count).map(|n| n >= BLOCK && n % 2 == 0).collect();
    let taken = log.insert_due(90, usize::MAX, &Book(&dead), || true, |_| inserted += 1);
    let looked_at = blocks.saturating_sub(1 + SKIPPED_LOOKS as usize);
    assert_eq!(taken, (inserted, looked_at * BLOCK / 2));
    assert_eq!((inserted + taken.1, log.len(), log.earliest()), (count, 0, u64::MAX));
}

/// A log whose entries are due at 5000 and after, all of them sealed.
fn sealed(count: usize) -> Log {
    let mut log = Log::default();
    for n in 0..count {
        insert(&mut log, &vec![false; count], &mut Vec::new(), entry(n as u32, 5_000 + n as u64));
        if n % 700 == 699 {
            log.seal();
        }
    }
    log.seal();
    log
}

#[test]
fn entries_without_room_in_the_wheel_stay_in_order() {
    let mut log = sealed(6_000);
    let mut inserted = Vec::new();
    insert(&mut log, &[false; 6_001], &mut Vec::new(), entry(6_000, 11_000));
    let all = log.len();
    for room in [0, 3_000, all - 50, all] {
        log.insert_all(|entry| {
            let fits = inserted.len() < room;
            inserted.extend(fits.then_some(entry.index));
            fits
        });
        let earliest = if room < all { 5_000 + room as u64 } else { u64::MAX };
        assert_eq!((log.len(), log.earliest()), (all - room, earliest));
    }
    assert!(inserted.into_iter().eq(0..=6_000));
}

#[test]
fn a_cleared_log_has_forgotten_all_and_keeps_a_reserve() {
    let mut log = sealed(RESERVE * 3 * BLOCK / 2);
    for _ in 0..2 {
        insert(&mut log, &[false], &mut Vec::new(), entry(0, 9_000));
        log.clear();
        assert_eq!((log.len(), log.earliest(), log.blocks.len()), (0, u64::MAX, 0));
        assert_eq!(log.pool.0.len(), RESERVE);
    }
    log.insert_all(|entry| panic!("{entry:?} is still there"));
}

#[test]
fn full_young_blocks_are_sealed_without_a_look_where_that_does_not_pay() {
    let (mut log, mut next, mut dead) = (Log::default(), 0, Vec::new());
    let mut removed = Vec::new();
    while removed.len() < SKIPPED_LOOKS as usize + 3 {
        while log.push(entry(next, 5_000 + u64::from(next))) {
            // At first all live, then a quarter.
            dead.push(removed.len() > SKIPPED_LOOKS as usize - 1 && next % 4 > 0);
            next += 1;
        }
        let sealed = log.sealed;
        let gone = log.make_room(&Book(&dead), || true, |_| panic!("none is due soon"));
        assert!(!log.tail.is_full());
        if log.sealed > sealed || gone > 0 {
            removed.push(gone);
        }
    }
    let (without, with) = removed.split_at(SKIPPED_LOOKS as usize + 1);
    assert!(without.iter().all(|removed| *removed == 0), "{removed:?}");
    assert!(with.iter().all(|removed| *removed > LARGEST / 8), "{removed:?}");
}

#[test]
fn a_sweep_packs_what_lives_into_fewer_blocks() {
    let mut log = sealed(8 * BLOCK);
    let dead: Vec<bool> = (0..8 * BLOCK).map(|n| n % 3 > 0).collect();
    let sweep = log.sweep(usize::MAX, &Book(&dead));
    assert!(sweep.cycle_done && sweep.removed + log.len() == 8 * BLOCK);
    assert_eq!((log.sealed, log.len(), log.earliest()), (3, (8 * BLOCK).div_ceil(3), 5_000));
    let mut inserted = Vec::new();
    log.insert_all(|entry| {
        inserted.push(entry.index);
        true
    });
    assert!(inserted.into_iter().eq((0..8 * BLOCK as u32).step_by(3)), "in their order");
}
