//! A table of real size, on one thread.

use super::*;
use crate::node::table::Armed;
use crate::state::Phase;
use std::collections::HashSet;

const KEPT: u64 = Table::<u64>::KEPT;
const BURST: u64 = 5 * KEPT;
/// Nodes of one step.
const STEP: usize = 4096;

fn arm(table: &Table<u64>, cache: &ThreadCache, payload: u64) -> Armed {
    table.arm(cache, 10, payload, false, || ()).unwrap()
}

struct Scene {
    table: Table<u64>,
    cache: ThreadCache,
    owners: ThreadCache,
}

impl Scene {
    fn with_timers(count: u64) -> (Self, Vec<Armed>) {
        let table = Table::new(0, u64::MAX);
        let scene = Self { table, cache: ThreadCache::default(), owners: ThreadCache::default() };
        let timers = scene.arm(count);
        (scene, timers)
    }

    fn arm(&self, count: u64) -> Vec<Armed> {
        (0..count).map(|n| arm(&self.table, &self.cache, n)).collect()
    }

    fn end(&self, timer: &Armed) -> Option<u64> {
        self.table.end(&self.cache, timer.index, timer.generation, Phase::Cancelled)
    }

    fn step(&self, trim: &mut Trim, in_use: u64) -> bool {
        trim.step(&self.table, &self.owners, in_use, || in_use, STEP)
    }

    fn given_back(&self) -> u64 {
        self.table.depot().regions.nodes()
    }
}

#[test]
fn what_is_kept_counts_in_nodes_if_they_are_small_and_in_bytes_if_not() {
    const { assert!(KEPT == KEPT_NODES && Table::<[u8; 100]>::KEPT == KEPT_NODES) };
    const { assert!(Table::<[u8; 4096]>::KEPT == KEPT_BYTES / 4112) };
    const { assert!(Table::<[u8; 1 << 20]>::KEPT == LEAST_KEPT) };
}

#[test]
fn it_begins_when_most_are_free_and_looks_when_many_have_gone() {
    let (scene, mut timers) = Scene::with_timers(BURST);
    let mut trim = Trim::default();
    let table = &scene.table;
    assert!(trim.is_due(table, BURST, false) && !scene.step(&mut trim, BURST), "all are in use");
    assert!(!trim.is_due(table, BURST / 2 + 1, false), "the table is as it was");
    let third = timers.split_off(BURST as usize * 2 / 3);
    assert!(third.iter().all(|timer| scene.end(timer).is_some()));
    assert!(trim.is_due(table, BURST / 2 - 1, false));
    assert!(!scene.step(&mut trim, BURST * 2 / 3), "a third is free");
    assert!(!trim.is_due(table, BURST / 3 + 1, false));
    let left = timers.split_off(KEPT as usize / 2);
    assert!(left.iter().all(|timer| scene.end(timer).is_some()));
    assert!(trim.is_due(table, BURST / 4 - 1, false) && scene.step(&mut trim, KEPT / 2));
    assert!(trim.is_due(table, BURST, false), "it has begun");
    while scene.step(&mut trim, KEPT / 2) {}
    let kept = table.depot().end() - scene.given_back();
    assert!(kept >= KEPT / 2 * 3 && kept < KEPT / 2 * 3 + 2 * STEP as u64, "{kept} are kept");
    assert!(!trim.is_due(table, 0, false) || !scene.step(&mut trim, KEPT / 2), "once is enough");
}

#[test]
fn a_look_comes_when_it_is_asked_for_and_now_and_then_while_much_is_free() {
    let (scene, timers) = Scene::with_timers(BURST);
    let mut trim = Trim::default();
    let table = &scene.table;
    assert!(trim.is_due(table, BURST, false) && !scene.step(&mut trim, BURST), "all are in use");
    assert!(!trim.is_due(table, BURST, false) && trim.is_due(table, BURST, true));
    let few_are_free = (0..2 * TURNS_PER_LOOK).filter(|_| trim.is_due(table, BURST, false)).count();
    assert_eq!(few_are_free, 0);
    // One timer in sixteen lives on, everywhere: much is free, and no region as a whole.
    let ended = timers.iter().filter(|timer| timer.index % 16 != 0);
    assert!(ended.filter(|timer| scene.end(timer).is_some()).count() > 0);
    assert!(!scene.step(&mut trim, BURST / 16), "it would be in vain");
    assert_eq!(scene.given_back(), 0);
    let turns = (1..).find(|_| trim.is_due(table, BURST / 16, false));
    assert_eq!(turns, Some(TURNS_PER_LOOK));
}

/// What lives in the midst of a burst goes on, and every node serves again, in a generation of its own.
#[test]
fn nobody_loses_a_node_and_no_generation_comes_twice() {
    let (scene, timers) = Scene::with_timers(BURST);
    let mut seen: HashSet<(u32, u64)> =
        timers.iter().map(|timer| (timer.index, timer.generation)).collect();
    let (living, mut others): (Vec<_>, Vec<_>) =
        timers.into_iter().partition(|timer| timer.index % 5000 == 7);
    // They end in disorder, so that each magazine has nodes from everywhere.
    others.sort_by_key(|timer| timer.index.wrapping_mul(0x9E37_79B9));
    assert!(others.iter().all(|timer| scene.end(timer).is_some()));
    let mut trim = Trim::default();
    let in_use = living.len() as u64;
    let steps = (0..).take_while(|_| scene.step(&mut trim, in_use)).count();
    assert!(steps > (BURST as usize - KEPT as usize) / STEP, "in pieces");
    assert!(scene.given_back() > BURST / 2, "{} of {BURST} are given back", scene.given_back());
    assert!(others.iter().all(|timer| scene.end(timer).is_none()));
    let again = scene.arm(BURST - in_use);
    assert!(scene.given_back() < 124, "they serve before nodes that never did");
    assert!(again.iter().all(|timer| seen.insert((timer.index, timer.generation))));
    let indices: HashSet<u32> = again.iter().chain(&living).map(|timer| timer.index).collect();
    assert_eq!(indices.len() as u64, BURST, "a node serves two timers");
    assert!(others.iter().all(|timer| scene.end(timer).is_none()));
    assert!(living.iter().all(|timer| scene.end(timer) == Some(u64::from(timer.index))));
}

/// What is not given back goes through the magazines, which are filled anew, and comes out again to the last node.
#[test]
fn all_that_is_kept_serves_again() {
    let (scene, timers) = Scene::with_timers(BURST);
    let (living, mut others): (Vec<_>, Vec<_>) =
        timers.into_iter().partition(|timer| timer.index % 2000 == 7);
    others.sort_by_key(|timer| timer.index.wrapping_mul(0x9E37_79B9));
    assert!(others.iter().all(|timer| scene.end(timer).is_some()));
    let mut trim = Trim::default();
    let in_use = living.len() as u64;
    while scene.step(&mut trim, in_use) {}
    let end = scene.table.depot().end();
    let kept = end - scene.given_back();
    assert!(kept > KEPT && kept < end, "{kept} of {end}");
    // Whoever finds no node that has served takes one that has not.
    let arm_all = |cache: &ThreadCache| {
        let end = scene.table.depot().end();
        let next = || arm(&scene.table, cache, 0);
        std::iter::repeat_with(next).take_while(|_| scene.table.depot().end() == end).count()
    };
    let again = arm_all(&scene.cache) + arm_all(&scene.owners);
    assert_eq!(again as u64 + in_use, end);
}

#[test]
fn a_burst_that_goes_on_keeps_its_memory() {
    for steps in [1, 40, 90] {
        let (scene, timers) = Scene::with_timers(BURST);
        assert!(timers.iter().all(|timer| scene.end(timer).is_some()));
        let mut trim = Trim::default();
        for _ in 0..steps {
            assert!(scene.step(&mut trim, 0));
        }
        let before = scene.given_back();
        let fresh = scene.arm(BURST);
        let grown = scene.table.depot().end() > BURST + FRESH + 1000;
        while scene.step(&mut trim, BURST) {}
        assert!(!grown || scene.given_back() <= before, "after {steps} steps");
        let indices: HashSet<u32> = fresh.iter().map(|timer| timer.index).collect();
        assert_eq!(indices.len(), fresh.len(), "a node serves two timers");
    }
}
