//! The library and the program against real Redis processes, on the loopback interface.
//!
//! * `node` - firing, leases, consumers; `http` - the interface
//! * `cancels` - jobs that have fired are cancelled, moved and emptied
//! * `deliveries` - consumers over HTTP; `attempts` - jobs that fail; `schedules` - recurring jobs
//! * `failures` - processes that are killed, paused and cut off; `wires` - connections that end without a word,
//!   and runtimes that stand still
//! * `servers` - an old Redis, TLS, users, Sentinel, a full Redis, settings; `clusters` - a Redis Cluster
//! * `clocks` - the clock of Redis is set back
//! * `clients` - clients over HTTP that take too long; `costs` - what a job costs, however many nodes wait
//! * `operators` - tokens, limits, metrics, the log
//! * `queues` - queues, their pauses and limits; `priorities` - which job is handed out first
//! * `webhook` - jobs that a node pushes; `packages` - what operators install
//! * `page` - the page in a browser; `payloads` - what they cost, and that they stay as they are

// Futures of the HTTP client within those of the tests are nested deeply.
#![recursion_limit = "256"]

mod attempts;
mod cancels;
mod clients;
mod clocks;
mod clusters;
mod costs;
mod deliveries;
mod failures;
mod http;
mod lists;
mod node;
mod operators;
mod packages;
mod page;
mod payloads;
mod priorities;
mod queues;
mod schedules;
mod servers;
mod support;
mod webhook;
mod wires;
