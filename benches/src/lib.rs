//! Workloads and peers, shared by the `compare` program, the programs that count and the test of allocations.
//!
//! | room | what is inside |
//! |---|---|
//! | `figure` | what is measured: one row of `docs/PERFORMANCE.md`'s workloads, with its sizes |
//! | `peer` | who is measured, and what each one leaves out |
//! | `stream` | random steps of a workload, the same for every peer |
//! | `local` | peers of one thread: churn, life, rearm |
//! | `cross` | peers that many threads use: cross, remote cancel, late, burst, idle, zombie, wake |
//! | `servers` | futures of a server, on tokio: quic, reconnect, beats, spawned |
//! | `slots` | payloads with a free list and generations: the floor, and a part of both heaps |
//! | `book` | when timers were due and when they fired |
//! | `measure` | processor time, memory, percentiles |
//! | `process` | this program once more, also under a tool of valgrind |
//! | `ratio` | slices of several ways in random order, ratios with intervals |
//! | `results` | medians, the best peer |
//! | `goals` | what has to be reached |
//! | `report` | Markdown and charts |
//!
//! Peers run at the settings that their documentation recommends. Where one leaves out a part of the work,
//! [`figure::Figure::remark`] says so and the tables show it.

pub mod book;
pub mod cross;
pub mod figure;
pub mod goals;
#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/hashed_wheel.rs"]
mod hashed_wheel;
pub mod local;
pub mod machine;
pub mod measure;
pub mod peer;
pub mod process;
#[allow(dead_code, reason = "the tests draw more kinds of numbers")]
#[path = "../../tests/support/random.rs"]
mod random;
pub mod ratio;
pub mod report;
pub mod results;
pub mod servers;
mod slots;
#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/spinning_loop.rs"]
mod spinning_loop;
pub mod stream;
