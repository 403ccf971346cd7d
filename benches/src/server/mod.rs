//! A real server under real load: hyper with tokio's timers, with tickwheel's, and with none.
//!
//! | room | what is inside |
//! |---|---|
//! | `count` | how often a timer was asked for something |
//! | `timers` | the three ways to limit how long something takes |
//! | `idle` | a connection that must not be idle for too long |
//! | `serve` | the server, in a process of its own |
//! | `load` | what the load generator is told, and what it says |
//! | `page` | tables and charts of a run |
//!
//! Server and generator share the machine's cores, so a server that needs less processor time leaves more to the
//! generator: requests per second say less than processor time per request.

mod count;
mod idle;
mod load;
mod page;
mod serve;
mod timers;

pub use load::{Load, SCENARIOS, Scenario};
pub use page::{Runs, write};
pub use serve::{Served, Variant, run};
