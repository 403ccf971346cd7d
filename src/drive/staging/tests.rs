//! The staging buffer and the log behind it: what goes in comes out once, in order, and in time.

use super::*;
use crate::drive::sealed::{self, BLOCK};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

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
fn insert(staging: &mut StagingBuffer, dead: &[bool], filed: &mut Vec<Entry>, entry: Entry) {
    while !staging.push(entry) {
        staging.evict_dead(
            &Book(dead),
            || false,
            |entry| {
                filed.push(entry);
                true
            },
        );
    }
}

proptest! {
    /// What lives comes out, once, whole and in the order of arrival; the minimum is never too late.
    #[test]
    fn the_living_are_filed_in_order(
        steps in prop::collection::vec((NEAR..100_000, any::<u16>(), 0..8_u8), 1..3_000),
        often in 1..8_u8,
    ) {
        let mut staging = StagingBuffer::default();
        let (mut filed, mut dead) = (Vec::new(), Vec::new());
        let mut expected = Vec::new();
        for (deadline, victim, chance) in steps {
            let young = entry(dead.len() as u32, deadline);
            dead.push(false);
            insert(&mut staging, &dead, &mut filed, young);
            expected.push(young);
            if chance < often {
                let victim = usize::from(victim) % dead.len();
                // What is filed already is no business of the staging buffer any more.
                let of_victim = |entry: &Entry| entry.index as usize == victim;
                dead[victim] |= !filed.iter().any(of_victim);
            }
            prop_assert!(staging.earliest() <= young.deadline);
        }
        staging.file_due(u64::MAX, usize::MAX, &Book(&dead), || false, |entry| filed.push(entry));
        expected.retain(|entry| !dead[entry.index as usize]);
        prop_assert_eq!(filed, expected);
        prop_assert_eq!((staging.len(), staging.earliest()), (0, u64::MAX));
    }
}

#[test]
fn a_buffer_full_of_the_living_grows_and_then_files_them() {
    let (mut staging, mut filed, dead) =
        (StagingBuffer::default(), Vec::new(), vec![false; LARGEST + 1]);
    assert_eq!(staging.held_bytes(), 0, "who schedules nothing holds nothing");
    for index in 0..=LARGEST as u32 {
        assert!(filed.is_empty());
        insert(&mut staging, &dead, &mut filed, entry(index, 1_000 - u64::from(index % 10)));
        if index < LARGEST as u32 {
            assert_eq!(staging.earliest(), 1_000 - u64::from(index.min(9)), "after {index}");
        }
    }
    assert_eq!((staging.len(), filed.len()), (1, LARGEST));
    assert_eq!(staging.held_bytes(), LARGEST * 16);
}

#[test]
fn a_buffer_shrinks_again_when_few_live() {
    let (mut staging, mut filed) = (StagingBuffer::default(), Vec::new());
    let mut dead = vec![false; LARGEST];
    for index in 0..LARGEST as u32 {
        insert(&mut staging, &dead, &mut filed, entry(index, 1_000));
    }
    assert_eq!(staging.held_bytes(), LARGEST * 16);
    dead.fill(true);
    for index in 0..LARGEST as u32 {
        insert(&mut staging, &dead, &mut filed, entry(index, 2_000));
    }
    assert!(filed.is_empty() && staging.held_bytes() == SMALLEST * 16);
    assert_eq!(staging.earliest(), 2_000, "the dead are forgotten");
}

#[test]
fn the_threshold_waits_for_an_empty_buffer() {
    let mut staging = StagingBuffer::default();
    assert!(!staging.admits(NEAR - 1) && staging.admits(NEAR));
    insert(&mut staging, &[false], &mut Vec::new(), entry(0, 500));
    staging.follow(400);
    assert!(!staging.admits(400), "what is due is not kept back");
    assert!(staging.admits(401), "an entry for 500 must not go past the one that is here");
    let taken = staging.file_due(500, usize::MAX, &Book(&[false]), || false, |_| ());
    assert_eq!((taken.filed, taken.removed), (1, 0));
    staging.follow(400);
    assert!(!staging.admits(463) && staging.admits(464));
    staging.follow(10);
    assert!(!staging.admits(463), "a threshold does not come back");
    staging.follow(u64::MAX);
    assert!(staging.admits(u64::MAX));
}

/// What a wheel gets, and what is expected of it.
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
    fn file(&mut self, dead: &[bool], entry: Entry) {
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

/// Steps of a timer's owner at random: what is filed of each tick comes in the order of arrival, all that lives
/// comes once and in time, and nothing is forgotten, whatever has been sealed, filed, and swept in between.
#[test]
fn what_is_sealed_is_filed_in_order_and_in_time() {
    let (mut sealed, mut swept, mut dropped, mut in_time) = (0, 0, 0, 0);
    for (seed, shortest, dying) in [(1, 600, 4), (2, 5_000, 2), (3, 1, 3), (4, 600, 1)] {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(9);
            (random >> 33) % bound
        };
        let (mut staging, mut wheel) = (StagingBuffer::default(), Wheel::default());
        let (mut dead, mut deadlines, mut now, mut removed) = (Vec::new(), Vec::new(), 0, 0);
        for step in 0..300_000_u32 {
            // Few ticks, so that entries share them.
            let delay = [1 + below(400), shortest + below(3_000), shortest + 8 * below(900)];
            let deadline = now + delay[below(3) as usize];
            dead.push(false);
            deadlines.push(deadline);
            wheel.waits.push(true);
            *wheel.awaited.entry(deadline).or_insert(0) += 1;
            if staging.admits(deadline) {
                while !staging.push(entry(step, deadline)) {
                    let pays = below(8) > 0;
                    removed += staging.evict_dead(
                        &Book(&dead),
                        || pays,
                        |entry| {
                            wheel.file(&dead, entry);
                            true
                        },
                    );
                }
            } else {
                wheel.file(&dead, entry(step, deadline));
            }
            sealed = sealed.max(staging.sealed.len());
            let victim = (step - below(u64::from(step.min(20_000)) + 1) as u32) as usize;
            if below(dying) == 0 && wheel.waits[victim] && !dead[victim] {
                dead[victim] = true;
                wheel.forget(deadlines[victim]);
            }
            if below(4_000) == 0 {
                let book = Book(&dead);
                let sweep = staging.sweep(3_000, |young| keep_live(young, &book, true));
                removed += sweep.removed;
                swept += sweep.removed;
            }
            if below(400) == 0 {
                now += 1 + if below(50) == 0 { below(700) } else { below(20) };
                staging.follow(now);
                // At times the budget runs out.
                while staging.next_look() <= now && below(10) > 0 {
                    let (pays, file) = (below(8) > 0, |entry| wheel.file(&dead, entry));
                    let taken = staging.file_due(now, 1_000, &Book(&dead), || pays, file);
                    removed += taken.removed;
                    dropped += taken.removed;
                    staging.follow(now);
                }
                if staging.earliest() > now {
                    let rest = wheel.awaited.split_off(&(now + 1));
                    assert!(wheel.awaited.values().all(|left| *left == 0), "late at {now}");
                    wheel.awaited = rest;
                    in_time += 1;
                }
            }
            assert_eq!(staging.len(), dead.len() - wheel.len - removed, "in step {step}");
        }
    }
    assert!(in_time > 2_000, "seldom in time: {in_time}");
    assert!(sealed > 50_000, "{sealed} sealed");
    assert!(swept > 10_000 && dropped > 10_000, "{swept} swept, {dropped} dropped");
}

#[test]
fn what_is_sealed_is_not_overtaken_at_short_notice() {
    let mut staging = StagingBuffer::default();
    for index in 0..LARGEST as u32 {
        insert(&mut staging, &vec![false; LARGEST], &mut Vec::new(), entry(index, 600));
    }
    staging.evict_dead(&Book(&vec![false; LARGEST]), || true, |_| panic!("it is not due soon"));
    assert_eq!((staging.len(), staging.sealed.len()), (LARGEST, LARGEST));
    staging.follow(560);
    assert!(!staging.admits(599) && staging.admits(600), "behind those that are older");
    // A quarter of the limit goes to what is due soon only.
    let file_due = |staging: &mut StagingBuffer, now| {
        let (mut came, all_live) = (0, vec![false; LARGEST]);
        let file = |_: Entry| came += 1;
        let taken = staging.file_due(now, 4 * 1024, &Book(&all_live), || true, file);
        assert_eq!((taken.filed, taken.removed), (came, 0));
        came
    };
    assert_eq!(staging.next_look(), 600 - SOON);
    assert_eq!(file_due(&mut staging, 600 - SOON - 1), 0);
    assert_eq!([100, 200, 600].map(|now| file_due(&mut staging, now)), [1024, 1024, 4096]);
    staging.follow(600);
    assert_eq!(staging.earliest(), 600, "the rest waits for the next turn");
    // What comes for the same tick then waits behind it.
    assert!(staging.push(entry(LARGEST as u32, 600)));
    let (mut came, all_live) = (Vec::new(), vec![false; LARGEST + 1]);
    for all in [1024, 2 * 1024 + 1] {
        staging.file_due(600, 1024, &Book(&all_live), || true, |entry| came.push(entry.index));
        assert_eq!((came.len(), came.is_sorted()), (all, true));
    }
}

#[test]
fn sealed_blocks_are_looked_at_where_that_pays() {
    let (mut log, mut filed) = (SealedLog::default(), 0);
    let count = 20 * BLOCK;
    let young: Vec<Young> = (0..count as u32).map(|n| Young::new(entry(n, 9))).collect();
    assert_eq!(log.append(&young), count);
    // In the first block nothing is dead, in all others every second one.
    let dead: Vec<bool> = (0..count).map(|n| n >= BLOCK && n % 2 == 0).collect();
    let taken = log.file_due(9, usize::MAX, &Book(&dead), |_| filed += 1);
    let looked_at = 20 - 1 - sealed::SKIPPED_LOOKS as usize;
    assert_eq!((taken.removed, taken.filed), (looked_at * BLOCK / 2, filed));
    assert_eq!((filed + taken.removed, log.len(), log.earliest()), (count, 0, u64::MAX));
}

/// Fills the places up.
fn fill(staging: &mut StagingBuffer, next: &mut u32) {
    while staging.push(entry(*next, 5_000 + u64::from(*next))) {
        *next += 1;
    }
    assert!(staging.is_full());
}

/// What has grown five times, and has been sealed then, all of it alive; and how many entries that were.
fn sealed_once() -> (StagingBuffer, u32) {
    let (mut staging, mut next) = (StagingBuffer::default(), 0);
    while staging.sealed.len() == 0 {
        fill(&mut staging, &mut next);
        let living = vec![false; next as usize];
        staging.evict_dead(&Book(&living), || true, |_| panic!("nothing is due soon"));
    }
    (staging, next)
}

#[test]
fn what_finds_no_room_in_the_wheel_stays_in_order() {
    let (mut staging, mut next) = sealed_once();
    assert!(!staging.is_full());
    next += 100;
    (next - 100..next).for_each(|n| assert!(staging.push(entry(n, 5_000 + u64::from(n)))));
    let (all, mut filed) = (staging.len(), Vec::new());
    assert_eq!(all, next as usize);
    for room in [0, 3_000, all - 50, all] {
        staging.empty_all(|entry| {
            let fits = filed.len() < room;
            filed.extend(fits.then_some(entry.index));
            fits
        });
        let earliest = if room < all { 5_000 + room as u64 } else { u64::MAX };
        assert_eq!((staging.len(), staging.earliest()), (all - room, earliest));
    }
    assert!(filed.into_iter().eq(0..next));
}

#[test]
fn a_cleared_buffer_has_forgotten_all() {
    let (mut staging, next) = sealed_once();
    assert!(staging.push(entry(next, 9_000)));
    staging.clear();
    assert_eq!((staging.len(), staging.earliest()), (0, u64::MAX));
    staging.empty_all(|entry| panic!("{entry:?} is still there"));
}

#[test]
fn a_full_buffer_is_sealed_without_a_look_where_that_does_not_pay() {
    let (mut staging, mut next, mut dead) = (StagingBuffer::default(), 0, Vec::new());
    let mut removed = Vec::new();
    // It grows five times, and is sealed after a look for the first time then.
    for _ in 0..5 + 1 + SKIPPED_LOOKS + 2 {
        fill(&mut staging, &mut next);
        // At first all live, then a quarter.
        let mixed = removed.len() > 5;
        dead.extend((dead.len() as u32..next).map(|n| mixed && n % 4 > 0));
        removed.push(staging.evict_dead(&Book(&dead), || true, |_| panic!("none is due soon")));
        assert!(!staging.is_full(), "there is room after {removed:?}");
    }
    let (without, with) = removed.split_at(removed.len() - 2);
    assert!(without.iter().all(|removed| *removed == 0), "{removed:?}");
    assert!(with.iter().all(|removed| *removed > LARGEST / 2), "{removed:?}");
}
