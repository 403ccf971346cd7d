//! Replay on the real clock, each operation at its own time.

use std::time::{Duration, Instant};

use super::operator::Operator;
use super::plan::{Plan, Played, line, micros_to_ns, open_ledger};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::ledger::table::LedgerClock;
use crate::outcome::Sample;
use crate::progress::Progress;
use crate::settings::engine::EngineSettings;
use crate::workload::Op;

/// Longest sleep between two looks at Ctrl-C and the progress line.
const LONGEST_NAP: Duration = Duration::from_millis(100);
/// Distance of samples.
const SAMPLE_EVERY: f64 = 0.1;

pub(super) fn play(
    ops: &[Op],
    timers: usize,
    plan: &Plan<'_>,
    engine: &EngineSettings,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Played, Failure> {
    let started = Instant::now();
    let (ledger, writer) = open_ledger(LedgerClock::Real(started), timers, engine)?;
    let timer = Operator::engine(engine, None, &ledger)?;
    let mut stage = Stage {
        operator: Operator::new(timer, &ledger, writer),
        samples: vec![Sample::default()],
        started: Instant::now(),
        interrupt,
        progress,
        all: ops.len(),
    };
    let mut done = 0;
    let mut interrupted = false;
    for op in ops {
        if !stage.wait_until(Duration::from_nanos(micros_to_ns(op.time_us)), done) {
            interrupted = true;
            break;
        }
        stage.operator.apply(op)?;
        done += 1;
    }
    let last = ops.last().map_or(0, |op| micros_to_ns(op.time_us));
    if !interrupted {
        let end = Duration::from_nanos(last).saturating_add(plan.linger);
        interrupted = !stage.wait_until(end, done);
    }
    stage.sample();
    stage.progress.phase("stopping the engine");
    let returned = stage.operator.stop()?;
    let Stage { operator, samples, started, .. } = stage;
    let seconds = started.elapsed().as_secs_f64();
    let stats = operator.timer.stats();
    Ok(Played { ledger, stats, returned, counts: operator.counts, samples, seconds, interrupted })
}

struct Stage<'a> {
    operator: Operator,
    samples: Vec<Sample>,
    started: Instant,
    interrupt: &'a Interrupt,
    progress: &'a mut Progress,
    all: usize,
}

impl Stage<'_> {
    /// Sleeps until `moment` after the start; `false` if an early end is asked for.
    fn wait_until(&mut self, moment: Duration, done: usize) -> bool {
        loop {
            if self.interrupt.is_raised() {
                return false;
            }
            let elapsed = self.started.elapsed();
            let since_sample = elapsed.as_secs_f64() - self.samples.last().map_or(0.0, |s| s.at_s);
            if since_sample >= SAMPLE_EVERY {
                self.sample();
            }
            let (operator, all) = (&self.operator, self.all);
            self.progress.at(done as u64, || line(done, all, operator, &operator.ledger));
            if elapsed >= moment {
                return true;
            }
            std::thread::sleep((moment - elapsed).min(LONGEST_NAP));
        }
    }

    fn sample(&mut self) {
        self.samples.push(self.operator.sample(self.started.elapsed().as_secs_f64()));
    }
}
