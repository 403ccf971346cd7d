//! Statistics for the `metrics` facade: whatever recorder the program has installed gets them.
//!
//! Nothing is counted for it: a report copies what the shards count anyway, so timers cost the same with and
//! without it.

use metrics::{Label, Unit};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tickwheel::{DurationHistogram, Key, Period, ScheduleError, ShardStats, Timer, TimerTask};

/// Passes snapshots of statistics on to the facade of the crate `metrics`.
///
/// [`report_every`](Self::report_every) reports an engine from then on. For an event loop, call
/// [`report`](Self::report) every few seconds. Each figure has the label `shard`, and `timer` with the name given here.
/// Counters end in `_total`, times are in seconds. Where no recorder is installed a report does nothing.
///
/// | figure | kind |
/// |---|---|
/// | `tickwheel_timers_{scheduled,fired,cancelled,returned,rescheduled}_total` | counter |
/// | `tickwheel_handler_panics_total`, `tickwheel_executor_refusals_total` | counter |
/// | `tickwheel_turns_total`, `tickwheel_turns_cut_short_total` | counter |
/// | `tickwheel_parks_total`, `tickwheel_wakes_total` | counter |
/// | `tickwheel_zombies_swept_total`, `tickwheel_zombies_dropped_total` | counter |
/// | `tickwheel_timers_pending`, `tickwheel_inbox_messages`, `tickwheel_lag_seconds` | gauge |
/// | `tickwheel_wheel_entries`, `tickwheel_wheel_zombies`, `tickwheel_held_bytes` | gauge |
/// | `tickwheel_worker_failed`: 1 if the shard's worker has ended by a panic | gauge |
/// | `tickwheel_lateness_seconds`, `tickwheel_handler_seconds` | histogram |
///
/// Values of histograms are upper edges of buckets, at most 12.5 % above what was measured.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
/// use tickwheel_util::MetricsReporter;
///
/// let timer = Timer::new()?;
/// MetricsReporter::new("requests").report_every(Duration::from_secs(10), &timer)?;
/// timer.run_after(Duration::from_secs(5), || ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MetricsReporter {
    timer: String,
    /// What was reported last of each shard's histograms.
    last: Vec<[DurationHistogram; 2]>,
}

/// A figure: its name, what it says, and where it comes from.
type Figure<V> = (&'static str, &'static str, fn(&ShardStats) -> V);

const COUNTERS: &[Figure<u64>] = &[
    ("tickwheel_timers_scheduled_total", "Timers accepted", |s| {
        s.scheduled
    }),
    ("tickwheel_timers_fired_total", "Timers fired", |s| s.fired),
    (
        "tickwheel_timers_cancelled_total",
        "Timers cancelled",
        |s| s.cancelled,
    ),
    (
        "tickwheel_timers_returned_total",
        "Timers returned by stop",
        |s| s.returned,
    ),
    (
        "tickwheel_timers_rescheduled_total",
        "Deadlines moved",
        |s| s.rescheduled,
    ),
    (
        "tickwheel_handler_panics_total",
        "Handlers and clones that panicked",
        |s| s.panics,
    ),
    (
        "tickwheel_executor_refusals_total",
        "Expired timers that the executor gave back",
        |s| s.refused_by_executor,
    ),
    ("tickwheel_turns_total", "Turns made", |s| s.turns),
    (
        "tickwheel_turns_cut_short_total",
        "Turns whose budget was used up",
        |s| s.cut_short,
    ),
    (
        "tickwheel_parks_total",
        "Times the worker went to sleep",
        |s| s.parks,
    ),
    (
        "tickwheel_wakes_total",
        "Sleeps that a producer ended early",
        |s| s.wakes,
    ),
    (
        "tickwheel_zombies_swept_total",
        "Dead entries that sweeps removed",
        |s| s.swept,
    ),
    (
        "tickwheel_zombies_dropped_total",
        "Dead entries that came due",
        |s| s.dropped,
    ),
];

const GAUGES: &[Figure<f64>] = &[
    ("tickwheel_timers_pending", "Timers pending", |s| {
        s.pending as f64
    }),
    (
        "tickwheel_inbox_messages",
        "Messages that the owner has not taken",
        |s| s.inbox as f64,
    ),
    (
        "tickwheel_lag_seconds",
        "How late the oldest overdue timer is",
        |s| s.lag.as_secs_f64(),
    ),
    (
        "tickwheel_wheel_entries",
        "Entries in the wheel, with dead ones",
        |s| s.entries as f64,
    ),
    (
        "tickwheel_wheel_zombies",
        "Dead entries in the wheel",
        |s| s.zombies as f64,
    ),
    (
        "tickwheel_held_bytes",
        "Memory of nodes, magazines, wheel",
        |s| s.held_bytes as f64,
    ),
    (
        "tickwheel_worker_failed",
        "1 if the worker has ended by a panic",
        |s| f64::from(u8::from(s.failure.is_some())),
    ),
];

const LATENESS: (&str, &str) = ("tickwheel_lateness_seconds", "How late timers fired");
const HANDLERS: (&str, &str) = ("tickwheel_handler_seconds", "How long handlers ran");

impl MetricsReporter {
    /// Describes the figures to the recorder that is installed, so install it before.
    pub fn new(timer: impl Into<String>) -> Self {
        for (name, text, _) in COUNTERS {
            metrics::describe_counter!(*name, Unit::Count, *text);
        }
        for (name, text, _) in GAUGES {
            let unit = match name.rsplit('_').next() {
                Some("seconds") => Unit::Seconds,
                Some("bytes") => Unit::Bytes,
                _ => Unit::Count,
            };
            metrics::describe_gauge!(*name, unit, *text);
        }
        for (name, text) in [LATENESS, HANDLERS] {
            metrics::describe_histogram!(name, Unit::Seconds, text);
        }
        Self {
            timer: timer.into(),
            last: Vec::new(),
        }
    }

    /// Reports the statistics of an engine now and once per period, on one of its workers.
    ///
    /// The reports end with the engine, or by `timer.cancel` of the key. Only another engine can report that a worker
    /// hangs: [`report_every_on`](Self::report_every_on), also for an engine with a handler of its own.
    ///
    /// # Errors
    ///
    /// Like [`Timer::repeat`](Timer).
    pub fn report_every(
        self,
        period: impl Into<Period>,
        timer: &Timer,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.report_every_on(timer, period, timer)
    }

    /// Reports the statistics of `watched` now and once per period, on a worker of `on`, for example of
    /// [`global()?`](tickwheel::global).
    ///
    /// The reports end with either engine, or by `on.cancel` of the key.
    ///
    /// # Errors
    ///
    /// Like [`Timer::repeat`](Timer).
    pub fn report_every_on<T: Send + 'static>(
        mut self,
        on: &Timer,
        period: impl Into<Period>,
        watched: &Timer<T>,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        let (watched, own) = (watched.downgrade(), on.downgrade());
        let key = Arc::new(OnceLock::new());
        let own_key = Arc::clone(&key);
        let report = move || {
            if let Some(timer) = watched.upgrade() {
                self.report(&timer.stats().shards);
            } else if let (Some(on), Some(key)) = (own.upgrade(), own_key.get()) {
                drop(on.cancel(*key));
            }
        };
        let reports = on.repeat(Duration::ZERO, period.into(), report)?;
        Ok(*key.get_or_init(|| reports))
    }

    /// Passes on what the shards have counted, the histograms' share since the last report. O(shards), and with a
    /// recorder that takes one value at a time, as that of `metrics-exporter-prometheus` does, a step and some 16 bytes
    /// for each timer that has fired since then: report a busy engine each second, and on another one.
    ///
    /// For an engine `timer.stats().shards`, for an event loop a slice of its one [`ShardStats`]. A recorder that
    /// panics lets the panic through.
    pub fn report(&mut self, shards: &[ShardStats]) {
        for stats in shards {
            let labels = vec![
                Label::new("timer", self.timer.clone()),
                Label::new("shard", stats.shard.to_string()),
            ];
            for (name, _, of) in COUNTERS {
                metrics::counter!(*name, labels.clone()).absolute(of(stats));
            }
            for (name, _, of) in GAUGES {
                metrics::gauge!(*name, labels.clone()).set(of(stats));
            }
            if self.last.len() <= stats.shard {
                self.last.resize_with(stats.shard + 1, Default::default);
            }
            let now = [(LATENESS, &stats.lateness), (HANDLERS, &stats.handler_time)];
            for (((name, _), now), last) in now.into_iter().zip(&mut self.last[stats.shard]) {
                let histogram = metrics::histogram!(name, labels.clone());
                for (upper, count) in now.since(last).buckets() {
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    histogram.record_many(upper.as_secs_f64(), count);
                }
                last.clone_from(now);
            }
        }
    }
}
