//! How delays are spread: the `--delay` option and a table of draws for the hot loop.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::parse::duration;

/// A distribution of delays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Delays {
    /// What a server sets: 20 % retransmits (1 to 50 ms), 50 % request timeouts (50 ms to 5 s),
    /// 30 % idle connections (5 to 60 s), log-spread inside each.
    Mix,
    /// Evenly over the logarithm, so that every decade is as frequent as the next.
    Log(Duration, Duration),
    /// Evenly between both ends.
    Uniform(Duration, Duration),
    /// Always the same.
    Fixed(Duration),
}

/// The parts of [`Delays::Mix`]: share, shortest and longest in milliseconds.
const MIX: [(f64, u64, u64); 3] = [(0.2, 1, 50), (0.5, 50, 5_000), (0.3, 5_000, 60_000)];

const FORMS: &str = "use mix, fixed:30s, uniform:1ms..2s or log:1ms..60s";

impl FromStr for Delays {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mix" {
            return Ok(Self::Mix);
        }
        let unknown = || format!("unknown delay distribution `{text}`; {FORMS}");
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            "fixed" => Ok(Self::Fixed(duration(rest)?)),
            "uniform" | "log" => {
                let (low, high) = rest
                    .split_once("..")
                    .ok_or_else(|| format!("`{rest}` is not a range like 1ms..60s"))?;
                let (low, high) = (duration(low)?, duration(high)?);
                if low > high {
                    return Err(format!("the range `{rest}` ends before it starts"));
                }
                if kind == "uniform" {
                    return Ok(Self::Uniform(low, high));
                }
                if low.is_zero() {
                    return Err("a log spread cannot start at 0; start at 1us or more".to_owned());
                }
                Ok(Self::Log(low, high))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |duration: &Duration| humantime::format_duration(*duration).to_string();
        match self {
            Self::Mix => f.write_str("mix"),
            Self::Fixed(delay) => write!(f, "fixed:{}", show(delay)),
            Self::Uniform(low, high) => write!(f, "uniform:{}..{}", show(low), show(high)),
            Self::Log(low, high) => write!(f, "log:{}..{}", show(low), show(high)),
        }
    }
}

impl Delays {
    /// One draw.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        match *self {
            Self::Fixed(delay) => delay,
            Self::Uniform(low, high) => {
                seconds((high - low).as_secs_f64() * rng.f64()).saturating_add(low).min(high)
            }
            Self::Log(low, high) => {
                let (from, to) = (low.as_secs_f64().ln(), high.as_secs_f64().ln());
                seconds((from + (to - from) * rng.f64()).exp()).clamp(low, high)
            }
            Self::Mix => {
                let mut left = rng.f64();
                for (share, low, high) in MIX {
                    if left < share {
                        let part =
                            Self::Log(Duration::from_millis(low), Duration::from_millis(high));
                        return part.draw(rng);
                    }
                    left -= share;
                }
                Duration::from_millis(MIX[MIX.len() - 1].2)
            }
        }
    }
}

/// A duration from seconds; what rounding pushed out of range means "practically never".
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Draws made beforehand, so that the hot loop pays an indexed load instead of an exponential.
#[derive(Debug)]
pub(crate) struct DelayTable(Box<[Duration; Self::DRAWS]>);

impl DelayTable {
    /// Enough draws that the spread is smooth, few enough (64 KiB) to stay in the second-level cache.
    const DRAWS: usize = 4096;
    const INDEX_BITS: u32 = Self::DRAWS.trailing_zeros();

    /// Makes the draws.
    pub(crate) fn new(delays: &Delays, rng: &mut fastrand::Rng) -> Self {
        let draws: Box<[Duration]> = (0..Self::DRAWS).map(|_| delays.draw(rng)).collect();
        Self(draws.try_into().expect("the iterator yields exactly DRAWS items"))
    }

    /// The draw that the top bits of `random` point at; its low bits stay usable for other choices.
    #[inline]
    pub(crate) fn pick(&self, random: u64) -> Duration {
        self.0[(random >> (u64::BITS - Self::INDEX_BITS)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_shows() {
        for text in ["mix", "fixed:30s", "uniform:1ms..2s", "log:1ms..1m", "uniform:0s..0s"] {
            let delays: Delays = text.parse().unwrap();
            assert_eq!(delays.to_string().parse::<Delays>().unwrap(), delays, "{text}");
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, reason) in [
            ("gauss", "use mix"),
            ("gauss:1s", "use mix"),
            ("log:1ms", "range"),
            ("log:0s..1s", "start at 1us"),
            ("uniform:2s..1s", "ends before"),
            ("fixed:soon", "not a duration"),
        ] {
            let error = text.parse::<Delays>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn draws_stay_inside() {
        let mut rng = fastrand::Rng::with_seed(7);
        for text in ["mix", "uniform:1ms..60s", "log:1ms..60s"] {
            let delays: Delays = text.parse().unwrap();
            let mut short = 0;
            for _ in 0..2000 {
                let delay = delays.draw(&mut rng);
                assert!(delay >= Duration::from_millis(1), "{text}: {delay:?}");
                assert!(delay <= Duration::from_secs(60), "{text}: {delay:?}");
                short += u32::from(delay < Duration::from_millis(250));
            }
            let expected_short = if text.starts_with("uniform") { 0..60 } else { 600..1400 };
            assert!(expected_short.contains(&short), "{text}: {short} of 2000 under 250 ms");
        }
    }
}
