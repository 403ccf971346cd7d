//! Ticks: the only rounding of durations and times to them.
//!
//! A *tick* is a plain `u64` counted from the clock's origin; it is what shards and wheels speak. [`TickRate`] converts
//! between ticks and [`Time`], and nothing else in the crate divides a duration. Rounding goes *up* for deadlines, so a
//! timer is never early. Arithmetic saturates: [`NEVER`] means "practically never".

use super::Time;
use core::time::Duration;

/// The tick that never comes: the deadline of every timer whose time does not fit the scale.
pub(crate) const NEVER: u64 = u64::MAX;

/// A tick of so many nanoseconds or more is coarse: see [`TickRate::is_coarse`].
const COARSE_NS: u64 = 10_000_000;

/// The length of a tick, and the conversions between nanoseconds and ticks.
///
/// `deadline` runs in every schedule, so the division by the tick is a multiplication by a
/// reciprocal that is computed once. The method is the round-up one of Granlund and Montgomery,
/// "Division by invariant integers using multiplication" (1994, figure 4.1). For a divisor `d`
/// let `l` be the least with `d <= 2^l`, and `m = floor(2^64 * (2^l - d) / d) + 1`. Then every
/// 64-bit `n`, with `t = floor(m * n / 2^64)`, gives
/// `floor(n / d) = (t + floor((n - t) / 2)) >> (l - 1)`: exact, and no step overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate {
    tick_ns: u64,
    /// `m` above.
    magic: u64,
    /// `l - 1` above.
    shift: u32,
}

impl TickRate {
    /// Creates a rate of one tick per `tick_ns` nanoseconds.
    ///
    /// The builder has checked the tick long before; a length below 2 ns, for which the reciprocal
    /// does not exist, is taken as 2 ns so that no input can make this panic.
    pub const fn new(tick_ns: u64) -> Self {
        let tick_ns = if tick_ns < 2 { 2 } else { tick_ns };
        let bits = u64::BITS - (tick_ns - 1).leading_zeros();
        let excess = (1_u128 << bits) - tick_ns as u128;
        // `excess < d < 2^64`, so the quotient is at most 2^64 - 2 and the sum fits.
        let magic = ((excess << 64) / tick_ns as u128) as u64 + 1;
        Self {
            tick_ns,
            magic,
            shift: bits - 1,
        }
    }

    /// Returns the length of one tick.
    #[inline]
    pub const fn tick(&self) -> Duration {
        Duration::from_nanos(self.tick_ns)
    }

    /// Returns the tick that `now` lies in: the number of whole ticks before it.
    #[inline]
    pub const fn current(&self, now: Time) -> u64 {
        let high = ((self.magic as u128 * now.as_nanos() as u128) >> 64) as u64;
        (high + ((now.as_nanos() - high) >> 1)) >> self.shift
    }

    /// Returns the tick at which a timer of `delay` set at `now` may fire.
    ///
    /// Rounds up: the tick begins at `now + delay` or later. A zero delay gives the current tick,
    /// which is due at once. A sum beyond the scale gives [`NEVER`], at the end of the scale as well.
    #[inline]
    pub(crate) const fn deadline(&self, now: Time, delay: Duration) -> u64 {
        let deadline = now.saturating_add(delay);
        if deadline.as_nanos() > now.as_nanos() {
            return self.ceil(deadline.as_nanos());
        }
        if delay.is_zero() {
            self.current(now)
        } else {
            Self::never()
        }
    }

    /// Returns the tick at which a timer for the time `deadline` may fire: rounds up, whether or not that
    /// time has passed. [`Time::MAX`] gives [`NEVER`].
    #[inline]
    pub const fn deadline_at(&self, deadline: Time) -> u64 {
        match deadline.as_nanos() {
            0 => 0,
            nanos => self.ceil(nanos),
        }
    }

    /// Returns the tick of a timer for the time `deadline` that is set at `present`: rounded up, unless that time has
    /// passed. Then it is no later than the present one, and so due at once, however long a tick is.
    #[inline]
    pub(crate) fn due(&self, deadline: Time, present: Time) -> u64 {
        let tick = self.deadline_at(deadline);
        if deadline.has_passed(present) {
            tick.min(self.current(present))
        } else {
            tick
        }
    }

    /// Returns whether a timer for a point in time that has passed is to be due at once at the price of a clock
    /// reading. With a shorter tick it waits for the next one, less than 10 ms.
    #[inline]
    pub const fn is_coarse(&self) -> bool {
        self.tick_ns >= COARSE_NS
    }

    /// Returns `ceil(ns / tick)` for `ns >= 1`, but [`NEVER`] for the end of the scale.
    #[inline]
    const fn ceil(&self, ns: u64) -> u64 {
        // For n >= 1, ceil(n / d) = floor((n - 1) / d) + 1.
        if ns == u64::MAX {
            Self::never()
        } else {
            self.current(Time::from_nanos(ns - 1)) + 1
        }
    }

    /// Returns [`NEVER`]. Apart, so that the usual case has no jump.
    #[cold]
    #[inline(never)]
    const fn never() -> u64 {
        NEVER
    }

    /// Returns the first instant of `tick`; [`Time::MAX`] for [`NEVER`] and for every tick beyond the
    /// scale.
    #[inline]
    pub const fn start_of(&self, tick: u64) -> Time {
        Time::from_nanos(tick.saturating_mul(self.tick_ns))
    }

    /// Returns how many ticks a second takes, rounded up.
    pub(crate) const fn per_second(&self) -> u64 {
        1_000_000_000_u64.div_ceil(self.tick_ns)
    }

    /// Returns when a sleep should end if the next deadline is at `next`: until the last tick that begins at most
    /// `slack` after it, or until `next` itself.
    #[inline]
    pub fn with_slack(&self, next: Time, slack: Duration) -> Time {
        if slack.is_zero() {
            return next;
        }
        self.start_of(self.current(next.saturating_add(slack)))
            .max(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// Every allowed tick, with the round ones that people choose and powers of two made likely.
    fn tick_ns() -> impl Strategy<Value = u64> {
        prop_oneof![
            1_000..=HOUR_NS,
            1_000..10_000_u64,
            prop::sample::select(vec![1_000, 1_000_000, 1 << 20, 1 << 41, HOUR_NS]),
        ]
    }

    /// Numbers of every size, and those at the ends and around powers of two.
    fn any_size() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (any::<u64>(), 0..64_u32).prop_map(|(n, shift)| n >> shift),
            (0..64_u32, 0..3_u64)
                .prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
            (0..5_u64).prop_map(|below| u64::MAX - below),
        ]
    }

    fn any_delay() -> impl Strategy<Value = Duration> {
        prop_oneof![
            any_size().prop_map(Duration::from_nanos),
            any_size().prop_map(Duration::from_micros),
            Just(Duration::ZERO),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_reciprocal_divides_exactly(
            divisor in prop_oneof![tick_ns(), 2..=u64::MAX], n in any_size(),
        ) {
            let rate = TickRate::new(divisor);
            prop_assert_eq!(rate.current(Time::from_nanos(n)), n / divisor);
            // Multiples and their neighbours are where an inexact reciprocal would slip.
            let multiple = n / divisor * divisor;
            for near in [multiple.wrapping_sub(1), multiple, multiple.saturating_add(1)] {
                prop_assert_eq!(rate.current(Time::from_nanos(near)), near / divisor);
            }
        }

        /// Never early, late by less than a tick, and in the order of times.
        #[test]
        fn deadlines_match_plain_arithmetic(
            tick_ns in tick_ns(), now_ns in any_size(), delay in any_delay(),
        ) {
            let rate = TickRate::new(tick_ns);
            let now = Time::from_nanos(now_ns);
            let sum = u128::from(now_ns) + delay.as_nanos();
            let expected = if delay.is_zero() {
                now_ns / tick_ns
            } else if sum >= u128::from(u64::MAX) {
                NEVER
            } else {
                u64::try_from(sum.div_ceil(u128::from(tick_ns))).unwrap()
            };
            prop_assert_eq!(rate.deadline(now, delay), expected);
            if !delay.is_zero() {
                prop_assert_eq!(rate.deadline_at(now + delay), expected);
                prop_assert!(rate.start_of(expected) >= now + delay);
            }
            prop_assert_eq!(rate.current(now), now_ns / tick_ns);
        }

        #[test]
        fn a_time_that_has_passed_is_due_and_none_before(
            tick_ns in tick_ns(),
            deadline in any_size(), present in any_size(), later in any_size(),
        ) {
            let rate = TickRate::new(tick_ns);
            let [deadline, present] = [deadline, present].map(Time::from_nanos);
            let tick = rate.due(deadline, present);
            prop_assert!(tick <= rate.deadline_at(deadline));
            if deadline <= present && deadline < Time::MAX {
                prop_assert!(tick <= rate.current(present), "it has passed and is not due");
            } else {
                prop_assert_eq!(tick, rate.deadline_at(deadline));
            }
            let later = present.max(Time::from_nanos(later));
            prop_assert!(tick > rate.current(later) || deadline <= later, "due and has not passed");
        }

        #[test]
        fn a_tick_starts_where_it_is_current(tick_ns in tick_ns(), ns in any_size()) {
            let rate = TickRate::new(tick_ns);
            let start = rate.start_of(rate.current(Time::from_nanos(ns)));
            prop_assert!(start.as_nanos() <= ns);
            prop_assert_eq!(rate.current(start), ns / tick_ns);
        }
    }

    #[test]
    fn a_tick_too_short_for_the_reciprocal_does_not_panic() {
        assert_eq!(TickRate::new(0), TickRate::new(2));
        assert_eq!(TickRate::new(1).current(Time::MAX), u64::MAX / 2);
    }
}
