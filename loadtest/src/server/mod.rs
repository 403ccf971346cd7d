//! Drives an idle server with real connections and judges when it closes them.
//!
//! The server runs in a process of its own, and client loops in this one hold thousands of connections to it, of three
//! kinds. Connections that the server closes are replaced until the load is over; then all fall silent, and the server
//! has to close every one. So the exact expected set is: every connection, an idle timeout after its last act, and none
//! before.
//!
//! * `host` - the server: a TCP echo server with one `mio` loop per core, each with its own timer
//! * `process` - the hold on the server's process
//! * `activity` - the record of one connection, and the judgement over its close
//! * `connection` - one client connection; `client` - a loop with many of them
//! * `totals` - figures and breaches by kind, held against the server's own counts
//! * `drive` - starts everything, ends it, judges; `outcome` - the result as a phase of a report

mod activity;
mod client;
mod connection;
mod drive;
mod host;
mod outcome;
mod process;
mod totals;

pub(crate) use drive::run;
pub(crate) use process::serve;
