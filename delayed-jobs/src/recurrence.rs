//! When a recurring job is due: every so often, or as a cron pattern says.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, LocalResult, TimeZone};
use chrono_tz::{GapInfo, Tz};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds};

use crate::job::FARTHEST;
use crate::units::millis;

/// The shortest time between two occurrences.
const SHORTEST: Duration = Duration::from_millis(100);

/// When a schedule's jobs are due.
#[derive(Clone, Debug)]
pub enum Recurrence {
    /// So long after each other.
    Every(Duration),
    /// Whenever a pattern matches the clock of a time zone.
    Cron(Box<(Cron, Tz)>),
}

impl Recurrence {
    /// Occurrences that are `period` apart.
    ///
    /// # Errors
    ///
    /// A period below 100 ms or above ten years.
    pub fn every(period: Duration) -> Result<Self, String> {
        match (SHORTEST..=FARTHEST).contains(&period) {
            true => Ok(Self::Every(period)),
            false => Err("every: use 100 ms or more, and at most ten years".to_owned()),
        }
    }

    /// Occurrences by a cron pattern of five fields, or six with seconds first, in a time zone such as
    /// `Europe/Berlin` or `UTC`.
    ///
    /// Where the clock of the zone is changed, a pattern whose seconds, minutes or hours have a `*` is an interval: it
    /// comes whenever the clock shows such a time. Any other one names times of the day, and each comes once on each
    /// day: the first time if the clock shows it twice. Those that the clock leaves out come together, at the first
    /// moment after them.
    ///
    /// # Errors
    ///
    /// What is wrong with the pattern or the zone.
    pub fn cron(pattern: &str, zone: &str) -> Result<Self, String> {
        let zone: Tz = zone.parse().map_err(|_| {
            format!("timezone: `{zone}` is not one of the IANA list, such as Europe/Berlin")
        })?;
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        let cron = parser.parse(pattern);
        let cron =
            cron.map_err(|error| format!("cron: `{pattern}`, such as `0 9 * * MON-FRI`: {error}"))?;
        Ok(Self::Cron(Box::new((cron, zone))))
    }

    /// The first occurrence after `now` in milliseconds since 1970; `planned` was an occurrence, too, if it is
    /// given. Those that are missed are left out.
    ///
    /// # Errors
    ///
    /// Why there is no further occurrence.
    pub(crate) fn next(&self, planned: Option<u64>, now: u64) -> Result<u64, String> {
        let beyond = || "its next moment is beyond all dates".to_owned();
        match self {
            Self::Every(period) => {
                let (from, period) = (planned.unwrap_or(now), millis(*period));
                let passed = now.saturating_sub(from) / period;
                let next = passed
                    .checked_add(1)
                    .and_then(|count| count.checked_mul(period)?.checked_add(from));
                next.ok_or_else(beyond)
            }
            Self::Cron(cron) => {
                let (cron, zone) = &**cron;
                let after = i64::try_from(planned.unwrap_or(now).max(now)).ok();
                let after = after.and_then(DateTime::from_timestamp_millis);
                let after = after.ok_or_else(beyond)?.with_timezone(zone);
                let next = match is_interval(cron) {
                    true => cron.find_next_occurrence(&after, false),
                    false => next_time_of_day(cron, &after),
                };
                let next = next.map_err(|error| match error {
                    CronError::TimeSearchLimitExceeded => "no date fits its pattern".to_owned(),
                    error => error.to_string(),
                })?;
                u64::try_from(next.timestamp_millis()).map_err(|_| beyond())
            }
        }
    }
}

/// Whether a pattern has a `*` among its seconds, minutes and hours.
fn is_interval(cron: &Cron) -> bool {
    let pattern = &cron.pattern;
    [&pattern.seconds, &pattern.minutes, &pattern.hours]
        .iter()
        .any(|field| field.from_wildcard)
}

/// Finds the first occurrence after `after` of a pattern that names times of the day. The library is asked for times that
/// no change of the clock disturbs, because it takes a pattern of several times for an interval.
fn next_time_of_day(cron: &Cron, after: &DateTime<Tz>) -> Result<DateTime<Tz>, CronError> {
    let zone = after.timezone();
    let mut local = after.naive_local();
    loop {
        local = cron.find_next_occurrence(&local, false)?;
        let next = match zone.from_local_datetime(&local) {
            LocalResult::Single(only) => only,
            LocalResult::Ambiguous(first, _) => first,
            LocalResult::None => GapInfo::new(&local, &zone)
                .and_then(|gap| gap.end)
                .ok_or(CronError::InvalidTime)?,
        };
        // Otherwise the clock has shown this time before.
        if next > *after {
            return Ok(next);
        }
    }
}

/// As Redis keeps it: `every MS`, or `cron ZONE PATTERN`.
impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(period) => write!(f, "every {}", millis(*period)),
            Self::Cron(cron) => write!(f, "cron {} {}", cron.1.name(), cron.0.as_str()),
        }
    }
}

impl FromStr for Recurrence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("every"), Some(ms), None) => {
                let ms = ms
                    .parse()
                    .map_err(|_| format!("`{text}` is no recurrence"))?;
                Self::every(Duration::from_millis(ms))
            }
            (Some("cron"), Some(zone), Some(pattern)) => Self::cron(pattern, zone),
            _ => Err(format!("`{text}` is no recurrence")),
        }
    }
}

#[cfg(test)]
mod clock_changes;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> u64 {
        u64::try_from(
            DateTime::parse_from_rfc3339(text)
                .unwrap()
                .timestamp_millis(),
        )
        .unwrap()
    }

    #[test]
    fn every_keeps_its_phase_and_leaves_out_what_was_missed() {
        let every = Recurrence::every(Duration::from_millis(500)).unwrap();
        assert_eq!(every.next(None, 1_000), Ok(1_500));
        assert_eq!(every.next(Some(1_500), 1_501), Ok(2_000));
        assert_eq!(every.next(Some(1_500), 2_000), Ok(2_500));
        assert_eq!(every.next(Some(1_500), 9_999), Ok(10_000));
        assert_eq!(
            every.next(Some(1_500), 1_200),
            Ok(2_000),
            "a clock that is behind"
        );
        assert!(every.next(Some(u64::MAX), 0).is_err());
    }

    #[test]
    fn cron_knows_time_zones_and_summer_time() {
        let nine = Recurrence::cron("0 9 * * MON-FRI", "Europe/Berlin").unwrap();
        let friday = ms("2026-03-27T08:00:00Z");
        assert_eq!(nine.next(None, friday - 1), Ok(friday));
        // Clocks go forward on the Sunday in between.
        assert_eq!(
            nine.next(Some(friday), friday),
            Ok(ms("2026-03-30T07:00:00Z"))
        );
        assert_eq!(
            nine.next(Some(friday), friday - 500),
            Ok(ms("2026-03-30T07:00:00Z"))
        );
        let seconds = Recurrence::cron("*/10 * * * * *", "UTC").unwrap();
        assert_eq!(seconds.next(None, 61_000), Ok(70_000));
        for never in ["0 0 30 2 *", "0 0 * 30 2 *"] {
            let never = Recurrence::cron(never, "UTC").unwrap().next(None, 0);
            assert_eq!(never, Err("no date fits its pattern".to_owned()));
        }
    }

    #[test]
    fn recurrences_are_read_as_they_are_written() {
        for text in [
            "every 60000",
            "cron Europe/Berlin 0 9 * * 1-5",
            "cron UTC */10 * * * * *",
        ] {
            assert_eq!(text.parse::<Recurrence>().unwrap().to_string(), text);
        }
        for text in ["every x", "every 5 5", "cron UTC", ""] {
            let said = text.parse::<Recurrence>().unwrap_err();
            assert!(said.contains("no recurrence"), "{text}: {said}");
        }
    }
}
