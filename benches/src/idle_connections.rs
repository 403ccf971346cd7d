//! What timers that fire cost in an asynchronous server: CPU, lateness, switches between threads and memory.
//!
//! Two workloads on a runtime of tokio: connections that send a ping once per period and have an idle timeout that each
//! ping pushes out; and sleeps that all fire. Each measurement runs in a process of its own, and the ways to keep time
//! take turns.
//!
//! ```text
//! cargo run --release -p tickwheel-benches --bin idle-connections -- [--rounds 3] [--quick]
//! ```

use clap::{Parser, ValueEnum};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Options {
    /// How often each measurement is made; the tables show medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A tenth of the connections and of the sleeps.
    #[arg(long)]
    quick: bool,
    /// Makes one measurement in this process.
    #[arg(long, hide = true, requires = "workload")]
    way: Option<Way>,
    #[arg(long, hide = true)]
    workload: Option<String>,
}

/// A way to keep time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// tokio's own timer.
    Tokio,
    /// tokio's alternative timer, which `RUSTFLAGS="--cfg tokio_unstable"` adds.
    #[cfg(tokio_unstable)]
    TokioAlternative,
    /// tickwheel's shared engine with its workers.
    Workers,
    /// tickwheel's shared engine, turned by the runtime.
    Driven,
}

/// Tasks, and seconds between the pings of one, or milliseconds between the first and the last end of a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Workload {
    Connections { tasks: u64, ping: u64 },
    Sleeps { tasks: u64, ms: u64 },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Figures {
    cpu_us: f64,
    p50_ms: f64,
    p99_ms: f64,
    early: u64,
    switches: f64,
    bytes: f64,
}

static EVENTS: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU64 = AtomicU64::new(0);
/// How late each event was, in microseconds.
static LATE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// Every such event is written down.
static SAMPLED: AtomicU64 = AtomicU64::new(1);

fn main() {
    let options = Options::parse();
    if let (Some(way), Some(workload)) = (options.way, &options.workload) {
        let workload = Workload::parse(workload).expect("written by this program");
        println!("{}", serde_json::to_string(&measure(way, workload)).expect("plain numbers"));
        return;
    }
    let part = if options.quick { 10 } else { 1 };
    let workloads = [
        Workload::Connections { tasks: 200_000 / part, ping: 10 },
        Workload::Connections { tasks: 20_000 / part, ping: 3 },
        Workload::Sleeps { tasks: 100_000 / part, ms: 2000 },
        Workload::Sleeps { tasks: 20_000 / part, ms: 3000 },
        Workload::Sleeps { tasks: 40_000 / part, ms: 800 },
    ];
    for workload in workloads {
        println!("\n{workload}\n");
        println!(
            "| | CPU us per event | late p50 ms | p99 ms | early | switches per s | bytes per task |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|");
        let ways = Way::value_variants();
        let mut all = vec![Vec::new(); ways.len()];
        for _ in 0..options.rounds {
            for (way, all) in ways.iter().zip(&mut all) {
                all.push(in_a_process(*way, workload));
            }
        }
        for (way, all) in ways.iter().zip(&all) {
            let median = |figure: fn(&Figures) -> f64| {
                let mut figures: Vec<f64> = all.iter().map(figure).collect();
                figures.sort_by(f64::total_cmp);
                figures[figures.len() / 2]
            };
            println!(
                "| {} | {:.2} | {:.2} | {:.2} | {} | {:.0} | {:.0} |",
                way.to_possible_value().expect("none is skipped").get_name(),
                median(|it| it.cpu_us),
                median(|it| it.p50_ms),
                median(|it| it.p99_ms),
                all.iter().map(|it| it.early).sum::<u64>(),
                median(|it| it.switches),
                median(|it| it.bytes),
            );
        }
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connections { tasks, ping } => {
                write!(f, "{tasks} idle connections, a ping each {ping} s")
            }
            Self::Sleeps { tasks, ms } => write!(f, "{tasks} sleeps that end over {ms} ms"),
        }
    }
}

impl Workload {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let (kind, tasks, length) = (parts.next()?, parts.next()?, parts.next()?);
        let (tasks, length) = (tasks.parse().ok()?, length.parse().ok()?);
        match kind {
            "connections" => Some(Self::Connections { tasks, ping: length }),
            "sleeps" => Some(Self::Sleeps { tasks, ms: length }),
            _ => None,
        }
    }

    fn to_argument(self) -> String {
        match self {
            Self::Connections { tasks, ping } => format!("connections,{tasks},{ping}"),
            Self::Sleeps { tasks, ms } => format!("sleeps,{tasks},{ms}"),
        }
    }
}

fn in_a_process(way: Way, workload: Workload) -> Figures {
    let program = std::env::current_exe().expect("this program's own path");
    let name = way.to_possible_value().expect("none is skipped").get_name().to_owned();
    let output = Command::new(program)
        .args(["--way", &name, "--workload", &workload.to_argument()])
        .output()
        .expect("a process for the measurement");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the figures of the measurement")
}

fn measure(way: Way, workload: Workload) -> Figures {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_io();
    match way {
        Way::Tokio => _ = builder.enable_time(),
        #[cfg(tokio_unstable)]
        Way::TokioAlternative => _ = builder.enable_time().enable_alt_timer(),
        Way::Workers | Way::Driven => {}
    }
    let runtime = builder.build().expect("a runtime");
    if way == Way::Driven {
        runtime.block_on(async {
            tickwheel_util::tokio::drive_shared().expect("shards that no one has yet");
        });
    }
    let figures = match workload {
        Workload::Connections { tasks, ping } => connections(&runtime, way, tasks, ping),
        Workload::Sleeps { tasks, ms } => sleeps(&runtime, way, tasks, ms),
    };
    runtime.shutdown_background();
    figures
}

fn connections(runtime: &tokio::runtime::Runtime, way: Way, tasks: u64, ping: u64) -> Figures {
    let before = resident();
    let period = Duration::from_secs(ping);
    for task in 0..tasks {
        // The golden ratio spreads them evenly.
        let first = period.mul_f64((task as f64 * 0.618_033_988).fract());
        match way {
            Way::Workers | Way::Driven => drop(runtime.spawn(connection(first, period))),
            _ => drop(runtime.spawn(connection_of_tokio(first, period))),
        }
    }
    // Until each has sent its first ping.
    std::thread::sleep(period + Duration::from_millis(1500));
    let bytes = resident().saturating_sub(before) as f64 / tasks as f64;
    SAMPLED.store((tasks / 2000).max(1), Ordering::Relaxed);
    let span = Duration::from_secs(6);
    Figures { bytes, ..over(|| std::thread::sleep(span)) }
}

async fn connection(first: Duration, period: Duration) {
    let start = Instant::now() + first;
    let rate = tickwheel::Period::fixed_rate(period, tickwheel::MissedTicks::Skip);
    let mut beat = tickwheel::interval_at(start, rate.expect("a period in range"));
    let mut quiet = tickwheel::sleep(3 * period);
    let mut due = start;
    loop {
        let idle = poll_fn(|cx| {
            if beat.poll_tick(cx).is_ready() {
                return std::task::Poll::Ready(false);
            }
            quiet.poll_sleep(cx).map(|_| true)
        });
        if idle.await {
            return;
        }
        record(due);
        due += period;
        quiet.reset(3 * period);
    }
}

async fn connection_of_tokio(first: Duration, period: Duration) {
    let mut due = Instant::now() + first;
    let mut beat = tokio::time::interval_at(due.into(), period);
    let mut quiet = pin!(tokio::time::sleep(3 * period));
    loop {
        let idle = poll_fn(|cx| {
            if beat.poll_tick(cx).is_ready() {
                return std::task::Poll::Ready(false);
            }
            quiet.as_mut().poll(cx).map(|()| true)
        });
        if idle.await {
            return;
        }
        record(due);
        due += period;
        quiet.as_mut().reset(tokio::time::Instant::now() + 3 * period);
    }
}

fn sleeps(runtime: &tokio::runtime::Runtime, way: Way, tasks: u64, ms: u64) -> Figures {
    let before = resident();
    // The first ends when all have been spawned.
    let start = Instant::now() + Duration::from_millis(if tasks > 50_000 { 500 } else { 150 });
    let span = Duration::from_millis(ms);
    SAMPLED.store((tasks / 20_000).max(1), Ordering::Relaxed);
    for task in 0..tasks {
        let due = start + span.mul_f64((task as f64 * 0.618_033_988).fract());
        runtime.spawn(async move {
            let left = due.saturating_duration_since(Instant::now());
            match way {
                Way::Workers | Way::Driven => tickwheel::sleep(left).await,
                _ => tokio::time::sleep(left).await,
            }
            record(due);
        });
    }
    std::thread::sleep(start.saturating_duration_since(Instant::now()));
    let bytes = resident().saturating_sub(before) as f64 / tasks as f64;
    let figures = over(|| {
        while EVENTS.load(Ordering::Relaxed) < tasks {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    Figures { bytes, ..figures }
}

/// Measures what happens while `wait` waits.
fn over(wait: impl FnOnce()) -> Figures {
    LATE.lock().expect("no thread has panicked").clear();
    let (start, usage) = (Instant::now(), usage());
    let events = EVENTS.load(Ordering::Relaxed);
    wait();
    let events = (EVENTS.load(Ordering::Relaxed) - events) as f64;
    let later = self::usage();
    let mut late = std::mem::take(&mut *LATE.lock().expect("no thread has panicked"));
    late.sort_unstable();
    let at = |part: f64| f64::from(late[((late.len() - 1) as f64 * part) as usize]) / 1e3;
    Figures {
        cpu_us: (cpu(&later) - cpu(&usage)) * 1e6 / events,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        early: EARLY.load(Ordering::Relaxed),
        switches: (switches(&later) - switches(&usage)) as f64 / start.elapsed().as_secs_f64(),
        bytes: 0.0,
    }
}

/// Notes that something has happened that was due at `due`.
fn record(due: Instant) {
    let now = Instant::now();
    if now < due {
        EARLY.fetch_add(1, Ordering::Relaxed);
    }
    let event = EVENTS.fetch_add(1, Ordering::Relaxed);
    if event.is_multiple_of(SAMPLED.load(Ordering::Relaxed)) {
        let late = u32::try_from((now - due).as_micros()).unwrap_or(u32::MAX);
        LATE.lock().expect("no thread has panicked").push(late);
    }
}

fn usage() -> Usage {
    getrusage(UsageWho::RUSAGE_SELF).expect("the system counts")
}

fn cpu(usage: &Usage) -> f64 {
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn switches(usage: &Usage) -> i64 {
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
