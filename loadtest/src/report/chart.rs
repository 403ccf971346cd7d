//! The page's charts, drawn by `plotters` as SVG: a value over time, percentiles, shares in bands.
//!
//! The colours are names: [`theme`] replaces each by the page's own, so that one drawing is readable on
//! light and on dark.

use std::ops::Range;

use hdrhistogram::Histogram;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use super::model::{Distribution, Timeline, Unit};
use crate::numbers::{nanos, short};

/// Drawn so small that the labels stay readable on a narrow screen.
const SIZE: (u32, u32) = (480, 250);
const FONT: &str = "sans-serif";

const TEXT: RGBColor = RGBColor(0x57, 0x60, 0x6A);
const GRID: RGBColor = RGBColor(0xE8, 0xEB, 0xEF);
const SERIES: [RGBColor; 3] =
    [RGBColor(0x25, 0x63, 0xC9), RGBColor(0xB4, 0x53, 0x0A), RGBColor(0x1A, 0x7F, 0x4B)];

/// Rules that give the drawings the colours of the page.
pub(super) fn theme() -> String {
    let series = SERIES.into_iter().zip(["--a", "--b", "--c"]);
    let all = series.chain([(TEXT, "--soft"), (GRID, "--grid")]);
    let rule = |(RGBColor(red, green, blue), name): (RGBColor, &str)| {
        let colour = format!("#{red:02X}{green:02X}{blue:02X}");
        format!(
            "svg [stroke='{colour}'] {{ stroke: var({name}); }} \
             svg [fill='{colour}'] {{ fill: var({name}); }}\n"
        )
    };
    all.map(rule).collect()
}

/// An axis: its range after stretching, where its marks are, and what they say.
#[derive(Clone)]
struct Axis {
    label: &'static str,
    range: Range<f64>,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// Evenly from 0 to at least `high`, in about `steps` round steps.
    fn linear(label: &'static str, high: f64, steps: f64, show: impl Fn(f64) -> String) -> Self {
        Self::stepped(label, high, round_step(high / steps), show)
    }

    fn stepped(label: &'static str, high: f64, step: f64, show: impl Fn(f64) -> String) -> Self {
        let count = (high / step).ceil().max(1.0) as u32;
        let marks = (0..=count).map(|n| f64::from(n) * step);
        let marks = marks.map(|value| (value, show(value))).collect();
        Self { label, range: 0.0..f64::from(count) * step, marks }
    }

    /// By powers of ten around `low` to `high` nanoseconds.
    fn decades(label: &'static str, low: u64, high: u64) -> Self {
        let first = decade(low).floor();
        let last = decade(high).ceil().max(first + 1.0);
        let marks = (first as u32..=last as u32)
            .map(|power| (f64::from(power), short(&nanos(10u64.saturating_pow(power)))));
        Self { label, range: first..last, marks: marks.collect() }
    }

    /// Percentiles, each further nine as wide as the one before.
    fn nines(nines: f64) -> Self {
        let all = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let marks = all.map(|percentile| (nines_of(percentile), format!("{percentile}%")));
        let marks = marks.into_iter().filter(|(at, _)| *at <= nines + 1e-9);
        Self { label: "percentile", range: 0.0..nines, marks: marks.collect() }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        let mark = self.marks.iter().find(|(at, _)| (at - value).abs() < 1e-9);
        mark.map_or_else(String::new, |(_, text)| text.clone())
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

fn decade(ns: u64) -> f64 {
    (ns.max(1) as f64).log10()
}

/// How many nines a percentile has: 90 has one, 99.9 has three.
fn nines_of(percentile: f64) -> f64 {
    -((100.0 - percentile) / 100.0).max(1e-9).log10()
}

/// Lines with their names.
type Lines = [(&'static str, Vec<(f64, f64)>)];

/// A value over the seconds of a phase; `None` if there are not two points of it.
pub(super) fn timeline(timeline: &Timeline) -> Option<String> {
    let points = timeline.points.clone();
    let end = points.last().filter(|_| points.len() > 1)?.0;
    let high = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let mut x = Axis::linear("seconds", end, 6.0, |value| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    });
    x.range.end = end.max(1e-3);
    let step = match timeline.unit {
        // Round numbers of KiB, MiB and so on.
        Unit::Bytes | Unit::BytesPerSecond => {
            let unit = 1024f64.powf(high.max(1.0).log(1024.0).floor());
            round_step(high / unit / 4.0) * unit
        }
        _ => round_step(high / 4.0),
    };
    let y = Axis::stepped("", high, step, |value| short(&timeline.unit.show(value)));
    Some(draw(&x, &y, &[(timeline.title, points)], true))
}

/// Distributions by percentile; `None` if none of them was measured.
pub(super) fn percentiles(distributions: &[&Distribution]) -> Option<String> {
    let some = distributions.iter().filter(|one| !one.histogram.is_empty());
    let some: Vec<_> = some.map(|one| (one.label, &one.histogram)).collect();
    let low = some.iter().map(|(_, histogram)| histogram.min()).min()?;
    let high = some.iter().map(|(_, histogram)| histogram.max()).max()?;
    let nines = some.iter().map(|(_, histogram)| last_nines(histogram.len())).fold(1.0, f64::max);
    let lines = some.iter().map(|(label, histogram)| (*label, curve(histogram)));
    let (x, y) = (Axis::nines(nines), Axis::decades("", low, high));
    Some(draw(&x, &y, &lines.collect::<Vec<_>>(), false))
}

/// Nines and powers of ten, as far as the number of values carries.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    const STEPS_PER_NINE: f64 = 24.0;
    let nines = last_nines(histogram.len());
    let steps = (nines * STEPS_PER_NINE).ceil() as u32;
    let places = (0..=steps).map(|step| nines * f64::from(step) / f64::from(steps));
    let at = |nines: f64| histogram.value_at_quantile(1.0 - 10f64.powf(-nines));
    places.map(|nines| (nines, decade(at(nines)))).collect()
}

/// The most nines with at least ten values beyond them, at least one.
fn last_nines(values: u64) -> f64 {
    (values as f64 / 10.0).max(10.0).log10().floor().min(6.0)
}

/// The share of the values in each of eight bands per decade; `None` if nothing was measured.
pub(super) fn bands(histogram: &Histogram<u64>) -> Option<String> {
    const PER_DECADE: f64 = 8.0;
    if histogram.is_empty() {
        return None;
    }
    let x = Axis::decades("", histogram.min(), histogram.max().max(10));
    let bands = ((x.range.end - x.range.start) * PER_DECADE).round() as u32;
    let edge = |band: u32| x.range.start + f64::from(band) / PER_DECADE;
    let share = |band: u32| {
        let floor = if band == 0 { 0 } else { 10f64.powf(edge(band)) as u64 };
        let found = histogram.count_between(floor, 10f64.powf(edge(band + 1)) as u64 - 1);
        (band, found as f64 * 100.0 / histogram.len() as f64)
    };
    let shares: Vec<(u32, f64)> = (0..bands).map(share).collect();
    let top = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let y = Axis::linear("", top, 4.0, |value| format!("{value}%"));
    let bars: Vec<_> = shares.iter().map(|(b, share)| (edge(*b), edge(b + 1), *share)).collect();
    Some(draw_bars(&x, &y, &bars))
}

/// Drawing into a string cannot fail.
const DRAWN: &str = "a drawing in memory succeeds";

fn draw(x: &Axis, y: &Axis, lines: &Lines, from_zero: bool) -> String {
    on_plane(x, y, lines.len() > 1, |chart| {
        for ((name, points), colour) in lines.iter().zip(SERIES.iter().cycle()) {
            let points = points.iter().copied();
            // An area says "this much from nothing"; an axis of decades has no nothing.
            if from_zero {
                let area = AreaSeries::new(points.clone(), 0.0, colour.mix(0.14));
                chart.draw_series(area).expect(DRAWN);
            }
            let line = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)));
            let key = |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2));
            line.expect(DRAWN).label(*name).legend(key);
        }
    })
}

fn draw_bars(x: &Axis, y: &Axis, bars: &[(f64, f64, f64)]) -> String {
    on_plane(x, y, false, |chart| {
        let bars = bars.iter().map(|(from, to, share)| {
            let mut bar = Rectangle::new([(*from, 0.0), (*to, *share)], SERIES[2].filled());
            bar.set_margin(0, 0, 1, 0);
            bar
        });
        chart.draw_series(bars).expect(DRAWN);
    })
}

type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Draws axes, what `inside` draws, and, if wanted, a legend.
fn on_plane(x: &Axis, y: &Axis, legend: bool, inside: impl FnOnce(&mut Plane<'_, '_>)) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(18)
            .x_label_area_size(36)
            .y_label_area_size(62)
            .build_cartesian_2d(x.clone(), y.clone())
            .expect(DRAWN);
        let font = || (FONT, 13).into_font().color(&TEXT);
        chart
            .configure_mesh()
            .x_labels(x.marks.len())
            .y_labels(y.marks.len())
            .x_desc(x.label)
            .label_style(font())
            .axis_desc_style(font())
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()
            .expect(DRAWN);
        inside(&mut chart);
        if legend {
            let place = SeriesLabelPosition::UpperLeft;
            let mut labels = chart.configure_series_labels();
            labels.position(place).label_font(font());
            labels.border_style(TRANSPARENT).background_style(TRANSPARENT).draw().expect(DRAWN);
        }
        area.present().expect(DRAWN);
    }
    // Inside of a page the namespace is known, and the page names no address.
    svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram;

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (7.0, 10.0), (230e3, 500e3)] {
            assert_eq!(round_step(least), step);
        }
    }

    #[test]
    fn curves_end_where_ten_values_are_left() {
        assert_eq!([0, 100, 99_999, 100_000].map(last_nines), [1.0, 1.0, 3.0, 4.0]);
        let mut late = histogram();
        (1..=1000).for_each(|value| late.record(value * 1000).unwrap());
        let (first, last) = (curve(&late)[0], *curve(&late).last().unwrap());
        assert_eq!((first.0, last.0), (0.0, 2.0));
        assert!((last.1 - 990e3_f64.log10()).abs() < 0.01, "{last:?}");
    }

    #[test]
    fn nothing_measured_is_no_chart() {
        let empty = Timeline {
            key: "x",
            title: "x",
            about: "",
            unit: Unit::Count,
            points: vec![(0.0, 1.0)],
        };
        assert!(timeline(&empty).is_none() && percentiles(&[]).is_none());
        assert!(bands(&histogram()).is_none());
    }

    #[test]
    fn every_colour_of_a_chart_follows_the_theme() {
        let mut late = histogram();
        (1..=1000).for_each(|value| late.record(value * 977).unwrap());
        let points = vec![(0.0, 1.0), (1.0, 5e6), (2.0, 3e6)];
        let over = Timeline { key: "x", title: "x", about: "", unit: Unit::PerSecond, points };
        let charts = timeline(&over).unwrap() + &bands(&late).unwrap();
        for colour in charts.split("=\"#").skip(1).map(|rest| &rest[..6]) {
            assert!(theme().contains(colour), "#{colour} is the same on light and dark");
        }
        assert!(charts.contains("\n4 M/s\n") && charts.contains("\n2\n"), "{charts}");
    }
}
