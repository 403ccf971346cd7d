//! Replays a recorded workload: in real time, or as fast as possible on a clock turned by hand.
//!
//! * `desk` - does one operation on the engine and writes it into the books; shared by both ways
//! * `real` - on the real clock: the books judge
//! * `fast` - on the manual clock: the books judge, and `model` says what exactly must come of each
//!   operation and of each timer, and when

mod desk;
mod fast;
mod model;
mod real;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use crate::book::{Book, Lane, Ticket};
use crate::cli::{EngineSettings, SettingRow, show};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{self, Usage};
use crate::progress::Progress;
use crate::report::Outcome;
use crate::run::{Frame, Sample, engine_counts, frame_outcome};
use crate::workload::{self, Action, Op};
use desk::Desk;

/// What to replay, and how.
pub(crate) struct Plan<'a> {
    pub(crate) file: &'a Path,
    pub(crate) fast: bool,
    pub(crate) linger: Duration,
    pub(crate) quiet: bool,
}

/// Bad lines shown.
const SHOWN: usize = 20;

/// Checks the file, replays it, and judges.
pub(crate) fn replay(
    plan: &Plan<'_>,
    engine: &EngineSettings,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let ops = read(plan.file)?;
    let resident_before = machine::resident_bytes();
    let timers = ops.iter().filter(|op| matches!(op.action, Action::Schedule { .. })).count();
    let mut progress = Progress::new(ops.len() as u64, plan.quiet);
    let usage = Usage::now();
    let played = if plan.fast {
        fast::play(&ops, timers, plan, engine, interrupt, &mut progress)?
    } else {
        real::play(&ops, timers, plan, engine, interrupt, &mut progress)?
    };
    let cost = Usage::now().since(&usage);
    progress.phase("checking the books");
    let Played { book, stats, returned, desk, samples, seconds, interrupted } = played;
    let verdict = book.audit(&returned, &desk.tally, &engine_counts(&stats));
    let frame = Frame {
        title: if plan.fast { "replay on the manual clock" } else { "replay in real time" },
        settings: rows(plan, engine, &ops),
        seconds,
        interrupted,
        samples,
        resident_before,
        resident_end: machine::resident_bytes(),
        cost,
        schedule: desk.schedule,
        cancel: desk.cancel,
        remark: None,
    };
    Ok(frame_outcome(frame, &book, &desk.tally, &stats, verdict))
}

/// What is left after the last operation and `stop`.
struct Played {
    book: Arc<Book>,
    stats: tickwheel::Stats,
    returned: Vec<Ticket>,
    desk: desk::Counts,
    samples: Vec<Sample>,
    seconds: f64,
    interrupted: bool,
}

fn read(file: &Path) -> Result<Vec<Op>, Failure> {
    let input = std::fs::File::open(file).map_err(Failure::file("read", file))?;
    workload::parse(std::io::BufReader::new(input)).map_err(|errors| {
        let more: u64 = errors
            .iter()
            .map(|error| match error.fault {
                workload::Fault::More(more) => more,
                _ => 1,
            })
            .sum();
        let mut text = format!("{}: {more} bad line(s), nothing was run", file.display());
        for error in errors.iter().take(SHOWN) {
            let _ = write!(text, "\n  {error}");
        }
        if more > SHOWN as u64 {
            let _ = write!(text, "\n  and {} more", more - SHOWN as u64);
        }
        Failure::Workload(text)
    })
}

fn rows(plan: &Plan<'_>, engine: &EngineSettings, ops: &[Op]) -> Vec<SettingRow> {
    let mut rows = vec![
        ("file", json!(plan.file.display().to_string())),
        ("operations", json!(ops.len())),
        ("clock", json!(if plan.fast { "manual" } else { "real" })),
        ("linger", json!(show(plan.linger))),
    ];
    rows.extend(engine.rows());
    rows
}

/// Microseconds of a workload file in nanoseconds, saturating.
fn micros_to_ns(micros: u64) -> u64 {
    micros.saturating_mul(1000)
}

/// Books with one lane that has a slot for every timer of the file.
fn open_books(
    clock: crate::book::BookClock,
    timers: usize,
    engine: &EngineSettings,
) -> Result<(Arc<Book>, Lane), Failure> {
    let book = Book::open(clock, 1, timers, engine.shards).map(Arc::new);
    let book = book.map_err(Failure::Options)?;
    let lane = Lane::new(&book, 0);
    Ok((book, lane))
}

/// A line for people.
fn line(done: usize, all: usize, desk: &Desk, book: &Book) -> String {
    format!(
        "{done}/{all} operations  {} scheduled  {} cancelled  {} fired",
        desk.counts.tally.accepted(),
        desk.counts.tally.cancelled,
        book.fired_so_far(),
    )
}

/// An empty histogram, as the books use them.
fn histogram() -> Histogram<u64> {
    crate::book::histogram()
}
