//! Deadlines: from what a caller says to a tick, and the present of a timer that is told the time.

use super::slack::Grid;
use super::when::Kind;
use super::{TickRate, Time, When};
use core::time::Duration;

/// When a timer is to fire, on its own scales.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// Before it is rounded to a tick.
    pub nominal: Time,
    pub tick: u64,
}

impl Deadline {
    /// Returns the deadline of a delay that counts from `start`.
    #[inline(always)]
    pub(crate) fn after(rate: &TickRate, start: Time, delay: Duration, grid: Grid) -> Self {
        if grid == Grid::EXACT {
            return match start.later_by(delay) {
                Some(nominal) => Self {
                    nominal,
                    tick: rate.deadline_at(nominal),
                },
                None => Self::apart(rate, start, delay),
            };
        }
        let nominal = grid.round_up(start.saturating_add(delay));
        Self {
            nominal,
            tick: rate.deadline_at(nominal),
        }
    }

    /// Returns the deadline of a delay that is zero, or long, or that leads beyond the scale.
    #[cold]
    #[inline(never)]
    fn apart(rate: &TickRate, start: Time, delay: Duration) -> Self {
        Self {
            nominal: start.saturating_add(delay),
            tick: rate.deadline(start, delay),
        }
    }
}

/// The latest time that a timer was told: its present, if it reads no clock of its own. It never goes back.
#[derive(Clone, Copy)]
pub struct MonotonicNow(pub Time);

impl MonotonicNow {
    pub const NONE: Self = Self(Time::ZERO);

    /// Returns the present of a call that is told `now`.
    #[inline]
    pub fn present(self, now: Time) -> Time {
        self.0.max(now)
    }

    /// Returns the deadline of a timer that is set in a call that is told `now`; an instant counts on the machine's
    /// clock.
    #[inline(always)] // so that the usual kind, which is known at compile time, costs no branch
    pub fn deadline(&mut self, rate: &TickRate, now: Time, when: When) -> Deadline {
        let nominal = match when.kind() {
            Kind::After(grid, delay) => return Deadline::after(rate, now, delay, grid),
            Kind::At(grid, time) => grid.round_up(time),
            Kind::AtInstant(grid, instant) => grid.round_up(instant.into()),
        };
        let tick = if nominal > self.present(now) {
            rate.deadline_at(nominal)
        } else {
            self.tick_of_passed(rate, now, nominal)
        };
        Deadline { nominal, tick }
    }

    /// Returns the tick of a point in time that has passed, which is due at once.
    #[cold]
    #[inline(never)]
    fn tick_of_passed(&mut self, rate: &TickRate, now: Time, point: Time) -> u64 {
        let present = self.present(now);
        let tick = rate.due(point, present);
        if tick < rate.deadline_at(point) {
            // Polls know of this present, too: a time that goes back must not make the timer early.
            self.0 = present;
        }
        tick
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::time::Instant;

    const RATE: TickRate = TickRate::new(1_000_000);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn deadline(now: Time, when: impl Into<When>) -> (Time, u64) {
        let mut latest = MonotonicNow::NONE;
        let Deadline { nominal, tick } = latest.deadline(&RATE, now, when.into());
        (nominal, tick)
    }

    #[test]
    fn a_delay_counts_from_the_start_and_a_point_is_compared_with_the_present() {
        let (now, half) = (Time::ZERO + ms(7), ms(1) / 2);
        assert_eq!(deadline(now, ms(5)), (Time::ZERO + ms(12), 12));
        assert_eq!(deadline(now, ms(5) + half), (now + ms(5) + half, 13));
        assert_eq!(deadline(now, now + half), (now + half, 8), "rounded up");
        assert_eq!(deadline(now, now), (now, 7));
        assert_eq!(deadline(now, now - half), (now - half, 7));
        assert_eq!(deadline(now + half, now + half), (now + half, 7), "due");
        let instant = Instant::now() + ms(1);
        assert_eq!(
            deadline(Time::ZERO, instant),
            deadline(Time::ZERO, Time::from(instant))
        );
    }

    #[test]
    fn a_delay_of_any_length_leads_to_the_sum() {
        let long = Duration::from_secs(1 << 30);
        let ns = Duration::from_nanos(1);
        let delays = [
            Duration::ZERO,
            ns,
            ms(5),
            long - ns,
            long,
            4 * long,
            Duration::MAX,
        ];
        let far = Time::MAX - ns;
        for start in [
            Time::ZERO,
            Time::ZERO + ms(7),
            far - long,
            far - ms(5),
            far,
            Time::MAX,
        ] {
            for delay in delays {
                let expected = (start.saturating_add(delay), RATE.deadline(start, delay));
                assert_eq!(deadline(start, delay), expected, "{start} and {delay:?}");
            }
        }
    }

    #[test]
    fn a_point_that_was_due_keeps_the_present_from_going_back() {
        let mut latest = MonotonicNow::NONE;
        let (now, half) = (Time::ZERO + ms(7), ms(1) / 2);
        let due = latest.deadline(&RATE, now + half, (now + half).into());
        assert_eq!((due.tick, latest.present(Time::ZERO)), (7, now + half));
    }

    #[test]
    fn a_slack_moves_every_kind_to_the_same_points() {
        let (now, slack) = (Time::ZERO + ms(7), ms(100));
        let point = Time::from_nanos(3 << 26); // 201.3 ms; 2^26 ns are 67 ms
        for when in [When::from(ms(150)), When::from(now + ms(150))] {
            assert_eq!(deadline(now, when.with_slack(slack)), (point, 202));
        }
        let instant = Instant::now();
        let by_time = When::from(Time::from(instant)).with_slack(slack);
        assert_eq!(
            deadline(now, When::from(instant).with_slack(slack)),
            deadline(now, by_time)
        );
        let at_once = When::from(Duration::ZERO).with_slack(slack);
        assert_eq!(deadline(now, at_once), (now, 7));
        let exact = When::from(ms(5)).with_slack(slack).exact();
        assert_eq!(deadline(now, exact), (now + ms(5), 12));
    }
}
