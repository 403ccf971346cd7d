//! What a run or a replay of timers came to, as a phase of a report.

use hdrhistogram::Histogram;
use tickwheel::{PinState, Stats};

use crate::ledger::{Ledger, Ticket, Totals};
use crate::measure::{Meter, histogram, rates};
use crate::report::model::{Distribution, Figure, Phase, Setting, Table, Timeline, Unit};

/// What the threads that drove the engine have counted.
pub(crate) struct Counted {
    pub(crate) totals: Totals,
    /// Duration of calls in nanoseconds.
    pub(crate) schedule: Histogram<u64>,
    pub(crate) cancel: Histogram<u64>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            totals: Totals::default(),
            schedule: histogram(),
            cancel: histogram(),
        }
    }
}

impl Counted {
    /// Adds another thread's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        let same = "all histograms have the same bounds";
        self.totals.add(&other.totals);
        self.schedule.add(&other.schedule).expect(same);
        self.cancel.add(&other.cancel).expect(same);
    }

    /// Audits the ledger after `stop` has returned these timers, and tells the result.
    pub(crate) fn judge(
        self,
        name: &'static str,
        settings: Vec<Setting>,
        ledger: &Ledger,
        (returned, stats): (&[Ticket], &Stats),
        meter: &Meter,
    ) -> Phase {
        let verdict = ledger.audit(returned, &self.totals, stats);
        let seconds = meter.seconds.max(1e-9);
        let per_second = |key, label, count: u64| {
            Figure::new(key, label, Unit::PerSecond, count as f64 / seconds)
        };
        let (pairs, full) = (self.totals.cancelled, self.totals.refused_full as f64);
        let mut figures = vec![
            per_second("pairs", "schedule + cancel pairs", pairs),
            per_second("fired", "fired", ledger.fired()),
            Figure::new(
                "refused_full",
                "refused for lack of room",
                Unit::Count,
                full,
            ),
            per_second("sleeps", "sleeps of workers", stats.parks),
            per_second("wakes", "of them ended by producers", stats.wakes),
        ];
        figures.extend(meter.figures());
        let held = ledger.held_bytes() as f64;
        figures.push(Figure::new(
            "ledger",
            "of it this program's ledger",
            Unit::Bytes,
            held,
        ));
        let pairs = Timeline {
            key: "pairs",
            title: "Throughput over time",
            about: "Timers scheduled and then cancelled, per second.",
            unit: Unit::PerSecond,
            points: rates(&meter.samples, |sample| sample.ended),
        };
        let call = |key, label, histogram| Distribution {
            key,
            label,
            histogram,
            chart: "Calls by percentile",
            about: "Sampled calls, clock reads included.",
        };
        let late = Distribution {
            key: "lateness",
            label: "firing lateness",
            histogram: ledger.lateness(),
            chart: "Firing lateness by percentile",
            about: "From the requested deadline to the handler.",
        };
        Phase {
            name,
            settings,
            seconds: meter.seconds,
            verdict,
            figures,
            distributions: vec![
                late,
                call("schedule", "schedule call", self.schedule),
                call("cancel", "cancel call", self.cancel),
            ],
            timelines: vec![pairs, meter.memory()],
            tables: vec![shards(stats)],
        }
    }
}

/// Returns the core that a worker was given, also if it has left it because the core was busy.
fn home_core(pinning: PinState) -> Option<usize> {
    match pinning {
        PinState::Pinned(core) | PinState::Widened(core) => Some(core),
        _ => None,
    }
}

fn shards(stats: &Stats) -> Table {
    let rows = stats.shards.iter().map(|shard| {
        let core = home_core(shard.pinning).map(|core| core as u64);
        let counts = [
            shard.scheduled,
            shard.cancelled,
            shard.fired,
            shard.parks,
            shard.wakes,
        ];
        [Some(shard.shard as u64), core]
            .into_iter()
            .chain(counts.map(Some))
            .collect()
    });
    Table {
        key: "shards",
        title: "Balance of the shards",
        head: vec![
            "shard",
            "home core",
            "scheduled",
            "cancelled",
            "fired",
            "parks",
            "wakes",
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_has_left_its_core_still_has_a_home() {
        assert_eq!(home_core(PinState::Pinned(3)), Some(3));
        assert_eq!(home_core(PinState::Widened(3)), Some(3));
        assert_eq!(home_core(PinState::Unpinned), None);
    }
}
