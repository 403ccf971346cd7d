//! Slack: a timer's deadline moves to a grid that timers share.

use super::{Time, saturating_ns};
use core::time::Duration;

/// A grid of points in time that timers of about the same tolerance share: the multiples of a power of two of
/// nanoseconds, as its exponent. So the points of a coarse grid lie on every finer one, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grid(u8);

impl Grid {
    /// Every nanosecond: no slack was asked for.
    pub const EXACT: Self = Self(0);

    /// Returns the coarsest grid whose points lie no further apart than `slack`; for none a grid of every nanosecond
    /// that is not [`EXACT`](Self::EXACT).
    #[inline]
    pub const fn within(slack: Duration) -> Self {
        Self::within_ns(saturating_ns(slack))
    }

    /// Like [`within`](Self::within), in nanoseconds.
    #[inline]
    pub(crate) const fn within_ns(slack: u64) -> Self {
        match slack.checked_ilog2() {
            None | Some(0) => Self(u64::BITS as u8),
            Some(exponent) => Self(exponent as u8),
        }
    }

    /// Returns the first point at or after `time`; [`Time::MAX`] beyond the scale.
    #[inline]
    pub(crate) const fn round_up(self, time: Time) -> Time {
        let Some(step) = 1u64.checked_shl(self.0 as u32) else {
            return time;
        };
        let below = step - 1;
        match time.as_nanos().checked_add(below) {
            Some(nanos) => Time::from_nanos(nanos & !below),
            None => Time::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_point_of_a_grid_is_never_early_and_within_the_slack(
            nanos: u64, shift in 0..64_u32, slack: u64, less in 0..64_u32,
        ) {
            let (time, slack) = (Time::from_nanos(nanos >> shift), slack >> less);
            let grid = Grid::within(Duration::from_nanos(slack));
            let point = grid.round_up(time);
            prop_assert!(point >= time);
            if point != Time::MAX {
                prop_assert!(point.as_nanos() - time.as_nanos() < slack.max(1));
                prop_assert_eq!(grid.round_up(point), point);
                // It lies on every finer grid.
                let finer = Grid::within(Duration::from_nanos(slack / 3));
                prop_assert_eq!(finer.round_up(point), point);
            }
        }
    }

    #[test]
    fn without_a_slack_a_time_stays_and_never_stays_never() {
        let at = Time::from_nanos;
        let [none, least] = [Duration::ZERO, Duration::from_nanos(1)].map(Grid::within);
        assert!(
            none == least && none != Grid::EXACT,
            "refused, and not only not asked for"
        );
        for grid in [Grid::EXACT, none] {
            let times = [0, 1, 17, u64::MAX].map(at);
            assert_eq!(times.map(|time| grid.round_up(time)), times);
        }
        let second = Grid::within(Duration::from_secs(1));
        assert_eq!(
            second.round_up(at(1)),
            at(1 << 29),
            "the power of two below"
        );
        assert_eq!(
            Grid::within(Duration::MAX).round_up(at((1 << 63) + 1)),
            Time::MAX
        );
    }
}
