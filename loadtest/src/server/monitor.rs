//! Watches a run against the server: samples for the charts, progress, the end of the load and of the run.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::Signals;
use super::totals::Live;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::numbers::{bytes, count, rate};
use crate::progress::Progress;
use crate::settings::server::ServerSettings;

/// How often the monitor looks up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Samples wanted over a whole run; a chart shows no more.
const SAMPLES: u32 = 600;
/// Finest distance of samples.
const SAMPLE_AT_LEAST: Duration = Duration::from_millis(100);
/// Span over which the progress line computes its rates.
const RATE_OVER: usize = 10;

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the start.
    pub(crate) at_s: f64,
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    /// Bytes that the clients have sent and received.
    pub(crate) bytes: u64,
    pub(crate) server_bytes: Option<u64>,
}

impl Sample {
    pub(crate) fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

/// Takes samples until the clients have ended.
pub(super) struct Monitor<'a> {
    settings: &'a ServerSettings,
    live: Vec<Arc<Live>>,
    server: u32,
    started: Instant,
    /// When every connection had been opened once: the load counts from there.
    complete: Option<Duration>,
    pub(super) samples: Vec<Sample>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(settings: &'a ServerSettings, live: Vec<Arc<Live>>, server: u32) -> Self {
        let (started, samples) = (Instant::now(), Vec::new());
        let mut new = Self { settings, live, server, started, complete: None, samples };
        new.take(Duration::ZERO);
        new
    }

    /// Seconds so far.
    pub(super) fn seconds(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| last.at_s)
    }

    /// Watches until all clients have ended by themselves (`false`), or until an early end is asked for
    /// (`true`), of which they are told.
    pub(super) fn watch<T>(
        &mut self,
        clients: &[JoinHandle<T>],
        signals: &Signals,
        interrupt: &Interrupt,
        progress: &mut Progress,
    ) -> bool {
        let length = self.settings.duration + self.settings.idle;
        let sample_every = (length / SAMPLES).max(SAMPLE_AT_LEAST);
        let mut next_sample = sample_every;
        loop {
            let elapsed = self.started.elapsed();
            let interrupted = interrupt.is_raised();
            if interrupted || clients.iter().all(JoinHandle::is_finished) {
                signals.halt.raise();
                self.take(elapsed);
                return interrupted;
            }
            if self.complete.is_none() && self.opened() >= self.settings.connections as u64 {
                self.complete = Some(elapsed);
            }
            if self.is_winding_down(elapsed) {
                signals.wind_down.raise();
            }
            if elapsed >= next_sample {
                next_sample = elapsed + sample_every;
                self.take(elapsed);
                let position = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                progress.at(position, || self.line());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn opened(&self) -> u64 {
        self.live.iter().map(|live| live.opened.get()).sum()
    }

    fn is_winding_down(&self, elapsed: Duration) -> bool {
        self.complete.is_some_and(|complete| elapsed >= complete + self.settings.duration)
    }

    fn take(&mut self, elapsed: Duration) {
        let sum = |count: fn(&Live) -> u64| self.live.iter().map(|live| count(live)).sum();
        self.samples.push(Sample {
            at_s: elapsed.as_secs_f64(),
            // What ends a connection first: its begin cannot be missing then.
            closed: sum(|live| live.closed.get()),
            opened: self.opened(),
            bytes: sum(|live| live.bytes.get()),
            server_bytes: machine::resident_bytes_of(self.server),
        });
    }

    fn line(&self) -> String {
        let last = self.samples.last().copied().unwrap_or_default();
        let before = self.samples[self.samples.len().saturating_sub(1 + RATE_OVER)];
        let seconds = (last.at_s - before.at_s).max(1e-9);
        let per_second = |now: u64, then: u64| rate(now.saturating_sub(then) as f64 / seconds);
        let phase = match self.complete {
            None => "opening",
            Some(_) if self.is_winding_down(Duration::from_secs_f64(last.at_s)) => "all silent",
            Some(_) => "full load",
        };
        format!(
            "{:.1} s {phase:<10}  {} open  {} closed ({}/s)  {}B/s  server {}",
            last.at_s,
            count(last.open()),
            count(last.closed),
            per_second(last.closed, before.closed),
            per_second(last.bytes, before.bytes),
            last.server_bytes.map_or_else(|| "memory n/a".to_owned(), bytes),
        )
    }
}
