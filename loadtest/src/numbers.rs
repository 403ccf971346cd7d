//! Numbers as people read them.

/// `1234567` as "1,234,567".
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number in three digits: "950", "12.3 k", "5.31 M".
pub(crate) fn rate(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 999.5e6 => (v / 1e9, " G"),
        v if v >= 999.5e3 => (v / 1e6, " M"),
        v if v >= 999.5 => (v / 1e3, " k"),
        v => {
            return if v > 0.0 && v < 10.0 { format!("{v:.1}") } else { format!("{v:.0}") };
        }
    };
    format!("{}{unit}", three_digits(scaled))
}

/// Nanoseconds with the unit that fits: "87 ns", "1.25 µs", "3.4 ms", "2.1 s".
pub(crate) fn nanos(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", three_digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(value / 1e6)),
        _ => format!("{} s", three_digits(value / 1e9)),
    }
}

/// Bytes in binary units.
pub(crate) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", three_digits(value / 1024.0)),
        1_048_576..1_073_741_824 => format!("{} MiB", three_digits(value / 1_048_576.0)),
        _ => format!("{} GiB", three_digits(value / 1_073_741_824.0)),
    }
}

/// The same without zeros that say nothing, for the marks of an axis: "5.00 M" as "5 M".
pub(crate) fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// A value that some systems do not tell.
pub(crate) fn or_na<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "n/a".to_owned(), show)
}

/// A value that was not measured in this run.
pub(crate) fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(5_312_000.0), "5.31 M");
        assert_eq!(rate(999_700.0), "1.00 M");
        assert_eq!(rate(12_340.0), "12.3 k");
        assert_eq!(rate(512.0), "512");
        assert_eq!(rate(0.4), "0.4");
        assert_eq!(rate(0.0), "0");
        assert_eq!(nanos(87), "87 ns");
        assert_eq!(nanos(1_254), "1.25 µs");
        assert_eq!(nanos(123_456_789), "123 ms");
        assert_eq!(nanos(60_000_000_000), "60.0 s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(88 << 20), "88.0 MiB");
        assert_eq!(short("5.00 M"), "5 M");
        assert_eq!(short("1.50 ms"), "1.5 ms");
        assert_eq!(short("100"), "100");
        assert_eq!(or_na(None::<u64>, count), "n/a");
    }
}
