//! A run in which everything comes and goes: threads that use an engine and end, engines that are built and stopped,
//! loops that change threads.
//!
//! * `book` - each timer carries an entry, which sees how it ends
//! * `visitors`, `engines`, `loops` - what comes and goes, a thread each

mod book;
mod engines;
mod loops;
mod visitors;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use self::book::Book;
use crate::failure::Failure;
use crate::findings::{Breach, Findings};
use crate::interrupt::{Interrupt, RaisedAtEnd};
use crate::measure::{LiveCount, Meter};
use crate::options::ChurnOptions;
use crate::report::model::{Figure, Phase, Report, Unit, Verdict};

/// How often the run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long threads and files of engines that have ended may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// What has come and gone.
#[derive(Default)]
struct Gone {
    threads: LiveCount,
    engines: LiveCount,
    /// Loops that another thread went on with.
    moves: LiveCount,
}

/// What a part of the run works with.
struct Part {
    book: Arc<Book>,
    gone: Arc<Gone>,
    end: Interrupt,
}

/// Runs for the given time, and judges the books.
pub(crate) fn run(options: &ChurnOptions, interrupt: &Interrupt) -> Result<Report, Failure> {
    let (book, gone) = (Arc::<Book>::default(), Arc::<Gone>::default());
    let before = held();
    let mut meter = Meter::new(options.duration);
    meter.begin();
    let mut parts = Vec::new();
    let end = Interrupt::default();
    // Also where one of them cannot be started.
    let over = RaisedAtEnd(&end);
    for (name, body) in [
        ("visitors", visitors::run as fn(&Part)),
        ("engines", engines::run),
        ("loops", loops::run),
    ] {
        let part = Part {
            book: Arc::clone(&book),
            gone: Arc::clone(&gone),
            end: end.clone(),
        };
        let started = thread::Builder::new()
            .name(name.into())
            .spawn(move || body(&part));
        parts.push(started.map_err(|error| Failure::System(format!("no thread: {error}")))?);
    }
    while meter.elapsed_s() < options.duration.as_secs_f64() && !interrupt.is_raised() {
        thread::sleep(LOOK_EVERY);
        let at = meter.elapsed_s();
        if meter.is_due(at) {
            meter.take(at, book.sample());
        }
    }
    drop(over);
    let mut findings = Findings::default();
    for part in parts {
        let panicked = u64::from(part.join().is_err());
        findings.compare("parts of the run that panicked", panicked, 0);
    }
    meter.stop(meter.elapsed_s(), book.sample());
    compare_held(&mut findings, before);
    Ok(Report {
        kind: "churn",
        interrupted: interrupt.is_raised(),
        phases: vec![phase(&book, &gone, &meter, findings)],
        ..Report::default()
    })
}

/// Returns how many threads and open files the process has, where the system says so.
fn held() -> [u64; 2] {
    ["task", "fd"].map(|what| {
        let entries = std::fs::read_dir(format!("/proc/self/{what}"));
        entries.map_or(0, |entries| entries.count() as u64)
    })
}

/// Compares threads and open files with those before the run. Threads of an engine end after its stop, by themselves.
fn compare_held(findings: &mut Findings, before: [u64; 2]) {
    let begun = Instant::now();
    while held() != before && begun.elapsed() < PATIENCE {
        thread::sleep(LOOK_EVERY);
    }
    for ((what, now), then) in ["threads", "open files"].iter().zip(held()).zip(before) {
        findings.compare(&format!("{what} at the end"), now, then);
    }
}

fn phase(book: &Book, gone: &Gone, meter: &Meter, mut findings: Findings) -> Phase {
    let (begun, counts) = book.balance(&mut findings);
    let [fired, cancelled, returned] = counts;
    let count =
        |key, label, count: &LiveCount| Figure::new(key, label, Unit::Count, count.get() as f64);
    let mut figures = vec![
        count("threads", "threads that came and went", &gone.threads),
        count("engines", "engines built and ended", &gone.engines),
        count("moves", "loops that changed threads", &gone.moves),
    ];
    figures.extend(meter.figures());
    Phase {
        name: "churn",
        settings: Vec::new(),
        seconds: meter.seconds,
        verdict: Verdict {
            began: begun,
            balance: format!(
                "accepted {begun} = fired {fired} + cancelled {cancelled} + returned {returned}"
            ),
            counts: vec![
                ("accepted", begun),
                ("fired", fired),
                ("cancelled", cancelled),
                ("returned", returned),
            ],
            breaches: findings.counts(&[
                Breach::Early,
                Breach::Twice,
                Breach::Lost,
                Breach::Mismatch,
            ]),
            findings: findings.lines(),
        },
        figures,
        distributions: Vec::new(),
        timelines: vec![meter.memory()],
        tables: Vec::new(),
    }
}
