//! Drives an idle server with real connections and judges when it closes them.
//!
//! The server runs in a process of its own, and client loops in this one hold thousands of connections to
//! it, of five kinds. Connections that the server closes are replaced until the load is over; then all fall
//! silent, and the server has to close every one. So the exact expected set is: every connection, an idle
//! timeout after its last act, and none before.
//!
//! * `drive` - starts everything, ends it, judges; `outcome` - what it came to, for the report
//! * `process` - the hold on the server's process, which runs the room `host`
//! * `kind` - the kinds of clients and when they speak
//! * `client` - a loop with many connections; `connection` - one of them
//! * `activity` - the record of one connection, and the judgement over its close
//! * `totals` - figures and breaches by kind; `verdict` - holds them against the server's own counts
//! * `monitor` - samples and progress while it runs

mod activity;
mod client;
mod connection;
mod drive;
mod kind;
mod monitor;
mod outcome;
mod process;
mod totals;
mod verdict;

pub(crate) use drive::run;
