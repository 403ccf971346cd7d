//! The two lines that the server's process says: one when it serves, one when it has stopped.
//!
//! ```text
//! {"addr":"127.0.0.1:40961"}
//! {"accepted":2000, ... }
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::usage::Cost;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) addr: SocketAddr,
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
