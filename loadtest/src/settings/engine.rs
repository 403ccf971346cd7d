//! How the engine is built, and what to change when it cannot be built so.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tickwheel::{BuildError, Builder, IdleStrategy, Pinning, Timer, WheelKind};

use super::parse::{count, duration, show};
use super::setting::Setting;

/// How the engine is built.
#[derive(Clone, Debug)]
pub(crate) struct EngineSettings {
    pub(crate) shards: usize,
    pub(crate) tick: Duration,
    pub(crate) wheel: WheelChoice,
    pub(crate) idle: IdleChoice,
    pub(crate) pin: bool,
    pub(crate) max_pending: Option<usize>,
}

impl EngineSettings {
    /// A builder for these settings.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Timer::builder()
            .shards(self.shards)
            .tick(self.tick)
            .thread_name("loadtest")
            .wheel(match self.wheel {
                WheelChoice::Hierarchical => WheelKind::Hierarchical,
                WheelChoice::Hashed(buckets) => WheelKind::Hashed { buckets },
            })
            .idle(match self.idle {
                IdleChoice::Park => IdleStrategy::Park,
                IdleChoice::Spin(spin) => IdleStrategy::SpinThenPark { spin },
                IdleChoice::Busy => IdleStrategy::BusySpin,
            })
            .pinning(if self.pin { Pinning::Cores } else { Pinning::Off });
        match self.max_pending {
            Some(most) => builder.max_pending(most),
            None => builder,
        }
    }

    /// Which option to change when the engine refuses these settings.
    pub(crate) fn explain(&self, error: &BuildError) -> String {
        match error {
            BuildError::ZeroTick
            | BuildError::TickTooFine { .. }
            | BuildError::TickTooCoarse { .. } => {
                format!("--tick {} is out of range; use 1us to 1h", show(self.tick))
            }
            BuildError::ZeroShards | BuildError::TooManyShards { .. } => {
                format!("--shards {} is out of range; use 1 to 1024", self.shards)
            }
            BuildError::ZeroBuckets | BuildError::TooManyBuckets { .. } => {
                format!("--wheel {} is out of range; use hashed:1 to hashed:1073741824", self.wheel)
            }
            BuildError::RingOverflow { max_buckets, .. } => format!(
                "--wheel {} with --tick {} goes beyond the range of time; use at most \
                 hashed:{max_buckets}, or a finer --tick",
                self.wheel,
                show(self.tick)
            ),
            // What the options do not govern says its own cure.
            other => other.to_string(),
        }
    }

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        vec![
            Setting::count("shards", self.shards),
            Setting::duration("tick", self.tick),
            Setting::text("wheel", self.wheel),
            Setting::text("idle", self.idle),
            Setting::flag("pin", self.pin),
            Setting::limit("max-pending", self.max_pending),
        ]
    }
}

/// `--wheel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WheelChoice {
    Hierarchical,
    Hashed(usize),
}

/// `--idle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleChoice {
    Park,
    Spin(Duration),
    Busy,
}

/// Buckets of `--wheel hashed` without a number, as in Netty and Dubbo.
const HASHED_BUCKETS: usize = 512;

impl FromStr for WheelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "hierarchical" => Ok(Self::Hierarchical),
            None if text == "hashed" => Ok(Self::Hashed(HASHED_BUCKETS)),
            Some(("hashed", buckets)) => Ok(Self::Hashed(count(buckets)?)),
            _ => Err(format!("unknown wheel `{text}`; use hierarchical, hashed or hashed:512")),
        }
    }
}

impl fmt::Display for WheelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hierarchical => f.write_str("hierarchical"),
            Self::Hashed(buckets) => write!(f, "hashed:{buckets}"),
        }
    }
}

impl FromStr for IdleChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "park" => Ok(Self::Park),
            None if text == "busy" => Ok(Self::Busy),
            Some(("spin", spin)) => Ok(Self::Spin(duration(spin)?)),
            _ => Err(format!("unknown idle strategy `{text}`; use park, spin:50us or busy")),
        }
    }
}

impl fmt::Display for IdleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Park => f.write_str("park"),
            Self::Spin(spin) => write!(f, "spin:{}", show(*spin)),
            Self::Busy => f.write_str("busy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_and_idle_strategies_read_what_they_show() {
        for text in ["hierarchical", "hashed:512", "hashed:1"] {
            assert_eq!(text.parse::<WheelChoice>().unwrap().to_string(), text);
        }
        assert_eq!("hashed".parse(), Ok(WheelChoice::Hashed(512)));
        for text in ["park", "spin:50us", "busy"] {
            assert_eq!(text.parse::<IdleChoice>().unwrap().to_string(), text);
        }
        for text in ["", "hashed:", "hashed:0", "hierarchical:3", "wheel"] {
            assert!(text.parse::<WheelChoice>().is_err(), "{text}");
        }
        for text in ["", "spin", "spin:fast", "park:1s"] {
            assert!(text.parse::<IdleChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_name_options_and_no_rust_names() {
        let settings = |shards, tick, wheel| EngineSettings {
            shards,
            tick,
            wheel,
            idle: IdleChoice::Park,
            pin: true,
            max_pending: None,
        };
        let ms = Duration::from_millis(1);
        let hour = Duration::from_secs(3600);
        for (settings, option) in [
            (settings(1, Duration::from_nanos(1), WheelChoice::Hierarchical), "--tick 1ns"),
            (settings(1, 2 * hour, WheelChoice::Hierarchical), "--tick 2h"),
            (settings(100_000, ms, WheelChoice::Hierarchical), "--shards 100000"),
            (settings(1, ms, WheelChoice::Hashed(1 << 31)), "--wheel hashed:2147483648"),
            (settings(1, hour, WheelChoice::Hashed(1 << 30)), "a finer --tick"),
        ] {
            let error = settings.builder().build().err().unwrap();
            let text = settings.explain(&error);
            assert!(text.contains(option) && !text.contains("::"), "{text}");
        }
    }
}
