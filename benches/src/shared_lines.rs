//! `shared-lines`: how often a timer's life meets a cache line that another thread writes.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin shared-lines
//! ```
//!
//! What does not scale is a line that one thread writes and others use: it travels from core to core each time. Two
//! cores show little of that; counting shows it on any machine. Two threads of one engine keep timers in flight, one
//! after the other, under a tool that tells each address they use (valgrind's lackey). A line is shared if both have
//! used and at least one has written it, whether they mean the same word or their words only lie beside each other.
//! Nobody turns the engine meanwhile, and its clock stands: what an owner costs its producers is not in this, nor the
//! machine's clock, whose calibration all threads share.

use clap::{Parser, ValueEnum};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tickwheel::{
    Builder, Drive, EventLoopTimer, Expired, ManualClock, Routing, Settings, Sleep, SleepError,
};
use tickwheel_benches::valgrind;

/// Pairs of a cancel and a schedule that are looked at, for each of the two threads.
const PAIRS: usize = 500;
/// Pairs before, which leave each thread with nodes, a block and a place of its own.
const WARM_UP: usize = 1_000;
/// Timers that a thread keeps in flight.
const IN_FLIGHT: usize = 100;
/// Uses of shared lines per pair that are allowed: what is done once per block or per magazine of nodes. With timers
/// dealt out to two shards, the few blocks that change hands in so short a run make 0.12.
const ALLOWED: f64 = 0.15;
const DELAY: Duration = Duration::from_secs(20);
/// Bytes of a cache line.
const LINE: u64 = 64;
/// How the program that is watched says where [`PHASE`] lies.
const PHASE_IS_AT: &str = "the phase is at ";

/// Counts the uses of cache lines that another thread writes.
#[derive(Parser)]
#[command(name = "shared-lines", version)]
struct Arguments {
    /// One way, in this process.
    #[arg(long, hide = true)]
    child: Option<Way>,
}

/// How a timer is scheduled and cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// Typed payloads and plain keys.
    Keys,
    /// Typed payloads and owned handles.
    Handles,
    /// Closures and owned handles, as on the README's first page.
    FirstPage,
    /// A submitter per thread.
    Submitter,
    /// Remotes of an event loop's timer.
    Remote,
    /// A future that sleeps: made, polled once, dropped.
    Sleep,
    /// As `keys`, where each thread deals its timers out to two shards.
    Spread,
    /// As `keys`, with a bound on all pending timers, whose permits are one word of the engine.
    MaxPending,
}

impl Way {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The last one is known to share a line, and shows that this would be found.
    const fn is_judged(self) -> bool {
        !matches!(self, Self::MaxPending)
    }
}

/// Written when one of the threads begins with what is looked at, and when it is done.
static PHASE: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    if let Some(way) = Arguments::parse().child {
        perform(way);
        return ExitCode::SUCCESS;
    }
    match count_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What one thread has done with each cache line.
type Lines = HashMap<u64, Accesses>;

#[derive(Clone, Copy, Default)]
struct Accesses {
    loads: u32,
    stores: u32,
}

fn count_all() -> Result<(), String> {
    let (mut judged, mut found_the_control) = (Vec::new(), true);
    println!("cache lines that one of two threads writes and the other one uses, per pair");
    println!("{:14} {:>8} {:>8} {:>8}", "way", "lines", "writes", "reads");
    for way in Way::value_variants() {
        let [one, other] = watch(*way)?;
        let shared = |line| {
            let (one, other) = (one.get(line)?, other.get(line)?);
            (one.stores + other.stores > 0).then_some((one, other))
        };
        let shared: Vec<_> = one.keys().filter_map(shared).collect();
        let sum = |of: fn(&Accesses) -> u32| {
            let sum: u32 = shared.iter().map(|(one, other)| of(one) + of(other)).sum();
            f64::from(sum) / (2 * PAIRS) as f64
        };
        let (writes, reads) = (sum(|it| it.stores), sum(|it| it.loads));
        println!("{:14} {:8} {writes:8.3} {reads:8.3}", way.name(), shared.len());
        let is_shared = writes + reads > ALLOWED;
        if !way.is_judged() {
            found_the_control &= is_shared;
        } else if is_shared {
            judged.push(way.name());
        }
    }
    if !found_the_control {
        return Err("the line that is shared near the limit was not found".to_owned());
    }
    if judged.is_empty() {
        return Ok(());
    }
    let ways = judged.join(", ");
    Err(format!("more than {ALLOWED} uses of a line that another thread writes: {ways}"))
}

/// What each of the two threads has done while it was looked at.
fn watch(way: Way) -> Result<[Lines; 2], String> {
    let options = ["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"];
    let mut child = valgrind::this_program(&options, &["--child", &way.name()])?
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| valgrind::not_started(&error))?;
    let trace = child.stderr.take().map(BufReader::new);
    let lines = trace.map(follow).transpose()?.unwrap_or_default();
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() || lines.iter().any(HashMap::is_empty) {
        return Err(format!("{} failed under valgrind: {status}", way.name()));
    }
    Ok(lines)
}

/// Reads a trace: " L 04222cac,8" loads so many bytes there, " S " stores, " M " does both.
fn follow(trace: impl BufRead) -> Result<[Lines; 2], String> {
    let mut phase_is_at = None;
    let mut threads = [Lines::new(), Lines::new()];
    // Which of the two is at it, and whose turn is next.
    let (mut at, mut next) = (None, 0);
    for line in trace.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(address) = line.strip_prefix(PHASE_IS_AT) {
            phase_is_at = address.parse().ok();
        }
        let mut halves = line.trim_start().splitn(2, ' ');
        let (Some(what @ ("L" | "S" | "M")), Some(place)) = (halves.next(), halves.next()) else {
            continue;
        };
        let address = place.split(',').next().map(|hex| u64::from_str_radix(hex, 16));
        let Some(Ok(address)) = address else { continue };
        if what != "L" && Some(address) == phase_is_at {
            at = if at.is_none() { Some(next) } else { None };
            next += usize::from(at.is_none());
        } else if let Some(lines) = at.and_then(|at: usize| threads.get_mut(at)) {
            let line = lines.entry(address / LINE).or_default();
            line.loads += u32::from(what != "S");
            line.stores += u32::from(what != "L");
        }
    }
    Ok(threads)
}

fn perform(way: Way) {
    // In one piece, between two lines of the trace.
    let line = format!("\n{PHASE_IS_AT}{}\n", PHASE.as_ptr().addr());
    eprint!("{line}");
    // A clock that stands, as time goes by much faster here than the work.
    let builder = Builder::new().shards(1).drive(Drive::Manual).clock(ManualClock::new());
    let builder = match way {
        Way::Spread => builder.shards(2).routing(Routing::Spread),
        Way::MaxPending => builder.max_pending(1_000_000),
        _ => builder,
    };
    match way {
        Way::FirstPage => {
            let timer = builder.build().expect("the settings are valid");
            in_turn(|turn| {
                turn.pairs(|| timer.run_after(DELAY, || _ = black_box(17)), |it| it.cancel().won());
            });
        }
        Way::Sleep => {
            let timer = builder.build().expect("the settings are valid");
            in_turn(|turn| turn.pairs(|| polled(timer.sleep(DELAY)), |it| !it.is_elapsed()));
        }
        Way::Remote => {
            let builder = Settings::new().clock(ManualClock::new());
            let owner: EventLoopTimer<u64> =
                builder.build_with_waker(|| ()).expect("the settings are valid");
            let remote = owner.remote();
            in_turn(|turn| turn.pairs(|| remote.schedule(DELAY, 17), |it| remote.cancel(it).won()));
        }
        _ => {
            let timer = builder.build_with(|_: Expired<u64>| ()).expect("the settings are valid");
            in_turn(|turn| match way {
                Way::Handles => turn.pairs(|| timer.schedule(DELAY, 17), |it| it.cancel().won()),
                Way::Submitter => {
                    let own = timer.submitter();
                    turn.pairs(|| own.schedule(DELAY, 17), |it| own.cancel(it).won());
                }
                _ => turn.pairs(|| timer.schedule_key(DELAY, 17), |it| timer.cancel(it).won()),
            });
        }
    }
}

fn polled(mut sleep: Sleep<SleepError>) -> Result<Sleep<SleepError>, SleepError> {
    let poll = sleep.poll_sleep(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(Err(error)) = poll { Err(error) } else { Ok(sleep) }
}

/// Two threads at the same work, step by step: each warms up, then each is looked at.
fn in_turn(work: impl Fn(&Turn<'_>) + Sync) {
    let step = AtomicUsize::new(0);
    let (step, work) = (&step, &work);
    thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || work(&Turn { number, step }));
        }
    });
}

/// One of the two threads.
struct Turn<'a> {
    number: usize,
    /// How many steps are done.
    step: &'a AtomicUsize,
}

impl Turn<'_> {
    fn pairs<N, E: fmt::Debug>(
        &self,
        mut schedule: impl FnMut() -> Result<N, E>,
        mut cancel: impl FnMut(N) -> bool,
    ) {
        let mut schedule = || schedule().expect("there is room");
        let mut in_flight: VecDeque<N> = VecDeque::with_capacity(IN_FLIGHT + 1);
        let mut pairs = |times| {
            for _ in 0..times {
                in_flight.push_back(schedule());
                if in_flight.len() > IN_FLIGHT {
                    assert!(in_flight.pop_front().is_some_and(&mut cancel), "it is pending");
                }
            }
        };
        self.step(0, || pairs(WARM_UP));
        self.step(2, || {
            // ORDERING: SeqCst here and below: a mark in a trace, and the threads' turns.
            PHASE.store(1, Ordering::SeqCst);
            pairs(PAIRS);
            PHASE.store(0, Ordering::SeqCst);
        });
        // Until then nobody else gets this thread's number.
        self.wait_for(4);
    }

    fn step(&self, first: usize, work: impl FnOnce()) {
        self.wait_for(first + self.number);
        work();
        self.step.fetch_add(1, Ordering::SeqCst);
    }

    fn wait_for(&self, step: usize) {
        while self.step.load(Ordering::SeqCst) < step {
            thread::yield_now();
        }
    }
}
