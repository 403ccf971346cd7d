//! Reads the file, replays it, and judges.

use std::path::Path;

use super::play::{Plan, Played, play};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::ledger::totals::EngineCounts;
use crate::machine;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::report::model::Report;
use crate::settings::engine::EngineSettings;
use crate::settings::setting::Setting;
use crate::usage::Usage;
use crate::workload::{self, Op};

/// Checks the file, replays it, and judges.
pub(crate) fn replay(
    plan: &Plan<'_>,
    engine: &EngineSettings,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let ops = read(plan.file)?;
    let resident_before = machine::resident_bytes();
    let mut progress = Progress::new(ops.len() as u64, plan.quiet);
    let (usage, busy) = (Usage::now(), machine::busy_note());
    let played = play(&ops, plan, engine, interrupt, &mut progress)?;
    let cost = Usage::now().since(&usage);
    progress.phase("checking the ledger");
    let Played { ledger, stats, returned, counts, samples, seconds, interrupted } = played;
    let verdict = ledger.audit(&returned, &counts.totals, &EngineCounts::from(&stats));
    let outcome = Outcome {
        name: "replay",
        settings: Vec::new(),
        seconds,
        samples,
        resident_before,
        resident_end: machine::resident_bytes(),
        cost,
        schedule: counts.schedule,
        cancel: counts.cancel,
        ledger: &ledger,
        totals: &counts.totals,
        stats: &stats,
        verdict,
    };
    Ok(Report {
        kind: if plan.fast { "replay on the manual clock" } else { "replay in real time" },
        settings: rows(plan, engine, &ops),
        interrupted,
        phases: vec![outcome.phase()],
        notes: busy.into_iter().collect(),
    })
}

fn read(file: &Path) -> Result<Vec<Op>, Failure> {
    let input = std::fs::File::open(file).map_err(Failure::file("read", file))?;
    let ops = workload::parse(input).map_err(|errors| {
        let lines: String = errors.iter().map(|error| format!("\n  {error}")).collect();
        Failure::Workload(format!("{}: bad lines, nothing was run{lines}", file.display()))
    })?;
    if ops.is_empty() {
        let text = format!("{}: no operation after the header, nothing was run", file.display());
        return Err(Failure::Workload(text));
    }
    Ok(ops)
}

fn rows(plan: &Plan<'_>, engine: &EngineSettings, ops: &[Op]) -> Vec<Setting> {
    let mut rows = vec![
        Setting::text("file", plan.file.display()),
        Setting::count("operations", ops.len()),
        Setting::text("clock", if plan.fast { "manual" } else { "real" }),
        Setting::duration("linger", plan.linger),
    ];
    rows.extend(engine.rows());
    rows
}
