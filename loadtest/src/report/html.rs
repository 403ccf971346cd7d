//! The HTML report: one file, charts inside, nothing fetched.

use std::time::SystemTime;

use hdrhistogram::Histogram;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{Axis, Bar, Plane, Series, Width};
use super::format::{bytes, count, nanos, or_na, rate, short};
use super::style::STYLE;
use super::{Outcome, PERCENTILES, table};
use crate::run::Sample;

/// Points per decade of a lateness histogram's bars.
const BARS_PER_DECADE: f64 = 8.0;

/// The whole page.
pub(crate) fn render(outcome: &Outcome) -> String {
    let title = format!("tickwheel {}", outcome.title);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) ": " (outcome.verdict.word()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.soft {
                    (humantime::format_rfc3339_seconds(SystemTime::now())) " · "
                    (or_na(outcome.machine.cpu.clone(), |cpu| cpu)) ", " (outcome.machine.cores)
                    " cores · " (format!("{:.1} s of load", outcome.seconds))
                    @if outcome.interrupted { " · ended early by request" }
                }
                (verdict(outcome))
                (tiles(outcome))
                @if let Some(remark) = &outcome.remark { div.card { "Note: " (remark) } }
                (over_time(outcome))
                (distributions(outcome))
                (tables(outcome))
                (facts(outcome))
            }
        }
    };
    page.into_string()
}

fn verdict(outcome: &Outcome) -> Markup {
    let verdict = &outcome.verdict;
    html! {
        div class={ "card verdict " (verdict.word()) } {
            strong { "Verdict " (verdict.word().to_uppercase()) }
            (table::sum(outcome)) "; " (table::breaches(outcome))
            @if !verdict.evidence.is_empty() {
                ul { @for line in &verdict.evidence { li { (line) } } }
            }
        }
    }
}

fn tiles(outcome: &Outcome) -> Markup {
    let at = |histogram: &Histogram<u64>, percentile: f64| {
        if histogram.is_empty() {
            "-".to_owned()
        } else {
            nanos(histogram.value_at_percentile(percentile))
        }
    };
    let cpu = outcome.cost.cpu_user_s.zip(outcome.cost.cpu_system_s);
    let cores = |(user, system): (f64, f64)| (user + system) / outcome.seconds.max(1e-9);
    let tiles = [
        (format!("{}/s", rate(outcome.pairs_per_second())), "schedule + cancel pairs"),
        (at(&outcome.schedule, 50.0), "schedule call, p50"),
        (at(&outcome.schedule, 99.9), "schedule call, p99.9"),
        (at(&outcome.lateness, 99.0), "firing lateness, p99"),
        (or_na(cpu, |cpu| format!("{:.2} cores", cores(cpu))), "CPU"),
        (or_na(outcome.memory.peak_bytes, bytes), "peak memory"),
    ];
    html! {
        div.tiles {
            @for (value, name) in tiles { div.card { b { (value) } span.soft { (name) } } }
        }
    }
}

fn over_time(outcome: &Outcome) -> Markup {
    let pairs = rates(&outcome.samples, |sample| sample.cancelled);
    let fired = rates(&outcome.samples, |sample| sample.fired);
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

fn single(
    width: Width,
    label: &'static str,
    class: &'static str,
    points: Vec<(f64, f64)>,
    show: fn(f64) -> String,
) -> Markup {
    if points.len() < 2 {
        return html! { p.soft { "Not measured in this run." } };
    }
    let end = points.last().map_or(0.0, |point| point.0);
    let high = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let (x, y) = (Axis::time("seconds", end), Axis::linear(label, high * 1.05, show));
    Plane { x, y, width }.lines(&[Series { name: label, class, points }], label)
}

/// Change per second between neighbouring samples, drawn at the later one.
fn rates(samples: &[Sample], total: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let steps = samples.windows(2).filter(|pair| pair[1].at_s - pair[0].at_s > 0.02);
    steps
        .map(|pair| {
            let change = total(&pair[1]).saturating_sub(total(&pair[0]));
            (pair[1].at_s, change as f64 / (pair[1].at_s - pair[0].at_s))
        })
        .collect()
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
                (lateness_bars(&outcome.lateness))
            }
            div.card {
                h2 { "Resident memory" }
                p.soft { "Of the whole process, this program's books included." }
                (memory(outcome))
            }
        }
    }
}

/// Percentile and nanoseconds, as far as the number of values carries.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let last = last_percentile(histogram.len());
    // Eight points per nine keep the curve smooth.
    let nines = -((100.0 - last) / 100.0).log10();
    let steps = (nines * 24.0).ceil() as u32;
    (0..=steps)
        .map(|step| {
            let percentile =
                100.0 * (1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(steps)));
            (percentile, histogram.value_at_percentile(percentile).max(1) as f64)
        })
        .collect()
}

/// The furthest percentile with at least ten values above it.
fn last_percentile(values: u64) -> f64 {
    let mut last = 90.0;
    for percentile in [99.0, 99.9, 99.99, 99.999, 99.9999] {
        if values as f64 * (100.0 - percentile) / 100.0 >= 10.0 {
            last = percentile;
        }
    }
    last
}

fn percentiles(series: &[Series], about: &'static str) -> Markup {
    let points = || series.iter().flat_map(|one| &one.points);
    if points().next().is_none() {
        return html! { p.soft { "Nothing was measured in this run." } };
    }
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let (x, y) = (Axis::nines("percentile", last), Axis::log("", low, high, mark));
    Plane { x, y, width: Width::Half }.lines(series, about)
}

/// Nanoseconds at an axis.
fn mark(ns: f64) -> String {
    short(&nanos(ns as u64))
}

fn lateness_bars(histogram: &Histogram<u64>) -> Markup {
    if histogram.is_empty() {
        return html! { p.soft { "No timer fired in this run." } };
    }
    let (low, high) = (histogram.min().max(1) as f64, histogram.max().max(10) as f64);
    let (first, last) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let bands = ((last - first) * BARS_PER_DECADE).round() as u32;
    let edge = |band: u32| 10f64.powf(first + f64::from(band) / BARS_PER_DECADE);
    let bars: Vec<Bar> = (0..bands)
        .map(|band| {
            let (from, to) = (edge(band), edge(band + 1));
            let floor = if band == 0 { 0 } else { from as u64 };
            let found = histogram.count_between(floor, (to as u64).saturating_sub(1));
            let share = found as f64 * 100.0 / histogram.len() as f64;
            let text = format!(
                "{} to {}: {} timers, {share:.2} %",
                nanos(from as u64),
                nanos(to as u64),
                count(found)
            );
            Bar { from, to, value: share, text }
        })
        .collect();
    let top = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let x = Axis::log("lateness", low, high, mark);
    let y = Axis::linear("share", top * 1.05, |value| format!("{value} %"));
    Plane { x, y, width: Width::Half }.bars("c", &bars, "distribution of firing lateness")
}

fn tables(outcome: &Outcome) -> Markup {
    let (head, rows) = table::shard_rows(outcome);
    html! {
        div.card.scroll {
            h2 { "Percentiles" }
            table {
                tr {
                    th {}
                    @for (name, ..) in PERCENTILES { th { (name) } }
                    th { "max" } th { "measured" }
                }
                @for (name, histogram) in outcome.distributions() {
                    tr {
                        td { (name) }
                        @for (.., percentile) in PERCENTILES {
                            td { (nanos(histogram.value_at_percentile(percentile))) }
                        }
                        td { (nanos(histogram.max())) } td { (count(histogram.len())) }
                    }
                }
            }
        }
        div.card.scroll {
            h2 { "Figures" }
            table.facts {
                @for (name, value) in table::figure_rows(outcome) {
                    tr { td { (name) } td { (value) } }
                }
            }
        }
        div.card.scroll {
            h2 { "Balance of the shards" }
            table {
                tr { @for name in head { th { (name) } } }
                @for row in rows { tr { @for cell in row { td { (cell) } } } }
            }
        }
    }
}

fn facts(outcome: &Outcome) -> Markup {
    let machine = &outcome.machine;
    let rows = [
        ("platform", machine.platform.clone()),
        ("kernel", or_na(machine.kernel.clone(), |kernel| kernel)),
        ("processor", or_na(machine.cpu.clone(), |cpu| cpu)),
        ("cores", machine.cores.to_string()),
        ("memory", or_na(machine.memory_bytes, bytes)),
        ("load program", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    html! {
        div.pair {
            div.card {
                h2 { "Settings" }
                table.facts {
                    @for (name, value) in &outcome.settings {
                        tr {
                            td { (name.replace('_', "-")) }
                            td { (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) }
                        }
                    }
                }
            }
            div.card {
                h2 { "Machine" }
                table.facts { @for (name, value) in rows { tr { td { (name) } td { (value) } } } }
            }
        }
    }
}
