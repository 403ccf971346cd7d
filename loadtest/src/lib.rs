//! Runs the tickwheel engine under real load and judges it by its own books.
//!
//! Only [`main`] and the workload parser are public; the rooms are:
//!
//! * `cli` - the options, and which command they lead to
//! * `book` - the program's own record of every timer, and the verdict
//! * `run` - producers, engine and monitor of a load run; `record` writes one down
//! * [`workload`] - the CSV form of a recorded run, checked line by line
//! * `replay` - runs such a file in real time or on the manual clock
//! * `server` - drives the example `idle_server` with real connections and judges when it closes them
//! * `report` - table, HTML and JSON
//! * `machine`, `progress`, `delays`, `failure` - what all of them share

mod book;
mod cli;
mod delays;
mod failure;
mod interrupt;
mod machine;
mod progress;
mod replay;
mod report;
mod run;
mod server;
pub mod workload;

pub use cli::main;
