//! What a node knows of one partition, and whether it holds it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tickwheel::{Key, Timer};
use tokio::sync::Notify;

use super::clock::RedisClock;
use crate::units::lock;

/// A moment at which something is due in a partition. What it is, Redis knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) partition: u16,
    pub(crate) due_ms: u64,
}

/// One partition as a node sees it.
pub(crate) struct Partition {
    pub(crate) number: u16,
    tenure: Mutex<Option<Tenure>>,
    /// When this node prolonged a lease of it last, on the clock of Redis.
    prolonged_ms: AtomicU64,
    /// Something may be due.
    pub(crate) due: Notify,
}

/// A partition while it is held.
pub(crate) struct Tenure {
    /// As it was granted.
    lease: String,
    /// Counted from when the request for it was sent, so never longer than Redis grants it.
    valid_until: Instant,
    /// The first moment at which something is due, in the timer.
    armed: Option<(u64, Key<Moment>)>,
}

impl Partition {
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            tenure: Mutex::new(None),
            prolonged_ms: AtomicU64::new(0),
            due: Notify::new(),
        }
    }

    /// Begins to hold the partition.
    pub(crate) fn begin(&self, lease: String, valid_until: Instant) {
        *lock(&self.tenure) = Some(Tenure {
            lease,
            valid_until,
            armed: None,
        });
        self.due.notify_one();
    }

    /// The lease, if there is one and it has not run out.
    pub(crate) fn lease(&self) -> Option<String> {
        let held = lock(&self.tenure);
        let valid = held
            .as_ref()
            .filter(|tenure| Instant::now() < tenure.valid_until);
        valid.map(|tenure| tenure.lease.clone())
    }

    pub(crate) fn prolonged_ms(&self) -> u64 {
        // ORDERING: Relaxed, here and below, because the node's one task of leases alone uses it.
        self.prolonged_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn note_prolonged(&self, now_ms: u64) {
        self.prolonged_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether a lease was granted and has run out by now.
    pub(crate) fn has_run_out(&self) -> bool {
        lock(&self.tenure)
            .as_ref()
            .is_some_and(|tenure| Instant::now() >= tenure.valid_until)
    }

    /// Does something with the tenure that has this lease, if it still stands.
    pub(crate) fn with<R>(&self, lease: &str, act: impl FnOnce(&mut Tenure) -> R) -> Option<R> {
        lock(&self.tenure)
            .as_mut()
            .filter(|tenure| tenure.lease == lease)
            .map(act)
    }

    /// Does something with the tenure, if there is one.
    pub(crate) fn with_any<R>(&self, act: impl FnOnce(&mut Tenure) -> R) -> Option<R> {
        lock(&self.tenure).as_mut().map(act)
    }

    /// Holds the partition no more.
    pub(crate) fn end(&self, timer: &Timer<Moment>) {
        let armed = lock(&self.tenure).take().and_then(|tenure| tenure.armed);
        if let Some((_, key)) = armed {
            // One that fires meanwhile finds no tenure, or asks Redis in vain.
            let _ = timer.cancel(key);
        }
    }

    /// A moment has come.
    pub(crate) fn expired(&self, due_ms: u64) {
        self.with_any(|tenure| tenure.armed.take_if(|(at, _)| *at == due_ms));
        self.due.notify_one();
    }

    /// Whether a moment is armed, as a number.
    pub(crate) fn armed(&self) -> usize {
        usize::from(
            self.with_any(|tenure| tenure.armed.is_some())
                .unwrap_or(false),
        )
    }

    /// Arms a moment, not before `earliest`, unless an earlier one is.
    pub(crate) fn arm(
        &self,
        due_ms: u64,
        earliest: Instant,
        timer: &Timer<Moment>,
        clock: &RedisClock,
    ) {
        let moment = Moment {
            partition: self.number,
            due_ms,
        };
        self.with_any(|tenure| {
            if let Some((_, later)) = match tenure.armed {
                Some((at, _)) if at <= due_ms => return,
                _ => tenure.armed.take(),
            } {
                let _ = timer.cancel(later);
            }
            match timer.schedule(clock.instant_of(due_ms).max(earliest), moment) {
                Ok(key) => tenure.armed = Some((due_ms, key)),
                // The next renewal names it again.
                Err(refused) => {
                    tracing::warn!(partition = self.number, "a moment is not armed: {refused}")
                }
            }
        });
    }
}

impl Tenure {
    /// The lease was prolonged; `sent` is when that was asked for.
    pub(crate) fn prolong(&mut self, valid_until: Instant) {
        self.valid_until = valid_until;
    }
}
