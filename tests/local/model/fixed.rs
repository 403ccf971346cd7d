//! `FixedTimer` against a plain list in the order of deadlines.

use super::ops::{Op, ops};
use proptest::prelude::*;
use std::time::Duration;
use tickwheel::{Budget, FixedTimer, Key, Time};

struct Checked {
    timer: FixedTimer<u64>,
    /// In the order in which they fire: key, deadline, payload.
    model: Vec<(Key<u64>, Time, u64)>,
    keys: Vec<Key<u64>>,
    now: Time,
    next_payload: u64,
    last: Time,
    /// The last poll left something that is due.
    cut_short: bool,
}

impl Checked {
    fn place(&self, key: Key<u64>) -> Option<usize> {
        self.model.iter().position(|entry| entry.0 == key)
    }

    fn pick(&self, pick: usize) -> Option<Key<u64>> {
        (!self.keys.is_empty()).then(|| self.keys[pick % self.keys.len()])
    }

    fn deadline(&mut self, now: Time) -> Time {
        self.last = self.last.max(now + self.timer.delay());
        self.last
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Schedule { .. } => self.schedule(self.now),
            // A clock that goes back makes timers late, not early.
            Op::ScheduleAt { by, .. } => {
                self.schedule(Time::from_nanos(self.now.as_nanos().saturating_sub(by)));
            }
            Op::Cancel { pick } => {
                let Some(key) = self.pick(pick) else { return };
                let expected = self.place(key).map(|place| self.model.remove(place).2);
                assert_eq!(self.timer.cancel(key).payload(), expected);
            }
            Op::Reschedule { pick, .. } | Op::RescheduleAt { pick, .. } => {
                let Some(key) = self.pick(pick) else { return };
                let place = self.place(key);
                assert_eq!(self.timer.reschedule(self.now, key).moved(), place.is_some());
                if let Some(place) = place {
                    let payload = self.model.remove(place).2;
                    let deadline = self.deadline(self.now);
                    self.model.push((key, deadline, payload));
                }
            }
            Op::Change { pick } => {
                let Some(key) = self.pick(pick) else { return };
                let place = self.place(key);
                assert_eq!(self.timer.get_mut(key).is_some(), place.is_some());
                if let Some((payload, place)) = self.timer.get_mut(key).zip(place) {
                    *payload += 1_000_000;
                    self.model[place].2 += 1_000_000;
                }
            }
            Op::Pass { nanos } => self.now = self.now + Duration::from_nanos(nanos),
            Op::Poll { budget } => self.poll(budget),
            Op::PollNext => {
                if let Some(next) = self.timer.next_deadline() {
                    self.now = self.now.max(next);
                    self.poll(usize::MAX);
                }
            }
            Op::Clear => {
                self.timer.clear();
                self.model.clear();
                self.cut_short = false;
            }
            Op::Drain { take } => {
                for unfired in self.timer.drain().take(take) {
                    let expected = self.model.iter().find(|entry| entry.0 == unfired.key);
                    let unfired = (unfired.key, unfired.deadline, unfired.payload);
                    assert_eq!(expected, Some(&unfired));
                }
                self.model.clear();
                self.cut_short = false;
            }
        }
        self.check();
    }

    fn schedule(&mut self, now: Time) {
        let key = self.timer.schedule(now, self.next_payload).unwrap();
        assert!(!self.keys.contains(&key));
        self.keys.push(key);
        let deadline = self.deadline(now);
        self.model.push((key, deadline, self.next_payload));
        self.next_payload += 1;
    }

    fn poll(&mut self, budget: usize) {
        let now = self.now;
        let mut fired = Vec::new();
        self.timer.set_budget(Budget { fire: budget, ..Budget::default() });
        let polled = self.timer.poll(now, |expired| {
            assert_eq!(expired.lateness, now - expired.deadline);
            fired.push((expired.key, expired.deadline, expired.payload));
        });
        assert!(fired.len() == polled.fired && fired.len() <= budget);
        let expected: Vec<_> = self.model.drain(..fired.len()).collect();
        assert_eq!(fired, expected);
        assert!(fired.iter().all(|entry| entry.1 <= now), "never early");
        let left = self.model.iter().filter(|entry| entry.1 <= now && entry.1 < Time::MAX).count();
        assert!(polled.more || left == 0);
        assert!(budget < usize::MAX || left == 0);
        self.cut_short = polled.more;
    }

    fn check(&self) {
        let timer = &self.timer;
        assert_eq!(timer.pending(), self.model.len());
        let earliest = self.model.first().map(|entry| entry.1).filter(|time| *time < Time::MAX);
        if self.cut_short {
            assert!(
                timer
                    .next_deadline()
                    .is_none_or(|next| Some(next) <= earliest || earliest.is_none())
            );
        } else {
            assert_eq!(timer.next_deadline(), earliest);
        }
        for key in &self.keys {
            let entry = self.place(*key).map(|place| &self.model[place]);
            assert_eq!(timer.get(*key), entry.map(|entry| &entry.2));
            assert_eq!(timer.deadline(*key), entry.map(|entry| entry.1));
            assert_eq!(timer.is_pending(*key), entry.is_some());
        }
        let mut listed: Vec<_> =
            timer.iter().map(|(key, at, payload)| (key, at, *payload)).collect();
        let mut expected = self.model.clone();
        listed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(listed, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_queue_does_what_the_model_does(
        ops in ops(), delay in prop_oneof![0..3_u64, 0..10_000_000_000_u64, Just(u64::MAX)],
    ) {
        let mut checked = Checked {
            timer: FixedTimer::new(Duration::from_nanos(delay)),
            model: Vec::new(),
            keys: Vec::new(),
            now: Time::ZERO,
            next_payload: 0,
            last: Time::ZERO,
            cut_short: false,
        };
        for op in ops {
            checked.apply(op);
        }
        while let Some(next) = checked.timer.next_deadline() {
            checked.now = checked.now.max(next);
            checked.poll(3);
        }
        assert!(checked.model.iter().all(|entry| entry.1 == Time::MAX));
    }
}
