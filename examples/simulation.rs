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

use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tickwheel::{Key, LocalTimer, Time};

/// The mean length of a call.
const SERVICE: Duration = Duration::from_secs(180);
const CALLS: u64 = 30_000;

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Done,
    HangsUp { caller: u64 },
}

struct CallCentre {
    timer: LocalTimer<Event>,
    random: Random,
    between_arrivals: Duration,
    /// How long callers wait.
    patience: Duration,
    idle_agents: u32,
    arrived: u64,
    /// Who waits, in order of arrival; those who hung up are passed over.
    queue: VecDeque<u64>,
    /// Since when each of them waits, and the timer that ends it.
    waiting: HashMap<u64, (Time, Key<Event>)>,
    served: u64,
    lost: u64,
    total_wait: Duration,
}

impl CallCentre {
    /// Simulates `CALLS` calls; share of calls lost, and mean wait of the others.
    fn run(agents: u32, load: f64, patience: Duration) -> (f64, Duration) {
        let mut centre = Self {
            timer: LocalTimer::new(Duration::from_millis(1)).expect("1 ms is a valid tick"),
            random: Random(0x9E37_79B9_7F4A_7C15),
            between_arrivals: SERVICE.div_f64(load * f64::from(agents)),
            patience,
            idle_agents: agents,
            arrived: 0,
            queue: VecDeque::new(),
            waiting: HashMap::new(),
            served: 0,
            lost: 0,
            total_wait: Duration::ZERO,
        };
        centre.after(Time::ZERO, Duration::ZERO, Event::Arrival);
        // The whole of the main loop: go to the next event, handle it.
        while let Some(now) = centre.timer.next_deadline() {
            let mut due = Vec::new();
            centre.timer.poll(now, |expired| due.push(expired));
            for expired in due {
                // Not `now`: a cancelled timer may have asked for an earlier poll.
                centre.handle(expired.deadline, expired.payload);
            }
        }
        assert_eq!(centre.served + centre.lost, CALLS, "every call ends exactly once");
        let served = u32::try_from(centre.served).expect("there are fewer calls");
        (centre.lost as f64 / CALLS as f64, centre.total_wait / served.max(1))
    }

    fn after(&mut self, now: Time, delay: Duration, event: Event) -> Key<Event> {
        self.timer.schedule(now, delay, event).expect("this timer has no limit")
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrival => {
                let caller = self.arrived;
                self.arrived += 1;
                let timeout = self.after(now, self.patience, Event::HangsUp { caller });
                self.waiting.insert(caller, (now, timeout));
                self.queue.push_back(caller);
                if self.arrived < CALLS {
                    let delay = self.random.exponential(self.between_arrivals);
                    self.after(now, delay, Event::Arrival);
                }
            }
            Event::Done => self.idle_agents += 1,
            // Answered in the same millisecond: nothing to do.
            Event::HangsUp { caller } => {
                self.lost += u64::from(self.waiting.remove(&caller).is_some())
            }
        }
        while self.idle_agents > 0 {
            let Some(caller) = self.queue.pop_front() else { return };
            let Some((since, timeout)) = self.waiting.remove(&caller) else { continue };
            self.timer.cancel(timeout);
            self.idle_agents -= 1;
            self.served += 1;
            self.total_wait += now - since;
            let service = self.random.exponential(SERVICE);
            self.after(now, service, Event::Done);
        }
    }
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
    println!("agents  load   patient callers wait  (theory)   impatient callers lost");
    for (agents, load) in [(1, 0.5), (2, 0.7), (8, 0.7)] {
        let (lost, wait) = CallCentre::run(agents, load, Duration::from_secs(1 << 40));
        let expected = theory(agents, load);
        let (impatient, _) = CallCentre::run(agents, load, Duration::from_secs(60));
        let seconds = [wait, expected].map(|duration| duration.as_secs_f64());
        println!(
            "{agents:6}  {load:4.2} {:18.1} s {:8.1} s {:20.1} %",
            seconds[0],
            seconds[1],
            impatient * 100.0
        );
        assert!(lost == 0.0 && impatient > 0.0);
        assert!(
            (seconds[0] / seconds[1] - 1.0).abs() < 0.1,
            "further from theory than chance allows"
        );
    }
}
