//! This program: a node in a process of its own, the consumer here.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::work::{Contestant, Row, Work, now_us};
use crate::client::Client;
use crate::consumer::Consumer;
use crate::failure::Failure;
use crate::job::{NewJob, When};
use crate::local::{NodeProcess, RedisProcess};
use crate::settings::Settings;
use crate::store::Store;

/// The lease that failover is measured with: the default one.
pub(super) const LEASE: Duration = Duration::from_secs(3);

struct Ours(Store);

impl Contestant for Ours {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let when = When::At(due_ms);
        let job = NewJob::new(number.to_string(), when);
        self.0.create(job).await.map(drop).map_err(|error| error.to_string())
    }
}

pub(super) async fn measure(work: &Work, program: &Path) -> Result<Row, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let settings = Settings { redis: redis.url(), ..Settings::default() };
    let _node = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
    let store = Store::open(settings.clone()).await?;
    held_by(&store, 1).await?;
    let mut consumer = Consumer::connect(settings, Duration::from_secs(120)).await?;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let consuming = tokio::spawn(async move {
        loop {
            let mut batch = vec![consumer.next().await];
            batch.extend(consumer.more());
            let now = now_us();
            for one in &batch {
                if let Ok(number) = one.payload.parse() {
                    let _ = arrived.send((number, now));
                }
            }
            let _ = consumer.acknowledge(&batch).await;
        }
    });
    let row = work.measure("delayed-jobs, one node", &Ours(store), &mut arrivals).await;
    consuming.abort();
    row
}

impl Contestant for Client {
    async fn accept(&self, number: u64, due_ms: u64) -> Result<(), String> {
        let accepted = self.create(number.into(), When::At(due_ms), None).await;
        accepted.map(drop).map_err(|error| error.to_string())
    }
}

/// The same with a request over HTTP for each job, and one for up to 256 that are taken or acknowledged.
pub(super) async fn measure_http(work: &Work, program: &Path) -> Result<Row, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let settings = Settings { redis: redis.url(), ..Settings::default() };
    let node = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
    held_by(&Store::open(settings).await?, 1).await?;
    let client = || {
        let client = Client::new(vec![node.address().to_owned()], Duration::from_secs(30));
        client.map_err(|error| Failure::System(error.to_string()))
    };
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let consumer = client()?;
    let consuming = tokio::spawn(async move {
        loop {
            let (wait, hold) = (Duration::from_secs(5), Duration::from_secs(120));
            let Ok(batch) = consumer.take(256, wait, hold).await else { continue };
            let now = now_us();
            for number in batch.iter().filter_map(|one| one.payload.as_u64()) {
                let _ = arrived.send((number, now));
            }
            let receipts: Vec<String> = batch.into_iter().map(|one| one.receipt).collect();
            let _ = consumer.acknowledge(&receipts).await;
        }
    });
    let row = work.measure("delayed-jobs over HTTP", &client()?, &mut arrivals).await;
    consuming.abort();
    row
}

/// How long after a kill the other node holds everything.
pub(super) async fn failover(count: usize, program: &Path) -> Result<Vec<Duration>, Failure> {
    let redis = RedisProcess::start(&[]).await?;
    let settings = Settings { redis: redis.url(), lease: LEASE, ..Settings::default() };
    let store = Store::open(settings.clone()).await?;
    let mut took = Vec::with_capacity(count);
    let mut stays = NodeProcess::start(program, &settings, "127.0.0.1:0").await?;
    for _ in 0..count {
        let mut victim = std::mem::replace(
            &mut stays,
            NodeProcess::start(program, &settings, "127.0.0.1:0").await?,
        );
        held_by(&store, 2).await?;
        // At any time between two beats.
        tokio::time::sleep(LEASE.mul_f64(fastrand::f64())).await;
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
        let free = names.contains(&"");
        names.sort_unstable();
        names.dedup();
        if !free && names.len() == nodes {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(Failure::System(format!("{nodes} nodes do not share the partitions")))
}
