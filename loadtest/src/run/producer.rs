//! The hot loop: one thread that schedules timers and cancels most of them while they are young.
//!
//! Each step ends the oldest timer in flight and schedules a new one. A share of the new ones is left
//! to fire; those wait in a second queue until the ledger shows that their handler has run.

use std::collections::VecDeque;
use std::time::Duration;

use tickwheel::{RawKey, ScheduleErrorKind, Timer};

use super::{Logged, Part};
use crate::driver::{Driver, Flight, Grip, Payload};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::ledger::{Ticket, Writer};
use crate::measure::LiveCount;
use crate::outcome::Counted;
use crate::workload::Action;

/// One call in so many is timed, so that reading the clock does not become the load.
const SAMPLE_EVERY: u64 = 64;
/// Steps that share one reading of the clock. A reading that is a microsecond old makes a timer's
/// bound in the ledger a microsecond earlier than the call, never later. Timers that are left to fire
/// always get a fresh reading.
const CLOCK_EVERY: u64 = 16;
/// Timers left to fire that are looked after for each one added: two or more, so that their queue
/// gets shorter whenever handlers keep up.
const LOOKED_AFTER: usize = 4;
/// Bits of a random number that choose a delay.
const DELAY_BITS: u32 = 12;
/// Longest nap between two paced steps, so that the producer keeps looking whether the run has ended.
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// What a producer publishes for the progress line.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) scheduled: LiveCount,
    pub(super) cancelled: LiveCount,
}

/// What a producer leaves behind.
pub(super) struct ProducerEnd {
    pub(super) counted: Counted,
    /// Timers without a known end: fired, returned by `stop`, or lost.
    pub(super) open: Vec<(RawKey, Ticket)>,
    pub(super) log: Vec<Logged>,
}

fn micros(delay: Duration) -> u64 {
    u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)
}

pub(super) struct Producer<'a, P: Payload, G> {
    driver: Driver<P>,
    part: &'a Part<'a>,
    live: &'a Live,
    young: VecDeque<Flight<G>>,
    left: VecDeque<Flight<G>>,
    /// Below this, 32 random bits mean "leave it to fire".
    leave_below: u64,
    /// Below this, 20 random bits mean "move one as well".
    move_below: u64,
    /// Draws made beforehand, so that the hot loop pays an indexed load instead of an exponential: enough that the
    /// spread is smooth, few enough (64 KiB) to stay in the second-level cache.
    delays: Vec<Duration>,
    rng: fastrand::Rng,
    /// Between two steps of a paced producer; 0 for none.
    interval_ns: f64,
    steps: u64,
    now_ns: u64,
    log: Option<Vec<Logged>>,
}

impl<'a, P: Payload, G: Grip<P>> Producer<'a, P, G> {
    /// Fails if there is no memory for the timers in flight.
    pub(super) fn new(
        timer: Timer<P>,
        writer: Writer,
        live: &'a Live,
        part: &'a Part<'a>,
        number: usize,
    ) -> Result<Self, Failure> {
        let load = part.load;
        let mut young = VecDeque::new();
        young.try_reserve_exact(load.in_flight + 1).map_err(|_| {
            let text = "there is no memory for the timers in flight; lower --in-flight";
            Failure::System(text.to_owned())
        })?;
        let mut rng = fastrand::Rng::with_seed(load.seed.wrapping_add(number as u64));
        let delays = (0..1 << DELAY_BITS)
            .map(|_| load.delay.draw(&mut rng))
            .collect();
        Ok(Self {
            driver: Driver::new(timer, writer),
            part,
            live,
            young,
            left: VecDeque::new(),
            leave_below: ((1.0 - load.cancel_share) * 2f64.powi(32)) as u64,
            move_below: (load.reschedule_share * 2f64.powi(20)) as u64,
            delays,
            rng,
            interval_ns: part
                .rate
                .map_or(0.0, |rate| 1e9 * load.producers as f64 / rate),
            steps: 0,
            now_ns: 0,
            log: load.record.is_some().then(Vec::new),
        })
    }

    /// Produces until the engine is stopped or `halt` is raised.
    pub(super) fn run(mut self, halt: &Interrupt) -> Result<ProducerEnd, Failure> {
        loop {
            if self.interval_ns > 0.0 {
                self.read_clock();
                if let Some(nap) = nap(self.steps, self.interval_ns, self.now_ns) {
                    self.publish();
                    if halt.is_raised() {
                        break;
                    }
                    std::thread::sleep(nap);
                    continue;
                }
            }
            self.steps += 1;
            if self.steps % SAMPLE_EVERY == 0 {
                self.publish();
                self.look_after_left(LOOKED_AFTER);
                if halt.is_raised() {
                    break;
                }
            }
            if !self.step()? {
                break;
            }
        }
        self.publish();
        let flights = self.young.into_iter().chain(self.left);
        let open = flights
            .map(|flight| (flight.grip.key().to_raw(), flight.ticket))
            .collect();
        let (counted, log) = (self.driver.counted, self.log.unwrap_or_default());
        Ok(ProducerEnd { counted, open, log })
    }

    fn publish(&self) {
        self.live.scheduled.set(self.driver.counted.totals.accepted);
        self.live
            .cancelled
            .set(self.driver.counted.totals.cancelled);
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now_ns = self.driver.writer.ledger.now_ns();
    }

    /// Ends one timer and schedules another; whether to go on.
    #[inline]
    fn step(&mut self) -> Result<bool, Failure> {
        let sampled = self.steps % SAMPLE_EVERY == 0;
        let random = self.rng.u64(..);
        if self.young.len() >= self.part.load.in_flight {
            self.end_oldest(sampled);
        }
        if (random >> 32 & 0xF_FFFF) < self.move_below {
            self.move_one();
        }
        let leave =
            (random & 0xFFFF_FFFF) < self.leave_below && self.left.len() < self.part.max_left;
        if leave || self.log.is_some() || self.steps % CLOCK_EVERY == 0 {
            self.read_clock();
        }
        let delay = self.delay(random);
        match self.driver.schedule(self.now_ns, delay, sampled) {
            Ok(flight) => {
                self.note(
                    flight.ticket,
                    Action::Schedule {
                        delay_us: micros(delay),
                    },
                );
                if leave {
                    self.left.push_back(flight);
                    self.look_after_left(LOOKED_AFTER);
                } else {
                    self.young.push_back(flight);
                }
                Ok(true)
            }
            Err(reason) => self.refused(reason),
        }
    }

    #[inline]
    fn delay(&self, random: u64) -> Duration {
        // The top bits; the low ones serve other choices.
        let delay = self.delays[(random >> (u64::BITS - DELAY_BITS)) as usize];
        // A workload file counts microseconds; run what will stand in it.
        if self.log.is_none() {
            delay
        } else {
            Duration::from_micros(micros(delay))
        }
    }

    #[cold]
    fn refused(&mut self, reason: Option<ScheduleErrorKind>) -> Result<bool, Failure> {
        match reason {
            Some(ScheduleErrorKind::Stopped) => return Ok(false),
            Some(ScheduleErrorKind::Start(error)) => {
                return Err(Failure::System(error.to_string()));
            }
            Some(_) if !self.young.is_empty() => self.end_oldest(false),
            // All room is taken by timers that will fire by themselves: let the workers have the core.
            _ => {
                self.look_after_left(self.left.len());
                if self.driver.writer.free.is_empty() && self.young.len() > 1 {
                    self.end_oldest(false);
                }
                std::thread::yield_now();
            }
        }
        Ok(true)
    }

    #[inline]
    fn end_oldest(&mut self, sampled: bool) {
        let Some(flight) = self.young.pop_front() else {
            return;
        };
        if self.log.is_some() {
            self.read_clock();
            self.note(flight.ticket, Action::Cancel);
        }
        if !self.driver.cancel(&flight, sampled) {
            // The ledger will tell what became of it.
            self.look_after(flight);
        }
    }

    /// Moves the timer in the middle of the queue to a new deadline.
    #[cold]
    fn move_one(&mut self) {
        let Some(index) = self.young.len().checked_sub(1).map(|last| last / 2) else {
            return;
        };
        let random = self.rng.u64(..);
        let delay = self.delay(random);
        self.read_clock();
        self.note(
            self.young[index].ticket,
            Action::Reschedule {
                delay_us: micros(delay),
            },
        );
        self.driver
            .reschedule(&self.young[index], self.now_ns, delay);
    }

    /// Looks at up to `count` timers that were left to fire, the longest unlooked-at first.
    fn look_after_left(&mut self, count: usize) {
        for _ in 0..count.min(self.left.len()) {
            if let Some(flight) = self.left.pop_front() {
                self.look_after(flight);
            }
        }
    }

    fn look_after(&mut self, flight: Flight<G>) {
        if !self.driver.reap(&flight) {
            self.left.push_back(flight);
        }
    }

    /// Notes an action that happens at the time last read.
    #[inline]
    fn note(&mut self, ticket: Ticket, action: Action) {
        if let Some(log) = &mut self.log {
            log.push((self.now_ns, ticket, action));
        }
    }
}

/// How long a paced producer sleeps before its next step; `None` if it is due, as after a delay, which it catches up.
fn nap(steps: u64, interval_ns: f64, now_ns: u64) -> Option<Duration> {
    let early_ns = steps as f64 * interval_ns - now_ns as f64;
    (early_ns > 0.0).then(|| Duration::from_nanos(early_ns as u64 + 1).min(LONGEST_NAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_producer_keeps_its_rate_and_catches_up() {
        let interval_ns = 1e6;
        assert_eq!(nap(0, interval_ns, 0), None);
        assert_eq!(
            nap(1, interval_ns, 400_000),
            Some(Duration::from_nanos(600_001))
        );
        let late = |steps: &u64| nap(*steps, interval_ns, 10_000_000).is_none();
        assert_eq!((1..20).take_while(late).count(), 10);
        assert_eq!(nap(1, 1e12, 0), Some(LONGEST_NAP));
    }
}
