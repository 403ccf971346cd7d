//! What must be true of the server before anything is kept there.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use redis::{Cmd, FromRedisValue};

use super::Store;
use crate::error::{Result, StoreError};
use crate::link::Link;
use crate::settings::Settings;

/// The oldest server whose scripts behave as this program needs.
const OLDEST: (u32, u32) = (7, 0);

/// Counts the changes of what the keys hold that nodes of another version could not read. Such nodes refuse
/// to start; nodes of one layout run side by side, because each names its scripts by their hashes.
const LAYOUT: u64 = 1;

impl Store {
    /// Connects and makes sure that the server and what it keeps fit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for settings that cannot be used, a server older than 7.0, or a namespace that
    /// was set up with other settings; [`StoreError::Away`] if Redis does not answer.
    pub async fn open(settings: Settings) -> Result<Self> {
        settings.check().map_err(StoreError::Unfit)?;
        let unfit = |error| StoreError::Unfit(format!("the address of Redis: {error}"));
        let mut store = Self {
            link: Arc::new(Link::new(settings.clone()).map_err(unfit)?),
            settings: Arc::new(settings),
            lanes: Arc::default(),
            partitions: Arc::new(AtomicU16::new(1)),
            key_partitions: 1,
        };
        store.check_server().await?;
        store.prepare().await?;
        Ok(store)
    }

    /// Refuses a server that is too old.
    async fn check_server(&self) -> Result<()> {
        // Asked by a script, this needs no right that the scripts do not need anyway.
        let version: String = self.eval("return redis.REDIS_VERSION or 'before 7.0'").await?;
        if is_old(&version) {
            let (major, minor) = OLDEST;
            return Err(StoreError::Unfit(format!(
                "Redis {version} is too old: {major}.{minor} or newer is needed, or any Valkey"
            )));
        }
        Ok(())
    }

    async fn eval<T: FromRedisValue>(&self, script: &str) -> Result<T> {
        self.ask(redis::cmd("EVAL").arg(script).arg(1).arg(self.base(0))).await
    }

    /// Notes layout, window and partitions, or compares the first two with what was noted.
    async fn prepare(&mut self) -> Result<()> {
        let key = &self.noted();
        for (name, value) in [("layout", LAYOUT), ("window_ms", self.settings.window_ms())] {
            let mut noted: Option<u64> = self.ask(&Cmd::hget(key, name)).await?;
            // Nothing is written if it is there, so a node comes up on a full Redis.
            if noted.is_none() {
                let _: bool = self.ask(&Cmd::hset_nx(key, name, value)).await?;
                noted = self.ask(&Cmd::hget(key, name)).await?;
            }
            let noted = noted.unwrap_or_default();
            if noted != value {
                return Err(StoreError::Unfit(format!(
                    "the namespace `{}` has {name} {noted}, not {value}: use the same on all nodes",
                    self.settings.namespace
                )));
            }
        }
        self.key_partitions = self.count_partitions(false).await?;
        Ok(())
    }

    /// Learns how many partitions there are, and adds some if it is to `grow` the namespace and the settings
    /// want more. Returns how many of them keys lead to.
    pub(crate) async fn count_partitions(&self, grow: bool) -> Result<u16> {
        let args = (self.settings.partitions, u8::from(grow));
        let timed = self.timed(script!("partitions"), self.noted(), args).await?;
        let (partitions, key_partitions) = timed.value;
        self.learn(partitions);
        Ok(key_partitions)
    }

    /// Asks for nothing, the way a job is accepted.
    ///
    /// # Errors
    ///
    /// What a request to accept a job would be refused with.
    pub(crate) async fn probe(&self) -> Result<()> {
        self.eval::<u64>("#!lua\nreturn 1").await.map(drop)
    }

    /// Asks the server for its persistence: `always`, `everysec`, `none`, or `unknown`, because managed
    /// servers refuse `CONFIG`.
    pub(crate) async fn durability(&self) -> Result<&'static str> {
        let config = async |name: &str| -> Result<String> {
            let pair: Vec<String> = self.ask(redis::cmd("CONFIG").arg("GET").arg(name)).await?;
            Ok(pair.into_iter().nth(1).unwrap_or_default())
        };
        match config("appendonly").await {
            Ok(answer) if answer == "yes" => {}
            Ok(_) => return Ok("none"),
            Err(StoreError::Away(error)) if error.code() == Some("ERR") => return Ok("unknown"),
            Err(StoreError::Denied(error)) if error.code() == Some("NOPERM") => {
                return Ok("unknown");
            }
            Err(error) => return Err(error),
        }
        Ok(if config("appendfsync").await? == "always" { "always" } else { "everysec" })
    }
}

/// Whether a version is below the oldest one, or no version at all.
fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), minor) = (numbers.next(), numbers.next()) else { return true };
    (major, minor.and_then(Result::ok).unwrap_or(0)) < OLDEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let all = |versions: &[&str], old| versions.iter().all(|version| is_old(version) == old);
        assert!(all(&["2.8.24", "5.0.14", "6.2.99", "", "x", "of unknown version"], true));
        assert!(all(&["7.0.0", "7.0.15", "7.4", "8", "10.1.0", "255.255.255"], false));
    }
}
