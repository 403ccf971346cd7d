//! The options of `loadtest server`.

use std::time::Duration;

use clap::Args;

use super::parse::{connections, share, show, some_duration, threads};
use super::setting::Setting;
use crate::failure::Failure;
use crate::machine;

/// Below this the gaps between two messages of a chatty client would be as short as the delays that an
/// ordinary scheduler causes.
const SHORTEST_IDLE: Duration = Duration::from_millis(100);

/// What a run against the server is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerSettings {
    /// Connections held open; one that the server closes is replaced by a new one of its kind
    #[arg(long, default_value = "2000", value_parser = connections, value_name = "N")]
    pub(crate) connections: usize,
    /// How long they are held once all are open; then all fall silent and the server has to close every one
    #[arg(long, default_value = "10s", value_parser = some_duration, value_name = "DURATION")]
    pub(crate) duration: Duration,
    /// Share of connections that never pause for as long as the idle timeout; their echoes are checked
    #[arg(long, default_value = "0.5", value_parser = share, value_name = "SHARE")]
    pub(crate) chatty_share: f64,
    /// Share that is chatty for a while and then falls silent; what is left of 1 never says a word
    #[arg(long, default_value = "0.25", value_parser = share, value_name = "SHARE")]
    pub(crate) fading_share: f64,
    /// Threads that drive the clients
    #[arg(long, default_value_t = machine::cores().div_ceil(2), value_parser = threads, value_name = "N")]
    pub(crate) client_loops: usize,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, default_value_t = super::parse::seed(), hide_default_value = true, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// How late a connection may be closed before it counts as forgotten
    #[arg(long, default_value = "5s", value_parser = some_duration, value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// Silence after which the server has to close a connection
    #[arg(long, default_value = "2s", value_parser = some_duration, value_name = "DURATION")]
    pub(crate) idle_timeout: Duration,
    /// Event loops of the server, each with a timer of its own
    #[arg(long, visible_alias = "shards", default_value_t = machine::cores(), value_parser = threads, value_name = "N")]
    pub(crate) loops: usize,
    /// Tell the server another idle timeout than the one it is judged by, to see the verdict at work
    #[arg(long, hide = true, value_parser = some_duration, value_name = "DURATION")]
    pub(crate) tell_server: Option<Duration>,
}

impl ServerSettings {
    /// Refuses what cannot be judged.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let sum = self.chatty_share + self.fading_share;
        if sum > 1.0 + 1e-9 {
            return Err(Failure::Options(format!(
                "the shares add up to {sum:.2}; lower --chatty-share or --fading-share so that they make 1 or less"
            )));
        }
        if self.idle_timeout < SHORTEST_IDLE {
            return Err(Failure::Options(format!(
                "--idle-timeout {} is too short to be judged; use {} or more",
                show(self.idle_timeout),
                show(SHORTEST_IDLE)
            )));
        }
        Ok(())
    }

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        let mut rows = vec![
            Setting::count("connections", self.connections),
            Setting::duration("duration", self.duration),
            Setting::duration("idle-timeout", self.idle_timeout),
            Setting::duration("grace", self.grace),
            Setting::count("loops", self.loops),
            Setting::count("client-loops", self.client_loops),
            Setting::number("chatty-share", self.chatty_share),
            Setting::number("fading-share", self.fading_share),
            Setting::seed(self.seed),
        ];
        rows.extend(self.tell_server.map(|told| Setting::duration("tell-server", told)));
        rows
    }
}
