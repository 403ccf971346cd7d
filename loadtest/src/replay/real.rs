//! Replay on the real clock, each operation at its own time.

use std::time::{Duration, Instant};

use super::desk::Desk;
use super::{Plan, Played, line, micros_to_ns, open_books};
use crate::book::BookClock;
use crate::cli::EngineSettings;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::progress::Progress;
use crate::run::Sample;
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
    let (book, lane) = open_books(BookClock::Real(started), timers, engine)?;
    let timer = Desk::engine(engine, None, &book)?;
    let mut stage = Stage {
        desk: Desk::new(timer, &book, lane),
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
        stage.desk.apply(op)?;
        done += 1;
    }
    let last = ops.last().map_or(0, |op| micros_to_ns(op.time_us));
    if !interrupted {
        let end = Duration::from_nanos(last).saturating_add(plan.linger);
        interrupted = !stage.wait_until(end, done);
    }
    stage.sample();
    stage.progress.phase("stopping the engine");
    let returned = stage.desk.stop()?;
    let Stage { desk, samples, started, .. } = stage;
    let seconds = started.elapsed().as_secs_f64();
    let stats = desk.timer.stats();
    Ok(Played { book, stats, returned, desk: desk.counts, samples, seconds, interrupted })
}

struct Stage<'a> {
    desk: Desk,
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
            let (desk, all) = (&self.desk, self.all);
            self.progress.at(done as u64, || line(done, all, desk, &desk.book));
            if elapsed >= moment {
                return true;
            }
            std::thread::sleep((moment - elapsed).min(LONGEST_NAP));
        }
    }

    fn sample(&mut self) {
        let tally = &self.desk.counts.tally;
        self.samples.push(Sample {
            at_s: self.started.elapsed().as_secs_f64(),
            scheduled: tally.accepted(),
            cancelled: tally.cancelled,
            fired: self.desk.book.fired_so_far(),
            resident_bytes: machine::resident_bytes(),
        });
    }
}
