//! Access to a namespace: the connection, the names of keys, how a script is run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use redis::{Cmd, FromRedisValue, Script, ToRedisArgs};

use super::create::{Lanes, spread};
use crate::error::Result;
use crate::link::Link;
use crate::settings::{MOST_PARTITIONS, Settings};

/// Names a script, which `common.lua` begins. A full Redis refuses the one that accepts jobs, before it
/// begins; what fires, ends and gives memory back goes on.
macro_rules! script {
    ("create") => {
        script!("#!lua\n", "create")
    };
    ($name:literal) => {
        script!("#!lua flags=allow-oom\n", $name)
    };
    ($flags:literal, $name:literal) => {{
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
pub(crate) use script;

/// Access to the jobs of a namespace, from any task of any process. Clones share a connection.
#[derive(Clone)]
pub struct Store {
    pub(super) settings: Arc<Settings>,
    pub(super) link: Arc<Link>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) partitions: Arc<AtomicU16>,
    /// Keys lead to the first so many partitions, however many are added.
    pub(super) key_partitions: u16,
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
    pub(super) fn partition_of_key(&self, key: &str) -> u16 {
        u16::try_from(spread(key) % u64::from(self.key_partitions)).unwrap_or(0)
    }

    /// The key of what all nodes of the namespace agree on.
    pub(super) fn noted(&self) -> String {
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

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Carries out a command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let mut connection = self.link.connection().await?;
        Ok(command.query_async(&mut connection).await?)
    }

    /// Runs a script on a partition.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        partition: u16,
        args: impl ToRedisArgs,
    ) -> Result<T> {
        Ok(self.timed(script, self.base(partition), args).await?.value)
    }

    /// Runs a script on what `key` names, and measures how long that takes.
    pub(super) async fn timed<T: FromRedisValue>(
        &self,
        script: &Script,
        key: String,
        args: impl ToRedisArgs,
    ) -> Result<Timed<T>> {
        let mut call = script.key(key);
        call.arg(args);
        let mut connection = self.link.connection().await?;
        let sent = Instant::now();
        let value = call.invoke_async(&mut connection).await?;
        Ok(Timed { value, sent, received: Instant::now() })
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}
