//! The jobs as Redis keeps them. Each step is one Lua script on the keys of one partition, so it happens
//! as a whole or not at all, and a Redis Cluster can spread the partitions.
//!
//! * `server` - what must be true of the server; opens a store
//! * `jobs` - accepts, reads, cancels and moves jobs; `lists` - lists of them
//! * `deliveries` - hands jobs to consumers; `schedules` - recurring jobs
//! * `partition` - what only the holder of a partition asks; what people and monitoring want to see

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use redis::{Cmd, FromRedisValue, Script, ToRedisArgs};

use self::jobs::{Lanes, spread};
use crate::error::Result;
use crate::link::Link;
use crate::settings::{MOST_PARTITIONS, Settings};

/// Names a script, which `common.lua` begins. A full Redis refuses the one that accepts jobs, before it
/// begins; what fires, ends and gives memory back goes on.
macro_rules! script {
    ($name:literal) => {
        script!($name, "#!lua flags=allow-oom\n")
    };
    ($name:literal, $flags:literal) => {{
        static SCRIPT: std::sync::LazyLock<redis::Script> = std::sync::LazyLock::new(|| {
            redis::Script::new(concat!(
                $flags,
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts/common.lua")),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts/", $name, ".lua"))
            ))
        });
        &*SCRIPT
    }};
}

mod deliveries;
mod jobs;
mod lists;
mod partition;
mod schedules;
mod server;

pub use self::deliveries::Delivery;
pub(crate) use self::deliveries::{Failed, Nack, Receipt, Taken};
pub use self::lists::{Page, Search};
pub(crate) use self::partition::Fired;
pub use self::partition::{NodeView, Overview, PartitionView};
pub use self::schedules::{NewSchedule, Schedule, Scheduled};

/// Access to the jobs of a namespace, from any task of any process. Clones share a connection.
#[derive(Clone)]
pub struct Store {
    settings: Arc<Settings>,
    pub(crate) link: Arc<Link>,
    lanes: Arc<Lanes>,
    partitions: Arc<AtomicU16>,
    /// Keys lead to the first so many partitions, however many are added.
    key_partitions: u16,
}

/// What a script said, and when the question went out and the answer came.
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

impl Store {
    /// The settings it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many partitions the namespace has, as far as this process knows.
    #[must_use]
    pub fn partitions(&self) -> u16 {
        // ORDERING: Relaxed, here and below; nothing else is read by it.
        self.partitions.load(Ordering::Relaxed)
    }

    /// Notes that there are at least so many partitions; whether that is news.
    pub(crate) fn learn(&self, partitions: u16) -> bool {
        let partitions = partitions.min(MOST_PARTITIONS);
        // ORDERING: see `partitions`.
        self.partitions.fetch_max(partitions, Ordering::Relaxed) < partitions
    }

    /// Asks how many partitions there are now; whether they have become more.
    pub(crate) async fn refresh(&self) -> Result<bool> {
        let noted: Option<u16> = self.ask(&Cmd::hget(self.noted(), "partitions")).await?;
        Ok(self.learn(noted.unwrap_or(0)))
    }

    /// The partition that a key leads to.
    fn partition_of_key(&self, key: &str) -> u16 {
        u16::try_from(spread(key) % u64::from(self.key_partitions)).unwrap_or(0)
    }

    /// The key of what all nodes of the namespace agree on.
    fn noted(&self) -> String {
        format!("{}:settings", self.settings.namespace)
    }

    /// What the names of all keys of a partition begin with. The part in braces decides the hash slot.
    pub(crate) fn base(&self, partition: u16) -> String {
        format!("{}:{{{partition}}}", self.settings.namespace)
    }

    /// The channel that says in which partition jobs are ready.
    pub(crate) fn ready_channel(&self) -> String {
        format!("{}:ready", self.settings.namespace)
    }

    /// Carries out a command.
    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        Ok(self.link.query(command).await?)
    }

    /// Runs a script on a partition.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        partition: u16,
        args: impl ToRedisArgs,
    ) -> Result<T> {
        Ok(self.timed(script, self.base(partition), args).await?.value)
    }

    /// Runs a script on what `key` names, and measures how long that takes.
    async fn timed<T: FromRedisValue>(
        &self,
        script: &Script,
        key: String,
        args: impl ToRedisArgs,
    ) -> Result<Timed<T>> {
        let mut call = script.key(key);
        call.arg(args);
        let (value, sent) = self.link.invoke(&call).await?;
        Ok(Timed { value, sent, received: Instant::now() })
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}
