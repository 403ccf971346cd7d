//! A discrete-event simulation on `LocalTimer`: no clock, no threads; time jumps from event to event.
//!
//! A call centre, which is where the theory comes from. First with patient callers: an M/M/c queue (Poisson
//! arrivals, exponential calls, c agents), whose waiting times are compared with Erlang's formula. Then with
//! callers who hang up after a timeout and call again later: the timeout is scheduled with every call and
//! cancelled when an agent answers, as it is in a server.
//!
//! ```text
//! cargo run --release --example simulation
//! ```
//!
//! Exits with an error if a result is further from theory than chance allows.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Duration;
use tickwheel::{Key, LocalTimer, Time};

/// The mean length of a call.
const SERVICE: Duration = Duration::from_secs(180);
/// Every time is rounded up to this: short enough, against the seconds between two calls, not to show in
/// the results.
const TICK: Duration = Duration::from_millis(1);
/// How long impatient callers wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// One system to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Servers.
    pub(crate) servers: usize,
    /// Offered load as a part of what the servers can do.
    pub(crate) load: f64,
    /// Clients that arrive.
    pub(crate) arrivals: usize,
    /// How long a client waits for a server before it gives up; `None` for ever.
    pub(crate) patience: Option<Duration>,
    /// How often a client that gave up comes back.
    pub(crate) retries: u32,
}

/// What happened in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Requests that found a server, at once or after waiting.
    pub(crate) served: usize,
    /// Those that had to wait.
    pub(crate) waited: usize,
    /// Requests that gave up and came back.
    pub(crate) retried: usize,
    /// Clients that gave up for good.
    pub(crate) lost: usize,
    /// Mean time from request to service, of those served.
    pub(crate) mean_wait: Duration,
    /// Busy servers on average.
    pub(crate) busy: f64,
    /// Events handled.
    pub(crate) events: usize,
    /// Virtual time at the end.
    pub(crate) end: Time,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival,
    /// A server is done.
    Done,
    /// The client in this place has waited for too long.
    GivesUp {
        client: usize,
    },
    /// It tries again.
    Returns {
        client: usize,
    },
}

/// A client between its arrival and its end; places are used again.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    since: Time,
    tries: u32,
    timeout: Option<Key<Event>>,
    waiting: bool,
    /// Tells the uses of a place apart, for those who left the queue from its middle.
    visit: u64,
}

/// xorshift64*, good enough for exponential times.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-self.uniform().ln())
    }
}

struct Simulation {
    scenario: Scenario,
    between_arrivals: Duration,
    random: Random,
    arrived: usize,
    idle: usize,
    clients: Vec<Client>,
    free: Vec<usize>,
    /// Who waits, in order of arrival: place and visit. Those who gave up are passed over.
    queue: VecDeque<(usize, u64)>,
    total_wait: Duration,
    total_service: Duration,
    outcome: Outcome,
}

/// Runs a scenario to its end.
pub(crate) fn simulate(scenario: Scenario, seed: u64) -> Outcome {
    let rate = scenario.load * scenario.servers as f64;
    let mut simulation = Simulation {
        scenario,
        between_arrivals: SERVICE.div_f64(rate),
        random: Random(seed),
        arrived: 0,
        idle: scenario.servers,
        clients: Vec::new(),
        free: Vec::new(),
        queue: VecDeque::new(),
        total_wait: Duration::ZERO,
        total_service: Duration::ZERO,
        outcome: Outcome::default(),
    };
    let mut timer = LocalTimer::new(TICK).expect("1ms is a valid tick");
    simulation.after(&mut timer, Time::ZERO, Duration::ZERO, Event::Arrival);
    while let Some(now) = timer.next_deadline() {
        let polled = timer.poll_with(now, usize::MAX, |timer, expired| {
            // An event happens at its own time: a cancelled timeout may have called for an earlier poll.
            simulation.handle(timer, expired.deadline, expired.payload);
        });
        simulation.outcome.events += polled.fired;
        simulation.outcome.end = now;
    }
    let mut outcome = simulation.outcome;
    outcome.mean_wait = simulation.total_wait.div_f64(outcome.served.max(1) as f64);
    outcome.busy =
        simulation.total_service.as_secs_f64() / (outcome.end - Time::ZERO).as_secs_f64();
    outcome
}

impl Simulation {
    fn after(
        &self,
        timer: &mut LocalTimer<Event>,
        now: Time,
        delay: Duration,
        event: Event,
    ) -> Key<Event> {
        timer.schedule(now, delay, event).expect("there is no limit")
    }

    fn handle(&mut self, timer: &mut LocalTimer<Event>, now: Time, event: Event) {
        match event {
            Event::Arrival => {
                self.arrived += 1;
                if self.arrived < self.scenario.arrivals {
                    let delay = self.random.exponential(self.between_arrivals);
                    self.after(timer, now, delay, Event::Arrival);
                }
                let client = self.free.pop().unwrap_or(self.clients.len());
                if client == self.clients.len() {
                    self.clients.push(Client::default());
                }
                self.clients[client].tries = 0;
                self.request(timer, now, client);
            }
            Event::Returns { client } => self.request(timer, now, client),
            Event::GivesUp { client } => self.give_up(timer, now, client),
            Event::Done => {
                self.idle += 1;
                self.serve_next(timer, now);
            }
        }
    }

    fn request(&mut self, timer: &mut LocalTimer<Event>, now: Time, client: usize) {
        let timeout = self
            .scenario
            .patience
            .map(|patience| self.after(timer, now, patience, Event::GivesUp { client }));
        let place = &mut self.clients[client];
        (place.since, place.timeout, place.waiting) = (now, timeout, true);
        place.visit += 1;
        self.queue.push_back((client, place.visit));
        if self.idle == 0 {
            self.outcome.waited += 1;
        }
        self.serve_next(timer, now);
    }

    fn serve_next(&mut self, timer: &mut LocalTimer<Event>, now: Time) {
        while self.idle > 0 {
            let Some((client, visit)) = self.queue.pop_front() else { return };
            let place = &mut self.clients[client];
            if place.visit != visit || !place.waiting {
                continue;
            }
            place.waiting = false;
            if let Some(key) = place.timeout.take() {
                assert!(timer.cancel(key).won(), "who still waits has not timed out");
            }
            self.total_wait += now - place.since;
            self.free.push(client);
            self.idle -= 1;
            self.outcome.served += 1;
            let service = self.random.exponential(SERVICE);
            self.total_service += service;
            self.after(timer, now, service, Event::Done);
        }
    }

    fn give_up(&mut self, timer: &mut LocalTimer<Event>, now: Time, client: usize) {
        let place = &mut self.clients[client];
        (place.waiting, place.timeout) = (false, None);
        if place.tries == self.scenario.retries {
            self.outcome.lost += 1;
            self.free.push(client);
            return;
        }
        place.tries += 1;
        self.outcome.retried += 1;
        // Exponential backoff, with jitter so that clients who gave up together come back apart.
        let backoff = SERVICE * (1 << place.tries);
        let delay = self.random.exponential(backoff);
        self.after(timer, now, delay, Event::Returns { client });
    }
}

/// The probability that an arrival has to wait, and the mean wait (Erlang C).
pub(crate) fn erlang_c(servers: usize, load: f64) -> (f64, Duration) {
    let offered = load * servers as f64;
    // Erlang B by its recursion, then C from B.
    let blocking = (1..=servers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waiting = blocking / (1.0 - load * (1.0 - blocking));
    (waiting, SERVICE.mul_f64(waiting / (servers as f64 * (1.0 - load))))
}

/// Simulates everything, prints a table if asked to, and says how far theory and result are apart at most.
pub(crate) fn run(arrivals: usize, print: bool) -> Result<f64, String> {
    let say = |line: String| {
        if print {
            println!("{line}")
        }
    };
    say(format!("Patient callers, {arrivals} calls of {SERVICE:?} on average (M/M/c queue)"));
    say("agents  load | must wait  theory | mean wait    theory |  busy  theory".to_owned());
    let mut worst: f64 = 0.0;
    for (servers, load) in [(1, 0.5), (1, 0.8), (2, 0.7), (8, 0.7), (32, 0.85)] {
        let scenario = Scenario { servers, load, arrivals, patience: None, retries: 0 };
        let outcome = simulate(scenario, 0x9e37_79b9_7f4a_7c15 + servers as u64);
        let (must_wait, mean_wait) = erlang_c(servers, load);
        let share = outcome.waited as f64 / outcome.served as f64;
        say(format!(
            "{servers:6}  {load:.2} | {share:9.4}  {must_wait:6.4} | {:7.1} s {:7.1} s | {:5.2}  {:6.2}",
            outcome.mean_wait.as_secs_f64(),
            mean_wait.as_secs_f64(),
            outcome.busy,
            load * servers as f64,
        ));
        if outcome.served != arrivals || outcome.lost > 0 {
            return Err(format!("{} of {arrivals} clients were served", outcome.served));
        }
        for (name, found, theory) in [
            ("share of those who wait", share, must_wait),
            ("mean wait", outcome.mean_wait.as_secs_f64(), mean_wait.as_secs_f64()),
            ("busy servers", outcome.busy, load * servers as f64),
        ] {
            let off = (found / theory - 1.0).abs();
            worst = worst.max(off);
            // Waits are correlated, the more the higher the load: far from the root of the count.
            if off > 0.10 {
                let what = format!("{servers} agents at {load}: {name}");
                return Err(format!("{what} is {found:.4}, not {theory:.4}"));
            }
        }
    }
    impatient(arrivals, &say)?;
    Ok(worst)
}

/// Overload with timeouts and retries: no formula, but a balance that must come out to the client.
fn impatient(arrivals: usize, say: &impl Fn(String)) -> Result<(), String> {
    say(format!("\n8 agents, callers hang up after {PATIENCE:?} and call again up to 3 times"));
    say("load |  served  called again    lost | mean wait | busy |  events".to_owned());
    let mut last_lost = 0;
    for load in [0.8, 1.0, 1.2, 1.5] {
        let patience = Some(PATIENCE);
        let scenario = Scenario { servers: 8, load, arrivals, patience, retries: 3 };
        let outcome = simulate(scenario, 0xdead_beef);
        let Outcome { served, retried, lost, mean_wait, busy, events, .. } = outcome;
        say(format!(
            "{load:.2} | {served:7}  {retried:12} {lost:7} | {:7.1} s | {busy:.2} | {events:7}",
            mean_wait.as_secs_f64(),
        ));
        // Every event is accounted for: arrivals, ends of calls, hang-ups, returns.
        let balance = arrivals + served + (retried + lost) + retried;
        if served + lost != arrivals || events != balance {
            return Err(format!("{served} served and {lost} lost of {arrivals}, {events} events"));
        }
        if mean_wait > PATIENCE || busy > 8.0 || lost < last_lost {
            return Err(format!("impossible at load {load}: {outcome:?}"));
        }
        last_lost = lost;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(200_000, true) {
        Ok(worst) => {
            println!("\nOK: within {:.1} % of theory", worst * 100.0);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}
