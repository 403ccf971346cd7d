//! Permits under `max_pending`: never more than there are, none lost, and no refusal while one is free.

use super::harness::{bounded, explore, spawn_with};
use crate::shard::Limit;
use crate::shard::purse::Holder;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// So many permits let two lie in a purse, and open one while eight are free.
const MAX: usize = 32;
const PLENTY: usize = 8;

/// A limit, four that have purses, and what one of them tells another one.
struct Permits {
    limit: Limit,
    holders: [Holder; 4],
    given_back: AtomicBool,
}

impl Permits {
    fn new() -> Self {
        let holders: [Holder; 4] = std::array::from_fn(|_| Holder::default());
        (0..).zip(&holders).for_each(|(place, holder)| holder.set_place(place));
        Self { limit: Limit::new(MAX, 0), holders, given_back: AtomicBool::new(false) }
    }

    /// How many of so many attempts to take a permit succeed.
    fn acquire(&self, holder: usize, attempts: usize) -> usize {
        (0..attempts).filter(|_| self.limit.acquire(&self.holders[holder])).count()
    }

    fn release(&self, holder: usize, permits: usize) {
        (0..permits).for_each(|_| self.limit.release(&self.holders[holder]));
    }

    /// Gives permits back, and says so.
    fn give_back(&self, holder: usize, permits: usize) {
        self.release(holder, permits);
        // ORDERING: Release and Acquire: what follows comes after it.
        self.given_back.store(true, Ordering::Release);
    }

    /// Takes so many permits if the other one has given back his, so that one more than these is free.
    fn take_after_that(&self, holder: usize, permits: usize) {
        if self.given_back.load(Ordering::Acquire) {
            assert_eq!(self.acquire(holder, permits), permits, "refused while one was free");
        }
    }
}

/// The purse is closed and has one permit left, the last one that is free.
#[test]
fn given_back_before_the_last_is_taken_from_a_purse() {
    explore(bounded(3, 2), || {
        let permits = Arc::new(Permits::new());
        assert_eq!(permits.acquire(0, 3), 3);
        permits.release(0, 3);
        // The last of these is taken out of the purse, and closes it.
        assert_eq!(permits.acquire(3, MAX - 1), MAX - 1);
        let gives = spawn_with(&permits, |permits| permits.give_back(1, 1));
        let takes = spawn_with(&permits, |permits| permits.take_after_that(0, 1));
        assert_eq!(permits.acquire(2, 1), 1, "refused although one was free all the time");
        gives.join().unwrap();
        takes.join().unwrap();
    });
}

/// Both purses are open.
#[test]
fn given_back_into_a_purse_before_the_last_is_taken_from_one() {
    explore(bounded(3, 2), || {
        let permits = Arc::new(Permits::new());
        assert_eq!((permits.acquire(0, 1), permits.acquire(1, 2)), (1, 2));
        permits.release(0, 1);
        permits.release(1, 2);
        assert_eq!(permits.acquire(3, MAX - 1), MAX - 1);
        let gives = spawn_with(&permits, |permits| permits.give_back(0, 1));
        let takes = spawn_with(&permits, |permits| permits.take_after_that(1, 1));
        assert_eq!(permits.acquire(2, 1), 1, "refused although one was free all the time");
        gives.join().unwrap();
        takes.join().unwrap();
    });
}

/// A purse is opened and something put in; then everything else is taken out of the common word.
#[test]
fn given_back_into_a_new_purse_before_the_rest_is_taken() {
    explore(bounded(3, 2), || {
        let permits = Arc::new(Permits::new());
        assert_eq!(permits.acquire(3, MAX - PLENTY), MAX - PLENTY);
        let gives = spawn_with(&permits, |permits| permits.give_back(0, 2));
        let takes = spawn_with(&permits, |permits| permits.take_after_that(1, PLENTY + 1));
        assert_eq!(permits.acquire(2, 1), 1, "refused although one was free all the time");
        gives.join().unwrap();
        takes.join().unwrap();
    });
}

/// The holder of a purse uses it while somebody else takes permits out: none is there twice, and none is lost.
#[test]
fn used_or_robbed() {
    explore(bounded(4, 3), || {
        let permits = Arc::new(Permits::new());
        assert_eq!(permits.acquire(0, 3), 3);
        permits.release(0, 3);
        assert_eq!(permits.acquire(3, MAX - 2), MAX - 2);
        let robs = spawn_with(&permits, |permits| permits.acquire(1, 2));
        let held = permits.acquire(0, 1);
        permits.release(0, held);
        let mut held = permits.acquire(0, 2) + robs.join().unwrap();
        held += permits.acquire(2, 2);
        assert_eq!(held, 2, "two were free");
    });
}

/// A purse is opened while others look for a permit.
#[test]
fn opened_or_searched() {
    explore(bounded(3, 2), || {
        let permits = Arc::new(Permits::new());
        assert_eq!(permits.acquire(0, MAX - PLENTY), MAX - PLENTY);
        let opens = spawn_with(&permits, |permits| permits.release(0, 2));
        let held = permits.acquire(1, PLENTY + 2);
        opens.join().unwrap();
        assert!(held >= PLENTY, "as many were free all the time");
        assert_eq!(held + permits.acquire(2, 3), PLENTY + 2, "as many as there are");
    });
}
