//! What must be true of the server before anything is kept there.

use redis::AsyncCommands;

use super::access::{Store, script};
use crate::error::StoreError;
use crate::link::Link;
use crate::settings::Settings;

/// The oldest server whose scripts behave as this program needs.
const OLDEST: (u32, u32) = (7, 0);

/// Counts the changes of what the keys hold that nodes of another version could not read. Such nodes refuse
/// to start; nodes of one layout run side by side, because each names its scripts by their hashes.
const LAYOUT: u64 = 1;

/// How safe what Redis has accepted is from a crash of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Written before it is acknowledged, and on the disk as well.
    Always,
    /// Written before it is acknowledged, and on the disk within about a second.
    EverySecond,
    /// Gone with the process.
    None,
    /// The server does not tell.
    Unknown,
}

impl Durability {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }
}

impl Store {
    /// Connects and makes sure that the server and what it keeps fit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] for settings that cannot be used, a server older than 7.0, or a namespace that
    /// was set up with other settings; [`StoreError::Away`] if Redis does not answer.
    pub async fn open(settings: Settings) -> Result<Self, StoreError> {
        settings.check().map_err(StoreError::Unfit)?;
        let unfit = |error| StoreError::Unfit(format!("the address of Redis: {error}"));
        let link = Link::new(settings.clone()).map_err(unfit)?;
        let mut store = Self::new(settings, link);
        store.check_server().await?;
        store.prepare().await?;
        Ok(store)
    }

    /// Refuses a server that is too old.
    async fn check_server(&self) -> Result<(), StoreError> {
        let mut loan = self.link.loan().await?;
        // Asked by a script, this needs no right that the scripts do not need anyway.
        let version: String = redis::cmd("EVAL")
            .arg("return redis.REDIS_VERSION or 'before 7.0'")
            .arg(1)
            .arg(self.base(0))
            .query_async(&mut loan.connection)
            .await?;
        let version = version.as_str();
        if is_old(version) {
            let (major, minor) = OLDEST;
            return Err(StoreError::Unfit(format!(
                "Redis {version} is too old: {major}.{minor} or newer is needed, or any Valkey"
            )));
        }
        Ok(())
    }

    /// Notes layout, window and partitions, or compares the first two with what was noted.
    async fn prepare(&mut self) -> Result<(), StoreError> {
        let mut loan = self.link.loan().await?;
        let key = self.noted();
        let ours = [("layout", LAYOUT), ("window_ms", self.settings.window_ms())];
        for (name, value) in ours {
            let mut noted: Option<u64> = loan.connection.hget(&key, name).await?;
            // Nothing is written if it is there, so a node comes up on a full Redis.
            if noted.is_none() {
                let _: bool = loan.connection.hset_nx(&key, name, value).await?;
                noted = loan.connection.hget(&key, name).await?;
            }
            let noted = noted.unwrap_or_default();
            if noted != value {
                return Err(StoreError::Unfit(format!(
                    "the namespace `{}` has {name} {noted}, not {value}: use the same on all nodes",
                    self.settings.namespace
                )));
            }
        }
        drop(loan);
        self.key_partitions = self.count_partitions(false).await?;
        Ok(())
    }

    /// Adds partitions if the namespace has fewer than the settings want.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] and its like.
    pub(crate) async fn grow(&self) -> Result<(), StoreError> {
        self.count_partitions(true).await.map(drop)
    }

    /// Learns how many partitions there are; how many of them keys lead to.
    async fn count_partitions(&self, grow: bool) -> Result<u16, StoreError> {
        let mut call = script!("partitions").key(self.noted());
        call.arg(self.settings.partitions).arg(u8::from(grow));
        let (partitions, key_partitions) = self.call(&call).await?.value;
        self.learn(partitions);
        Ok(key_partitions)
    }

    /// Asks for nothing, the way a job is accepted.
    ///
    /// # Errors
    ///
    /// What a request to accept a job would be refused with.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let mut loan = self.link.loan().await?;
        let mut empty = redis::cmd("EVAL");
        empty.arg("#!lua\nreturn 1").arg(1).arg(self.base(0));
        let _: u64 = empty.query_async(&mut loan.connection).await?;
        Ok(())
    }

    /// Asks the server for its persistence. Managed servers refuse `CONFIG`.
    pub(crate) async fn durability(&self) -> Result<Durability, StoreError> {
        let mut loan = self.link.loan().await?;
        let mut config = async |name: &str| -> Result<String, redis::RedisError> {
            let pair: Vec<String> =
                redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut loan.connection).await?;
            Ok(pair.into_iter().nth(1).unwrap_or_default())
        };
        match config("appendonly").await.map_err(StoreError::from) {
            Ok(answer) if answer == "yes" => {}
            Ok(_) => return Ok(Durability::None),
            Err(StoreError::Away(error)) if error.code() != Some("ERR") => return Err(error.into()),
            Err(StoreError::Denied(error)) if error.code() != Some("NOPERM") => {
                return Err(error.into());
            }
            Err(_) => return Ok(Durability::Unknown),
        }
        Ok(match config("appendfsync").await?.as_str() {
            "always" => Durability::Always,
            _ => Durability::EverySecond,
        })
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
        for old in ["2.8.24", "5.0.14", "6.2.99", "", "x", "of unknown version"] {
            assert!(is_old(old), "{old}");
        }
        for new in ["7.0.0", "7.0.15", "7.4", "8", "10.1.0", "255.255.255"] {
            assert!(!is_old(new), "{new}");
        }
    }
}
