//! Permits under `max_pending`: never more than there are, and none is lost.

use super::harness::{UNBOUNDED, explore, spawn_with};
use crate::node::limit::Limit;
use std::sync::Arc;

/// One permit is free and two threads want one; one of them gives it back.
#[test]
fn taken_by_one_of_two() {
    explore(UNBOUNDED, || {
        let limit = Arc::new(Limit::new(1));
        let other = spawn_with(&limit, |limit| limit.acquire());
        let taken = limit.acquire();
        if taken {
            limit.release();
        }
        let other = other.join().unwrap();
        assert!(
            taken || other,
            "both are refused although one permit was free"
        );
        assert_eq!(limit.acquire(), !other, "as many as there are");
    });
}

/// A permit is given back while another one is taken.
#[test]
fn given_back_while_another_is_taken() {
    explore(UNBOUNDED, || {
        let limit = Arc::new(Limit::new(2));
        assert!(limit.acquire());
        let gives = spawn_with(&limit, |limit| limit.release());
        assert!(
            limit.acquire(),
            "refused although one was free all the time"
        );
        gives.join().unwrap();
        assert!(limit.acquire(), "the other one is back");
        assert!(!limit.acquire(), "more than there are");
    });
}
