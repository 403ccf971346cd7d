//! Bar charts as SVG: a title, and a bar with its range and its number for each peer that was measured.

use crate::goals::number;
use crate::results::Table;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 240.0;
const BARS: f64 = 430.0;
const ROW: f64 = 24.0;
const TOP: f64 = 40.0;

/// Draws the headline metric of a figure; `None` if no peer has one.
#[must_use]
pub fn draw(table: &Table) -> Option<String> {
    let (metric, more_is_better) = table.figure.headline();
    let all = table
        .rows
        .iter()
        .filter_map(|row| Some((row.peer, row.median(metric)?, row.range(metric)?)));
    let all: Vec<_> = all.collect();
    let longest = all.iter().map(|(_, _, range)| range.1).reduce(f64::max)?;
    let scale = BARS / longest.max(f64::MIN_POSITIVE);
    let height = TOP + ROW * all.len() as f64 + 12.0;
    let direction = if more_is_better { "more" } else { "less" };
    let id = table.figure.id();
    let mut svg = format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"sans-serif\" font-size=\"14\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"26\" font-size=\"17\">{id} — {metric} ({direction} is better)</text>\n"
    );
    for (row, (peer, median, (least, greatest))) in all.into_iter().enumerate() {
        let y = TOP + ROW * row as f64 + 10.0;
        let colour = if peer.is_ours() { "#1f77b4" } else { "#b0b7bf" };
        let (bar, from, to) = ((median * scale).max(1.0), least * scale, greatest * scale);
        let name = peer.name().replace('<', "&lt;");
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{LABELS}\" y=\"{}\" width=\"{bar:.0}\" height=\"16\" fill=\"{colour}\"/>\
             <path d=\"M {:.0} {y} H {:.0}\" stroke=\"#222\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text><text x=\"{:.0}\" y=\"{}\">{}</text>",
            y - 8.0,
            LABELS + from,
            LABELS + to,
            LABELS - 8.0,
            y + 5.0,
            LABELS + to.max(bar) + 6.0,
            y + 5.0,
            number(median)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::peer::Peer;
    use crate::results::Results;

    #[test]
    fn a_chart_has_a_bar_for_each_peer_measured() {
        let mut results = Results::default();
        let figure = Figure::Cross { producers: 1, in_flight: 1024 };
        for (peer, value) in [(Peer::Timer, 20.0), (Peer::LockedTree, 4.0)] {
            results.add(figure, peer, Ok(vec![("M pairs/s".to_owned(), value)]));
        }
        let svg = draw(&results.tables[0]).unwrap();
        assert_eq!(svg.matches("height=\"16\"").count(), 2, "{svg}");
        assert!(svg.contains("Mutex&lt;BTreeMap>") && svg.ends_with("</svg>\n"), "{svg}");
        results.tables[0].rows.clear();
        assert!(draw(&results.tables[0]).is_none());
    }
}
