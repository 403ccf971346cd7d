//! The page that every HTML report is: one file, charts inside, nothing fetched.

use std::time::SystemTime;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::format::{bytes, or_na};
use super::style::STYLE;
use crate::cli::SettingRow;
use crate::machine::Machine;

/// What is particular about one page.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) machine: &'a Machine,
    pub(super) settings: &'a [SettingRow],
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
    /// "ok" or "breach".
    pub(super) word: &'a str,
    /// The sums behind that word.
    pub(super) sums: String,
    pub(super) evidence: &'a [String],
    pub(super) remark: Option<&'a str>,
    /// The figures that a reader looks for first, with their names.
    pub(super) tiles: Vec<(String, &'a str)>,
    /// Charts and tables, a card each.
    pub(super) body: Markup,
}

impl Page<'_> {
    /// The whole page.
    pub(super) fn render(&self) -> String {
        let title = format!("tickwheel {}", self.title);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) ": " (self.word) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (title) }
                    p.soft {
                        (humantime::format_rfc3339_seconds(SystemTime::now())) " · "
                        (or_na(self.machine.cpu.clone(), |cpu| cpu)) ", " (self.machine.cores)
                        " cores · " (format!("{:.1} s of load", self.seconds))
                        @if self.interrupted { " · ended early by request" }
                    }
                    (self.verdict())
                    div.tiles {
                        @for (value, name) in &self.tiles {
                            div.card { b { (value) } span.soft { (name) } }
                        }
                    }
                    @if let Some(remark) = self.remark { div.card { "Note: " (remark) } }
                    (self.body)
                    (self.facts())
                }
            }
        };
        page.into_string()
    }

    fn verdict(&self) -> Markup {
        html! {
            div class={ "card verdict " (self.word) } {
                strong { "Verdict " (self.word.to_uppercase()) }
                (self.sums)
                @if !self.evidence.is_empty() {
                    ul { @for line in self.evidence { li { (line) } } }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let machine = self.machine;
        let rows = [
            ("platform", machine.platform.clone()),
            ("kernel", or_na(machine.kernel.clone(), |kernel| kernel)),
            ("processor", or_na(machine.cpu.clone(), |cpu| cpu)),
            ("cores", machine.cores.to_string()),
            ("memory", or_na(machine.memory_bytes, bytes)),
            ("load program", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        html! {
            div.pair {
                div.card {
                    h2 { "Settings" }
                    table.facts {
                        @for (name, value) in self.settings {
                            tr {
                                td { (name.replace('_', "-")) }
                                td { (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) }
                            }
                        }
                    }
                }
                div.card {
                    h2 { "Machine" }
                    table.facts { @for (name, value) in rows { tr { td { (name) } td { (value) } } } }
                }
            }
        }
    }
}

/// A card with a table of names and values.
pub(super) fn figures<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        div.card.scroll {
            h2 { "Figures" }
            table.facts {
                @for (name, value) in rows { tr { td { (name) } td { (value) } } }
            }
        }
    }
}

/// A card with a table that has a head.
pub(super) fn grid(title: &str, head: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        div.card.scroll {
            h2 { (title) }
            table {
                tr { @for name in head { th { (name) } } }
                @for row in rows { tr { @for cell in row { td { (cell) } } } }
            }
        }
    }
}
