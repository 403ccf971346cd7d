//! Bar charts as SVG, without a library: a title, a bar and a number per peer.

use crate::bars::number;
use crate::results::Table;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 240.0;
const BARS: f64 = 430.0;
const ROW: f64 = 24.0;
const TOP: f64 = 40.0;

/// The headline metric of a figure; `None` if nobody has one.
#[must_use]
pub fn draw(table: &Table) -> Option<String> {
    let (metric, more_is_better) = table.figure.headline();
    let rows: Vec<_> = table
        .rows
        .iter()
        .filter_map(|row| Some((row.peer, row.median(metric)?, row.range(metric)?)))
        .collect();
    let longest = rows.iter().map(|row| row.2.1).reduce(f64::max)?;
    let scale = BARS / longest.max(f64::MIN_POSITIVE);
    let height = TOP + ROW * rows.len() as f64 + 12.0;
    let direction = if more_is_better { "more is better" } else { "less is better" };
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<text x="12" y="24" font-size="15" font-weight="bold" fill="#222">{} — {metric} ({direction})</text>
"##,
        table.figure.id()
    );
    for (n, (peer, median, (least, greatest))) in rows.iter().enumerate() {
        let y = TOP + ROW * n as f64;
        let colour = if peer.is_ours() { "#1f77b4" } else { "#b0b7bf" };
        let (from, to) = (LABELS + least * scale, LABELS + greatest * scale);
        let _ = write!(
            svg,
            r##"<text x="{}" y="{}" text-anchor="end" fill="#222">{}</text>
<rect x="{LABELS}" y="{}" width="{:.1}" height="16" fill="{colour}"/>
<line x1="{from:.1}" y1="{mid}" x2="{to:.1}" y2="{mid}" stroke="#222" stroke-width="1.5"/>
<text x="{:.1}" y="{}" fill="#222">{}</text>
"##,
            LABELS - 8.0,
            y + 14.0,
            escape(peer.name()),
            y + 2.0,
            (median * scale).max(1.0),
            LABELS + greatest.max(*median) * scale + 6.0,
            y + 14.0,
            number(*median),
            mid = y + 10.0,
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
        assert_eq!(svg.matches("height=\"16\"").count(), 2);
        assert!(svg.contains("Mutex&lt;BTreeMap&gt;") && svg.ends_with("</svg>\n"));
        results.tables[0].rows.clear();
        assert!(draw(&results.tables[0]).is_none());
    }
}
