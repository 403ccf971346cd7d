//! Tables for people, and the place where they go in a page.

use super::machine::Circumstances;
use crate::goals::{Verdict, number};
use crate::results::{Results, Row, Table};
use std::fmt::Write;

const BEGIN: &str =
    "<!-- compare: begin. Written by `cargo run --release -p tickwheel-benches`; do not edit. -->";
const END: &str = "<!-- compare: end -->";

/// The tables of a run. `charts` is the folder of the charts as the page sees it.
#[must_use]
pub fn render(
    results: &Results,
    verdicts: &[Verdict],
    circumstances: &Circumstances,
    repeats: usize,
    charts: Option<&str>,
) -> String {
    let method = format!("medians of {repeats} interleaved repeats, each in a process of its own");
    let mut page = circumstances.table(&method);
    goals(&mut page, verdicts);
    for table in &results.tables {
        figure(&mut page, table, charts);
    }
    page
}

// Writing to a string does not fail, so the answers of `write!` are dropped here and below.
fn goals(page: &mut String, verdicts: &[Verdict]) {
    let measured: Vec<_> = verdicts.iter().filter(|verdict| verdict.met.is_some()).collect();
    let met = measured.iter().filter(|verdict| verdict.met == Some(true)).count();
    let _ = write!(
        page,
        "### The goals\n\n{met} of {} measured goals met.\n\n| figure | goal | measured | met |\n\
         |---|---|---|---|\n",
        measured.len()
    );
    for verdict in verdicts {
        let met = match verdict.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "-",
        };
        let Verdict { figure, goal, measured, .. } = verdict;
        let _ = writeln!(page, "| {figure} | {} | {} | {met} |", cell(goal), cell(measured));
    }
    page.push('\n');
}

fn figure(page: &mut String, table: &Table, charts: Option<&str>) {
    let id = table.figure.id();
    let _ = write!(page, "### {id}\n\n{}\n\n", table.figure.describe());
    let (headline, more_is_better) = table.figure.headline();
    let measured = table.rows.iter().find(|row| row.metrics().next().is_some());
    let metrics: Vec<_> = measured.into_iter().flat_map(Row::metrics).collect();
    let best = table.best_peer(headline, more_is_better);
    page.push_str("| |");
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
        let ratio = row.median(headline).zip(best).map(|(own, (_, best))| own / best);
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let _ = write!(page, " {} |", ratio.map_or_else(String::new, number));
        let _ = writeln!(page, " {} |", cell(&remark(table, row)));
    }
    page.push('\n');
    if let Some(folder) = charts {
        let _ = write!(page, "![{id}]({folder}/{id}.svg)\n\n");
    }
}

fn remark(table: &Table, row: &Row) -> String {
    let remark = table.figure.remark(row.peer);
    match &row.failure {
        Some(failure) => format!("failed: {failure}"),
        None => remark.to_owned(),
    }
}

/// The median, and for the headline the least and the greatest as well.
fn spread(row: &Row, metric: &str, with_range: bool) -> String {
    let Some(median) = row.median(metric) else { return "-".to_owned() };
    match row.range(metric) {
        Some((least, greatest)) if with_range && least < greatest => {
            format!("{} ({}-{})", number(median), number(least), number(greatest))
        }
        _ => number(median),
    }
}

/// Text that cannot break a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Puts `tables` between the marks of `page`, or after it where it has none.
#[must_use]
pub fn insert(page: &str, tables: &str) -> String {
    let fresh = format!("{BEGIN}\n\n{}\n\n{END}", tables.trim_end());
    // Its first words tell where it is.
    let mark = BEGIN.split('.').next().unwrap_or(BEGIN);
    let marks = page.find(mark).zip(page.find(END));
    match marks.filter(|(first, last)| first < last) {
        Some((first, last)) => {
            format!("{}{fresh}{}", &page[..first], &page[last + END.len()..])
        }
        None if page.trim().is_empty() => format!("{fresh}\n"),
        None => format!("{}\n\n{fresh}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::goals::check;
    use crate::peer::Peer;

    #[test]
    fn tables_show_medians_ratios_and_failures() {
        let mut results = Results::default();
        let figure = Figure::Churn(1000);
        for (peer, value) in [(Peer::LocalTimer, 8.0), (Peer::LocalTimer, 9.0), (Peer::Nexus, 34.0)]
        {
            results.add(figure, peer, Ok(vec![("ns/pair".to_owned(), value)]));
        }
        results.add(figure, Peer::DelayQueue, Err("signal: 9 (SIGKILL)".to_owned()));
        let circumstances = Circumstances::now();
        let page = render(&results, &check(&results), &circumstances, 2, Some("charts"));
        assert!(page.contains("| tickwheel LocalTimer | 8.50 (8.00-9.00) | 0.25 |"), "{page}");
        assert!(
            page.contains("| tokio-util DelayQueue | - |  | failed: signal: 9 (SIGKILL) |"),
            "{page}"
        );
        assert!(page.contains("1 of 1 measured goals met."));
        assert!(page.contains("![churn-1k](charts/churn-1k.svg)"));
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
