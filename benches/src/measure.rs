//! The processor time and memory of a process, and summaries of samples.

use nix::sys::resource::{UsageWho, getrusage};
use std::time::Duration;

/// Results: names with their units, in the order of the columns.
pub type Metrics = Vec<(&'static str, f64)>;

/// The processor time and switches of this process so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time of all threads, user and system.
    pub cpu: Duration,
    /// Times that a thread gave up its core: one per sleep.
    pub sleeps: i64,
    /// Times that a thread lost its core to another one.
    pub preemptions: i64,
}

impl Usage {
    /// Reads it.
    ///
    /// # Panics
    ///
    /// If the system does not tell, which it always does for the own process.
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of the own process");
        let micros = [usage.user_time(), usage.system_time()]
            .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        Self {
            cpu: Duration::from_micros(micros.iter().sum::<i64>().cast_unsigned()),
            sleeps: usage.voluntary_context_switches(),
            preemptions: usage.involuntary_context_switches(),
        }
    }
}

/// Reads a line of `/proc/self/status` in bytes; 0 where there is no such file.
fn status(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_default();
    let kib = line
        .split_whitespace()
        .find_map(|word| word.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// Returns the bytes of this process that lie in memory.
pub fn resident_bytes() -> f64 {
    status("VmRSS:")
}

/// Returns the most that [`resident_bytes`] has been.
pub fn peak_bytes() -> f64 {
    status("VmHWM:")
}

/// Returns nanoseconds per piece.
pub fn per(total: Duration, pieces: usize) -> f64 {
    total.as_nanos() as f64 / pieces.max(1) as f64
}

/// Samples in order, for percentiles.
pub struct Sorted(Vec<i64>);

impl Sorted {
    /// Sorts.
    pub fn new(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// Returns the sample below which the share `p` (0 to 1) lies; 0 without samples.
    pub fn at(&self, p: f64) -> f64 {
        // The rounded product of a length and a share is an index or one too much.
        let rank = (self.0.len() as f64 * p) as usize;
        self.0
            .get(rank.min(self.0.len().saturating_sub(1)))
            .map_or(0.0, |sample| *sample as f64)
    }

    /// Returns how many are below zero.
    pub fn negative(&self) -> usize {
        self.0.partition_point(|sample| *sample < 0)
    }
}

/// Returns the middle one, or the mean of the two in the middle; `None` without values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(values[half - 1], upper)
    })
}

/// Reads the metrics that another process has printed: one per line, name, tab, value.
pub fn parse(text: &[u8]) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
        let sorted = Sorted::new((-2..98).collect());
        assert_eq!(
            (sorted.negative(), sorted.at(0.5), sorted.at(1.0)),
            (2, 48.0, 97.0)
        );
        assert_eq!(Sorted::new(Vec::new()).at(0.5).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn the_system_tells_what_the_process_uses() {
        let before = Usage::now();
        let block = vec![1_u8; 64 << 20];
        assert!(block.iter().map(|byte| u64::from(*byte)).sum::<u64>() == 64 << 20);
        assert!(Usage::now().cpu > before.cpu);
        if cfg!(target_os = "linux") {
            assert!(resident_bytes() >= f64::from(64 << 20) && peak_bytes() >= resident_bytes());
        }
    }
}
