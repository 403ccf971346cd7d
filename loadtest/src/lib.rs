//! Runs the tickwheel engine under real load and judges it by a ledger of its own.
//!
//! Only [`main`] and the workload parser are public. The rooms, each of which knows only those below it:
//!
//! * `cli` - the options, and which command they lead to
//! * `run` - producers, engine and monitor of a load run; it also records one
//! * `replay` - runs a recorded workload in real time or on the manual clock
//! * `server` - drives an idle server with real connections and judges when it closes them
//! * `host` - that server, in a process of its own
//! * `diff` - compares the results of two runs
//! * `outcome` - what a run or a replay came to, as a part of a report
//! * `report` - one model of what a run came to, and its views: terminal, page, JSON
//! * `ledger` - the program's own record of every timer, and the verdict
//! * [`workload`] - the CSV form of a recorded run, checked line by line
//! * `settings` - what a command is made of
//! * `machine`, `usage`, `measure`, `findings`, `numbers`, `progress`, `interrupt`, `limits`, `failure` -
//!   the ground that all of them share

mod cli;
mod diff;
mod failure;
mod findings;
mod host;
mod interrupt;
mod ledger;
mod limits;
mod machine;
mod measure;
mod numbers;
mod outcome;
mod progress;
mod replay;
mod report;
mod run;
mod server;
mod settings;
mod usage;
pub mod workload;

pub use cli::main;
