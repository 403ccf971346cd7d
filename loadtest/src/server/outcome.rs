//! What a run against the server came to, as a phase of a report.

use hdrhistogram::Histogram;

use super::connection::KINDS;
use super::process::ServerCounts;
use super::totals::{KindTotals, Totals};
use crate::outcome::{Sample, cost_figures};
use crate::report::model::{Cell, Distribution, Figure, Phase, Table, Timeline, Unit, Verdict};
use crate::usage::Cost;

/// The phase of a run that is judged. `server` is missing if it has failed.
pub(super) fn phase(
    verdict: Verdict,
    totals: &Totals,
    server: Option<&ServerCounts>,
    client_cost: &Cost,
    samples: &[Sample],
) -> Phase {
    let seconds = samples.last().map_or(0.0, |last| last.at_s);
    let all = totals.all();
    Phase {
        name: "server",
        settings: Vec::new(),
        seconds,
        verdict,
        figures: figures(&all, server, client_cost, samples, seconds.max(1e-9)),
        timelines: timelines(samples),
        tables: vec![kinds(totals, &all)],
        distributions: vec![
            Distribution {
                key: "lateness",
                label: "close lateness",
                histogram: all.lateness,
                tile: Some(1),
                chart: "Close lateness by percentile",
                about: "From the client's last act plus the idle timeout to the close that it sees.",
            },
            Distribution {
                key: "round_trip",
                label: "echo round trip",
                histogram: all.round_trip,
                tile: Some(0),
                chart: "Echo round trip by percentile",
                about: "From the begin of a write to the last byte of its echo.",
            },
        ],
    }
}

/// Connections open at one moment.
fn open(sample: &Sample) -> u64 {
    sample.begun.saturating_sub(sample.ended)
}

fn figures(
    all: &KindTotals,
    server: Option<&ServerCounts>,
    client_cost: &Cost,
    samples: &[Sample],
    seconds: f64,
) -> Vec<Figure> {
    let count = |key, label, value: u64| Figure::new(key, label, Unit::Count, value as f64);
    let most = samples.iter().map(open).max().unwrap_or(0);
    let echoed = all.echoed as f64 / seconds;
    let mut figures = vec![
        count("held_most", "connections held open", most).tile(),
        count("closed", "closed as idle", all.closed).tile(),
        count("excused", "not judged, after a delay of this program", all.excused),
        count("messages", "messages whose echo was checked", all.round_trip.len()),
        Figure::new("echoed", "echo checked", Unit::BytesPerSecond, echoed),
    ];
    if let Some(server) = server {
        let late = server.latest_close_ns as f64;
        let peak = server.peak_bytes.map(|bytes| bytes as f64);
        figures.push(Figure::new("latest_close", "latest close by the server", Unit::Nanos, late));
        figures.extend(cost_figures(["server_cpu", "server_switches"], &server.cost, seconds));
        let peak = Figure::new("server_peak", "server peak memory", Unit::Bytes, peak);
        figures.push(peak.tile());
    }
    figures.extend(cost_figures(["client_cpu", "client_switches"], client_cost, seconds));
    figures
}

fn timelines(samples: &[Sample]) -> Vec<Timeline> {
    let held = samples.iter().map(|sample| (sample.at_s, open(sample) as f64));
    let memory =
        samples.iter().filter_map(|sample| Some((sample.at_s, sample.resident_bytes? as f64)));
    let line = |key, title, about, unit, points| Timeline { key, title, about, unit, points };
    vec![
        line(
            "open",
            "Open connections",
            "Closed ones are replaced until the load is over; then all fall silent.",
            Unit::Count,
            held.collect(),
        ),
        line(
            "server_resident",
            "Resident memory of the server",
            "Its process alone; buffers of sockets are the system's.",
            Unit::Bytes,
            memory.collect(),
        ),
    ]
}

fn kinds(totals: &Totals, all: &KindTotals) -> Table {
    let kinds = KINDS.into_iter().map(|(kind, name)| (name, &totals.kinds[kind as usize]));
    let used = kinds.filter(|(_, totals)| totals.opened > 0).chain([("all", all)]);
    let row = |(name, totals): (&str, &KindTotals)| {
        let at = |histogram: &Histogram<u64>, percentile: f64| {
            let some = !histogram.is_empty();
            Cell::Value(some.then(|| histogram.value_at_percentile(percentile) as f64), Unit::Nanos)
        };
        vec![
            Cell::Text(name.to_owned()),
            Cell::count(totals.opened),
            Cell::count(totals.closed),
            at(&totals.lateness, 50.0),
            at(&totals.lateness, 99.0),
            at(&totals.lateness, 100.0),
            at(&totals.round_trip, 50.0),
            at(&totals.round_trip, 99.0),
            Cell::Value(Some(totals.echoed as f64), Unit::Bytes),
        ]
    };
    Table {
        key: "kinds",
        title: "Connections by kind",
        head: vec![
            ("kind", "connections"),
            ("opened", "opened"),
            ("closed", "closed"),
            ("lateness_p50_ns", "late p50"),
            ("lateness_p99_ns", "p99"),
            ("lateness_max_ns", "max"),
            ("round_trip_p50_ns", "echo p50"),
            ("round_trip_p99_ns", "p99"),
            ("echoed_bytes", "echoed"),
        ],
        rows: used.map(row).collect(),
    }
}
