//! One measurement in a process of its own: nothing that one peer leaves behind can help or hurt the next.

use crate::figure::{Figure, Scale};
use crate::measure::parse;
use crate::peer::Peer;
use crate::{cross, local};
use clap::ValueEnum;
use std::process::{Command, Stdio};

/// Measures in this process and prints what came out.
pub fn run(figure: Figure, peer: Peer, scale: Scale) {
    let measure = if figure.is_local() { local::measure } else { cross::measure };
    for (name, value) in measure(figure, peer, scale) {
        println!("{name}\t{value}");
    }
}

/// Measures in a new process.
///
/// # Errors
///
/// If the process cannot be started, or fails; what it said is in the text.
pub fn spawn(figure: Figure, peer: Peer, scale: Scale) -> Result<Vec<(String, f64)>, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let output = Command::new(this)
        .arg("child")
        .arg(figure.id())
        .arg(name(peer.to_possible_value()))
        .arg(name(scale.to_possible_value()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start a child process: {error}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        let last = told.lines().rev().find(|line| !line.starts_with("note:")).unwrap_or_default();
        return Err(format!("{}: {last}", output.status));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}
