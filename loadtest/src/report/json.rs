//! The report for machines: one JSON object, with times in nanoseconds or seconds and sizes in bytes, as
//! the names say. What was not measured, and what has no limit, is null.

use serde_json::{Map, Value, json};

use super::facts::{Facts, now};
use super::model::{Distribution, Figure, PERCENTILES, Phase, Report, Setting, Table, Timeline};

/// Counts up when a name changes its meaning or goes away.
const FORMAT: u32 = 4;

/// The whole object.
pub(crate) fn render(report: &Report, made_with: &Facts) -> String {
    let all = json!({
        "format": FORMAT,
        "tool": "tickwheel loadtest",
        "kind": report.kind,
        "verdict": report.word(),
        "interrupted": report.interrupted,
        "ended": now(),
        "made_with": object(made_with.clone()),
        "settings": settings(&report.settings),
        "seconds": report.seconds(),
        "counts": object(report.counts()),
        "breaches": object(report.breaches()),
        "notes": report.notes,
        "phases": report.phases.iter().map(phase).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_string_pretty(&all).expect("plain values always serialize");
    text.push('\n');
    text
}

fn object<K: ToString, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    let pairs = pairs
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.into()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn settings(settings: &[Setting]) -> Value {
    object(settings.iter().map(|Setting { name, shown }| {
        // Numbers stay numbers.
        let number = shown.parse::<serde_json::Number>().map(Value::Number);
        (
            name.replace('-', "_"),
            number.unwrap_or_else(|_| json!(shown)),
        )
    }))
}

fn phase(phase: &Phase) -> Value {
    json!({
        "name": phase.name,
        "settings": settings(&phase.settings),
        "seconds": phase.seconds,
        "counts": object(phase.verdict.counts.iter().copied()),
        "breaches": object(phase.verdict.breaches.iter().copied()),
        "findings": phase.verdict.findings,
        "figures": object(phase.figures.iter().map(figure)),
        "distributions": object(phase.distributions.iter().map(distribution)),
        "tables": object(phase.tables.iter().map(table)),
        "timelines": object(phase.timelines.iter().map(timeline)),
    })
}

fn figure(figure: &Figure) -> (String, Value) {
    (
        format!("{}{}", figure.key, figure.unit.suffix()),
        json!({ "value": figure.value }),
    )
}

fn distribution(distribution: &Distribution) -> (&'static str, Value) {
    let mut all =
        json!({ "count": distribution.histogram.len(), "max_ns": distribution.at(100.0) });
    for (_, suffix, percentile) in PERCENTILES {
        all[format!("{suffix}_ns")] = json!(distribution.at(percentile));
    }
    (distribution.key, all)
}

fn table(table: &Table) -> (&'static str, Value) {
    let rows = table.rows.iter().map(|row| {
        object(
            table
                .head
                .iter()
                .zip(row)
                .map(|(name, cell)| (*name, json!(cell))),
        )
    });
    (table.key, rows.collect())
}

fn timeline(timeline: &Timeline) -> (String, Value) {
    let at: Vec<f64> = timeline.points.iter().map(|point| point.0).collect();
    let values: Vec<f64> = timeline.points.iter().map(|point| point.1).collect();
    let name = format!("{}{}", timeline.key, timeline.unit.suffix());
    (name, json!({ "at_s": at, "values": values }))
}
