//! What the producers of a load run do.

use std::fmt;
use std::time::Duration;

use super::delays::Delays;
use super::engine::EngineSettings;
use super::parse::rate;
use super::setting::Setting;

/// What the producers do with the engine.
#[derive(Clone, Debug)]
pub(crate) struct LoadSettings {
    pub(crate) producers: usize,
    pub(crate) in_flight: usize,
    pub(crate) delays: Delays,
    pub(crate) cancel_share: f64,
    pub(crate) reschedule_share: f64,
    pub(crate) pace: Pace,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) payload: PayloadChoice,
    pub(crate) handles: bool,
}

/// `--rate`: how fast the producers go, and so which phases a run has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// One phase at this rate, then one as fast as possible, half of the time each. The paced phase
    /// leaves the workers free cores, so its lateness is the engine's own.
    Both(f64),
    /// One phase at this rate.
    Limited(f64),
    /// One phase as fast as possible.
    FullSpeed,
}

/// Reads `--rate`.
pub(crate) fn pace(text: &str) -> Result<Pace, String> {
    if text == "max" { Ok(Pace::FullSpeed) } else { rate(text).map(Pace::Limited) }
}

/// One phase of a load run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PhaseSettings {
    pub(crate) name: &'static str,
    /// Timers per second, all producers together; `None` for as fast as possible.
    pub(crate) rate: Option<f64>,
    pub(crate) duration: Duration,
}

impl LoadSettings {
    /// The phases in their order.
    pub(crate) fn phases(&self) -> Vec<PhaseSettings> {
        let paced = |rate, duration| PhaseSettings { name: "paced", rate: Some(rate), duration };
        let full = |duration| PhaseSettings { name: "full speed", rate: None, duration };
        match self.pace {
            Pace::Both(rate) => vec![paced(rate, self.duration / 2), full(self.duration / 2)],
            Pace::Limited(rate) => vec![paced(rate, self.duration)],
            Pace::FullSpeed => vec![full(self.duration)],
        }
    }

    /// Timers that each producer may have left to fire at one time. The whole run shares a quarter of
    /// a million (and a quarter of `--max-pending`), so that a large machine does not need a large
    /// memory; beyond that the producer cancels what it would have left, and a steady state sets in.
    pub(crate) fn max_left(&self, engine: &EngineSettings) -> usize {
        const ALL_PRODUCERS: usize = 1 << 18;
        const AT_LEAST: usize = 1 << 12;
        let share = (ALL_PRODUCERS / self.producers).max(AT_LEAST);
        let room = engine.max_pending.map_or(usize::MAX, |most| most / 4 / self.producers + 1);
        share.min(room)
    }

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        vec![
            Setting::count("producers", self.producers),
            Setting::count("in-flight", self.in_flight),
            Setting::text("delay", &self.delays),
            Setting::number("cancel-share", self.cancel_share),
            Setting::number("reschedule-share", self.reschedule_share),
            Setting::duration("duration", self.duration),
            Setting::seed(self.seed),
            Setting::text("payload", self.payload),
            Setting::flag("handles", self.handles),
        ]
    }
}

/// `--payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PayloadChoice {
    /// Eight bytes, handled by one handler per shard.
    Typed,
    /// A closure per timer, run on the shard's thread.
    Closure,
}

impl fmt::Display for PayloadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typed => "typed",
            Self::Closure => "closure",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwheel::{IdleStrategy, WheelKind};

    #[test]
    fn timers_left_to_fire_are_bounded() {
        let engine = |max_pending| EngineSettings {
            shards: 1,
            tick: Duration::from_millis(1),
            wheel: WheelKind::Hierarchical,
            idle: IdleStrategy::Park,
            pin: true,
            max_pending,
        };
        let load = |producers| LoadSettings {
            producers,
            in_flight: 1,
            delays: Delays::Mix,
            cancel_share: 0.0,
            reschedule_share: 0.0,
            pace: Pace::FullSpeed,
            duration: Duration::from_secs(1),
            seed: 0,
            payload: PayloadChoice::Typed,
            handles: false,
        };
        assert_eq!(load(2).max_left(&engine(None)), 1 << 17);
        assert_eq!(load(1000).max_left(&engine(None)), 1 << 12);
        assert_eq!(load(2).max_left(&engine(Some(1000))), 126);
        assert_eq!(load(2).max_left(&engine(Some(1))), 1);
    }
}
