//! What the fuzz targets do, for `fuzz_targets/`, which only connects it to libFuzzer.
//!
//! The models are the library's own: its tests run them on random cases, so each operation is an enum once. What
//! they need of each other is described in `tests/support/README.md`. Three targets have no such twin and are here.
//!
//! | target | under test | oracle |
//! |---|---|---|
//! | `wheel_model` | the wheel | a sorted map, and a hashed wheel |
//! | `shard_model` | `EventLoopTimer` and its remotes, at turn boundaries and in handlers | `book` |
//! | `engine_manual` | `Timer` on a manual clock, by hand or with a worker, with `TimerHandle` handles | `book` |
//! | `engine_threads` | `Timer` with workers and up to four producers | every accepted timer ends once |
//! | `tick_and_builder` | settings, tick arithmetic, periods | the rules in 128 bits |
//! | `replay_parser` | the load program's workload files | a naive reader; what is written reads back |
//! | `local_model` | `LocalTimer`, periodic timers too | `book` |
//! | `paused_futures` | sleeps, timeouts and intervals of `tickwheel-util` in time that stands | a list of deadlines |

pub mod paused_futures;
pub mod replay_parser;
pub mod tick_and_builder;

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/hashed_wheel.rs"]
mod hashed_wheel;

#[allow(
    dead_code,
    reason = "shared with the library's tests, which use more of it"
)]
#[path = "../../tests/support"]
mod support {
    pub(crate) mod book;
    pub(crate) mod checked_wheel;
    pub(crate) mod choices;
    pub mod engine_manual;
    pub mod engine_threads;
    pub(crate) mod ledger;
    pub mod local_model;
    pub(crate) mod loop_timer;
    pub(crate) mod random;
    pub mod shard_model;
    pub(crate) mod ticks;
    pub mod wheel_model;
}

pub use support::choices::case;
pub use support::{engine_manual, engine_threads, local_model, shard_model, wheel_model};

/// Runs `check`, waits until the threads that it has started are gone, as those of an engine that was dropped go by
/// themselves, and has engines freed that wait for that: the sanitizer takes for a leak what a thread holds that is just
/// ending, and what only a mapping of such an engine leads to.
pub fn until_its_threads_are_gone(check: impl FnOnce()) {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    check();
    let begun = std::time::Instant::now();
    while threads() > before {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(10),
            "threads are left"
        );
        std::thread::yield_now();
    }
    // An engine whose last handle outlives it is freed when another one is built.
    let other = tickwheel::Builder::new().drive(tickwheel::Drive::Manual);
    drop(other.build().expect("an engine without threads"));
}
