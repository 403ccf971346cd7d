//! The server's own process: serves until its standard input ends.
//!
//! A process of its own gives the server the whole file limit and lets its cost be told from that of the
//! clients.

use std::io::Read as _;

use serde::Serialize;

use super::protocol::{Greeting, ServerCounts};
use super::server::Server;
use crate::failure::Failure;
use crate::measure::nanos;
use crate::report::outputs::print;
use crate::settings::server::HostSettings;
use crate::usage::Usage;
use crate::{limits, machine};

/// Serves until the standard input ends.
pub(crate) fn host(settings: &HostSettings) -> Result<(), Failure> {
    limits::raise_open_files();
    let usage = Usage::now();
    let failed = |error| Failure::System(format!("the server has failed: {error}"));
    let server = Server::start(*settings).map_err(failed)?;
    say(&Greeting { addr: server.addr() });
    // Ends with the process that started this one, however that ends.
    let mut ignored = Vec::new();
    let _ = std::io::stdin().lock().read_to_end(&mut ignored);
    let timers = server.timers() as u64;
    let stats = server.stop().map_err(failed)?;
    say(&ServerCounts {
        accepted: stats.accepted,
        closed_idle: stats.closed_idle,
        closed_by_peer: stats.closed_by_peer,
        refused: stats.refused,
        heartbeats: stats.heartbeats,
        echoed: stats.echoed,
        latest_close_ns: nanos(stats.latest_close),
        timers,
        cost: Usage::now().since(&usage),
        peak_bytes: machine::peak_resident_bytes(),
    });
    Ok(())
}

fn say(line: &impl Serialize) {
    let text = serde_json::to_string(line).expect("plain values always serialize");
    print(&format!("{text}\n"));
}
