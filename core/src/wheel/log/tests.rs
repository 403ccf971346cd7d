//! The log: what goes in comes out of the wheel once, in order, and in time.

use super::*;
use crate::wheel::policy::SKIPPED_LOOKS;
use std::collections::BTreeMap;

/// Young entries at most.
const LARGEST: usize = MOST_YOUNG * BLOCK;

fn entry(index: u32, deadline: u64) -> Entry {
    Entry {
        deadline,
        index,
        mark: !index,
    }
}

/// Which indices are dead, and whether many zombies are claimed, so that it pays to seal.
struct Book<'a>(&'a [bool], bool);

impl Records for Book<'_> {
    fn is_live(&self, entry: &Entry) -> bool {
        !self.0[entry.index as usize]
    }

    fn prefetch(&self, entry: &Entry) {
        assert!(
            (entry.index as usize) < self.0.len(),
            "only entries that are there"
        );
    }

    fn pending(&self) -> u64 {
        if self.1 { 0 } else { u64::MAX / 2 }
    }
}

/// A wheel, and the timers whose entries its log has got.
#[derive(Default)]
struct Timers {
    wheel: Wheel,
    dead: Vec<bool>,
}

impl Timers {
    /// One more timer; evicts the dead, and pushes again, until its entry is taken.
    fn push(&mut self, deadline: u64) {
        let entry = entry(self.dead.len() as u32, deadline);
        self.dead.push(false);
        while !self.wheel.log.push(entry) {
            self.make_room(false);
        }
    }

    fn make_room(&mut self, pays: bool) {
        self.wheel.begin_block(&Book(&self.dead, pays));
    }

    /// How many entries have come to the rings.
    fn inserted(&self) -> usize {
        self.wheel.rings.len
    }

    /// How many entries are inserted, and how many dead ones removed.
    fn insert_due(&mut self, now: u64, limit: usize) -> (usize, usize) {
        let before = (self.inserted(), self.wheel.removed);
        let book = Book(&self.dead, true);
        let taken = self.wheel.insert_due(now, limit, &book);
        let inserted = self.inserted() - before.0;
        let removed = (self.wheel.removed - before.1) as usize;
        assert_eq!(taken, inserted + removed);
        (inserted, removed)
    }

    /// Returns the entries that come out of the rings, in order.
    fn came(&mut self) -> Vec<u32> {
        let mut due = Vec::new();
        while self.wheel.rings.advance(u64::MAX, 1000, &mut due).is_none() {}
        due.iter().map(|entry| entry.index).collect()
    }

    /// Timers whose entries are due at 5000 and after, all of them sealed.
    fn sealed(count: u64) -> Self {
        let mut timers = Self::default();
        for n in 0..count {
            timers.push(5_000 + n);
            if n % 700 == 699 || n == count - 1 {
                timers.wheel.log.seal();
            }
        }
        timers
    }
}

#[test]
fn young_blocks_become_more_while_timers_live_and_fewer_when_they_die() {
    for die in [false, true] {
        let mut timers = Timers::default();
        assert_eq!(
            timers.wheel.log.held_bytes(),
            0,
            "who schedules nothing holds nothing"
        );
        for n in 0..LARGEST as u64 {
            timers.push(1_000 - n % 10);
            assert_eq!(timers.wheel.log.earliest(), 1_000 - n.min(9), "after {n}");
        }
        let young = (timers.wheel.log.most_young, timers.wheel.log.blocks.len());
        assert_eq!(
            (young, timers.inserted()),
            ((MOST_YOUNG, MOST_YOUNG - 1), 0)
        );
        timers.dead.fill(die);
        for _ in 0..if die { LARGEST } else { 1 } {
            timers.push(2_000);
            *timers.dead.last_mut().unwrap() = die;
        }
        let left = (
            timers.wheel.log.most_young,
            timers.wheel.log.blocks.len(),
            timers.wheel.log.earliest(),
        );
        let (most_young, inserted) = if die { (1, 0) } else { (MOST_YOUNG, LARGEST) };
        assert_eq!(
            (left, timers.inserted()),
            ((most_young, 0, 2_000), inserted)
        );
    }
}

#[test]
fn the_threshold_waits_for_an_empty_buffer() {
    let mut timers = Timers::default();
    assert!(!timers.wheel.log.admits(NEAR - 1) && timers.wheel.log.admits(NEAR));
    timers.push(500);
    timers.wheel.log.follow(400);
    assert!(
        !timers.wheel.log.admits(400),
        "what is due is not kept back"
    );
    assert!(
        timers.wheel.log.admits(401),
        "an entry for 500 must not go past the one that is here"
    );
    assert_eq!(timers.insert_due(500, usize::MAX), (1, 0));
    timers.wheel.log.follow(400);
    assert!(!timers.wheel.log.admits(463) && timers.wheel.log.admits(464));
    timers.wheel.log.follow(10);
    assert!(
        !timers.wheel.log.admits(463),
        "a threshold does not come back"
    );
    timers.wheel.log.follow(u64::MAX);
    assert!(timers.wheel.log.admits(u64::MAX));
}

/// The entries that are expected of a wheel.
#[derive(Default)]
struct Expected {
    /// By deadline: how many that live are to come still.
    awaited: BTreeMap<u64, u32>,
    /// By index: whether it is to come, dead or alive.
    waits: Vec<bool>,
    /// By index.
    deadlines: Vec<u64>,
    dead: Vec<bool>,
    /// How many have come.
    came: usize,
}

impl Expected {
    fn add(&mut self, deadline: u64) {
        self.dead.push(false);
        self.deadlines.push(deadline);
        self.waits.push(true);
        *self.awaited.entry(deadline).or_insert(0) += 1;
    }

    /// Takes what has come by `now`: once each, tick by tick, and in the order of arrival within a tick.
    fn come(&mut self, due: &[Entry], now: u64) {
        assert!(
            due.is_sorted_by_key(|entry| (entry.deadline, entry.index)),
            "by {now}"
        );
        for entry in due {
            let index = entry.index as usize;
            assert!(entry.deadline <= now, "{entry:?} is early at {now}");
            assert!(
                std::mem::take(&mut self.waits[index]),
                "{entry:?} comes twice"
            );
            if !self.dead[index] {
                self.forget(entry.deadline);
            }
        }
        self.came += due.len();
    }

    fn kill(&mut self, index: usize) {
        if self.waits[index] && !self.dead[index] {
            self.dead[index] = true;
            self.forget(self.deadlines[index]);
        }
    }

    fn forget(&mut self, deadline: u64) {
        *self.awaited.get_mut(&deadline).unwrap() -= 1;
    }
}

/// Steps of a timer's owner at random: each tick comes in the order of arrival, all that lives comes once and in time,
/// and nothing is forgotten after any sealing, inserting and sweeping in between.
#[test]
fn sealed_entries_come_in_order_and_in_time() {
    let (mut sealed, mut swept, mut dropped, mut in_time) = (0, 0, 0, 0);
    for (seed, shortest, dying) in [(1, 600, 4), (2, 5_000, 2), (3, 1, 3), (4, 600, 1)] {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(9);
            (random >> 33) % bound
        };
        let (mut wheel, mut expected, mut now) = (Wheel::default(), Expected::default(), 0);
        for step in 0..300_000_u32 {
            // Few ticks, so that entries share them.
            let delay = [
                1 + below(400),
                shortest + below(3_000),
                shortest + 8 * below(900),
            ];
            let deadline = now + delay[below(3) as usize];
            expected.add(deadline);
            if wheel.log.admits(deadline) {
                while !wheel.log.push(entry(step, deadline)) {
                    wheel.begin_block(&Book(&expected.dead, below(8) > 0));
                }
                assert!(wheel.log.earliest() <= deadline);
            } else {
                wheel.rings.insert(entry(step, deadline));
            }
            let log = &wheel.log;
            sealed = sealed.max(log.blocks.range(..log.sealed).map(|block| block.len).sum());
            let victim = (step - below(u64::from(step.min(20_000)) + 1) as u32) as usize;
            if below(dying) == 0 {
                expected.kill(victim);
            }
            if below(4_000) == 0 {
                let before = wheel.removed;
                wheel.next_piece(3_000, &Book(&expected.dead, true));
                swept += wheel.removed - before;
            }
            if below(400) == 0 {
                now += 1 + if below(50) == 0 {
                    below(700)
                } else {
                    below(20)
                };
                wheel.log.follow(now);
                // At times the budget runs out.
                while wheel.log.idle_until() <= now && below(10) > 0 {
                    let before = wheel.removed;
                    let book = Book(&expected.dead, below(8) > 0);
                    wheel.insert_due(now, 1_000, &book);
                    dropped += wheel.removed - before;
                    wheel.log.follow(now);
                }
                let (mut due, to) = (Vec::new(), now.min(wheel.log.earliest().saturating_sub(1)));
                while wheel.rings.advance(to, 1_000, &mut due).is_none() {}
                expected.come(&due, to);
                if to == now {
                    let rest = expected.awaited.split_off(&(now + 1));
                    assert!(
                        expected.awaited.values().all(|left| *left == 0),
                        "late at {now}"
                    );
                    expected.awaited = rest;
                    in_time += 1;
                }
            }
            let gone = expected.came + wheel.removed as usize;
            assert_eq!(wheel.len(), expected.dead.len() - gone, "in step {step}");
        }
    }
    assert!(in_time > 2_000, "seldom in time: {in_time}");
    assert!(sealed > 50_000, "{sealed} sealed");
    assert!(
        swept > 10_000 && dropped > 10_000,
        "{swept} swept, {dropped} dropped"
    );
}

#[test]
fn sealed_entries_are_not_overtaken_at_short_notice() {
    let mut timers = Timers::default();
    (0..LARGEST).for_each(|_| timers.push(600));
    timers.make_room(true);
    let sealed = timers.wheel.log.sealed;
    assert_eq!(
        (timers.wheel.log.len(), sealed, timers.inserted()),
        (LARGEST, MOST_YOUNG, 0)
    );
    timers.wheel.log.follow(560);
    assert!(
        !timers.wheel.log.admits(599) && timers.wheel.log.admits(600),
        "behind those that are older"
    );
    assert_eq!(timers.wheel.log.idle_until(), 600 - SOON);
    assert_eq!(timers.insert_due(600 - SOON - 1, 4 * 1024), (0, 0));
    // A quarter of the limit goes to what is due soon only.
    let taken = [100, 200, 600].map(|now| timers.insert_due(now, 4 * 1024));
    assert_eq!(taken, [(1024, 0), (1024, 0), (4096, 0)]);
    timers.wheel.log.follow(600);
    assert_eq!(
        timers.wheel.log.earliest(),
        600,
        "the rest waits for the next turn"
    );
    // What comes for the same tick then waits behind it.
    timers.push(600);
    for left in [1024, 1024 + 1] {
        assert_eq!(timers.insert_due(600, 1024), (left, 0));
    }
    assert!(timers.came().into_iter().eq(0..=LARGEST as u32));
}

#[test]
fn young_entries_that_all_die_leave_the_sealed_ones() {
    let mut timers = Timers::sealed(1_500);
    timers.push(4_000);
    timers.dead[1_500] = true;
    assert_eq!(timers.insert_due(4_000, usize::MAX), (0, 1));
    assert_eq!(
        (timers.wheel.log.len(), timers.wheel.log.earliest()),
        (1_500, 5_000)
    );
    timers.push(4_100);
    assert_eq!(timers.insert_due(9_000, usize::MAX), (1_501, 0));
    assert!(
        timers
            .came()
            .into_iter()
            .eq([1_501].into_iter().chain(0..1_500))
    );
}

#[test]
fn sealed_blocks_are_looked_at_where_that_pays() {
    let (mut timers, blocks) = (Timers::default(), MOST_YOUNG - 1);
    (0..blocks * BLOCK).for_each(|_| timers.push(90));
    timers.wheel.log.seal();
    // In the first block nothing is dead, in the later ones every second entry.
    timers.dead = (0..blocks * BLOCK)
        .map(|n| n >= BLOCK && n % 2 == 0)
        .collect();
    let (inserted, removed) = timers.insert_due(90, usize::MAX);
    assert_eq!(
        removed,
        blocks.saturating_sub(1 + SKIPPED_LOOKS as usize) * BLOCK / 2
    );
    let log = &timers.wheel.log;
    assert_eq!(
        (inserted + removed, log.len(), log.earliest()),
        (blocks * BLOCK, 0, u64::MAX)
    );
}

/// One timer that is far away and one at short notice, again and again: each of the latter seals one of the former.
#[test]
fn entries_that_are_sealed_one_by_one_share_a_block() {
    let mut timers = Timers::sealed(1);
    for now in (0..4000).step_by(100) {
        timers.wheel.log.follow(now);
        timers.push(1_000_000);
        timers.push(now + 80);
        assert_eq!(timers.insert_due(now + 80, usize::MAX), (1, 0));
    }
    assert_eq!(
        (timers.wheel.log.len(), timers.wheel.log.blocks.len()),
        (1 + 40, 1)
    );
    timers.insert_due(1_000_000, usize::MAX);
    timers.insert_due(1_000_000, usize::MAX);
    let far = timers.came().into_iter().filter(|index| index % 2 == 1);
    assert!(far.eq((1..=79).step_by(2)), "in their order");
}

#[test]
fn dead_entries_count_against_the_limit() {
    let mut timers = Timers::sealed(8 * BLOCK as u64);
    timers.dead = (0..8 * BLOCK).map(|n| n % 2 == 0).collect();
    while timers.wheel.log.len() > 0 {
        let (inserted, removed) = timers.insert_due(20_000, BLOCK);
        assert!(
            inserted + removed < 2 * BLOCK,
            "{inserted} inserted, {removed} removed"
        );
    }
}

#[test]
fn entries_without_room_in_the_rings_stay_in_order() {
    let (count, mut before) = (12_000, 0);
    let mut timers = Timers::sealed(count);
    for segments in [0, 1, 2] {
        timers.wheel.rings.chunks.most_segments = Some(segments);
        timers.wheel.insert_all();
        let inserted = timers.inserted();
        assert!(
            inserted > before || segments == 0,
            "{segments} segments have room for {inserted}"
        );
        let log = &timers.wheel.log;
        assert_eq!(log.len(), count as usize - inserted);
        assert_eq!(
            log.earliest(),
            5_000 + inserted as u64,
            "the first that stays"
        );
        before = inserted;
    }
    timers.wheel.rings.chunks.most_segments = None;
    timers.wheel.insert_all();
    assert!(timers.came().into_iter().eq(0..count as u32));
}

/// The memory of all blocks, with that of the lists in which they are.
fn bytes_of(log: &Log) -> usize {
    let blocks = log.blocks.iter().chain([&log.tail]);
    let places = blocks.map(|block| &block.places).chain(&log.pool.0);
    let lists = log.blocks.capacity() * size_of::<Block>()
        + log.pool.0.capacity() * size_of_val(&log.tail.places);
    places.map(|places| size_of_val(&**places)).sum::<usize>() + lists
}

#[test]
fn a_cleared_log_has_forgotten_all_and_keeps_its_blocks() {
    let mut timers = Timers::sealed((48 * BLOCK) as u64);
    for _ in 0..2 {
        timers.push(9_000);
        assert_eq!(timers.wheel.log.held_bytes(), bytes_of(&timers.wheel.log));
        timers.wheel.log.clear();
        let log = &timers.wheel.log;
        assert_eq!(
            (log.len(), log.earliest(), log.blocks.len()),
            (0, u64::MAX, 0)
        );
        assert_eq!(log.held_bytes(), bytes_of(log));
    }
    timers.wheel.insert_all();
    assert!(timers.wheel.len() == 0);
}

#[test]
fn a_sweep_packs_what_lives_into_fewer_blocks() {
    let mut timers = Timers::sealed(8 * BLOCK as u64);
    timers.dead = (0..8 * BLOCK).map(|n| n % 3 > 0).collect();
    let sweep = timers
        .wheel
        .next_piece(usize::MAX, &Book(&timers.dead, true));
    let log = &timers.wheel.log;
    assert!(sweep.cycle_done && sweep.removed + log.len() == 8 * BLOCK);
    assert_eq!(
        (log.sealed, log.len(), log.earliest()),
        (3, (8 * BLOCK).div_ceil(3), 5_000)
    );
    timers.wheel.insert_all();
    let came = timers.came();
    assert!(
        came.into_iter().eq((0..8 * BLOCK as u32).step_by(3)),
        "in their order"
    );
}
