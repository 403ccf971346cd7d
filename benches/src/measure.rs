//! What a process has used, and summaries of samples.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::time::Duration;

/// What came out: names with their units, in the order of the columns.
pub type Metrics = Vec<(&'static str, f64)>;

/// What this process has used so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time of all threads, user and system.
    pub cpu: Duration,
    /// Times that a thread gave up its core: one per sleep.
    pub switches: i64,
}

impl Usage {
    /// Reads it.
    ///
    /// # Panics
    ///
    /// If the system does not tell, which it always does for the own process.
    #[must_use]
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of the own process");
        let cpu = duration(usage.user_time()) + duration(usage.system_time());
        Self { cpu, switches: usage.voluntary_context_switches() }
    }
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A line of `/proc/self/status` in bytes; 0 where there is no such file.
fn status(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib = line.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// Bytes of this process that lie in memory.
#[must_use]
pub fn resident_bytes() -> f64 {
    status("VmRSS:")
}

/// The most that [`resident_bytes`] has been.
#[must_use]
pub fn peak_bytes() -> f64 {
    status("VmHWM:")
}

/// Nanoseconds per piece.
#[must_use]
pub fn per(total: Duration, pieces: usize) -> f64 {
    total.as_nanos() as f64 / pieces.max(1) as f64
}

/// Samples in order, for percentiles.
pub struct Sorted(Vec<i64>);

impl Sorted {
    /// Sorts.
    #[must_use]
    pub fn new(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// The sample below which the share `p` (0 to 1) lies; 0 without samples.
    #[must_use]
    pub fn at(&self, p: f64) -> f64 {
        // The rounded product of a length and a share is an index or one too much.
        let rank = (self.0.len() as f64 * p) as usize;
        self.0.get(rank.min(self.0.len().saturating_sub(1))).map_or(0.0, |sample| *sample as f64)
    }

    /// How many are below zero.
    #[must_use]
    pub fn negative(&self) -> usize {
        self.0.partition_point(|sample| *sample < 0)
    }
}

/// The middle one; the mean of the two in the middle where there are two.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The metrics in what a process of its own has printed: one per line, name, tab, value.
pub(crate) fn parse(text: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_child_is_parsed() {
        let text = "ns/pair\t8.25\nnoise of a library\nbytes/timer\t48\n";
        let expected = [("ns/pair".to_owned(), 8.25), ("bytes/timer".to_owned(), 48.0)];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
        assert!(median(&[]).is_nan());
        let sorted = Sorted::new((-2..98).collect());
        assert_eq!(sorted.negative(), 2);
        assert_eq!(sorted.at(0.5).to_bits(), 48.0_f64.to_bits());
        assert_eq!(sorted.at(1.0).to_bits(), 97.0_f64.to_bits());
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
