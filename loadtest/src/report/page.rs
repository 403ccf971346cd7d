//! The HTML page: one file, charts inside, nothing fetched.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::model::{Grid, Phase, Report};
use super::outputs::Facts;
use super::{chart, terminal};

/// Readable on light and dark, nothing loaded from elsewhere.
const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn render(report: &Report, made_with: &Facts) -> String {
    let title = format!("tickwheel {}", report.kind);
    let many = report.phases.len() > 1;
    let settings = report.settings.iter().map(|one| (&one.name, one.shown.clone()));
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
                    (format!("{:.1} s of load", report.seconds()))
                    @if report.interrupted { " · ended early by request" }
                }
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
                @if !report.notes.is_empty() {
                    div.card.note {
                        b { "To be known when reading the figures" }
                        ul { @for note in &report.notes { li { (note) } } }
                    }
                }
                @for one in &report.phases { (phase(one, many)) }
                div.pair {
                    (grid(&Grid::pairs("Settings", settings)))
                    (grid(&Grid::pairs("Made with", made_with.clone())))
                }
            }
        }
    };
    page.into_string()
}

fn phase(phase: &Phase, named: bool) -> Markup {
    html! {
        @if named {
            h2.phase {
                (phase.name) span.soft {
                    (format!(" {:.1} s", phase.seconds))
                    @for setting in &phase.settings { ", " (setting.name) " " (setting.shown) }
                }
            }
        }
        div.pair {
            // Distributions with one title are neighbours and share a chart.
            @for all in phase.distributions.chunk_by(|one, next| one.chart == next.chart) {
                (chart(all[0].chart, all[0].about, chart::percentiles(all)))
            }
            @for one in &phase.timelines { (chart(one.title, one.about, chart::timeline(one))) }
        }
        @for table in phase.grids() { (grid(&table)) }
    }
}

fn chart(title: &str, about: &str, drawing: Option<Markup>) -> Markup {
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

fn grid(grid: &Grid) -> Markup {
    let class = if grid.head.is_empty() { "facts" } else { "scroll" };
    html! {
        div.card {
            h3 { (grid.title) }
            div class=(class) {
                table {
                    @if !grid.head.is_empty() { tr { @for name in &grid.head { th { (name) } } } }
                    @for row in &grid.rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}
