//! Tells the log what happens to partitions: one line for each event, however many partitions it meets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;

/// An event that is no trouble.
pub(super) const ACQUIRED: &str = "partitions acquired";

/// Events since the last line.
#[derive(Default)]
pub(crate) struct News {
    events: Mutex<BTreeMap<&'static str, BTreeSet<u16>>>,
    trouble: Mutex<Option<&'static str>>,
}

impl News {
    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeSet<u16>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, event: &'static str, partition: u16) {
        self.events().entry(event).or_default().insert(partition);
    }

    /// Writes the lines.
    pub(super) fn flush(&self) {
        for (event, partitions) in std::mem::take(&mut *self.events()) {
            let partitions = ranges(&partitions);
            match event {
                ACQUIRED => tracing::info!(partitions, "{event}"),
                _ => tracing::warn!(partitions, "{event}"),
            }
        }
    }

    /// Notes how a beat ended, and says so when it changes.
    pub(super) fn redis(&self, error: Option<&StoreError>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let now = error.and_then(StoreError::redis_trouble);
        if *trouble != now {
            match error {
                Some(error) => tracing::warn!("no beat until this ends: {error}"),
                None => tracing::warn!("Redis answers again"),
            }
            *trouble = now;
        }
    }
}

/// Writes `0-3, 7`.
fn ranges(numbers: &BTreeSet<u16>) -> String {
    let mut text = String::new();
    let mut rest = numbers.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|&next| next == last + 1) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _ = match last == first {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_as_a_range() {
        assert_eq!(ranges(&BTreeSet::from([0, 1, 2, 3, 7, 9, 10])), "0-3, 7, 9-10");
        assert_eq!(ranges(&BTreeSet::from([u16::MAX])), "65535");
    }
}
