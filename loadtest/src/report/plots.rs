//! The plots that reports are made of: a total over time, a distribution by percentile or in bands.

use hdrhistogram::Histogram;
use maud::{Markup, html};

use super::chart::{Axis, Bar, Plane, Series, Width};
use super::format::{count, nanos, short};

/// Points per decade of a lateness histogram's bars.
const BARS_PER_DECADE: f64 = 8.0;

/// One line over the seconds of the run.
pub(super) fn single(
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
pub(super) fn rates(points: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let steps = points.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 0.02);
    steps
        .map(|pair| {
            let ((then, before), (now, after)) = (pair[0], pair[1]);
            (now, after.saturating_sub(before) as f64 / (now - then))
        })
        .collect()
}

/// Percentile and nanoseconds, as far as the number of values carries.
pub(super) fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
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

/// Lines of `curve` on common axes.
pub(super) fn percentiles(series: &[Series], about: &'static str) -> Markup {
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

/// Share of the values in each band; `things` says what has been late.
pub(super) fn lateness_bars(histogram: &Histogram<u64>, things: &str) -> Markup {
    if histogram.is_empty() {
        return html! { p.soft { "Nothing was measured in this run." } };
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
                "{} to {}: {} {things}, {share:.2} %",
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
    Plane { x, y, width: Width::Half }.bars("c", &bars, "distribution of lateness")
}
