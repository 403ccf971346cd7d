//! The HTML report of a load run or a replay.

use hdrhistogram::Histogram;
use maud::{Markup, html};

use super::chart::{Series, Width};
use super::format::{bytes, count, nanos, or_na, rate, short};
use super::page::{Page, figures, grid};
use super::plots::{curve, lateness_bars, percentiles, rates, single};
use super::{Outcome, PERCENTILES, table};
use crate::run::Sample;

/// The whole page.
pub(super) fn render(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    Page {
        title: outcome.title,
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
            (tables(outcome))
        },
    }
    .render()
}

fn tiles(outcome: &Outcome) -> Vec<(String, &'static str)> {
    let at = |histogram: &Histogram<u64>, percentile: f64| {
        if histogram.is_empty() {
            "-".to_owned()
        } else {
            nanos(histogram.value_at_percentile(percentile))
        }
    };
    let cpu = outcome.cost.cpu_user_s.zip(outcome.cost.cpu_system_s);
    let cores = |(user, system): (f64, f64)| (user + system) / outcome.seconds.max(1e-9);
    vec![
        (format!("{}/s", rate(outcome.pairs_per_second())), "schedule + cancel pairs"),
        (at(&outcome.schedule, 50.0), "schedule call, p50"),
        (at(&outcome.schedule, 99.9), "schedule call, p99.9"),
        (at(&outcome.lateness, 99.0), "firing lateness, p99"),
        (or_na(cpu, |cpu| format!("{:.2} cores", cores(cpu))), "CPU"),
        (or_na(outcome.memory.peak_bytes, bytes), "peak memory"),
    ]
}

fn over_time(outcome: &Outcome) -> Markup {
    let total = |of: fn(&Sample) -> u64| -> Vec<(f64, u64)> {
        outcome.samples.iter().map(|sample| (sample.at_s, of(sample))).collect()
    };
    let pairs = rates(&total(|sample| sample.cancelled));
    let fired = rates(&total(|sample| sample.fired));
    let pending = outcome.samples.iter().map(|sample| {
        let ended = sample.cancelled + sample.fired;
        (sample.at_s, sample.scheduled.saturating_sub(ended) as f64)
    });
    html! {
        div.card {
            h2 { "Throughput over time" }
            p.soft { "Timers scheduled and then cancelled, per second." }
            (single(Width::Full, "pairs per second", "a", pairs, |value| short(&rate(value))))
        }
        div.pair {
            div.card {
                h2 { "Firing over time" }
                (single(Width::Half, "fired per second", "b", fired, |value| short(&rate(value))))
            }
            div.card {
                h2 { "Pending timers" }
                (single(Width::Half, "pending", "c", pending.collect(), |value| short(&rate(value))))
            }
        }
    }
}

fn memory(outcome: &Outcome) -> Markup {
    let memory = outcome.samples.iter().filter_map(|sample| {
        Some((sample.at_s, sample.resident_bytes? as f64 / f64::from(1 << 20)))
    });
    single(Width::Half, "MiB", "a", memory.collect(), |value| format!("{value:.0}"))
}

fn distributions(outcome: &Outcome) -> Markup {
    let calls = [
        Series { name: "schedule", class: "a", points: curve(&outcome.schedule) },
        Series { name: "cancel", class: "b", points: curve(&outcome.cancel) },
    ];
    let late = [Series { name: "lateness", class: "c", points: curve(&outcome.lateness) }];
    html! {
        div.pair {
            div.card {
                h2 { "Latency of schedule and cancel calls" }
                p.soft { "Sampled calls, clock reads included." }
                (percentiles(&calls, "duration of a call"))
            }
            div.card {
                h2 { "Firing lateness by percentile" }
                p.soft { "From the requested deadline to the handler." }
                (percentiles(&late, "lateness"))
            }
        }
        div.pair {
            div.card {
                h2 { "Firing lateness, distribution" }
                p.soft { "Share of the fired timers in each band." }
                (lateness_bars(&outcome.lateness, "timers"))
            }
            div.card {
                h2 { "Resident memory" }
                p.soft { "Of the whole process, this program's books included." }
                (memory(outcome))
            }
        }
    }
}

fn tables(outcome: &Outcome) -> Markup {
    let names = PERCENTILES.iter().map(|(name, ..)| *name);
    let head: Vec<&str> = std::iter::once("").chain(names).chain(["max", "measured"]).collect();
    let rows = outcome.distributions().map(|(name, histogram)| {
        let at = PERCENTILES.iter().map(|(.., p)| histogram.value_at_percentile(*p));
        let mut row = vec![name.to_owned()];
        row.extend(at.chain([histogram.max()]).map(nanos));
        row.push(count(histogram.len()));
        row
    });
    let (shards_head, shards) = table::shard_rows(outcome);
    html! {
        (grid("Percentiles", &head, &rows))
        (figures(table::figure_rows(outcome)))
        (grid("Balance of the shards", &shards_head, &shards))
    }
}
