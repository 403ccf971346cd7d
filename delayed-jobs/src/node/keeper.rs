//! Keeps the leases: says that the node lives, prolongs what it holds, takes its share of what is free,
//! gives back what is more, and has the window read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::Shared;
use super::firing::fire_when_due;
use super::news::ACQUIRED;
use super::tenure::Partition;
use super::window;
use crate::settings::lock;
use crate::store::Timed;

/// Beats for as long as the node runs, and fires what is due meanwhile.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut firing = JoinSet::new();
    loop {
        let started = Instant::now();
        for partition in &shared.partitions()[firing.len()..] {
            firing.spawn(fire_when_due(Arc::clone(&shared), partition.number));
        }
        let wait = beat(&shared).await;
        shared.news.flush();
        tokio::time::sleep(wait.saturating_sub(started.elapsed())).await;
    }
}

/// One round; how long until the next one.
async fn beat(shared: &Arc<Shared>) -> Duration {
    let pause = shared.store.settings().lease / 3;
    let said = serde_json::to_string(&shared.view()).unwrap_or_default();
    let (alive, grown, ()) = tokio::join!(
        shared.store.beat(&shared.name, &said),
        shared.store.refresh(),
        renew_all(shared)
    );
    if matches!(grown, Ok(true)) {
        tracing::info!(partitions = shared.store.partitions(), "partitions added");
        // Those have no task yet: the next beat takes them.
        return Duration::ZERO;
    }
    let alive = match alive {
        Ok(alive) => {
            *lock(&shared.last_reached) = Instant::now();
            shared.news.redis(None);
            alive.len().max(1)
        }
        Err(error) => {
            shared.metrics.redis_errors.inc();
            shared.news.redis(Some(&error));
            return pause;
        }
    };
    let share = shared.partitions().len().div_ceil(alive);
    give_back(shared, share).await;
    let soonest = take(shared, share).await;
    for partition in shared.partitions() {
        window::read_if_needed(shared, partition);
    }
    // A lease that nobody prolongs is taken as soon as it ends.
    soonest.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
}

async fn renew_all(shared: &Shared) {
    join_all(shared.partitions().iter().map(|partition| renew(shared, partition))).await;
}

async fn renew(shared: &Shared, partition: &Partition) {
    if partition.has_run_out() {
        shared.metrics.leases_lost.inc();
        shared.news.tell("leases have run out");
        partition.end(&shared.timer);
    }
    let Some(lease) = partition.lease() else { return };
    match shared.store.renew(partition.number, &lease).await {
        Ok(Timed { value: (true, notices, now_us), sent, received }) => {
            shared.clock.observe(sent, received, now_us);
            let until = sent + shared.store.settings().lease;
            partition.with(&lease, |tenure| tenure.prolong(until, notices));
        }
        Ok(_) => {
            shared.metrics.leases_lost.inc();
            shared.news.tell("other nodes have taken leases over");
            partition.end(&shared.timer);
        }
        Err(error) => {
            shared.metrics.redis_errors.inc();
            tracing::debug!(partition = partition.number, "not renewed: {error}");
        }
    }
}

/// Gives back what is above the share, so that others find it free.
async fn give_back(shared: &Shared, share: usize) {
    let held = shared.partitions().iter().filter_map(|one| Some((one, one.lease()?)));
    let surplus: Vec<_> = held.skip(share).collect();
    join_all(surplus.iter().map(|(partition, lease)| release(shared, partition, lease))).await;
}

/// Ends a tenure and says so to Redis, in this order.
pub(super) async fn release(shared: &Shared, partition: &Partition, lease: &str) {
    partition.end(&shared.timer);
    if let Err(error) = shared.store.release(partition.number, lease).await {
        tracing::debug!(partition = partition.number, "not released: {error}");
        shared.news.tell("leases could not be released, so they run out");
    }
}

/// Takes free partitions up to the share; how long the first of the others' leases lasts if more are wanted.
async fn take(shared: &Shared, share: usize) -> Option<Duration> {
    let mut held = shared.held();
    let mut soonest = None;
    // Nodes begin at different places, so that they do not all want the same ones.
    let (before, after) =
        shared.partitions().split_at(fastrand::usize(..shared.partitions().len()));
    let mut free = after.iter().chain(before).filter(|one| one.lease().is_none());
    while held < share {
        let wanted: Vec<&Partition> = free.by_ref().take(share - held).collect();
        if wanted.is_empty() {
            return soonest.map(Duration::from_millis);
        }
        let asked = wanted.into_iter().map(async |partition| {
            (partition, shared.store.acquire(partition.number, &shared.name).await)
        });
        for (partition, answer) in join_all(asked).await {
            match answer {
                Ok(Timed { value: (Some(lease), _), sent, .. }) => {
                    tracing::debug!(partition = partition.number, lease, "acquired");
                    shared.news.tell(ACQUIRED);
                    partition.begin(lease, sent + shared.store.settings().lease);
                    held += 1;
                }
                Ok(Timed { value: (None, left), .. }) => {
                    soonest = Some(soonest.map_or(left, |soonest: u64| soonest.min(left)));
                }
                Err(error) => {
                    tracing::debug!(partition = partition.number, "not acquired: {error}");
                }
            }
        }
    }
    None
}
