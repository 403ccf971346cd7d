//! Tasks run once, are dropped once, and lie where they fit.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts its drops, and panics in them if it is told to.
struct Drops(Arc<AtomicUsize>, bool);

impl Drops {
    /// Called by closures, which capture the whole of it for that.
    fn panics(&self) -> bool {
        self.1
    }
}

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(!self.1, "a drop that panics");
    }
}

#[repr(align(32))]
#[derive(Clone, Copy)]
struct Aligned(u8);

/// Runs and drops tasks of a closure that captures `extra` besides a counter of drops.
fn ends_once<E: Copy + Send + 'static>(extra: E, sum: impl Fn(E) -> usize + Send + Copy + 'static) {
    let (drops, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let make = || {
        let (captured, runs) = (Drops(Arc::clone(&drops), false), Arc::clone(&runs));
        TimerTask::new(move || {
            assert!(!captured.panics());
            runs.fetch_add(sum(extra), Ordering::Relaxed);
        })
    };
    for (end, count) in [(TimerTask::run as fn(_), 1), (drop, 2)] {
        end(make());
        let counts = (runs.load(Ordering::Relaxed), drops.load(Ordering::Relaxed));
        assert_eq!(counts, (sum(extra), count));
    }
    // Moved to another thread and through a vector that grows.
    let tasks: Vec<_> = (0..100).map(|_| make()).collect();
    std::thread::spawn(move || tasks.into_iter().for_each(TimerTask::run))
        .join()
        .unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 102);
    assert_eq!(Arc::strong_count(&drops), 1, "every captured value is gone");
}

#[test]
fn closures_of_every_size_and_alignment_run_or_drop_once() {
    ends_once((), |()| 3);
    ends_once(7_u8, usize::from);
    ends_once([1_usize; 2], |words| words.iter().sum());
    ends_once([1_usize; 40], |words| words.iter().sum());
    ends_once(Aligned(9), |aligned| {
        assert_eq!((&raw const aligned).addr() % 32, 0);
        usize::from(aligned.0)
    });
}

#[test]
fn size_and_alignment_decide_what_is_stored_inline() {
    const { assert!(is_small::<[usize; 3]>() && is_small::<()>()) };
    const { assert!(!is_small::<[usize; 4]>() && !is_small::<Aligned>()) };
}

#[test]
fn a_panic_in_the_closure_or_in_a_drop_leaves_nothing_behind() {
    for (panics, boxed) in [(false, false), (false, true), (true, false), (true, true)] {
        let drops = Arc::new(AtomicUsize::new(0));
        let (captured, filler) = (Drops(Arc::clone(&drops), panics), [1_usize; 8]);
        let task = if boxed {
            TimerTask::new(move || panic!("{} {}", captured.panics(), filler[0]))
        } else {
            TimerTask::new(move || panic!("{}", captured.panics()))
        };
        // A closure that panics while its captures panic would end the process: only one of them does.
        let ends = move || if panics { drop(task) } else { task.run() };
        assert!(catch_unwind(AssertUnwindSafe(ends)).is_err());
        assert_eq!(
            (drops.load(Ordering::Relaxed), Arc::strong_count(&drops)),
            (1, 1)
        );
    }
}
