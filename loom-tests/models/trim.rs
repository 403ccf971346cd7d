//! Memory of free nodes that goes back to the system, while others look at these nodes by stale keys, or take some.
//!
//! Under loom a region is two nodes, and giving memory back makes idle nodes of them, by stores that order nothing;
//! that nobody looks at what they carry, loom checks. On real threads a table begins with this at a hundred thousand
//! free nodes: `tests/memory` does that.

use super::harness::{Ledger, Payload, bounded, bounded_when_quick, explore, spawn_with};
use crate::node::magazine::{CAPACITY, ThreadCache};
use crate::node::magazine::{Regions, Run};
use crate::node::record::Rescheduled;
use crate::node::table::{Armed, Table};
use crate::node::trim::Trim;
use crate::state::Phase;
use std::collections::HashSet;
use std::sync::Arc;

/// Nodes of the burst: two magazines for the depot, and two that stay with the thread.
const BURST: u32 = 4 * CAPACITY;

struct Scene {
    table: Table<Payload>,
    /// Of the burst's thread, of another one, and the owner's.
    caches: [ThreadCache; 3],
    ledger: Arc<Ledger>,
}

impl Scene {
    /// A table of so many nodes, after a burst of timers, which are all cancelled.
    fn new(nodes: u32) -> (Arc<Self>, Vec<Armed>) {
        let scene = Self {
            table: Table::new(0, u64::from(nodes)),
            caches: std::array::from_fn(|_| ThreadCache::default()),
            ledger: Ledger::of_payloads(),
        };
        let burst: Vec<Armed> = (0..BURST).map(|id| scene.arm(0, u64::from(id)).unwrap()).collect();
        let mut order = burst.clone();
        // No magazine in the depot has a whole region.
        order[..2 * CAPACITY as usize].rotate_left(1);
        for timer in order {
            assert!(scene.cancel(0, timer).is_some());
        }
        (Arc::new(scene), burst)
    }

    fn arm(&self, thread: usize, id: u64) -> Option<Armed> {
        let payload = self.ledger.payload(id);
        self.table.arm(&self.caches[thread], 10, payload, false, || ()).ok()
    }

    fn cancel(&self, thread: usize, timer: Armed) -> Option<u64> {
        let Armed { index, generation, .. } = timer;
        let ended = self.table.end(&self.caches[thread], index, generation, Phase::Cancelled);
        ended.map(|payload| payload.id())
    }

    /// The owner gives back what it can.
    fn trim(&self) {
        let mut trim = Trim::default();
        trim.begin(&self.table, 0, || 0);
        while trim.step(&self.table, &self.caches[2], 1) {}
    }

    /// All threads are done: each node can be had once, and each payload was dropped once.
    fn finish(self: Arc<Self>, nodes: u32) {
        let Some(scene) = Arc::into_inner(self) else { panic!("a thread is not joined") };
        let mut free = HashSet::new();
        for thread in 0..scene.caches.len() {
            while let Some(timer) = scene.arm(thread, 0) {
                assert!(free.insert(timer.index), "node {} is free twice", timer.index);
            }
        }
        assert_eq!(free.len(), nodes as usize, "a node was lost");
        let ledger = Arc::clone(&scene.ledger);
        drop(scene);
        ledger.assert_all_dropped();
    }
}

/// Somebody has the key of a timer of the burst, and its entry is still inserted, while its node's memory is given back
/// and the node serves again.
#[test]
fn a_stale_key_or_given_back() {
    explore(bounded(3, 2), || {
        let (scene, burst) = Scene::new(BURST);
        // Of those in the depot the one that serves first.
        let stale = burst[CAPACITY as usize];
        let stranger = spawn_with(&scene, move |scene| {
            let Armed { index, generation, mark } = stale;
            let moved = scene.table.reschedule(&scene.caches[1], index, generation, 5);
            assert_eq!(moved, Rescheduled::Gone);
            assert_eq!(scene.table.deadline_of(index, generation), None);
            assert_eq!(scene.cancel(1, stale), None, "a stale key reached another timer");
            assert!(!scene.table.is_live(index, mark), "a zombie came alive");
        });
        scene.trim();
        let next = scene.arm(2, 77).unwrap();
        assert_eq!(next.index, stale.index, "the node that was given back last serves first");
        assert!(next.generation > stale.generation + 1, "its memory was not given back");
        stranger.join().unwrap();
        assert_eq!(scene.cancel(2, next), Some(77), "the next timer is untouched");
        scene.finish(BURST);
    });
}

/// Somebody arms and cancels a timer meanwhile, with a node of the depot, of a region, or one that never served.
#[test]
fn a_node_is_taken_or_given_back() {
    const NODES: u32 = BURST + CAPACITY;
    explore(bounded(3, 2), || {
        let (scene, _) = Scene::new(NODES);
        let producer = spawn_with(&scene, move |scene| {
            let timer = scene.arm(1, 50).expect("there are nodes that never served");
            assert_eq!(scene.cancel(1, timer), Some(50), "its timer was lost");
        });
        scene.trim();
        producer.join().unwrap();
        scene.finish(NODES);
    });
}

/// The stack's top leaves and comes back, with another generation, while another thread is about to take from it.
#[test]
fn a_region_that_returns_to_the_top() {
    explore(bounded_when_quick(3), || {
        let regions = Arc::new(Regions::new());
        for region in [2, 3] {
            assert!(regions.remember(region, 5));
            regions.put(region);
        }
        let other = spawn_with(&regions, move |regions| regions.take(2));
        let first = regions.take(2).unwrap();
        let mut held = vec![regions.take(2)];
        let again = regions.region_of(first.first);
        assert!(regions.remember(again, 7));
        regions.put(again);
        held.push(other.join().unwrap());
        held.extend(std::iter::from_fn(|| Some(regions.take(1)).filter(Option::is_some)));
        let held: Vec<Run> = held.into_iter().flatten().collect();
        let mut nodes = HashSet::new();
        for Run { first, count, generation } in held {
            let expected = if regions.region_of(first) == again { 7 } else { 5 };
            assert_eq!(generation, expected, "the generation of another time");
            (first..first + count).for_each(|node| assert!(nodes.insert(node), "taken twice"));
        }
        assert_eq!(nodes.len(), 4, "a node was lost");
    });
}
