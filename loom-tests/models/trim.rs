//! Memory of free nodes that goes back to the system, while others look at these nodes by stale keys, or take some.
//!
//! Under loom a region is two nodes, and giving memory back makes idle nodes of them, by stores that order nothing;
//! that nobody looks at what they carry, loom checks. On real threads a table begins with this at a hundred thousand
//! free nodes: `tests/memory` does that.

use super::harness::{bounded, bounded_when_quick, explore, spawn_with};
use super::world::World;
use crate::node::magazine::CAPACITY;
use crate::node::moves::Move;
use crate::node::regions::{Regions, Run};
use crate::node::table::Armed;
use crate::node::trim::Trim;
use std::collections::HashSet;
use std::sync::Arc;

/// Nodes of the burst: two magazines for the depot, and two that stay with the thread.
const BURST: u32 = 4 * CAPACITY;

/// Returns a table of so many nodes, after a burst of timers, which are all cancelled.
fn after_a_burst(nodes: u32) -> (Arc<World>, Vec<Armed>) {
    let world = World::with_nodes(nodes);
    let burst: Vec<Armed> = (0..BURST)
        .map(|id| world.arm(0, 10, u64::from(id)))
        .collect();
    let mut order = burst.clone();
    // No magazine in the depot has a whole region.
    order[..2 * CAPACITY as usize].rotate_left(1);
    for timer in order {
        assert!(world.cancel(0, timer).is_some());
    }
    (world, burst)
}

/// The owner puts the free nodes in order and gives back what it can.
fn trim(world: &World) {
    let mut trim = Trim::default();
    trim.begin(&world.table, 0, || 0);
    while trim.step(&world.table, world.owners_cache(), 1, || 0) {}
    trim.begin_return(&world.table);
    while trim.step(&world.table, world.owners_cache(), 1, || 0) {}
}

/// Somebody has the key of a timer of the burst, and its entry is still inserted, while its node's memory is given back
/// and the node serves again.
#[test]
fn a_stale_key_or_given_back() {
    explore(bounded(3, 2), || {
        let (world, burst) = after_a_burst(BURST);
        // Of those in the depot the one that serves first.
        let stale = burst[CAPACITY as usize];
        let stranger = spawn_with(&world, move |world| {
            let Armed {
                index,
                generation,
                mark,
            } = stale;
            assert_eq!(world.move_to(1, stale, 5), Move::Gone);
            assert_eq!(world.table.deadline_of(index, generation), None);
            assert_eq!(
                world.cancel(1, stale),
                None,
                "a stale key reached another timer"
            );
            assert!(!world.table.is_live(index, mark), "a zombie came alive");
        });
        trim(&world);
        let next = world.arm(2, 10, 77);
        assert_eq!(
            next.index, stale.index,
            "the node that was given back last serves first"
        );
        assert!(
            next.generation > stale.generation + 1,
            "its memory was not given back"
        );
        stranger.join().unwrap();
        assert_eq!(
            world.cancel(2, next),
            Some(77),
            "the next timer is untouched"
        );
        world.finish();
    });
}

/// Somebody arms and cancels a timer meanwhile, with a node of the depot, of a region, or one that never served.
#[test]
fn a_node_is_taken_or_given_back() {
    const NODES: u32 = BURST + CAPACITY;
    explore(bounded(3, 2), || {
        let (world, _) = after_a_burst(NODES);
        let producer = spawn_with(&world, move |world| {
            let timer = world.arm(1, 10, 50);
            assert_eq!(world.cancel(1, timer), Some(50), "its timer was lost");
        });
        trim(&world);
        producer.join().unwrap();
        world.finish();
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
        held.extend(std::iter::from_fn(|| {
            Some(regions.take(1)).filter(Option::is_some)
        }));
        let held: Vec<Run> = held.into_iter().flatten().collect();
        let mut nodes = HashSet::new();
        for Run {
            first,
            count,
            generation,
        } in held
        {
            let expected = if regions.region_of(first) == again {
                7
            } else {
                5
            };
            assert_eq!(generation, expected, "the generation of another time");
            (first..first + count).for_each(|node| assert!(nodes.insert(node), "taken twice"));
        }
        assert_eq!(nodes.len(), 4, "a node was lost");
    });
}
