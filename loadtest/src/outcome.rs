//! What a run or a replay of timers came to, as a phase of a report.

use hdrhistogram::Histogram;
use tickwheel::Stats;

use crate::ledger::audit;
use crate::ledger::table::Ledger;
use crate::ledger::totals::Totals;
use crate::numbers::count;
use crate::report::model::{
    Better, Cell, Distribution, Figure, Phase, Table, Timeline, Unit, Verdict,
};
use crate::settings::setting::Setting;
use crate::usage::Cost;

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds since the start.
    pub(crate) at_s: f64,
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) fired: u64,
    pub(crate) resident_bytes: Option<u64>,
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
    pub(crate) verdict: audit::Verdict,
}

impl Outcome<'_> {
    /// In the form of the report.
    pub(crate) fn phase(self) -> Phase {
        Phase {
            verdict: self.verdict(),
            figures: self.figures(),
            timelines: self.timelines(),
            tables: vec![self.shards()],
            name: self.name,
            settings: self.settings,
            seconds: self.seconds,
            distributions: distributions(self.schedule, self.cancel, self.ledger.lateness()),
        }
    }

    fn verdict(&self) -> Verdict {
        let found = &self.verdict;
        let ended = found.fired + found.cancelled + found.returned;
        let equals = if ended == found.accepted { "=" } else { "≠" };
        Verdict {
            began: found.accepted,
            balance: format!(
                "accepted {} {equals} fired {} + cancelled {} + returned {}",
                count(found.accepted),
                count(found.fired),
                count(found.cancelled),
                count(found.returned),
            ),
            counts: vec![
                ("accepted", found.accepted),
                ("fired", found.fired),
                ("cancelled", found.cancelled),
                ("returned", found.returned),
                ("rescheduled", found.rescheduled),
                ("refused", found.refused),
                ("refused_after_stop", found.refused_after_stop),
            ],
            breaches: vec![
                ("early", found.early),
                ("twice", found.twice),
                ("lost", found.lost),
                ("mismatches", found.mismatches),
            ],
            findings: found.findings.clone(),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let (found, cost) = (&self.verdict, &self.cost);
        let seconds = self.seconds.max(1e-9);
        let per_second = |value: u64| value as f64 / seconds;
        let sum = |of: fn(&tickwheel::ShardStats) -> u64| {
            per_second(self.stats.shards.iter().map(of).sum())
        };
        let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
        let resident = self.samples.iter().filter_map(|sample| sample.resident_bytes);
        let peak = resident.chain(self.resident_end).max();
        let cpu_ns = cost.cpu_s().map(|cpu| cpu * 1e9 / found.accepted.max(1) as f64);
        let full = found.refused.saturating_sub(found.refused_after_stop) as f64;
        let per_second_of = |key, label, value| Figure::new(key, label, Unit::PerSecond, value);
        let memory = |key, label, value| Figure::new(key, label, Unit::Bytes, value);
        let mut figures = vec![
            per_second_of("pairs", "schedule + cancel pairs", per_second(found.cancelled))
                .better(Better::More)
                .tile(),
            per_second_of("fired", "fired", per_second(found.fired)),
            Figure::new("refused_full", "refused for lack of room", Unit::Count, full),
            Figure::new(
                "cpu_per_timer",
                "CPU per timer, this program's included",
                Unit::Nanos,
                cpu_ns,
            )
            .better(Better::Less),
        ];
        figures.extend(cost_figures(COST, cost, seconds));
        figures.extend([
            per_second_of("sleeps", "sleeps of workers", sum(|shard| shard.parks)),
            per_second_of("wakes", "of them ended by producers", sum(|shard| shard.wakes)),
            memory("resident_start", "resident memory at the start", bytes(self.resident_before)),
            memory("resident_peak", "peak memory", bytes(peak)).better(Better::Less).tile(),
            memory("resident_end", "resident memory at the end", bytes(self.resident_end)),
            memory("ledger", "of it this program's ledger", Some(self.ledger.held_bytes() as f64)),
        ]);
        figures
    }

    fn timelines(&self) -> Vec<Timeline> {
        let total = |of: fn(&Sample) -> u64| -> Vec<(f64, u64)> {
            self.samples.iter().map(|sample| (sample.at_s, of(sample))).collect()
        };
        let pending = self.samples.iter().map(|sample| {
            let ended = sample.cancelled + sample.fired;
            (sample.at_s, sample.scheduled.saturating_sub(ended) as f64)
        });
        let memory = self.samples.iter();
        let memory = memory.filter_map(|sample| Some((sample.at_s, sample.resident_bytes? as f64)));
        let line = |key, title, about, unit, points| Timeline { key, title, about, unit, points };
        let pairs = rates(&total(|sample| sample.cancelled));
        let fired = rates(&total(|sample| sample.fired));
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
        bands_of: None,
    };
    vec![
        Distribution {
            key: "lateness",
            label: "firing lateness",
            histogram: lateness,
            tile: Some(1),
            chart: "Firing lateness by percentile",
            about: "From the requested deadline to the handler.",
            bands_of: Some("timers"),
        },
        calls("schedule", "schedule call", Some(0), schedule),
        calls("cancel", "cancel call", None, cancel),
    ]
}

/// Keys and labels of what a process costs.
pub(crate) struct CostNames {
    pub(crate) cpu: [(&'static str, &'static str); 2],
    pub(crate) switches: [(&'static str, &'static str); 2],
}

const COST: CostNames = CostNames {
    cpu: [("cpu", "CPU, all threads"), ("cpu_system", "of it in the kernel")],
    switches: [("switches", "context switches"), ("involuntary_switches", "of them involuntary")],
};

/// What a process has cost, as figures.
pub(crate) fn cost_figures(names: CostNames, cost: &Cost, seconds: f64) -> [Figure; 4] {
    let cores = |cpu: Option<f64>| cpu.map(|cpu| cpu / seconds);
    let all = cost.voluntary_switches.zip(cost.involuntary_switches);
    let all = all.map(|(voluntary, involuntary)| (voluntary + involuntary) as f64);
    let involuntary = cost.involuntary_switches.map(|count| count as f64);
    let [cpu, system] = names.cpu;
    let [switches, pushed] = names.switches;
    [
        Figure::new(cpu.0, cpu.1, Unit::Cores, cores(cost.cpu_s())).tile(),
        Figure::new(system.0, system.1, Unit::Cores, cores(cost.cpu_system_s)),
        Figure::new(switches.0, switches.1, Unit::Count, all),
        Figure::new(pushed.0, pushed.1, Unit::Count, involuntary),
    ]
}

/// Change per second between neighbouring samples, at the later one.
pub(crate) fn rates(points: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let steps = points.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 0.02);
    steps
        .map(|pair| {
            let ((then, before), (now, after)) = (pair[0], pair[1]);
            (now, after.saturating_sub(before) as f64 / (now - then))
        })
        .collect()
}
