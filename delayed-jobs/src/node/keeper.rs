//! Keeps the leases and fires what is due meanwhile: says that the node lives, prolongs what it holds, takes its share of
//! what is free, and gives back what is more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::news::ACQUIRED;
use super::tenure::Partition;
use super::{Shared, fill};
use crate::store::{Fired, Timed};
use crate::units::{lock, millis};

/// Beats until the node is to end, and fires what is due meanwhile. A beat that has begun is ended.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut firing = JoinSet::new();
    loop {
        let started = Instant::now();
        for partition in &shared.partitions()[firing.len()..] {
            firing.spawn(fire_when_due(Arc::clone(&shared), partition.number));
        }
        let wait = beat(&shared).await;
        shared.news.flush();
        tokio::select! {
            biased;
            () = shared.ending.notified() => return,
            () = tokio::time::sleep(wait.saturating_sub(started.elapsed())) => {}
        }
    }
}

/// One round; how long until the next one.
async fn beat(shared: &Arc<Shared>) -> Duration {
    let pause = shared.store.settings().lease / 3;
    let said = serde_json::to_string(&shared.view()).unwrap_or_default();
    let done = std::mem::take(&mut *lock(&shared.metrics.since_beat));
    let (alive, grown, _) = tokio::join!(
        shared.store.beat(&shared.name, &said, &done),
        shared.store.refresh(),
        join_all(
            shared
                .partitions()
                .iter()
                .map(|partition| renew(shared, partition))
        )
    );
    if matches!(grown, Ok(true)) {
        tracing::info!(partitions = shared.store.partitions(), "partitions added");
        // Those have no task yet: the next beat takes them.
        return Duration::ZERO;
    }
    let alive = match alive {
        Ok(alive) => {
            *lock(&shared.last_reached) = Instant::now();
            // Whether it takes new jobs, no beat shows.
            shared.news.redis(shared.store.probe().await.as_ref().err());
            alive.len().max(1)
        }
        Err(error) => {
            // The next beat says it.
            lock(&shared.metrics.since_beat).add(&done);
            shared.metrics.redis_errors.inc();
            shared.news.redis(Some(&error));
            return pause;
        }
    };
    let share = shared.partitions().len().div_ceil(alive);
    give_back(shared, share).await;
    let soonest = take(shared, share).await;
    prune(shared).await;
    // A lease that nobody prolongs is taken as soon as it ends.
    soonest.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
}

/// Forgets dead jobs that are too old or too many.
async fn prune(shared: &Shared) {
    let settings = shared.store.settings();
    if settings.dead_retention.is_none() && settings.max_dead.is_none() {
        return;
    }
    let held = shared.partitions().iter();
    let held = held.filter(|one| one.lease().is_some());
    join_all(held.map(
        async |partition| match shared.store.prune(partition.number).await {
            Ok(forgotten) => drop(shared.metrics.dead_forgotten.inc_by(forgotten)),
            Err(error) => shared.failed("dead jobs not forgotten", partition.number, &error),
        },
    ))
    .await;
}

async fn renew(shared: &Shared, partition: &Partition) {
    if partition.has_run_out() {
        shared.metrics.leases_lost.inc();
        shared.news.tell("leases have run out");
        partition.end(&shared.timer);
    }
    let Some(lease) = partition.lease() else {
        return;
    };
    match shared.store.renew(partition.number, &lease).await {
        Ok(Timed {
            value: (true, first, now_us, back_ms),
            sent,
            received,
        }) => {
            shared.clock.observe(sent, received, now_us);
            let until = sent + shared.store.settings().lease;
            partition.with(&lease, |tenure| tenure.prolong(until));
            partition.note_prolonged(now_us / 1000);
            if back_ms > 0 {
                shared.news.tell("the clock of Redis was set back");
                let replanned = shared.store.replan(partition.number, now_us / 1000).await;
                if let Err(error) = replanned {
                    shared.failed("schedules are not planned again", partition.number, &error);
                }
                partition.due.notify_one();
            }
            // Also what no notice has told, or what the clock of Redis has passed since it was set.
            match u64::try_from(first) {
                Ok(first) if first <= now_us / 1000 => partition.due.notify_one(),
                Ok(first) => partition.arm(first, Instant::now(), &shared.timer, &shared.clock),
                Err(_) => {}
            }
        }
        Ok(_) => {
            shared.metrics.leases_lost.inc();
            shared.news.tell("other nodes have taken leases over");
            partition.end(&shared.timer);
        }
        Err(error) => shared.failed("not renewed", partition.number, &error),
    }
}

/// Gives back what is above the share, so that others find it free.
async fn give_back(shared: &Shared, share: usize) {
    let held = shared
        .partitions()
        .iter()
        .filter_map(|one| Some((one, one.lease()?)));
    let surplus: Vec<_> = held.skip(share).collect();
    join_all(
        surplus
            .iter()
            .map(|(partition, lease)| release(shared, partition, lease)),
    )
    .await;
}

/// Ends a tenure and says so to Redis, in this order.
pub(super) async fn release(shared: &Shared, partition: &Partition, lease: &str) {
    partition.end(&shared.timer);
    if let Err(error) = shared.store.release(partition.number, lease).await {
        tracing::debug!(partition = partition.number, "not released: {error}");
        shared
            .news
            .tell("leases could not be released, so they run out");
    }
}

/// What Redis keeps of a partition is older than what this node has seen there: a copy was restored.
const RESTORED: &str = "Redis has an earlier state again: jobs made since are gone, and some that ended since come again";

/// Takes free partitions up to the share; how long the first of the others' leases lasts if more are wanted.
async fn take(shared: &Shared, share: usize) -> Option<Duration> {
    let mut held = shared.held();
    let mut soonest = None;
    // Nodes begin at different places, so that they do not all want the same ones.
    let (before, after) = shared
        .partitions()
        .split_at(fastrand::usize(..shared.partitions().len()));
    let mut free = after
        .iter()
        .chain(before)
        .filter(|one| one.lease().is_none());
    while held < share {
        let wanted: Vec<&Partition> = free.by_ref().take(share - held).collect();
        if wanted.is_empty() {
            return soonest.map(Duration::from_millis);
        }
        let asked = wanted.into_iter().map(async |partition| {
            (
                partition,
                shared.store.acquire(partition.number, &shared.name).await,
            )
        });
        let mut unborn = Vec::new();
        for (partition, answer) in join_all(asked).await {
            match answer {
                Ok(Timed {
                    value: (Some(lease), _, is_born, prolonged_ms),
                    sent,
                    ..
                }) => {
                    let lasts_ms = shared.store.settings().lease_ms();
                    if !is_born {
                        unborn.push(partition);
                    } else if prolonged_ms + lasts_ms < partition.prolonged_ms() {
                        shared.news.tell(RESTORED);
                        if let Err(error) = shared.store.note_lost().await {
                            shared.failed("a loss is not noted", partition.number, &error);
                        }
                    }
                    tracing::debug!(partition = partition.number, lease, "acquired");
                    shared.news.tell(ACQUIRED);
                    let _ = shared.wishes.send(partition.number);
                    partition.begin(lease, sent + shared.store.settings().lease);
                    held += 1;
                }
                Ok(Timed {
                    value: (None, left, ..),
                    ..
                }) => {
                    soonest = Some(soonest.map_or(left, |soonest: u64| soonest.min(left)));
                }
                Err(error) => shared.failed("not acquired", partition.number, &error),
            }
        }
        join_all(unborn.into_iter().map(|partition| bear(shared, partition))).await;
    }
    None
}

/// Tells a partition that the namespace has begun. The next holder does it if this fails.
async fn bear(shared: &Shared, partition: &Partition) {
    if let Err(error) = shared.store.settle_birth(partition.number).await {
        shared.failed("a birth is not told", partition.number, &error);
    }
}

/// Distance of tries while Redis does not answer.
const RETRY: Duration = Duration::from_millis(20);

/// Runs for as long as the node does.
async fn fire_when_due(shared: Arc<Shared>, number: u16) {
    let partition = &shared.possible[usize::from(number)];
    loop {
        partition.due.notified().await;
        while let Some(lease) = partition.lease() {
            match shared.store.fire(number, &lease).await {
                Ok(Timed {
                    value: Some(fired),
                    sent,
                    received,
                }) => {
                    shared.clock.observe(sent, received, fired.now_us);
                    let ticked = tick(&shared, partition, &fired).await;
                    if !note(&shared, partition, &fired) && !ticked {
                        break;
                    }
                }
                Ok(Timed { value: None, .. }) => {
                    tracing::debug!(partition = number, lease, "fenced");
                    shared.metrics.fenced.inc();
                    shared.metrics.leases_lost.inc();
                    shared
                        .news
                        .tell("firing was fenced: other nodes have taken over");
                    if partition.with(&lease, |_| ()).is_some() {
                        partition.end(&shared.timer);
                    }
                    break;
                }
                Err(error) => {
                    shared.failed("firing", number, &error);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// Distance of tries to make the job of a schedule that has no room, or that Redis refuses.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Makes the job of each schedule whose moment has passed; whether there was one.
async fn tick(shared: &Shared, partition: &Partition, fired: &Fired) -> bool {
    let now_ms = fired.now_us / 1000;
    let (mut ticked, mut again) = (false, false);
    for one in &fired.passed {
        if !fill::has_room(shared) {
            again = true;
            break;
        }
        match shared.store.tick(partition.number, one, now_ms).await {
            Ok(()) => ticked = true,
            Err(error) => {
                again = true;
                shared.failed(&format!("no job of {}", one.0), partition.number, &error);
            }
        }
    }
    if again {
        let at = now_ms + millis(NO_ROOM);
        partition.arm(at, Instant::now(), &shared.timer, &shared.clock);
    }
    ticked
}

/// Takes note of what a script has done; whether there is more to do at once.
fn note(shared: &Shared, partition: &Partition, fired: &Fired) -> bool {
    shared.metrics.fired(&fired.lateness_ms);
    shared.metrics.died.inc_by(fired.died);
    let Some(next_ms) = fired.next_ms else {
        return false;
    };
    let now_ms = fired.now_us / 1000;
    if next_ms <= now_ms {
        return true;
    }
    if fired.lateness_ms.is_empty() && fired.passed.is_empty() {
        shared.metrics.early.inc();
    }
    let earliest = Instant::now() + shared.timer.tick();
    partition.arm(next_ms, earliest, &shared.timer, &shared.clock);
    false
}
