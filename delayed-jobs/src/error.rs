//! What can go wrong between a node and its Redis, and why a command ends without a result.

use redis::{ErrorKind, RedisError};

/// Why a request to the store failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Redis cannot be reached or does not take writes now. Whether the request was carried out is not
    /// known; with an idempotency key it can be repeated.
    #[error("Redis is away: {0}")]
    Away(RedisError),
    /// Redis refuses the user, the password, or a command that the user has no right to. Nothing was done.
    #[error("Redis denies access (rights and passwords: delayed-jobs/README.md): {0}")]
    Denied(RedisError),
    /// Redis has no memory left within `maxmemory`. Nothing was done; jobs that it has still fire and end.
    #[error("Redis is full (raise `maxmemory`): {0}")]
    Full(RedisError),
    /// Redis cannot write to its disk, so it refuses everything until it can. Nothing was done.
    #[error("Redis cannot write to its disk (make room there): {0}")]
    Disk(RedisError),
    /// Too few replicas of Redis answer for its `min-replicas-to-write`, so it refuses everything. Nothing was done.
    #[error("Redis has too few replicas (`min-replicas-to-write`): {0}")]
    Replicas(RedisError),
    /// Redis evicts keys when it is full, so it would lose jobs that were accepted. Nothing was done.
    #[error("Redis evicts keys: set `maxmemory-policy`, which is {0}, to noeviction")]
    Evicts(String),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request, which made the job {0}")]
    KeyReused(String),
    /// There is no such job, or it ended longer ago than the retention.
    #[error("there is no job {0}")]
    Unknown(String),
    /// The server or what it keeps does not fit this program.
    #[error("{0}")]
    Unfit(String),
}

/// An answer of the store.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Names the trouble with Redis, if it is one.
    pub(crate) fn redis_trouble(&self) -> Option<&'static str> {
        match self {
            Self::Away(_) => Some("away"),
            Self::Denied(_) => Some("denied"),
            Self::Full(_) => Some("full"),
            Self::Disk(_) => Some("disk"),
            Self::Replicas(_) => Some("replicas"),
            Self::Evicts(_) => Some("evicts"),
            _ => None,
        }
    }

    /// Whether Redis has not answered in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Away(error) if error.is_timeout())
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        // A script's own error carries the code of the command within it in its text only.
        let text = error.to_string();
        let says = |words: &[&str]| {
            error.code().is_some_and(|code| words.contains(&code))
                || words.iter().any(|word| text.contains(&format!("{word} ")))
        };
        if error.kind() == ErrorKind::AuthenticationFailed
            || says(&["NOAUTH", "WRONGPASS", "NOPERM"])
            || text.contains("user executing the script can't")
        {
            return Self::Denied(error);
        }
        if says(&["OOM"]) {
            return Self::Full(error);
        }
        if says(&["MISCONF"]) {
            return Self::Disk(error);
        }
        if says(&["NOREPLICAS"]) {
            return Self::Replicas(error);
        }
        Self::Away(error)
    }
}

/// Why a command ends without a result. Options that cannot be used are [`StoreError::Unfit`].
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
