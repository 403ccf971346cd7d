//! What very many timers at once do to others, through every front: a timer beside a burst waits for a bounded number
//! of handler calls, and what waits in a backlog can be cancelled, moved and returned like any other timer.
//!
//! The clock is turned by hand, and each call of a handler takes a time of its own, so lateness counts calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    Budget, EventLoopTimer, Expired, Key, LocalTimer, ManualClock, MissedTicks, Period, Remote,
    Settings, Time,
};

const MS: Duration = Duration::from_millis(1);
/// What a call of a handler takes.
const CALL: Duration = Duration::from_nanos(400);
/// The payload of the periodic timer.
const PERIODIC: u64 = u64::MAX;
/// Timers in a burst.
const MANY: u64 = 150_000;

/// Entries of one tick that come in a row, as the guide says.
const BURST: u64 = 16 * 1024;

/// Handler calls that a timer may wait for besides those that its turn begins with.
const BOUND: u64 = 3 * BURST;

/// What handlers note.
struct Meter {
    clock: ManualClock,
    /// Timers that have come, and how many of those that were scheduled have not.
    came: Vec<bool>,
    left: u64,
    periods: u64,
    /// The most calls that the periodic timer has waited for.
    waited: u64,
}

impl Meter {
    fn call(&mut self, expired: &Expired<u64>) {
        let now = self.clock.now();
        assert!(expired.deadline <= now, "early");
        if expired.payload == PERIODIC {
            let late = now - expired.deadline;
            self.periods += 1;
            self.waited = self.waited.max((late.as_nanos() / CALL.as_nanos()) as u64);
        } else {
            let came = &mut self.came[expired.payload as usize];
            assert!(!std::mem::replace(came, true), "timer {} comes twice", expired.payload);
            self.left -= 1;
        }
        self.clock.advance(CALL);
    }
}

type Shared = Arc<Mutex<Meter>>;

fn meter() -> (Shared, ManualClock) {
    let clock = ManualClock::new();
    let (came, left) = (vec![false; MANY as usize], MANY);
    let meter = Meter { clock: clock.clone(), came, left, periods: 0, waited: 0 };
    (Arc::new(Mutex::new(meter)), clock)
}

/// A timer with its meter.
trait Front {
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64>;
    fn schedule_periodic(&mut self, period: Period);
    /// Fires what is due, as much as one turn may; whether there is more.
    fn turn(&mut self) -> bool;
}

struct Local(LocalTimer<u64>, Shared, ManualClock);
struct Loop(EventLoopTimer<u64>, Shared, ManualClock);
struct Far(EventLoopTimer<u64>, Remote<u64>, Shared, ManualClock);
impl Front for Local {
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.0.schedule(self.2.now(), delay, payload).unwrap()
    }

    fn schedule_periodic(&mut self, period: Period) {
        self.0.schedule_periodic(self.2.now(), MS, period, PERIODIC).unwrap();
    }

    fn turn(&mut self) -> bool {
        let Self(timer, meter, clock) = self;
        let more = timer.poll(clock.now(), |expired| meter.lock().unwrap().call(&expired)).more;
        assert!(!more || timer.poll_timeout(clock.now()) == Some(Duration::ZERO));
        assert!(!more || timer.next_deadline().is_some_and(|next| next <= clock.now()));
        more
    }
}

fn poll(timer: &mut EventLoopTimer<u64>, meter: &Shared, clock: &ManualClock) -> bool {
    let more = timer.poll(clock.now(), |expired| meter.lock().unwrap().call(&expired)).more;
    // There may be more to do without a timer that is due: housekeeping.
    let is_amid_burst = (1..MANY).contains(&meter.lock().unwrap().left);
    assert!(!is_amid_burst || more && timer.poll_timeout(clock.now()) == Some(Duration::ZERO));
    more
}

impl Front for Loop {
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.0.schedule(self.2.now(), delay, payload).unwrap()
    }

    fn schedule_periodic(&mut self, period: Period) {
        self.0.schedule_periodic(self.2.now(), MS, period, PERIODIC).unwrap();
    }

    fn turn(&mut self) -> bool {
        poll(&mut self.0, &self.1, &self.2)
    }
}

impl Front for Far {
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.1.schedule(delay, payload).unwrap()
    }

    fn schedule_periodic(&mut self, period: Period) {
        self.1.schedule_periodic(MS, period, PERIODIC).unwrap();
    }

    fn turn(&mut self) -> bool {
        poll(&mut self.0, &self.2, &self.3)
    }
}

fn local(fire: usize) -> (Local, Shared, ManualClock) {
    let (meter, clock) = meter();
    let budget = Budget::new().fire(fire);
    let timer = Settings::new().budget(budget).build_local().unwrap();
    (Local(timer, meter.clone(), clock.clone()), meter, clock)
}

fn event_loop(fire: usize) -> (Loop, Shared, ManualClock) {
    let (meter, clock) = meter();
    let budget = Budget::new().fire(fire);
    let builder = Settings::new().budget(budget).clock(clock.clone());
    let timer = builder.build_with_waker(|| ()).unwrap();
    (Loop(timer, meter.clone(), clock.clone()), meter, clock)
}

fn remote(fire: usize) -> (Far, Shared, ManualClock) {
    let (Loop(timer, ..), meter, clock) = event_loop(fire);
    let remote = timer.remote();
    (Far(timer, remote, meter.clone(), clock.clone()), meter, clock)
}

/// When the timers of a burst are due.
#[derive(Clone, Copy, Debug)]
enum Burst {
    /// In one tick, long ago.
    Ahead,
    /// In three ticks, one after the other.
    InThree,
    /// At once, all of them.
    Overdue,
}

/// Turns until the burst is over; the most calls that the periodic timer has waited for.
fn waited((mut front, meter, clock): (impl Front, Shared, ManualClock), burst: Burst) -> u64 {
    front.schedule_periodic(Period::fixed_rate(MS, MissedTicks::Skip).unwrap());
    for payload in 0..MANY {
        let ahead = match burst {
            Burst::Ahead => 200,
            Burst::InThree => 200 + payload as u32 % 3,
            Burst::Overdue => break,
        };
        let _ = front.schedule(ahead * MS, payload);
    }
    // And on until the periodic timer has been called, should it have waited for all of the burst.
    let mut after = 0;
    while after < 40 {
        after += u32::from(meter.lock().unwrap().left == 0);
        if matches!(burst, Burst::Overdue) && clock.now() == Time::ZERO + 50 * MS {
            for payload in 0..MANY {
                let _ = front.schedule(Duration::ZERO, payload);
            }
        }
        if !front.turn() {
            let now = clock.now().as_nanos();
            clock.set(Time::from_nanos(now - now % 250_000 + 250_000));
        }
    }
    let meter = meter.lock().unwrap();
    assert!(meter.periods > 50, "{} periods", meter.periods);
    meter.waited
}

#[test]
fn a_periodic_timer_beside_a_burst_waits_for_a_bounded_number_of_calls() {
    for burst in [Burst::Ahead, Burst::InThree, Burst::Overdue] {
        // Each tick before that of the timer may have a burst.
        let bursts = if matches!(burst, Burst::InThree) { 3 } else { 1 };
        let fire = 4096;
        let bound = fire as u64 + bursts * BOUND;
        let check = |front: &str, waited: u64| {
            let case = format!("{front} {burst:?}");
            assert!(waited <= bound, "{case}: waited for {waited} of {bound} calls");
        };
        check("local", waited(local(fire), burst));
        check("loop", waited(event_loop(fire), burst));
        check("remote", waited(remote(fire), burst));
    }
}

#[test]
fn a_small_budget_changes_the_bound_by_as_much() {
    let (waited, bound) = (waited(local(100), Burst::Ahead), 100 + BOUND);
    assert!(waited <= bound, "waited for {waited} of {bound} calls");
}

#[test]
fn timers_in_the_backlog_can_be_cancelled_and_moved() {
    let (mut front, meter, clock) = local(1000);
    let keys: Vec<_> = (0..MANY).map(|payload| front.schedule(100 * MS, payload)).collect();
    clock.set(Time::ZERO + 110 * MS);
    while meter.lock().unwrap().left > MANY * 3 / 4 {
        assert!(front.turn());
    }
    let (mut cancelled, mut out, mut in_again) = (0, 0, 0);
    for (payload, key) in (0..).zip(keys) {
        let came = meter.lock().unwrap().came[payload as usize];
        assert_eq!(front.0.is_pending(key), !came);
        let now = clock.now();
        match payload % 4 {
            0 => {
                assert_eq!(front.0.cancel(key).won(), !came);
                cancelled += u64::from(!came);
            }
            1 => {
                assert_eq!(front.0.reschedule(now, key, 1000 * MS).moved(), !came);
                out += u64::from(!came);
            }
            2 => {
                assert_eq!(front.0.reschedule(now, key, 1000 * MS).moved(), !came);
                assert_eq!(front.0.reschedule(now, key, Duration::ZERO).moved(), !came);
                in_again += u64::from(!came);
            }
            _ => {}
        }
    }
    assert!(cancelled > 0 && in_again > 0);
    while front.turn() {}
    assert_eq!(meter.lock().unwrap().left, cancelled + out, "all but these came");
    assert_eq!(front.0.pending() as u64, out);
    clock.advance(1100 * MS);
    while front.turn() {}
    assert_eq!(meter.lock().unwrap().left, cancelled);
    assert!(front.0.is_empty() && front.0.next_deadline().is_none());
}

#[test]
fn a_backlog_is_returned_at_the_end() {
    let (mut front, meter, clock) = event_loop(4096);
    for payload in 0..MANY {
        let _ = front.schedule(100 * MS, payload);
    }
    clock.set(Time::ZERO + 110 * MS);
    while meter.lock().unwrap().left > MANY / 2 {
        assert!(front.turn());
    }
    let mut meter = meter.lock().unwrap();
    let unfired = front.0.close();
    assert_eq!(unfired.len() as u64, meter.left);
    for unfired in unfired {
        assert!(!std::mem::replace(&mut meter.came[unfired.payload as usize], true));
    }
}

/// Handlers that schedule zero delays for ever, more of them than one turn fires.
#[test]
fn timers_that_come_again_at_once_keep_nobody_waiting() {
    let clock = ManualClock::new();
    let mut timer = Settings::new().build_local().unwrap();
    (0..6_000).for_each(|payload| drop(timer.schedule(clock.now(), Duration::ZERO, payload)));
    let mut waited = 0;
    for round in 0..20 {
        timer.schedule(clock.now(), MS, PERIODIC).unwrap();
        let (mut calls, mut came) = (0, false);
        let due = clock.now() + MS;
        while !came {
            timer.poll_with(clock.now(), |timer, expired| {
                if expired.payload == PERIODIC {
                    came = true;
                    return;
                }
                calls += u64::from(!came && clock.now() >= due);
                clock.advance(CALL);
                timer.schedule(clock.now(), Duration::ZERO, expired.payload).unwrap();
            });
            assert!(calls < 1_000_000, "it never comes, in round {round}");
        }
        waited = waited.max(calls);
    }
    let bound = Budget::new().fire as u64 + 3 * BURST;
    assert!(waited <= bound, "waited for {waited} of {bound} calls");
}
