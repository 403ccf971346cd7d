//! Numbers as people read them.

/// `1234567` as "1,234,567".
pub(crate) fn count(value: u64) -> String {
    indicatif::HumanCount(value).to_string()
}

/// A large number in three digits: "950", "12.3 k", "5.31 M".
pub(crate) fn rate(value: f64) -> String {
    scaled(value, 1000.0, ["", " k", " M", " G"])
}

/// Nanoseconds with the unit that fits: "87 ns", "1.25 µs", "3.4 ms", "2.1 s".
pub(crate) fn nanos(ns: u64) -> String {
    scaled(ns as f64, 1000.0, [" ns", " µs", " ms", " s"])
}

/// Bytes in binary units.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, [" B", " KiB", " MiB", " GiB"])
}

/// A value that some systems do not tell, or that was not measured in this run.
pub(crate) fn or_na<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "n/a".to_owned(), show)
}

/// Three digits at most, without zeros that say nothing, and the unit; each unit is `step` of the one before.
fn scaled(mut value: f64, step: f64, units: [&str; 4]) -> String {
    let mut unit = 0;
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let places = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => usize::from(unit > 0),
        _ => 1 + usize::from(unit > 0),
    };
    let digits = format!("{value:.places$}");
    let digits = match places {
        0 => &digits,
        _ => digits.trim_end_matches('0').trim_end_matches('.'),
    };
    format!("{digits}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_234_567].map(count), ["0", "999", "1,234,567"]);
        for (value, shown) in [
            (5_312_000.0, "5.31 M"),
            (999_700.0, "1 M"),
            (12_340.0, "12.3 k"),
            (100.0, "100"),
            (0.4, "0.4"),
            (0.0, "0"),
        ] {
            assert_eq!(rate(value), shown);
        }
        let times = [87, 1_254, 123_456_789, 60_000_000_000];
        assert_eq!(times.map(nanos), ["87 ns", "1.25 µs", "123 ms", "60 s"]);
        assert_eq!([512, 88 << 20].map(bytes), ["512 B", "88 MiB"]);
    }
}
