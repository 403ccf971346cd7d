//! What very many timers at once do to others, through every front: a timer beside a burst waits for a bounded number
//! of handler calls, and what waits in a backlog can be cancelled, moved and returned like any other timer.
//!
//! The clock is turned by hand, and each call of a handler takes a time of its own, so lateness counts calls.

use super::MS;
use super::loops::Loop;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    Budget, EventLoopTimer, Expired, Key, LocalTimer, ManualClock, MissedTicks, Period, Settings,
    Time,
};

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
            assert!(
                !std::mem::replace(came, true),
                "timer {} comes twice",
                expired.payload
            );
            self.left -= 1;
        }
        self.clock.advance(CALL);
    }
}

/// A timer with its meter.
struct Front<L> {
    timer: L,
    meter: Arc<Mutex<Meter>>,
    clock: ManualClock,
    schedule: fn(&mut L, Time, Duration, u64) -> Key<u64>,
}

impl<L: Loop> Front<L> {
    /// A timer that fires so many in a turn.
    fn new(fire: usize) -> Self {
        let clock = ManualClock::new();
        let (came, left) = (vec![false; MANY as usize], MANY);
        let meter = Meter {
            clock: clock.clone(),
            came,
            left,
            periods: 0,
            waited: 0,
        };
        let settings = Settings::new().budget(Budget::new().fire(fire));
        let timer = L::with_clock(settings, &clock);
        Self {
            timer,
            meter: Arc::new(Mutex::new(meter)),
            clock,
            schedule: L::arm,
        }
    }

    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        (self.schedule)(&mut self.timer, self.clock.now(), delay, payload)
    }

    /// How many timers have not come.
    fn left(&self) -> u64 {
        self.meter.lock().unwrap().left
    }

    /// Fires what is due, as much as one turn may; whether there is more.
    fn turn(&mut self) -> bool {
        let Self {
            timer,
            meter,
            clock,
            ..
        } = self;
        let more = timer
            .poll(clock.now(), |expired| meter.lock().unwrap().call(&expired))
            .more;
        // There may be more to do without a timer that is due: housekeeping.
        let left = meter.lock().unwrap().left;
        let is_amid_burst = (1..MANY).contains(&left) && timer.pending() as u64 >= left;
        if is_amid_burst {
            assert!(
                more && timer
                    .next_deadline()
                    .is_some_and(|next| next <= clock.now())
            );
            assert_eq!(timer.poll_timeout(clock.now()), Some(Duration::ZERO));
        }
        more
    }
}

fn repeating_local(fire: usize) -> Front<LocalTimer<u64>> {
    let mut front = Front::<LocalTimer<u64>>::new(fire);
    front
        .timer
        .schedule_periodic(Time::ZERO, MS, period(), PERIODIC)
        .unwrap();
    front
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

/// Once in a millisecond.
fn period() -> Period {
    Period::fixed_rate(MS, MissedTicks::Skip)
}

/// Turns until the burst is over; a periodic timer must not wait for more than `bound` calls meanwhile.
fn waits_at_most(bound: u64, mut front: Front<impl Loop>, burst: Burst) {
    for payload in 0..MANY {
        let ahead = match burst {
            Burst::Ahead => 200,
            Burst::InThree => 200 + payload as u32 % 3,
            Burst::Overdue => break,
        };
        front.schedule(ahead * MS, payload);
    }
    // And on until the periodic timer has been called, should it have waited for all of the burst.
    let mut after = 0;
    while after < 40 {
        after += u32::from(front.left() == 0);
        if matches!(burst, Burst::Overdue) && front.clock.now() == Time::ZERO + 50 * MS {
            (0..MANY).for_each(|payload| _ = front.schedule(Duration::ZERO, payload));
        }
        if !front.turn() {
            let now = front.clock.now().as_nanos();
            front
                .clock
                .set(Time::from_nanos(now - now % 250_000 + 250_000));
        }
    }
    let Meter {
        periods, waited, ..
    } = *front.meter.lock().unwrap();
    assert!(periods > 50, "{periods} periods");
    assert!(
        waited <= bound,
        "{burst:?}: waited for {waited} of {bound} calls"
    );
}

#[test]
fn a_periodic_timer_beside_a_burst_waits_for_a_bounded_number_of_calls() {
    for burst in [Burst::Ahead, Burst::InThree, Burst::Overdue] {
        // Each tick before that of the timer may have a burst.
        let bursts = if matches!(burst, Burst::InThree) {
            3
        } else {
            1
        };
        let bound = 4096 + bursts * BOUND;
        waits_at_most(bound, repeating_local(4096), burst);
        let mut front = Front::<EventLoopTimer<u64>>::new(4096);
        front
            .timer
            .schedule_periodic(Time::ZERO, MS, period(), PERIODIC)
            .unwrap();
        waits_at_most(bound, front, burst);
        let mut front = Front::<EventLoopTimer<u64>>::new(4096);
        front.schedule = |timer, _, delay, id| timer.remote().schedule(delay, id).unwrap().into();
        front
            .timer
            .remote()
            .schedule_periodic(MS, period(), PERIODIC)
            .unwrap();
        waits_at_most(bound, front, burst);
    }
    // A small budget changes the bound by as much.
    waits_at_most(100 + BOUND, repeating_local(100), Burst::Ahead);
}

#[test]
fn a_backlog_has_its_share_beside_timers_that_come_later() {
    const LATER: u64 = 20_000;
    let mut timer = Settings::new().build_local().unwrap();
    let backlog = 4_000;
    let mut schedule = |delay, id| _ = timer.schedule(Time::ZERO, delay, id).unwrap();
    (0..BURST + backlog).for_each(|_| schedule(100 * MS, 0));
    // Ten of each tick.
    (0..LATER as u32).for_each(|nth| schedule((101 + nth / 10) * MS, 1));
    let mut fired = Vec::new();
    let end = Time::ZERO + 10_000 * MS;
    while timer.poll(end, |it| fired.push(it.payload)).more {}
    let last = fired.iter().rposition(|id| *id == 0).unwrap() as u64;
    // Half of what fires, once there is a backlog, and a batch more or less.
    assert!(last < BURST + 2 * backlog + 512, "its last is timer {last}");
}

#[test]
fn timers_in_the_backlog_can_be_cancelled_and_moved() {
    let mut front = Front::<LocalTimer<u64>>::new(1000);
    let clock = front.clock.clone();
    let keys: Vec<_> = (0..MANY)
        .map(|payload| front.schedule(100 * MS, payload))
        .collect();
    clock.set(Time::ZERO + 110 * MS);
    while front.left() > MANY * 3 / 4 {
        assert!(front.turn());
    }
    let (mut cancelled, mut out, mut in_again) = (0, 0, 0);
    for (payload, key) in (0..).zip(keys) {
        let came = front.meter.lock().unwrap().came[payload as usize];
        assert_eq!(front.timer.is_pending(key), !came);
        let now = clock.now();
        match payload % 4 {
            0 => {
                assert_eq!(front.timer.cancel(key).is_won(), !came);
                cancelled += u64::from(!came);
            }
            1 => {
                assert_eq!(
                    front.timer.reschedule(now, key, 1000 * MS).is_moved(),
                    !came
                );
                out += u64::from(!came);
            }
            2 => {
                for delay in [1000 * MS, Duration::ZERO] {
                    assert_eq!(front.timer.reschedule(now, key, delay).is_moved(), !came);
                }
                in_again += u64::from(!came);
            }
            _ => {}
        }
    }
    assert!(cancelled > 0 && in_again > 0);
    while front.turn() {}
    assert_eq!(front.left(), cancelled + out, "all but these came");
    assert_eq!(front.timer.pending() as u64, out);
    clock.advance(1100 * MS);
    while front.turn() {}
    assert_eq!(front.left(), cancelled);
    assert!(front.timer.is_empty() && front.timer.next_deadline().is_none());
}

#[test]
fn a_backlog_is_returned_at_the_end() {
    let mut front = Front::<EventLoopTimer<u64>>::new(4096);
    (0..MANY).for_each(|payload| _ = front.schedule(100 * MS, payload));
    front.clock.set(Time::ZERO + 110 * MS);
    while front.left() > MANY / 2 {
        assert!(front.turn());
    }
    let unfired = front.timer.close();
    let mut meter = front.meter.lock().unwrap();
    assert_eq!(unfired.len() as u64, meter.left);
    for unfired in unfired {
        assert!(!std::mem::replace(
            &mut meter.came[unfired.payload as usize],
            true
        ));
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
                timer
                    .schedule(clock.now(), Duration::ZERO, expired.payload)
                    .unwrap();
            });
            assert!(calls < 1_000_000, "it never comes, in round {round}");
        }
        waited = waited.max(calls);
    }
    let bound = Budget::new().fire as u64 + 3 * BURST;
    assert!(waited <= bound, "waited for {waited} of {bound} calls");
}
