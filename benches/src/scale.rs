//! Measures how throughput grows with threads and shards, from one to one per core.
//!
//! `cross`: each thread keeps 1024 timers in flight, cancels the oldest and schedules another; there are as many shards.
//! Its CPU per pair shows what threads cost one another even where workers and producers share cores. `fire`: each
//! thread schedules half a million timers that are all due at once; each shard's worker fires its own.
//!
//! ```text
//! cargo run --release -p tickwheel-benches --bin scale -- [--rounds 3] [--threads 1,2,4] [--out FILE.svg]
//! ```

use clap::{Parser, ValueEnum};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired};
use tickwheel_benches::cross::cross_scaled;
use tickwheel_benches::figure::Scale;
use tickwheel_benches::goals::number;
use tickwheel_benches::machine;
use tickwheel_benches::measure::{Metrics, median, parse};
use tickwheel_benches::peer::Peer;
use tickwheel_benches::process::{Failure, name, output, this_program};
use tickwheel_benches::report::CHART_STYLE;

#[derive(Parser)]
struct Options {
    /// Measurements of each kind; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The numbers of threads, the first of which the others are compared with [default: powers of two, and the cores].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Draws the pairs per second into this file.
    #[arg(long, value_name = "FILE.svg")]
    out: Option<PathBuf>,
    /// Makes one measurement in this process.
    #[arg(long, hide = true, requires = "threads")]
    work: Option<Work>,
    /// Sizes that only test this program.
    #[arg(long, hide = true)]
    tiny: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    CrossKeys,
    CrossHandles,
    CrossLockedHeaps,
    CrossTokio,
    Fire,
}

/// Of one work: the medians by number of threads, one per metric.
struct Row {
    work: Work,
    metrics: Vec<Vec<(String, f64)>>,
}

impl Work {
    const fn title(self) -> &'static str {
        match self {
            Self::CrossKeys => "tickwheel Timer, keys",
            Self::CrossHandles => "tickwheel Timer, handles",
            Self::CrossLockedHeaps => "Mutex<4-ary heap> per shard",
            Self::CrossTokio => "tokio sleep",
            Self::Fire => "tickwheel Timer, fire",
        }
    }

    fn measure(self, threads: usize, scale: Scale) -> Metrics {
        let peer = match self {
            Self::CrossKeys => Peer::Timer,
            Self::CrossHandles => Peer::TimerHandles,
            Self::CrossLockedHeaps => Peer::LockedHeaps,
            Self::CrossTokio => Peer::Tokio,
            Self::Fire => return fire(threads, scale),
        };
        // The latencies of single schedules are the business of `compare`.
        cross_scaled(peer, threads, scale)
            .into_iter()
            .take(2)
            .collect()
    }
}

/// What one producer's timers have come to, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Lane {
    fired: AtomicU64,
    /// Nanoseconds from the start to the last one.
    end: AtomicU64,
}

/// Fires as many timers per shard, all due at once.
fn fire(shards: usize, scale: Scale) -> Metrics {
    let timers = scale.timers(500_000) as u64;
    let lanes: &[Lane] = Box::leak((0..shards).map(|_| Lane::default()).collect());
    let start = Instant::now();
    let lead = Duration::from_millis(if scale == Scale::Tiny { 100 } else { 2_000 });
    let timer = Builder::new()
        .shards(shards)
        .build_with(move |expired: Expired<u64>| {
            let lane = &lanes[expired.payload as usize];
            // ORDERING: Relaxed: only the worker of the producer's shard writes it.
            let fired = lane.fired.load(Ordering::Relaxed) + 1;
            // ORDERING: Relaxed: as above.
            lane.fired.store(fired, Ordering::Relaxed);
            if fired == timers {
                // ORDERING: Release pairs with the Acquire of who waits.
                lane.end
                    .store(start.elapsed().as_nanos() as u64, Ordering::Release);
            }
        });
    let timer = timer.expect("the settings are in range");
    timer.start().expect("the workers start");
    let due = start + lead;
    std::thread::scope(|scope| {
        for lane in 0..shards as u64 {
            let timer = &timer;
            scope.spawn(move || {
                for _ in 0..timers {
                    timer.schedule(due, lane).expect("there is no limit");
                }
            });
        }
    });
    assert!(
        start.elapsed() < lead,
        "they were due before all were scheduled"
    );
    let patience = due + Duration::from_secs(30);
    // ORDERING: Acquire pairs with the Release above.
    while lanes
        .iter()
        .any(|lane| lane.end.load(Ordering::Acquire) == 0)
    {
        assert!(Instant::now() < patience, "a timer has not fired");
        std::thread::sleep(Duration::from_millis(5));
    }
    // ORDERING: Acquire: as above.
    let ends = lanes.iter().map(|lane| lane.end.load(Ordering::Acquire));
    let last = Duration::from_nanos(ends.max().unwrap_or_default());
    let taken = last.saturating_sub(lead);
    let fired = shards as f64 * timers as f64;
    vec![("M fires/s", fired / taken.as_secs_f64() / 1e6)]
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    let scale = if options.tiny {
        Scale::Tiny
    } else {
        Scale::Full
    };
    if let (Some(work), [threads]) = (options.work, &options.threads[..]) {
        for (name, value) in work.measure(*threads as usize, scale) {
            println!("{name}\t{value}");
        }
        return Ok(());
    }
    if options.threads.is_empty() {
        let cores = std::thread::available_parallelism()?.get() as u32;
        options.threads = (0..)
            .map(|power| 1 << power)
            .take_while(|it| *it < cores)
            .collect();
        options.threads.push(cores);
    }
    let head = machine::head();
    let rows = measure_all(&options)?;
    println!("{head}\n");
    println!("{}", table(&options.threads, &rows));
    if let Some(out) = &options.out {
        std::fs::write(out, draw(&options.threads, &rows))?;
    }
    Ok(())
}

/// Repeats on the outside, so that other work on the machine hits all of them.
fn measure_all(options: &Options) -> Result<Vec<Row>, Failure> {
    let works = Work::value_variants();
    let mut all = vec![vec![Vec::new(); options.threads.len()]; works.len()];
    for round in 0..options.rounds {
        for (at, threads) in options.threads.iter().enumerate() {
            for (work, repeats) in works.iter().zip(&mut all) {
                eprint!(
                    "\r\x1b[K{}/{}, {threads} threads, {}",
                    round + 1,
                    options.rounds,
                    work.title()
                );
                let mut child =
                    this_program(&["--work", &name(work), "--threads", &threads.to_string()]);
                if options.tiny {
                    child.arg("--tiny");
                }
                repeats[at].push(parse(&output(&mut child)?.stdout));
            }
        }
    }
    eprintln!();
    let rows = works.iter().zip(all).map(|(work, repeats)| Row {
        work: *work,
        metrics: repeats.iter().map(|repeats| medians(repeats)).collect(),
    });
    Ok(rows.collect())
}

fn medians(repeats: &[Vec<(String, f64)>]) -> Vec<(String, f64)> {
    let of = |at: usize| {
        let values = repeats
            .iter()
            .filter_map(|metrics| Some(metrics.get(at)?.1));
        Some((repeats[0].get(at)?.0.clone(), median(values.collect())?))
    };
    (0..).map_while(of).collect()
}

/// Each cell: the rate, what it is to as many times the first one, and the processor time if that was measured.
fn table(threads: &[u32], rows: &[Row]) -> String {
    let mut text = String::from("| threads and shards |");
    for threads in threads {
        let _ = write!(text, " {threads} |");
    }
    let _ = write!(text, "\n|---|{}", "--:|".repeat(threads.len()));
    for row in rows {
        let unit = row.metrics[0].first().map_or("", |metric| &metric.0);
        let _ = write!(text, "\n| {}, {unit} |", row.work.title());
        for metrics in &row.metrics {
            let _ = write!(
                text,
                " {} |",
                metrics.first().map_or_else(String::new, |it| number(it.1))
            );
        }
        text.push_str("\n| beside that many times the first |");
        for at in 0..threads.len() {
            let _ = write!(
                text,
                " {} |",
                share(threads, row, at).map_or_else(String::new, number)
            );
        }
        if let Some((unit, _)) = row.metrics[0].get(1) {
            let _ = write!(text, "\n| {unit} |");
            for metrics in &row.metrics {
                let _ = write!(text, " {} |", number(metrics[1].1));
            }
        }
    }
    text
}

/// Returns the rate beside that of the first number of threads, multiplied by the threads.
fn share(threads: &[u32], row: &Row, at: usize) -> Option<f64> {
    let first = row.metrics[0].first()?.1 / f64::from(threads[0]);
    Some(row.metrics[at].first()?.1 / f64::from(threads[at]) / first)
}

/// Draws a line per peer: pairs per second by threads, both by equal steps of a factor.
fn draw(threads: &[u32], rows: &[Row]) -> String {
    let (width, height, left, top) = (430.0, 260.0, 60.0, 50.0);
    let rows: Vec<_> = rows.iter().filter(|row| row.work != Work::Fire).collect();
    let rates = rows
        .iter()
        .flat_map(|row| row.metrics.iter().map(|metrics| metrics[0].1));
    let (least, most) = rates.fold((f64::MAX, 1.0_f64), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    });
    let (low, high) = (least.max(1e-3).log2().floor(), most.log2().ceil());
    let (first, last) = (
        f64::from(threads[0]).log2(),
        f64::from(threads[threads.len() - 1]).log2(),
    );
    let x =
        |threads: u32| left + width * (f64::from(threads).log2() - first) / (last - first).max(1.0);
    let y = |rate: f64| top + height * (high - rate.max(1e-3).log2()) / (high - low).max(1.0);
    let mut svg = format!(
        "<svg width=\"740\" height=\"360\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" \
         font-size=\"14\">\n{CHART_STYLE}<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"12\" y=\"26\" font-size=\"17\">Schedule and cancel: M pairs/s by threads (more is better)</text>\n",
    );
    for power in low as i32..=high as i32 {
        let (rate, at) = (2.0_f64.powi(power), y(2.0_f64.powi(power)));
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M {left} {at:.0} h {width}\"/>\
             <text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 5.0,
            if power < 0 {
                number(rate)
            } else {
                format!("{rate:.0}")
            },
        );
    }
    for threads in threads {
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{threads}</text>",
            x(*threads),
            top + height + 22.0
        );
    }
    let colours = ["#1f77b4", "#6baed6", "#8b949e", "#d62728"];
    let mut lines: Vec<_> = rows.iter().zip(colours).collect();
    let end = |row: &Row| row.metrics.last().map_or(top, |metrics| y(metrics[0].1));
    lines.sort_by(|one, other| end(one.0).total_cmp(&end(other.0)));
    let mut above = 0.0_f64;
    for (row, colour) in lines {
        let points = threads.iter().zip(&row.metrics);
        let points =
            points.map(|(threads, metrics)| format!("{:.0},{:.0}", x(*threads), y(metrics[0].1)));
        let points: Vec<_> = points.collect();
        // Names of lines that end together stand below one another.
        above = (above + 18.0).max(end(row) + 5.0);
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{}\" y=\"{above:.0}\" style=\"fill: {colour}\">{}</text>",
            points.join(" "),
            left + width + 10.0,
            row.work.title().replace('<', "&lt;"),
        );
    }
    svg.push_str("</svg>\n");
    svg
}
