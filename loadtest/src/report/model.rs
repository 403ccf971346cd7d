//! The report: what a run came to, in a form that every view can show without knowing its kind.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::numbers::{bytes, count, nanos, or_na, rate};
use crate::settings::setting::Setting;

/// Everything that is told about a run.
pub(crate) struct Report {
    /// What kind of run it was, such as "load run".
    pub(crate) kind: &'static str,
    pub(crate) settings: Vec<Setting>,
    /// Ended by Ctrl-C.
    pub(crate) interrupted: bool,
    /// One after the other; most runs have one.
    pub(crate) phases: Vec<Phase>,
    /// What a reader must know to judge the figures.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Whether nothing at all was found.
    pub(crate) fn is_ok(&self) -> bool {
        self.phases.iter().all(|phase| phase.verdict.is_ok())
    }

    /// "ok" or "breach".
    pub(crate) fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "breach" }
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

/// A part of a run with an engine, a ledger and a verdict of its own.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// What holds for this phase alone.
    pub(crate) settings: Vec<Setting>,
    /// Seconds of load, up to the stop.
    pub(crate) seconds: f64,
    pub(crate) verdict: Verdict,
    pub(crate) figures: Vec<Figure>,
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) timelines: Vec<Timeline>,
    pub(crate) tables: Vec<Table>,
}

/// The judgement over a phase.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Where everything that began has ended, in one line.
    pub(crate) balance: String,
    pub(crate) counts: Vec<(&'static str, u64)>,
    pub(crate) breaches: Vec<(&'static str, u64)>,
    /// `kind: description`, the first of each kind.
    pub(crate) findings: Vec<String>,
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
    Count,
    PerSecond,
    Bytes,
    BytesPerSecond,
    Nanos,
    Cores,
    Percent,
}

impl Unit {
    /// What the unit adds to a name in JSON.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::PerSecond => "_per_second",
            Self::Bytes => "_bytes",
            Self::BytesPerSecond => "_bytes_per_second",
            Self::Nanos => "_ns",
            Self::Cores => "_cores",
            Self::Percent => "_percent",
        }
    }

    /// For people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Count => count(value as u64),
            Self::PerSecond => format!("{}/s", rate(value)),
            Self::Bytes => bytes(value as u64),
            Self::BytesPerSecond => format!("{}/s", bytes(value as u64)),
            Self::Nanos => nanos(value as u64),
            Self::Cores => format!("{value:.2} cores"),
            Self::Percent => format!("{value:.1} %"),
        }
    }

    /// For machines: whole numbers where the unit has no parts.
    pub(crate) fn json(self, value: f64) -> Value {
        match self {
            Self::Count | Self::Bytes | Self::Nanos => json!(value as u64),
            _ => json!(value),
        }
    }
}

/// Which way a figure has to change to be better; `diff` judges by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
    /// It depends on other things.
    Neither,
}

impl Better {
    /// For machines.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::More => Some("more"),
            Self::Less => Some("less"),
            Self::Neither => None,
        }
    }
}

/// One number.
pub(crate) struct Figure {
    /// In JSON, before the unit's suffix.
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    /// `None` where the system does not tell.
    pub(crate) value: Option<f64>,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// A reader looks for it first.
    pub(crate) tile: bool,
}

impl Figure {
    /// A figure that is good or bad only together with others.
    pub(crate) fn new(
        key: &'static str,
        label: &'static str,
        unit: Unit,
        value: impl Into<Option<f64>>,
    ) -> Self {
        let value = value.into();
        Self { key, label, value, unit, better: Better::Neither, tile: false }
    }

    /// The same, which should become more or less.
    pub(crate) fn better(self, better: Better) -> Self {
        Self { better, ..self }
    }

    /// The same, at the head of the page.
    pub(crate) fn tile(self) -> Self {
        Self { tile: true, ..self }
    }

    /// For people.
    pub(crate) fn show(&self) -> String {
        or_na(self.value, |value| self.unit.show(value))
    }
}

/// Percentiles that tables show: text for people, suffix for JSON, value.
pub(crate) const PERCENTILES: [(&str, &str, f64); 3] =
    [("p50", "p50", 50.0), ("p99", "p99", 99.0), ("p99.9", "p99_9", 99.9)];

/// Measured durations in nanoseconds.
pub(crate) struct Distribution {
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) histogram: Histogram<u64>,
    /// The percentile at the head of the page, as an index into [`PERCENTILES`].
    pub(crate) tile: Option<usize>,
    /// Title of the chart that it shares with others of the same title.
    pub(crate) chart: &'static str,
    /// What is measured from where to where.
    pub(crate) about: &'static str,
    /// What is measured, if a chart is to show how many there are in each band.
    pub(crate) bands_of: Option<&'static str>,
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
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Rows of cells under a head.
pub(crate) struct Table {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// Name in JSON and for people.
    pub(crate) head: Vec<(&'static str, &'static str)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    /// `None`: not measured.
    Value(Option<f64>, Unit),
}

impl Cell {
    /// A count.
    pub(crate) fn count(value: u64) -> Self {
        Self::Value(Some(value as f64), Unit::Count)
    }

    /// For people.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Value(value, unit) => value.map_or_else(|| "-".to_owned(), |v| unit.show(v)),
        }
    }
}
