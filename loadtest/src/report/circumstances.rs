//! When, where and from what a run was made.

use std::time::SystemTime;

use crate::machine::Machine;
use crate::numbers::{bytes, or_na};

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

impl Circumstances {
    /// Names and values, for every view.
    pub(crate) fn facts(&self) -> [(&'static str, String); 10] {
        let machine = &self.machine;
        [
            ("command", self.command.clone()),
            ("started", timestamp(self.started)),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", env!("TICKWHEEL_COMMIT").to_owned()),
            ("compiler", env!("TICKWHEEL_COMPILER").to_owned()),
            ("profile", env!("TICKWHEEL_PROFILE").to_owned()),
            ("platform", format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)),
            ("processor", or_na(machine.cpu.clone(), |cpu| cpu)),
            ("cores", machine.cores.to_string()),
            ("memory", or_na(machine.memory_bytes, bytes)),
        ]
    }

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
