//! When, where and from what a run was made.

use std::time::SystemTime;

use crate::machine::Machine;

/// What every report is headed with.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The program's name.
    pub program: &'static str,
    /// As it was typed.
    pub command: String,
    /// When it began.
    pub started: SystemTime,
    /// Where.
    pub machine: Machine,
}

/// What the program was built from.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(crate) const COMMIT: &str = env!("TICKWHEEL_COMMIT");
pub(crate) const COMPILER: &str = env!("TICKWHEEL_COMPILER");
pub(crate) const PROFILE: &str = env!("TICKWHEEL_PROFILE");

impl Circumstances {
    /// Those of a run of `program` that starts now.
    #[must_use]
    pub fn now(program: &'static str) -> Self {
        let words = [program.to_owned()].into_iter().chain(std::env::args().skip(1));
        let command = words.collect::<Vec<_>>().join(" ");
        Self { program, command, started: SystemTime::now(), machine: Machine::look_up() }
    }
}

/// A moment as everybody reads it, in UTC.
#[must_use]
pub fn timestamp(moment: SystemTime) -> String {
    humantime::format_rfc3339_seconds(moment).to_string()
}
