//! Replays a recorded workload: in real time, or as fast as possible on a clock turned by hand.
//!
//! * `start` - reads the file, has it replayed, judges; `play` - does that, on either clock
//! * `operator` - does one operation on the engine and writes it into the ledger
//! * `model` - what exactly must come of each operation and of each timer, and when, on the manual clock

mod model;
mod operator;
mod play;
mod start;

pub(crate) use play::Plan;
pub(crate) use start::replay;
