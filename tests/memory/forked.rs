//! A child that forks beside busy threads has their places in its memory as they stood, for ever: an engine that the
//! child builds must not wait for them.

use crate::allocator::calls;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickwheel::{Builder, Expired, Timer};

const HOUR: Duration = Duration::from_secs(3600);
const FORKS: usize = 24;

fn engine() -> Timer<u64> {
    Builder::new().shards(1).build_with(|_: Expired<u64>| ()).unwrap()
}

fn churn(timer: &Timer<u64>, pairs: u64) {
    for n in 0..pairs {
        assert!(timer.cancel(timer.schedule_key(HOUR, n).unwrap()).won());
    }
}

#[test]
fn a_child_that_forks_beside_busy_threads_uses_blocks_again() {
    let test = "forked::child_that_forks_beside_busy_threads";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args([test, "--exact", "--ignored"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{errors}");
}

/// Whether 300 000 pairs in an engine of the child's use blocks again, by the calls of the allocator that they take.
fn uses_blocks_again() -> bool {
    let timer = engine();
    let run = |rounds| {
        for _ in 0..rounds {
            churn(&timer, 1000);
            // What is due has the worker read all that there is.
            let fired = timer.schedule(Duration::ZERO, 0).unwrap();
            while fired.is_pending() {
                std::thread::yield_now();
            }
        }
    };
    run(100);
    let before = calls();
    run(300);
    // 146 blocks, of two calls each, if none serves again.
    calls() - before < 180
}

#[test]
#[ignore = "run by a_child_that_forks_beside_busy_threads_uses_blocks_again, alone in its process"]
fn child_that_forks_beside_busy_threads() {
    let (timer, is_over) = (engine(), AtomicBool::new(false));
    let mut failed = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    churn(&timer, 1000);
                }
            });
        }
        for _ in 0..FORKS {
            // SAFETY: the child runs on this thread alone; the allocator of the system survives a fork.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "no fork");
            if child == 0 {
                // SAFETY: nothing is left of a child that hangs.
                unsafe { libc::alarm(60) };
                let fine = std::panic::catch_unwind(uses_blocks_again).unwrap_or(false);
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(i32::from(!fine)) };
            }
            let mut status = 0;
            // SAFETY: waits for our own child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            failed += usize::from(status != 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed, 0, "of {FORKS} children");
}
