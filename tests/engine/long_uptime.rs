//! Years of uptime on a clock that is turned by hand, judged by books of its own.
//!
//! Timers of all lengths are scheduled, cancelled and moved at random. The test keeps its own sorted set of what is due
//! when, and the clock stops at each moment of that set: one tick before it nothing may fire, at it exactly that set
//! must. So a timer that is early, late, lost or fired twice by as little as one tick fails the test at that moment.

use crate::support::random::Random;
use crate::support::setup::{Fired, HOUR, ms, one_shard, rate, recording};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tickwheel::{Drive, Key, ManualClock, Period, Time, Timer};

const MINUTE: u64 = 60 * 1_000;
const DAY: u64 = 24 * 60 * MINUTE;
const YEAR: u64 = 365 * DAY + DAY / 4;

/// Uptimes, as powers of two of milliseconds, around which the simulation is busy: those at which other
/// wheels have wrapped, and every one that ten years pass.
const BOUNDARIES: [u32; 9] = [30, 31, 32, 33, 34, 35, 36, 37, 38];

/// Timers with smaller numbers are neither cancelled nor moved at random.
const FIRST_ID: u64 = 8;

/// A pending timer, by the books.
struct Entry {
    key: Key<u64>,
    due: u64,
    /// The milliseconds between the calls of a periodic timer.
    every: Option<u64>,
}

struct Simulation {
    clock: ManualClock,
    timer: Timer<u64>,
    fired: Fired,
    random: Random,
    /// Every pending timer by its number, which is the payload.
    pending: BTreeMap<u64, Entry>,
    /// The same timers: due tick and number.
    due: BTreeSet<(u64, u64)>,
    next_id: u64,
    now: u64,
    /// How many have fired, fired and gone on, been cancelled, been moved.
    counts: [u64; 4],
}

/// A tick is a millisecond here.
const fn at(tick: u64) -> Time {
    Time::from_nanos(tick * 1_000_000)
}

impl Simulation {
    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = one_shard().clock(clock.clone()).drive(Drive::Manual);
        let (timer, fired) = recording(builder);
        Self {
            clock,
            timer,
            fired,
            random: Random::new(10),
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            next_id: FIRST_ID,
            now: 0,
            counts: [0; 4],
        }
    }

    fn begin(&mut self, id: u64, delay: u64, key: Key<u64>, every: Option<u64>) {
        let due = self.now + delay;
        self.due.insert((due, id));
        assert!(self.pending.insert(id, Entry { key, due, every }).is_none());
    }

    fn schedule(&mut self, id: u64, delay: u64) {
        let key = self
            .timer
            .schedule(ms(delay), id)
            .expect("the engine accepts");
        self.begin(id, delay, key, None);
    }

    fn schedule_next(&mut self, delay: u64) {
        self.schedule(self.next_id, delay);
        self.next_id += 1;
    }

    /// Schedules a periodic timer.
    fn heartbeat(&mut self, id: u64, every: u64, period: Period) {
        let key = self
            .timer
            .schedule_periodic(ms(every), period, id)
            .expect("the engine accepts");
        self.begin(id, every, key, Some(every));
    }

    fn cancel(&mut self, id: u64) {
        let Entry { key, due, .. } = self.pending.remove(&id).expect("pending by the books");
        assert_eq!(
            self.timer.cancel(key).into_payload(),
            Some(id),
            "pending by the books"
        );
        assert!(self.due.remove(&(due, id)));
        self.counts[2] += 1;
    }

    fn move_by(&mut self, id: u64, delay: u64) {
        let entry = self.pending.get_mut(&id).expect("pending by the books");
        assert!(
            self.timer.reschedule(entry.key, ms(delay)).is_moved(),
            "pending by the books"
        );
        assert!(self.due.remove(&(entry.due, id)));
        entry.due = self.now + delay;
        self.due.insert((entry.due, id));
        self.counts[3] += 1;
    }

    /// Schedules a few timers, and cancels and moves others.
    fn act(&mut self) {
        for _ in 0..self.random.below(6) {
            // Of any length up to two years: milliseconds as often as months.
            let most = 1 << self.random.below(37);
            let delay = self.random.below(most);
            let from = FIRST_ID + self.random.below(self.next_id - FIRST_ID + 1);
            let any = self.pending.range(from..).next().map(|(id, _)| *id);
            match (self.random.below(4), any) {
                (0, Some(id)) => self.cancel(id),
                (1, Some(id)) => self.move_by(id, delay),
                _ => self.schedule_next(delay),
            }
        }
    }

    /// Sets the clock and takes what fired.
    fn go_to(&mut self, tick: u64) -> Vec<u64> {
        self.now = tick;
        self.clock.set(at(tick));
        self.timer.turn().expect("the engine can be turned");
        let expired = self.fired.take();
        for e in &expired {
            assert_eq!(
                (e.deadline, e.lateness),
                (at(tick), Duration::ZERO),
                "timer {}",
                e.payload
            );
        }
        crate::support::setup::sorted(expired.iter().map(|e| e.payload))
    }

    /// Goes to the moment at which the next timer is due, and judges what fires there.
    fn fire(&mut self) {
        let tick = self.due.first().expect("something is due").0;
        if tick > self.now {
            assert_eq!(self.go_to(tick - 1), [], "early, before tick {tick}");
        }
        let later = self.due.split_off(&(tick + 1, 0));
        let expected: Vec<u64> = std::mem::replace(&mut self.due, later)
            .into_iter()
            .map(|(_, id)| id)
            .collect();
        assert_eq!(self.go_to(tick), expected, "at tick {tick}");
        for id in expected {
            match self.pending.remove(&id).expect("pending by the books") {
                Entry {
                    key,
                    every: Some(every),
                    ..
                } => {
                    self.begin(id, every, key, Some(every));
                    self.counts[1] += 1;
                }
                _ => self.counts[0] += 1,
            }
        }
    }

    /// Lives until `end`, and acts at random moments, at most `every` milliseconds apart.
    fn run_to(&mut self, end: u64, every: u64) {
        let mut next = self.now;
        while self.now < end {
            let due = self.due.first().map_or(u64::MAX, |(due, _)| *due);
            if due.min(next) >= end {
                break;
            }
            if due <= next {
                self.fire();
            } else {
                assert_eq!(self.go_to(next), [], "early, at tick {next}");
                self.act();
                next += 1 + self.random.below(every);
            }
        }
        assert_eq!(self.go_to(end - 1), []);
    }

    /// Ends the engine; what it returns and what it counted must agree with the books.
    fn finish(self) -> [u64; 4] {
        let Self {
            timer, due, counts, ..
        } = self;
        let returned = timer.stop().expect("the engine stops").into_iter();
        let returned = returned.map(|it| (it.deadline.as_nanos() / 1_000_000, it.payload));
        assert_eq!(returned.collect::<BTreeSet<_>>(), due);
        let stats = timer.stats();
        let ended = [stats.fired, stats.cancelled, stats.returned];
        assert_eq!(ended, [counts[0] + counts[1], counts[2], due.len() as u64]);
        assert_eq!(stats.scheduled, ended.into_iter().sum());
        counts
    }
}

#[test]
fn ten_years_of_a_server_are_exact_to_the_tick() {
    let mut life = Simulation::new();
    life.heartbeat(0, 60 * MINUTE, rate(HOUR));
    life.heartbeat(1, DAY, rate(24 * HOUR));
    // Not a divisor of anything, counted from the end of its handler.
    let odd = 7 * 60 * MINUTE + 13 * MINUTE + 7;
    life.heartbeat(2, odd, Period::fixed_delay(ms(odd)));
    // Beyond the ten years, up to the end of the scale: 584 years.
    for (id, years) in [(3, 11), (4, 100), (5, 500)] {
        life.schedule(id, years * YEAR);
    }
    for boundary in BOUNDARIES.map(|power| 1 << power) {
        (boundary - 3..=boundary + 3).for_each(|tick| life.schedule_next(tick));
    }
    life.run_to(10 * YEAR, DAY);
    let counts = life.finish();
    println!("{counts:?}");
    assert!(
        counts.iter().all(|count| *count > 1_000),
        "too little happened: {counts:?}"
    );
}
