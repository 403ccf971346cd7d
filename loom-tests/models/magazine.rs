//! Free nodes: nobody gets a node that somebody else has, and it comes with everything done to it before.
//!
//! A [`Probe`] per node is written by whoever holds the node. A double hand-out is two writes at once, a
//! missing ordering between two holders is two writes without an order: loom fails in either case.

use super::harness::{Probe, bounded, bounded_when_quick, explore, spawn_with};
use crate::node::magazine::{CAPACITY, Depot, Magazine, Nodes, Pile, ThreadCache};
use crate::sync::segments::Segments;
use std::collections::HashSet;
use std::sync::Arc;

struct Pool {
    depot: Depot,
    probes: Vec<Probe>,
}

impl Nodes for Pool {
    fn provide(&self, _: u32) -> bool {
        true
    }

    fn renew(&self, _: u32, _: u64) {
        panic!("nothing was given back");
    }
}

impl Pool {
    fn new(nodes: u32) -> Arc<Self> {
        let probes = (0..nodes).map(|_| Probe::new()).collect();
        Arc::new(Self {
            depot: Depot::new(nodes.into()),
            probes,
        })
    }

    fn take(&self, cache: &ThreadCache) -> Option<u32> {
        let node = cache.take(&self.depot, self)?;
        let probe = &self.probes[node as usize];
        probe.set(probe.get() + 1);
        Some(node)
    }

    /// Takes at most so many nodes.
    fn take_all(&self, cache: &ThreadCache, most: u32) -> Vec<u32> {
        (0..most).map_while(|_| self.take(cache)).collect()
    }

    fn give(&self, cache: &ThreadCache, node: u32) {
        let probe = &self.probes[node as usize];
        probe.set(probe.get() + 1);
        cache.give(&self.depot, node);
    }
}

/// Each of these was handed out once, and they are all that there are.
fn assert_all_once(nodes: impl IntoIterator<Item = u32>, count: u32) {
    let mut seen = HashSet::new();
    nodes
        .into_iter()
        .for_each(|node| assert!(seen.insert(node), "{node} was handed out twice"));
    assert_eq!(seen.len(), count as usize, "a node was lost");
}

/// No node is handed out twice.
#[test]
fn take_or_take_from_the_depot() {
    explore(bounded_when_quick(3), || {
        let pool = Pool::new(CAPACITY * 5);
        let cache = ThreadCache::default();
        // Two full magazines for the depot; a thread cache keeps the last two.
        let nodes = pool.take_all(&cache, 4 * CAPACITY);
        nodes.into_iter().for_each(|node| pool.give(&cache, node));
        let other = spawn_with(&pool, move |pool| {
            pool.take(&ThreadCache::default()).unwrap()
        });
        let mine = pool.take(&ThreadCache::default()).unwrap();
        assert_ne!(mine, other.join().unwrap(), "handed out twice");
    });
}

/// A thread gives its nodes back, magazine by magazine, while another one takes them.
#[test]
fn give_or_take() {
    explore(bounded(4, 2), || {
        let pool = Pool::new(CAPACITY * 4);
        let cache = ThreadCache::default();
        let nodes = pool.take_all(&cache, 3 * CAPACITY);
        let taker = spawn_with(&pool, move |pool| {
            let cache = ThreadCache::default();
            (pool.take_all(&cache, 2 * CAPACITY), cache)
        });
        nodes.into_iter().for_each(|node| pool.give(&cache, node));
        let (mut free, others) = taker.join().unwrap();
        for cache in [&cache, &others] {
            free.extend(pool.take_all(cache, u32::MAX));
        }
        assert_all_once(free, CAPACITY * 4);
    });
}

/// Two threads at the very end of the table: together they get what there is.
#[test]
fn the_last_nodes() {
    explore(bounded(6, 3), || {
        let pool = Pool::new(CAPACITY + 1);
        let drain = |pool: &Pool| pool.take_all(&ThreadCache::default(), u32::MAX);
        let other = spawn_with(&pool, move |pool| drain(pool));
        let mut nodes = drain(&pool);
        nodes.extend(other.join().unwrap());
        assert_all_once(nodes, CAPACITY + 1);
    });
}

/// The stack's top leaves and comes back while another thread is about to pop it.
#[test]
fn a_magazine_that_returns_to_the_top() {
    explore(bounded_when_quick(3), || {
        let depot = Arc::new((Segments::<Magazine>::new(), Pile::default()));
        let (magazines, stack) = &*depot;
        (0..3).for_each(|magazine| stack.push(magazines, magazine));
        let other = spawn_with(&depot, |(magazines, stack)| stack.pop(magazines));
        let [first, second] = [0, 1].map(|_| stack.pop(magazines).unwrap());
        stack.push(magazines, first);
        let others = Option::into_iter(other.join().unwrap());
        let left = std::iter::from_fn(|| stack.pop(magazines));
        assert_all_once(others.chain(left).chain([second]), 3);
    });
}
