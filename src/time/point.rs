//! `Time`, the contract of a clock, and ticks with the only rounding of durations to them.
//!
//! Two units exist. [`Time`] counts nanoseconds since a clock's origin; it is what callers and clocks speak. A *tick*
//! is a plain `u64` counted from the same origin; it is what shards and wheels speak. [`TickRate`] converts between
//! them, and nothing else in the crate divides a duration. All of it is plain data and pure arithmetic: any thread may
//! use it, nothing here allocates, locks or panics.
//!
//! Two rules hold everywhere. Rounding goes *up* for deadlines, so a timer is never early. Arithmetic saturates: the
//! far end of either scale, [`Time::MAX`] and [`NEVER`], means "practically never".

use alloc::sync::{Arc, Weak};
use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: whole nanoseconds since the origin of one clock.
///
/// The scale spans 584 years. All arithmetic saturates at its ends, so no operation panics;
/// [`Time::MAX`] stands for "practically never". Times of different clocks are not comparable.
///
/// A `Time` is 8 bytes of plain data and every operation on it is O(1).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Time;
///
/// let second = Duration::from_secs(1);
/// let start = Time::from_nanos(500_000_000);
/// assert_eq!((start + second).as_nanos(), 1_500_000_000);
/// assert_eq!(start + second - start, second);
/// // The operators saturate; so do these, which also work in constants.
/// const LATEST: Time = Time::MAX.saturating_add(Duration::from_secs(1));
/// assert_eq!((LATEST, start.saturating_sub(second)), (Time::MAX, Time::ZERO));
/// assert_eq!(start.saturating_duration_since(LATEST), Duration::ZERO);
/// assert_eq!(format!("{start} {LATEST}"), "500ms never");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// The far end of the scale, 584 years after the origin: practically never.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the clock's origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this time plus `duration`, or [`Time::MAX`] where the sum leaves the scale.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_ns(duration)))
    }

    /// Returns this time less `duration`, or [`Time::ZERO`] where the difference leaves the scale.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_ns(duration)))
    }

    /// Returns how long after `earlier` this time is; zero where it is not after it.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns whether a clock that stands at `now` has come to this time. The end of the scale never passes.
    #[inline]
    pub(crate) const fn has_passed(self, now: Self) -> bool {
        self.0 <= now.0 && self.0 < Self::MAX.0
    }
}

/// Adds and saturates at [`Time::MAX`].
impl Add<Duration> for Time {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

/// Subtracts and saturates at [`Time::ZERO`].
impl Sub<Duration> for Time {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub(duration)
    }
}

/// The distance from the right time to the left one; zero where the left one is not the later.
impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// As a duration since the clock's origin, `1.5s`; `never` at the end of the scale.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            f.pad("never")
        } else {
            fmt::Debug::fmt(&Duration::from_nanos(self.0), f)
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

/// Returns a duration in nanoseconds, `u64::MAX` where it is longer than 584 years.
///
/// Goes by seconds and remainder: `Duration::as_nanos` would multiply in 128 bits.
#[inline]
pub(crate) const fn saturating_ns(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(NANOS_PER_SECOND) {
        Some(whole) => whole.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

/// A source of [`Time`].
///
/// ```
/// use std::sync::Weak;
/// use std::time::Duration;
/// use tickwheel::{Builder, Clock, Drive, ManualClock, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Another clock, a day ahead.
/// struct Tomorrow<C>(C);
///
/// impl<C: Clock> Clock for Tomorrow<C> {
///     fn now(&self) -> Time {
///         self.0.now() + Duration::from_secs(24 * 3600)
///     }
///
///     // What a clock that is made of another one must pass on:
///     fn longest_sleep(&self) -> Option<Duration> {
///         self.0.longest_sleep()
///     }
///
///     fn is_virtual(&self) -> bool {
///         self.0.is_virtual()
///     }
///
///     fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
///         self.0.on_advance(wake);
///     }
/// }
///
/// let timer = Builder::new().clock(Tomorrow(ManualClock::new())).drive(Drive::Manual).build()?;
/// assert_eq!(timer.now(), Time::from_nanos(86_400_000_000_000));
/// # Ok(()) }
/// ```
///
/// # Contract
///
/// * `now` never goes back: if one call of `now` happens before another, on the same thread or on
///   two that synchronise, the second result is not less than the first. An engine survives a clock
///   that breaks this (it keeps the latest time it has seen), but its timers are then late.
/// * `now` is called on hot paths from any thread: it should take nanoseconds, not block, not
///   panic.
/// * A clock whose time moves only by hand answers `true` to [`is_virtual`](Self::is_virtual) and
///   calls every hook given to [`on_advance`](Self::on_advance) each time after its time has moved.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no clock for timers",
    label = "does not implement `tickwheel::Clock`",
    note = "use `MonotonicClock`, a `ManualClock` for tests, or implement `Clock` for your own"
)]
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, in nanoseconds since this clock's origin.
    fn now(&self) -> Time;

    /// Returns how long a worker, or a loop that asks for its timeout, may sleep before it reads this clock again;
    /// `None` for as long as there is nothing to do. Asked once, when a timer is built.
    ///
    /// For clocks whose time may run on faster than that by which the operating system sleeps, as a
    /// clock's does that counts a suspended machine's time.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// Returns whether time moves only by hand. Asked once, when a timer is built.
    ///
    /// Workers of such a clock sleep without a timeout and rely on the hooks to learn that time
    /// moved.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Registers a hook that a virtual clock calls after each time it moved, on the thread that
    /// moved it.
    ///
    /// Who registers a hook must read `now` afterwards once, or a move in between goes unnoticed.
    /// A hook is registered as long as its owner keeps it: the clock upgrades it before each call, and
    /// forgets it when that fails. So a clock that outlives its engines does not keep theirs. Clocks that
    /// are not virtual ignore hooks, which is the default.
    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// A shared clock is a clock: several engines can run on one.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Time {
        (**self).now()
    }

    fn longest_sleep(&self) -> Option<Duration> {
        (**self).longest_sleep()
    }

    fn is_virtual(&self) -> bool {
        (**self).is_virtual()
    }

    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        (**self).on_advance(wake);
    }
}

/// Returns the time, beside a panic that may be under way: a clock that panics as well is logged, and answers `None`.
/// Without the standard library there is no net: it ends the process then.
pub(crate) fn read_quietly(clock: &(impl Clock + ?Sized)) -> Option<Time> {
    #[cfg(feature = "std")]
    return crate::contain::catch_and_log("a clock", || clock.now());
    #[cfg(not(feature = "std"))]
    return Some(clock.now());
}

/// The tick that never comes: the deadline of every timer whose time does not fit the scale.
pub(crate) const NEVER: u64 = u64::MAX;

/// A tick of so many nanoseconds or more is coarse: see [`TickRate::is_coarse`].
#[cfg(feature = "threads")]
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
    pub(crate) const fn new(tick_ns: u64) -> Self {
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
    pub(crate) const fn tick(&self) -> Duration {
        Duration::from_nanos(self.tick_ns)
    }

    /// Returns the tick that `now` lies in: the number of whole ticks before it.
    #[inline]
    pub(crate) const fn current(&self, now: Time) -> u64 {
        let high = ((self.magic as u128 * now.0 as u128) >> 64) as u64;
        (high + ((now.0 - high) >> 1)) >> self.shift
    }

    /// Returns the tick at which a timer of `delay` set at `now` may fire.
    ///
    /// Rounds up: the tick begins at `now + delay` or later. A zero delay gives the current tick,
    /// which is due at once. A sum beyond the scale gives [`NEVER`], at the end of the scale as well.
    #[inline]
    pub(crate) const fn deadline(&self, now: Time, delay: Duration) -> u64 {
        let deadline = now.saturating_add(delay);
        if deadline.0 > now.0 {
            return self.ceil(deadline.0);
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
    pub(crate) const fn deadline_at(&self, deadline: Time) -> u64 {
        match deadline.0 {
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
    #[cfg(feature = "threads")]
    #[inline]
    pub(crate) const fn is_coarse(&self) -> bool {
        self.tick_ns >= COARSE_NS
    }

    /// Returns `ceil(ns / tick)` for `ns >= 1`, but [`NEVER`] for the end of the scale.
    #[inline]
    const fn ceil(&self, ns: u64) -> u64 {
        // For n >= 1, ceil(n / d) = floor((n - 1) / d) + 1.
        if ns == u64::MAX {
            Self::never()
        } else {
            self.current(Time(ns - 1)) + 1
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
    pub(crate) const fn start_of(&self, tick: u64) -> Time {
        Time(tick.saturating_mul(self.tick_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_saturate_at_both_ends() {
        let (second, ns) = (Duration::from_secs(1), Duration::from_nanos);
        let at = Time::ZERO + second;
        assert_eq!(
            [Time::MAX + second, Time::from_nanos(1) + Duration::MAX],
            [Time::MAX; 2]
        );
        assert_eq!(
            [Time::MAX - Duration::MAX, at - 2 * second],
            [Time::ZERO; 2]
        );
        assert_eq!((at + second) - second, at);
        assert_eq!([Time::ZERO - at, at - Time::ZERO], [Duration::ZERO, second]);
        assert_eq!(
            Time::MAX.saturating_duration_since(Time::ZERO),
            ns(u64::MAX)
        );
        assert_eq!(
            [ns(u64::MAX), ns(u64::MAX) + ns(1)].map(saturating_ns),
            [u64::MAX; 2]
        );
        assert_eq!(format!("{at:?} {:?}", Time::MAX), "Time(1s) Time(never)");
        assert_eq!(
            format!("{} {}", Time::ZERO + second / 2, Time::MAX),
            "500ms never"
        );
    }

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
            prop_assert_eq!(rate.current(Time(n)), n / divisor);
            // Multiples and their neighbours are where an inexact reciprocal would slip.
            let multiple = n / divisor * divisor;
            for near in [multiple.wrapping_sub(1), multiple, multiple.saturating_add(1)] {
                prop_assert_eq!(rate.current(Time(near)), near / divisor);
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
