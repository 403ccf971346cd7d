//! The HTML page: one file, charts inside, nothing fetched.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::circumstances::{COMMIT, COMPILER, Circumstances, PROFILE, VERSION, timestamp};
use super::model::{Cell, Distribution, PERCENTILES, Phase, Report};
use super::{chart, terminal};
use crate::numbers::{bytes, nanos, or_dash, or_na};
use crate::settings::setting::Setting;

/// Readable on light and dark, nothing loaded from elsewhere.
const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn render(report: &Report, circumstances: &Circumstances) -> String {
    let title = format!("tickwheel {}", report.kind);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) ": " (report.word()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.soft {
                    (timestamp(circumstances.started)) " · "
                    (or_na(circumstances.machine.cpu.clone(), |cpu| cpu)) ", "
                    (circumstances.machine.cores) " cores · "
                    (format!("{:.1} s of load", report.seconds()))
                    @if report.interrupted { " · ended early by request" }
                }
                (verdict(report))
                @if !report.notes.is_empty() {
                    div.card.note {
                        b { "To be known when reading the figures" }
                        ul { @for note in &report.notes { li { (note) } } }
                    }
                }
                @for one in &report.phases { (phase(one, report.phases.len() > 1)) }
                (facts(report, circumstances))
            }
        }
    };
    page.into_string()
}

fn verdict(report: &Report) -> Markup {
    let many = report.phases.len() > 1;
    html! {
        div class={ "card verdict " (report.word().replace(' ', "-")) } {
            strong { "Verdict " (report.word().to_uppercase()) }
            (terminal::breaches(report))
            ul {
                @for phase in &report.phases {
                    li { @if many { (phase.name) ": " } (phase.verdict.balance) }
                    @for line in &phase.verdict.findings { li { (line) } }
                }
            }
        }
    }
}

fn phase(phase: &Phase, named: bool) -> Markup {
    let (head, rows) = terminal::percentile_rows(&phase.distributions);
    let figures = phase.figures.iter().map(|figure| (figure.label, figure.show()));
    html! {
        @if named {
            h2.phase {
                (phase.name) span.soft {
                    (format!(" {:.1} s", phase.seconds))
                    @for setting in &phase.settings { ", " (setting.name) " " (setting.shown) }
                }
            }
        }
        div.tiles {
            @for (value, name) in tiles(phase) {
                div.card { b { (value) } span.soft { (name) } }
            }
        }
        div.pair { (charts(phase)) }
        (grid("Percentiles", &head, &rows))
        @for table in &phase.tables {
            @let head: Vec<String> = table.head.iter().map(|(_, label)| (*label).into()).collect();
            @let rows: Vec<Vec<String>> =
                table.rows.iter().map(|row| row.iter().map(Cell::show).collect()).collect();
            (grid(table.title, &head, &rows))
        }
        (names_and_values("Figures", figures))
    }
}

/// What a reader looks for first.
fn tiles(phase: &Phase) -> Vec<(String, String)> {
    let figures = phase.figures.iter().filter(|figure| figure.tile);
    let figures = figures.map(|figure| (figure.show(), figure.label.to_owned()));
    let percentiles = phase.distributions.iter().filter_map(|one| {
        let (name, _, percentile) = PERCENTILES[one.tile?];
        Some((or_dash(one.at(percentile), nanos), format!("{}, {name}", one.label)))
    });
    figures.chain(percentiles).collect()
}

fn charts(phase: &Phase) -> Markup {
    let mut titles: Vec<&str> = phase.distributions.iter().map(|one| one.chart).collect();
    titles.dedup();
    html! {
        @for title in titles { (percentile_chart(phase, title)) }
        @for one in &phase.timelines { (card(one.title, one.about, chart::timeline(one))) }
    }
}

fn percentile_chart(phase: &Phase, title: &str) -> Markup {
    let of_chart = |one: &&Distribution| one.chart == title;
    let all: Vec<&Distribution> = phase.distributions.iter().filter(of_chart).collect();
    let about = all.first().map_or("", |one| one.about);
    card(title, about, chart::percentiles(&all))
}

fn card(title: &str, about: &str, drawing: Option<Markup>) -> Markup {
    html! {
        div.card {
            h3 { (title) }
            p.soft { (about) }
            @match drawing {
                Some(svg) => figure role="img" aria-label=(title) { (svg) },
                None => p.soft { "Not measured in this run." },
            }
        }
    }
}

fn facts(report: &Report, circumstances: &Circumstances) -> Markup {
    let machine = &circumstances.machine;
    let made = [
        ("command", circumstances.command.clone()),
        ("started", timestamp(circumstances.started)),
        ("version", VERSION.to_owned()),
        ("commit", COMMIT.to_owned()),
        ("compiler", COMPILER.to_owned()),
        ("profile", PROFILE.to_owned()),
        ("platform", machine.platform.clone()),
        ("kernel", or_na(machine.kernel.clone(), |kernel| kernel)),
        ("processor", or_na(machine.cpu.clone(), |cpu| cpu)),
        ("cores", machine.cores.to_string()),
        ("memory", or_na(machine.memory_bytes, bytes)),
    ];
    let row = |setting: &Setting| (setting.name, setting.shown.clone());
    html! {
        div.pair {
            (names_and_values("Settings", report.settings.iter().map(row)))
            (names_and_values("Made with", made))
        }
    }
}

/// A card with a table of names and values.
fn names_and_values<'a>(title: &str, rows: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        div.card {
            h3 { (title) }
            table.facts { @for (name, value) in rows { tr { td { (name) } td { (value) } } } }
        }
    }
}

/// A card with a table that has a head.
fn grid(title: &str, head: &[String], rows: &[Vec<String>]) -> Markup {
    html! {
        div.card {
            h3 { (title) }
            div.scroll {
                table {
                    tr { @for name in head { th { (name) } } }
                    @for row in rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}
