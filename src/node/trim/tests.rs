//! A table of real size, on one thread.

use super::*;
use crate::node::offer::offer;
use crate::node::table::Armed;
use crate::state::Phase;
use crate::system::takes_pages_back;
use crate::types::ScheduleErrorKind;
use std::collections::HashSet;

const KEPT: u64 = kept::<u64>();
const BURST: u64 = 5 * KEPT;
/// Nodes of one step.
const STEP: usize = 4096;

struct Scene {
    table: Table<u64>,
    cache: ThreadCache,
    owners: ThreadCache,
}

impl Scene {
    /// Returns a table after a burst, if the system takes memory back at all.
    fn after_a_burst() -> Option<(Self, Vec<Armed>)> {
        let table = Table::new(0, u64::MAX);
        let scene = Self {
            table,
            cache: ThreadCache::default(),
            owners: ThreadCache::default(),
        };
        let timers = scene.arm(BURST);
        takes_pages_back().then_some((scene, timers))
    }

    fn arm(&self, count: u64) -> Vec<Armed> {
        (0..count).map(|n| self.arm_one(&self.cache, n)).collect()
    }

    fn arm_one(&self, cache: &ThreadCache, payload: u64) -> Armed {
        offer(payload, |payload| {
            let armed = self.table.arm(cache, 10, payload, false, || ());
            armed.map_err(|payload| payload.refuse(ScheduleErrorKind::OutOfMemory))
        })
        .unwrap()
    }

    fn end_all<'a>(&self, timers: impl IntoIterator<Item = &'a Armed>) {
        assert!(timers.into_iter().all(|timer| self.end(timer).is_some()));
    }

    fn end(&self, timer: &Armed) -> Option<u64> {
        self.table
            .end(&self.cache, timer.index, timer.generation, Phase::Cancelled)
            .into_payload()
    }

    /// As the owner does at the end of a turn, until there is nothing to do; how many steps that took.
    fn run(&self, trim: &mut Trim, in_use: u64) -> usize {
        trim.begin(&self.table, in_use, || in_use);
        (0..)
            .take_while(|_| trim.step(&self.table, &self.owners, STEP, || in_use))
            .count()
    }

    /// As the owner does some time later; how many steps that took.
    fn return_memory(&self, trim: &mut Trim) -> usize {
        trim.begin_return(&self.table);
        (0..)
            .take_while(|_| trim.step(&self.table, &self.owners, STEP, || 0))
            .count()
    }

    fn in_regions(&self) -> u64 {
        self.table.depot.regions.nodes()
    }
}

#[test]
fn the_kept_reserve_is_in_nodes_or_bytes_by_their_size() {
    const { assert!(KEPT == KEPT_NODES && kept::<[u8; 100]>() == KEPT_NODES) };
    const { assert!(kept::<[u8; 4096]>() == KEPT_BYTES / 4112) };
    const { assert!(kept::<[u8; 1 << 20]>() == LEAST_KEPT) };
}

#[test]
fn it_begins_when_most_are_free_and_leaves_as_many_as_are_in_use() {
    let Some((scene, mut timers)) = Scene::after_a_burst() else {
        return;
    };
    let mut trim = Trim::default();
    assert_eq!(scene.run(&mut trim, BURST), 0, "all are in use");
    let third = timers.split_off(BURST as usize * 2 / 3);
    scene.end_all(&third);
    assert_eq!(scene.run(&mut trim, BURST * 2 / 3), 0, "a third is free");
    let left = timers.split_off(KEPT as usize / 2);
    scene.end_all(&left);
    let lists = scene.table.depot.allocated_bytes();
    assert!(
        lists as u64 >= BURST * 4,
        "a number for each free node: {lists}"
    );
    assert!(
        scene.run(&mut trim, KEPT / 2) > (BURST / 2) as usize / STEP,
        "in pieces"
    );
    let kept = scene.table.loose();
    assert!(
        kept >= KEPT / 2 * 3 && kept < KEPT / 2 * 3 + 2 * STEP as u64,
        "{kept} are kept"
    );
    assert!(
        scene.table.depot.allocated_bytes() > lists,
        "the regions take some"
    );
    assert_eq!(scene.run(&mut trim, KEPT / 2), 0, "once is enough");
    // Fewer than half of those that were in use then, and few beside what is kept.
    let in_use = KEPT / 8;
    scene.end_all(&timers.split_off(in_use as usize));
    assert!(scene.run(&mut trim, in_use) > 0);
    let now = scene.table.loose();
    assert!(now < kept - in_use, "{now} of {kept} are kept");
}

/// Few timers live on, where a trim does not look before it begins.
#[test]
fn a_trim_that_was_of_no_use_is_repeated_when_nearly_all_have_ended() {
    let Some((scene, timers)) = Scene::after_a_burst() else {
        return;
    };
    let regions = &scene.table.depot.regions;
    let last = regions.region_of(BURST as u32 - 1);
    let sampled: HashSet<u32> = (0..SAMPLES).map(|at| 1 + at * last / SAMPLES).collect();
    let (mut living, others): (Vec<_>, Vec<_>) = timers.into_iter().partition(|timer| {
        let region = regions.region_of(timer.index);
        !sampled.contains(&region) && timer.index == regions.first_of(region.max(1))
    });
    scene.end_all(&others);
    let (mut trim, in_use) = (Trim::default(), living.len() as u64);
    assert!(scene.run(&mut trim, in_use) > 0 && scene.in_regions() < BURST / 8);
    assert_eq!(scene.run(&mut trim, in_use), 0, "it would be in vain");
    let few = in_use / 16 - 1;
    assert!(few > 16);
    scene.end_all(&living.split_off(few as usize));
    assert!(scene.run(&mut trim, few) > 0 && scene.in_regions() > BURST / 2);
}

/// One timer in sixteen lives on, everywhere: much is free, and no region as a whole.
#[test]
fn scattered_timers_keep_a_trim_from_beginning_until_they_end() {
    let Some((scene, timers)) = Scene::after_a_burst() else {
        return;
    };
    let mut trim = Trim::default();
    let (living, others): (Vec<_>, Vec<_>) =
        timers.into_iter().partition(|timer| timer.index % 16 == 0);
    scene.end_all(&others);
    assert_eq!(scene.run(&mut trim, BURST / 16), 0, "it would be in vain");
    scene.end_all(&living);
    assert!(scene.run(&mut trim, 0) > 0 && scene.in_regions() > BURST / 2);
}

/// Timers that live in the midst of a burst stay, and every node serves again, to the last one, in a generation of its
/// own.
#[test]
fn no_node_is_lost_and_no_generation_repeats() {
    for (apart, returns) in [(2000, false), (5000, false), (2000, true), (5000, true)] {
        let Some((scene, timers)) = Scene::after_a_burst() else {
            return;
        };
        let name = |timer: &Armed| (timer.index, timer.generation);
        let mut seen: HashSet<(u32, u64)> = timers.iter().map(name).collect();
        let (living, mut others): (Vec<_>, Vec<_>) = timers
            .into_iter()
            .partition(|timer| timer.index % apart == 7);
        // They end in disorder, so that each magazine has nodes from everywhere.
        others.sort_by_key(|timer| timer.index.wrapping_mul(0x9E37_79B9));
        scene.end_all(&others);
        let in_use = living.len() as u64;
        let (mut trim, end) = (Trim::default(), scene.table.depot.end());
        assert!(scene.run(&mut trim, in_use) > 0);
        let free = scene.in_regions();
        assert!(trim.memory(&scene.table) == NodeMemory::Spare && scene.table.resident() == end);
        assert!(
            (BURST / 2..end - KEPT).contains(&scene.in_regions()),
            "{}",
            scene.in_regions()
        );
        if returns {
            // The top region is not whole any more.
            let few = scene.arm(4 * KEPT);
            assert!(few.iter().all(|timer| seen.insert(name(timer))));
            scene.end_all(&few);
            assert!(scene.in_regions() < free / 2);
            assert!(trim.memory(&scene.table) == NodeMemory::UsedAgain);
            assert!(trim.memory(&scene.table) == NodeMemory::Spare);
            assert!(scene.return_memory(&mut trim) > 10, "in pieces");
            assert!(trim.memory(&scene.table) == NodeMemory::InUse);
            assert_eq!(scene.table.resident(), end - scene.in_regions());
            assert_eq!(scene.return_memory(&mut trim), 0, "once is enough");
        }
        // A thread that finds no used node takes a fresh one, after those that were given back or kept.
        let mut again = Vec::new();
        for cache in [&scene.cache, &scene.owners] {
            let before = scene.table.depot.end();
            while scene.table.depot.end() == before {
                again.push(scene.arm_one(cache, 0));
            }
            assert!(
                again
                    .pop()
                    .is_some_and(|fresh| u64::from(fresh.index) >= before)
            );
            assert!(
                scene.in_regions() < 124,
                "they serve before nodes that never did"
            );
        }
        assert!(again.iter().all(|timer| seen.insert(name(timer))));
        let indices: HashSet<u32> = again
            .iter()
            .chain(&living)
            .map(|timer| timer.index)
            .collect();
        assert_eq!(
            indices.len() as u64,
            end,
            "a node serves two timers, or none"
        );
        assert!(others.iter().all(|timer| scene.end(timer).is_none()));
        assert!(
            living
                .iter()
                .all(|timer| scene.end(timer) == Some(u64::from(timer.index)))
        );
    }
}

#[test]
fn a_burst_that_goes_on_keeps_its_memory() {
    for steps in [1, 40, 90] {
        let Some((scene, timers)) = Scene::after_a_burst() else {
            return;
        };
        scene.end_all(&timers);
        let mut trim = Trim::default();
        trim.begin(&scene.table, 0, || 0);
        for _ in 0..steps {
            assert!(trim.step(&scene.table, &scene.owners, STEP, || 0));
        }
        let before = scene.in_regions();
        let fresh = scene.arm(BURST);
        let grown = scene.table.depot.end() > BURST + FRESH + 1000;
        while trim.step(&scene.table, &scene.owners, STEP, || 0) {}
        assert!(
            !grown || scene.in_regions() <= before,
            "after {steps} steps"
        );
        let indices: HashSet<u32> = fresh.iter().map(|timer| timer.index).collect();
        assert_eq!(indices.len(), fresh.len(), "a node serves two timers");
    }
}

/// A regression: what was in use before the burst said when to begin again.
#[test]
fn a_trim_that_a_burst_has_interrupted_is_made_when_that_has_ended() {
    let Some((scene, timers)) = Scene::after_a_burst() else {
        return;
    };
    scene.end_all(&timers);
    let mut trim = Trim::default();
    trim.begin(&scene.table, 0, || 0);
    for _ in 0..BURST as usize / STEP / 2 {
        assert!(trim.step(&scene.table, &scene.owners, STEP, || 0));
    }
    let again = scene.arm(BURST);
    while trim.step(&scene.table, &scene.owners, STEP, || BURST) {}
    scene.end_all(&again);
    assert!(scene.run(&mut trim, 0) > 0, "it does not begin");
    assert!(scene.in_regions() > BURST / 2);
}
