//! The report of a run: Markdown and charts.

use crate::goals::{Verdict, check, number};
use crate::machine::{costs, describe, load, quietness, said_by};
use crate::results::{Row, Table, more_is_better};
use std::fmt::Write;

const BEGIN: &str =
    "<!-- compare: begin. Written by `cargo run --release -p tickwheel-benches`; do not edit. -->";
/// The width of a character of a label, in whatever sans-serif the viewer has: wider than most.
const CHARACTER: f64 = 7.5;
const END: &str = "<!-- compare: end -->";
/// The colours of a chart, for light pages and for dark ones.
pub const CHART_STYLE: &str = "<style>\n  \
    text { fill: #1f2328; } .page { fill: #ffffff; } .own { fill: #0969da; } .peer { fill: #afb8c1; }\n  \
    .range { stroke: #1f2328; stroke-width: 2; } .grid { stroke: #d0d7de; }\n  \
    @media (prefers-color-scheme: dark) {\n    \
    text { fill: #e6edf3; } .page { fill: #0d1117; } .own { fill: #388bfd; } .peer { fill: #57606a; }\n    \
    .range { stroke: #e6edf3; } .grid { stroke: #30363d; }\n  }\n</style>\n";

/// Writes the tables of a run, headed by the circumstances that each figure is quoted with. `before` is the load before
/// it, `charts` the folder of the charts as the page sees it.
pub fn render(results: &[Table], before: &str, repeats: usize, charts: Option<&str>) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"]);
    let is_changed = !said_by("git", &["status", "--porcelain"]).is_empty();
    let changed = if is_changed {
        " with uncommitted changes"
    } else {
        ""
    };
    let (machine, compiler, after) = (describe(), env!("TICKWHEEL_RUSTC"), load());
    let date = said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let mut page = format!(
        "| | |\n|---|---|\n\
         | command | `cargo run --release -p tickwheel-benches -- {arguments}` |\n\
         | commit | {commit}{changed} |\n| machine | {machine} |\n| date | {date} |\n\
         | compiler | {compiler} |\n\
         | load average (1, 5, 15 min) | {}: before {before}; after {after} |\n\
         | what things cost here | {} |\n\
         | method | medians of {repeats} interleaved repeats, each in a process of its own |\n\n",
        quietness(before),
        costs(),
    );
    for table in results {
        figure(&mut page, table, charts);
    }
    goals(&mut page, &check(results));
    page
}

// Writing to a string does not fail, so the answers of `write!` are dropped here and below.
fn goals(page: &mut String, verdicts: &[Verdict]) {
    let measured: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| verdict.2.as_ref())
        .collect();
    let met = measured.iter().filter(|(_, is_met)| *is_met).count();
    let _ = write!(
        page,
        "### The goals\n\n{met} of {} measured goals met.\n\n\
         | figure | goal | measured | met |\n|---|---|---|---|\n",
        measured.len()
    );
    for (figure, goal, measured) in verdicts {
        let (there_is, met) = match measured {
            Some((there_is, is_met)) => (cell(there_is), if *is_met { "yes" } else { "**no**" }),
            None => ("not measured".to_owned(), "-"),
        };
        let _ = writeln!(page, "| {figure} | {} | {there_is} | {met} |", cell(goal));
    }
    page.push('\n');
}

fn figure(page: &mut String, table: &Table, charts: Option<&str>) {
    let id = table.figure.id;
    let _ = write!(page, "### {id}\n\n{}\n\n| |", table.figure.work.describe());
    let metrics = table.metrics();
    let headline = metrics.first().copied().unwrap_or_default();
    let best = table.best_peer(headline);
    for metric in &metrics {
        let _ = write!(page, " {metric} |");
    }
    page.push_str(" ratio to the best peer | remark |\n|---|");
    page.push_str(&"---:|".repeat(metrics.len() + 1));
    page.push_str("---|\n");
    for row in &table.rows {
        let _ = write!(page, "| {} |", cell(row.peer.name()));
        for metric in &metrics {
            let _ = write!(page, " {} |", spread(row, metric, *metric == headline));
        }
        let ratio = row
            .median(headline)
            .zip(best)
            .map(|(own, (_, best))| own / best);
        let ratio = ratio
            .filter(|ratio| ratio.is_finite())
            .map_or_else(String::new, number);
        let remark = match &row.failure {
            Some(failure) => format!("failed: {failure}"),
            None => table.figure.remark(row.peer).to_owned(),
        };
        let _ = writeln!(page, " {ratio} | {} |", cell(&remark));
    }
    page.push('\n');
    if let Some(folder) = charts {
        let _ = write!(page, "![{id}]({folder}/{id}.svg)\n\n");
    }
}

/// Returns the median, and for the first metric the least and the greatest as well.
fn spread(row: &Row, metric: &str, is_first: bool) -> String {
    let median = row.median(metric).map_or_else(|| "-".to_owned(), number);
    match row.range(metric) {
        Some((least, greatest)) if is_first && least < greatest => {
            format!("{median} ({}-{})", number(least), number(greatest))
        }
        _ => median,
    }
}

/// Returns text that cannot break a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Puts `tables` between the marks of `page`, or after it where it has none.
pub fn insert(page: &str, tables: &str) -> String {
    let fresh = format!("{BEGIN}\n\n{}\n\n{END}", tables.trim_end());
    // Its first words tell where it is.
    let mark = BEGIN.split('.').next().unwrap_or(BEGIN);
    match page.find(mark).zip(page.find(END)) {
        Some((first, last)) if first < last => {
            format!("{}{fresh}{}", &page[..first], &page[last + END.len()..])
        }
        _ => format!("{}\n\n{fresh}\n", page.trim_end())
            .trim_start()
            .to_owned(),
    }
}

/// Draws the first metric of a figure as SVG: a title, and a bar with its range and its number for each peer that was
/// measured; `None` if no peer was.
pub fn draw(table: &Table) -> Option<String> {
    let metric = *table.metrics().first()?;
    let measured = |row: &Row| Some((row.peer, row.median(metric)?, row.range(metric)?));
    let all: Vec<_> = table.rows.iter().filter_map(measured).collect();
    let longest = all.iter().map(|(_, _, range)| range.1).reduce(f64::max)?;
    let scale = 430.0 / longest.max(f64::MIN_POSITIVE);
    let labels = all.iter().map(|row| row.0.name().len()).max()?;
    let labels = 16.0 + CHARACTER * labels as f64;
    let mut svg = format!(
        "<svg width=\"{:.0}\" height=\"{}\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"sans-serif\" font-size=\"14\">\n{CHART_STYLE}\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"12\" y=\"26\" font-size=\"17\">{}: {metric} ({} is better)</text>\n",
        labels + 520.0,
        52 + 24 * all.len(),
        table.figure.work.title(),
        if more_is_better(metric) {
            "more"
        } else {
            "less"
        },
    );
    for (row, (peer, median, (least, greatest))) in all.into_iter().enumerate() {
        let y = 50 + 24 * row;
        let class = if peer.is_ours() { "own" } else { "peer" };
        let (bar, from, to) = ((median * scale).max(1.0), least * scale, greatest * scale);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{labels:.0}\" y=\"{}\" width=\"{bar:.0}\" height=\"16\"/>\
             <path class=\"range\" d=\"M {:.0} {y} H {:.0}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"{:.0}\" y=\"{}\">{}</text>",
            y - 8,
            labels + from,
            labels + to,
            labels - 8.0,
            y + 5,
            cell(peer.name()),
            labels + to.max(bar) + 6.0,
            y + 5,
            number(median)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;
    use crate::results::measured;

    #[test]
    fn tables_show_medians_ratios_and_failures_and_charts_a_bar_for_each_peer() {
        let values = [
            (Peer::LocalTimer, 8.0),
            (Peer::LocalTimer, 9.0),
            (Peer::Nexus, 34.0),
        ];
        let mut results = [measured("ns/pair", &values)];
        assert_eq!(results[0].rows[3].peer, Peer::DelayQueue);
        results[0].rows[3].failure = Some("signal: 9 (SIGKILL)".to_owned());
        let page = render(&results, "0.1", 2, Some("charts"));
        for line in [
            "| tickwheel LocalTimer | 8.50 (8.00-9.00) | 0.25 |",
            "| tokio-util DelayQueue | - |  | failed: signal: 9 (SIGKILL) |",
            "1 of 1 measured goals met.",
            "![churn-1k](charts/churn-1k.svg)",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        let svg = draw(&results[0]).unwrap();
        for bar in ["rect class=\"own\"", "rect class=\"peer\""] {
            assert_eq!(svg.matches(bar).count(), 1, "{svg}");
        }
        let title = ">Cancel one of 1 000 timers, schedule one: ns/pair (less is better)<";
        assert!(svg.contains(title), "{svg}");
        assert!(draw(&measured("ns/pair", &[])).is_none());
    }

    /// A label ends left of its bar and is cut where it begins left of the chart.
    #[test]
    fn the_longest_label_fits_its_chart() {
        for peer in [Peer::LocalTimer, Peer::TimerTimes] {
            let mut table = measured("ns/pair", &[]);
            table.rows[0].peer = peer;
            table.rows[0].repeats = vec![vec![("ns/pair".to_owned(), 1.0)]];
            let svg = draw(&table).unwrap();
            let text = svg
                .split("text x=\"")
                .find(|it| it.contains("end"))
                .unwrap();
            let end: f64 = text.split('"').next().unwrap().parse().unwrap();
            assert!(end >= CHARACTER * peer.name().len() as f64, "{svg}");
        }
    }

    #[test]
    fn a_page_keeps_its_text_around_the_tables() {
        let first = insert("# Title\n\nText.\n", "one");
        assert!(first.starts_with("# Title\n\nText.\n\n<!-- compare: begin"));
        let second = insert(&format!("{first}Tail.\n"), "two");
        assert!(second.contains("Text.") && second.contains("two") && second.ends_with("Tail.\n"));
        assert!(!second.contains("one"));
        assert_eq!(insert(&insert("", "x"), "x"), insert("", "x"));
    }
}
