//! The results on the terminal.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{TITLE, held};
use crate::report::PERCENTILES;
use crate::report::format::{bytes, count, nanos, or_na, rate};
use crate::report::table::{align_right, cpu_use, headline, new_table, note, switches};
use crate::server::{KINDS, KindTally, ServerOutcome};

/// All tables.
pub(super) fn render(outcome: &ServerOutcome) -> String {
    let mut text = String::new();
    let settings = headline(&outcome.settings);
    let _ = writeln!(text, "\ntickwheel {TITLE}, {:.1} s{settings}", outcome.seconds);
    let mut kinds = new_table();
    let (head, rows) = kind_rows(outcome);
    kinds.set_header(head);
    kinds.add_rows(rows);
    align_right(&mut kinds);
    let mut figures = new_table();
    for (name, value) in figure_rows(outcome) {
        figures.add_row([name, &value]);
    }
    let _ = writeln!(text, "{kinds}\n{figures}");
    text.push_str(&note(outcome.remark.as_deref()));
    text
}

/// The sum, the breaches and their evidence, and one last word.
pub(super) fn verdict(outcome: &ServerOutcome) -> String {
    let verdict = &outcome.verdict;
    let mut text = String::new();
    if outcome.interrupted {
        let _ = writeln!(text, "ended early by request after {:.1} s", outcome.seconds);
    }
    for line in &verdict.evidence {
        let _ = writeln!(text, "  {line}");
    }
    let word = if verdict.is_ok() { "OK" } else { "BREACH" };
    let _ = writeln!(text, "{}\n{}\nverdict: {word}", sum(outcome), breaches(outcome));
    text
}

/// Where the connections went.
pub(super) fn sum(outcome: &ServerOutcome) -> String {
    let verdict = &outcome.verdict;
    let equals = if verdict.closed + verdict.open == verdict.opened { "=" } else { "≠" };
    format!(
        "opened {} {equals} closed by the server {} + open at the end {}",
        count(verdict.opened),
        count(verdict.closed),
        count(verdict.open),
    )
}

/// What went wrong, in numbers.
pub(super) fn breaches(outcome: &ServerOutcome) -> String {
    let verdict = &outcome.verdict;
    format!(
        "early {}, forgotten {}, corrupt {}, mismatches {}",
        count(verdict.early),
        count(verdict.forgotten),
        count(verdict.corrupt),
        count(verdict.mismatches),
    )
}

/// Head and rows of the table by kind; the HTML report shows the same.
pub(super) fn kind_rows(outcome: &ServerOutcome) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut head = vec!["connections", "opened", "closed"];
    head.extend(["late p50", "p99", "p99.9", "max", "echo p50", "p99"]);
    let all = outcome.tally.all();
    let kinds = KINDS.into_iter().map(|kind| (kind.to_string(), outcome.tally.of(kind)));
    let used = kinds.filter(|(_, tally)| tally.opened > 0);
    let rows = used.chain([("all".to_owned(), &all)]).map(|(name, tally)| kind_row(name, tally));
    (head, rows.collect())
}

fn kind_row(name: String, tally: &KindTally) -> Vec<String> {
    let at = |histogram: &Histogram<u64>, percentile: f64| match histogram.is_empty() {
        true => "-".to_owned(),
        false => nanos(histogram.value_at_percentile(percentile)),
    };
    let mut row = vec![name, count(tally.opened), count(tally.closed)];
    row.extend(PERCENTILES.map(|(.., percentile)| at(&tally.lateness, percentile)));
    row.push(at(&tally.lateness, 100.0));
    row.extend([50.0, 99.0].map(|percentile| at(&tally.round_trip, percentile)));
    row
}

/// Name and value of every figure that is one number or a few; the HTML report shows the same.
pub(super) fn figure_rows(outcome: &ServerOutcome) -> Vec<(&'static str, String)> {
    let all = outcome.tally.all();
    let seconds = outcome.seconds.max(1e-9);
    let (most, mean) = held(outcome);
    let per_second = |value: u64| rate(value as f64 / seconds);
    let mut rows = vec![
        ("held open", format!("{} at most, {mean:.0} on average", count(most))),
        ("closed as idle", format!("{}, {}/s", count(all.closed), per_second(all.closed))),
        ("not judged", format!("{} closes after a delay of this program", count(all.excused))),
        ("echoes checked", {
            let messages = count(all.round_trip.len());
            format!("{messages} messages, {}, {}B/s", bytes(all.echoed), per_second(all.echoed))
        }),
        ("sent, floods included", format!("{}, {}B/s", bytes(all.sent), per_second(all.sent))),
    ];
    if let Some(server) = &outcome.server {
        let (sent, got) = (count(server.heartbeats), count(all.heartbeats));
        rows.push(("heartbeats", format!("{sent} sent, {got} read by clients")));
        rows.push(("latest close", format!("{} by the server", nanos(server.latest_close_ns))));
        rows.push(("server CPU", cpu_use(&server.cost, seconds)));
        rows.push(("server context switches", switches(&server.cost)));
        rows.push(("server memory", format!("{} peak", or_na(server.peak_bytes, bytes))));
    }
    rows.push(("client CPU", cpu_use(&outcome.client_cost, seconds)));
    rows.push(("client context switches", switches(&outcome.client_cost)));
    rows.push(("client memory", format!("{} peak", or_na(outcome.client_peak_bytes, bytes))));
    rows
}
