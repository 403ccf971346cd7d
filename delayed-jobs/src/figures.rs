//! `delayed-jobs figures`: the same work for this program, for a worker that polls the same Redis, and for
//! other libraries where they are installed, one after the other on a fresh Redis each.
//!
//! * `foreign` - programs of other libraries, in processes of their own
//! * `work` - what is asked of all of them, and what is measured

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use self::work::{Arrived, Contestant, Row, Work};
use crate::client::Client;
use crate::consumer::Consumer;
use crate::error::Failure;
use crate::job::{NewJob, When};
use crate::local::{NodeProcess, RedisProcess};
use crate::settings::{Settings, now_us};
use crate::store::Store;

mod foreign;
mod work;

/// What is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct FigureSettings {
    #[command(flatten)]
    work: Work,
    /// Kills of a node
    #[arg(long, default_value = "5", value_name = "N")]
    failovers: usize,
    /// Folder with the programs of other libraries, such as target/peers
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
}

/// How long a consumer may hold a job.
const HOLD: Duration = Duration::from_secs(120);

/// How often the polling worker asks, and how many jobs it takes at a time.
const POLL: Duration = Duration::from_millis(100);
const POLLED: isize = 100;

/// Runs everything and prints a table in Markdown; whether all jobs came and none early.
///
/// # Errors
///
/// No Redis, or a process that the system refuses.
pub(crate) async fn figures(settings: &FigureSettings, program: &Path) -> Result<bool, Failure> {
    let work = settings.work;
    let mut rows = vec![ours(&work, program).await?, ours_over_http(&work, program).await?];
    rows.push(polling(&work).await?);
    if let Some(folder) = &settings.peers {
        rows.extend(foreign::measure(&work, folder).await?);
    }
    println!("{}", work::HEAD);
    rows.iter().for_each(|row| println!("{}", row.line));
    let took = failover(settings.failovers, program).await?;
    println!("\nFailover, {} kills with a lease of 3 s: {took:.3?}", took.len());
    Ok(rows.iter().all(|row| row.is_sound))
}

/// A fresh Redis, a node in a process of its own that holds everything, and their settings.
async fn started(program: &Path) -> Result<(RedisProcess, NodeProcess, Settings), Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let settings = Settings { redis: redis.url(), ..Settings::default() };
    let node = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
    held_by(&Store::open(settings.clone()).await?, 1).await?;
    Ok((redis, node, settings))
}

impl Contestant for Store {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let job = NewJob::new(number.to_string(), When::At(due_ms));
        self.create(job).await.map(drop).map_err(|error| error.to_string())
    }
}

async fn ours(work: &Work, program: &Path) -> Result<Row, Failure> {
    let (_redis, _node, settings) = started(program).await?;
    let store = Store::open(settings.clone()).await?;
    let mut consumer = Consumer::connect(settings, HOLD).await?;
    let consume = |arrived: Arrived| async move {
        loop {
            let batch = consumer.batch().await;
            let now = now_us();
            for number in batch.iter().filter_map(|one| one.payload.parse().ok()) {
                let _ = arrived.send((number, now));
            }
            let _ = consumer.acknowledge(&batch).await;
        }
    };
    work.measure("delayed-jobs, one node", &store, consume).await
}

impl Contestant for Client {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let accepted = self.create(number.into(), When::At(due_ms), None).await;
        accepted.map(drop).map_err(|error| error.to_string())
    }
}

/// The same with a request over HTTP for each job, and one for up to 256 that are taken or acknowledged.
async fn ours_over_http(work: &Work, program: &Path) -> Result<Row, Failure> {
    let (_redis, node, _) = started(program).await?;
    let client = || Client::new(vec![node.address().to_owned()], Duration::from_secs(30));
    let consumer = client()?;
    let consume = |arrived: Arrived| async move {
        loop {
            let taken = consumer.take(256, Duration::from_secs(5), HOLD).await;
            let (batch, now) = (taken.unwrap_or_default(), now_us());
            for number in batch.iter().filter_map(|one| one.payload.as_u64()) {
                let _ = arrived.send((number, now));
            }
            let receipts: Vec<String> = batch.into_iter().map(|one| one.receipt).collect();
            let _ = consumer.acknowledge(&receipts).await;
        }
    };
    work.measure("delayed-jobs over HTTP", &client()?, consume).await
}

impl Contestant for MultiplexedConnection {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let id = format!("{:016x}", fastrand::u64(..));
        let mut both = redis::pipe();
        both.atomic();
        both.hset("polled:payloads", &id, number).ignore();
        both.zadd("polled:due", &id, due_ms).ignore();
        both.query_async::<()>(&mut self.clone()).await.map_err(|error| error.to_string())
    }
}

/// The usual loop: a sorted set, asked again and again for what is due; whoever removes an entry has it.
async fn polling(work: &Work) -> Result<Row, Failure> {
    let server = RedisProcess::start(&[]).await?;
    let connection =
        async || redis::Client::open(server.url())?.get_multiplexed_async_connection().await;
    let (accepts, polls) = (connection().await?, connection().await?);
    work.measure("polling every 100 ms", &accepts, |arrived| poll(polls, arrived)).await
}

async fn poll(
    mut connection: MultiplexedConnection,
    arrived: Arrived,
) -> Result<(), redis::RedisError> {
    loop {
        let now_ms = now_us() / 1000;
        let due: Vec<String> =
            connection.zrangebyscore_limit("polled:due", 0, now_ms, 0, POLLED).await?;
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
        if due.len() as isize != POLLED {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// How long after a kill the other node holds everything.
async fn failover(count: usize, program: &Path) -> Result<Vec<Duration>, Failure> {
    let (_redis, mut stays, settings) = started(program).await?;
    let store = Store::open(settings.clone()).await?;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let new = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
        let mut victim = std::mem::replace(&mut stays, new);
        held_by(&store, 2).await?;
        // At any time between two beats.
        tokio::time::sleep(settings.lease.mul_f64(fastrand::f64())).await;
        victim.kill().await?;
        let start = Instant::now();
        held_by(&store, 1).await?;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// Waits until so many nodes hold all partitions between them.
async fn held_by(store: &Store, nodes: usize) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        let overview = store.overview().await?;
        let mut names: Vec<&str> =
            overview.partitions.iter().map(|one| one.node.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if !names.contains(&"") && names.len() == nodes {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("{nodes} nodes do not share the partitions").into())
}
