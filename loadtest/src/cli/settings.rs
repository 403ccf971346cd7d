//! What a run is made of, after defaults and checks; and how the values are read from text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::{Builder, IdleStrategy, Pinning, Timer, WheelKind};

use crate::delays::{Delays, duration};

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

/// What the producers do with it.
#[derive(Clone, Debug)]
pub(crate) struct LoadSettings {
    pub(crate) producers: usize,
    pub(crate) in_flight: usize,
    pub(crate) delays: Delays,
    pub(crate) cancel_share: f64,
    pub(crate) reschedule_share: f64,
    pub(crate) rate: Option<f64>,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) payload: PayloadChoice,
    pub(crate) handles: bool,
}

/// Name and value of a setting, for reports.
pub(crate) type SettingRow = (&'static str, Value);

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

    /// For reports.
    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        vec![
            ("shards", json!(self.shards)),
            ("tick", json!(show(self.tick))),
            ("wheel", json!(self.wheel.to_string())),
            ("idle", json!(self.idle.to_string())),
            ("pin", json!(self.pin)),
            ("max_pending", self.max_pending.map_or(json!("unlimited"), |most| json!(most))),
        ]
    }
}

impl LoadSettings {
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
    pub(crate) fn rows(&self) -> Vec<SettingRow> {
        vec![
            ("producers", json!(self.producers)),
            ("in_flight", json!(self.in_flight)),
            ("delay", json!(self.delays.to_string())),
            ("cancel_share", json!(self.cancel_share)),
            ("reschedule_share", json!(self.reschedule_share)),
            ("rate", self.rate.map_or(json!("unlimited"), |rate| json!(rate))),
            ("duration", json!(show(self.duration))),
            ("seed", json!(self.seed)),
            ("payload", json!(self.payload.to_string())),
            ("handles", json!(self.handles)),
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

/// `--payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PayloadChoice {
    /// Eight bytes, handled by one handler per shard.
    Typed,
    /// A closure per timer, run on the shard's thread.
    Closure,
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

impl fmt::Display for PayloadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typed => "typed",
            Self::Closure => "closure",
        })
    }
}

/// A whole number from 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 is too small; use 1 or more".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("`{text}` is not a whole number from 1 to {}", usize::MAX)),
    }
}

/// Most producers: each has a thread and slots of its own, and the engine takes no more shards either.
const MOST_PRODUCERS: usize = 1024;

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match count(text)? {
        threads if threads > MOST_PRODUCERS => {
            Err(format!("{threads} is too many; use 1 to {MOST_PRODUCERS}"))
        }
        threads => Ok(threads),
    }
}

/// A share from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a share from 0 to 1, such as 0.97"))
}

/// A rate per second, with `k` or `M` where people write them.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    number
        .parse::<f64>()
        .ok()
        .map(|rate| rate * factor)
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| format!("`{text}` is not a rate above 0 such as 500, 20k or 1.5M"))
}

/// A duration that is not zero.
pub(crate) fn some_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err("0 is too short; use for example 5s".to_owned());
    }
    Ok(duration)
}

/// A duration as people write it.
pub(crate) fn show(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_left_to_fire_are_bounded() {
        let engine = |max_pending| EngineSettings {
            shards: 1,
            tick: Duration::from_millis(1),
            wheel: WheelChoice::Hierarchical,
            idle: IdleChoice::Park,
            pin: true,
            max_pending,
        };
        let load = |producers| LoadSettings {
            producers,
            in_flight: 1,
            delays: Delays::Mix,
            cancel_share: 0.0,
            reschedule_share: 0.0,
            rate: None,
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
    fn rates_take_suffixes() {
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(rate("20k"), Ok(20_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        for text in ["", "k", "0", "-1", "nan", "inf", "1x", "é"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_stay_between_0_and_1() {
        assert_eq!(share("0.5"), Ok(0.5));
        for text in ["1.01", "-0.1", "nan", "half"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
