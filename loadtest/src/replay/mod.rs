//! Replays a recorded workload: in real time, or as fast as possible on a clock turned by hand.
//!
//! * `start` - reads the file, replays it, judges; `plan` - what both ways are given and leave behind
//! * `operator` - does one operation on the engine and writes it into the ledger; shared by both ways
//! * `real` - on the real clock: the ledger judges
//! * `fast` - on the manual clock: the ledger judges, and `model` says what exactly must come of each
//!   operation and of each timer, and when

mod fast;
mod model;
mod operator;
mod plan;
mod real;
mod start;

pub(crate) use plan::Plan;
pub(crate) use start::replay;
