//! What a run or a replay of timers came to, as a phase of a report.

use std::time::Duration;

use hdrhistogram::Histogram;
use tickwheel::Stats;

use crate::ledger::table::Ledger;
use crate::ledger::totals::Totals;
use crate::report::model::{Cell, Distribution, Figure, Phase, Table, Timeline, Unit, Verdict};
use crate::settings::setting::Setting;
use crate::usage::Cost;

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

/// How often a monitor looks up.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Seconds between two samples of a run: 600 over the whole run, because a chart shows no more, and ten a second
/// at most.
pub(crate) fn sample_every(length: Duration) -> f64 {
    (length.as_secs_f64() / 600.0).max(0.1)
}

/// Everything that is known once the ledger is audited.
pub(crate) struct Outcome<'a> {
    pub(crate) name: &'static str,
    pub(crate) settings: Vec<Setting>,
    /// Seconds of load, up to the call of `stop`.
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
    pub(crate) resident_before: Option<u64>,
    pub(crate) resident_end: Option<u64>,
    pub(crate) cost: Cost,
    /// Duration of calls in nanoseconds.
    pub(crate) schedule: Histogram<u64>,
    pub(crate) cancel: Histogram<u64>,
    pub(crate) ledger: &'a Ledger,
    pub(crate) totals: &'a Totals,
    pub(crate) stats: &'a Stats,
    pub(crate) verdict: Verdict,
}

impl Outcome<'_> {
    /// In the form of the report.
    pub(crate) fn phase(self) -> Phase {
        Phase {
            figures: self.figures(),
            timelines: self.timelines(),
            tables: vec![self.shards()],
            name: self.name,
            settings: self.settings,
            verdict: self.verdict,
            seconds: self.seconds,
            distributions: distributions(self.schedule, self.cancel, self.ledger.lateness()),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let (totals, cost) = (self.totals, &self.cost);
        let seconds = self.seconds.max(1e-9);
        let per_second = |value: u64| value as f64 / seconds;
        let sum = |of: fn(&tickwheel::ShardStats) -> u64| {
            per_second(self.stats.shards.iter().map(of).sum())
        };
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        let resident = self.samples.iter().filter_map(|sample| sample.resident_bytes);
        let peak = resident.chain(self.resident_end).max();
        let cpu_ns = cost.cpu_s.map(|cpu| cpu * 1e9 / totals.accepted().max(1) as f64);
        let full = totals.refused_full as f64;
        let per_second_of = |key, label, value| Figure::new(key, label, Unit::PerSecond, value);
        let memory = |key, label, value| Figure::new(key, label, Unit::Bytes, value);
        let mut figures = vec![
            per_second_of("pairs", "schedule + cancel pairs", per_second(totals.cancelled)).tile(),
            per_second_of("fired", "fired", per_second(self.ledger.fired_so_far())),
            Figure::new("refused_full", "refused for lack of room", Unit::Count, full),
            Figure::new(
                "cpu_per_timer",
                "CPU per timer, this program's included",
                Unit::Nanos,
                cpu_ns,
            ),
        ];
        figures.extend(cost_figures(["cpu", "switches"], cost, seconds));
        figures.extend([
            per_second_of("sleeps", "sleeps of workers", sum(|shard| shard.parks)),
            per_second_of("wakes", "of them ended by producers", sum(|shard| shard.wakes)),
            memory("resident_start", "resident memory at the start", bytes(self.resident_before)),
            memory("resident_peak", "peak memory", bytes(peak)).tile(),
            memory("resident_end", "resident memory at the end", bytes(self.resident_end)),
            memory("ledger", "of it this program's ledger", Some(self.ledger.held_bytes() as f64)),
        ]);
        figures
    }

    fn timelines(&self) -> Vec<Timeline> {
        let pending = self.samples.iter().map(|sample| {
            (sample.at_s, sample.begun.saturating_sub(sample.ended + sample.third) as f64)
        });
        let memory = self.samples.iter();
        let memory = memory.filter_map(|sample| Some((sample.at_s, sample.resident_bytes? as f64)));
        let line = |key, title, about, unit, points| Timeline { key, title, about, unit, points };
        let pairs = rates(&self.samples, |sample| sample.ended);
        let fired = rates(&self.samples, |sample| sample.third);
        vec![
            line(
                "pairs",
                "Throughput over time",
                "Timers scheduled and then cancelled, per second.",
                Unit::PerSecond,
                pairs,
            ),
            line("fired", "Firing over time", "Handlers run, per second.", Unit::PerSecond, fired),
            line(
                "pending",
                "Pending timers",
                "Neither cancelled nor fired yet.",
                Unit::Count,
                pending.collect(),
            ),
            line(
                "resident",
                "Resident memory",
                "Of the whole process, this program's ledger included.",
                Unit::Bytes,
                memory.collect(),
            ),
        ]
    }

    fn shards(&self) -> Table {
        let fired = self.ledger.fired_by_shard();
        let at = |counts: &[u64], shard: usize| counts.get(shard).copied().unwrap_or(0);
        let all = self.totals.accepted().max(1) as f64;
        let rows = self.stats.shards.iter().map(|shard| {
            let scheduled = at(&self.totals.accepted, shard.shard);
            let share = scheduled as f64 * 100.0 / all;
            vec![
                Cell::count(shard.shard as u64),
                Cell::Value(shard.pinning.core().map(|core| core as f64), Unit::Count),
                Cell::count(scheduled),
                Cell::Value(Some(share), Unit::Percent),
                Cell::count(shard.cancelled),
                Cell::count(at(&fired, shard.shard)),
                Cell::count(shard.parks),
                Cell::count(shard.wakes),
            ]
        });
        Table {
            key: "shards",
            title: "Balance of the shards",
            head: vec![
                ("shard", "shard"),
                ("core", "core"),
                ("scheduled", "scheduled"),
                ("share_percent", "share"),
                ("cancelled", "cancelled"),
                ("fired", "fired"),
                ("parks", "sleeps"),
                ("wakes", "woken"),
            ],
            rows: rows.collect(),
        }
    }
}

fn distributions(
    schedule: Histogram<u64>,
    cancel: Histogram<u64>,
    lateness: Histogram<u64>,
) -> Vec<Distribution> {
    let calls = |key, label, tile, histogram| Distribution {
        key,
        label,
        histogram,
        tile,
        chart: "Calls by percentile",
        about: "Sampled calls, clock reads included.",
    };
    vec![
        Distribution {
            key: "lateness",
            label: "firing lateness",
            histogram: lateness,
            tile: Some(1),
            chart: "Firing lateness by percentile",
            about: "From the requested deadline to the handler.",
        },
        calls("schedule", "schedule call", Some(0), schedule),
        calls("cancel", "cancel call", None, cancel),
    ]
}

/// What a process has cost, as figures under these keys: processor time and context switches.
pub(crate) fn cost_figures(keys: [&'static str; 2], cost: &Cost, seconds: f64) -> [Figure; 2] {
    let labels = match keys[0] {
        "server_cpu" => ["server CPU", "server context switches"],
        "client_cpu" => ["client CPU", "client context switches"],
        _ => ["CPU, all threads", "context switches"],
    };
    let cores = cost.cpu_s.map(|cpu| cpu / seconds);
    let switches = cost.switches.map(|count| count as f64);
    [
        Figure::new(keys[0], labels[0], Unit::Cores, cores).tile(),
        Figure::new(keys[1], labels[1], Unit::Count, switches),
    ]
}

/// Change per second between neighbouring samples, at the later one.
pub(crate) fn rates(samples: &[Sample], of: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let steps = samples.windows(2).filter(|pair| pair[1].at_s - pair[0].at_s > 0.02);
    let rate = |pair: &[Sample]| {
        let change = of(&pair[1]).saturating_sub(of(&pair[0])) as f64;
        (pair[1].at_s, change / (pair[1].at_s - pair[0].at_s))
    };
    steps.map(rate).collect()
}
