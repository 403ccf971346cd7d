//! The server's own process: runs the example `idle_server` until its standard input ends.
//!
//! A process of its own gives the server the whole file limit and lets its cost be told from that of the
//! clients. It says one line when it serves, and one when it has stopped:
//!
//! ```text
//! {"addr":"127.0.0.1:40961"}
//! {"accepted":2000, ... }
//! ```

use std::io::Read as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::limits;
use crate::cli::HostSettings;
use crate::failure::Failure;
use crate::machine::{self, Cost, Usage};
use crate::report;

#[expect(
    dead_code,
    unreachable_pub,
    reason = "the example's command line and demonstration are not used here, nor its names outside"
)]
#[path = "../../../examples/idle_server.rs"]
mod idle_server;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub(super) addr: SocketAddr,
}

/// The last line: what the server counted, and what it cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServerCounts {
    pub(crate) accepted: u64,
    pub(crate) closed_idle: u64,
    pub(crate) closed_by_peer: u64,
    pub(crate) refused: u64,
    pub(crate) heartbeats: u64,
    pub(crate) echoed: u64,
    pub(crate) latest_close_ns: u64,
    /// Timers that were pending when the server was told to stop.
    pub(crate) timers: u64,
    pub(crate) cost: Cost,
    pub(crate) peak_bytes: Option<u64>,
}

/// Serves until the standard input ends.
pub(crate) fn host(settings: &HostSettings) -> Result<(), Failure> {
    limits::raise_open_files();
    let usage = Usage::now();
    let config = idle_server::Config {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        idle: settings.idle,
        heartbeat: settings.heartbeat,
        loops: settings.loops,
    };
    let failed = |error| Failure::System(format!("the server has failed: {error}"));
    let server = idle_server::Server::start(config).map_err(failed)?;
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
        latest_close_ns: crate::book::nanos(stats.latest_close),
        timers,
        cost: Usage::now().since(&usage),
        peak_bytes: machine::peak_resident_bytes(),
    });
    Ok(())
}

fn say(line: &impl Serialize) {
    let text = serde_json::to_string(line).expect("plain values always serialize");
    report::print(&format!("{text}\n"));
}
