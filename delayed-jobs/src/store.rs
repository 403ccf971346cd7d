//! The jobs as Redis keeps them. Each step is one Lua script on the keys of one partition, so it happens
//! as a whole or not at all, and a Redis Cluster can spread the partitions.
//!
//! * `access` - the connection, the names of keys, how a script is run
//! * `server` - what must be true of the server; opens a store
//! * `create` - accepts jobs; `jobs` - reads, cancels and moves one; `lists` - many
//! * `deliveries` - hands jobs to consumers; `schedules` - recurring jobs
//! * `partition` - what only the holder of a partition asks
//! * `view` - what people and monitoring want to see

mod access;
mod create;
mod deliveries;
mod jobs;
mod lists;
mod partition;
mod schedules;
mod server;
mod view;

pub use access::Store;
pub(crate) use access::Timed;
pub use deliveries::Delivery;
pub(crate) use deliveries::{Failed, Nack, Receipt, Taken};
pub use lists::{Page, Search};
pub(crate) use partition::Fired;
pub use schedules::{NewSchedule, Schedule, Scheduled};
pub use view::{NodeView, Overview, PartitionView};
