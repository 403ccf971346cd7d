//! This program once more, under a tool of valgrind.

use std::io;
use std::process::Command;

/// This program with `arguments`, under a tool with `options`.
///
/// # Errors
///
/// If it cannot find itself.
pub fn this_program(options: &[&str], arguments: &[&str]) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(options).arg(this).args(arguments);
    Ok(command)
}

/// What to say when it does not start.
#[must_use]
pub fn not_started(error: &io::Error) -> String {
    format!("valgrind: {error}; install it: apt-get install valgrind")
}
