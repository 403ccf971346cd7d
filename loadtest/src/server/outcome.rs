//! What a run against the server came to, as a phase of a report.

use hdrhistogram::Histogram;

use super::kind::{KINDS, Kind};
use super::monitor::Sample;
use super::totals::{KindTotals, Totals};
use super::verdict;
use crate::host::protocol::ServerCounts;
use crate::numbers::count;
use crate::outcome::{CostNames, cost_figures, rates};
use crate::report::model::{
    Better, Cell, Distribution, Figure, PERCENTILES, Phase, Table, Timeline, Unit, Verdict,
};
use crate::usage::Cost;

/// Everything that is known once the run is judged.
pub(super) struct Outcome {
    /// Seconds until the last connection was closed.
    pub(super) seconds: f64,
    pub(super) verdict: verdict::Verdict,
    pub(super) totals: Totals,
    /// What the server's process counted and cost, if it answered.
    pub(super) server: Option<ServerCounts>,
    /// What the clients' process cost.
    pub(super) client_cost: Cost,
    pub(super) client_peak_bytes: Option<u64>,
    pub(super) samples: Vec<Sample>,
}

const SERVER_COST: CostNames = CostNames {
    cpu: [("server_cpu", "server CPU"), ("server_cpu_system", "of it in the kernel")],
    switches: [
        ("server_switches", "server context switches"),
        ("server_involuntary_switches", "of them involuntary"),
    ],
};

const CLIENT_COST: CostNames = CostNames {
    cpu: [("client_cpu", "client CPU"), ("client_cpu_system", "of it in the kernel")],
    switches: [
        ("client_switches", "client context switches"),
        ("client_involuntary_switches", "of them involuntary"),
    ],
};

impl Outcome {
    /// In the form of the report.
    pub(super) fn phase(self) -> Phase {
        Phase {
            name: "server",
            settings: Vec::new(),
            seconds: self.seconds,
            verdict: self.verdict(),
            figures: self.figures(),
            distributions: self.distributions(),
            timelines: self.timelines(),
            tables: vec![self.kinds()],
        }
    }

    fn verdict(&self) -> Verdict {
        let found = &self.verdict;
        let equals = if found.closed + found.open == found.opened { "=" } else { "≠" };
        Verdict {
            began: found.opened,
            balance: format!(
                "opened {} {equals} closed by the server {} + open at the end {}",
                count(found.opened),
                count(found.closed),
                count(found.open),
            ),
            counts: vec![
                ("opened", found.opened),
                ("closed", found.closed),
                ("open_at_end", found.open),
                ("excused", found.excused),
            ],
            breaches: vec![
                ("early", found.early),
                ("forgotten", found.forgotten),
                ("corrupt", found.corrupt),
                ("mismatches", found.mismatches),
            ],
            findings: found.findings.clone(),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let all = self.totals.all();
        let seconds = self.seconds.max(1e-9);
        let (most, mean) = self.held();
        let counted = |key, label, value: u64| Figure::new(key, label, Unit::Count, value as f64);
        let flow = |key, label, value: u64| {
            Figure::new(key, label, Unit::BytesPerSecond, value as f64 / seconds)
        };
        let memory = |key, label, value: Option<u64>| {
            let value = value.map(|bytes| bytes as f64);
            Figure::new(key, label, Unit::Bytes, value).better(Better::Less).tile()
        };
        let mut figures = vec![
            counted("held_most", "connections held open", most).tile(),
            counted("held_mean", "of them on average", mean as u64),
            counted("closed", "closed as idle", all.closed).tile(),
            counted("excused", "not judged, after a delay of this program", all.excused),
            counted("messages", "messages whose echo was checked", all.round_trip.len()),
            flow("echoed", "echo checked", all.echoed),
            flow("sent", "sent, floods included", all.sent),
            counted("heartbeats_read", "heartbeats read by clients", all.heartbeats),
        ];
        if let Some(server) = &self.server {
            figures.push(counted("heartbeats", "heartbeats sent", server.heartbeats));
            let late = server.latest_close_ns as f64;
            figures.push(Figure::new(
                "latest_close",
                "latest close by the server",
                Unit::Nanos,
                late,
            ));
            figures.extend(cost_figures(SERVER_COST, &server.cost, seconds));
            figures.push(memory("server_peak", "server peak memory", server.peak_bytes));
        }
        figures.extend(cost_figures(CLIENT_COST, &self.client_cost, seconds));
        figures.push(memory("client_peak", "client peak memory", self.client_peak_bytes));
        figures
    }

    /// The most connections that were open at one moment, and the mean while the load ran.
    fn held(&self) -> (u64, f64) {
        let most = self.samples.iter().map(Sample::open).max().unwrap_or(0);
        // The opening at the start and the closing at the end are no part of the mean.
        let full = |open: &u64| *open * 2 > most;
        let during: Vec<u64> = self.samples.iter().map(Sample::open).filter(full).collect();
        (most, during.iter().sum::<u64>() as f64 / during.len().max(1) as f64)
    }

    fn distributions(&self) -> Vec<Distribution> {
        let all = self.totals.all();
        let late = |key, label, histogram: &Histogram<u64>| Distribution {
            key,
            label,
            histogram: histogram.clone(),
            tile: None,
            chart: "Close lateness by percentile",
            about: "From the client's last act plus the idle timeout to the close that it sees.",
            bands_of: None,
        };
        let of = |kind| &self.totals.of(kind).lateness;
        vec![
            Distribution {
                tile: Some(1),
                bands_of: Some("connections"),
                ..late("lateness", "close lateness", &all.lateness)
            },
            late("lateness_silent", "silent", of(Kind::Silent)),
            late("lateness_half_open", "half-open", of(Kind::HalfOpen)),
            Distribution {
                tile: Some(0),
                chart: "Echo round trip by percentile",
                about: "From the begin of a write to the last byte of its echo.",
                ..late("round_trip", "echo round trip", &all.round_trip)
            },
        ]
    }

    fn timelines(&self) -> Vec<Timeline> {
        let total = |of: fn(&Sample) -> u64| -> Vec<(f64, u64)> {
            self.samples.iter().map(|sample| (sample.at_s, of(sample))).collect()
        };
        let open = self.samples.iter().map(|sample| (sample.at_s, sample.open() as f64));
        let memory = self.samples.iter();
        let memory = memory.filter_map(|sample| Some((sample.at_s, sample.server_bytes? as f64)));
        let line = |key, title, about, unit, points| Timeline { key, title, about, unit, points };
        vec![
            line(
                "open",
                "Open connections",
                "Closed ones are replaced until the load is over; then all fall silent.",
                Unit::Count,
                open.collect(),
            ),
            line(
                "closed",
                "Closed by the server",
                "Connections per second.",
                Unit::PerSecond,
                rates(&total(|sample| sample.closed)),
            ),
            line(
                "moved",
                "Bytes sent and received by the clients",
                "Per second, floods included.",
                Unit::BytesPerSecond,
                rates(&total(|sample| sample.bytes)),
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

    fn kinds(&self) -> Table {
        let all = self.totals.all();
        let kinds = KINDS.into_iter().map(|kind| (kind.to_string(), self.totals.of(kind)));
        let used = kinds.filter(|(_, totals)| totals.opened > 0);
        let rows = used.chain([("all".to_owned(), &all)]).map(|(name, totals)| row(name, totals));
        Table {
            key: "kinds",
            title: "Connections by kind",
            head: vec![
                ("kind", "connections"),
                ("opened", "opened"),
                ("closed", "closed"),
                ("lateness_p50_ns", "late p50"),
                ("lateness_p99_ns", "p99"),
                ("lateness_p99_9_ns", "p99.9"),
                ("lateness_max_ns", "max"),
                ("round_trip_p50_ns", "echo p50"),
                ("round_trip_p99_ns", "p99"),
                ("echoed_bytes", "echoed"),
            ],
            rows: rows.collect(),
        }
    }
}

fn row(name: String, totals: &KindTotals) -> Vec<Cell> {
    let at = |histogram: &Histogram<u64>, percentile: f64| {
        let some = !histogram.is_empty();
        Cell::Value(some.then(|| histogram.value_at_percentile(percentile) as f64), Unit::Nanos)
    };
    let mut row = vec![Cell::Text(name), Cell::count(totals.opened), Cell::count(totals.closed)];
    let late = PERCENTILES.iter().map(|(.., percentile)| *percentile).chain([100.0]);
    row.extend(late.map(|percentile| at(&totals.lateness, percentile)));
    row.extend([50.0, 99.0].map(|percentile| at(&totals.round_trip, percentile)));
    row.push(Cell::Value(Some(totals.echoed as f64), Unit::Bytes));
    row
}
