//! Concurrent scenarios, written once: many short rounds on real threads under `cargo test`, every
//! interleaving and every value an atomic load may return under loom.
//!
//! They are compiled into the library's unit tests, because they drive what is private to the crate. How
//! to run them, which bound each one has, and what each one found: `loom-tests/README.md`.

/// What tests and fuzz targets use as well: see `tests/support/README.md`.
#[allow(dead_code, reason = "the models need a part of it")]
#[path = "../../tests/support"]
mod support {
    pub(super) mod ledger;
}

mod caller;
mod clock;
mod exchange;
mod harness;
mod histogram;
mod inbox;
mod limit;
mod magazine;
mod moves;
mod park;
mod periodic;
mod retired;
mod shard;
mod standing;
mod state;
mod stop;
#[cfg(tickwheel_loom)]
mod trim;
mod world;
