//! Why the program ends without an OK, and with which exit code.

use std::path::Path;
use std::process::ExitCode;

/// Exit code of a run whose ledger shows a breach.
pub(crate) const BREACH: u8 = 1;
/// Exit code for options or a workload file that cannot be used; nothing was run.
pub(crate) const USAGE: u8 = 2;
/// Exit code for trouble with the system: a file that cannot be written, a thread that cannot start.
pub(crate) const SYSTEM: u8 = 3;
/// Exit code of a run that ended before anything began, by Ctrl-C for example: it has shown nothing.
pub(crate) const NOTHING: u8 = 4;

/// An end without a verdict. The text says what to change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The options contradict each other, or name something that the engine refuses or that cannot be read, or a
    /// workload file with bad lines.
    #[error("{0}")]
    Options(String),
    /// The engine or the system refused something that the options do not govern.
    #[error("{0}")]
    System(String),
}

impl Failure {
    /// A closure for `map_err`: the file cannot be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Options(format!("cannot read {}: {error}", path.display()))
    }

    /// A closure for `map_err`: the file cannot be written.
    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System(format!("cannot write {}: {error}", path.display()))
    }

    /// The exit code that tells a script what kind of failure this is.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Options(_) => USAGE,
            Self::System(_) => SYSTEM,
        })
    }
}
