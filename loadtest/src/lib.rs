//! Runs the tickwheel engine under real load and judges it by a ledger of its own.
//!
//! Public are [`main`] and the workload parser. The rooms; each knows only those below it:
//!
//! * `cli` - runs the chosen command
//! * `run` - producers and engine of a load run; it also records one
//! * `replay` - runs a recorded workload in real time or on the manual clock
//! * `server` - drives an idle server with real connections and judges when it closes them
//! * `churn` - lets threads, engines and loops come and go
//! * `driver` - calls the engine and enters every answer into the ledger
//! * `outcome` - what a run or a replay came to, as a part of a report
//! * `ledger` - the program's own record of every timer, and the verdict
//! * [`workload`] - the CSV form of a recorded run, checked line by line
//! * `measure` - samples, histograms and cost of a run
//! * `report` - one model of what a run came to, and its views: terminal, page, JSON
//! * `options` (of each command, as typed), `delays`, `durations`, `machine`, `findings`, `numbers`, `progress`,
//!   `interrupt`, `failure` - the ground that all of them share

#![deny(
    clippy::print_stderr,
    reason = "it panics where nobody reads the error output; use `progress::say`"
)]

mod churn;
mod cli;
mod delays;
mod driver;
mod durations;
mod failure;
mod findings;
mod interrupt;
mod ledger;
mod machine;
mod measure;
mod numbers;
mod options;
mod outcome;
mod progress;
mod replay;
mod report;
mod run;
mod server;
pub mod workload;

pub use cli::main;
