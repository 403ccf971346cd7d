//! `shared-lines`: how often a timer's life meets a cache line that another thread writes.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin shared-lines
//! ```
//!
//! A line that one thread writes and others use does not scale: it travels from core to core each time. Two
//! cores show little of that; counting shows it on any machine. Two threads of one engine keep timers in flight, one
//! after the other, under a tool that tells each address they use (valgrind's lackey). A line is shared if both have
//! used and at least one has written it, whether they mean the same word or their words only lie beside each other.
//! Nobody turns the engine meanwhile, and its clock stands: what an owner costs its producers is not in this, nor the
//! machine's clock, whose calibration all threads share.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use tickwheel::{Builder, Drive, EventLoopTimer, Expired, ManualClock, Settings, Timer};
use tickwheel_benches::process::{Failure, arguments, find, under_valgrind};

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
/// The watched program's word for the address of [`PHASE`].
const PHASE_IS_AT: &str = "the phase is at ";

/// The ways in which a timer is scheduled and cancelled.
const WAYS: [(&str, fn()); 6] = [
    // Typed payloads and plain keys.
    ("keys", || keys(builder())),
    // Typed payloads and owned handles.
    ("handles", || {
        let timer = typed(builder());
        in_turn(|turn| {
            turn.pairs(
                || timer.schedule_handle(DELAY, 17),
                |it| it.cancel().is_won(),
            )
        });
    }),
    // Closures and owned handles, as on the README's first page.
    ("first-page", || {
        let timer = builder().build().expect("the settings are valid");
        let schedule = || timer.run_after_handle(DELAY, || _ = black_box(17));
        in_turn(|turn| turn.pairs(schedule, |it| it.cancel().is_won()));
    }),
    // Remotes of an event loop's timer.
    ("remote", || {
        let settings = Settings::new().clock(ManualClock::new());
        let owner: EventLoopTimer<u64> =
            EventLoopTimer::with_waker(settings, || ()).expect("the settings are valid");
        let remote = owner.remote();
        in_turn(|turn| {
            turn.pairs(
                || remote.schedule(DELAY, 17),
                |it| remote.cancel(it).is_won(),
            )
        });
    }),
    // A future that sleeps: made, polled once, dropped.
    ("sleep", || {
        let timer = builder().build().expect("the settings are valid");
        let schedule = || {
            let mut sleep = timer.sleep(DELAY);
            let poll = sleep.poll_sleep(&mut Context::from_waker(Waker::noop()));
            if poll.is_pending() {
                Ok(sleep)
            } else {
                Err(poll)
            }
        };
        in_turn(|turn| turn.pairs(schedule, |it| !it.is_elapsed()));
    }),
    // As `keys`, with a bound on all pending timers, whose permits are one word of the engine.
    (CONTROL, || keys(builder().max_pending(1_000_000))),
];

/// The way that is known to share a line, and shows that this would be found.
const CONTROL: &str = "max-pending";

/// Written when one of the threads begins with what is looked at, and when it is done.
static PHASE: AtomicU64 = AtomicU64::new(0);

/// One thread's loads and stores of each cache line.
type Lines = HashMap<u64, (u32, u32)>;

fn main() -> Result<(), Failure> {
    if let ["--child", name] = arguments()[..] {
        // In one piece, between two lines of the trace.
        let line = format!("\n{PHASE_IS_AT}{}\n", PHASE.as_ptr().addr());
        eprint!("{line}");
        find(&WAYS, name)?();
        return Ok(());
    }
    let mut judged = Vec::new();
    println!("cache lines that one of two threads writes and the other one uses, per pair");
    println!("{:14} {:>8} {:>8} {:>8}", "way", "lines", "writes", "reads");
    for (name, _) in WAYS {
        let [one, other] = watch(name)?;
        let shared = |(line, one): (&u64, &(u32, u32))| {
            let other = other.get(line)?;
            let (loads, stores) = (one.0 + other.0, one.1 + other.1);
            (stores > 0).then_some((loads, stores))
        };
        let shared: Vec<_> = one.iter().filter_map(shared).collect();
        let per_pair = |uses: u32| f64::from(uses) / (2 * PAIRS) as f64;
        let reads = per_pair(shared.iter().map(|line| line.0).sum());
        let writes = per_pair(shared.iter().map(|line| line.1).sum());
        println!("{name:14} {:8} {writes:8.3} {reads:8.3}", shared.len());
        let is_shared = writes + reads > ALLOWED;
        if name != CONTROL && is_shared {
            judged.push(name);
        } else if name == CONTROL && !is_shared {
            return Err("the line that is shared near the limit was not found".into());
        }
    }
    if judged.is_empty() {
        return Ok(());
    }
    let ways = judged.join(", ");
    Err(format!("more than {ALLOWED} uses of a line that another thread writes: {ways}").into())
}

/// Returns what each of the two threads has done while it was looked at.
fn watch(name: &str) -> Result<[Lines; 2], Failure> {
    let options = ["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"];
    let mut child = under_valgrind(&options, &["--child", name])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind: {error}; is it installed?"))?;
    let trace = BufReader::new(child.stderr.take().ok_or("it is piped")?);
    let lines = follow(trace)?;
    let status = child.wait()?;
    if !status.success() || lines.iter().any(HashMap::is_empty) {
        return Err(format!("{name} failed under valgrind: {status}").into());
    }
    Ok(lines)
}

/// Reads a trace: " L 04222cac,8" loads so many bytes there, " S " stores, " M " does both.
fn follow(trace: impl BufRead) -> Result<[Lines; 2], Failure> {
    let mut phase_is_at = None;
    let mut threads = [Lines::new(), Lines::new()];
    // Which of the two is at it, and whose turn is next.
    let (mut at, mut next) = (None, 0);
    for line in trace.lines() {
        let line = line?;
        if let Some(address) = line.strip_prefix(PHASE_IS_AT) {
            phase_is_at = address.parse().ok();
        }
        let Some((what @ ("L" | "S" | "M"), place)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let address = place
            .split(',')
            .next()
            .map(|hex| u64::from_str_radix(hex, 16));
        let Some(Ok(address)) = address else { continue };
        if what != "L" && Some(address) == phase_is_at {
            at = if at.is_none() { Some(next) } else { None };
            next += usize::from(at.is_none());
        } else if let Some(lines) = at.and_then(|at: usize| threads.get_mut(at)) {
            let (loads, stores) = lines.entry(address / LINE).or_default();
            *loads += u32::from(what != "S");
            *stores += u32::from(what != "L");
        }
    }
    Ok(threads)
}

/// An engine whose clock stands, as time goes by much faster here than the work.
fn builder() -> Builder {
    Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(ManualClock::new())
}

fn typed(builder: Builder) -> Timer<u64> {
    builder
        .build_with(|_: Expired<u64>| ())
        .expect("the settings are valid")
}

fn keys(builder: Builder) {
    let timer = typed(builder);
    in_turn(|turn| turn.pairs(|| timer.schedule(DELAY, 17), |it| timer.cancel(it).is_won()));
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

/// One of the two threads. The trace does not tell them apart, so the one that waits only reads `step`.
struct Turn<'a> {
    number: usize,
    /// How many steps are done.
    step: &'a AtomicUsize,
}

impl Turn<'_> {
    fn pairs<N, E: Debug>(
        &self,
        schedule: impl Fn() -> Result<N, E>,
        mut cancel: impl FnMut(N) -> bool,
    ) {
        let mut in_flight: VecDeque<N> = VecDeque::with_capacity(IN_FLIGHT + 1);
        let mut pairs = |times| {
            for _ in 0..times {
                in_flight.push_back(schedule().expect("there is room"));
                if in_flight.len() > IN_FLIGHT {
                    assert!(
                        in_flight.pop_front().is_some_and(&mut cancel),
                        "it is pending"
                    );
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
