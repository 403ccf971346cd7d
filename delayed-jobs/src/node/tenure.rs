//! What a node knows of one partition, and whether it holds it.

use std::collections::HashMap;
use std::sync::Mutex;
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
    /// Something may be due.
    pub(crate) due: Notify,
}

/// A partition while it is held.
pub(crate) struct Tenure {
    /// As it was granted.
    lease: String,
    /// Counted from when the request for it was sent, so never longer than Redis grants it.
    valid_until: Instant,
    /// Moments in the timer. Several jobs can be due at one.
    armed: HashMap<u64, Key<Moment>>,
    /// Up to here everything that had been there is armed.
    pub(crate) up_to_ms: Option<u64>,
    /// Notices of near jobs that have been seen, and how many there must be at least.
    notices: u64,
    expected: u64,
    /// A notice may have been missed: everything is to be read again.
    pub(crate) gap: bool,
    /// A task is reading.
    pub(crate) reading: bool,
}

impl Partition {
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            tenure: Mutex::new(None),
            due: Notify::new(),
        }
    }

    /// Begins to hold the partition.
    pub(crate) fn begin(&self, lease: String, valid_until: Instant) {
        *lock(&self.tenure) = Some(Tenure {
            lease,
            valid_until,
            armed: HashMap::new(),
            up_to_ms: None,
            notices: 0,
            expected: 0,
            gap: true,
            reading: false,
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
        let tenure = lock(&self.tenure).take();
        for key in tenure
            .into_iter()
            .flat_map(|tenure| tenure.armed.into_values())
        {
            // One that fires meanwhile finds no tenure, or asks Redis in vain.
            let _ = timer.cancel(key);
        }
    }

    /// A moment has come.
    pub(crate) fn expired(&self, due_ms: u64) {
        self.with_any(|tenure| tenure.armed.remove(&due_ms));
        self.due.notify_one();
    }

    /// How many moments are armed.
    pub(crate) fn armed(&self) -> usize {
        self.with_any(|tenure| tenure.armed.len()).unwrap_or(0)
    }

    /// Arms a moment, not before `earliest`.
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
            if tenure.armed.contains_key(&due_ms) {
                return;
            }
            match timer.schedule(clock.instant_of(due_ms).max(earliest), moment) {
                Ok(key) => drop(tenure.armed.insert(due_ms, key)),
                Err(refused) => {
                    tracing::warn!(partition = self.number, "a moment is not armed: {refused}");
                    tenure.gap = true;
                }
            }
        });
    }
}

impl Tenure {
    /// The lease was prolonged; `sent` is when that was asked for.
    pub(crate) fn prolong(&mut self, valid_until: Instant, notices: u64) {
        self.valid_until = valid_until;
        // Notices travel on another connection, so those that were sent by the last renewal must have
        // arrived, and those sent since need not. A server that has forgotten some counts anew.
        if self.notices < self.expected || notices < self.expected {
            self.gap = true;
        }
        self.expected = notices;
    }

    /// A notice has come; whether one is missing.
    pub(crate) fn notice(&mut self, number: u64) -> bool {
        let missed = number > self.notices + 1;
        self.gap |= missed;
        self.notices = number.max(self.notices);
        missed
    }

    /// Everything that was there has been read, after so many notices.
    pub(crate) fn caught_up(&mut self, notices: u64) {
        self.notices = notices;
        self.expected = notices;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn held() -> (Partition, Timer<Moment>) {
        let partition = Partition::new(3);
        partition.begin("1@a".to_owned(), Instant::now() + Duration::from_secs(60));
        let timer = tickwheel::Builder::new()
            .shards(1)
            .build_with(|_| {})
            .unwrap();
        (partition, timer)
    }

    #[test]
    fn a_missing_notice_is_a_gap_and_one_on_its_way_is_not() {
        let (partition, _timer) = held();
        let later = Instant::now() + Duration::from_secs(1);
        let step = |tenure: &mut Tenure| {
            tenure.caught_up(5);
            tenure.gap = false;
            tenure.prolong(later, 7);
            assert!(!tenure.gap, "two notices may still be on their way");
            assert!(!tenure.notice(6) && !tenure.notice(7));
            tenure.prolong(later, 9);
            assert!(!tenure.gap);
            tenure.prolong(later, 9);
            assert!(tenure.gap, "8 and 9 were sent before the last renewal");
            tenure.caught_up(9);
            tenure.gap = false;
            assert!(tenure.notice(11) && tenure.gap, "10 is missing");
        };
        partition.with("1@a", step).unwrap();
        assert!(partition.with("2@a", |_| ()).is_none(), "another tenure");
    }

    #[test]
    fn the_end_of_a_tenure_disarms_its_moments() {
        let (partition, timer) = held();
        let clock = RedisClock::default();
        let far = Instant::now() + Duration::from_secs(50);
        (0..10).for_each(|n| partition.arm(1000 + n % 5, far, &timer, &clock));
        assert_eq!((partition.armed(), timer.pending()), (5, 5));
        partition.end(&timer);
        assert_eq!((partition.armed(), timer.pending()), (0, 0));
        partition.arm(1, far, &timer, &clock);
        assert_eq!(timer.pending(), 0, "without a tenure nothing is armed");
    }
}
