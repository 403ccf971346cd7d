//! The usual loop: a sorted set, asked again and again for what is due; whoever removes an entry has it.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use super::work::{Contestant, Row, Work, now_us};
use crate::failure::Failure;
use crate::local::RedisProcess;

/// Jobs taken at a time.
const BATCH: isize = 100;

struct Polled(MultiplexedConnection);

impl Contestant for Polled {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let id = format!("{:016x}", fastrand::u64(..));
        let mut both = redis::pipe();
        both.atomic();
        both.hset("polled:payloads", &id, number).ignore();
        both.zadd("polled:due", &id, due_ms).ignore();
        let mut connection = self.0.clone();
        both.query_async::<()>(&mut connection).await.map_err(|error| error.to_string())
    }
}

pub(super) async fn measure(work: &Work, pause: Duration) -> Result<Row, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let connection = connect(&redis).await?;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let polling = tokio::spawn(poll(connect(&redis).await?, pause, arrived));
    let name = format!("polling every {} ms", pause.as_millis());
    let row = work.measure(&name, &Polled(connection), &mut arrivals).await;
    polling.abort();
    row
}

async fn connect(redis: &RedisProcess) -> Result<MultiplexedConnection, Failure> {
    let failed = |error: redis::RedisError| Failure::System(error.to_string());
    let client = redis::Client::open(redis.url()).map_err(failed)?;
    client.get_multiplexed_async_connection().await.map_err(failed)
}

async fn poll(
    mut connection: MultiplexedConnection,
    pause: Duration,
    arrived: mpsc::UnboundedSender<(u64, u64)>,
) -> Result<(), redis::RedisError> {
    loop {
        let now_ms = now_us() / 1000;
        let due: Vec<String> =
            connection.zrangebyscore_limit("polled:due", 0, now_ms, 0, BATCH).await?;
        let full = due.len() as isize == BATCH;
        if !due.is_empty() {
            // In one round trip each, as a worker that has been tuned does.
            let mut take = redis::pipe();
            for id in &due {
                take.zrem("polled:due", id);
            }
            let taken: Vec<u8> = take.query_async(&mut connection).await?;
            let mine: Vec<&String> =
                due.iter().zip(taken).filter(|(_, taken)| *taken == 1).map(|(id, _)| id).collect();
            let payloads: Vec<u64> = connection.hmget("polled:payloads", &mine).await?;
            let now = now_us();
            for number in payloads {
                let _ = arrived.send((number, now));
            }
            let _: () = connection.hdel("polled:payloads", &mine).await?;
        }
        if !full {
            tokio::time::sleep(pause).await;
        }
    }
}
