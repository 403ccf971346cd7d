//! `instructions`: how many instructions the hot paths take, counted by callgrind, held against what is on record.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin instructions            # count, and compare with the record
//! cargo run --release -p tickwheel-benches --bin instructions -- --write # make this the record
//! ```
//!
//! Counts repeat to a fraction of a percent on any machine, however busy, which times do not: so a regression of
//! five percent can fail a build. Each operation is counted as the difference of two runs, of which one does twice
//! as many, so that neither start nor set-up count. The record is `benches/instructions.json`; it names the
//! compiler, because another one gives other counts.

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Drive, EventLoopTimer, Expired, ManualClock, Settings, Timer, TimerHandle, TimerTask,
    When,
};
use tickwheel_benches::local::{
    Churn, EventLoopPeer, FloorPeer, LONG, LocalPeer, LocalTimerPeer, life, rearm,
};
use tickwheel_benches::valgrind;

/// Operations of the shorter run.
const COUNT: usize = 100_000;
/// Timers that are pending meanwhile.
const RESIDENTS: usize = 1_000;
/// How many percent more than the record are too many.
const ALLOWED: f64 = 5.0;

/// Counts the instructions of the hot paths and compares them with the record.
#[derive(Parser)]
#[command(name = "instructions", version)]
struct Arguments {
    /// Makes the counts the record instead of comparing them.
    #[arg(long)]
    write: bool,
    /// Where the record is.
    #[arg(long, value_name = "FILE.json", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json"))]
    record: PathBuf,
    /// One operation, so many times, in this process.
    #[arg(long, hide = true, num_args = 2, value_names = ["OPERATION", "TIMES"])]
    child: Option<Vec<String>>,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// Cancel a random timer of a thousand and schedule another: `LocalTimer`.
    LocalPair,
    /// As `local-pair`, with a table of payloads and no timer: the benchmark's own share, and the least there is.
    FloorPair,
    /// Push a deadline out: `LocalTimer`.
    LocalRearm,
    /// Schedule and fire: `LocalTimer`.
    LocalLife,
    /// As `local-pair`: `EventLoopTimer`.
    LoopPair,
    /// As `local-rearm`: `EventLoopTimer`.
    LoopRearm,
    /// As `local-life`: `EventLoopTimer`.
    LoopLife,
    /// A remote of an event loop cancels the oldest of a thousand timers and schedules another; the loop polls once
    /// per thousand.
    RemotePair,
    /// The same through the engine, turned by hand.
    EnginePair,
    /// As `engine-pair`, with a deadline that is a `Time`.
    EngineTime,
    /// As `engine-pair`, with a deadline that is an `Instant`, on the machine's clock.
    EngineInstant,
    /// As `engine-pair`, with a delay that has a slack.
    EngineSlack,
    /// As `engine-pair`, through a submitter.
    EngineSubmitter,
    /// As `engine-pair`, fifty timers at a time.
    EngineBatch,
    /// As `engine-pair`, with owned handles.
    EngineHandles,
    /// As `engine-pair`, with closures of three words.
    EngineClosures,
    /// As `engine-pair`, with owned handles of closures: the calls of the README's first page.
    EngineFirstPage,
    /// Schedule through the engine and fire, a thousand per tick.
    EngineLife,
}

/// What is on record.
#[derive(Serialize, Deserialize)]
struct Record {
    compiler: String,
    /// Instructions per operation.
    instructions: BTreeMap<String, f64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(child) = arguments.child {
        let [operation, times] = &child[..] else { return ExitCode::FAILURE };
        let (Ok(operation), Ok(times)) = (Operation::from_str(operation, false), times.parse())
        else {
            return ExitCode::FAILURE;
        };
        perform(operation, times);
        return ExitCode::SUCCESS;
    }
    match compare(&arguments.record, arguments.write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn name(operation: Operation) -> String {
    operation.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn compare(path: &Path, write: bool) -> Result<(), String> {
    let compiler = env!("TICKWHEEL_RUSTC").to_owned();
    let record: Option<Record> = match std::fs::read_to_string(path) {
        Ok(text) => {
            Some(serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?)
        }
        Err(_) if write => None,
        Err(error) => return Err(format!("{}: {error}; --write makes one", path.display())),
    };
    let mut instructions = BTreeMap::new();
    let mut worse = Vec::new();
    println!("{:12} {:>8} {:>8} {:>8}", "operation", "now", "record", "change");
    for operation in Operation::value_variants() {
        let name = name(*operation);
        let count = count(&name)?;
        let recorded = record.as_ref().and_then(|record| record.instructions.get(&name)).copied();
        let change = recorded.map(|recorded| (count / recorded - 1.0) * 100.0);
        let shown =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        println!("{name:12} {count:8.1} {:>8} {:>7}%", shown(recorded), shown(change));
        if change.is_some_and(|change| change > ALLOWED) {
            worse.push(name.clone());
        }
        instructions.insert(name, (count * 10.0).round() / 10.0);
    }
    if write {
        let text = serde_json::to_string_pretty(&Record { compiler, instructions });
        let text = text.map_err(|error| error.to_string())? + "\n";
        return std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let recorded = record.map_or_else(String::new, |record| record.compiler);
    if recorded != compiler {
        println!("the record was made by {recorded}, this is {compiler}: shown, not judged");
        return Ok(());
    }
    if worse.is_empty() {
        return Ok(());
    }
    let names = worse.join(", ");
    Err(format!(
        "more than {ALLOWED} % above the record: {names}; if that is as it must be, --write a new one"
    ))
}

/// Instructions per operation.
fn count(operation: &str) -> Result<f64, String> {
    let once = collect(operation, COUNT)?;
    let twice = collect(operation, 2 * COUNT)?;
    Ok(twice.saturating_sub(once) as f64 / COUNT as f64)
}

/// Instructions of a whole run.
fn collect(operation: &str, times: usize) -> Result<u64, String> {
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let output = valgrind::this_program(&options, &["--child", operation, &times.to_string()])?
        .output()
        .map_err(|error| valgrind::not_started(&error))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{operation} failed under valgrind:\n{text}"));
    }
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let collected = collected.and_then(|number| number.trim().parse().ok());
    collected.ok_or_else(|| format!("callgrind did not say how much it collected:\n{text}"))
}

fn perform(operation: Operation, times: usize) {
    match operation {
        Operation::LocalPair => churn::<LocalTimerPeer>(times),
        Operation::FloorPair => churn::<FloorPeer>(times),
        Operation::LocalRearm => rearms::<LocalTimerPeer>(times),
        Operation::LocalLife => _ = black_box(life::<LocalTimerPeer>(times)),
        Operation::LoopPair => churn::<EventLoopPeer>(times),
        Operation::LoopRearm => rearms::<EventLoopPeer>(times),
        Operation::LoopLife => _ = black_box(life::<EventLoopPeer>(times)),
        Operation::RemotePair => remote_pairs(times),
        Operation::EnginePair => engine_pairs(times, ManualClock::new(), || DELAY),
        Operation::EngineTime => {
            engine_pairs(times, ManualClock::new(), || tickwheel::Time::ZERO + DELAY);
        }
        Operation::EngineInstant => {
            let deadline = Instant::now() + DELAY;
            engine_pairs(times, None::<ManualClock>, || deadline);
        }
        Operation::EngineSlack => {
            let when = || When::from(DELAY).with_slack(Duration::from_secs(1));
            engine_pairs(times, ManualClock::new(), when);
        }
        Operation::EngineSubmitter => engine_submitter(times),
        Operation::EngineBatch => engine_batches(times),
        Operation::EngineHandles => engine_handles(times),
        Operation::EngineClosures => engine_closures(times),
        Operation::EngineFirstPage => engine_first_page(times),
        Operation::EngineLife => engine_lives(times),
    }
}

fn churn<P: LocalPeer>(times: usize) {
    let mut churn = Churn::<P>::new(RESIDENTS, LONG, None);
    black_box(churn.run(times));
    churn.end();
}

fn rearms<P: LocalPeer>(times: usize) {
    let mut churn = Churn::<P>::new(RESIDENTS, LONG, None);
    black_box(rearm(&mut churn, times));
    churn.end();
}

const DELAY: Duration = Duration::from_secs(20);

/// Keeps a thousand timers in flight; `now_and_then` is called once per thousand pairs.
fn pairs<N>(
    times: usize,
    mut schedule: impl FnMut() -> N,
    mut cancel: impl FnMut(N),
    mut now_and_then: impl FnMut(),
) {
    let mut keys: VecDeque<N> = (0..RESIDENTS).map(|_| schedule()).collect();
    for pair in 0..times {
        if let Some(oldest) = keys.pop_front() {
            cancel(oldest);
        }
        keys.push_back(schedule());
        if pair % RESIDENTS == 0 {
            now_and_then();
        }
    }
}

fn remote_pairs(times: usize) {
    let mut timer: EventLoopTimer<u64> = Settings::new()
        .clock(ManualClock::new())
        .build_with_waker(|| ())
        .expect("the defaults are valid");
    let remote = timer.remote();
    pairs(
        times,
        || remote.schedule(DELAY, 17).expect("the loop lives"),
        |key| _ = black_box(remote.cancel(key)),
        || _ = timer.poll(tickwheel::Time::ZERO, |_| ()),
    );
}

/// An engine that is turned by hand, on the system's clock unless it is given another one.
fn by_hand(clock: impl Into<Option<ManualClock>>) -> Timer<u64> {
    let engine = Builder::new().shards(1).drive(Drive::Manual);
    let engine = match clock.into() {
        Some(clock) => engine.clock(clock),
        None => engine,
    };
    engine.build_with(|_: Expired<u64>| ()).expect("the settings are valid")
}

/// Without a clock: the machine's.
fn engine_pairs<W: Into<When>>(
    times: usize,
    clock: impl Into<Option<ManualClock>>,
    when: impl Fn() -> W,
) {
    let timer = by_hand(clock);
    pairs(
        times,
        || timer.schedule_key(when(), 17).expect("there is no limit"),
        |key| _ = black_box(timer.cancel(key)),
        || _ = timer.turn(),
    );
}

fn engine_submitter(times: usize) {
    let timer = by_hand(ManualClock::new());
    let submitter = timer.submitter();
    pairs(
        times,
        || submitter.schedule(DELAY, 17).expect("there is no limit"),
        |key| _ = black_box(submitter.cancel(key)),
        || _ = timer.turn(),
    );
}

fn engine_batches(times: usize) {
    const SIZE: usize = 50;
    let timer = by_hand(ManualClock::new());
    let batch =
        |timers| timer.schedule_batch((0..timers).map(|_| (DELAY, 17))).expect("there is no limit");
    let mut keys = VecDeque::from(batch(RESIDENTS));
    for pair in (0..times).step_by(SIZE) {
        for key in keys.drain(..SIZE) {
            _ = black_box(timer.cancel(key));
        }
        keys.extend(batch(SIZE));
        if pair % RESIDENTS == 0 {
            timer.turn().expect("it is turned by hand");
        }
    }
}

fn engine_handles(times: usize) {
    let timer = by_hand(ManualClock::new());
    pairs(
        times,
        || timer.schedule(DELAY, 17).expect("there is no limit"),
        |timeout: TimerHandle<u64>| _ = black_box(timeout.cancel()),
        || _ = timer.turn(),
    );
}

/// Captures three words.
fn closure() -> impl FnOnce() + Send {
    let captured = black_box([17_usize; 3]);
    move || _ = black_box(captured)
}

fn engine_closures(times: usize) {
    let engine = Builder::new().shards(1).drive(Drive::Manual).clock(ManualClock::new());
    let timer = engine.build().expect("the settings are valid");
    pairs(
        times,
        || timer.schedule_key(DELAY, TimerTask::new(closure())).expect("there is no limit"),
        |key| _ = black_box(timer.cancel(key)),
        || _ = timer.turn(),
    );
}

fn engine_first_page(times: usize) {
    let engine = Builder::new().shards(1).drive(Drive::Manual).clock(ManualClock::new());
    let timer = engine.build().expect("the settings are valid");
    pairs(
        times,
        || timer.run_after(DELAY, closure()).expect("there is no limit"),
        |timeout: TimerHandle<TimerTask>| _ = black_box(timeout.cancel()),
        || _ = timer.turn(),
    );
}

fn engine_lives(times: usize) {
    let clock = ManualClock::new();
    let engine = Builder::new().shards(1).drive(Drive::Manual).clock(clock.clone());
    let handler = |expired: Expired<u64>| _ = black_box(expired.payload);
    let timer = engine.build_with(handler).expect("the settings are valid");
    for number in 0..times as u64 {
        let delay = Duration::from_millis(1 + number % 100);
        timer.schedule_key(delay, number).expect("there is no limit");
        if number % 1_000 == 999 {
            clock.advance(Duration::from_millis(1));
            timer.turn().expect("it is turned by hand");
        }
    }
    clock.advance(Duration::from_millis(100));
    timer.turn().expect("it is turned by hand");
    assert_eq!(timer.pending(), 0, "every timer has fired");
}
