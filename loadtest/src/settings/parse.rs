//! Reads the values of options from text; each refusal names what is allowed.

use std::time::Duration;

/// A duration as people write it, with a hint when it is not one.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is not a duration like 50us, 1ms, 2s or 1m ({error})"))
}

/// A whole number from 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 is too small; use 1 or more".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("`{text}` is not a whole number from 1 to {}", usize::MAX)),
    }
}

/// Most connections of a server run: fewer than the 28 232 ephemeral ports that Linux has by default, because the
/// search for a free one gets slow when few are left.
const MOST_CONNECTIONS: usize = 25_000;

/// A number of connections.
pub(crate) fn connections(text: &str) -> Result<usize, String> {
    most(text, MOST_CONNECTIONS)
}

/// Most producers: each has a thread and slots of its own, and the engine takes no more shards either.
const MOST_PRODUCERS: usize = 1024;

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    most(text, MOST_PRODUCERS)
}

fn most(text: &str, most: usize) -> Result<usize, String> {
    match count(text)? {
        count if count > most => Err(format!("{count} is too many; use 1 to {most}")),
        count => Ok(count),
    }
}

/// A new seed, which fits JSON readers that know only 53 bits.
pub(crate) fn seed() -> u64 {
    fastrand::u64(..1 << 53)
}

/// A share from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a share from 0 to 1, such as 0.97"))
}

/// Once in a quarter of an hour.
const LEAST_RATE: f64 = 0.001;

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
        .filter(|rate| rate.is_finite() && *rate >= LEAST_RATE)
        .ok_or_else(|| {
            format!("`{text}` is not a rate of at least {LEAST_RATE} such as 500, 20k, 1.5M, max or both")
        })
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
    fn rates_take_suffixes() {
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(rate("20k"), Ok(20_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        for text in ["", "k", "0", "1e-300", "-1", "nan", "inf", "1x", "é"] {
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
