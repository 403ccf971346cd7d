//! Delayed jobs that survive crashes and spread over machines: kept by Redis, fired on time by tickwheel.
//!
//! A [`Node`] leases partitions, keeps the near future of each in a tickwheel timer, and hands what is due
//! to consumers. `docs/DISTRIBUTED.md` says how and why. The rooms:
//!
//! * [`settings`](Settings), `job`, `recurrence`, `units`, `error` - the ground
//! * `link`, [`store`](Store) - the jobs as Redis keeps them, one script for each step
//! * [`node`](Node) - leases, firing
//! * `inbox` - where what has fired arrives; [`Consumer`] takes and acknowledges it
//! * `access` - bearer tokens; `http` - the interface of a node; [`client`](Client) - its other end; `consume` - runs a command;
//!   `webhook` - sends what has fired to a URL
//! * [`local`] - Redis and nodes as processes of this machine
//! * `demo` - judges a run; `cli` - the program and its options; `init` - the first process of a container

mod access;
mod cli;
mod client;
mod consume;
mod demo;
mod error;
mod http;
mod inbox;
mod init;
mod job;
mod link;
pub mod local;
mod metrics;
mod node;
mod recurrence;
mod settings;
mod store;
mod units;
mod webhook;

pub use cli::main;
pub use client::{Client, ClientError, ShownDelivery, ShownJob, ShownPage};
pub use error::StoreError;
pub use http::serve;
pub use inbox::Consumer;
pub use job::{Accepted, Found, Job, JobId, NewJob, Priority, Queue, Retry, State, When};
pub use node::Node;
pub use recurrence::Recurrence;
pub use settings::{Secret, Settings};
pub use store::{
    DeadJobs, Delivery, Limits, Listed, NewSchedule, NodeView, Overlap, Overview, Page,
    PartitionView, Past, QueueView, Rate, Schedule, Scheduled, Search, Store,
};
