//! The jobs as Redis keeps them. Each step is one Lua script on the keys of one partition, so it happens
//! as a whole or not at all, and a Redis Cluster can spread the partitions.
//!
//! * `access` - the connection, the names of keys, how a script is run
//! * `server` - what must be true of the server; opens a store
//! * `create` - accepts jobs; `steps` - reads, cancels and moves them
//! * `deliveries` - hands jobs to consumers; `dead` - jobs whose attempts are used up
//! * `schedules` - recurring jobs
//! * `partition` - what only the holder of a partition asks
//! * `search` - lists of jobs
//! * `view` - what people and monitoring want to see

mod access;
mod create;
mod dead;
mod deliveries;
mod partition;
mod schedules;
mod search;
mod server;
mod steps;
mod view;

pub use access::Store;
pub(crate) use access::Timed;
pub use deliveries::Delivery;
pub(crate) use deliveries::{Failed, Nack, Receipt};
pub(crate) use partition::{Acquired, Fired};
pub use schedules::{NewSchedule, Schedule, Scheduled};
pub use search::Search;
pub use view::{NodeView, Overview, Page, PartitionView};
