//! Free nodes: nobody gets a node that somebody else has, and it comes with everything done to it before.
//!
//! A [`Probe`] per node is written by whoever holds the node. A double hand-out is two writes at once, a
//! missing ordering between two holders is two writes without an order: loom fails in either case.

use super::harness::{Probe, bounded, bounded_when_quick, explore, spawn, spawn_with};
use crate::node::magazine::{CAPACITY, Depot, Magazine, ThreadCache};
use crate::sync::segments::Segments;
use crate::sync::stack::Stack;
use std::collections::HashSet;
use std::sync::Arc;

struct Pool {
    depot: Depot,
    probes: Vec<Probe>,
}

impl Pool {
    fn new(nodes: u64) -> Self {
        Self { depot: Depot::new(nodes), probes: (0..nodes).map(|_| Probe::new()).collect() }
    }

    fn take(&self, cache: &ThreadCache) -> Option<u32> {
        let node = cache.take(&self.depot, |_, _| panic!("nothing was given back"))?;
        let probe = &self.probes[node as usize];
        probe.set(probe.get() + 1);
        Some(node)
    }

    fn give(&self, cache: &ThreadCache, node: u32) {
        let probe = &self.probes[node as usize];
        probe.set(probe.get() + 1);
        cache.give(&self.depot, node);
    }
}

/// Fills the depot with full magazines.
fn stock(pool: &Pool, magazines: u32) {
    let cache = ThreadCache::default();
    // A thread cache keeps the last two magazines, so two more must pass through it.
    let nodes: Vec<_> =
        (0..(magazines + 2) * CAPACITY).map(|_| pool.take(&cache).unwrap()).collect();
    nodes.into_iter().for_each(|node| pool.give(&cache, node));
}

/// No node is handed out twice.
#[test]
fn take_or_take_from_the_depot() {
    explore(bounded_when_quick(3), || {
        let pool = Arc::new(Pool::new(u64::from(CAPACITY) * 5));
        stock(&pool, 2);
        let other = spawn_with(&pool, move |pool| pool.take(&ThreadCache::default()).unwrap());
        let mine = pool.take(&ThreadCache::default()).unwrap();
        assert_ne!(mine, other.join().unwrap(), "handed out twice");
    });
}

/// A thread gives its nodes back, magazine by magazine, while another one takes them.
#[test]
fn give_or_take() {
    explore(bounded(4, 2), || {
        let pool = Arc::new(Pool::new(u64::from(CAPACITY) * 4));
        let cache = ThreadCache::default();
        let nodes: Vec<_> = (0..3 * CAPACITY).map(|_| pool.take(&cache).unwrap()).collect();
        let taker = spawn_with(&pool, move |pool| {
            let cache = ThreadCache::default();
            let taken: Vec<_> = (0..2 * CAPACITY).map_while(|_| pool.take(&cache)).collect();
            (taken, cache)
        });
        nodes.into_iter().for_each(|node| pool.give(&cache, node));
        let (taken, others) = taker.join().unwrap();
        let mut free: HashSet<_> = taken.iter().copied().collect();
        assert_eq!(free.len(), taken.len(), "handed out twice");
        for cache in [&cache, &others] {
            while let Some(node) = pool.take(cache) {
                assert!(free.insert(node), "node {node} was handed out twice");
            }
        }
        assert_eq!(free.len() as u64, u64::from(CAPACITY) * 4, "a node was lost");
    });
}

/// Two threads at the very end of the table: together they get what there is.
#[test]
fn the_last_nodes() {
    explore(bounded_when_quick(3), || {
        let limit = u64::from(CAPACITY) + 1;
        let pool = Arc::new(Pool::new(limit));
        let drain = |pool: &Pool| {
            let cache = ThreadCache::default();
            std::iter::from_fn(|| pool.take(&cache)).collect::<Vec<_>>()
        };
        let other = spawn_with(&pool, move |pool| drain(pool));
        let mut nodes = drain(&pool);
        nodes.extend(other.join().unwrap());
        let count = nodes.len();
        assert_eq!(nodes.into_iter().collect::<HashSet<_>>().len(), count, "handed out twice");
        assert_eq!(count as u64, limit, "a node was lost");
    });
}

/// The stack's top leaves and comes back while another thread is about to pop it.
#[test]
fn a_magazine_that_returns_to_the_top() {
    explore(bounded_when_quick(3), || {
        let magazines = Arc::new(Segments::<Magazine>::new());
        let stack = Arc::new(Stack::default());
        for magazine in 0..3 {
            stack.push(&magazines, magazine);
        }
        let other = spawn({
            let (magazines, stack) = (Arc::clone(&magazines), Arc::clone(&stack));
            move || stack.pop(&magazines)
        });
        let first = stack.pop(&magazines).unwrap();
        let second = stack.pop(&magazines).unwrap();
        stack.push(&magazines, first);
        let mut held = vec![second];
        held.extend(other.join().unwrap());
        held.extend(std::iter::from_fn(|| stack.pop(&magazines)));
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2], "every magazine has one holder");
    });
}
