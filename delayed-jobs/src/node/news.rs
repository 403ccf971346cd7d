//! Tells the log what happens, in a line for each event.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::error::StoreError;
use crate::units::lock;

/// An event that is no trouble.
pub(super) const ACQUIRED: &str = "partitions acquired";

/// Events since the last line.
#[derive(Default)]
pub(crate) struct News {
    /// How many partitions each has met.
    events: Mutex<BTreeMap<&'static str, u32>>,
    trouble: Mutex<Option<&'static str>>,
}

impl News {
    pub(super) fn tell(&self, event: &'static str) {
        *lock(&self.events).entry(event).or_default() += 1;
    }

    /// Writes the lines.
    pub(super) fn flush(&self) {
        for (event, partitions) in std::mem::take(&mut *lock(&self.events)) {
            match event {
                ACQUIRED => tracing::info!(partitions, "{event}"),
                _ => tracing::warn!(partitions, "{event}"),
            }
        }
    }

    /// Notes how a beat ended, and says so when it changes.
    pub(super) fn redis(&self, error: Option<&StoreError>) {
        let now = error.and_then(StoreError::redis_trouble);
        if std::mem::replace(&mut *lock(&self.trouble), now) != now {
            match (error, now) {
                (Some(error), Some("full" | "evicts")) => {
                    tracing::warn!("no job is accepted until this ends: {error}");
                }
                (Some(error), _) => tracing::warn!("no beat until this ends: {error}"),
                (None, _) => tracing::warn!("Redis answers again"),
            }
        }
    }

    /// Whether Redis had no room for new jobs at the last beat.
    pub(crate) fn is_full(&self) -> bool {
        *lock(&self.trouble) == Some("full")
    }
}
