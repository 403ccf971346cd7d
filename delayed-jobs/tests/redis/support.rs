//! What all of these tests begin with.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayed_jobs::local::{NodeProcess, RedisProcess};
use delayed_jobs::{Consumer, Delivery, JobId, NewJob, Settings, Store, When};

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) async fn redis() -> RedisProcess {
    RedisProcess::start(&[]).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Short leases, few partitions.
pub(crate) fn settings(redis: &RedisProcess) -> Settings {
    settings_of(redis.url())
}

pub(crate) fn settings_of(redis: String) -> Settings {
    Settings { redis, partitions: 4, lease: 900 * MS, patience: 300 * MS, ..Settings::default() }
}

pub(crate) async fn node(settings: &Settings) -> NodeProcess {
    let program = Path::new(env!("CARGO_BIN_EXE_delayed-jobs"));
    NodeProcess::start(program, settings, "127.0.0.1:0").await.unwrap()
}

pub(crate) fn job(payload: &str, delay: Duration) -> NewJob {
    NewJob::new(payload, When::After(delay))
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Accepts so many jobs, due within `within` from now.
pub(crate) async fn fill(store: &Store, count: usize, within: Duration) -> Vec<JobId> {
    let mut ids = Vec::with_capacity(count);
    for n in 0..count {
        let delay = within * u32::try_from(n).unwrap() / u32::try_from(count).unwrap();
        ids.push(store.create(job(&format!("job {n}"), delay)).await.unwrap().id);
    }
    ids
}

pub(crate) async fn consumer(settings: &Settings) -> Consumer {
    Consumer::connect(settings.clone(), 60_000 * MS).await.unwrap()
}

/// Takes and acknowledges until every job has come; panics if one has not by then, or comes early.
pub(crate) async fn collect(
    consumer: &mut Consumer,
    ids: &[JobId],
    limit: Duration,
) -> HashMap<JobId, Vec<Delivery>> {
    let end = Instant::now() + limit;
    let mut got: HashMap<JobId, Vec<Delivery>> = HashMap::new();
    while !ids.iter().all(|id| got.contains_key(id)) {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(one) = tokio::time::timeout(left, consumer.next()).await else {
            let missing = ids.iter().filter(|id| !got.contains_key(*id));
            panic!("{} of {} jobs have not come", missing.count(), ids.len());
        };
        let mut batch = vec![one];
        batch.extend(consumer.more());
        for one in &batch {
            assert!(one.fired_ms >= one.due_ms && now_ms() >= one.due_ms, "early: {one:?}");
        }
        consumer.acknowledge(&batch).await.unwrap();
        for one in batch {
            got.entry(one.id.clone()).or_default().push(one);
        }
    }
    got
}

/// Waits until something is so; panics if it is not by then.
pub(crate) async fn until<F: Future<Output = bool>>(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> F,
) -> Duration {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < limit, "not so after {limit:?}: {what}");
        tokio::time::sleep(5 * MS).await;
    }
    start.elapsed()
}

/// The nodes that hold partitions, with how many each.
pub(crate) async fn holders(store: &Store) -> HashMap<String, usize> {
    let mut holders = HashMap::new();
    if let Ok(overview) = store.overview().await {
        for one in overview.partitions.into_iter().filter(|one| !one.node.is_empty()) {
            *holders.entry(one.node).or_default() += 1;
        }
    }
    holders
}

/// Waits until all partitions are held by exactly so many nodes.
pub(crate) async fn shared_by(store: &Store, nodes: usize) {
    let partitions = usize::from(store.partitions());
    until(&format!("{nodes} nodes hold all partitions"), 10_000 * MS, || async {
        let holders = holders(store).await;
        holders.len() == nodes && holders.values().sum::<usize>() == partitions
    })
    .await;
}
