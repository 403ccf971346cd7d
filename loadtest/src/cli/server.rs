//! The options of `loadtest server`, and what they come to.

use std::time::Duration;

use crate::failure::Failure;
use crate::machine;
use crate::settings::parse::{count, duration, share, show, some_duration, threads};
use crate::settings::server::{HostSettings, ServerSettings, Shares};
use clap::Args;

/// Below this the gaps between two messages of a chatty client would be as short as the delays that an
/// ordinary scheduler causes.
const SHORTEST_IDLE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ServerArgs {
    /// Connections held open; one that the server closes is replaced by a new one of its kind
    #[arg(long, default_value = "2000", value_parser = count, value_name = "N")]
    connections: usize,
    /// How long they are held once all are open; then all fall silent and the server has to close every one
    #[arg(long, default_value = "10s", value_parser = some_duration, value_name = "DURATION")]
    duration: Duration,
    /// Share of connections that never pause for as long as the idle timeout; their echoes are checked
    #[arg(long, default_value = "0.4", value_parser = share, value_name = "SHARE")]
    chatty_share: f64,
    /// Share that is chatty for a while and then falls silent
    #[arg(long, default_value = "0.2", value_parser = share, value_name = "SHARE")]
    fading_share: f64,
    /// Share that sends a little and never reads
    #[arg(long, default_value = "0.1", value_parser = share, value_name = "SHARE")]
    half_open_share: f64,
    /// Share that sends until nothing goes any more, and never reads; what is left of 1 never says a word
    #[arg(long, default_value = "0.05", value_parser = share, value_name = "SHARE")]
    flooding_share: f64,
    /// Threads that drive the clients [default: one per two cores]
    #[arg(long, value_parser = threads, value_name = "N")]
    client_loops: Option<usize>,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How late a connection may be closed before it counts as forgotten
    #[arg(long, default_value = "5s", value_parser = some_duration, value_name = "DURATION")]
    grace: Duration,
    #[command(flatten)]
    served: ServedArgs,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
struct ServedArgs {
    /// Silence after which the server has to close a connection
    #[arg(long, default_value = "2s", value_parser = some_duration, value_name = "DURATION")]
    idle_timeout: Duration,
    /// Silence after which it sends a heartbeat, 0s for never [default: a third of the idle timeout]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    heartbeat: Option<Duration>,
    /// Event loops of the server, each with a timer of its own [default: one per core]
    #[arg(long, visible_alias = "shards", value_parser = threads, value_name = "N")]
    loops: Option<usize>,
    /// Tell the server another idle timeout than the one it is judged by, to see the verdict at work
    #[arg(long, hide = true, value_parser = some_duration, value_name = "DURATION")]
    tell_server: Option<Duration>,
}

/// What the server's own process is told.
#[derive(Clone, Debug, Args)]
pub(super) struct HostArgs {
    #[arg(long, value_parser = some_duration)]
    idle: Duration,
    #[arg(long, value_parser = duration)]
    heartbeat: Duration,
    #[arg(long, value_parser = threads)]
    loops: usize,
}

impl HostArgs {
    pub(super) fn settings(&self) -> HostSettings {
        HostSettings { idle: self.idle, heartbeat: self.heartbeat, loops: self.loops }
    }
}

impl ServerArgs {
    pub(super) fn settings(&self) -> Result<ServerSettings, Failure> {
        let shares = Shares {
            chatty: self.chatty_share,
            fading: self.fading_share,
            half_open: self.half_open_share,
            flooding: self.flooding_share,
        };
        let sum = shares.chatty + shares.fading + shares.half_open + shares.flooding;
        if sum > 1.0 + 1e-9 {
            return Err(Failure::Options(format!(
                "the shares add up to {sum:.2}; lower --chatty-share, --fading-share, \
                 --half-open-share or --flooding-share so that they make 1 or less"
            )));
        }
        let ServedArgs { idle_timeout: idle, heartbeat, loops, tell_server } = self.served;
        if idle < SHORTEST_IDLE {
            return Err(Failure::Options(format!(
                "--idle-timeout {} is too short to be judged; use {} or more",
                show(idle),
                show(SHORTEST_IDLE)
            )));
        }
        Ok(ServerSettings {
            connections: self.connections,
            duration: self.duration,
            idle,
            told: tell_server.unwrap_or(idle),
            heartbeat: heartbeat.unwrap_or_else(|| Duration::from_millis(millis(idle) / 3)),
            grace: self.grace,
            shares,
            loops: loops.unwrap_or_else(machine::cores),
            client_loops: self.client_loops.unwrap_or_else(|| machine::cores().div_ceil(2)),
            // Fits JSON readers that know only 53 bits.
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1 << 53)),
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Host {
        #[command(flatten)]
        host: HostArgs,
    }

    #[derive(Debug, Parser)]
    struct Run {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn settings(arguments: &[&str]) -> Result<ServerSettings, Failure> {
        let arguments = [&["x"], arguments].concat();
        Run::try_parse_from(arguments).unwrap().server.settings()
    }

    #[test]
    fn the_server_gets_the_settings_that_were_sent() {
        let settings = HostSettings {
            idle: Duration::new(2, 5),
            heartbeat: Duration::from_micros(666_666),
            loops: 3,
        };
        let arguments = ["x".to_owned()].into_iter().chain(settings.arguments());
        let read = Host::try_parse_from(arguments).unwrap().host.settings();
        assert_eq!((read.idle, read.heartbeat, read.loops), (settings.idle, settings.heartbeat, 3));
    }

    #[test]
    fn impossible_settings_name_the_cure() {
        for (arguments, cure) in [
            (&["--chatty-share", "0.9"][..], "make 1 or less"),
            (&["--idle-timeout", "1ms"], "use 100ms or more"),
        ] {
            let error = settings(arguments).unwrap_err().to_string();
            assert!(error.contains(cure), "{error}");
        }
    }

    #[test]
    fn heartbeats_follow_the_idle_timeout() {
        let of = |arguments: &[&str]| settings(arguments).unwrap().heartbeat;
        assert_eq!(of(&["--idle-timeout", "3s"]), Duration::from_secs(1));
        assert_eq!(of(&["--heartbeat", "0s"]), Duration::ZERO);
    }
}
