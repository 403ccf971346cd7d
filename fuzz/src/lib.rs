//! What the fuzz targets do: for each, what the fuzzer may choose (`Case`) and what must hold (`check`).
//!
//! `fuzz_targets/` only connects these to libFuzzer. They are in a library so that `cargo test` runs them over
//! the committed corpus, without a fuzzer and on a stable compiler: see `tests/corpus.rs`.
//!
//! | target | under test | oracle |
//! |---|---|---|
//! | `wheel_model` | both wheels | the sorted map of `tests/wheel` |
//! | `shard_model` | `EventLoopTimer` and its remotes, at turn boundaries and in handlers | `book` |
//! | `engine_manual` | `Timer`, turned by hand, with `Timeout` handles | `book` |
//! | `engine_threads` | `Timer` with workers and two producers | every accepted timer ends once |
//! | `tick_and_builder` | settings, tick arithmetic, periods | the rules in 128 bits |
//! | `replay_parser` | the load program's workload files | a naive reader; what is written reads back |
//! | `local_model` | `LocalTimer`, periodic timers too | `book` |
//! | `fixed_model` | `FixedTimer` | a sorted map |
//!
//! Shared: `inputs` (what the fuzzer chooses from), `ticks` (naive tick arithmetic), `tracked` (a payload that
//! counts its instances), `book` (the model of a timer's life).

mod book;
pub mod engine_manual;
pub mod engine_threads;
pub mod fixed_model;
mod inputs;
pub mod local_model;
pub mod replay_parser;
pub mod shard_model;
pub mod tick_and_builder;
mod ticks;
mod tracked;
pub mod wheel_model;

use arbitrary::{Arbitrary, Unstructured};

/// Runs `check` on the case that libFuzzer would make of `data`; nothing where `data` is too short for one.
pub fn replay<'a, C: Arbitrary<'a>>(data: &'a [u8], check: impl FnOnce(&C)) {
    if let Ok(case) = C::arbitrary_take_rest(Unstructured::new(data)) {
        check(&case);
    }
}
