//! The library and the program against real Redis processes, on the loopback interface.
//!
//! * `store` - the steps; `node` - firing, leases, consumers; `http` - the interface
//! * `deliveries` - consumers over HTTP; `attempts` - jobs that fail; `schedules` - recurring jobs
//! * `failures` - processes that are killed, paused and cut off; `proxy` - what cuts them off
//! * `servers` - TLS, users, Sentinel, cluster, a full Redis, settings
//! * `operators` - tokens, limits, metrics, the log
//! * `webhook` - jobs that a node pushes
//! * `page` - the page in a browser

mod attempts;
mod deliveries;
mod failures;
mod http;
mod node;
mod operators;
mod page;
mod proxy;
mod schedules;
mod servers;
mod store;
mod support;
mod webhook;
