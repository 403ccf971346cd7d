//! Concurrent scenarios, written once: many short rounds on real threads under `cargo test`, every
//! interleaving and every value an atomic load may return under loom.
//!
//! They are compiled into the library's unit tests, because they drive what is private to the crate. How
//! to run them, which bound each one has, and what each one found: `loom-tests/README.md`.
//!
//! With the real epoch under loom only the rooms that use it are built (`inbox`, `stop`, `shard`), and in
//! them only the scenarios of two threads: more do not come to an end. Everything runs with the stand-in.

/// Explored with the real epoch: not everything is built, and not all of the harness is used.
#[cfg_attr(
    all(tickwheel_loom, not(tickwheel_epoch_stand_in)),
    expect(
        dead_code,
        unused_imports,
        reason = "serves rooms that are not built with the real epoch"
    )
)]
mod harness;

/// What tests and fuzz targets use as well: see `tests/support/README.md`.
#[allow(dead_code, reason = "the models need a part of it")]
#[path = "../../tests/support"]
mod support {
    pub(super) mod ledger;
}

#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod caller;
mod inbox;
mod shard;
mod stop;

#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod clock;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod histogram;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod limit;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod magazine;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod moves;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod park;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod periodic;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod retired;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod state;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod status;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod swap;
#[cfg(all(tickwheel_loom, tickwheel_epoch_stand_in))]
mod trim;
#[cfg(any(not(tickwheel_loom), tickwheel_epoch_stand_in))]
mod world;
