//! The report: what a run came to, in a form that every view can show without knowing its kind.

use hdrhistogram::Histogram;

use std::fmt::Display;

use crate::numbers::{bytes, count, nanos, or_na, rate};

/// Everything that is told about a run.
#[derive(Default)]
pub(crate) struct Report {
    /// What kind of run it was, such as "load run".
    pub kind: &'static str,
    /// What the run was made of.
    pub settings: Vec<Setting>,
    /// Ended by Ctrl-C.
    pub interrupted: bool,
    /// One after the other; most runs have one.
    pub phases: Vec<Phase>,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
}

impl Report {
    /// "ok", "breach", or "nothing was run" if it ended before anything began.
    pub(crate) fn word(&self) -> &'static str {
        let mut verdicts = self.phases.iter().map(|phase| &phase.verdict);
        if !verdicts.clone().all(Verdict::is_ok) {
            "breach"
        } else if verdicts.any(|verdict| verdict.began > 0) {
            "ok"
        } else {
            "nothing was run"
        }
    }

    /// Seconds of load in all phases.
    pub(crate) fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// The counts of the verdicts, all phases together, in their order.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.sum(|verdict| &verdict.counts)
    }

    /// The breaches of all phases together, in their order.
    pub(crate) fn breaches(&self) -> Vec<(&'static str, u64)> {
        self.sum(|verdict| &verdict.breaches)
    }

    fn sum(&self, of: fn(&Verdict) -> &Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
        let mut sums: Vec<(&'static str, u64)> = Vec::new();
        for (name, value) in self.phases.iter().flat_map(|phase| of(&phase.verdict)) {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name, *value)),
            }
        }
        sums
    }
}

/// One setting of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// As the option is called, without the dashes.
    pub name: String,
    /// Its value, for people.
    pub shown: String,
}

impl Setting {
    /// A setting of this name.
    pub(crate) fn new(name: &str, value: impl Display) -> Self {
        Self {
            name: name.to_owned(),
            shown: value.to_string(),
        }
    }
}

/// A part of a run with an engine, a ledger and a verdict of its own.
pub(crate) struct Phase {
    /// What it is called.
    pub name: &'static str,
    /// What holds for this phase alone.
    pub settings: Vec<Setting>,
    /// Seconds of load, up to the stop.
    pub seconds: f64,
    /// The judgement.
    pub verdict: Verdict,
    /// Single numbers.
    pub figures: Vec<Figure>,
    /// Measured durations.
    pub distributions: Vec<Distribution>,
    /// Values over time.
    pub timelines: Vec<Timeline>,
    /// Everything else.
    pub tables: Vec<Table>,
}

/// The judgement over a phase.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// How many began of what is judged: a run in which nothing did shows nothing.
    pub began: u64,
    /// Where everything that began has ended, in one line.
    pub balance: String,
    /// What was counted, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// How often each promise was broken, by name; all 0 if the verdict is ok.
    pub breaches: Vec<(&'static str, u64)>,
    /// `kind: description`, the first of each kind.
    pub findings: Vec<String>,
}

impl Verdict {
    /// Whether nothing at all was found.
    pub(crate) fn is_ok(&self) -> bool {
        self.breaches.iter().all(|(_, count)| *count == 0)
    }
}

/// What a number means, so that each view can show it in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Processor seconds per second.
    Cores,
}

impl Unit {
    /// What the unit adds to a name in JSON.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::PerSecond => "_per_second",
            Self::Bytes => "_bytes",
            Self::Cores => "_cores",
        }
    }

    /// For people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Count => count(value as u64),
            Self::PerSecond => format!("{}/s", rate(value)),
            Self::Bytes => bytes(value as u64),
            Self::Cores => format!("{value:.2} cores"),
        }
    }
}

/// One number.
pub(crate) struct Figure {
    /// In JSON, before the unit's suffix.
    pub key: &'static str,
    /// For people.
    pub label: &'static str,
    /// `None` where the system does not tell.
    pub value: Option<f64>,
    /// What the value means.
    pub unit: Unit,
}

impl Figure {
    /// One that is measured, or that the system does not tell.
    pub(crate) fn new(
        key: &'static str,
        label: &'static str,
        unit: Unit,
        value: impl Into<Option<f64>>,
    ) -> Self {
        Self {
            key,
            label,
            value: value.into(),
            unit,
        }
    }

    /// For people.
    pub(crate) fn show(&self) -> String {
        or_na(self.value, |value| self.unit.show(value))
    }
}

/// Percentiles that tables show: text for people, suffix for JSON, value.
pub(crate) const PERCENTILES: [(&str, &str, f64); 3] = [
    ("p50", "p50", 50.0),
    ("p99", "p99", 99.0),
    ("p99.9", "p99_9", 99.9),
];

/// Measured durations in nanoseconds.
pub(crate) struct Distribution {
    /// In JSON.
    pub key: &'static str,
    /// For people.
    pub label: &'static str,
    /// The values.
    pub histogram: Histogram<u64>,
    /// Title of the chart that it shares with others of the same title.
    pub chart: &'static str,
    /// What is measured from where to where.
    pub about: &'static str,
}

impl Distribution {
    /// The value at a percentile; `None` if nothing was measured.
    pub(crate) fn at(&self, percentile: f64) -> Option<u64> {
        let some = !self.histogram.is_empty();
        some.then(|| self.histogram.value_at_percentile(percentile))
    }
}

/// A value over the seconds of a phase.
pub(crate) struct Timeline {
    /// In JSON.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// What is shown.
    pub about: &'static str,
    /// What the value means.
    pub unit: Unit,
    /// Second and value.
    pub points: Vec<(f64, f64)>,
}

/// Rows of cells under a head.
pub(crate) struct Table {
    /// In JSON.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// The names of the columns, in JSON as well.
    pub head: Vec<&'static str>,
    /// As many cells each as the head.
    pub rows: Vec<Vec<Option<u64>>>,
}

/// A table as people see it; without a head its rows are names and values.
pub(crate) struct Grid {
    pub(crate) title: &'static str,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid {
    /// Names and values.
    pub(crate) fn pairs<N: ToString>(
        title: &'static str,
        pairs: impl IntoIterator<Item = (N, String)>,
    ) -> Self {
        let rows = pairs
            .into_iter()
            .map(|(name, value)| vec![name.to_string(), value]);
        Self {
            title,
            head: Vec::new(),
            rows: rows.collect(),
        }
    }
}

impl Phase {
    /// The tables of every view: percentiles, the phase's own, single numbers.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let names = PERCENTILES.iter().map(|(name, ..)| *name);
        let head = [""].into_iter().chain(names).chain(["max", "measured"]);
        let rows = self.distributions.iter().map(|one| {
            let at = PERCENTILES
                .iter()
                .map(|(.., percentile)| *percentile)
                .chain([100.0]);
            let at = at.map(|percentile| or_na(one.at(percentile), nanos));
            let measured = [count(one.histogram.len())];
            [one.label.to_owned()]
                .into_iter()
                .chain(at)
                .chain(measured)
                .collect()
        });
        let (head, rows) = (head.collect(), rows.collect());
        let mut grids = vec![Grid {
            title: "Percentiles",
            head,
            rows,
        }];
        grids.extend(self.tables.iter().map(|table| {
            Grid {
                title: table.title,
                head: table.head.clone(),
                rows: table
                    .rows
                    .iter()
                    .map(|row| row.iter().map(|cell| or_na(*cell, count)).collect())
                    .collect(),
            }
        }));
        let figures = self
            .figures
            .iter()
            .map(|figure| (figure.label, figure.show()));
        grids.push(Grid::pairs("Figures", figures));
        grids
    }
}
