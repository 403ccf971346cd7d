//! Runs the phases of a load run one after the other, each with an engine and a ledger of its own.

use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::Instant;

use tickwheel::{Key, TimerHandle};

use super::finish::{PhaseEnd, Watched, finish};
use super::monitor::Monitor;
use super::payload::{Closure, Grip, Link, Load, Typed};
use super::producer::{Live, Producer};
use super::recording;
use super::session::Session;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::ledger::table::{Ledger, LedgerClock};
use crate::ledger::writer::Writer;
use crate::machine;
use crate::progress::Progress;
use crate::report::model::Report;
use crate::report::outputs::{Output, print};
use crate::settings::engine::EngineSettings;
use crate::settings::load::{LoadSettings, PayloadChoice};
use crate::usage::Usage;
use crate::workload;

/// Runs the load, judges it, and writes what the producers did if that is wanted.
pub(crate) fn run(
    engine: &EngineSettings,
    load: &LoadSettings,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let many = load.phases().len() > 1;
    if many && load.record.is_some() {
        let text = "--record writes one phase; give it one --rate, such as 500";
        return Err(Failure::Options(text.to_owned()));
    }
    // Before the run, so that a path that cannot be written does not cost one.
    let record = load.record.as_deref().map(Output::open).transpose()?;
    let mut settings = engine.rows();
    settings.extend(load.rows());
    let (interrupted, phases) = (false, Vec::new());
    let notes = machine::busy_note().into_iter().collect();
    let mut report = Report { kind: "load run", settings, interrupted, phases, notes };
    let mut ops = Vec::new();
    for phase in load.phases() {
        let end = choose(&Session { engine, load, phase, quiet, interrupt })?;
        let name = if many { format!("{}: ", phase.name) } else { String::new() };
        report.notes.extend(end.note.map(|note| format!("{name}{note}")));
        report.phases.push(end.phase);
        ops.extend(end.ops);
        if end.interrupted {
            report.interrupted = true;
            break;
        }
    }
    if let Some(output) = record {
        let mut text = Vec::new();
        let written = workload::write(&mut text, &recording::merge(ops));
        written.expect("writing to memory succeeds");
        let path = output.write(&text)?;
        print(&format!("recorded: {}\n", path.display()));
    }
    Ok(report)
}

/// Picks the code for the payload and the grip, so that the hot loop has no branch for either.
fn choose(session: &Session<'_>) -> Result<PhaseEnd, Failure> {
    match (session.load.payload, session.load.handles) {
        (PayloadChoice::Typed, false) => drive::<Typed, Key<_>>(session),
        (PayloadChoice::Typed, true) => drive::<Typed, TimerHandle<_>>(session),
        (PayloadChoice::Closure, false) => drive::<Closure, Key<_>>(session),
        (PayloadChoice::Closure, true) => drive::<Closure, TimerHandle<_>>(session),
    }
}

fn drive<L: Load, G: Grip<L::Payload>>(session: &Session<'_>) -> Result<PhaseEnd, Failure> {
    let Session { engine, load, phase, .. } = *session;
    let resident_before = machine::resident_bytes();
    let origin = Instant::now();
    // Timers whose cancel came too late wait for their handler in slots beyond the two groups.
    let slots = load.in_flight.saturating_add(load.max_left(engine)).saturating_add(SPARE_SLOTS);
    let clock = LedgerClock::Real(origin);
    let ledger = Ledger::open(clock, load.producers, slots, engine.shards, CURE).map(Arc::new)?;
    let timer = L::build(engine.builder(), &ledger)
        .map_err(|error| Failure::Options(engine.explain(&error)))?;

    let live: Vec<Arc<Live>> = (0..load.producers).map(|_| Arc::default()).collect();
    let producers = live.iter().enumerate().map(|(number, live)| {
        let (link, live) = (Arc::new(Link::new(&ledger)), Arc::clone(live));
        let writer = Writer::new(&ledger, number)?;
        Producer::<L, G>::new(timer.clone(), writer, link, live, session, number)
    });
    let producers = producers.collect::<Result<Vec<_>, TryReserveError>>();
    let producers = producers.map_err(Failure::memory("the timers of all producers", CURE))?;
    let halt = Interrupt::default();
    let mut threads = Vec::with_capacity(load.producers);
    let usage = Usage::now();
    for (number, producer) in producers.into_iter().enumerate() {
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

    let length = u64::try_from(phase.duration.as_millis()).unwrap_or(u64::MAX);
    let mut progress = Progress::new(length, session.quiet);
    let mut monitor = Monitor::new(&ledger, live, resident_before, phase.duration);
    let interrupted = monitor.watch(session.interrupt, &mut progress);
    let cost = Usage::now().since(&usage);
    let watched = Watched { monitor, cost, interrupted };
    finish::<L, G>(session, &ledger, &timer, threads, &halt, watched, &mut progress)
}

/// What to do where there is no memory for the timers.
const CURE: &str = "lower --in-flight or --producers";

/// Slots beyond those the settings speak of.
const SPARE_SLOTS: usize = 1024;
