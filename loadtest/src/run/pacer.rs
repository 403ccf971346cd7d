//! Holds a producer to its share of `--rate`.

use std::time::Duration;

/// Longest nap, so that the producer keeps looking whether the run has ended.
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// Spreads steps evenly over time; after a delay it catches up.
pub(crate) struct Pacer {
    interval_ns: f64,
    done: u64,
}

impl Pacer {
    /// A pacer for `per_second` steps, the first at time 0.
    pub(crate) fn new(per_second: f64) -> Self {
        Self { interval_ns: 1e9 / per_second, done: 0 }
    }

    /// How long to sleep before the next step at `now_ns`; `None` if it is due. A due step counts as
    /// taken.
    pub(crate) fn nap(&mut self, now_ns: u64) -> Option<Duration> {
        let due_ns = self.done as f64 * self.interval_ns;
        let early_ns = due_ns - now_ns as f64;
        if early_ns > 0.0 {
            return Some(Duration::from_nanos(early_ns as u64 + 1).min(LONGEST_NAP));
        }
        self.done += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_and_catches_up() {
        let mut pacer = Pacer::new(1000.0);
        assert_eq!(pacer.nap(0), None);
        let nap = pacer.nap(400_000).unwrap();
        assert!((600_000..=600_002).contains(&nap.as_nanos()), "{nap:?}");
        let late = 10_000_000;
        assert_eq!((0..20).take_while(|_| pacer.nap(late).is_none()).count(), 10);
        assert_eq!(Pacer::new(0.001).nap(0), None);
    }

    #[test]
    fn naps_stay_short() {
        let mut pacer = Pacer::new(0.001);
        assert_eq!(pacer.nap(0), None);
        assert_eq!(pacer.nap(0), Some(LONGEST_NAP));
    }
}
