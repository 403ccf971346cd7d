//! A discrete-event simulation on `LocalTimer`: no clock, no threads; time jumps from event to event.
//!
//! ```text
//! cargo run --release --example simulation
//! ```
//!
//! A call centre: callers arrive at random (a Poisson process), wait for one of a few agents, and hang up if
//! none is free in time. The timeout is scheduled with every call and cancelled when an agent answers, as it
//! is in a server. With patient callers the waiting time is known (Erlang's formula), which checks the
//! simulation.

use std::collections::BTreeMap;
use std::time::Duration;
use tickwheel::{LocalTimer, Time};

/// The mean length of a call.
const SERVICE: Duration = Duration::from_secs(180);
const CALLS: u32 = 30_000;

enum Event {
    Arrival,
    Done,
    HangsUp { caller: u32 },
}

/// Simulates `CALLS` calls; returns how many callers hung up, and the mean wait of the others.
fn simulate(agents: u32, load: f64, patience: Duration) -> (u32, Duration) {
    let between_arrivals = SERVICE.div_f64(load * f64::from(agents));
    let mut timer = LocalTimer::new(Duration::from_millis(1)).expect("1 ms is a valid tick");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    // By number: since when a caller waits, and the timer that ends it.
    let mut waiting = BTreeMap::new();
    let (mut idle_agents, mut arrived, mut served, mut lost) = (agents, 0, 0, 0);
    let mut total_wait = Duration::ZERO;
    let limit = "this timer has no limit";
    timer
        .schedule(Time::ZERO, Duration::ZERO, Event::Arrival)
        .expect(limit);
    // The whole of the main loop: go to the next event, handle it.
    while let Some(next) = timer.next_deadline() {
        timer.poll_with(next, |timer, expired| {
            // Not `next`: a cancelled timer may have asked for an earlier poll.
            let now = expired.deadline;
            match expired.payload {
                Event::Arrival => {
                    let hangs_up = Event::HangsUp { caller: arrived };
                    let timeout = timer.schedule(now, patience, hangs_up).expect(limit);
                    waiting.insert(arrived, (now, timeout));
                    arrived += 1;
                    if arrived < CALLS {
                        let pause = random.exponential(between_arrivals);
                        timer.schedule(now, pause, Event::Arrival).expect(limit);
                    }
                }
                Event::Done => idle_agents += 1,
                // Nobody is there if an agent answered in the same millisecond.
                Event::HangsUp { caller } => lost += u32::from(waiting.remove(&caller).is_some()),
            }
            if idle_agents > 0 {
                let Some((_, (since, timeout))) = waiting.pop_first() else {
                    return;
                };
                timer.cancel(timeout);
                (idle_agents, served) = (idle_agents - 1, served + 1);
                total_wait += now - since;
                let service = random.exponential(SERVICE);
                timer.schedule(now, service, Event::Done).expect(limit);
            }
        });
    }
    assert_eq!(served + lost, CALLS, "every call ends exactly once");
    (lost, total_wait / served.max(1))
}

/// The mean wait of patient callers (Erlang C).
fn theory(agents: u32, load: f64) -> Duration {
    let offered = load * f64::from(agents);
    let blocked = (1..=agents).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b));
    let must_wait = blocked / (1.0 - load * (1.0 - blocked));
    SERVICE.mul_f64(must_wait / (f64::from(agents) * (1.0 - load)))
}

/// xorshift64*, good enough for exponential times, and the same in every run.
struct Random(u64);

impl Random {
    fn exponential(&mut self, mean: Duration) -> Duration {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        mean.mul_f64(-((bits as f64 + 0.5) / (1_u64 << 53) as f64).ln())
    }
}

pub(crate) fn main() {
    for (agents, load) in [(1, 0.5), (2, 0.7), (8, 0.7)] {
        let (none, wait) = simulate(agents, load, Duration::from_secs(1 << 40));
        let (lost, _) = simulate(agents, load, Duration::from_secs(60));
        let expected = theory(agents, load);
        println!(
            "{agents} agents at load {load}: patient callers wait {wait:.1?} ({expected:.1?} in \
             theory), {lost} of {CALLS} impatient ones hang up"
        );
        assert!(none == 0 && lost > 0);
        let ratio = wait.as_secs_f64() / expected.as_secs_f64();
        assert!(
            (ratio - 1.0).abs() < 0.1,
            "further from theory than chance allows"
        );
    }
}
