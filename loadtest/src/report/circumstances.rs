//! When, where and from what a run was made.

use std::time::SystemTime;

use crate::machine;
use crate::numbers::{bytes, or_na};

/// Heads every report.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    /// The command, as it was typed.
    command: String,
    /// When the run began.
    pub started: String,
    /// The model name of the first processor.
    pub processor: String,
}

impl Circumstances {
    /// Returns the names and values for every view.
    pub(crate) fn facts(&self) -> [(&'static str, String); 10] {
        [
            ("command", self.command.clone()),
            ("started", self.started.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", env!("TICKWHEEL_COMMIT").to_owned()),
            ("compiler", env!("TICKWHEEL_COMPILER").to_owned()),
            ("profile", env!("TICKWHEEL_PROFILE").to_owned()),
            ("platform", format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)),
            ("processor", self.processor.clone()),
            ("cores", machine::cores().to_string()),
            ("memory", or_na(machine::memory_bytes(), bytes)),
        ]
    }

    /// Returns those of a run that starts now.
    pub(crate) fn now() -> Self {
        let words = ["loadtest".to_owned()].into_iter().chain(std::env::args().skip(1));
        let command = words.collect::<Vec<_>>().join(" ");
        Self { command, started: now(), processor: or_na(machine::processor(), |name| name) }
    }
}

/// Returns the present in UTC.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
