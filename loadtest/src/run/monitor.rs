//! Watches a run: takes samples for the charts, shows progress, ends the run in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::producer::Live;
use crate::interrupt::Interrupt;
use crate::ledger::table::Ledger;
use crate::machine;
use crate::numbers::{bytes, rate};
use crate::outcome::Sample;
use crate::progress::Progress;

/// How often the monitor looks up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Samples wanted over a whole run; a chart shows no more.
const SAMPLES: u32 = 600;
/// Finest distance of samples.
const SAMPLE_AT_LEAST: Duration = Duration::from_millis(100);
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
        let sample_every = (self.duration / SAMPLES).max(SAMPLE_AT_LEAST);
        let mut next_sample = sample_every;
        loop {
            let elapsed = self.started.elapsed();
            let interrupted = interrupt.is_raised();
            if interrupted || elapsed >= self.duration {
                self.take(elapsed);
                return interrupted;
            }
            if elapsed >= next_sample {
                next_sample = elapsed + sample_every;
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
            scheduled: sum(|live| live.scheduled.get()),
            cancelled: sum(|live| live.cancelled.get()),
            fired: self.ledger.fired_so_far(),
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
            rate(per_second(last.cancelled, before.cancelled)),
            rate(per_second(last.fired, before.fired)),
            rate(last.scheduled.saturating_sub(last.cancelled + last.fired) as f64),
            last.resident_bytes.map_or_else(|| "memory n/a".to_owned(), bytes),
        )
    }
}
