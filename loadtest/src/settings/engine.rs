//! How the engine is built, and what to change when it cannot be built so.

use std::time::Duration;

use clap::Args;
use tickwheel::{BuildError, Builder, IdleStrategy, Pinning, WheelKind};

use super::parse::{count, duration, show};
use super::setting::Setting;
use crate::machine;

/// How the engine is built.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineSettings {
    /// Shards, each with its own worker thread
    #[arg(long, default_value_t = machine::cores(), value_parser = count, value_name = "N")]
    pub(crate) shards: usize,
    /// The engine's unit of time, such as 50us
    #[arg(long, default_value = "1ms", value_parser = duration, value_name = "DURATION")]
    pub(crate) tick: Duration,
    /// hierarchical, hashed or hashed:512 (buckets)
    #[arg(long, default_value = "hierarchical", value_parser = wheel, value_name = "WHEEL")]
    pub(crate) wheel: WheelKind,
    /// How workers wait: park, spin:50us (then park) or busy
    #[arg(long, default_value = "park", value_parser = idle, value_name = "STRATEGY")]
    pub(crate) idle: IdleStrategy,
    /// Leave the workers to the system's scheduler instead of pinning each to a core
    #[arg(long)]
    pub(crate) no_pin: bool,
    /// Most timers that may be pending at one time [default: unlimited]
    #[arg(long, value_parser = count, value_name = "N")]
    pub(crate) max_pending: Option<usize>,
}

impl EngineSettings {
    /// A builder for these settings.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Builder::new()
            .shards(self.shards)
            .tick(self.tick)
            .thread_name("loadtest")
            .wheel(self.wheel)
            .idle(self.idle)
            .pinning(if self.no_pin { Pinning::Off } else { Pinning::Cores });
        match self.max_pending {
            Some(most) => builder.max_pending(most),
            None => builder,
        }
    }

    /// Which option to change when the engine refuses these settings.
    pub(crate) fn explain(&self, error: &BuildError) -> String {
        match error {
            BuildError::TickOutOfRange { .. } => {
                format!("--tick {} is out of range; use 1us to 1h", show(self.tick))
            }
            BuildError::ShardsOutOfRange { .. } => {
                format!("--shards {} is out of range; use 1 to 1024", self.shards)
            }
            BuildError::BucketsOutOfRange { .. } => {
                format!(
                    "--wheel {} is out of range; use hashed:1 to hashed:65536",
                    show_wheel(self.wheel)
                )
            }
            // What the options do not govern says its own cure.
            other => other.to_string(),
        }
    }

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<Setting> {
        vec![
            Setting::count("shards", self.shards),
            Setting::duration("tick", self.tick),
            Setting::text("wheel", show_wheel(self.wheel)),
            Setting::text("idle", show_idle(self.idle)),
            Setting::flag("pin", !self.no_pin),
            Setting::limit("max-pending", self.max_pending),
        ]
    }
}

/// Buckets of `--wheel hashed` without a number, as in Netty and Dubbo.
const HASHED_BUCKETS: usize = 512;

/// Reads `--wheel`.
pub(crate) fn wheel(text: &str) -> Result<WheelKind, String> {
    match text.split_once(':') {
        None if text == "hierarchical" => Ok(WheelKind::Hierarchical),
        None if text == "hashed" => Ok(WheelKind::Hashed { buckets: HASHED_BUCKETS }),
        Some(("hashed", buckets)) => Ok(WheelKind::Hashed { buckets: count(buckets)? }),
        _ => Err(format!("unknown wheel `{text}`; use hierarchical, hashed or hashed:512")),
    }
}

/// As [`wheel`] reads it.
fn show_wheel(wheel: WheelKind) -> String {
    match wheel {
        WheelKind::Hashed { buckets } => format!("hashed:{buckets}"),
        _ => "hierarchical".to_owned(),
    }
}

/// Reads `--idle`.
pub(crate) fn idle(text: &str) -> Result<IdleStrategy, String> {
    match text.split_once(':') {
        None if text == "park" => Ok(IdleStrategy::Park),
        None if text == "busy" => Ok(IdleStrategy::BusySpin),
        Some(("spin", spin)) => Ok(IdleStrategy::SpinThenPark { spin: duration(spin)? }),
        _ => Err(format!("unknown idle strategy `{text}`; use park, spin:50us or busy")),
    }
}

/// As [`idle`] reads it.
fn show_idle(idle: IdleStrategy) -> String {
    match idle {
        IdleStrategy::SpinThenPark { spin } => format!("spin:{}", show(spin)),
        IdleStrategy::BusySpin => "busy".to_owned(),
        _ => "park".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_and_idle_strategies_read_what_they_show() {
        for text in ["hierarchical", "hashed:512", "hashed:1"] {
            assert_eq!(show_wheel(wheel(text).unwrap()), text);
        }
        assert_eq!(wheel("hashed"), Ok(WheelKind::Hashed { buckets: 512 }));
        for text in ["park", "spin:50us", "busy"] {
            assert_eq!(show_idle(idle(text).unwrap()), text);
        }
        for text in ["", "hashed:", "hashed:0", "hierarchical:3", "wheel"] {
            assert!(wheel(text).is_err(), "{text}");
        }
        for text in ["", "spin", "spin:fast", "park:1s"] {
            assert!(idle(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_name_options_and_no_rust_names() {
        let settings = |shards, tick, wheel| EngineSettings {
            shards,
            tick,
            wheel,
            idle: IdleStrategy::Park,
            no_pin: false,
            max_pending: None,
        };
        let ms = Duration::from_millis(1);
        let hour = Duration::from_secs(3600);
        for (settings, option) in [
            (settings(1, Duration::from_nanos(1), WheelKind::Hierarchical), "--tick 1ns"),
            (settings(1, 2 * hour, WheelKind::Hierarchical), "--tick 2h"),
            (settings(100_000, ms, WheelKind::Hierarchical), "--shards 100000"),
            (settings(1, ms, WheelKind::Hashed { buckets: 1 << 31 }), "--wheel hashed:2147483648"),
        ] {
            let error = settings.builder().build().err().unwrap();
            let text = settings.explain(&error);
            assert!(text.contains(option) && !text.contains("::"), "{text}");
        }
    }
}
