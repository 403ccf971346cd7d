//! The HTML report.

use hdrhistogram::Histogram;
use maud::{Markup, html};

use super::{TITLE, held, table};
use crate::report::chart::{Series, Width};
use crate::report::format::{bytes, count, nanos, or_na, rate, short};
use crate::report::page::{Page, figures, grid};
use crate::report::plots::{curve, lateness_bars, percentiles, rates, single};
use crate::server::{Kind, Sample, ServerOutcome};

/// The whole page.
pub(super) fn render(outcome: &ServerOutcome) -> String {
    let verdict = &outcome.verdict;
    let (head, rows) = table::kind_rows(outcome);
    Page {
        title: TITLE,
        machine: &outcome.machine,
        settings: &outcome.settings,
        seconds: outcome.seconds,
        interrupted: outcome.interrupted,
        word: verdict.word(),
        sums: format!("{}; {}", table::sum(outcome), table::breaches(outcome)),
        evidence: &verdict.evidence,
        remark: outcome.remark.as_deref(),
        tiles: tiles(outcome),
        body: html! {
            (over_time(outcome))
            (distributions(outcome))
            (grid("Connections by kind", &head, &rows))
            (figures(table::figure_rows(outcome)))
        },
    }
    .render()
}

fn tiles(outcome: &ServerOutcome) -> Vec<(String, &'static str)> {
    let all = outcome.tally.all();
    let at = |histogram: &Histogram<u64>, percentile: f64| match histogram.is_empty() {
        true => "-".to_owned(),
        false => nanos(histogram.value_at_percentile(percentile)),
    };
    let server = outcome.server.as_ref();
    let cpu = server.and_then(|server| server.cost.cpu_user_s.zip(server.cost.cpu_system_s));
    let cores = |(user, system): (f64, f64)| (user + system) / outcome.seconds.max(1e-9);
    vec![
        (count(held(outcome).0), "connections held open"),
        (count(all.closed), "closed as idle"),
        (at(&all.lateness, 99.0), "close lateness, p99"),
        (at(&all.round_trip, 50.0), "echo round trip, p50"),
        (or_na(cpu, |cpu| format!("{:.2} cores", cores(cpu))), "server CPU"),
        (or_na(server.and_then(|server| server.peak_bytes), bytes), "server peak memory"),
    ]
}

fn over_time(outcome: &ServerOutcome) -> Markup {
    let points = |of: fn(&Sample) -> u64| -> Vec<(f64, u64)> {
        outcome.samples.iter().map(|sample| (sample.at_s, of(sample))).collect()
    };
    let open = outcome.samples.iter().map(|sample| (sample.at_s, sample.open() as f64)).collect();
    let closed = rates(&points(|sample| sample.closed));
    let moved = rates(&points(|sample| sample.bytes));
    html! {
        div.card {
            h2 { "Open connections" }
            p.soft { "Closed ones are replaced until the load is over; then all fall silent." }
            (single(Width::Full, "open", "a", open, |value| short(&rate(value))))
        }
        div.pair {
            div.card {
                h2 { "Closed by the server" }
                (single(Width::Half, "closed per second", "b", closed, |value| short(&rate(value))))
            }
            div.card {
                h2 { "Bytes sent and received by the clients" }
                (single(Width::Half, "bytes per second", "c", moved, |value| short(&rate(value))))
            }
        }
    }
}

fn distributions(outcome: &ServerOutcome) -> Markup {
    let all = outcome.tally.all();
    let late = [(Kind::Silent, "a"), (Kind::Fading, "b"), (Kind::HalfOpen, "c")];
    let names = ["silent", "fading", "half-open"];
    let late = late.into_iter().zip(names).map(|((kind, class), name)| {
        let points = curve(&outcome.tally.of(kind).lateness);
        Series { name, class, points }
    });
    let late: Vec<Series> = late.filter(|series| !series.points.is_empty()).collect();
    let echo = [Series { name: "echo", class: "b", points: curve(&all.round_trip) }];
    html! {
        div.pair {
            div.card {
                h2 { "Close lateness by percentile" }
                p.soft { "From the last act of the client plus the idle timeout to the close it sees." }
                (percentiles(&late, "lateness"))
            }
            div.card {
                h2 { "Close lateness, distribution" }
                p.soft { "Share of the closed connections in each band; floods end unseen." }
                (lateness_bars(&all.lateness, "connections"))
            }
        }
        div.pair {
            div.card {
                h2 { "Echo round trip by percentile" }
                p.soft { "From the begin of a write to the last byte of its echo." }
                (percentiles(&echo, "round trip"))
            }
            div.card {
                h2 { "Resident memory of the server" }
                p.soft { "Its process alone; buffers of sockets are the system's." }
                (memory(outcome))
            }
        }
    }
}

fn memory(outcome: &ServerOutcome) -> Markup {
    let memory = outcome
        .samples
        .iter()
        .filter_map(|sample| Some((sample.at_s, sample.server_bytes? as f64 / f64::from(1 << 20))));
    single(Width::Half, "MiB", "a", memory.collect(), |value| format!("{value:.0}"))
}
