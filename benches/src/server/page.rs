//! Tables and charts of a run.

use super::load::{Figures, Load, SCENARIOS, Scenario};
use super::serve::Variant;
use crate::goals::number;
use crate::measure::median;
use crate::report::{Bar, Circumstances, bars, insert_between};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- server: begin. Written by `scripts/server.sh`; do not edit. -->";
const END: &str = "<!-- server: end -->";

const VARIANTS: [(Variant, &str); 3] = [
    (Variant::Tickwheel, "tickwheel's timers"),
    (Variant::Tokio, "tokio's timers"),
    (Variant::None, "no limits"),
];

/// What is drawn of each scenario.
const CHARTS: [(&str, &str, &str); 3] = [
    ("CPU us/request", "less is better", "cpu"),
    ("requests/s", "more is better", "rate"),
    ("p99.9 ms", "less is better", "p999"),
];

/// All repeats.
pub struct Runs {
    load: Load,
    repeats: usize,
    /// In the order of the scenarios and of the variants: a repeat's figures each.
    figures: Vec<Vec<Vec<Figures>>>,
}

impl Runs {
    /// Measures: repeats on the outside, variants on the inside, so that whatever else the machine does hits all.
    ///
    /// # Errors
    ///
    /// If a server or the generator fails.
    pub fn measure(scenarios: &[Scenario], load: Load, repeats: usize) -> Result<Self, String> {
        let mut figures = Vec::new();
        for scenario in scenarios {
            let mut rows = vec![Vec::new(); VARIANTS.len()];
            for repeat in 0..repeats {
                for turn in 0..VARIANTS.len() {
                    // Nobody always comes first.
                    let which = (repeat + turn) % VARIANTS.len();
                    let (variant, name) = VARIANTS[which];
                    eprint!("\r\x1b[K{} {}/{repeats} {name}", scenario.id, repeat + 1);
                    rows[which].push(scenario.measure(variant, load)?);
                }
            }
            figures.push(rows);
        }
        eprintln!("\r\x1b[Kdone");
        Ok(Self { load, repeats, figures })
    }

    fn values(&self, scenario: usize, variant: usize, column: usize) -> Vec<f64> {
        self.figures[scenario][variant].iter().map(|repeat| repeat[column].1).collect()
    }

    /// The tables; `charts` is the folder of the charts as the page sees it.
    #[must_use]
    pub fn render(&self, circumstances: &Circumstances, charts: Option<&str>) -> String {
        let method = format!(
            "medians (and ranges) of {} interleaved repeats of {} s, a process per server, \
             `h2load` with one thread on the same cores",
            self.repeats, self.load.seconds
        );
        // Writing to a string does not fail, so the answers of `write!` are dropped.
        let mut page = circumstances.table(&method);
        for (at, scenario) in SCENARIOS.iter().enumerate().take(self.figures.len()) {
            let _ = write!(page, "### {}\n\n{}.\n\n| |", scenario.id, scenario.text);
            let columns = self.columns(at);
            for column in &columns {
                let _ = write!(page, " {column} |");
            }
            let _ = writeln!(page, "\n|---|{}", "---:|".repeat(columns.len()));
            for (variant, (_, name)) in VARIANTS.iter().enumerate() {
                let _ = write!(page, "| {name} |");
                for column in 0..columns.len() {
                    let _ = write!(page, " {} |", spread(&self.values(at, variant, column)));
                }
                page.push('\n');
            }
            page.push('\n');
            for (_, _, file) in CHARTS {
                if let Some(folder) = charts {
                    let id = scenario.id;
                    let _ = writeln!(page, "![{id}, {file}]({folder}/{id}-{file}.svg)");
                }
            }
            page.push('\n');
        }
        page
    }

    fn columns(&self, scenario: usize) -> Vec<&'static str> {
        let first = self.figures[scenario].first().and_then(|repeats| repeats.first());
        first.map_or_else(Vec::new, |figures| figures.iter().map(|figure| figure.0).collect())
    }

    /// The charts: names of files, and what they hold.
    fn charts(&self) -> Vec<(String, String)> {
        let mut charts = Vec::new();
        for (at, scenario) in SCENARIOS.iter().enumerate().take(self.figures.len()) {
            for (metric, direction, file) in CHARTS {
                let Some(column) = self.columns(at).iter().position(|name| *name == metric) else {
                    continue;
                };
                let bar = |(variant, (whose, name)): (usize, &(Variant, &str))| {
                    let values = self.values(at, variant, column);
                    let range = (least(&values), greatest(&values));
                    let is_ours = *whose == Variant::Tickwheel;
                    Bar { name: (*name).to_owned(), is_ours, median: median(&values), range }
                };
                let all: Vec<Bar> = VARIANTS.iter().enumerate().map(bar).collect();
                let title = format!("{} — {metric} ({direction})", scenario.id);
                charts.extend(
                    bars(&title, &all).map(|svg| (format!("{}-{file}.svg", scenario.id), svg)),
                );
            }
        }
        charts
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The median, and the range where there is one.
fn spread(values: &[f64]) -> String {
    let shown =
        |value: f64| if value >= 1e4 { format!("{:.1}k", value / 1e3) } else { number(value) };
    let (low, high) = (least(values), greatest(values));
    if low < high {
        return format!("{} ({}-{})", shown(median(values)), shown(low), shown(high));
    }
    shown(median(values))
}

/// Writes tables into a page, between its marks, and charts into a folder beside it.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(runs: &Runs, circumstances: &Circumstances, out: &Path) -> std::io::Result<()> {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = out.with_file_name(&stem);
    std::fs::create_dir_all(&folder)?;
    for (name, svg) in runs.charts() {
        std::fs::write(folder.join(name), svg)?;
    }
    let old = std::fs::read_to_string(out).unwrap_or_default();
    let tables = runs.render(circumstances, Some(&stem));
    std::fs::write(out, insert_between(&old, &tables, BEGIN, END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_becomes_tables_and_charts_between_the_marks() {
        let figures =
            |cpu| vec![("requests/s", 25_000.0), ("CPU us/request", cpu), ("p99.9 ms", 2.0)];
        let variants = [9.0, 12.0, 6.0].map(|cpu| vec![figures(cpu), figures(cpu + 1.0)]);
        let load = Load { seconds: 1, tiny: true };
        let runs = Runs { load, repeats: 2, figures: vec![variants.to_vec()] };
        let page = runs.render(&Circumstances::now(), Some("server"));
        assert!(page.contains("| tokio's timers | 25.0k | 12.5 (12.0-13.0) | 2.00 |"), "{page}");
        assert!(page.contains("![http1-full, cpu](server/http1-full-cpu.svg)"), "{page}");
        let charts = runs.charts();
        assert_eq!(charts.len(), 3);
        assert!(
            charts[0].1.contains("no limits") && charts[0].1.contains("9.50"),
            "{}",
            charts[0].1
        );
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("server.md");
        std::fs::write(&out, "# Title\n").unwrap();
        for _ in 0..2 {
            write(&runs, &Circumstances::now(), &out).unwrap();
        }
        let written = std::fs::read_to_string(&out).unwrap();
        assert!(written.starts_with("# Title") && written.matches("server: begin").count() == 1);
        assert!(folder.path().join("server/http1-full-p999.svg").exists());
    }
}
