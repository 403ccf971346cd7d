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
    crossbeam_loom,
    expect(dead_code, unused_imports, reason = "for rooms not built then")
)]
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

#[cfg(not(crossbeam_loom))]
mod clock;
#[cfg(not(crossbeam_loom))]
mod event_loop;
#[cfg(not(crossbeam_loom))]
mod hands;
#[cfg(not(crossbeam_loom))]
mod histogram;
#[cfg(not(crossbeam_loom))]
mod limit;
#[cfg(not(crossbeam_loom))]
mod magazine;
#[cfg(not(crossbeam_loom))]
mod moves;
#[cfg(not(crossbeam_loom))]
mod park;
#[cfg(not(crossbeam_loom))]
mod parker;
#[cfg(not(crossbeam_loom))]
mod periodic;
#[cfg(not(crossbeam_loom))]
mod retired;
#[cfg(not(crossbeam_loom))]
mod state;
#[cfg(not(crossbeam_loom))]
mod status;
#[cfg(not(crossbeam_loom))]
mod task_waker;
#[cfg(all(tickwheel_loom, tickwheel_epoch_stand_in))]
mod trim;
// Of the C library, whose sources this crate's package does not have.
#[cfg(all(tickwheel_loom, tickwheel_epoch_stand_in))]
mod calls;
#[cfg(not(crossbeam_loom))]
mod world;
