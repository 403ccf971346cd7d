//! Years of uptime on a clock that is turned by hand, judged by books of its own.
//!
//! Timers of all lengths are scheduled, cancelled and moved at random. The test keeps its own sorted set of what is due
//! when, and the clock stops at each moment of that set: one tick before it nothing may fire, at it exactly that set
//! must. So a timer that is early, late, lost or fired twice by as little as one tick fails the test at that moment.

use crate::support::random::Random;
use crate::support::setup::{Fired, HOUR, ms, one_shard, recording};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tickwheel::{Drive, Key, ManualClock, MissedTicks, Period, Time, Timer, WheelKind};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
const YEAR: u64 = 365 * DAY + DAY / 4;

/// Uptimes, as powers of two of milliseconds, around which the simulation is busy: those at which other
/// wheels have wrapped, and every one that ten years pass.
const BOUNDARIES: [u32; 9] = [30, 31, 32, 33, 34, 35, 36, 37, 38];

/// Payloads below this are the periodic timers' own.
const FIRST_ID: u64 = 8;

/// What has happened, by the books.
#[derive(Default, Debug)]
struct Totals {
    fired: u64,
    periods: u64,
    cancelled: u64,
    moved: u64,
}

struct Simulation {
    clock: ManualClock,
    timer: Timer<u64>,
    fired: Fired,
    random: Random,
    /// Every pending timer: due tick and payload.
    due: BTreeSet<(u64, u64)>,
    /// One-shot timers by payload, with the tick at which they are due.
    pending: BTreeMap<u64, (Key<u64>, u64)>,
    /// Periodic timers by payload: how far apart, in milliseconds.
    periods: HashMap<u64, (Key<u64>, u64)>,
    next_id: u64,
    now: u64,
    totals: Totals,
}

/// A tick is a millisecond here.
const fn at(tick: u64) -> Time {
    Time::from_nanos(tick * 1_000_000)
}

impl Simulation {
    fn new(wheel: WheelKind, start: u64, seed: u64) -> Self {
        let clock = ManualClock::starting_at(at(start));
        let builder = one_shard().clock(clock.clone()).drive(Drive::Manual).wheel(wheel);
        let (timer, fired) = recording(builder);
        Self {
            clock,
            timer,
            fired,
            random: Random::new(seed),
            due: BTreeSet::new(),
            pending: BTreeMap::new(),
            periods: HashMap::new(),
            next_id: FIRST_ID,
            now: start,
            totals: Totals::default(),
        }
    }

    /// Returns a delay of any length up to two years: milliseconds as often as months.
    fn delay(&mut self) -> u64 {
        let most = 1 << self.random.below(37);
        self.random.below(most)
    }

    fn any_pending(&mut self) -> Option<u64> {
        let from = FIRST_ID + self.random.below(self.next_id - FIRST_ID + 1);
        self.pending.range(from..).next().map(|(id, _)| *id)
    }

    fn schedule(&mut self, delay: u64) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let key = self.timer.schedule_key(ms(delay), id).expect("the engine accepts");
        let due = self.now + delay;
        self.due.insert((due, id));
        self.pending.insert(id, (key, due));
        id
    }

    /// Every `every` milliseconds, for ever.
    fn heartbeat(&mut self, id: u64, every: u64, fixed_delay: bool) {
        assert!(id < FIRST_ID);
        let period = if fixed_delay {
            Period::fixed_delay(ms(every)).unwrap()
        } else {
            Period::fixed_rate(ms(every), MissedTicks::Skip).unwrap()
        };
        let key = self.timer.schedule_periodic(ms(every), period, id).expect("the engine accepts");
        self.due.insert((self.now + every, id));
        self.periods.insert(id, (key, every));
    }

    fn cancel(&mut self, id: u64) {
        let Some((key, due)) = self.pending.remove(&id) else { return };
        assert_eq!(self.timer.cancel(key).into_payload(), Some(id), "pending by the books");
        assert!(self.due.remove(&(due, id)));
        self.totals.cancelled += 1;
    }

    fn move_to(&mut self, id: u64, delay: u64) {
        let Some((key, due)) = self.pending.get_mut(&id) else { return };
        assert!(self.timer.reschedule(*key, ms(delay)).moved(), "pending by the books");
        assert!(self.due.remove(&(*due, id)));
        *due = self.now + delay;
        self.due.insert((*due, id));
        self.totals.moved += 1;
    }

    /// Schedules a few timers, and cancels and moves others.
    fn act(&mut self) {
        for _ in 0..self.random.below(6) {
            let delay = self.delay();
            match (self.random.below(4), self.any_pending()) {
                (0, Some(id)) => self.cancel(id),
                (1, Some(id)) => self.move_to(id, delay),
                _ => drop(self.schedule(delay)),
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
            assert_eq!(e.deadline, at(tick), "timer {} at tick {tick}", e.payload);
            assert_eq!(e.lateness, Duration::ZERO, "timer {} at tick {tick}", e.payload);
        }
        let mut ids: Vec<u64> = expired.iter().map(|e| e.payload).collect();
        ids.sort_unstable();
        ids
    }

    /// Goes to the moment at which the next timer is due, and judges what fires there.
    fn fire(&mut self) {
        let tick = self.due.first().expect("something is due").0;
        if tick > self.now {
            assert_eq!(self.go_to(tick - 1), [], "early, before tick {tick}");
        }
        let mut expected = Vec::new();
        while let Some(&(due, id)) = self.due.first().filter(|(due, _)| *due == tick) {
            self.due.remove(&(due, id));
            self.pending.remove(&id);
            expected.push(id);
        }
        assert_eq!(self.go_to(tick), expected, "at tick {tick}");
        for id in expected {
            if let Some((_, every)) = self.periods.get(&id) {
                self.due.insert((tick + every, id));
                self.totals.periods += 1;
            }
            self.totals.fired += 1;
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

    /// Schedules timers for each of the ticks around a boundary.
    fn prepare(&mut self, boundary: u64) {
        for tick in boundary - 3..=boundary + 3 {
            self.schedule(tick - self.now);
        }
    }

    /// Ends the engine; what it returns and what it counted must agree with the books.
    fn finish(self) -> Totals {
        let Self { timer, due, totals, .. } = self;
        assert_eq!(timer.pending(), due.len());
        let stats = timer.stats();
        let mut returned: Vec<(u64, u64)> = timer
            .stop()
            .expect("the engine stops")
            .into_iter()
            .map(|unfired| (unfired.deadline.as_nanos() / 1_000_000, unfired.payload))
            .collect();
        returned.sort_unstable();
        assert_eq!(returned, due.into_iter().collect::<Vec<_>>());
        assert_eq!(stats.fired(), totals.fired);
        assert_eq!(stats.cancelled(), totals.cancelled);
        assert_eq!(stats.scheduled(), totals.fired + totals.cancelled + returned.len() as u64);
        totals
    }
}

fn ten_years(wheel: WheelKind) {
    let mut life = Simulation::new(wheel, 0, 10);
    life.heartbeat(0, HOUR.as_millis() as u64, false);
    life.heartbeat(1, DAY, false);
    // Not a divisor of anything, counted from the end of its handler.
    life.heartbeat(2, 7 * 3_600_000 + 13 * MINUTE + 7, true);
    // Beyond the ten years, up to the end of the scale: 584 years.
    for years in [11, 100, 500] {
        life.schedule(years * YEAR);
    }
    for power in BOUNDARIES {
        life.prepare(1 << power);
    }
    life.run_to(10 * YEAR, DAY);
    let totals = life.finish();
    println!("{wheel:?}: {totals:?}");
    let wanted = [totals.fired - totals.periods, totals.periods, totals.cancelled, totals.moved];
    assert!(wanted.iter().all(|count| *count > 1_000), "too little happened: {totals:?}");
}

#[test]
fn ten_years_of_a_server_are_exact_to_the_tick_on_the_hierarchical_wheel() {
    ten_years(WheelKind::Hierarchical);
}

#[test]
fn ten_years_of_a_server_are_exact_to_the_tick_on_the_hashed_wheel() {
    ten_years(WheelKind::Hashed { buckets: 512 });
}

#[test]
fn a_start_shortly_before_a_boundary_is_exact_beside_a_far_timer() {
    for power in [30_u64, 31, 32, 36, 42] {
        for wheel in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 64 }] {
            let boundary = 1_u64 << power;
            let mut life = Simulation::new(wheel, boundary - 20 * MINUTE, power);
            let far = life.schedule(50 * YEAR + 1);
            // Neither cancelled nor moved.
            life.pending.remove(&far);
            life.heartbeat(0, 7 * SECOND, false);
            life.prepare(boundary);
            life.run_to(boundary + 20 * MINUTE, 10 * SECOND);
            let (key, _) = life.periods[&0];
            assert!(life.timer.cancel(key).won());
            life.due.retain(|(_, id)| *id != 0);
            life.totals.cancelled += 1;
            // Every other timer comes to its end, however far the clock jumps.
            while !life.due.is_empty() {
                life.fire();
            }
            assert_eq!(life.now, boundary - 20 * MINUTE + 50 * YEAR + 1);
            let totals = life.finish();
            assert!(totals.fired > 300 && totals.cancelled > 50, "2^{power} ms: {totals:?}");
        }
    }
}
