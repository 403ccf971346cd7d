//! The clients' hold on the server's process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::host::protocol::{Greeting, ServerCounts};
use crate::settings::server::HostSettings;

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
    pub(super) fn start(settings: &HostSettings) -> Result<Self, Failure> {
        let failed = |error| Failure::System(format!("cannot start the server: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("host-server").args(settings.arguments());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C on the terminal is for the clients, which then stop the server in good order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("the output is piped");
        let addr = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, stdin, lines: BufReader::new(stdout), addr };
        server.addr = server.line::<Greeting>().map_err(Failure::System)?.addr;
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
        let read = self.lines.read_line(&mut line);
        read.map_err(|error| error.to_string())
            .and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()))
            .map_err(|error| {
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
