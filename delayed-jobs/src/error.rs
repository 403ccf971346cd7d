//! What can go wrong between a node and its Redis.

use redis::RedisError;

/// Why a request to the store failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Redis cannot be reached or does not take writes now. Whether the request was carried out is not
    /// known; with an idempotency key it can be repeated.
    #[error("Redis is away: {0}")]
    Away(RedisError),
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

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        Self::Away(error)
    }
}
