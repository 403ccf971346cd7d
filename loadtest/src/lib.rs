//! Runs the tickwheel engine under real load and judges it by a ledger of its own.
//!
//! Public are [`main`] and the workload parser. The rooms; but for the options, which `cli` reads, each knows only
//! those below it:
//!
//! * `cli` - the options, and which command they lead to; `delays` - the spread of delays
//! * `run` - producers and engine of a load run; it also records one
//! * `replay` - runs a recorded workload in real time or on the manual clock
//! * `server` - drives an idle server with real connections and judges when it closes them
//! * `driver` - calls the engine and enters every answer into the ledger
//! * `outcome` - what a run or a replay came to, as a part of a report
//! * `ledger` - the program's own record of every timer, and the verdict
//! * [`workload`] - the CSV form of a recorded run, checked line by line
//! * `measure` - samples, histograms and cost of a run
//! * `report` - one model of what a run came to, and its views: terminal, page, JSON
//! * `machine`, `findings`, `numbers`, `progress`, `interrupt`, `failure` - the ground that all of them share

mod cli;
mod delays;
mod driver;
mod failure;
mod findings;
mod interrupt;
mod ledger;
mod machine;
mod measure;
mod numbers;
mod outcome;
mod progress;
mod replay;
mod report;
mod run;
mod server;
pub mod workload;

pub use cli::main;
