//! Fires what is due in one partition, as long as it is held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::tenure::Partition;
use crate::store::{Fired, Timed};

/// Jobs made ready by one script; Redis does nothing else meanwhile.
const MOST_AT_ONCE: usize = 1000;

/// Distance of tries while Redis does not answer.
const RETRY: Duration = Duration::from_millis(20);

/// Runs for as long as the node does.
pub(super) async fn fire_when_due(shared: Arc<Shared>, number: u16) {
    let partition = &shared.possible[usize::from(number)];
    loop {
        partition.due.notified().await;
        while let Some(lease) = partition.lease() {
            match shared.store.fire(number, &lease, MOST_AT_ONCE).await {
                Ok(Timed { value: Some(fired), sent, received }) => {
                    shared.clock.observe(sent, received, fired.now_us);
                    let ticked = tick(&shared, number, &fired).await;
                    if !note(&shared, partition, &fired) && !ticked {
                        break;
                    }
                }
                Ok(Timed { value: None, .. }) => {
                    tracing::debug!(partition = number, lease, "fenced");
                    shared.metrics.fenced.inc();
                    shared.metrics.leases_lost.inc();
                    shared.news.tell("firing was fenced: other nodes have taken over");
                    if partition.with(&lease, |_| ()).is_some() {
                        partition.end(&shared.timer);
                    }
                    break;
                }
                Err(error) => {
                    shared.metrics.redis_errors.inc();
                    tracing::debug!(partition = number, "firing: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// Makes the next job of each schedule whose moment has passed; whether there was one.
async fn tick(shared: &Shared, number: u16, fired: &Fired) -> bool {
    for one in &fired.passed {
        // One that fails is among those that have passed in the next round.
        if let Err(error) = shared.store.tick(number, one, fired.now_us / 1000).await {
            shared.metrics.redis_errors.inc();
            tracing::debug!(partition = number, schedule = one.0, "no next job: {error}");
            tokio::time::sleep(RETRY).await;
        }
    }
    !fired.passed.is_empty()
}

/// Takes note of what a script has done; whether there is more to do at once.
fn note(shared: &Shared, partition: &Partition, fired: &Fired) -> bool {
    shared.metrics.fired(&fired.lateness_ms);
    let Some(next_ms) = fired.next_ms else { return false };
    let now_ms = fired.now_us / 1000;
    if next_ms <= now_ms {
        return true;
    }
    if fired.lateness_ms.is_empty() {
        shared.metrics.early.inc();
    }
    // Whatever was forgotten on the way, the next moment is never.
    if next_ms - now_ms <= shared.store.settings().window_ms() {
        let earliest = Instant::now() + shared.timer.tick();
        partition.arm(next_ms, earliest, &shared.timer, &shared.clock);
    }
    false
}
