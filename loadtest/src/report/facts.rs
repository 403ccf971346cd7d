//! When, where and from what a run was made.

use std::time::SystemTime;

use crate::machine;
use crate::numbers::{bytes, or_na};

/// When, where and from what a run was made: names and values for every view.
pub(crate) type Facts = [(&'static str, String); 10];

/// Returns those of a run that starts now.
pub(super) fn facts() -> Facts {
    let words = ["loadtest".to_owned()]
        .into_iter()
        .chain(std::env::args().skip(1));
    [
        ("command", words.collect::<Vec<_>>().join(" ")),
        ("started", now()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", env!("TICKWHEEL_COMMIT").to_owned()),
        ("compiler", env!("TICKWHEEL_COMPILER").to_owned()),
        ("profile", env!("TICKWHEEL_PROFILE").to_owned()),
        (
            "platform",
            format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        ),
        ("processor", or_na(machine::processor(), |name| name)),
        ("cores", machine::cores().to_string()),
        ("memory", or_na(machine::memory_bytes(), bytes)),
    ]
}

/// Returns the present in UTC.
pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
