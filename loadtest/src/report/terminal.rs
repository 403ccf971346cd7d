//! The report on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table as Grid};

use super::model::{Distribution, PERCENTILES, Phase, Report, Table};
use crate::numbers::{count, nanos, or_dash};
use crate::settings::setting::Setting;

/// Widest line of text between the tables.
const WIDTH: usize = 80;

/// All tables and notes.
pub(crate) fn tables(report: &Report) -> String {
    let mut text = String::new();
    let (kind, seconds) = (report.kind, report.seconds());
    let _ = writeln!(text, "\ntickwheel {kind}, {seconds:.1} s{}", headline(&report.settings));
    for phase in &report.phases {
        if report.phases.len() > 1 {
            let settings = headline(&phase.settings).replace('\n', "");
            let _ = writeln!(text, "\n{}, {:.1} s{settings}", phase.name, phase.seconds);
        }
        tables_of(&mut text, phase);
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn tables_of(text: &mut String, phase: &Phase) {
    let mut grids = vec![percentiles(&phase.distributions), figures(phase)];
    grids.extend(phase.tables.iter().map(table));
    for grid in grids {
        let _ = writeln!(text, "{grid}");
    }
}

/// The balance, the breaches and what was found, and as the last line the verdict.
pub(crate) fn verdict(report: &Report) -> String {
    let mut text = String::new();
    if report.interrupted {
        let _ = writeln!(text, "ended early by request after {:.1} s", report.seconds());
    }
    for phase in &report.phases {
        let name =
            if report.phases.len() > 1 { format!("{}: ", phase.name) } else { String::new() };
        for line in &phase.verdict.findings {
            let _ = writeln!(text, "  {name}{line}");
        }
        let _ = writeln!(text, "{name}{}", phase.verdict.balance);
    }
    let word = report.word().to_uppercase();
    let _ = writeln!(text, "{}\nverdict: {word}", breaches(report));
    text
}

/// What went wrong, in numbers.
pub(crate) fn breaches(report: &Report) -> String {
    let breaches = report.breaches();
    let words = breaches.iter().map(|(name, number)| format!("{name} {}", count(*number)));
    words.collect::<Vec<_>>().join(", ")
}

/// Settings, in lines of at most [`WIDTH`] where they fit.
fn headline(settings: &[Setting]) -> String {
    let mut text = String::new();
    let mut column = WIDTH;
    for setting in settings {
        let shown = format!("  {} {}", setting.name, setting.shown);
        if column + shown.len() > WIDTH {
            text.push('\n');
            column = 0;
        }
        column += shown.len();
        text.push_str(&shown);
    }
    text
}

/// A table whose first column holds names and whose other columns hold numbers.
pub(crate) fn grid(head: Vec<String>, rows: Vec<Vec<String>>) -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(UTF8_FULL_CONDENSED);
    if !head.is_empty() {
        grid.set_header(head);
    }
    grid.add_rows(rows);
    for column in grid.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

fn percentiles(distributions: &[Distribution]) -> Grid {
    let (head, rows) = percentile_rows(distributions);
    grid(head, rows)
}

/// Head and rows of the table of percentiles; the page shows the same.
pub(crate) fn percentile_rows(distributions: &[Distribution]) -> (Vec<String>, Vec<Vec<String>>) {
    let names = PERCENTILES.iter().map(|(name, ..)| *name);
    let head = [""].into_iter().chain(names).chain(["max", "measured"]);
    let rows = distributions.iter().map(|one| {
        let mut row = vec![one.label.to_owned()];
        let at = PERCENTILES.iter().map(|(.., percentile)| *percentile).chain([100.0]);
        row.extend(at.map(|percentile| or_dash(one.at(percentile), nanos)));
        row.push(count(one.histogram.len()));
        row
    });
    (head.map(str::to_owned).collect(), rows.collect())
}

fn figures(phase: &Phase) -> Grid {
    let rows = phase.figures.iter().map(|figure| vec![figure.label.to_owned(), figure.show()]);
    grid(Vec::new(), rows.collect())
}

fn table(table: &Table) -> Grid {
    let head = table.head.iter().map(|(_, label)| (*label).to_owned());
    let rows = table.rows.iter().map(|row| row.iter().map(super::model::Cell::show).collect());
    grid(head.collect(), rows.collect())
}
