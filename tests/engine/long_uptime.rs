//! Years of a server's life on a clock that is turned by hand, judged by books of its own.
//!
//! The simulation does what a server does: requests whose timeouts are nearly all cancelled young, idle
//! timeouts that every byte pushes out, retries that are pulled in, leases that run for months, heartbeats.
//! It keeps its own sorted set of what is due when, and the clock stops at every moment of that set: one tick
//! before it nothing may fire, at it exactly that set must. So a timer that is early, late, lost or fired
//! twice by as little as one tick fails the test at the very moment.

use crate::support::random::Random;
use crate::support::setup::{Fired, HOUR, ms, one_shard, recording};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
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

/// What the simulated server does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    /// A burst of requests begins, with so many of them.
    Burst(u32),
    /// One request, and so many more behind it.
    Request(u32),
    /// The answer has come.
    Cancel(u64),
    /// A byte has come on a connection that sees so many more.
    Touch(u64, u32),
    /// A retry is wanted earlier than planned.
    Hurry(u64),
}

/// A timer as the books know it.
struct Entry {
    key: Key<u64>,
    due: u64,
}

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
    agenda: BinaryHeap<Reverse<(u64, Action)>>,
    /// Every pending timer: due tick and payload.
    due: BTreeSet<(u64, u64)>,
    pending: HashMap<u64, Entry>,
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
        let mut simulation = Self {
            clock,
            timer,
            fired,
            random: Random::new(seed),
            agenda: BinaryHeap::new(),
            due: BTreeSet::new(),
            pending: HashMap::new(),
            periods: HashMap::new(),
            next_id: FIRST_ID,
            now: start,
            totals: Totals::default(),
        };
        simulation.agenda.push(Reverse((start, Action::Burst(20))));
        simulation
    }

    fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.below(to - from)
    }

    fn later(&mut self, delay: u64, action: Action) {
        self.agenda.push(Reverse((self.now + delay, action)));
    }

    fn schedule(&mut self, delay: u64) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let key = self.timer.schedule_key(ms(delay), id).expect("the engine accepts");
        let due = self.now + delay;
        self.due.insert((due, id));
        self.pending.insert(id, Entry { key, due });
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
        let Some(entry) = self.pending.remove(&id) else { return };
        assert_eq!(self.timer.cancel(entry.key).payload(), Some(id), "pending by the books");
        assert!(self.due.remove(&(entry.due, id)));
        self.totals.cancelled += 1;
    }

    fn move_to(&mut self, id: u64, delay: u64) {
        let Some(entry) = self.pending.get_mut(&id) else { return };
        assert!(self.timer.reschedule(entry.key, ms(delay)).moved(), "pending by the books");
        assert!(self.due.remove(&(entry.due, id)));
        entry.due = self.now + delay;
        self.due.insert((entry.due, id));
        self.totals.moved += 1;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Burst(requests) => {
                self.later(0, Action::Request(requests));
                let requests = self.within(1, 60) as u32;
                let pause = self.within(MINUTE, 2 * DAY);
                self.later(pause, Action::Burst(requests));
            }
            Action::Request(left) => {
                self.request();
                if left > 0 {
                    let pause = self.within(0, 400);
                    self.later(pause, Action::Request(left - 1));
                }
            }
            Action::Cancel(id) => self.cancel(id),
            Action::Touch(id, left) => {
                self.move_to(id, MINUTE);
                if left > 0 {
                    let pause = self.within(1, MINUTE);
                    self.later(pause, Action::Touch(id, left - 1));
                }
            }
            Action::Hurry(id) => {
                let delay = self.within(0, SECOND);
                self.move_to(id, delay);
            }
        }
    }

    /// One request and the timers that come with it.
    fn request(&mut self) {
        let timeout = *[SECOND, 5 * SECOND, 30 * SECOND, 5 * MINUTE]
            .get(self.random.below(4) as usize)
            .expect("one of four");
        let id = self.schedule(timeout);
        // The answer comes soon, for nine in ten.
        if self.random.chance(90) {
            let answer = self.within(0, 500);
            self.later(answer, Action::Cancel(id));
        }
        match self.random.below(40) {
            0..4 => {
                let connection = self.schedule(MINUTE);
                let first = self.within(0, SECOND);
                let bytes = self.random.below(6) as u32;
                self.later(first, Action::Touch(connection, bytes));
            }
            4..6 => {
                let retry = self.schedule(MINUTE);
                let change = self.within(0, 10 * SECOND);
                self.later(change, Action::Hurry(retry));
            }
            6 => {
                // A lease: months, at times years; two in three are given back in the meantime.
                let length = self.within(DAY, 2 * YEAR);
                let lease = self.schedule(length);
                if !self.random.chance(33) {
                    let back = self.within(0, length);
                    self.later(back, Action::Cancel(lease));
                }
            }
            7 => {
                self.schedule(0);
            }
            _ => {}
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

    /// Lives until `end`.
    fn run_to(&mut self, end: u64) {
        loop {
            let due = self.due.first().map_or(u64::MAX, |(due, _)| *due);
            let next = self.agenda.peek().map_or(u64::MAX, |Reverse((tick, _))| *tick);
            if due.min(next) > end {
                assert_eq!(self.go_to(end), []);
                return;
            }
            // What is due at this moment fires before anything else happens.
            if due <= next {
                self.fire();
                continue;
            }
            assert_eq!(self.go_to(next), [], "early, at tick {next}");
            while let Some(Reverse((_, action))) =
                self.agenda.peek().copied().filter(|Reverse((tick, _))| *tick == next)
            {
                self.agenda.pop();
                self.act(action);
            }
        }
    }

    /// Timers due at each of the ticks around a boundary, and requests that run across it.
    fn prepare(&mut self, boundary: u64) {
        for tick in boundary - 3..=boundary + 3 {
            self.schedule(tick - self.now);
        }
        self.agenda.push(Reverse((boundary - 10 * SECOND, Action::Request(100))));
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
    life.run_to(10 * YEAR);
    let totals = life.finish();
    println!("{wheel:?}: {totals:?}");
    assert_eq!(totals.periods, 10 * YEAR / 3_600_000 + 10 * YEAR / DAY + 10 * YEAR / 25_980_007);
    let wanted = [totals.fired - totals.periods, totals.cancelled, totals.moved];
    assert!(wanted.iter().all(|count| *count > 5_000), "too little happened: {totals:?}");
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
fn a_server_that_starts_shortly_before_a_boundary_is_exact_with_a_far_timer_present() {
    for power in [30_u64, 31, 32, 36, 42] {
        for wheel in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 64 }] {
            let boundary = 1_u64 << power;
            let mut life = Simulation::new(wheel, boundary - 20 * MINUTE, power);
            let far = life.schedule(50 * YEAR + 1);
            life.heartbeat(0, 7 * SECOND, false);
            life.prepare(boundary);
            life.run_to(boundary + 20 * MINUTE);
            // The far timer and every lease come to their end, however far the clock jumps.
            let (key, every) = life.periods[&0];
            assert!(life.timer.cancel(key).won());
            life.due.retain(|(_, id)| *id != 0);
            life.totals.cancelled += 1;
            life.agenda.clear();
            assert_eq!(every, 7 * SECOND);
            while !life.due.is_empty() {
                life.fire();
            }
            assert!(!life.pending.contains_key(&far));
            assert_eq!(life.now, boundary - 20 * MINUTE + 50 * YEAR + 1);
            let totals = life.finish();
            assert!(totals.fired > 300 && totals.cancelled > 50, "2^{power} ms: {totals:?}");
        }
    }
}
