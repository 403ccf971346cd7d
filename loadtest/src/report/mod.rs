//! Tells people and machines what came of a run.
//!
//! * `table` - the terminal; `html` - the report; `json` - for machines
//! * `server` - the same three for a run against the idle server
//! * `page`, `plots`, `chart`, `style` - what every HTML report is made of
//! * `format` - numbers as people read them

mod chart;
pub(crate) mod format;
mod html;
mod json;
mod page;
mod plots;
mod server;
mod style;
mod table;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::book::Verdict;
use crate::cli::SettingRow;
use crate::failure::Failure;
use crate::machine::{Cost, Machine};
use crate::run::Sample;

/// Results in every form in which they are delivered.
pub(crate) trait Results {
    /// Whether the verdict is ok.
    fn is_ok(&self) -> bool;
    /// All tables for the terminal.
    fn tables(&self) -> String;
    /// The sums, the evidence, and as the last line the verdict.
    fn verdict(&self) -> String;
    /// The HTML report.
    fn html(&self) -> String;
    /// One JSON object.
    fn json(&self) -> String;
}

/// Everything that a report on a load run or a replay shows.
pub(crate) struct Outcome {
    pub(crate) title: &'static str,
    pub(crate) machine: Machine,
    pub(crate) settings: Vec<SettingRow>,
    /// Seconds of load, up to the call of `stop`.
    pub(crate) seconds: f64,
    /// Ended by Ctrl-C.
    pub(crate) interrupted: bool,
    pub(crate) verdict: Verdict,
    /// Sampled duration of schedule calls in nanoseconds.
    pub(crate) schedule: Histogram<u64>,
    /// Sampled duration of cancel calls in nanoseconds.
    pub(crate) cancel: Histogram<u64>,
    /// How long after its requested deadline each fired timer's handler ran, in nanoseconds.
    pub(crate) lateness: Histogram<u64>,
    pub(crate) cost: Cost,
    pub(crate) memory: Memory,
    pub(crate) wakes: Wakes,
    pub(crate) shards: Vec<ShardLine>,
    pub(crate) samples: Vec<Sample>,
    /// What a reader must know to judge the figures.
    pub(crate) remark: Option<String>,
}

impl Outcome {
    /// Timers scheduled and later cancelled, per second of load.
    pub(crate) fn pairs_per_second(&self) -> f64 {
        self.verdict.cancelled as f64 / self.seconds.max(1e-9)
    }

    /// The three measured distributions with their names.
    pub(crate) fn distributions(&self) -> [(&'static str, &Histogram<u64>); 3] {
        [("schedule", &self.schedule), ("cancel", &self.cancel), ("lateness", &self.lateness)]
    }
}

impl Results for Outcome {
    fn is_ok(&self) -> bool {
        self.verdict.is_ok()
    }

    fn tables(&self) -> String {
        table::render(self)
    }

    fn verdict(&self) -> String {
        table::verdict(self)
    }

    fn html(&self) -> String {
        html::render(self)
    }

    fn json(&self) -> String {
        json::render(self)
    }
}

/// Resident memory of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) start_bytes: Option<u64>,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) end_bytes: Option<u64>,
    /// The slot table of this program's own books, part of the figures above.
    pub(crate) books_bytes: u64,
}

/// How often the workers slept, as the engine counts it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Wakes {
    pub(crate) turns: u64,
    pub(crate) parks: u64,
    /// Sleeps that a producer ended.
    pub(crate) wakes: u64,
}

/// One shard.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ShardLine {
    pub(crate) shard: usize,
    /// The core its worker is pinned to.
    pub(crate) core: Option<usize>,
    pub(crate) scheduled: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) turns: u64,
    pub(crate) parks: u64,
    pub(crate) wakes: u64,
}

/// Percentiles that tables show: text for people, suffix for JSON, value.
pub(crate) const PERCENTILES: [(&str, &str, f64); 3] =
    [("p50", "p50", 50.0), ("p99", "p99", 99.0), ("p99.9", "p99_9", 99.9)];

/// Where results go besides the terminal.
pub(crate) struct Destination {
    pub(crate) html: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// The report's place if none is given: beside the build, or else in the current folder.
pub(crate) fn default_html_path() -> PathBuf {
    let name = "tickwheel-report.html";
    if Path::new("target").is_dir() { Path::new("target").join(name) } else { name.into() }
}

/// Prints the results and writes the files. The verdict is printed even if a file cannot be written.
pub(crate) fn deliver(results: &dyn Results, destination: &Destination) -> Result<(), Failure> {
    let mut text = String::new();
    if !destination.quiet {
        text.push_str(&results.tables());
        text.push('\n');
    }
    text.push_str(&results.verdict());
    print(&text);
    let mut written = String::new();
    if let Some(path) = &destination.html {
        std::fs::write(path, results.html()).map_err(Failure::file("write", path))?;
        let _ = writeln!(written, "report: {}", absolute(path).display());
    }
    if let Some(path) = &destination.json {
        std::fs::write(path, results.json()).map_err(Failure::file("write", path))?;
        if !destination.quiet {
            let _ = writeln!(written, "json:   {}", absolute(path).display());
        }
    }
    print(&written);
    Ok(())
}

/// To the standard output; a reader that has gone away is no reason to fail.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
