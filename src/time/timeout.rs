//! Timeouts as the system calls of event loops take them.

use core::time::Duration;

/// Returns a timeout in whole milliseconds for `epoll_wait` and `poll`: rounded up; -1 for ever.
pub(crate) fn whole_ms(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let ms = |nanos| whole_ms(Some(Duration::from_nanos(nanos)));
        assert_eq!(
            [ms(0), ms(1), ms(999_999), ms(1_000_000), ms(1_000_001)],
            [0, 1, 1, 1, 2]
        );
        assert_eq!(whole_ms(None), -1);
        assert_eq!(whole_ms(Some(Duration::MAX)), i32::MAX);
    }
}
