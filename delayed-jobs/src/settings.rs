//! What a node is made of. All nodes of one namespace should agree on how often jobs are tried.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::job::{FARTHEST, MOST_PARTITIONS, Retry};
use crate::units::{duration, millis};

/// Settings of a [`Store`](crate::Store) and of a [`Node`](crate::Node).
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true)]
pub struct Settings {
    /// The Redis server (7.0 or newer) or a Valkey, `rediss://` for TLS; sentinels or servers of a cluster
    /// are separated by commas
    #[arg(long, default_value = "redis://127.0.0.1:6379", value_name = "URL")]
    pub redis: String,
    /// The addresses are those of sentinels, which know the master by this name
    #[arg(long, value_name = "MASTER", conflicts_with = "redis_cluster")]
    pub redis_sentinel: Option<String>,
    /// The addresses are those of servers of a Redis Cluster
    #[arg(long)]
    pub redis_cluster: bool,
    /// The user, where Redis has access control lists
    #[arg(long, value_name = "NAME")]
    pub redis_user: Option<String>,
    /// Holds the password; read again for each connection
    #[arg(long, value_name = "FILE")]
    pub redis_password_file: Option<PathBuf>,
    /// The password; give it by file or environment, because others see the command line
    #[arg(long, hide = true, value_name = "PASSWORD")]
    pub redis_password: Option<Secret>,
    /// Certificates (PEM) that the server's one is checked against, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub redis_ca: Option<PathBuf>,
    /// Certificate (PEM) of this client
    #[arg(long, value_name = "FILE", requires = "redis_key")]
    pub redis_cert: Option<PathBuf>,
    /// Key (PEM) of this client
    #[arg(long, value_name = "FILE", requires = "redis_cert")]
    pub redis_key: Option<PathBuf>,
    /// Begins every key, so that several systems can share a server
    #[arg(long, default_value = "jobs", value_name = "NAME")]
    pub namespace: String,
    /// Into how many parts the jobs are divided, 1 to 4096: the most nodes that can share the work. A node adds some to
    /// a namespace that has fewer; it never has fewer than before
    #[arg(long, default_value = "16", value_name = "N")]
    pub partitions: u16,
    /// How long a partition stays with a node that is silent, at least 100 ms
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "DURATION")]
    pub lease: Duration,
    /// How long an ended job, and its idempotency key, can still be asked for
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    pub retention: Duration,
    /// How long a dead job is kept [default: until it is requeued or purged]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub dead_retention: Option<Duration>,
    /// How many dead jobs are kept, those that died last; each partition keeps its share, rounded up
    #[arg(long, value_name = "N")]
    pub max_dead: Option<u64>,
    /// How long an answer of Redis is waited for; at most half a lease
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub patience: Duration,
    /// How long a consumer has to acknowledge a job, if it does not say so itself
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub hold: Duration,
    /// How often jobs are tried that do not say so themselves; the same on all nodes, because it counts when requests
    /// are compared
    #[command(flatten)]
    pub retry: Retry,
    /// Refuses new jobs (429) while so many are pending, counted about once a second
    #[arg(long, value_name = "N")]
    pub max_pending: Option<u64>,
    /// Refuses new jobs (429) while so many wait for a consumer, counted alike
    #[arg(long, value_name = "N")]
    pub max_waiting: Option<u64>,
    /// A file with a line `read TOKEN` or `write TOKEN` for each bearer token that is accepted over HTTP
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Serves everybody who reaches an address that is not of this machine alone
    #[arg(long, conflicts_with = "tokens")]
    pub without_tokens: bool,
    /// Names of this node in URLs, separated by commas: without tokens it answers only to addresses, localhost and these
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub hosts: Vec<String>,
    /// How long a new connection over HTTP may take for the header of its first request
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub header_timeout: Duration,
    /// How long a connection over HTTP may take from an answer to the end of the next request's header, and how long
    /// its client may take nothing of an answer; longer than a proxy keeps connections
    #[arg(long, default_value = "3m", value_parser = duration, value_name = "DURATION")]
    pub idle_timeout: Duration,
    /// How long a request over HTTP may take from the end of its header to its answer; one for deliveries has 60 s more
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub request_timeout: Duration,
    /// The unit of time of the node's timer
    #[arg(long, default_value = "1ms", value_parser = duration, value_name = "DURATION")]
    pub tick: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self::parse_from::<_, &str>([])
    }
}

impl Settings {
    /// What is wrong with these settings, if anything is.
    ///
    /// # Errors
    ///
    /// The first value that cannot be used, with what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let namespace = &self.namespace;
        if namespace.is_empty() || !namespace.chars().all(name) {
            let form = "is not made of letters, digits, `-`, `_` and `.`";
            return Err(format!("the namespace `{namespace}` {form}"));
        }
        if !(1..=MOST_PARTITIONS).contains(&self.partitions) {
            return Err(format!(
                "{} partitions are not possible; use 1 to 4096",
                self.partitions
            ));
        }
        self.retry.check()?;
        let second = Duration::from_secs(1);
        let wrong = if self.lease < second / 10 {
            "the lease is too short; use 100 ms or more"
        } else if self.patience.is_zero() || self.retention < second {
            "patience must not be 0 and retention not below 1 s"
        } else if self.hold.is_zero() {
            "hold must not be 0"
        } else if self.dead_retention.is_some_and(|kept| kept < second) {
            "dead_retention must not be below 1 s"
        } else if [self.header_timeout, self.idle_timeout, self.request_timeout]
            .contains(&Duration::ZERO)
        {
            "header_timeout, idle_timeout and request_timeout must not be 0"
        } else if self.times().into_iter().any(|time| time > FARTHEST) {
            // Neither Redis nor a clock takes times of any length.
            "times must not be above ten years"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    /// All times that are set.
    fn times(&self) -> [Duration; 9] {
        [
            self.lease,
            self.retention,
            self.dead_retention.unwrap_or_default(),
            self.patience,
            self.hold,
            self.header_timeout,
            self.idle_timeout,
            self.request_timeout,
            self.tick,
        ]
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        millis(self.lease)
    }
}

/// A password. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_all_clocks_are_refused() {
        let fits = |change: fn(&mut Settings, Duration), time| {
            let mut settings = Settings::default();
            change(&mut settings, time);
            settings.check().is_ok()
        };
        let changes: [fn(&mut Settings, Duration); 9] = [
            |settings, time| settings.lease = time,
            |settings, time| settings.retention = time,
            |settings, time| settings.dead_retention = Some(time),
            |settings, time| settings.patience = time,
            |settings, time| settings.hold = time,
            |settings, time| settings.header_timeout = time,
            |settings, time| settings.idle_timeout = time,
            |settings, time| settings.request_timeout = time,
            |settings, time| settings.tick = time,
        ];
        for change in changes {
            let seconds = Duration::from_secs(u64::MAX);
            assert!(fits(change, FARTHEST) && !fits(change, Duration::MAX));
            assert!(!fits(change, seconds));
        }
    }
}
