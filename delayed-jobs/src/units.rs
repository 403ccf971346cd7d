//! Durations and moments as people and Redis write them, what a URL is, and how this program locks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;
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

/// Parses a date-time of RFC 3339 as milliseconds since 1970, rounded up; 0 if it is before. A leap second is the first
/// one of the next minute.
pub(crate) fn parse_moment(text: &str) -> Result<u64, chrono::ParseError> {
    let moment = DateTime::parse_from_rfc3339(text)?;
    // `chrono` drops what is shorter than a nanosecond.
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    let more = digits.skip(9).any(|digit| digit != b'0');
    let nanos = i128::from(moment.timestamp()) * 1_000_000_000
        + i128::from(moment.timestamp_subsec_nanos())
        + i128::from(more);
    let millis = nanos.max(0).unsigned_abs().div_ceil(1_000_000);
    Ok(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// A duration as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .map_err(|error| format!("`{text}` is not a duration like 500ms, 3s or 1h ({error})"))
}

/// Whether a text is a URL that requests can be sent to.
pub(crate) fn is_http(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()))
}

/// A URL without the name and the password that it may hold.
pub(crate) fn without_login(url: &str) -> String {
    // Of another text any part may be a password.
    let parsed = reqwest::Url::parse(url).ok().filter(|_| is_http(url));
    let Some(mut shown) = parsed else {
        return "no URL".to_owned();
    };
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.into()
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Locks a mutex, also after a panic of another holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whole milliseconds, rounded up, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// 64 random bits. A process that was forked off goes on with a copy of the generator, so its number is mixed in.
pub(crate) fn random() -> u64 {
    // An odd factor maps no two numbers to one.
    fastrand::u64(..) ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use nix::unistd::{ForkResult, fork};

    use super::*;

    #[test]
    fn moments_are_those_of_rfc_3339_and_never_early() {
        let noon = 1_896_091_200_000;
        for (text, due) in [
            ("2030-01-31T12:00:00Z", noon),
            ("2030-01-31t12:00:00z", noon),
            ("2030-01-31T14:00:00+02:00", noon),
            ("2030-01-31T06:15:00-05:45", noon),
            ("2030-01-31T12:00:00-00:00", noon),
            ("2030-01-31T12:00:00.0Z", noon),
            ("2030-01-31T12:00:00.000000000000Z", noon),
            ("2030-01-31T12:00:00.5Z", noon + 500),
            ("2030-01-31T12:00:00.0001z", noon + 1),
            ("2030-01-31T12:00:00.0000000000001+00:00", noon + 1),
            ("2030-01-31T11:59:59.9990000000001Z", noon),
            ("2030-01-31T11:59:60Z", noon),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2016-12-31T23:59:60.25Z", 1_483_228_800_250),
            ("2017-01-01T00:59:60+01:00", 1_483_228_800_000),
            ("1969-12-31T23:59:59.9Z", 0),
            ("0000-01-01T00:00:00Z", 0),
            ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ] {
            assert_eq!(parse_moment(text), Ok(due), "{text}");
        }
        for text in [
            "",
            "31.1.2030",
            "2030-01-31",
            "2030-01-31T12:00:00",
            "2030-01-31T12:00:00.Z",
            "2030-01-31T24:00:00Z",
            "2030-01-31T12:00:61Z",
            "2030-02-29T12:00:00Z",
            "2030-01-31T12:00:00+24:00",
            "2030-01-31T12:00:00+0200",
            "2030-01-31T12:00Z",
            " 2030-01-31T12:00:00Z",
            "+2030-01-31T12:00:00Z",
        ] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_is_shown_without_its_login() {
        for (url, shown) in [
            ("http://me:secret@a:1/x", "http://a:1/x"),
            ("http://a:1", "http://a:1/"),
            ("me:secret@", "no URL"),
            ("secret", "no URL"),
        ] {
            assert_eq!(without_login(url), shown);
        }
    }

    #[test]
    fn a_forked_process_draws_other_bits() {
        // A generator that has not drawn yet is seeded after the fork.
        random();
        let (mut parent, mut child) = UnixStream::pair().unwrap();
        // SAFETY: the child draws a number, writes it, and ends. It takes no lock and allocates nothing.
        if let ForkResult::Child = unsafe { fork() }.unwrap() {
            let _ = child.write_all(&random().to_ne_bytes());
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { nix::libc::_exit(0) };
        }
        let mut drawn = [0; 8];
        parent.read_exact(&mut drawn).unwrap();
        assert_ne!(u64::from_ne_bytes(drawn), random());
    }
}
