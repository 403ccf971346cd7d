//! The histogram of a shard: its owner counts while somebody else takes a copy.

use super::harness::{UNBOUNDED, explore, spawn_with};
use crate::stats::Sample;
use crate::stats::histogram::Recorder;
use std::sync::Arc;

/// What a copy counts is in its sum and not above its maximum, which caps the edges of buckets.
#[test]
fn a_percentile_is_not_capped_below_what_it_counts() {
    explore(UNBOUNDED, || {
        let recorder = Arc::new(Recorder::default());
        let owner = spawn_with(&recorder, move |recorder| {
            [2, 5]
                .into_iter()
                .for_each(|ns| recorder.record(Sample::of(ns)))
        });
        let copy = recorder.snapshot();
        owner.join().unwrap();
        let counted: Vec<u128> = copy
            .buckets()
            .map(|(longest, _)| longest.as_nanos())
            .collect();
        assert!(
            [&[][..], &[2], &[5], &[2, 5]].contains(&&counted[..]),
            "capped: {counted:?}"
        );
        assert!(
            counted.iter().sum::<u128>() <= copy.sum().as_nanos(),
            "the sum is behind"
        );
    });
}
