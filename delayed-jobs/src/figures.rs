//! `delayed-jobs figures`: the same work for this program, for a worker that polls the same Redis, and for
//! other libraries where they are installed, one after the other on a fresh Redis each.
//!
//! * `ours` - a node in a process of its own, a consumer here; `polling` - the usual loop
//! * `foreign` - programs of other libraries, in processes of their own
//! * `work` - what is asked of all of them, and what is measured

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tickwheel_loadtest::parts::{Circumstances, timestamp};

use self::work::{Row, Work};
use crate::failure::Failure;

mod foreign;
mod ours;
mod polling;
mod work;

/// What is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct FigureSettings {
    #[command(flatten)]
    work: Work,
    /// Kills of a node
    #[arg(long, default_value = "5", value_name = "N")]
    failovers: usize,
    /// Folder with the programs of other libraries, such as target/peers
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
}

/// Runs everything and prints a table in Markdown.
///
/// # Errors
///
/// No Redis, or a process that the system refuses.
pub(crate) async fn figures(settings: &FigureSettings, program: &Path) -> Result<bool, Failure> {
    let circumstances = Circumstances::now("delayed-jobs");
    let work = settings.work;
    let mut rows = vec![ours::measure(&work, program).await?];
    for pause in [Duration::from_millis(100), Duration::from_secs(1)] {
        rows.push(polling::measure(&work, pause).await?);
    }
    rows.push(ours::measure_http(&work, program).await?);
    if let Some(folder) = &settings.peers {
        rows.extend(foreign::measure(&work, folder).await?);
    }
    let failover = ours::failover(settings.failovers, program).await?;
    let mut text = String::new();
    let machine = &circumstances.machine;
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "`{}`, {}, {cpu}, {} cores, Redis on the same machine\n",
        circumstances.command,
        timestamp(circumstances.started),
        machine.cores,
    );
    text.push_str(work::HEAD);
    rows.iter().for_each(|row| text.push_str(&row.line()));
    let _ = writeln!(
        text,
        "\nFailover, {} kills with a lease of {} ms: {}",
        failover.len(),
        ours::LEASE.as_millis(),
        failover
            .iter()
            .map(|took| format!("{} ms", took.as_millis()))
            .collect::<Vec<_>>()
            .join(", "),
    );
    print!("{text}");
    let target = judge(&rows);
    for line in &target {
        eprintln!("not reached: {line}");
    }
    println!("target: {}", if target.is_empty() { "reached" } else { "not reached" });
    Ok(rows.iter().all(|row| row.early == 0 && row.missing == 0))
}

/// A tenth of the polling worker's lateness, at least its throughput, nothing early.
fn judge(rows: &[Row]) -> Vec<String> {
    let [ours, polling, ..] = rows else { return Vec::new() };
    let mut missed = Vec::new();
    if ours.late_ms(0.99) * 10.0 > polling.late_ms(0.99) {
        missed.push("p99 lateness a tenth of the polling worker's".to_owned());
    }
    if ours.accepted < polling.accepted || ours.fired < polling.fired {
        missed.push("the polling worker's throughput".to_owned());
    }
    if ours.early > 0 {
        missed.push("no early job".to_owned());
    }
    missed
}
