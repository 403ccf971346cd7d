//! What every run is measured with: histograms, live counts, samples over time, the cost of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::machine::resident_bytes;
use crate::report::model::{Figure, Timeline, Unit};

/// An empty histogram of nanoseconds up to an hour, within 1 %, about 35 KiB.
///
/// # Panics
///
/// Never: the bounds are constants.
#[must_use]
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are valid constants")
}

/// The duration in nanoseconds, saturating.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A count that one thread publishes for others; on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveCount(AtomicU64);

impl LiveCount {
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // ORDERING: Relaxed; a figure for people, it publishes nothing else.
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // ORDERING: Relaxed, for the reason given in `set`.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed, for the reason given in `set`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the start.
    pub(crate) at_s: f64,
    /// Timers scheduled, or connections opened.
    pub(crate) begun: u64,
    /// Timers cancelled, or connections closed.
    pub(crate) ended: u64,
    /// Timers fired, or bytes of echo.
    pub(crate) third: u64,
    pub(crate) resident_bytes: Option<u64>,
}

/// Measures one phase of a run.
pub(crate) struct Meter {
    pub(crate) samples: Vec<Sample>,
    /// Seconds of load, once the load is over.
    pub(crate) seconds: f64,
    started: Instant,
    sample_every: f64,
    before: Option<(f64, u64)>,
    /// Seconds of CPU and context switches of the load, all threads together.
    cost: Option<(f64, u64)>,
}

impl Meter {
    /// Prepares for a phase of this length: 600 samples because a chart shows no more, and ten a second at most.
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            samples: vec![Sample {
                resident_bytes: resident_bytes(),
                ..Sample::default()
            }],
            seconds: 0.0,
            started: Instant::now(),
            sample_every: (length.as_secs_f64() / 600.0).max(0.1),
            before: usage(),
            cost: None,
        }
    }

    /// Begins the load: what came before was preparation.
    pub(crate) fn begin(&mut self) {
        (self.started, self.before) = (Instant::now(), usage());
    }

    /// Seconds since the begin of the load.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Ends the load with a last sample.
    pub(crate) fn stop(&mut self, at_s: f64, counts: [u64; 3]) {
        self.take(at_s, counts);
        self.seconds = self.elapsed_s();
        let used = usage().zip(self.before);
        self.cost = used.map(|(now, then)| (now.0 - then.0, now.1.saturating_sub(then.1)));
    }

    pub(crate) fn is_due(&self, at_s: f64) -> bool {
        self.samples
            .last()
            .is_none_or(|last| at_s >= last.at_s + self.sample_every)
    }

    pub(crate) fn take(&mut self, at_s: f64, [begun, ended, third]: [u64; 3]) {
        let resident_bytes = resident_bytes();
        self.samples.push(Sample {
            at_s,
            begun,
            ended,
            third,
            resident_bytes,
        });
    }

    /// What a phase has cost.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let (cpu, switches) = self.cost.unzip();
        let cores = cpu.map(|cpu| cpu / self.seconds.max(1e-9));
        let end = resident_bytes();
        let peak = self
            .samples
            .iter()
            .filter_map(|sample| sample.resident_bytes)
            .chain(end)
            .max();
        let figure = |key, label, unit, value: Option<u64>| {
            Figure::new(key, label, unit, value.map(|value| value as f64))
        };
        let (start, bytes) = (self.samples[0].resident_bytes, Unit::Bytes);
        vec![
            Figure::new("cpu", "CPU, all threads", Unit::Cores, cores),
            figure("switches", "context switches", Unit::Count, switches),
            figure(
                "resident_start",
                "resident memory at the start",
                bytes,
                start,
            ),
            figure("resident_peak", "peak memory", bytes, peak),
            figure("resident_end", "resident memory at the end", bytes, end),
        ]
    }

    /// The memory of the process over time.
    pub(crate) fn memory(&self) -> Timeline {
        let points = self.samples.iter();
        let points = points.filter_map(|at| Some((at.at_s, at.resident_bytes? as f64)));
        Timeline {
            key: "resident",
            title: "Resident memory",
            about: "Of the whole process, this program's own record included.",
            unit: Unit::Bytes,
            points: points.collect(),
        }
    }
}

/// Changes of a total per second between neighbouring samples, at the later one.
pub(crate) fn rates(samples: &[Sample], of: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let steps = samples
        .windows(2)
        .filter(|pair| pair[1].at_s - pair[0].at_s > 0.02);
    let rate = |pair: &[Sample]| {
        let change = of(&pair[1]).saturating_sub(of(&pair[0])) as f64;
        (pair[1].at_s, change / (pair[1].at_s - pair[0].at_s))
    };
    steps.map(rate).collect()
}

/// Seconds of CPU and context switches of this process so far, threads that have ended included.
#[cfg(unix)]
fn usage() -> Option<(f64, u64)> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeVal;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    Some((cpu, u64::try_from(switches).ok()?))
}

/// Other systems do not tell.
#[cfg(not(unix))]
fn usage() -> Option<(f64, u64)> {
    None
}
