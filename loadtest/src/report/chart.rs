//! Small SVG charts. Colours come from the page's style sheet, so that both themes are readable.

use maud::{Markup, html};

/// Width of a chart, in units that are about a pixel on a desktop, so that text has one size.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Width {
    /// As wide as the page.
    Full = 1000,
    /// Two beside each other.
    Half = 480,
}

const HEIGHT: f64 = 230.0;
/// Room for the axis labels.
const LEFT: f64 = 68.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Where the x axis lies.
const FLOOR: f64 = HEIGHT - BOTTOM;

/// How values map to places along an axis.
pub(crate) struct Axis {
    label: &'static str,
    /// Lowest and highest value after `stretch`.
    low: f64,
    high: f64,
    stretch: fn(f64) -> f64,
    /// Whether the low end is the value 0, and steps are even.
    from_zero: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Evenly from 0 to a round number above `high`.
    pub(crate) fn linear(label: &'static str, high: f64, show: fn(f64) -> String) -> Self {
        Self::stepped(label, high, 5.0, show)
    }

    /// Evenly from 0 in about `steps` round steps.
    fn stepped(label: &'static str, high: f64, steps: f64, show: fn(f64) -> String) -> Self {
        let step = round_step(high / steps);
        let count = (high / step).ceil().max(1.0) as u32;
        let ticks = (0..=count).map(|n| f64::from(n) * step);
        let ticks = ticks.map(|value| (value, show(value))).collect();
        Self {
            label,
            low: 0.0,
            high: f64::from(count) * step,
            stretch: |value| value,
            from_zero: true,
            ticks,
        }
    }

    /// Evenly from 0 to exactly `high`, for time.
    pub(crate) fn time(label: &'static str, high: f64) -> Self {
        let high = high.max(1e-3);
        let mut axis = Self::stepped(label, high, 8.0, |value| {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        });
        axis.high = high;
        // A run of 60 s may end at 59.99.
        axis.ticks.retain(|(value, _)| *value <= high * 1.005);
        axis
    }

    /// By powers of ten around `low` to `high`, both above 0.
    pub(crate) fn log(label: &'static str, low: f64, high: f64, show: fn(f64) -> String) -> Self {
        let stretch = |value: f64| value.max(1e-9).log10();
        let first = stretch(low).floor();
        let last = stretch(high).ceil().max(first + 1.0);
        let ticks = (first as i32..=last as i32).map(|power| 10f64.powi(power));
        let ticks = ticks.map(|value| (value, show(value))).collect();
        Self { label, low: first, high: last, stretch, from_zero: false, ticks }
    }

    /// Percentiles, each further nine as wide as the one before, up to `last` (below 100).
    pub(crate) fn nines(label: &'static str, last: f64) -> Self {
        let stretch = |percentile: f64| -((100.0 - percentile) / 100.0).max(1e-9).log10();
        let all = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let ticks = all.into_iter().filter(|percentile| *percentile <= last);
        let ticks = ticks.map(|value| (value, format!("{value} %"))).collect();
        Self { label, low: 0.0, high: stretch(last).max(1.0), stretch, from_zero: false, ticks }
    }

    /// 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        let span = (self.high - self.low).max(f64::MIN_POSITIVE);
        (((self.stretch)(value) - self.low) / span).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// A line with its name and its class in the style sheet.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Bars from `from` to `to` along the x axis, with a text for the pointer.
pub(crate) struct Bar {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) value: f64,
    pub(crate) text: String,
}

/// Two axes at right angles.
pub(crate) struct Plane {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) width: Width,
}

impl Plane {
    /// A chart of lines; the area under a single one is shaded where the axis starts at 0.
    pub(crate) fn lines(&self, series: &[Series], about: &str) -> Markup {
        let single = series.len() == 1;
        // An area says "this much from nothing"; a logarithmic axis has no nothing.
        let shaded = single && self.y.from_zero;
        let inside = html! {
            @for one in series {
                @if shaded { path class={ "area " (one.class) } d=(self.closed(&one.points)) {} }
                path class={ "line " (one.class) } d=(self.open(&one.points)) {}
            }
            @if !single { (legend(series)) }
        };
        self.frame(about, &inside)
    }

    /// A chart of bars.
    pub(crate) fn bars(&self, class: &str, bars: &[Bar], about: &str) -> Markup {
        let inside = html! {
            @for bar in bars {
                @let (left, right) = (self.across(bar.from), self.across(bar.to));
                @let top = self.down(bar.value);
                rect class={ "bar " (class) } x=(num(left + 0.5)) y=(num(top)) rx="1"
                    width=(num((right - left - 1.0).max(0.5))) height=(num(FLOOR - top)) {
                    title { (bar.text) }
                }
            }
        };
        self.frame(about, &inside)
    }

    fn right(&self) -> f64 {
        f64::from(self.width as u16) - RIGHT
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right() - LEFT)
    }

    fn down(&self, value: f64) -> f64 {
        FLOOR - self.y.place(value) * (FLOOR - TOP)
    }

    fn frame(&self, about: &str, inside: &Markup) -> Markup {
        let (width, right) = (self.width as u16, self.right());
        let turned = format!("translate(12 {}) rotate(-90)", (TOP + FLOOR) / 2.0);
        html! {
            svg viewBox=(format!("0 0 {width} {HEIGHT}")) role="img" aria-label=(about) {
                @for (value, text) in &self.y.ticks {
                    @let at = num(self.down(*value));
                    line class="grid" x1=(LEFT) x2=(right) y1=(at) y2=(at) {}
                    text class="end" x=(LEFT - 8.0) y=(at) dy="0.35em" { (text) }
                }
                @for (value, text) in &self.x.ticks {
                    @let at = num(self.across(*value));
                    line class="grid" x1=(at) x2=(at) y1=(TOP) y2=(FLOOR) {}
                    text class="middle" x=(at) y=(FLOOR + 16.0) { (text) }
                }
                (inside)
                line class="axis" x1=(LEFT) x2=(right) y1=(FLOOR) y2=(FLOOR) {}
                text class="middle" x=((LEFT + right) / 2.0) y=(HEIGHT - 6.0) { (self.x.label) }
                text class="middle" transform=(turned) { (self.y.label) }
            }
        }
    }

    fn open(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (index, &(at, value)) in points.iter().enumerate() {
            path.push(if index == 0 { 'M' } else { 'L' });
            path.push_str(&num(self.across(at)));
            path.push(' ');
            path.push_str(&num(self.down(value)));
        }
        path
    }

    /// The same line, closed along the x axis.
    fn closed(&self, points: &[(f64, f64)]) -> String {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return String::new();
        };
        let (first, last) = (num(self.across(first.0)), num(self.across(last.0)));
        format!("{}L{last} {FLOOR}L{first} {FLOOR}Z", self.open(points))
    }
}

/// A coordinate, short.
fn num(value: f64) -> String {
    format!("{value:.1}")
}

fn legend(series: &[Series]) -> Markup {
    html! {
        @for (index, one) in series.iter().enumerate() {
            @let (at, y) = (LEFT + 16.0 + 110.0 * index as f64, TOP + 10.0);
            line class={ "line " (one.class) } x1=(at) x2=(at + 20.0) y1=(y) y2=(y) {}
            text x=(at + 26.0) y=(y) dy="0.35em" { (one.name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(round_step(0.0), 1.0);
        assert_eq!(round_step(1.0), 1.0);
        assert_eq!(round_step(1.1), 2.0);
        assert_eq!(round_step(230_000.0), 500_000.0);
        assert_eq!(round_step(7.0), 10.0);
    }

    #[test]
    fn axes_keep_values_inside() {
        let show = |value: f64| value.to_string();
        let axes = [
            Axis::linear("", 7.3, show),
            Axis::linear("", 0.0, show),
            Axis::time("", 10.04),
            Axis::log("", 90.0, 123_456.0, show),
            Axis::log("", 1.0, 1.0, show),
            Axis::nines("", 99.99),
        ];
        for axis in axes {
            for value in [-1.0, 0.0, 1.0, 50.0, 99.995, 1e12, f64::INFINITY] {
                assert!((0.0..=1.0).contains(&axis.place(value)), "{value} on {}", axis.low);
            }
            assert!(axis.ticks.len() >= 2, "{:?}", axis.ticks);
        }
    }

    #[test]
    fn nines_are_evenly_spread() {
        let axis = Axis::nines("", 99.999);
        let step = axis.place(99.0) - axis.place(90.0);
        assert!((axis.place(99.9) - axis.place(99.0) - step).abs() < 1e-9);
        assert!((axis.place(99.999) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn text_is_escaped() {
        let show = |value: f64| format!("<{value}>");
        let axis = Axis::linear("a<b", 1.0, show);
        let other = Axis::linear("", 1.0, show);
        let plane = Plane { x: axis, y: other, width: Width::Half };
        let chart = plane.lines(&[], "x\"y").into_string();
        assert!(!chart.contains("a<b") && chart.contains("a&lt;b") && chart.contains("x&quot;y"));
    }
}
