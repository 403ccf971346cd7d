//! The results on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::format::{bytes, count, nanos, or_na, rate};
use super::{Outcome, PERCENTILES};
use crate::cli::SettingRow;
use crate::machine::Cost;

/// All tables.
pub(crate) fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    let seconds = outcome.seconds;
    let settings = headline(&outcome.settings);
    let _ = writeln!(text, "\ntickwheel {}, {seconds:.1} s{settings}", outcome.title);
    for table in [distributions(outcome), figures(outcome), shards(outcome)] {
        let _ = writeln!(text, "{table}");
    }
    text.push_str(&note(outcome.remark.as_deref()));
    text
}

/// The remark as it stands under the tables.
pub(super) fn note(remark: Option<&str>) -> String {
    let lines = remark.map(|remark| remark.replace("; ", ";\n      "));
    lines.map_or_else(String::new, |lines| format!("note: {lines}\n"))
}

/// The sum, the breaches and their evidence, and one last word.
pub(crate) fn verdict(outcome: &Outcome) -> String {
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

/// Where the accepted timers went.
pub(crate) fn sum(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let ended = verdict.fired + verdict.cancelled + verdict.returned;
    let equals = if ended == verdict.accepted { "=" } else { "≠" };
    format!(
        "accepted {} {equals} fired {} + cancelled {} + returned {}",
        count(verdict.accepted),
        count(verdict.fired),
        count(verdict.cancelled),
        count(verdict.returned),
    )
}

/// What went wrong, in numbers.
pub(crate) fn breaches(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    format!(
        "early {}, twice {}, lost {}, mismatches {}",
        count(verdict.early),
        count(verdict.twice),
        count(verdict.lost),
        count(verdict.mismatches),
    )
}

/// Widest line of text between the tables.
const WIDTH: usize = 80;

/// Settings, in lines of at most [`WIDTH`] where they fit.
pub(super) fn headline(settings: &[SettingRow]) -> String {
    let mut text = String::new();
    let mut column = WIDTH;
    for (name, value) in settings {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown = format!("  {} {value}", name.replace('_', "-"));
        if column + shown.len() > WIDTH {
            text.push('\n');
            column = 0;
        }
        column += shown.len();
        text.push_str(&shown);
    }
    text
}

pub(super) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table
}

pub(super) fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn distributions(outcome: &Outcome) -> Table {
    let mut table = new_table();
    let names = PERCENTILES.iter().map(|(name, ..)| (*name).to_owned());
    let head = std::iter::once(String::new()).chain(names);
    table.set_header(head.chain(["max".to_owned(), "measured".to_owned()]));
    for ((_, histogram), name) in
        outcome.distributions().into_iter().zip(["schedule call", "cancel call", "firing lateness"])
    {
        let mut row = vec![name.to_owned()];
        if histogram.is_empty() {
            row.extend(vec!["-".to_owned(); PERCENTILES.len() + 1]);
        } else {
            let at = PERCENTILES.iter().map(|(.., p)| histogram.value_at_percentile(*p));
            row.extend(at.chain([histogram.max()]).map(nanos));
        }
        row.push(count(histogram.len()));
        table.add_row(row);
    }
    align_right(&mut table);
    table
}

/// Name and value of every figure that is one number or a few; the HTML report shows the same.
pub(crate) fn figure_rows(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let (cost, memory, wakes) = (&outcome.cost, &outcome.memory, &outcome.wakes);
    let verdict = &outcome.verdict;
    let cpu = cost.cpu_user_s.zip(cost.cpu_system_s);
    let per_second = |value: u64| rate(value as f64 / outcome.seconds.max(1e-9));
    vec![
        ("schedule + cancel pairs", format!("{}/s", rate(outcome.pairs_per_second()))),
        ("fired", format!("{}/s", per_second(outcome.verdict.fired))),
        ("refused", {
            let late = verdict.refused_after_stop;
            let full = verdict.refused.saturating_sub(late);
            format!("{} for lack of room, {} after stop", count(full), count(late))
        }),
        ("rescheduled", count(verdict.rescheduled)),
        ("CPU, all threads", cpu_use(cost, outcome.seconds)),
        (
            "CPU per timer",
            or_na(cpu, |(user, system)| {
                let ns = (user + system) * 1e9 / outcome.verdict.accepted.max(1) as f64;
                format!("{}, this program included", nanos(ns as u64))
            }),
        ),
        ("context switches", switches(cost)),
        ("wake-ups of workers", {
            format!(
                "{} by producers ({}/s), {} sleeps ({}/s)",
                count(wakes.wakes),
                per_second(wakes.wakes),
                count(wakes.parks),
                per_second(wakes.parks),
            )
        }),
        ("resident memory", {
            let (start, end) = (or_na(memory.start_bytes, bytes), or_na(memory.end_bytes, bytes));
            format!("{start} start, {} peak, {end} end", or_na(memory.peak_bytes, bytes))
        }),
        ("of it these books", bytes(memory.books_bytes)),
    ]
}

/// CPU time as people read it.
pub(super) fn cpu_use(cost: &Cost, seconds: f64) -> String {
    or_na(cost.cpu_user_s.zip(cost.cpu_system_s), |(user, system)| {
        let cores = (user + system) / seconds.max(1e-9);
        format!("{user:.2} s user + {system:.2} s system = {cores:.2} cores")
    })
}

/// Context switches as people read them.
pub(super) fn switches(cost: &Cost) -> String {
    let both = cost.voluntary_switches.zip(cost.involuntary_switches);
    or_na(both, |(voluntary, involuntary)| {
        format!("{} voluntary, {} involuntary", count(voluntary), count(involuntary))
    })
}

fn figures(outcome: &Outcome) -> Table {
    let mut table = new_table();
    for (name, value) in figure_rows(outcome) {
        table.add_row([name, &value]);
    }
    table
}

/// Head and rows of the per-shard table; the HTML report shows the same.
pub(crate) fn shard_rows(outcome: &Outcome) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let head = vec!["shard", "core", "scheduled", "share", "cancelled", "fired", "sleeps", "woken"];
    let all: u64 = outcome.shards.iter().map(|shard| shard.scheduled).sum();
    let rows = outcome.shards.iter().map(|shard| {
        vec![
            shard.shard.to_string(),
            shard.core.map_or_else(|| "-".to_owned(), |core| core.to_string()),
            count(shard.scheduled),
            format!("{:.1} %", shard.scheduled as f64 * 100.0 / all.max(1) as f64),
            count(shard.cancelled),
            count(shard.fired),
            count(shard.parks),
            count(shard.wakes),
        ]
    });
    (head, rows.collect())
}

fn shards(outcome: &Outcome) -> Table {
    let mut table = new_table();
    let (head, rows) = shard_rows(outcome);
    table.set_header(head);
    table.add_rows(rows);
    align_right(&mut table);
    table
}
