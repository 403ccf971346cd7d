//! Replays operations: on the real clock, each at its own time, or on a clock turned by hand.
//!
//! On the real clock the ledger judges. On the manual one the workers are threads as always, but time stands still
//! until it is turned. The clock goes to every moment at which the model says that something fires, and to every
//! operation's own time. After each firing the engine goes idle, and ledger and model must agree on which timers
//! have fired: none missing, none more. So each timer is proven to fire in its own tick.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::{ManualClock, Time};

use super::model::Model;
use super::operator::{Answer, Counts, Operator};
use crate::failure::Failure;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::ledger::table::{Ledger, LedgerClock, Ticket};
use crate::ledger::writer::Writer;
use crate::measure::nanos;
use crate::outcome::Sample;
use crate::progress::Progress;
use crate::settings::engine::EngineSettings;
use crate::workload::{Action, Op};

/// What to replay, and how.
pub(crate) struct Plan<'a> {
    pub(crate) file: &'a Path,
    pub(crate) fast: bool,
    pub(crate) linger: Duration,
    pub(crate) quiet: bool,
}

/// What is left after the last operation and `stop`.
pub(super) struct Played {
    pub(super) ledger: Arc<Ledger>,
    pub(super) stats: tickwheel::Stats,
    pub(super) returned: Vec<Ticket>,
    pub(super) counts: Counts,
    pub(super) samples: Vec<Sample>,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

/// Longest sleep between two looks at Ctrl-C and the progress line.
const LONGEST_NAP: Duration = Duration::from_millis(100);
/// Distance of samples on the real clock, in seconds.
const SAMPLE_EVERY: f64 = 0.1;
/// Samples wanted over a whole replay on the manual clock.
const SAMPLES: usize = 300;
/// What to do where there is no memory for the timers.
const CURE: &str = "use a shorter workload file";

/// Microseconds of a workload file in nanoseconds, saturating.
fn time_ns(op: &Op) -> u64 {
    op.time_us.saturating_mul(1000)
}

pub(super) fn play(
    ops: &[Op],
    plan: &Plan<'_>,
    engine: &EngineSettings,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Played, Failure> {
    let timers = ops.iter().filter(|op| matches!(op.action, Action::Schedule { .. })).count();
    let manual = plan.fast.then(ManualClock::new);
    let started = Instant::now();
    let clock = manual.clone().map_or(LedgerClock::Real(started), LedgerClock::Manual);
    let ledger = Arc::new(Ledger::open(clock, 1, timers, engine.shards, CURE)?);
    let writer = Writer::new(&ledger, 0).map_err(Failure::memory("the ledger", CURE))?;
    let timer = Operator::engine(engine, manual.clone(), &ledger)?;
    let most = engine.max_pending.unwrap_or(usize::MAX);
    let mut stage = Stage {
        operator: Operator::new(timer, &ledger, writer),
        by_hand: manual.map(|clock| (clock, Model::new(nanos(engine.tick), most))),
        samples: vec![Sample::default()],
        started: Instant::now(),
        interrupt,
        progress,
        done: 0,
        all: ops.len(),
    };
    for op in ops {
        if !stage.step(op)? {
            break;
        }
        stage.done += 1;
    }
    let last = ops.last().map_or(0, time_ns);
    let to_the_end =
        stage.done == ops.len() && stage.reach(last.saturating_add(nanos(plan.linger)));
    stage.sample();
    stage.progress.phase("stopping the engine");
    let Stage { operator, by_hand, samples, started, .. } = stage;
    let returned = operator.stop()?;
    if let Some((_, model)) = by_hand {
        let (found, expected) = (returned.len() as u64, model.pending() as u64);
        expect(&ledger, "timers returned by stop", found, expected);
    }
    let (seconds, stats) = (started.elapsed().as_secs_f64(), operator.timer.stats());
    let (counts, interrupted) = (operator.counts, !to_the_end);
    Ok(Played { ledger, stats, returned, counts, samples, seconds, interrupted })
}

struct Stage<'a> {
    operator: Operator,
    /// The clock that is turned, and what has to come of it.
    by_hand: Option<(ManualClock, Model)>,
    samples: Vec<Sample>,
    started: Instant,
    interrupt: &'a Interrupt,
    progress: &'a mut Progress,
    done: usize,
    all: usize,
}

impl Stage<'_> {
    /// Goes to the operation's time, does it, and compares; `false` if an early end is asked for.
    fn step(&mut self, op: &Op) -> Result<bool, Failure> {
        if !self.reach(time_ns(op)) {
            return Ok(false);
        }
        let answer = self.operator.apply(op)?;
        let Some((_, model)) = &mut self.by_hand else { return Ok(true) };
        let id = op.id;
        let ns = |micros: u64| micros.saturating_mul(1000);
        let (yes, no, expected) = match op.action {
            Action::Schedule { delay_us } => {
                (Answer::Accepted, Answer::Refused, model.schedule(id, ns(delay_us)))
            }
            Action::Reschedule { delay_us } => {
                (Answer::Done, Answer::Gone, model.reschedule(id, ns(delay_us)))
            }
            Action::Cancel => (Answer::Done, Answer::Gone, model.cancel(id)),
        };
        let expected = if expected { yes } else { no };
        if answer != expected {
            let text = format!(
                "operation {} ({:?} of id {id} at {} us) was answered {answer:?}, expected \
                 {expected:?}",
                self.done + 1,
                op.action,
                op.time_us,
            );
            self.operator.ledger.breach_text(Breach::Mismatch, text);
        }
        if self.done % (self.all / SAMPLES).max(1) == 0 {
            self.sample();
        }
        // What is due at once fires before the next line, so that its outcome is certain.
        Ok(self.reach(time_ns(op)))
    }

    /// Goes to a moment of the replay's clock; `false` if an early end is asked for.
    fn reach(&mut self, to_ns: u64) -> bool {
        if self.by_hand.is_some() {
            self.tell();
            return self.turn_to(to_ns);
        }
        let moment = Duration::from_nanos(to_ns);
        loop {
            if self.interrupt.is_raised() {
                return false;
            }
            let elapsed = self.started.elapsed();
            let last = self.samples.last().map_or(0.0, |last| last.at_s);
            if elapsed.as_secs_f64() - last >= SAMPLE_EVERY {
                self.sample();
            }
            self.tell();
            if elapsed >= moment {
                return true;
            }
            std::thread::sleep((moment - elapsed).min(LONGEST_NAP));
        }
    }

    /// Turns the clock, with a stop at every firing.
    fn turn_to(&mut self, to_ns: u64) -> bool {
        let Some((clock, model)) = &mut self.by_hand else { return true };
        let operator = &self.operator;
        let set = |to_ns: u64| {
            if clock.now().as_nanos() < to_ns {
                clock.set(Time::from_nanos(to_ns));
            }
        };
        while let Some(at_ns) = model.next_firing(to_ns) {
            if self.interrupt.is_raised() {
                return false;
            }
            set(at_ns);
            operator.timer.wait_idle();
            for id in model.advance(at_ns) {
                if !operator.has_fired(id) {
                    let text = format!("id {id} was due at {at_ns} ns and has not fired");
                    operator.ledger.breach_text(Breach::Mismatch, text);
                }
            }
            let what = format!("timers fired up to {at_ns} ns");
            expect(&operator.ledger, &what, operator.ledger.fired_so_far(), model.fired());
        }
        set(to_ns);
        let _none = model.advance(to_ns);
        !self.interrupt.is_raised()
    }

    /// A line for people.
    fn tell(&mut self) {
        let (done, all, operator) = (self.done, self.all, &self.operator);
        self.progress.at(done as u64, || {
            format!(
                "{done}/{all} operations  {} scheduled  {} cancelled  {} fired",
                operator.counts.totals.accepted(),
                operator.counts.totals.cancelled,
                operator.ledger.fired_so_far(),
            )
        });
    }

    fn sample(&mut self) {
        self.samples.push(self.operator.sample());
    }
}

fn expect(ledger: &Ledger, what: &str, found: u64, expected: u64) {
    if found != expected {
        ledger.breach_text(Breach::Mismatch, format!("{what}: {found}, expected {expected}"));
    }
}
