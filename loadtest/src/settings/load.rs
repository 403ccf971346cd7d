//! What the producers of a load run do.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::delays::Delays;
use super::engine::EngineSettings;
use super::parse::{count, rate, seed, share, some_duration, threads};
use super::setting::Setting;
use crate::machine;

/// What the producers do with the engine.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadSettings {
    /// How long to run
    #[arg(long, default_value = "10s", value_parser = some_duration, value_name = "DURATION")]
    pub(crate) duration: Duration,
    /// Threads that schedule and cancel
    #[arg(long, default_value_t = machine::cores(), value_parser = threads, value_name = "N")]
    pub(crate) producers: usize,
    /// Timers each producer keeps in flight
    #[arg(long, default_value = "4096", value_parser = count, value_name = "N")]
    pub(crate) in_flight: usize,
    /// How delays are spread: mix, fixed:30s, uniform:1ms..2s or log:1ms..60s
    #[arg(long, default_value = "mix", value_name = "SPREAD")]
    pub(crate) delay: Delays,
    /// Share of timers that their producer cancels while young, 0 to 1; the rest is left to fire, as
    /// long as no more than a quarter of a million wait for that
    #[arg(long, default_value = "0.99", value_parser = share, value_name = "SHARE")]
    pub(crate) cancel_share: f64,
    /// Share of steps that also move a timer in flight, 0 to 1
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE")]
    pub(crate) reschedule_share: f64,
    /// Timers per second, all producers together, such as 500, 20k, 1.5M or max; both: half of the time 50k,
    /// half of it max
    #[arg(long, default_value = "both", value_parser = pace, value_name = "RATE")]
    pub(crate) rate: Pace,
    /// Seed of the random choices [default: new each time, shown in the report]
    #[arg(long, default_value_t = seed(), hide_default_value = true, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// What a timer carries
    #[arg(long, value_enum, default_value = "typed")]
    pub(crate) payload: PayloadChoice,
    /// Hold owned TimerHandle handles instead of plain keys
    #[arg(long)]
    pub(crate) handles: bool,
    /// Write what the producers do into a workload file for `replay`; take a low --rate
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
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
    match text {
        "both" => Ok(Pace::Both(50_000.0)),
        "max" => Ok(Pace::FullSpeed),
        _ => rate(text).map(Pace::Limited),
    }
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
        match self.rate {
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
            Setting::text("delay", &self.delay),
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
    use clap::Parser;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        load: LoadSettings,
        #[command(flatten)]
        engine: EngineSettings,
    }

    #[test]
    fn timers_left_to_fire_are_bounded() {
        let left = |options: &str| {
            let all = Options::parse_from(options.split_whitespace());
            all.load.max_left(&all.engine)
        };
        assert_eq!(left("x --producers 2"), 1 << 17);
        assert_eq!(left("x --producers 1000"), 1 << 12);
        assert_eq!(left("x --producers 2 --max-pending 1000"), 126);
        assert_eq!(left("x --producers 2 --max-pending 1"), 1);
    }
}
