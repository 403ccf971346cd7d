//! Cron patterns where clocks are changed, in all time zones, against an oracle of its own: it knows the moment of the
//! change and the two offsets, tries each second, and asks no library.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::Recurrence;

/// The changes of five years before and after the end of 2026 are looked at.
const YEARS: [&str; 2] = ["2021-11-28T00:00:00Z", "2031-11-28T00:00:00Z"];

/// Seconds before and after a change that are looked at: more than any clock is changed by.
const AROUND: i64 = 5 * 3600;

const DAY: i64 = 24 * 3600;

/// A pattern as the oracle reads it.
struct Pattern {
    text: &'static str,
    /// Whether each second of a day fits.
    times: Vec<bool>,
    weekdays: Vec<i64>,
    is_interval: bool,
}

/// A change of the clock: when, and the seconds by which local time is ahead before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

/// The patterns, with `!` before those that are intervals.
const PATTERNS: &[&str] = &[
    "30 2 * * *",
    "30 2,14 * * *",
    "15,45 2 * * *",
    "10,50 0-23 * * *",
    "0-59/7 0-3 * * *",
    "5-55/10 2 * * *",
    "0 0,1,2,3,22,23 * * *",
    "59 23 * * *",
    "0,30 0 * * *",
    "30 0,2,23 * * SAT",
    "30 0,2,23 * * 0",
    "0-30 1,2 * * 1-5",
    "30 30 2 * * *",
    "0,20,40 59 0-23 * * *",
    "15-45/10 0,30 2 * * *",
    "0 15,45 1-3 * * *",
    "!* 1-3 * * *",
    "!*/15 * * * *",
    "!30 * * * *",
    "!0,30 */2 * * *",
    "!*/15 2 * * *",
    "!*/20 30 * * * *",
    "!*/30 30 2 * * *",
    "!30 */10 1-3 * * *",
];

/// Reads a field of numbers, lists, ranges and steps.
fn values(field: &str, last: i64) -> Vec<i64> {
    let number = |text: &str| match text {
        "SAT" => 6,
        text => text.parse().unwrap(),
    };
    let mut values = Vec::new();
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first), number(last)),
            None if range == "*" => (0, last),
            None => (number(range), number(range)),
        };
        values.extend((first..=last).step_by(step.parse().unwrap()));
    }
    values
}

impl Pattern {
    fn read(text: &'static str) -> Self {
        let (text, is_interval) = match text.strip_prefix('!') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut fields: Vec<&str> = text.split(' ').collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [seconds, minutes, hours] =
            [(0, 59), (1, 59), (2, 23)].map(|(field, last)| values(fields[field], last));
        let mut times = vec![false; DAY as usize];
        for hour in hours {
            for minute in &minutes {
                for second in &seconds {
                    times[(hour * 3600 + minute * 60 + second) as usize] = true;
                }
            }
        }
        Self {
            text,
            times,
            weekdays: values(fields[5], 6),
            is_interval,
        }
    }

    /// Whether a clock that shows `local` seconds since 1970 fits.
    fn fits(&self, local: i64) -> bool {
        // 1970 began on a Thursday.
        self.times[(local % DAY) as usize] && self.weekdays.contains(&((local / DAY + 4) % 7))
    }

    /// The occurrences around a change, in seconds since 1970.
    fn occurrences(&self, change: Change) -> BTreeSet<i64> {
        let Change { at, before, after } = change;
        let mut found = BTreeSet::new();
        let (from, to) = (at - AROUND, at + AROUND);
        if self.is_interval {
            let shown = |time: i64| time + if time < at { before } else { after };
            found.extend((from..=to).filter(|time| self.fits(shown(*time))));
        } else {
            // Each time that a clock can show, once.
            let (first, last) = (from + before.min(after), to + before.max(after));
            for local in (first..=last).filter(|local| self.fits(*local)) {
                found.insert(match (local - before, local - after) {
                    (time, _) if time < at => time,
                    (_, time) if time >= at => time,
                    _ => at,
                });
            }
            found.retain(|time| (from..=to).contains(time));
        }
        found
    }
}

/// The changes of a zone's clock.
fn changes(zone: Tz) -> Vec<Change> {
    let offset = |at: i64| {
        let utc = DateTime::from_timestamp(at, 0).unwrap().naive_utc();
        i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
    };
    let [first, last] = YEARS.map(|text| DateTime::parse_from_rfc3339(text).unwrap().timestamp());
    let mut changes = Vec::new();
    for day in (first..last).step_by(DAY as usize) {
        let (before, after) = (offset(day), offset(day + DAY));
        if before != after {
            let (mut low, mut high) = (day, day + DAY);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if offset(middle) == before {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            changes.push(Change {
                at: high,
                before,
                after,
            });
        }
    }
    changes
}

#[test]
fn every_zone_has_the_occurrences_of_the_oracle() {
    let patterns: Vec<Pattern> = PATTERNS.iter().map(|text| Pattern::read(text)).collect();
    let mut expected: HashMap<Change, Vec<BTreeSet<i64>>> = HashMap::new();
    let (mut zones, mut seen, mut cases) = (0, HashSet::new(), 0);
    for zone in TZ_VARIANTS {
        let changes = changes(zone);
        zones += usize::from(!changes.is_empty());
        // Many zones are alike in these years.
        if !seen.insert(changes.clone()) {
            continue;
        }
        for change in changes {
            let expected = expected.entry(change).or_insert_with(|| {
                let of = |pattern: &Pattern| pattern.occurrences(change);
                patterns.iter().map(of).collect()
            });
            for (pattern, expected) in patterns.iter().zip(expected) {
                let recurrence = Recurrence::cron(pattern.text, zone.name()).unwrap();
                let next = |after: i64| {
                    let after = u64::try_from(after * 1000).unwrap();
                    i64::try_from(recurrence.next(None, after).unwrap() / 1000).unwrap()
                };
                let (from, to) = (change.at - AROUND, change.at + AROUND);
                let case = || format!("{} {} {change:?}", pattern.text, zone.name());
                // One after the other, and from whatever moment a node begins.
                let mut found = BTreeSet::new();
                let mut time = next(from - 1);
                while time <= to {
                    found.insert(time);
                    time = next(time);
                }
                assert_eq!(found, *expected, "{}", case());
                for after in (from..to).step_by(4_777) {
                    let wanted = expected.range(after + 1..).next();
                    let found = next(after);
                    assert_eq!(
                        Some(&found).filter(|next| **next <= to),
                        wanted,
                        "{}",
                        case()
                    );
                }
                cases += 1;
            }
        }
    }
    assert!(
        zones > 200 && cases > 10_000,
        "{zones} zones, {cases} cases"
    );
}

#[test]
fn berlin_has_each_time_of_the_day_once() {
    let ms = |text: &str| {
        let at = DateTime::parse_from_rfc3339(text).unwrap();
        u64::try_from(at.timestamp_millis()).unwrap()
    };
    for (pattern, times) in [
        (
            "30 2,14 * * *",
            // The clock goes from 02:00 to 03:00.
            ["2027-03-28T01:00:00Z", "2027-03-28T12:30:00Z"],
        ),
        (
            "15,45 2 * * *",
            // Both at 03:00, which are one.
            ["2027-03-28T01:00:00Z", "2027-03-29T00:15:00Z"],
        ),
        (
            "30 2,14 * * *",
            // The clock goes from 03:00 to 02:00.
            ["2026-10-25T00:30:00Z", "2026-10-25T13:30:00Z"],
        ),
        (
            "15,45 2 * * *",
            ["2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z"],
        ),
        (
            "45 2 * * *",
            ["2026-10-25T00:45:00Z", "2026-10-26T01:45:00Z"],
        ),
        (
            "*/30 2 * * *",
            ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"],
        ),
    ] {
        let recurrence = Recurrence::cron(pattern, "Europe/Berlin").unwrap();
        let times = times.map(ms);
        let before = times[0] - 6 * 3_600_000;
        assert_eq!(recurrence.next(None, before), Ok(times[0]), "{pattern}");
        let then = recurrence.next(Some(times[0]), times[0]);
        assert_eq!(then, Ok(times[1]), "{pattern}");
    }
}
