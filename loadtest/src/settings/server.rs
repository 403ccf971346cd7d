//! What a run against the server is made of.

use std::time::Duration;

use super::parse::show;
use super::setting::Setting;

/// How the server is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSettings {
    pub(crate) idle: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) loops: usize,
}

impl HostSettings {
    /// The options that make the same settings again.
    pub(crate) fn arguments(&self) -> [String; 6] {
        ["--idle", &show(self.idle), "--heartbeat", &show(self.heartbeat), "--loops"]
            .map(str::to_owned)
            .into_iter()
            .chain([self.loops.to_string()])
            .collect::<Vec<_>>()
            .try_into()
            .expect("five texts and one")
    }
}

/// Which part of the connections is of which kind; the rest is silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) chatty: f64,
    pub(crate) fading: f64,
    pub(crate) half_open: f64,
    pub(crate) flooding: f64,
}

/// What a run against the server is made of.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// What the server is judged by.
    pub(crate) idle: Duration,
    /// What it is told; the same, except in tests of the verdict.
    pub(crate) told: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) grace: Duration,
    pub(crate) shares: Shares,
    pub(crate) loops: usize,
    pub(crate) client_loops: usize,
    pub(crate) seed: u64,
}

impl ServerSettings {
    /// What the server's process is told.
    pub(crate) fn host(&self) -> HostSettings {
        HostSettings { idle: self.told, heartbeat: self.heartbeat, loops: self.loops }
    }

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        let mut rows = vec![
            Setting::count("connections", self.connections),
            Setting::duration("duration", self.duration),
            Setting::duration("idle-timeout", self.idle),
            Setting::duration("heartbeat", self.heartbeat),
            Setting::duration("grace", self.grace),
            Setting::count("loops", self.loops),
            Setting::count("client-loops", self.client_loops),
            Setting::number("chatty-share", self.shares.chatty),
            Setting::number("fading-share", self.shares.fading),
            Setting::number("half-open-share", self.shares.half_open),
            Setting::number("flooding-share", self.shares.flooding),
            Setting::seed(self.seed),
        ];
        if self.told != self.idle {
            rows.push(Setting::duration("tell-server", self.told));
        }
        rows
    }
}
