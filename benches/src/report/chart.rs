//! Bar charts as SVG, drawn by `plotters`: a title, and a bar with its range and its number for each who was measured.

use crate::goals::number;
use crate::results::Table;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: i32 = 760;
const LABELS: i32 = 240;
const BARS: f64 = 430.0;
const ROW: i32 = 24;
const TOP: i32 = 40;

const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const OURS: RGBColor = RGBColor(0x1F, 0x77, 0xB4);
const OTHERS: RGBColor = RGBColor(0xB0, 0xB7, 0xBF);

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Who.
    pub name: String,
    /// Drawn in another colour than the others.
    pub is_ours: bool,
    /// How long it is.
    pub median: f64,
    /// The least and the greatest.
    pub range: (f64, f64),
}

/// The headline metric of a figure; `None` if nobody has one.
#[must_use]
pub fn draw(table: &Table) -> Option<String> {
    let (metric, more_is_better) = table.figure.headline();
    let all = table.rows.iter().filter_map(|row| {
        let (name, is_ours) = (row.peer.name().to_owned(), row.peer.is_ours());
        Some(Bar { name, is_ours, median: row.median(metric)?, range: row.range(metric)? })
    });
    let all: Vec<Bar> = all.collect();
    let direction = if more_is_better { "more is better" } else { "less is better" };
    bars(&format!("{} — {metric} ({direction})", table.figure.id()), &all)
}

/// A chart of bars; `None` if there is none.
///
/// # Panics
///
/// Never: a drawing in memory succeeds.
#[must_use]
pub fn bars(title: &str, all: &[Bar]) -> Option<String> {
    let longest = all.iter().map(|bar| bar.range.1).reduce(f64::max)?;
    let mut svg = String::new();
    plot(&mut svg, title, all, BARS / longest.max(f64::MIN_POSITIVE))
        .expect("a drawing in memory succeeds");
    Some(svg)
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn plot(svg: &mut String, title: &str, bars: &[Bar], scale: f64) -> Drawn {
    let height = TOP + ROW * bars.len() as i32 + 12;
    let size = (WIDTH as u32, height as u32);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size: i32, side| {
        let style = ("sans-serif", size).into_font().color(&TEXT);
        style.pos(Pos::new(side, VPos::Center))
    };
    let place = |value: f64| LABELS + (value * scale) as i32;
    area.draw(&Text::new(title.to_owned(), (12, 20), text(17, HPos::Left)))?;
    for (row, Bar { name, is_ours, median, range: (least, greatest) }) in bars.iter().enumerate() {
        let y = TOP + ROW * row as i32 + 10;
        let colour = if *is_ours { OURS } else { OTHERS };
        let end = place(*median).max(LABELS + 1);
        area.draw(&Rectangle::new([(LABELS, y - 8), (end, y + 8)], colour.filled()))?;
        let range = [(place(*least), y), (place(*greatest), y)];
        area.draw(&PathElement::new(range, TEXT.stroke_width(2)))?;
        area.draw(&Text::new(name.clone(), (LABELS - 8, y), text(14, HPos::Right)))?;
        let beside = (place(greatest.max(*median)) + 6, y);
        area.draw(&Text::new(number(*median), beside, text(14, HPos::Left)))?;
    }
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::peer::Peer;
    use crate::results::Results;

    #[test]
    fn a_chart_has_a_bar_for_everybody_measured() {
        let mut results = Results::default();
        let figure = Figure::Cross { producers: 1, in_flight: 1024 };
        for (peer, value) in [(Peer::Timer, 20.0), (Peer::LockedTree, 4.0)] {
            results.add(figure, peer, Ok(vec![("M pairs/s".to_owned(), value)]));
        }
        let svg = draw(&results.tables[0]).unwrap();
        assert_eq!(svg.matches("height=\"16\"").count(), 2, "{svg}");
        assert!(svg.contains("Mutex&lt;BTreeMap&gt;") && svg.ends_with("</svg>\n"), "{svg}");
        results.tables[0].rows.clear();
        assert!(draw(&results.tables[0]).is_none());
    }
}
