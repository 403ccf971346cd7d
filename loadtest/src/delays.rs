//! How delays are spread: the `--delay` option.

use std::str::FromStr;
use std::time::Duration;

use crate::durations::parse_duration;

/// A distribution of delays: parts with their share, shortest and longest delay, and whether they are spread evenly
/// over the logarithm, so that every decade is as frequent as the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delays(Vec<(f64, Duration, Duration, bool)>);

/// What a server sets: retransmits, request timeouts and idle connections, with their shares, in milliseconds.
const MIX: [(f64, u64, u64); 3] = [(0.2, 1, 50), (0.5, 50, 5_000), (0.3, 5_000, 60_000)];

impl FromStr for Delays {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ms = Duration::from_millis;
        if text == "mix" {
            let part = |(share, low, high)| (share, ms(low), ms(high), true);
            return Ok(Self(MIX.into_iter().map(part).collect()));
        }
        let (log, range) = match text.split_once(':') {
            Some(("fixed", delay)) => (false, Some((delay, delay))),
            Some(("uniform", range)) => (false, range.split_once("..")),
            Some(("log", range)) => (true, range.split_once("..")),
            _ => (false, None),
        };
        let (low, high) = range.ok_or("use mix, fixed:30s, uniform:1ms..2s or log:1ms..60s")?;
        let duration = |text| parse_duration(text).map_err(|error| error.to_string());
        let (low, high) = (duration(low)?, duration(high)?);
        if low > high || log && low.is_zero() {
            return Err("a range ends behind its start, and a log spread starts at 1us".to_owned());
        }
        Ok(Self(vec![(1.0, low, high, log)]))
    }
}

impl Delays {
    /// One draw.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        let mut left = rng.f64();
        let part = self.0.iter().find(|(share, ..)| {
            left -= share;
            left < 0.0
        });
        let (_, low, high, log) = *part.unwrap_or(&self.0[self.0.len() - 1]);
        let (from, to, place) = (low.as_secs_f64(), high.as_secs_f64(), rng.f64());
        let seconds = if log {
            from * (to / from).powf(place)
        } else {
            from + (to - from) * place
        };
        // What rounding pushed out of range means "practically never".
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(Duration::MAX)
            .clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_spreads_are_refused() {
        for text in [
            "gauss",
            "gauss:1s",
            "log:1ms",
            "log:0s..1s",
            "uniform:2s..1s",
            "fixed:soon",
        ] {
            assert!(text.parse::<Delays>().is_err(), "{text}");
        }
    }

    /// Of 2000 draws from 1 ms to 60 s, the number under 250 ms tells an even spread from one over the logarithm.
    #[test]
    fn draws_stay_inside_and_are_spread() {
        let mut rng = fastrand::Rng::with_seed(7);
        for (text, low_ms, high_ms, short) in [
            ("mix", 1, 60_000, 600..1400),
            ("uniform:1ms..60s", 1, 60_000, 0..60),
            ("uniform:0s..2ms", 0, 2, 2000..2001),
            ("fixed:30s", 30_000, 30_000, 0..1),
        ] {
            let delays: Delays = text.parse().unwrap();
            let range = Duration::from_millis(low_ms)..=Duration::from_millis(high_ms);
            let draws: Vec<_> = (0..2000).map(|_| delays.draw(&mut rng)).collect();
            assert!(draws.iter().all(|delay| range.contains(delay)), "{text}");
            let found = draws.iter().filter(|delay| delay.as_millis() < 250).count();
            assert!(
                short.contains(&found),
                "{text}: {found} of 2000 under 250 ms"
            );
        }
    }
}
