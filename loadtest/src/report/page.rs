//! The HTML page: one file, nothing fetched. Its charts are SVG: a value over time, and percentiles; the style sheet has
//! their colours.

use hdrhistogram::Histogram;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::facts::Facts;
use super::model::{Distribution, Grid, PERCENTILES, Phase, Report, Timeline, Unit};
use super::terminal;
use crate::numbers::{nanos, or_na};

/// Readable on light and dark, nothing loaded from elsewhere.
const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn render(report: &Report, made_with: &Facts) -> String {
    let title = format!("tickwheel {}", report.kind);
    let many = report.phases.len() > 1;
    let settings = report
        .settings
        .iter()
        .map(|one| (&one.name, one.shown.clone()));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) ": " (report.word()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.soft {
                    (format!("{:.1} s of load", report.seconds()))
                    @if report.interrupted { " · ended early by request" }
                }
                div class={ "card verdict " (report.word().replace(' ', "-")) } {
                    strong { "Verdict " (report.word().to_uppercase()) }
                    (terminal::breaches(report))
                    ul {
                        @for phase in &report.phases {
                            li { @if many { (phase.name) ": " } (phase.verdict.balance) }
                            @for line in &phase.verdict.findings { li { (line) } }
                        }
                    }
                }
                div.headlines {
                    @for one in &report.phases { (headlines(one, many)) }
                }
                @if !report.notes.is_empty() {
                    div.card.note {
                        b { "To be known when reading the figures" }
                        ul { @for note in &report.notes { li { (note) } } }
                    }
                }
                @for one in &report.phases { (phase(one, many)) }
                div.pair {
                    (grid(&Grid::pairs("Settings", settings)))
                    (grid(&Grid::pairs("Made with", made_with.clone())))
                }
            }
        }
    };
    page.into_string()
}

fn phase(phase: &Phase, named: bool) -> Markup {
    html! {
        @if named {
            h2.phase {
                (phase.name) span.soft {
                    (format!(" {:.1} s", phase.seconds))
                    @for setting in &phase.settings { ", " (setting.name) " " (setting.shown) }
                }
            }
        }
        div.pair {
            // Distributions with one title are neighbours and share a chart.
            @for all in phase.distributions.chunk_by(|one, next| one.chart == next.chart) {
                (chart(all[0].chart, all[0].about, percentiles(all)))
            }
            @for one in &phase.timelines { (chart(one.title, one.about, timeline(one))) }
        }
        @for table in phase.grids() { (grid(&table)) }
    }
}

/// The first figures of a phase, and how its first distribution lies.
fn headlines(phase: &Phase, named: bool) -> Markup {
    let figures = phase.figures.iter().take(2);
    let figures = figures.map(|figure| (figure.show(), figure.label.to_owned()));
    let first = phase.distributions.first();
    let at = |(name, _, percentile): (&str, &str, f64)| {
        let first = first?;
        let shown = or_na(first.at(percentile), nanos);
        Some((shown, format!("{} {name}", first.label)))
    };
    html! {
        div.card {
            @if named { h2 { (phase.name) } }
            div.tiles {
                @for (value, label) in figures.chain(PERCENTILES.into_iter().filter_map(at)) {
                    div { b { (value) } span.soft { (label) } }
                }
            }
        }
    }
}

fn chart(title: &str, about: &str, drawing: Option<Markup>) -> Markup {
    html! {
        div.card {
            h3 { (title) }
            p.soft { (about) }
            @match drawing {
                Some(svg) => figure role="img" aria-label=(title) { (svg) },
                None => p.soft { "Not measured in this run." },
            }
        }
    }
}

fn grid(grid: &Grid) -> Markup {
    let class = if grid.head.is_empty() {
        "facts"
    } else {
        "scroll"
    };
    html! {
        div.card {
            h3 { (grid.title) }
            div class=(class) {
                table {
                    @if !grid.head.is_empty() { tr { @for name in &grid.head { th { (name) } } } }
                    @for row in &grid.rows {
                        tr {
                            @for (place, cell) in row.iter().enumerate() {
                                // The name stands beside the value where a row is a card.
                                td data-name=[grid.head.get(place)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// So small that the labels stay readable on a narrow screen.
const SIZE: (f64, f64) = (520.0, 250.0);
/// The corners of the plane within.
const LEFT: f64 = 68.0;
/// Half of the last percentile's label lies right of it, and the labels of two neighbours do not touch.
const RIGHT: f64 = 484.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 208.0;

/// An axis: its range, where its marks are, and what they say.
struct Axis {
    low: f64,
    high: f64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// Equal steps of a round number from 0 on, as far as they lie in the range.
    fn steps(low: f64, high: f64, step: f64, show: impl Fn(f64) -> String) -> Self {
        let marks = (0..=(high / step + 1e-9) as u32).map(|n| f64::from(n) * step);
        let marks = marks
            .filter(|mark| *mark >= low)
            .map(|mark| (mark, show(mark)));
        Self {
            low,
            high,
            marks: marks.collect(),
        }
    }

    /// Where a value lies between two ends.
    fn place(&self, value: f64, (from, to): (f64, f64)) -> f64 {
        let place = from + (value - self.low) / (self.high - self.low) * (to - from);
        (place * 10.0).round() / 10.0
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(10.0 * power)
}

fn decade(ns: u64) -> f64 {
    (ns.max(1) as f64).log10()
}

/// A value over the seconds of a phase; `None` if there are not two points of it.
fn timeline(timeline: &Timeline) -> Option<Markup> {
    let points = &timeline.points;
    let (begin, end) = (points.first()?.0, points.last()?.0);
    if end <= begin {
        return None;
    }
    let high = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let seconds = |value: f64| format!("{} s", (value * 100.0).round() / 100.0);
    let x = Axis::steps(begin, end, round_step((end - begin) / 6.0), seconds);
    // Of bytes round numbers of KiB, MiB and so on.
    let unit = match timeline.unit {
        Unit::Bytes => 1024f64.powf(high.max(1.0).log(1024.0).floor()),
        _ => 1.0,
    };
    let step = round_step(high / unit / 4.0) * unit;
    let top = (high / step).ceil().max(1.0) * step;
    let y = Axis::steps(0.0, top, step, |value| timeline.unit.show(value));
    Some(draw(&x, &y, &[(timeline.title, points.clone())]))
}

/// Marks of the axis of percentiles, each further nine as wide as the one before.
const MARKS: [f64; 7] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// Distributions by percentile, as far as at least ten values lie beyond; `None` if none of them was measured.
fn percentiles(distributions: &[Distribution]) -> Option<Markup> {
    let some: Vec<_> = distributions
        .iter()
        .filter(|one| !one.histogram.is_empty())
        .collect();
    let low = some
        .iter()
        .map(|one| one.histogram.value_at_percentile(MARKS[0]))
        .min()?;
    let lines: Vec<_> = some
        .iter()
        .map(|one| (one.label, curve(&one.histogram)))
        .collect();
    let points = lines.iter().flat_map(|(_, points)| points);
    let (last, high) = points.fold(
        (1.0, decade(low)),
        |(last, high): (f64, f64), (at, value)| (last.max(*at), high.max(*value)),
    );
    let marks = MARKS
        .iter()
        .enumerate()
        .map(|(at, mark)| (at as f64, format!("{mark}%")));
    let marks = marks.filter(|(at, _)| *at <= last).collect();
    let decades = (
        decade(low).floor(),
        high.ceil().max(decade(low).floor() + 1.0),
    );
    let y = Axis::steps(decades.0, decades.1, 1.0, |power| {
        nanos(10f64.powf(power) as u64)
    });
    Some(draw(
        &Axis {
            low: 0.0,
            high: last,
            marks,
        },
        &y,
        &lines,
    ))
}

/// Marks and powers of ten.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let beyond = |mark: &f64| histogram.len() as f64 * (1.0 - mark / 100.0);
    let marks = MARKS
        .iter()
        .enumerate()
        .take_while(|(at, mark)| *at < 2 || beyond(mark) >= 9.99);
    marks
        .map(|(at, mark)| (at as f64, decade(histogram.value_at_percentile(*mark))))
        .collect()
}

/// Draws axes and lines.
fn draw(x: &Axis, y: &Axis, lines: &[(&str, Vec<(f64, f64)>)]) -> Markup {
    let across = |value| x.place(value, (LEFT, RIGHT));
    let up = |value| y.place(value, (BOTTOM, TOP));
    let path = |points: &[(f64, f64)]| {
        let points = points
            .iter()
            .map(|(at, value)| format!("{},{} ", across(*at), up(*value)));
        points.collect::<String>()
    };
    html! {
        svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) {
            @for (at, text) in &x.marks {
                line.grid x1=(across(*at)) x2=(across(*at)) y1=(TOP) y2=(BOTTOM) {}
                text x=(across(*at)) y=(BOTTOM + 18.0) text-anchor="middle" { (text) }
            }
            @for (at, text) in &y.marks {
                line.grid x1=(LEFT) x2=(RIGHT) y1=(up(*at)) y2=(up(*at)) {}
                text x=(LEFT - 6.0) y=(up(*at) + 4.0) text-anchor="end" { (text) }
            }
            @for (number, (name, points)) in lines.iter().enumerate() {
                polyline class={ "s" (number) } points=(path(points)) {}
                @if lines.len() > 1 {
                    @let y = TOP + 16.0 + 17.0 * number as f64;
                    polyline class={ "s" (number) } points=(format!("76,{} 92,{}", y - 4.0, y - 4.0)) {}
                    text x="98" y=(y) { (name) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram;
    use crate::report::model::Figure;

    #[test]
    fn curves_end_where_ten_values_are_left() {
        let mut late = histogram();
        (1..=1000).for_each(|value| late.record(value * 1000).unwrap());
        let curve = curve(&late);
        assert_eq!((curve.len(), curve[2].0), (3, 2.0));
        assert!((curve[2].1 - 990e3_f64.log10()).abs() < 0.01, "{curve:?}");
    }

    #[test]
    fn the_labels_of_all_percentiles_fit() {
        let longest = MARKS.map(|mark| format!("{mark}%").len()).into_iter().max();
        // In the page's type; digits are its widest signs but for the percent.
        let width = 8.5 * longest.unwrap() as f64;
        assert!(RIGHT + width / 2.0 <= SIZE.0, "the last one is cut");
        let step = (RIGHT - LEFT) / (MARKS.len() - 1) as f64;
        assert!(width <= step, "{width} touch at {step}");
    }

    #[test]
    fn a_timeline_begins_with_its_data_and_needs_two_points() {
        let drawn = |points: &[(f64, f64)]| {
            let (points, unit) = (points.to_vec(), Unit::Bytes);
            timeline(&Timeline {
                key: "",
                title: "",
                about: "",
                unit,
                points,
            })
        };
        let svg = drawn(&[(4.9, 0.0), (9.0, 3.0 * 1024.0)])
            .unwrap()
            .into_string();
        assert!(
            svg.contains(">5 s<") && svg.contains(">3 KiB<") && !svg.contains(">4"),
            "{svg}"
        );
        assert!(drawn(&[(0.0, 1.0)]).is_none() && percentiles(&[]).is_none());
    }

    #[test]
    fn the_figures_of_all_phases_stand_above_their_charts_and_each_cell_has_its_name() {
        let mut report = terminal::tests::report(0);
        for phase in &mut report.phases {
            let figure = |key, value| Figure::new(key, key, Unit::PerSecond, value);
            phase.figures = vec![figure("pairs", 31_500.0), figure("fired", 16_400.0)];
            let mut late = histogram();
            late.record(1_000).unwrap();
            phase.distributions = vec![Distribution {
                key: "lateness",
                label: "lateness",
                histogram: late,
                chart: "Lateness",
                about: "",
            }];
        }
        let page = render(&report, &super::super::facts::facts());
        let charts = page.find("class=\"phase\"").unwrap();
        let top = &page[..charts];
        for figure in ["31.5 k/s", "16.4 k/s", "1 µs"] {
            let shown = top.matches(&format!("<b>{figure}</b>")).count();
            assert!(shown >= 2, "{figure}: {shown} in {top}");
        }
        // On a phone a row of a table is a card.
        let cells = page[charts..].split("class=\"scroll\"").skip(1);
        for table in cells.map(|rest| rest.split("</table>").next().unwrap()) {
            assert_eq!(
                table.matches("<td").count(),
                table.matches("<td data-name=").count()
            );
            assert!(
                table.contains("<td data-name=\"p99.9\">1 µs</td>"),
                "{table}"
            );
        }
    }
}
