//! Durations as people write them.

use std::time::Duration;

use humantime::DurationError;

/// Parses a duration as people write it, such as `1h 30m`. Part by part: where they add up to a little more than the
/// longest duration, `humantime` panics.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim_end();
    let pairs = text.char_indices().zip(text.chars().skip(1));
    let ends = pairs.filter(|((_, one), next)| one.is_alphabetic() && !next.is_alphabetic());
    let ends = ends.map(|((at, one), _)| at + one.len_utf8());
    let (mut sum, mut start) = (Duration::ZERO, 0);
    for end in ends.chain([text.len()]) {
        let part = humantime::parse_duration(&text[start..end])?;
        sum = sum.checked_add(part).ok_or(DurationError::NumberOverflow)?;
        start = end;
    }
    Ok(sum)
}
