//! The jobs as Redis keeps them. Each step is one Lua script on the keys of one partition, so it happens
//! as a whole or not at all, and a Redis Cluster can spread the partitions.
//!
//! * `jobs` - accepts, reads, cancels and moves jobs; `lists` - lists of them
//! * `deliveries` - hands jobs to consumers; `schedules` - recurring jobs
//! * `queues` - pauses and limits; `why` - why a job does not come
//! * `partition` - what only the holder of a partition asks; what people and monitoring want to see

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use redis::{Cmd, FromRedisValue, Script, ToRedisArgs};

use self::jobs::{Lanes, spread};
use crate::error::{Result, StoreError};
use crate::job::MOST_PARTITIONS;
use crate::link::Link;
use crate::settings::Settings;
use crate::units::{lock, random};

/// Names a script, which `common.lua` begins. A full Redis refuses the one that accepts jobs, before it
/// begins; what fires, ends and gives memory back goes on.
macro_rules! script {
    ($name:literal) => {
        script!($name, "#!lua flags=allow-oom\n")
    };
    ($name:literal, $flags:literal) => {{
        static SCRIPT: std::sync::LazyLock<redis::Script> = std::sync::LazyLock::new(|| {
            let body = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/scripts/",
                $name,
                ".lua"
            ));
            redis::Script::new(&(String::from($flags) + &$crate::store::with_common(body)))
        });
        &*SCRIPT
    }};
}

/// Puts before a script what it calls of `common.lua`: Redis makes each function anew for each call of a script.
fn with_common(body: &str) -> String {
    let mut above = include_str!("scripts/common.lua");
    let mut script = body.to_owned();
    // Functions call only those above them.
    while let Some((rest, function)) = above.rsplit_once("local function ") {
        let name = function.split('(').next().unwrap_or_default();
        if calls(&script, name) {
            script = format!("local function {function}{script}");
        }
        above = rest;
    }
    above.to_owned() + &script
}

fn calls(text: &str, name: &str) -> bool {
    let call = format!("{name}(");
    let mut before = text.match_indices(&call).map(|(at, _)| &text[..at]);
    before.any(|before| !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

mod deliveries;
mod jobs;
mod lists;
mod partition;
mod queues;
mod schedules;
mod why;

pub use self::deliveries::Delivery;
pub(crate) use self::deliveries::{Failed, Held, Hold, Nack, Receipt, Taken};
pub use self::lists::{DeadJobs, Listed, Page, Search};
pub(crate) use self::partition::Fired;
pub use self::partition::{NodeView, Overview, PartitionView, Past, QueueView};
pub use self::queues::{Limits, Rate};
pub use self::schedules::{NewSchedule, Overlap, Schedule, Scheduled};

/// The field of the settings that says when a node found them lost.
const LOST: &str = "lost_ms";

/// The oldest server whose scripts behave as this program needs.
const OLDEST: (u32, u32) = (7, 0);

/// Counts the changes of what the keys hold that nodes of another version could not read. Such nodes refuse
/// to start; nodes of one layout run side by side, because each names its scripts by their hashes.
const LAYOUT: u64 = 5;

/// Access to the jobs of a namespace, from any task of any process.
///
/// Clones share a connection, which needs the runtime of the request that has made it. If nobody drives that runtime, the
/// next request of another one is refused as [`StoreError::Away`] after the patience; those after it have a new connection.
#[derive(Clone)]
pub struct Store {
    settings: Arc<Settings>,
    pub(crate) link: Arc<Link>,
    lanes: Arc<Lanes>,
    partitions: Arc<AtomicU16>,
    agreed: Arc<Mutex<Agreed>>,
    /// The policy of a Redis that evicts keys, as it was found last.
    evicts: Arc<Mutex<Option<String>>>,
}

/// What all nodes of a namespace have read in its settings.
#[derive(Clone, Debug)]
struct Agreed {
    /// Names the namespace from when it was set up until Redis comes back empty.
    birth: Arc<str>,
    /// Keys lead to the first so many partitions, however many are added.
    key_partitions: u16,
}

/// How often a request is repeated because Redis does not have what this process remembers.
const AGREEMENTS: usize = 10;

/// Where a key leads: to a partition, as long as the namespace is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    partition: u16,
    birth: Arc<str>,
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

    /// Asks how many partitions there are now; whether they have become more. Agrees with the other nodes again if Redis
    /// does not have what this process remembers.
    pub(crate) async fn refresh(&self) -> Result<bool> {
        let fields = Cmd::hmget(self.noted(), &["partitions", "birth"]);
        let (partitions, birth): (Option<u16>, Option<String>) = self.ask(&fields).await?;
        if birth.as_deref() != Some(&*self.agreed().birth) {
            self.agree().await?;
        }
        Ok(self.learn(partitions.unwrap_or(0)))
    }

    fn agreed(&self) -> Agreed {
        lock(&self.agreed).clone()
    }

    /// The partition that a key leads to.
    fn partition_of_key(&self, key: &str) -> u16 {
        self.place_of_key(key).partition
    }

    fn place_of_key(&self, key: &str) -> Place {
        let Agreed {
            birth,
            key_partitions,
        } = self.agreed();
        let partition = u16::try_from(spread(key) % u64::from(key_partitions)).unwrap_or(0);
        Place { partition, birth }
    }

    /// Settles what was wrong with a request that was refused because the partition does not know this birth. Returns
    /// whether the request belongs to this place still.
    async fn renew_place(&self, place: &Place) -> Result<bool> {
        self.refresh().await?;
        let stays = self.agreed().birth == place.birth;
        if stays {
            self.bear(place).await?;
        }
        Ok(stays)
    }

    /// Tells a partition the birth. One that has known it before has lost its data: one server of a cluster came back empty.
    async fn bear(&self, place: &Place) -> Result<()> {
        let (partition, settings) = (place.partition, self.noted());
        let mark = format!("born:{partition}");
        let was_born: bool = self.ask(&Cmd::hexists(&settings, &mark)).await?;
        let key = format!("{}:birth", self.base(partition));
        let mut set = Cmd::set(key, &*place.birth);
        let known: Option<String> = self.ask(set.arg("GET")).await?;
        if !was_born {
            return self
                .ask::<u64>(&Cmd::hset(settings, mark, 1))
                .await
                .map(drop);
        }
        if known.is_none() {
            tracing::error!(
                partition,
                "Redis has lost what it kept of a partition: its jobs and keys are gone"
            );
            self.note_lost().await?;
        }
        Ok(())
    }

    /// Makes sure that a partition knows the birth.
    pub(crate) async fn settle_birth(&self, partition: u16) -> Result<()> {
        let birth = self.agreed().birth;
        self.renew_place(&Place { partition, birth })
            .await
            .map(drop)
    }

    /// The clock of Redis, in milliseconds since 1970.
    async fn redis_ms(&self) -> Result<u64> {
        let (seconds, micros): (u64, u64) = self.ask(&redis::cmd("TIME")).await?;
        Ok(seconds * 1000 + micros / 1000)
    }

    /// The key of what all nodes of the namespace agree on.
    fn noted(&self) -> String {
        format!("{}:settings", self.settings.namespace)
    }

    /// What the names of all keys of a partition begin with. The part in braces decides the hash slot.
    pub(crate) fn base(&self, partition: u16) -> String {
        format!("{}:{{{partition}}}", self.settings.namespace)
    }

    /// The channel that tells all inboxes what may have changed for a queue.
    pub(crate) fn ready_channel(&self) -> String {
        format!("{}:ready{}", self.settings.namespace, self.link.database())
    }

    /// The channel that tells an inbox in which partition jobs are ready; in a cluster it has one for each partition.
    pub(crate) fn inbox_channel(&self, partition: u16, inbox: &str) -> String {
        let base = match self.settings.redis_cluster {
            true => self.base(partition),
            false => self.settings.namespace.clone(),
        };
        format!("{base}:inbox:{inbox}{}", self.link.database())
    }

    /// The channel that says at which moments something becomes due in the partition that has this base.
    pub(crate) fn near_channel(&self, base: &str) -> String {
        format!("{base}:near{}", self.link.database())
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
        // Neither of these keys exists: one has the name of a channel. A cluster that moves their slot answers TRYAGAIN to a script with two keys of which it
        // has none, so no script runs while a partition is on two servers.
        let mut call = script.key(self.near_channel(&key));
        call.key(key).arg(args);
        let (value, sent) = self.link.invoke(&call).await?;
        Ok(Timed {
            value,
            sent,
            received: Instant::now(),
        })
    }
}

/// What must be true of the server before anything is kept there.
impl Store {
    /// Connects and makes sure that the server and what it keeps fit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for settings that cannot be used, a server older than 7.0, or a namespace that
    /// was set up with other settings; [`StoreError::Evicts`]; [`StoreError::Away`] if Redis does not answer.
    pub async fn open(settings: Settings) -> Result<Self> {
        settings.check().map_err(StoreError::Unfit)?;
        let unfit = |error| StoreError::Unfit(format!("the address of Redis: {error}"));
        let none = Agreed {
            birth: "".into(),
            key_partitions: settings.partitions,
        };
        let store = Self {
            link: Arc::new(Link::new(settings.clone()).map_err(unfit)?),
            settings: Arc::new(settings),
            lanes: Arc::default(),
            partitions: Arc::new(AtomicU16::new(1)),
            agreed: Arc::new(Mutex::new(none)),
            evicts: Arc::default(),
        };
        store.check_server().await?;
        store.check_eviction().await?;
        store.check_settings().await?;
        let (partitions, agreed) = store.note_partitions(store.settings.partitions, 0).await?;
        store.learn(partitions);
        *lock(&store.agreed) = agreed;
        Ok(store)
    }

    /// Refuses a server that is too old.
    async fn check_server(&self) -> Result<()> {
        // Asked by a script, this needs no right that the scripts do not need anyway.
        let version: String = self
            .eval("return redis.REDIS_VERSION or 'before 7.0'")
            .await?;
        if is_old(&version) {
            let (major, minor) = OLDEST;
            return Err(StoreError::Unfit(format!(
                "Redis {version} is too old: {major}.{minor} or newer is needed, or any Valkey"
            )));
        }
        Ok(())
    }

    async fn eval<T: FromRedisValue>(&self, script: &str) -> Result<T> {
        self.ask(redis::cmd("EVAL").arg(script).arg(1).arg(self.base(0)))
            .await
    }

    /// Notes the layout, or compares it with what was noted.
    async fn check_settings(&self) -> Result<()> {
        let key = &self.noted();
        let mut noted: Option<u64> = self.ask(&Cmd::hget(key, "layout")).await?;
        // Nothing is written if it is there, so a node comes up on a full Redis.
        if noted.is_none() {
            let _: bool = self.ask(&Cmd::hset_nx(key, "layout", LAYOUT)).await?;
            noted = self.ask(&Cmd::hget(key, "layout")).await?;
        }
        let noted = noted.unwrap_or_default();
        if noted != LAYOUT {
            return Err(StoreError::Unfit(format!(
                "the namespace `{}` has layout {noted}, not {LAYOUT}: use nodes of its version",
                self.settings.namespace
            )));
        }
        Ok(())
    }

    /// Adds partitions if there are fewer than are wanted.
    pub(crate) async fn grow(&self, wanted: u16) -> Result<()> {
        let (noted, _) = self.note_partitions(wanted, 1).await?;
        self.copy_rules(noted..wanted.max(noted)).await?;
        let (partitions, _) = self.note_partitions(wanted, 2).await?;
        self.learn(partitions);
        Ok(())
    }

    /// Agrees with the other nodes after Redis has lost what it kept. What this process remembers counts, unless another
    /// one has set the namespace up anew. Jobs may have come into each partition since, so none is given up.
    async fn agree(&self) -> Result<()> {
        let (before, known) = (self.agreed().birth, self.partitions());
        self.check_settings().await?;
        let (_, now) = self.note_partitions(known, 0).await?;
        self.grow(known).await?;
        {
            let mut agreed = lock(&self.agreed);
            let is_first = agreed.birth == before && now.birth != before;
            *agreed = now;
            if !is_first {
                return Ok(());
            }
        }
        tracing::error!(
            "Redis has lost what it kept: jobs, idempotency keys, schedules, pauses and limits of before are gone"
        );
        let lost = Cmd::hset_nx(self.noted(), LOST, self.redis_ms().await?);
        self.ask::<bool>(&lost).await.map(drop)
    }

    /// Returns when a node last found that Redis had lost what it kept, or a part of it, if one did.
    pub(crate) async fn lost_ms(&self) -> Result<Option<u64>> {
        self.ask(&Cmd::hget(self.noted(), LOST)).await
    }

    /// Notes that Redis has an earlier state again.
    pub(crate) async fn note_lost(&self) -> Result<()> {
        let lost = Cmd::hset(self.noted(), LOST, self.redis_ms().await?);
        self.ask::<u64>(&lost).await.map(drop)
    }

    /// Runs the script that notes the partitions, up to a step.
    async fn note_partitions(&self, wanted: u16, step: u8) -> Result<(u16, Agreed)> {
        let birth = format!("{:016x}", random());
        let args = (wanted, step, self.agreed().key_partitions, birth);
        let mut call = script!("partitions").key(self.noted());
        call.arg(args);
        let ((partitions, key_partitions, birth), _): ((u16, u16, String), _) =
            self.link.invoke(&call).await?;
        let agreed = Agreed {
            birth: birth.into(),
            key_partitions,
        };
        Ok((partitions, agreed))
    }

    /// Asks for nothing, the way a job is accepted, and looks whether Redis evicts.
    ///
    /// # Errors
    ///
    /// What a request to accept a job would be refused with.
    pub(crate) async fn probe(&self) -> Result<()> {
        self.eval::<u64>("#!lua\nreturn 1").await?;
        self.check_eviction().await
    }

    /// Refuses jobs from now on if Redis evicts keys: it would lose leases, jobs and idempotency keys without a word.
    async fn check_eviction(&self) -> Result<()> {
        let mut policies = self.config("maxmemory-policy").await?;
        if policies.is_empty() {
            policies = self.memory_policies().await?;
        }
        let evicts = policies.into_iter().find(|policy| policy != "noeviction");
        lock(&self.evicts).clone_from(&evicts);
        evicts.map_or(Ok(()), |policy| Err(StoreError::Evicts(policy)))
    }

    /// Refuses a job that Redis could evict, as far as is known.
    fn refuse_eviction(&self) -> Result<()> {
        let evicts = lock(&self.evicts).clone();
        evicts.map_or(Ok(()), |policy| Err(StoreError::Evicts(policy)))
    }

    /// Asks servers that refuse `CONFIG` for their policies; none if they refuse this, too.
    async fn memory_policies(&self) -> Result<Vec<String>> {
        let info = redis::cmd("INFO").arg("memory").to_owned();
        let answers: Vec<redis::InfoDict> = self.unless_refused(&info).await?;
        let policy = |info: &redis::InfoDict| info.get("maxmemory_policy");
        Ok(answers.iter().filter_map(policy).collect())
    }

    /// Asks the servers for their persistence: `always`, `everysec`, `none`, or `unknown`, because managed
    /// servers refuse `CONFIG`.
    pub(crate) async fn durability(&self) -> Result<&'static str> {
        let logs = self.config("appendonly").await?;
        if logs.is_empty() {
            return Ok("unknown");
        }
        if logs.iter().any(|log| log != "yes") {
            return Ok("none");
        }
        let is_always = |policy: &String| policy == "always";
        Ok(
            match self.config("appendfsync").await?.iter().all(is_always) {
                true => "always",
                false => "everysec",
            },
        )
    }

    /// Asks each server for a setting; none if they refuse that.
    async fn config(&self, name: &str) -> Result<Vec<String>> {
        let get = redis::cmd("CONFIG").arg("GET").arg(name).to_owned();
        let answers: Vec<Vec<String>> = self.unless_refused(&get).await?;
        Ok(answers
            .into_iter()
            .filter_map(|mut pair| pair.pop())
            .collect())
    }

    async fn unless_refused<T: FromRedisValue>(&self, command: &Cmd) -> Result<Vec<T>> {
        match self
            .link
            .query_each(command)
            .await
            .map_err(StoreError::from)
        {
            Err(StoreError::Away(error)) if error.code() == Some("ERR") => Ok(Vec::new()),
            Err(StoreError::Denied(error)) if error.code() == Some("NOPERM") => Ok(Vec::new()),
            answers => answers,
        }
    }
}

/// Whether a version is below the oldest one, or no version at all.
fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), minor) = (numbers.next(), numbers.next()) else {
        return true;
    };
    (major, minor.and_then(Result::ok).unwrap_or(0)) < OLDEST
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_the_functions_that_it_calls_and_no_others() {
        let script = with_common("return move_back(1, 2), announcement(3)\n");
        let has = |name: &str| script.contains(&format!("local function {name}("));
        assert!(script.starts_with("-- Begins") && script.ends_with("announcement(3)\n"));
        assert!(
            ["text", "move_back"].iter().all(|name| has(name)),
            "{script}"
        );
        assert!(
            !["now_us", "announce"].iter().any(|name| has(name)),
            "{script}"
        );
    }

    #[test]
    fn versions_compare_as_numbers() {
        let all = |versions: &[&str], old| versions.iter().all(|version| is_old(version) == old);
        assert!(all(
            &["2.8.24", "5.0.14", "6.2.99", "", "x", "of unknown version"],
            true
        ));
        assert!(all(
            &["7.0.0", "7.0.15", "7.4", "8", "10.1.0", "255.255.255"],
            false
        ));
    }
}
