//! Measures timers that fire in an asynchronous server: CPU, lateness, switches between threads and memory.
//!
//! Workloads on a runtime of tokio: connections that send a ping once per period and have an idle timeout that each ping
//! pushes out; sleeps that all fire; tasks that sleep again and again; and the first sleep of a process. Each measurement
//! runs in a process of its own. The ways to keep time take turns in random order, until the ratios of the CPU have narrow
//! intervals or the limit of rounds is reached.
//!
//! ```text
//! cargo run --release -p tickwheel-benches --bin idle-connections -- [--rounds 12] [--only 0] [--busy]
//! ```
//!
//! With `RUSTFLAGS="--cfg tokio_unstable"` there is a row of tokio's alternative timer, with `--features kestrel` one of
//! kestrel-timer.

use clap::{Parser, ValueEnum};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel_benches::goals::number;
use tickwheel_benches::machine;
use tickwheel_benches::measure::{Metrics, Sorted, Usage, median, parse, resident_bytes};
use tickwheel_benches::process::{Failure, name, output, this_program};
use tickwheel_benches::ratio::{Pair, Ratio, Rounds, pair_up};
use tokio::runtime::{Builder, Runtime};

#[derive(Parser)]
struct Options {
    /// Measurements of each kind at most; the tables show medians and intervals of 95 %.
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Runs one workload only, by its number from 0 on.
    #[arg(long)]
    only: Option<usize>,
    /// Runs beside a busy loop per core.
    #[arg(long)]
    busy: bool,
    /// Makes one measurement in this process: the way, and the workload's number.
    #[arg(long, hide = true, requires = "workload")]
    way: Option<Way>,
    #[arg(long, hide = true)]
    workload: Option<usize>,
}

/// A way to keep time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// tokio's own timer.
    Tokio,
    /// tokio's alternative timer, which `RUSTFLAGS="--cfg tokio_unstable"` adds.
    #[cfg(tokio_unstable)]
    TokioAlternative,
    /// `tickwheel_util::time` in the place of `tokio::time`.
    Time,
    /// The same; the pings may be late by a thousandth of their period.
    TimeWithSlack,
    /// tickwheel's shared engine with its workers.
    Workers,
    /// kestrel-timer with ticks of 1 ms, which the feature `kestrel` adds.
    #[cfg(feature = "kestrel")]
    Kestrel,
}

/// Runs tasks that have a period of so many seconds or all end within so many milliseconds.
type Work = fn(&Runtime, Way, u64, u64) -> Metrics;

static EVENTS: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU64 = AtomicU64::new(0);
/// The lateness of each event in microseconds.
static LATE: Mutex<Vec<i64>> = Mutex::new(Vec::new());
/// Every such event is written down.
static SAMPLED: AtomicU64 = AtomicU64::new(1);

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let workloads: [(Work, u64, &str, u64, &str); 7] = [
        (
            connections,
            200_000,
            "idle connections, a ping each",
            10,
            "s",
        ),
        (connections, 20_000, "idle connections, a ping each", 3, "s"),
        (sleeps, 100_000, "sleeps that end over", 2000, "ms"),
        (sleeps, 20_000, "sleeps that end over", 3000, "ms"),
        (sleeps, 40_000, "sleeps that end over", 800, "ms"),
        (
            again,
            10_000,
            "tasks that sleep again and again, each time for",
            15,
            "ms",
        ),
        (first, 1, "sleep, the first of its process, of", 5, "ms"),
    ];
    if let (Some(way), Some(workload)) = (options.way, options.workload) {
        let (work, tasks, _, length, _) = workloads[workload];
        let runtime = runtime(way);
        for (name, value) in work(&runtime, way, tasks, length) {
            println!("{name}\t{value}");
        }
        runtime.shutdown_background();
        return Ok(());
    }
    println!("{}", machine::head());
    if options.busy {
        for _ in 0..std::thread::available_parallelism()?.get() {
            std::thread::spawn(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
        }
    }
    for (workload, (_, tasks, does, length, unit)) in workloads.into_iter().enumerate() {
        if options.only.is_some_and(|only| only != workload) {
            continue;
        }
        println!("\n{tasks} {does} {length} {unit}\n");
        let ways = Way::value_variants();
        let slice = |way: usize| {
            let (way, workload) = (name(&ways[way]), workload.to_string());
            let mut child = this_program(&["--way", &way, "--workload", &workload]);
            Ok(parse(&output(&mut child)?.stdout))
        };
        let beside_tokio = |all: &[Vec<Vec<(String, f64)>>]| -> Vec<Vec<Pair>> {
            let cpu = |way: usize| pair_up(all, |round| (round[way][0].1, round[0][0].1));
            (1..ways.len()).map(cpu).collect()
        };
        let all = Rounds::at_most(options.rounds).measure(ways.len(), slice, beside_tokio)?;
        let figures: Vec<&str> = all[0][0].iter().map(|figure| figure.0.as_str()).collect();
        println!(
            "| rounds: {} | {} | CPU beside tokio's, 95 % |\n|---|{}--:|",
            all.len(),
            figures.join(" | "),
            "--:|".repeat(figures.len())
        );
        let ratios = beside_tokio(&all);
        for (at, way) in ways.iter().enumerate() {
            let cells = (0..figures.len()).map(|figure| {
                let values: Vec<f64> = all.iter().map(|round| round[at][figure].1).collect();
                let sum = values.iter().sum();
                // No round hides the early events of another one.
                number(if figures[figure] == "early" {
                    sum
                } else {
                    median(values).unwrap_or(sum)
                })
            });
            let cells = cells.collect::<Vec<_>>().join(" | ");
            let ratio = at.checked_sub(1).map(|at| Ratio::cell(&ratios[at]));
            println!(
                "| {} | {cells} | {} |",
                name(way),
                ratio.unwrap_or_default()
            );
        }
    }
    println!("\nload average {} after", machine::load());
    Ok(())
}

fn runtime(way: Way) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_io();
    match way {
        Way::Tokio | Way::Time | Way::TimeWithSlack => _ = builder.enable_time(),
        #[cfg(tokio_unstable)]
        Way::TokioAlternative => _ = builder.enable_time().enable_alt_timer(),
        #[cfg(feature = "kestrel")]
        Way::Kestrel => _ = builder.enable_time(),
        Way::Workers => {}
    }
    builder.build().expect("a runtime")
}

fn connections(runtime: &Runtime, way: Way, tasks: u64, ping: u64) -> Metrics {
    let before = resident_bytes();
    let period = Duration::from_secs(ping);
    for task in 0..tasks {
        // The golden ratio spreads them evenly.
        let first = period.mul_f64((task as f64 * 0.618_033_988).fract());
        match way {
            Way::Workers => drop(runtime.spawn(connection(first, period))),
            Way::Time => drop(runtime.spawn(connection_of_time(first, period, false))),
            Way::TimeWithSlack => drop(runtime.spawn(connection_of_time(first, period, true))),
            #[cfg(feature = "kestrel")]
            Way::Kestrel => drop(runtime.spawn(kestrel::connection(first, period))),
            _ => drop(runtime.spawn(connection_of_tokio(first, period))),
        }
    }
    // Until each has sent its first ping.
    std::thread::sleep(period + Duration::from_millis(1500));
    let bytes = (resident_bytes() - before) / tasks as f64;
    SAMPLED.store((tasks / 2000).max(1), Ordering::Relaxed);
    over(bytes, || std::thread::sleep(Duration::from_secs(6)))
}

async fn connection(first: Duration, period: Duration) {
    let start = Instant::now() + first;
    let rate = tickwheel::Period::fixed_rate(period, tickwheel::MissedTicks::Skip);
    let mut beat = tickwheel::interval_at(start, rate);
    let mut quiet = tickwheel::sleep(3 * period);
    let mut due = start;
    loop {
        let idle = poll_fn(|cx| {
            if beat.poll_tick(cx).is_ready() {
                return Poll::Ready(false);
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

async fn connection_of_time(first: Duration, period: Duration, slack: bool) {
    use tickwheel_util::time;

    let mut due = Instant::now() + first;
    let mut beat = time::interval_at(due.into(), period);
    if slack {
        beat.set_slack(period / 1000);
    }
    let mut quiet = pin!(time::sleep(3 * period));
    loop {
        let idle = poll_fn(|cx| {
            if beat.poll_tick(cx).is_ready() {
                return Poll::Ready(false);
            }
            quiet.as_mut().poll(cx).map(|()| true)
        });
        if idle.await {
            return;
        }
        record(due);
        due += period;
        quiet.as_mut().reset(time::Instant::now() + 3 * period);
    }
}

async fn connection_of_tokio(first: Duration, period: Duration) {
    let mut due = Instant::now() + first;
    let mut beat = tokio::time::interval_at(due.into(), period);
    let mut quiet = pin!(tokio::time::sleep(3 * period));
    loop {
        let idle = poll_fn(|cx| {
            if beat.poll_tick(cx).is_ready() {
                return Poll::Ready(false);
            }
            quiet.as_mut().poll(cx).map(|()| true)
        });
        if idle.await {
            return;
        }
        record(due);
        due += period;
        quiet
            .as_mut()
            .reset(tokio::time::Instant::now() + 3 * period);
    }
}

#[cfg(feature = "kestrel")]
mod kestrel {
    use kestrel_timer::config::{BatchConfig, WheelConfig};
    use kestrel_timer::timer::handle::TimerHandle;
    use kestrel_timer::{CompletionReceiver, TimerTask, TimerWheel};
    use std::future::Future;
    use std::pin::pin;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// Schedules a timer; returns what cancels it, and waits for it.
    fn start(delay: Duration) -> (TimerHandle, impl Future<Output = ()>) {
        static WHEEL: OnceLock<TimerWheel> = OnceLock::new();
        let wheel = WHEEL.get_or_init(|| {
            // The inner ring takes 16 s: what lies in the outer one is late by as much as its tick, a second.
            let config = WheelConfig::builder()
                .l0_tick_duration(Duration::from_millis(1))
                .l0_slot_count(16 * 1024);
            let config = config.build().expect("a tick that divides a second");
            let wheel = TimerWheel::new(config, BatchConfig::default());
            wheel.expect("the settings are in range")
        });
        let handle = wheel.allocate_handle();
        let timer = wheel.register(handle, TimerTask::new_oneshot(delay, None));
        let (receiver, timer) = timer.expect("the wheel is not shut down").into_parts();
        let ended = async move {
            match receiver {
                CompletionReceiver::OneShot(ended) => _ = ended.recv().await,
                CompletionReceiver::Periodic(_) => unreachable!("it fires once"),
            }
        };
        (timer, ended)
    }

    pub(super) async fn sleep(delay: Duration) {
        start(delay).1.await;
    }

    /// Each ping is a timer of its own, whose deadline is counted from the first one.
    pub(super) async fn connection(first: Duration, period: Duration) {
        let mut due = Instant::now() + first;
        let (idle, is_idle) = start(3 * period);
        let mut is_idle = pin!(is_idle);
        loop {
            tokio::select! {
                () = sleep(due.saturating_duration_since(Instant::now())) => {}
                () = &mut is_idle => return,
            }
            super::record(due);
            due += period;
            // It is pending: otherwise the connection is idle.
            _ = idle.postpone(3 * period, None);
        }
    }
}

fn sleeps(runtime: &Runtime, way: Way, tasks: u64, ms: u64) -> Metrics {
    let before = resident_bytes();
    // The first ends when all have been spawned.
    let start = Instant::now() + Duration::from_millis(if tasks > 50_000 { 500 } else { 150 });
    let span = Duration::from_millis(ms);
    SAMPLED.store((tasks / 20_000).max(1), Ordering::Relaxed);
    for task in 0..tasks {
        let due = start + span.mul_f64((task as f64 * 0.618_033_988).fract());
        runtime.spawn(async move {
            let left = due.saturating_duration_since(Instant::now());
            sleep(way, left).await;
            record(due);
        });
    }
    std::thread::sleep(start.saturating_duration_since(Instant::now()));
    let bytes = (resident_bytes() - before) / tasks as f64;
    over(bytes, || {
        while EVENTS.load(Ordering::Relaxed) < tasks {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

async fn sleep(way: Way, delay: Duration) {
    match way {
        Way::Workers => tickwheel::sleep(delay).await,
        Way::Time | Way::TimeWithSlack => tickwheel_util::time::sleep(delay).await,
        #[cfg(feature = "kestrel")]
        Way::Kestrel => kestrel::sleep(delay).await,
        _ => tokio::time::sleep(delay).await,
    }
}

fn again(runtime: &Runtime, way: Way, tasks: u64, ms: u64) -> Metrics {
    let before = resident_bytes();
    let delay = Duration::from_millis(ms);
    SAMPLED.store(101, Ordering::Relaxed);
    for _ in 0..tasks {
        runtime.spawn(async move {
            loop {
                let due = Instant::now() + delay;
                sleep(way, delay).await;
                record(due);
            }
        });
    }
    std::thread::sleep(Duration::from_secs(1));
    let bytes = (resident_bytes() - before) / tasks as f64;
    over(bytes, || std::thread::sleep(Duration::from_secs(3)))
}

/// The first sleep of the process, which makes all that later ones find.
fn first(runtime: &Runtime, way: Way, _: u64, ms: u64) -> Metrics {
    over(0.0, || {
        let delay = Duration::from_millis(ms);
        let due = Instant::now() + delay;
        runtime.block_on(sleep(way, delay));
        record(due);
    })
}

/// Measures what happens while `wait` waits.
fn over(bytes: f64, wait: impl FnOnce()) -> Metrics {
    LATE.lock().expect("no thread has panicked").clear();
    let (start, before) = (Instant::now(), Usage::now());
    let events = EVENTS.load(Ordering::Relaxed);
    wait();
    let events = (EVENTS.load(Ordering::Relaxed) - events) as f64;
    let after = Usage::now();
    let late = std::mem::take(&mut *LATE.lock().expect("no thread has panicked"));
    let late = Sorted::new(late);
    let switches = |usage: Usage| usage.sleeps + usage.preemptions;
    let switched = (switches(after) - switches(before)) as f64;
    vec![
        (
            "CPU us per event",
            (after.cpu - before.cpu).as_secs_f64() * 1e6 / events,
        ),
        ("late p50 ms", late.at(0.5) / 1e3),
        ("p99 ms", late.at(0.99) / 1e3),
        ("max ms", late.at(1.0) / 1e3),
        ("early", EARLY.load(Ordering::Relaxed) as f64),
        ("switches per s", switched / start.elapsed().as_secs_f64()),
        ("bytes per task", bytes),
    ]
}

/// Notes that something has happened that was due at `due`.
fn record(due: Instant) {
    let now = Instant::now();
    if now < due {
        EARLY.fetch_add(1, Ordering::Relaxed);
    }
    let event = EVENTS.fetch_add(1, Ordering::Relaxed);
    if event.is_multiple_of(SAMPLED.load(Ordering::Relaxed)) {
        let late = (now - due).as_micros() as i64;
        LATE.lock().expect("no thread has panicked").push(late);
    }
}
