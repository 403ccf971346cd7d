//! Counts what waits, for the limits on new jobs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Shared;
use crate::units::lock;

/// Distance of counts.
const LOOK: Duration = Duration::from_secs(1);

/// What waits, as it was counted last.
pub(crate) type Fill = Mutex<Counted>;

#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) pending: u64,
    pub(crate) waiting: u64,
    /// Jobs that this node had accepted by then.
    pub(crate) accepted: u64,
}

/// Whether there is room for the job of a schedule.
pub(super) fn has_room(shared: &Shared) -> bool {
    let (settings, counted) = (shared.store.settings(), *lock(&shared.fill));
    settings
        .max_pending
        .is_none_or(|most| counted.pending < most)
        && settings
            .max_waiting
            .is_none_or(|most| counted.waiting < most)
}

/// Counts again and again, for as long as the node runs.
pub(super) async fn watch(shared: Arc<Shared>) {
    loop {
        // Read first: a job that is accepted meanwhile counts twice and not never.
        let accepted = shared.metrics.accepted.get();
        if let Ok(now) = shared.store.overview().await {
            *lock(&shared.fill) = Counted {
                pending: now.pending,
                waiting: now.waiting,
                accepted,
            };
        }
        tokio::time::sleep(LOOK).await;
    }
}
