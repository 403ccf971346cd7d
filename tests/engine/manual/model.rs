//! Random operations on the engine and on a sorted map; after every step both have fired the same.

use crate::common::{Fired, Random, Setup, each_setup, ms, set_of, sorted, stress, us};
use std::collections::BTreeMap;
use std::time::Duration;
use tickwheel::{Key, Time, Timer};

/// The engine's tick in these tests, in nanoseconds.
const TICK: u64 = 1_000_000;

struct Compared<'a> {
    setup: &'a Setup,
    timer: Timer<u64>,
    fired: Fired,
    random: Random,
    /// Pending timers, each with the tick it is due at.
    pending: BTreeMap<u64, u64>,
    /// Every timer's name.
    keys: Vec<Key<u64>>,
    steps: String,
}

impl<'a> Compared<'a> {
    fn new(setup: &'a Setup, seed: u64) -> Self {
        let (timer, fired) = setup.recording();
        Self {
            setup,
            timer,
            fired,
            random: Random::new(seed),
            pending: BTreeMap::new(),
            keys: Vec::new(),
            steps: String::new(),
        }
    }

    fn now(&self) -> u64 {
        self.setup.clock.now().as_nanos()
    }

    /// The tick of a timer that is set now, by the definition: rounded up, or due at once.
    fn due(&self, delay: Duration) -> u64 {
        let (now, delay) = (u128::from(self.now()), delay.as_nanos());
        let tick = if delay == 0 { now / 1_000_000 } else { (now + delay).div_ceil(1_000_000) };
        u64::try_from(tick).unwrap_or(u64::MAX)
    }

    fn delay(&mut self) -> Duration {
        match self.random.below(8) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(self.random.below(TICK)),
            2 => ms(self.random.below(4)),
            3 => ms(8 * self.random.below(20)),
            4 => ms(64 << (6 * self.random.below(3))),
            5 => us(self.random.below(100_000)),
            6 => ms(self.random.below(2_000)),
            _ => Duration::from_secs(self.random.below(1 << 33)),
        }
    }

    fn any_timer(&mut self) -> Option<u64> {
        (!self.keys.is_empty()).then(|| self.random.below(self.keys.len() as u64))
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=4 => self.schedule(),
            5 => self.cancel(),
            6 => self.reschedule(),
            _ => self.advance(),
        }
        // What is due at once fires now, so that the next operation finds it ended in both.
        self.setup.settle(&self.timer);
        self.compare();
    }

    fn schedule(&mut self) {
        let (id, delay) = (self.keys.len() as u64, self.delay());
        self.note(&format!("schedule {id} {delay:?}"));
        let due = self.due(delay);
        let key = if self.random.chance(50) {
            self.timer.schedule_key(delay, id).unwrap()
        } else {
            let timeout = self.timer.schedule(delay, id).unwrap();
            assert_eq!(timeout.deadline(), Time::from_nanos(due.saturating_mul(TICK)));
            timeout.detach()
        };
        self.keys.push(key);
        self.pending.insert(id, due);
    }

    fn cancel(&mut self) {
        let Some(id) = self.any_timer() else { return };
        self.note(&format!("cancel {id}"));
        let expected = self.pending.remove(&id).map(|_| id);
        assert_eq!(self.timer.cancel(self.keys[id as usize]).payload(), expected);
    }

    fn reschedule(&mut self) {
        let Some(id) = self.any_timer() else { return };
        let delay = self.delay();
        self.note(&format!("reschedule {id} {delay:?}"));
        let moved = self.timer.reschedule(self.keys[id as usize], delay).moved();
        let due = self.due(delay);
        let was = self.pending.get_mut(&id).map(|tick| *tick = due);
        assert_eq!(moved, was.is_some());
    }

    fn advance(&mut self) {
        let by = match self.random.below(4) {
            0 => us(self.random.below(1_500)),
            1 => ms(1),
            2 => ms(self.random.below(70)),
            _ => ms(self.random.below(5_000)),
        };
        self.note(&format!("advance {by:?}"));
        self.setup.clock.advance(by);
    }

    fn note(&mut self, step: &str) {
        self.steps.push_str(step);
        self.steps.push('\n');
    }

    fn compare(&mut self) {
        let tick = self.now() / TICK;
        let fired = self.fired.take();
        let expected = sorted(self.pending.extract_due(tick));
        let ids = sorted(fired.iter().map(|expired| expired.payload));
        assert_eq!(ids, expected, "at {:?} after\n{}", self.setup, self.steps);
        for expired in &fired {
            assert!(expired.deadline.as_nanos() <= self.now());
        }
        assert_eq!(self.timer.pending(), self.pending.len());
        for (id, key) in self.keys.iter().enumerate().rev().take(20) {
            assert_eq!(self.timer.is_pending(*key), self.pending.contains_key(&(id as u64)));
        }
    }

    fn finish(self) {
        let returned = self.timer.stop().unwrap();
        assert_eq!(self.timer.pending(), 0);
        for unfired in &returned {
            let due = self.pending[&unfired.payload].saturating_mul(TICK);
            assert_eq!(unfired.deadline, Time::from_nanos(due));
            assert_eq!(unfired.key, self.keys[unfired.payload as usize]);
        }
        let returned = set_of(returned.into_iter().map(|unfired| unfired.payload));
        assert_eq!(returned, set_of(self.pending.into_keys()));
        assert!(self.fired.take().is_empty());
    }
}

trait ExtractDue {
    fn extract_due(&mut self, tick: u64) -> Vec<u64>;
}

impl ExtractDue for BTreeMap<u64, u64> {
    fn extract_due(&mut self, tick: u64) -> Vec<u64> {
        let due: Vec<u64> =
            self.iter().filter(|(_, due)| **due <= tick).map(|(id, _)| *id).collect();
        for id in &due {
            self.remove(id);
        }
        due
    }
}

#[test]
fn any_run_of_operations_fires_what_a_sorted_map_would() {
    each_setup(|setup| {
        for seed in 1..=stress(10) {
            let setup = Setup { clock: tickwheel::ManualClock::new(), ..setup.clone() };
            let mut compared = Compared::new(&setup, seed);
            for _ in 0..300 {
                compared.step();
            }
            compared.finish();
        }
    });
}
