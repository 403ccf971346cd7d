//! Concurrent scenarios, written once: many short rounds on real threads under `cargo test`, every
//! interleaving and every value an atomic load may return under loom.
//!
//! They are compiled into the library's unit tests, because they drive what is private to the crate. How
//! to run them, which bound each one has, and what each one found: `loom-tests/README.md`.

mod harness;

/// What tests and fuzz targets use as well: see `tests/support/README.md`.
#[allow(dead_code, reason = "the models need a part of it")]
#[path = "../../tests/support"]
mod support {
    pub(super) mod ledger;
}

mod engine;
mod inbox;
mod shard;
mod stop;

mod clock;
mod event_loop;
mod hands;
mod histogram;
mod limit;
mod magazine;
mod moves;
mod park;
mod parker;
mod periodic;
mod retired;
mod state;
mod status;
mod task_waker;
#[cfg(tickwheel_loom)]
mod trim;
// Of the C library, whose sources this crate's package does not have.
#[cfg(tickwheel_loom)]
mod calls;
mod world;
