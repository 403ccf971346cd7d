//! The server's own process: the clients' hold on it, and what runs inside.
//!
//! It says two lines, one when it serves and one when it has stopped, and serves until its standard input ends, so that
//! it ends with the process that started it. A process of its own gives the server the whole file limit and lets its
//! cost be told from that of the clients.

use std::io::{BufRead, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::host::Server;
use crate::failure::Failure;
use crate::machine;
use crate::report::outputs::print;
use crate::settings::parse::show;
use crate::usage::{Cost, Usage};

/// The last line: what the server counted, and what it cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ServerCounts {
    pub(super) accepted: u64,
    /// Connections closed because nothing moved on them.
    pub(super) closed_idle: u64,
    /// Connections that the peer closed or the network broke.
    pub(super) closed_by_peer: u64,
    /// Connections turned away because a resource was exhausted.
    pub(super) refused: u64,
    /// Bytes read, each of which is sent back.
    pub(super) echoed: u64,
    pub(super) latest_close_ns: u64,
    /// Timers that were pending when the server was told to stop.
    pub(super) timers: u64,
    pub(super) cost: Cost,
    pub(super) peak_bytes: Option<u64>,
}

impl ServerCounts {
    /// Adds what another loop has counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.closed_idle += other.closed_idle;
        self.closed_by_peer += other.closed_by_peer;
        self.refused += other.refused;
        self.echoed += other.echoed;
        self.latest_close_ns = self.latest_close_ns.max(other.latest_close_ns);
        self.timers += other.timers;
    }
}

/// Serves until the standard input ends.
pub(crate) fn serve(idle: Duration, loops: usize) -> Result<(), Failure> {
    machine::raise_open_files();
    let usage = Usage::now();
    let failed = |error| Failure::System(format!("the server has failed: {error}"));
    let server = Server::start(idle, loops).map_err(failed)?;
    say(&server.addr);
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    let counts = server.stop().map_err(failed)?;
    let (cost, peak_bytes) = (Usage::now().since(&usage), machine::peak_resident_bytes());
    say(&ServerCounts { cost, peak_bytes, ..counts });
    Ok(())
}

fn say(line: &impl Serialize) {
    let text = serde_json::to_string(line).expect("plain values always serialize");
    print(&format!("{text}\n"));
}

/// A server in a process of its own. It ends when this is dropped.
pub(super) struct ServerProcess {
    child: Child,
    /// Closed to make it stop.
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    pub(super) addr: SocketAddr,
}

impl ServerProcess {
    /// Starts this program again as the server and waits until it listens.
    pub(super) fn start(idle: Duration, loops: usize) -> Result<Self, Failure> {
        let failed = |error| Failure::System(format!("cannot start the server: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["host-server", "--idle", &show(idle), "--loops", &loops.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C on the terminal is for the clients, which then stop the server in good order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("the output is piped"));
        let mut server = Self { child, stdin, lines, addr: SocketAddr::from(([0; 4], 0)) };
        server.addr = server.line().map_err(Failure::System)?;
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server and asks for its counts; a text if it has failed.
    pub(super) fn stop(mut self) -> Result<ServerCounts, String> {
        self.stdin = None;
        self.line()
    }

    fn line<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        let mut line = String::new();
        let _ = self.lines.read_line(&mut line);
        serde_json::from_str(&line).map_err(|error| {
            format!("the server's process does not answer ({error}); see its own messages")
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends by itself now; if it has ended before, there is nothing to wait for.
        let _ = self.child.wait();
    }
}
