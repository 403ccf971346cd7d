//! What a table's head says of the machine: what it is, whether it was quiet, and what two things cost on which figures
//! depend most: a reading of the clock, and a cache line that another processor has written.

use crate::goals::number;
use crate::process::output;
use std::fs::read_to_string;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Loads of less than this, per core, are a quiet machine.
const QUIET: f64 = 0.25;
/// The least of so many pieces counts.
const PIECES: usize = 50;
const CLOCK_READS: u32 = 10_000;
const ROUND_TRIPS: u32 = 2_000;

/// Returns how busy the machine was in the last 1, 5 and 15 minutes.
pub fn load() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    let loads: Vec<_> = text.split_whitespace().take(3).collect();
    loads.join(" ")
}

/// Returns the first line that a program prints; nothing if it prints none.
pub(crate) fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = output(Command::new(program).args(arguments)).map(|output| output.stdout);
    let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
    said.lines().next().unwrap_or_default().to_owned()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Describes the processor, cores, memory and kernel.
pub fn describe() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("unknown", |it| it.1);
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok());
    let gib = kib.unwrap_or(0) >> 20;
    format!(
        "{model}, {} cores, {gib} GiB, {}",
        cores(),
        said_by("uname", &["-sr"])
    )
}

/// Says whether the machine had other work, by its load before the measurement.
pub fn quietness(before: &str) -> String {
    let first = before.split(' ').next().and_then(|load| load.parse().ok());
    match first {
        Some(load) if load_is_quiet(load) => "quiet".to_owned(),
        Some(_) => "not quiet".to_owned(),
        None => "not known to be quiet".to_owned(),
    }
}

fn load_is_quiet(load: f64) -> bool {
    load < QUIET * cores() as f64
}

/// Returns the nanoseconds of one reading of the clock.
pub fn clock_read_ns() -> f64 {
    let piece = |_| {
        let start = Instant::now();
        for _ in 0..CLOCK_READS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed().as_nanos() as f64 / f64::from(CLOCK_READS)
    };
    (0..PIECES).map(piece).fold(f64::INFINITY, f64::min)
}

/// Returns the nanoseconds after which one thread sees what another one has written on another processor: half of a
/// round trip. `None` where there is one processor.
pub fn cache_line_ns() -> Option<f64> {
    if cores() < 2 {
        return None;
    }
    let turn = AtomicU32::new(0);
    // The other one answers each even number with the next odd one.
    let wait_for = |wanted| {
        while turn.load(Ordering::Acquire) != wanted {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..PIECES as u32 * ROUND_TRIPS {
                wait_for(2 * trip + 1);
                turn.store(2 * trip + 2, Ordering::Release);
            }
        });
        let piece = |piece: usize| {
            let start = Instant::now();
            for trip in 0..ROUND_TRIPS {
                let trip = piece as u32 * ROUND_TRIPS + trip;
                turn.store(2 * trip + 1, Ordering::Release);
                wait_for(2 * trip + 2);
            }
            start.elapsed().as_nanos() as f64 / f64::from(2 * ROUND_TRIPS)
        };
        Some((0..PIECES).map(piece).fold(f64::INFINITY, f64::min))
    })
}

/// Returns the costs as a table's head says them.
pub fn costs() -> String {
    let line = cache_line_ns().map_or_else(String::new, |line| {
        format!(
            ", a cache line from one processor to the other {} ns",
            number(line)
        )
    });
    format!("a clock read {} ns{line}", number(clock_read_ns()))
}

/// Returns the head of a table that a program prints, as a paragraph.
pub fn head() -> String {
    let load = load();
    let (commit, date) = (
        said_by("git", &["rev-parse", "--short=12", "HEAD"]),
        said_by("date", &["-u", "+%Y-%m-%d"]),
    );
    format!(
        "{commit}, {date}; {}; {} (load average {load} before); {}.",
        describe(),
        quietness(&load),
        costs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_read_and_a_cache_line_cost_something() {
        let clock = clock_read_ns();
        assert!((1.0..10_000.0).contains(&clock), "{clock}");
        if let Some(line) = cache_line_ns() {
            assert!((1.0..100_000.0).contains(&line), "{line}");
        }
        assert!(costs().contains("a clock read"));
    }

    #[test]
    fn a_busy_machine_is_called_so() {
        assert_eq!(quietness("0.01 4.00 4.00"), "quiet");
        assert_eq!(quietness("4000.0 0.00 0.00"), "not quiet");
        assert_eq!(quietness(""), "not known to be quiet");
    }
}
