//! Replay on the manual clock: worker threads as always, but time stands still until it is turned.
//!
//! The clock goes to every moment at which the model says that something fires, and to every
//! operation's own time. After each firing the engine goes idle, and ledger and model must agree on
//! which timers have fired: none missing, none more. So each timer is proven to fire in its own tick.

use std::time::Instant;

use tickwheel::{ManualClock, Time};

use super::model::Model;
use super::operator::{Answer, Operator};
use super::plan::{Plan, Played, line, micros_to_ns, open_ledger};
use crate::failure::Failure;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::ledger::table::LedgerClock;
use crate::measure::nanos;
use crate::outcome::Sample;
use crate::progress::Progress;
use crate::settings::engine::EngineSettings;
use crate::workload::{Action, Op};

pub(super) fn play(
    ops: &[Op],
    timers: usize,
    plan: &Plan<'_>,
    engine: &EngineSettings,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Played, Failure> {
    let clock = ManualClock::new();
    let (ledger, writer) = open_ledger(LedgerClock::Manual(clock.clone()), timers, engine)?;
    let timer = Operator::engine(engine, Some(clock.clone()), &ledger)?;
    let model = Model::new(nanos(engine.tick), engine.max_pending.unwrap_or(usize::MAX));
    let mut stage =
        Stage { operator: Operator::new(timer, &ledger, writer), model, clock, interrupt };
    let started = Instant::now();
    let mut samples = vec![Sample::default()];
    let sample_every = (ops.len() / SAMPLES).max(1);

    let mut done = 0;
    for op in ops {
        if !stage.step(done, op)? {
            break;
        }
        done += 1;
        let operator = &stage.operator;
        progress.at(done as u64, || line(done, ops.len(), operator, &operator.ledger));
        if done % sample_every == 0 {
            samples.push(stage.sample());
        }
    }
    let interrupted = done < ops.len();
    if !interrupted {
        progress.phase("lingering");
        let last = ops.last().map_or(0, |op| micros_to_ns(op.time_us));
        stage.turn_to(last.saturating_add(nanos(plan.linger)));
    }
    samples.push(stage.sample());
    progress.phase("stopping the engine");
    let returned = stage.operator.stop()?;
    stage.expect("timers returned by stop", returned.len() as u64, stage.model.pending() as u64);
    let operator = stage.operator;
    let seconds = started.elapsed().as_secs_f64();
    let stats = operator.timer.stats();
    Ok(Played { ledger, stats, returned, counts: operator.counts, samples, seconds, interrupted })
}

/// Samples wanted over the whole replay.
const SAMPLES: usize = 300;

struct Stage<'a> {
    operator: Operator,
    model: Model,
    clock: ManualClock,
    interrupt: &'a Interrupt,
}

impl Stage<'_> {
    /// Turns the clock to the operation's time, does it, and compares; `false` if interrupted.
    fn step(&mut self, done: usize, op: &Op) -> Result<bool, Failure> {
        if !self.turn_to(micros_to_ns(op.time_us)) {
            return Ok(false);
        }
        let answer = self.operator.apply(op)?;
        let id = op.id;
        let (yes, no, expected) = match op.action {
            Action::Schedule { delay_us } => {
                let accepted = self.model.schedule(id, micros_to_ns(delay_us));
                (Answer::Accepted, Answer::Refused, accepted)
            }
            Action::Reschedule { delay_us } => {
                (Answer::Done, Answer::Gone, self.model.reschedule(id, micros_to_ns(delay_us)))
            }
            Action::Cancel => (Answer::Done, Answer::Gone, self.model.cancel(id)),
        };
        let expected = if expected { yes } else { no };
        if answer != expected {
            self.breach(format!(
                "operation {} ({:?} of id {id} at {} us) was answered {answer:?}, expected \
                 {expected:?}",
                done + 1,
                op.action,
                op.time_us,
            ));
        }
        // What is due at once fires before the next line, so that its outcome is certain.
        Ok(self.turn_to(micros_to_ns(op.time_us)))
    }

    /// Turns the clock to `to_ns`, with a stop at every firing; `false` if interrupted.
    fn turn_to(&mut self, to_ns: u64) -> bool {
        while let Some(at_ns) = self.model.next_firing(to_ns) {
            if self.interrupt.is_raised() {
                return false;
            }
            self.set(at_ns);
            self.operator.timer.wait_idle();
            for id in self.model.advance(at_ns) {
                if !self.operator.has_fired(id) {
                    self.breach(format!("id {id} was due at {at_ns} ns and has not fired"));
                }
            }
            self.expect(
                &format!("timers fired up to {at_ns} ns"),
                self.operator.ledger.fired_so_far(),
                self.model.fired(),
            );
        }
        self.set(to_ns);
        let _none = self.model.advance(to_ns);
        !self.interrupt.is_raised()
    }

    fn set(&self, to_ns: u64) {
        if self.clock.now().as_nanos() < to_ns {
            self.clock.set(Time::from_nanos(to_ns));
        }
    }

    fn expect(&self, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.breach(format!("{what}: {found}, expected {expected}"));
        }
    }

    fn breach(&self, text: String) {
        self.operator.ledger.breach_text(Breach::Mismatch, text);
    }

    fn sample(&self) -> Sample {
        self.operator.sample(self.clock.now().as_nanos() as f64 / 1e9)
    }
}
