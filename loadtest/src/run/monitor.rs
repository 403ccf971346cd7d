//! Watches a run: takes samples for the charts, shows progress, ends the run in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::producer::Live;
use crate::interrupt::Interrupt;
use crate::ledger::table::Ledger;
use crate::machine;
use crate::numbers::{bytes, rate};
use crate::outcome::{LOOK_EVERY, Sample, sample_every};
use crate::progress::Progress;

/// Span over which the progress line computes its rates.
const RATE_OVER: usize = 10;

/// Takes samples until the time is over.
pub(crate) struct Monitor<'a> {
    ledger: &'a Ledger,
    producers: Vec<Arc<Live>>,
    started: Instant,
    duration: Duration,
    pub(crate) samples: Vec<Sample>,
    pub(crate) resident_before: Option<u64>,
}

impl<'a> Monitor<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        producers: Vec<Arc<Live>>,
        resident_before: Option<u64>,
        duration: Duration,
    ) -> Self {
        let start = Sample { resident_bytes: machine::resident_bytes(), ..Sample::default() };
        let samples = vec![start];
        Self { ledger, producers, started: Instant::now(), duration, samples, resident_before }
    }

    /// Seconds of load so far.
    pub(crate) fn seconds(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| last.at_s)
    }

    /// Watches until the duration is over (`false`) or an early end is asked for (`true`).
    pub(crate) fn watch(&mut self, interrupt: &Interrupt, progress: &mut Progress) -> bool {
        let sample_every = sample_every(self.duration);
        loop {
            let elapsed = self.started.elapsed();
            let interrupted = interrupt.is_raised();
            if interrupted || elapsed >= self.duration {
                self.take(elapsed);
                return interrupted;
            }
            if elapsed.as_secs_f64() >= self.seconds() + sample_every {
                self.take(elapsed);
                let position = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                progress.at(position, || self.line());
            }
            std::thread::sleep(LOOK_EVERY.min(self.duration - elapsed));
        }
    }

    fn take(&mut self, elapsed: Duration) {
        let sum = |count: fn(&Live) -> u64| self.producers.iter().map(|live| count(live)).sum();
        self.samples.push(Sample {
            at_s: elapsed.as_secs_f64(),
            begun: sum(|live| live.scheduled.get()),
            ended: sum(|live| live.cancelled.get()),
            third: self.ledger.fired_so_far(),
            resident_bytes: machine::resident_bytes(),
        });
    }

    fn line(&self) -> String {
        let last = self.samples.last().copied().unwrap_or_default();
        let before = self.samples[self.samples.len().saturating_sub(1 + RATE_OVER)];
        let seconds = (last.at_s - before.at_s).max(1e-9);
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        format!(
            "{:.1}/{} s  {} pairs/s  {} fired/s  {} pending  {}",
            last.at_s,
            self.duration.as_secs_f64(),
            rate(per_second(last.ended, before.ended)),
            rate(per_second(last.third, before.third)),
            rate(last.begun.saturating_sub(last.ended + last.third) as f64),
            last.resident_bytes.map_or_else(|| "memory n/a".to_owned(), bytes),
        )
    }
}
