//! Takes what has fired from the streams. What a consumer does not acknowledge in time is given to another
//! one, so a job can arrive twice, with the same id.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, RedisError, Value};

use crate::error::StoreError;
use crate::job::JobId;
use crate::settings::{Settings, millis};
use crate::store::{GROUP, Store};

/// How long one read waits for something new.
const BLOCK: Duration = Duration::from_millis(500);

/// Entries per stream and read.
const BATCH: usize = 64;

/// Distance of tries while Redis does not answer.
const RETRY: Duration = Duration::from_millis(50);

/// A fired job in a consumer's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The job's name, by which a repeated delivery is told.
    pub id: JobId,
    /// What the job carries.
    pub payload: String,
    /// When it was due, in milliseconds since 1970 on the clock of Redis.
    pub due_ms: u64,
    /// When it was handed over, on the same clock.
    pub fired_ms: u64,
    /// Another consumer had it before and has not acknowledged it.
    pub redelivered: bool,
    entry: String,
}

#[cfg(test)]
impl Delivery {
    /// One that has not been in a stream.
    pub(crate) fn of(id: JobId, due_ms: u64, fired_ms: u64) -> Self {
        let (payload, entry) = (String::new(), String::new());
        Self { id, payload, due_ms, fired_ms, redelivered: false, entry }
    }
}

/// One consumer of a namespace.
pub struct Consumer {
    store: Store,
    name: String,
    redeliver_after: Duration,
    connection: Option<MultiplexedConnection>,
    ready: VecDeque<Delivery>,
    next_claim: Instant,
}

impl Consumer {
    /// Connects under a name that no other consumer has. What any consumer has held for longer than
    /// `redeliver_after` is taken over.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`].
    pub async fn connect(
        settings: Settings,
        name: impl Into<String>,
        redeliver_after: Duration,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            store: Store::open(settings).await?,
            name: name.into(),
            redeliver_after,
            connection: None,
            ready: VecDeque::new(),
            next_claim: Instant::now(),
        })
    }

    /// The next job. Waits as long as there is none, and while Redis is away. Dropping the future loses
    /// nothing: what was read and not returned comes again.
    pub async fn next(&mut self) -> Delivery {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return delivery;
            }
            if let Err(error) = self.read().await {
                tracing::debug!("no delivery: {error}");
                self.connection = None;
                if error.code() == Some("NOGROUP") {
                    // The server has lost its memory; errors of this come up in the next round.
                    let _ = self.store.make_groups().await;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Whatever is at hand without waiting, after [`next`](Self::next).
    pub fn more(&mut self) -> Vec<Delivery> {
        self.ready.drain(..).collect()
    }

    /// Ends jobs; how many of them had not been ended before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; what was not acknowledged is delivered again.
    pub async fn acknowledge(&self, deliveries: &[Delivery]) -> Result<u64, StoreError> {
        let mut parts: HashMap<u16, Vec<(String, String)>> = HashMap::new();
        for one in deliveries {
            let part = parts.entry(one.id.partition()).or_default();
            part.push((one.entry.clone(), one.id.to_string()));
        }
        let calls =
            parts.iter().map(|(partition, ended)| self.store.acknowledge(*partition, ended));
        Ok(futures_util::future::try_join_all(calls).await?.iter().sum())
    }

    /// The jobs of the namespace.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    async fn read(&mut self) -> Result<(), RedisError> {
        let mut connection = self.connection().await?;
        if Instant::now() >= self.next_claim {
            self.next_claim = Instant::now() + self.redeliver_after / 2;
            self.claim(&mut connection).await?;
            if !self.ready.is_empty() {
                return Ok(());
            }
        }
        let streams: Vec<String> =
            (0..self.store.settings().partitions).map(|p| self.stream(p)).collect();
        let news = vec![">"; streams.len()];
        let wait = BLOCK.min(self.redeliver_after / 2).max(Duration::from_millis(1));
        let reply: Value = redis::cmd("XREADGROUP")
            .arg("GROUP")
            .arg(GROUP)
            .arg(&self.name)
            .arg("COUNT")
            .arg(BATCH)
            .arg("BLOCK")
            .arg(millis(wait))
            .arg("STREAMS")
            .arg(&streams)
            .arg(news)
            .query_async(&mut connection)
            .await?;
        let Value::Array(streams) = reply else { return Ok(()) };
        for stream in streams {
            let (_, entries): (String, Value) = redis::from_redis_value(stream)?;
            self.take(entries, false)?;
        }
        Ok(())
    }

    /// Takes over what others have held for too long.
    async fn claim(&mut self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        for partition in 0..self.store.settings().partitions {
            let reply: Value = redis::cmd("XAUTOCLAIM")
                .arg(self.stream(partition))
                .arg(GROUP)
                .arg(&self.name)
                .arg(millis(self.redeliver_after))
                .arg("0")
                .arg("COUNT")
                .arg(BATCH)
                .query_async(connection)
                .await?;
            let (_, entries, _): (String, Value, Value) = redis::from_redis_value(reply)?;
            self.take(entries, true)?;
        }
        Ok(())
    }

    fn take(&mut self, entries: Value, redelivered: bool) -> Result<(), RedisError> {
        let entries: Vec<(String, HashMap<String, String>)> = redis::from_redis_value(entries)?;
        for (entry, mut fields) in entries {
            let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
            let id = fields.get("id").and_then(|text| text.parse::<JobId>().ok());
            let (Some(id), Some(due_ms), Some(fired_ms)) = (id, number("due"), number("fired"))
            else {
                tracing::error!(entry, "an entry that no node has written is left alone");
                continue;
            };
            let payload = fields.remove("payload").unwrap_or_default();
            self.ready.push_back(Delivery { id, payload, due_ms, fired_ms, redelivered, entry });
        }
        Ok(())
    }

    fn stream(&self, partition: u16) -> String {
        format!("{}:stream", self.store.base(partition))
    }

    /// A connection of its own, because a read that waits holds all others up.
    async fn connection(&mut self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let patience = self.store.settings().patience;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            .set_response_timeout(Some(BLOCK + patience));
        let client = self.store.link().client();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        // An answer shows that it is a connection to Redis.
        let _: () = connection.ping().await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("name", &self.name).finish_non_exhaustive()
    }
}
