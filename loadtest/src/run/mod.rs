//! A load run: producers against a real engine on the real clock.
//!
//! * `drive` - runs the phases one after the other; `session` - what one phase is given
//! * `payload` - what a timer carries and what its producer keeps of it
//! * `producer` - the hot loop, one thread each; `pacer` - its rate limit
//! * `monitor` - samples and progress while the producers run
//! * `finish` - stops the engine under fire, gathers everything, asks the ledger for the verdict
//! * `recording` - turns what the producers did into a workload file

mod drive;
mod finish;
mod monitor;
mod pacer;
mod payload;
mod producer;
mod recording;
mod session;

pub(crate) use drive::run;
