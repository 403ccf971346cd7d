//! A load run: producers against a real engine on the real clock.
//!
//! * `load` - what a timer carries and what its producer keeps of it
//! * `producer` - the hot loop, one thread each; `pacer` - its rate limit
//! * `monitor` - samples and progress while the producers run
//! * `finish` - stops the engine under fire, gathers everything, asks the books for the verdict
//! * `recording` - turns what the producers did into a workload file

mod finish;
mod load;
mod monitor;
mod pacer;
mod producer;
mod recording;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tickwheel::{Key, Timeout};

use crate::book::{Book, BookClock, Lane};
use crate::cli::{EngineSettings, LoadSettings, PayloadChoice};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{self, Usage};
use crate::progress::Progress;
use crate::report::Outcome;
use crate::workload::Op;
use load::{Closure, Grip, Link, Load, Typed};
use monitor::Monitor;
use producer::{Live, Producer};

pub(crate) use finish::{Frame, engine_counts, frame_outcome};
pub(crate) use monitor::Sample;

/// Runs the load and judges it.
pub(crate) fn run(
    engine: &EngineSettings,
    load: &LoadSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    Ok(choose(&Session { engine, load, quiet, interrupt, record: false })?.0)
}

/// Runs the load, judges it, and writes what the producers did to `file`.
pub(crate) fn record(
    file: &Path,
    engine: &EngineSettings,
    load: &LoadSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    // Before the run, so that a path that cannot be written does not cost one.
    let output = std::fs::File::create(file).map_err(Failure::file("write", file))?;
    let (outcome, ops) = choose(&Session { engine, load, quiet, interrupt, record: true })?;
    let output = std::io::BufWriter::new(output);
    crate::workload::write(output, &ops).map_err(Failure::file("write", file))?;
    let written = format!("recorded {} operations in {}\n", ops.len(), file.display());
    crate::report::print(&written);
    Ok(outcome)
}

/// Everything a run is given.
struct Session<'a> {
    engine: &'a EngineSettings,
    load: &'a LoadSettings,
    quiet: bool,
    interrupt: &'a Interrupt,
    record: bool,
}

/// Picks the code for the payload and the grip, so that the hot loop has no branch for either.
fn choose(session: &Session<'_>) -> Result<(Outcome, Vec<Op>), Failure> {
    match (session.load.payload, session.load.handles) {
        (PayloadChoice::Typed, false) => drive::<Typed, Key<_>>(session),
        (PayloadChoice::Typed, true) => drive::<Typed, Timeout<_>>(session),
        (PayloadChoice::Closure, false) => drive::<Closure, Key<_>>(session),
        (PayloadChoice::Closure, true) => drive::<Closure, Timeout<_>>(session),
    }
}

fn drive<L: Load, G: Grip<L::Payload>>(
    session: &Session<'_>,
) -> Result<(Outcome, Vec<Op>), Failure> {
    let Session { engine, load, .. } = *session;
    let resident_before = machine::resident_bytes();
    let origin = Instant::now();
    // Timers whose cancel came too late wait for their handler in slots beyond the two groups.
    let slots = load.in_flight.saturating_add(load.max_left(engine)).saturating_add(SPARE_SLOTS);
    let book = Book::open(BookClock::Real(origin), load.producers, slots, engine.shards)
        .map(Arc::new)
        .map_err(Failure::Options)?;
    let timer = L::build(engine.builder(), &book).map_err(|e| Failure::Options(e.to_string()))?;

    let live: Vec<Arc<Live>> = (0..load.producers).map(|_| Arc::default()).collect();
    let halt = Interrupt::default();
    let mut threads = Vec::with_capacity(load.producers);
    let usage = Usage::now();
    for (number, live) in live.iter().enumerate() {
        let link = Arc::new(Link::new(&book));
        let lane = Lane::new(&book, number);
        let live = Arc::clone(live);
        let producer = Producer::<L, G>::new(timer.clone(), lane, link, live, session, number);
        let until = halt.clone();
        let thread = std::thread::Builder::new()
            .name(format!("producer-{number}"))
            .spawn(move || producer.run(&until));
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                halt.raise();
                return Err(Failure::System(format!("cannot start producer {number}: {error}")));
            }
        }
    }

    let length = u64::try_from(load.duration.as_millis()).unwrap_or(u64::MAX);
    let mut progress = Progress::new(length, session.quiet);
    let mut monitor = Monitor::new(&book, live, resident_before, load.duration);
    let interrupted = monitor.watch(session.interrupt, &mut progress);
    let cost = Usage::now().since(&usage);

    let watched = finish::Watched { monitor, cost, interrupted };
    finish::finish::<L, G>(session, &book, &timer, threads, &halt, watched, &mut progress)
}

/// Slots beyond those the settings speak of.
const SPARE_SLOTS: usize = 1024;
