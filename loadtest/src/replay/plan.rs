//! What both ways to replay are given and leave behind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::operator::{Counts, Operator};
use crate::failure::Failure;
use crate::ledger::table::{Ledger, LedgerClock, Ticket};
use crate::ledger::writer::Writer;
use crate::outcome::Sample;
use crate::settings::engine::EngineSettings;

/// What to replay, and how.
pub(crate) struct Plan<'a> {
    pub(crate) file: &'a Path,
    pub(crate) fast: bool,
    pub(crate) linger: Duration,
    pub(crate) quiet: bool,
}

/// What is left after the last operation and `stop`.
pub(super) struct Played {
    pub(super) ledger: Arc<Ledger>,
    pub(super) stats: tickwheel::Stats,
    pub(super) returned: Vec<Ticket>,
    pub(super) counts: Counts,
    pub(super) samples: Vec<Sample>,
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
}

/// Microseconds of a workload file in nanoseconds, saturating.
pub(super) fn micros_to_ns(micros: u64) -> u64 {
    micros.saturating_mul(1000)
}

/// The ledger with one writer that has a slot for every timer of the file.
pub(super) fn open_ledger(
    clock: LedgerClock,
    timers: usize,
    engine: &EngineSettings,
) -> Result<(Arc<Ledger>, Writer), Failure> {
    const CURE: &str = "use a shorter workload file";
    let ledger = Arc::new(Ledger::open(clock, 1, timers, engine.shards, CURE)?);
    let writer = Writer::new(&ledger, 0).map_err(Failure::memory("the ledger", CURE))?;
    Ok((ledger, writer))
}

/// A line for people.
pub(super) fn line(done: usize, all: usize, operator: &Operator, ledger: &Ledger) -> String {
    format!(
        "{done}/{all} operations  {} scheduled  {} cancelled  {} fired",
        operator.counts.totals.accepted(),
        operator.counts.totals.cancelled,
        ledger.fired_so_far(),
    )
}
