//! `LocalTimer` against a list that is searched from end to end.

use super::ops::{Op, ops};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tickwheel::{Cancel, Key, LocalTimer, ScheduleErrorKind, Time, WheelKind};

const TICK_NS: u64 = 1_000_000;
const LIMIT: usize = 60;

/// What the model knows of a pending timer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    deadline: u64,
    payload: u64,
}

/// A timer whose every answer is compared.
struct Checked {
    timer: LocalTimer<u64>,
    model: HashMap<Key<u64>, Pending>,
    keys: Vec<Key<u64>>,
    now: u64,
    /// The tick of the latest poll: what is overdue fires at that at the earliest.
    polled: u64,
    /// The time of the latest poll: a deadline that had passed then is due at once.
    latest: u64,
    next_payload: u64,
    /// No timer has been cancelled, moved or taken out: the next deadline must be exact.
    exact: bool,
    /// The last poll left something that is due.
    cut_short: bool,
}

/// The tick of a deadline in nanoseconds; `None` stands for never.
fn tick_of(now: u64, at: u64) -> u64 {
    if at <= now {
        at.div_ceil(TICK_NS).min(now / TICK_NS)
    } else if at == u64::MAX {
        u64::MAX
    } else {
        at.div_ceil(TICK_NS)
    }
}

fn start_of(tick: u64) -> Time {
    Time::from_nanos(tick.saturating_mul(TICK_NS))
}

impl Checked {
    fn new(wheel: WheelKind) -> Self {
        let timer = LocalTimer::builder().wheel(wheel).max_pending(LIMIT).build().unwrap();
        Self {
            timer,
            model: HashMap::new(),
            keys: Vec::new(),
            now: 0,
            polled: 0,
            latest: 0,
            next_payload: 0,
            exact: true,
            cut_short: false,
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn pick(&self, pick: usize) -> Option<Key<u64>> {
        (!self.keys.is_empty()).then(|| self.keys[pick % self.keys.len()])
    }

    fn near(&self, ago: bool, by: u64) -> u64 {
        if ago { self.now.saturating_sub(by) } else { self.now.saturating_add(by) }
    }

    fn scheduled(
        &mut self,
        result: Result<Key<u64>, tickwheel::ScheduleError<u64>>,
        deadline: u64,
    ) {
        let payload = self.next_payload;
        self.next_payload += 1;
        match result {
            Ok(key) => {
                assert!(self.model.len() < LIMIT, "accepted above the limit");
                assert!(!self.keys.contains(&key), "{key:?} was handed out before");
                self.keys.push(key);
                self.model.insert(key, Pending { deadline, payload });
            }
            Err(error) => {
                let pending = self.model.len();
                let kind = ScheduleErrorKind::TooManyPending { pending, max_pending: LIMIT };
                assert_eq!((error.kind(), pending), (&kind, LIMIT));
                assert_eq!(error.into_payload(), payload);
            }
        }
    }

    fn apply(&mut self, op: Op) {
        let now = self.time();
        match op {
            Op::Schedule { delay } => {
                let delay_ns = Duration::from_nanos(delay);
                let result = self.timer.schedule(now, delay_ns, self.next_payload);
                self.scheduled(result, tick_of(self.now, self.now.saturating_add(delay)));
            }
            Op::ScheduleAt { ago, by } => {
                let at = self.near(ago, by);
                let result =
                    self.timer.schedule(Time::ZERO, Time::from_nanos(at), self.next_payload);
                self.scheduled(result, tick_of(self.latest, at));
            }
            Op::Cancel { pick } => self.cancel(pick),
            Op::Reschedule { pick, delay } => {
                let Some(key) = self.pick(pick) else { return };
                let moved = self.timer.reschedule(now, key, Duration::from_nanos(delay)).moved();
                self.moved(key, moved, tick_of(self.now, self.now.saturating_add(delay)));
            }
            Op::RescheduleAt { pick, ago, by } => {
                let Some(key) = self.pick(pick) else { return };
                let at = self.near(ago, by);
                let moved = self.timer.reschedule(Time::ZERO, key, Time::from_nanos(at)).moved();
                self.moved(key, moved, tick_of(self.latest, at));
            }
            Op::Change { pick } => {
                let Some(key) = self.pick(pick) else { return };
                let expected = self.model.get_mut(&key).map(|pending| &mut pending.payload);
                let found = self.timer.get_mut(key);
                assert_eq!(found, expected);
                if let (Some(found), Some(expected)) = (found, expected) {
                    (*found, *expected) = (*found + 1_000_000, *expected + 1_000_000);
                }
            }
            Op::Pass { nanos } => self.now = self.now.saturating_add(nanos),
            Op::Poll { budget } => self.poll(budget),
            Op::PollNext => {
                if let Some(next) = self.timer.next_deadline() {
                    self.now = self.now.max(next.as_nanos());
                    self.poll(usize::MAX);
                }
            }
            Op::Clear => {
                self.timer.clear();
                self.model.clear();
                (self.exact, self.cut_short) = (true, false);
            }
            Op::Drain { take } => {
                for unfired in self.timer.drain().take(take) {
                    let pending = self.model.remove(&unfired.key).expect("was pending");
                    assert_eq!(unfired.payload, pending.payload);
                    assert_eq!(unfired.deadline, start_of(pending.deadline));
                }
                // The rest went with the iterator.
                self.model.clear();
                (self.exact, self.cut_short) = (true, false);
            }
        }
        self.check();
    }

    fn cancel(&mut self, pick: usize) {
        let Some(key) = self.pick(pick) else { return };
        match (self.timer.cancel(key), self.model.remove(&key)) {
            (Cancel::Won(payload), Some(pending)) => {
                assert_eq!(payload, pending.payload);
                self.exact = false;
            }
            (Cancel::Lost, None) => {}
            (answer, expected) => panic!("{key:?}: {answer:?}, expected {expected:?}"),
        }
    }

    fn moved(&mut self, key: Key<u64>, moved: bool, deadline: u64) {
        assert_eq!(moved, self.model.contains_key(&key));
        if let Some(pending) = self.model.get_mut(&key) {
            pending.deadline = deadline;
            self.exact = false;
        }
    }

    fn poll(&mut self, budget: usize) {
        let before = self.polled;
        self.polled = before.max(self.now / TICK_NS);
        self.latest = self.latest.max(self.now);
        let due: HashSet<Key<u64>> = self.due().collect();
        let mut fired = Vec::new();
        let polled = self.timer.poll(self.time(), budget, |expired| fired.push(expired));
        assert_eq!(polled.fired, fired.len());
        assert!(fired.len() <= budget, "above the budget");
        let mut last = 0;
        for expired in fired {
            assert!(due.contains(&expired.key), "{:?} was not due", expired.key);
            let pending = self.model.remove(&expired.key).expect("fires once");
            assert_eq!(expired.payload, pending.payload);
            assert_eq!(expired.deadline, start_of(pending.deadline));
            assert_eq!(expired.lateness, self.time() - expired.deadline);
            // What was overdue already when it was scheduled comes first; the rest follows the deadlines.
            let effective = pending.deadline.max(before);
            assert!(effective >= last || !self.exact, "deadlines are fired in order");
            last = effective;
        }
        let left = self.due().count();
        assert!(polled.more || left == 0, "{left} are due and nobody says so");
        assert!(budget < usize::MAX || left == 0, "an unlimited poll leaves nothing");
        self.cut_short = polled.more;
    }

    fn due(&self) -> impl Iterator<Item = Key<u64>> {
        self.model.iter().filter(|(_, timer)| timer.deadline <= self.polled).map(|(key, _)| *key)
    }

    fn check(&self) {
        let timer = &self.timer;
        assert_eq!((timer.len(), timer.is_empty()), (self.model.len(), self.model.is_empty()));
        let earliest = self.model.values().map(|timer| timer.deadline).min().map(start_of);
        let next = timer.next_deadline();
        match (next, earliest) {
            (None, None | Some(Time::MAX)) => {}
            (Some(next), Some(earliest)) => {
                assert!(next <= earliest, "{next:?} is later than {earliest:?}");
                let exact = self.exact && !self.cut_short;
                assert!(!exact || next == earliest, "{next:?} is not {earliest:?}");
            }
            (next, earliest) => panic!("next {next:?}, but {earliest:?} is the earliest"),
        }
        assert_eq!(timer.poll_timeout(self.time()), next.map(|next| next - self.time()));
        for key in &self.keys {
            let pending = self.model.get(key);
            assert_eq!(timer.get(*key), pending.map(|pending| &pending.payload));
            assert_eq!(timer.deadline(*key), pending.map(|pending| start_of(pending.deadline)));
            assert_eq!(timer.is_pending(*key), pending.is_some());
        }
        let mut listed = 0;
        for (key, deadline, payload) in timer.iter() {
            let pending = self.model[&key];
            assert_eq!((deadline, *payload), (start_of(pending.deadline), pending.payload));
            listed += 1;
        }
        assert_eq!(listed, self.model.len());
    }
}

fn run(wheel: WheelKind, ops: &[Op]) {
    let mut checked = Checked::new(wheel);
    for op in ops {
        checked.apply(*op);
    }
    // Everything that fires at all fires in the end.
    while let Some(next) = checked.timer.next_deadline() {
        checked.now = checked.now.max(next.as_nanos());
        checked.poll(7);
        checked.check();
    }
    assert!(checked.model.values().all(|timer| start_of(timer.deadline) == Time::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_hierarchical_wheel_does_what_the_model_does(ops in ops()) {
        run(WheelKind::Hierarchical, &ops);
    }

    #[test]
    fn the_hashed_wheel_does_what_the_model_does(
        ops in ops(), buckets in prop::sample::select(vec![1_usize, 8, 512]),
    ) {
        run(WheelKind::Hashed { buckets }, &ops);
    }
}
