//! A child that forks beside busy threads has their places in its memory as they stood, for ever: an engine that the
//! child builds must not wait for them.

use crate::allocator::calls;
use crate::children::{forked, in_a_process_of_its_own};
use crate::churn;
use crate::support::setup::{one_shard, recording};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether 300 000 pairs in an engine of the child's use blocks again, by the calls of the allocator that they take.
fn uses_blocks_again() -> bool {
    let (timer, _fired) = recording(one_shard());
    let run = |rounds| {
        for _ in 0..rounds {
            churn(&timer, 1000);
            // What is due has the worker read all that there is.
            let fired = timer.schedule_handle(Duration::ZERO, 0).unwrap();
            while fired.is_pending() {
                std::thread::yield_now();
            }
        }
    };
    run(100);
    let before = calls();
    run(300);
    // 586 blocks, of two calls each, if none serves again.
    calls() - before < 180
}

#[test]
fn a_child_that_forks_beside_busy_threads_uses_blocks_again() {
    if in_a_process_of_its_own(
        a_child_that_forks_beside_busy_threads_uses_blocks_again,
        &[],
    ) {
        return;
    }
    let ((timer, _fired), is_over) = (recording(one_shard()), AtomicBool::new(false));
    let failed = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    churn(&timer, 1000);
                }
            });
        }
        let failed = (0..24).filter(|_| forked(uses_blocks_again) != 0).count();
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, 0, "of 24 children");
}
