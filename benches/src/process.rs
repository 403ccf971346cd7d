//! This program once more: what one measurement leaves behind can neither help nor hurt the next.

use clap::ValueEnum;
use std::process::{Command, Output, Stdio};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// An error with which a program ends.
pub type Failure = Box<dyn std::error::Error>;

/// Returns the arguments of this program.
pub fn arguments() -> Vec<&'static str> {
    std::env::args()
        .skip(1)
        .map(|argument| &*argument.leak())
        .collect()
}

/// Gives the calling thread the lowest round-robin priority, which is above that of every usual thread.
///
/// # Errors
///
/// Without the right to it: root, `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO`.
pub fn take_priority() -> Result<(), Failure> {
    let lowest = ThreadPriority::Crossplatform(1.try_into()?);
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), lowest, policy)
        .map_err(|error| format!("{error:?}").into())
}

/// Finds a row of a table by its name.
///
/// # Errors
///
/// If there is no such row.
pub fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Result<T, Failure> {
    let row = table
        .iter()
        .find(|row| row.0 == name)
        .ok_or_else(|| format!("no {name} here"))?;
    Ok(row.1)
}

/// Returns the name that the command line has for a value.
pub fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Returns a command that runs this program with `arguments`.
///
/// # Panics
///
/// If the system does not say where the program lies.
pub fn this_program(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program's own path"));
    command.args(arguments);
    command
}

/// Returns the same under a tool of valgrind.
pub fn under_valgrind(options: &[&str], arguments: &[&str]) -> Command {
    let program = this_program(&[]);
    let mut command = Command::new("valgrind");
    command
        .args(options)
        .arg(program.get_program())
        .args(arguments);
    command
}

/// Runs this program with `arguments` under callgrind, and returns what that has written: the instructions of each
/// function, and their sum. `options` say what it collects.
///
/// # Errors
///
/// If valgrind cannot be started, or the program fails.
pub fn callgrind(options: &[&str], arguments: &[&str]) -> Result<String, Failure> {
    let counts = tempfile::NamedTempFile::new()?;
    let out = format!("--callgrind-out-file={}", counts.path().display());
    let options = [
        &["--tool=callgrind", "--compress-strings=no", &out],
        options,
    ]
    .concat();
    output(&mut under_valgrind(&options, arguments))?;
    Ok(std::fs::read_to_string(counts.path())?)
}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be started, or fails; the last line that it said is in the text.
pub fn output(command: &mut Command) -> Result<Output, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        format!(
            "{}: {error}; is it installed?",
            command.get_program().display()
        )
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let is_said = |line: &&str| !line.starts_with("note:") && !line.starts_with("==");
    let last = told.lines().rev().find(is_said).unwrap_or_default();
    Err(format!("{}: {last}", output.status).into())
}
