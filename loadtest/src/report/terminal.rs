//! The report on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use console::{Style, Term};

use super::model::{Report, Setting};
use crate::numbers::count;

/// Whom a text is for.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// Columns that a line may have.
    columns: usize,
    has_colours: bool,
}

impl Reader {
    /// Of the standard output. Programs that read it get whole lines.
    pub(crate) fn of_output() -> Self {
        let columns = Term::stdout().size_checked();
        Self {
            columns: columns.map_or(usize::MAX, |(_, columns)| usize::from(columns)),
            has_colours: console::colors_enabled(),
        }
    }

    /// Writes words in lines that fit, all but the first one indented.
    fn write<S: AsRef<str>>(
        self,
        text: &mut String,
        first: &str,
        words: impl IntoIterator<Item = S>,
    ) {
        let (indent, mut column) = (2, first.chars().count());
        text.push_str(first);
        for word in words {
            let (word, length) = (word.as_ref(), word.as_ref().chars().count());
            if column > indent && column + 1 + length > self.columns {
                text.push_str("\n  ");
                column = indent;
            } else if column > 0 && !text.ends_with([' ', '\n']) {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += length;
        }
        text.push('\n');
    }
}

/// All tables and notes.
pub(crate) fn tables(report: &Report, reader: Reader) -> String {
    let mut text = String::new();
    let (kind, seconds) = (report.kind, report.seconds());
    let _ = writeln!(text, "\ntickwheel {kind}, {seconds:.1} s");
    reader.write(&mut text, "  ", words(&report.settings));
    for phase in &report.phases {
        if report.phases.len() > 1 {
            let comma = if phase.settings.is_empty() { "" } else { "," };
            let name = format!("\n{}, {:.1} s{comma}", phase.name, phase.seconds);
            reader.write(&mut text, &name, words(&phase.settings));
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
        reader.write(&mut text, "note:", note.split(' '));
    }
    text
}

/// A name and its value stay together.
fn words(settings: &[Setting]) -> impl Iterator<Item = String> {
    let word = |setting: &Setting| format!("{} {}", setting.name, setting.shown);
    settings.iter().enumerate().map(move |(place, setting)| {
        let is_last = place + 1 == settings.len();
        word(setting) + if is_last { "" } else { "," }
    })
}

/// The balance, the breaches and what was found, and as the last line the verdict.
pub(crate) fn verdict(report: &Report, reader: Reader) -> String {
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
            reader.write(&mut text, &format!("  {name}"), line.split(' '));
        }
        reader.write(&mut text, &name, phase.verdict.balance.split(' '));
    }
    let colour = match report.word() {
        "ok" => Style::new().green(),
        "breach" => Style::new().red(),
        _ => Style::new().yellow(),
    };
    let word = report.word().to_uppercase();
    let word = colour
        .bold()
        .force_styling(reader.has_colours)
        .apply_to(word);
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::model::{Phase, Verdict};

    /// Two phases with so many breaches each.
    pub(in crate::report) fn report(breaches: u64) -> Report {
        let verdict = Verdict {
            began: 1,
            balance: "accepted 1,897,072 = fired 150,147 + cancelled 1,729,031 + returned 17,894"
                .to_owned(),
            counts: Vec::new(),
            breaches: vec![("early", breaches)],
            findings: vec!["early: a timer that came before its time, and ".repeat(4)],
        };
        let phase = |name| Phase {
            name,
            settings: Vec::new(),
            seconds: 1.0,
            verdict: verdict.clone(),
            figures: Vec::new(),
            distributions: Vec::new(),
            timelines: Vec::new(),
            tables: Vec::new(),
        };
        let settings = (0..30).map(|n| Setting::new(&format!("option-{n}"), n));
        Report {
            kind: "load run",
            settings: settings.collect(),
            phases: vec![phase("full speed"), phase("paced")],
            notes: vec!["what a reader must know ".repeat(8)],
            ..Report::default()
        }
    }

    #[test]
    fn lines_fit_the_terminal_and_break_between_words() {
        let mut reader = Reader {
            columns: 80,
            has_colours: false,
        };
        let narrow = tables(&report(1), reader) + &verdict(&report(1), reader);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        assert!(
            narrow.contains("option-7 7,") && narrow.contains("\n  "),
            "{narrow}"
        );
        // For a program each stays one line, of the same words.
        reader.columns = usize::MAX;
        let wide = tables(&report(1), reader) + &verdict(&report(1), reader);
        assert!(wide.contains("  option-0 0, option-1 1, ") && wide.contains(", option-29 29\n"));
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&narrow), words(&wide));
    }

    #[test]
    fn the_verdict_has_a_colour_for_people_only() {
        let shown = |breaches, has_colours| {
            let columns = 80;
            let reader = Reader {
                columns,
                has_colours,
            };
            verdict(&report(breaches), reader)
                .lines()
                .last()
                .unwrap()
                .to_owned()
        };
        assert_eq!(shown(0, false), "verdict: OK");
        assert_eq!(shown(0, true), "verdict: \u{1b}[32m\u{1b}[1mOK\u{1b}[0m");
        assert_eq!(
            shown(1, true),
            "verdict: \u{1b}[31m\u{1b}[1mBREACH\u{1b}[0m"
        );
    }
}
