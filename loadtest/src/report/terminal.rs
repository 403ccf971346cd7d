//! The report on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::model::{Report, Setting};
use crate::numbers::count;

/// All tables and notes.
pub(crate) fn tables(report: &Report) -> String {
    let mut text = String::new();
    let (kind, seconds) = (report.kind, report.seconds());
    let _ = writeln!(
        text,
        "\ntickwheel {kind}, {seconds:.1} s\n {}",
        line(&report.settings)
    );
    for phase in &report.phases {
        if report.phases.len() > 1 {
            let settings = line(&phase.settings);
            let _ = writeln!(text, "\n{}, {:.1} s {settings}", phase.name, phase.seconds);
        }
        for grid in phase.grids() {
            let mut table = Table::new();
            table.load_preset(UTF8_FULL_CONDENSED);
            if !grid.head.is_empty() {
                table.set_header(grid.head);
            }
            table.add_rows(grid.rows);
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let _ = writeln!(text, "{table}");
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn line(settings: &[Setting]) -> String {
    settings
        .iter()
        .map(|setting| format!(" {} {}", setting.name, setting.shown))
        .collect()
}

/// The balance, the breaches and what was found, and as the last line the verdict.
pub(crate) fn verdict(report: &Report) -> String {
    let mut text = String::new();
    if report.interrupted {
        let _ = writeln!(
            text,
            "ended early by request after {:.1} s",
            report.seconds()
        );
    }
    for phase in &report.phases {
        let many = report.phases.len() > 1;
        let name = if many {
            format!("{}: ", phase.name)
        } else {
            String::new()
        };
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
    let words = breaches
        .iter()
        .map(|(name, number)| format!("{name} {}", count(*number)));
    words.collect::<Vec<_>>().join(", ")
}
