//! The clock of the Redis server as this process sees it: each answer that carries the time there is a
//! sample, and the one with the shortest round trip is believed. The wall clock of this machine is not used.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::units::lock;

/// How long a sample is believed though later ones had longer round trips.
const BELIEVED: Duration = Duration::from_secs(10);

/// An estimate of another machine's clock.
#[derive(Debug, Default)]
pub(crate) struct RedisClock {
    sample: Mutex<Option<Sample>>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The middle of the round trip, when it was `redis_us` there.
    at: Instant,
    redis_us: u64,
    round_trip: Duration,
}

impl Sample {
    fn redis_us_at(&self, moment: Instant) -> u64 {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        match moment.checked_duration_since(self.at) {
            Some(later) => self.redis_us.saturating_add(micros(later)),
            None => self.redis_us.saturating_sub(micros(self.at - moment)),
        }
    }
}

impl RedisClock {
    /// Learns from an answer.
    pub(crate) fn observe(&self, sent: Instant, received: Instant, redis_us: u64) {
        let round_trip = received.saturating_duration_since(sent);
        let new = Sample {
            at: sent + round_trip / 2,
            redis_us,
            round_trip,
        };
        let mut known = lock(&self.sample);
        let keep = known.is_some_and(|old| {
            let apart = old.redis_us_at(new.at).abs_diff(redis_us);
            let doubt = (old.round_trip + round_trip).as_micros() / 2 + 1000;
            // A clock that was set is believed at once, a slow answer is not.
            u128::from(apart) <= doubt
                && old.round_trip < round_trip
                && new.at.saturating_duration_since(old.at) < BELIEVED
        });
        if !keep {
            *known = Some(new);
        }
    }

    /// When it is `redis_ms` there; now if nothing is known.
    pub(crate) fn instant_of(&self, redis_ms: u64) -> Instant {
        let known = *lock(&self.sample);
        let Some(sample) = known else {
            return Instant::now();
        };
        let ahead = redis_ms.saturating_mul(1000).checked_sub(sample.redis_us);
        let at = ahead.and_then(|us| sample.at.checked_add(Duration::from_micros(us)));
        at.unwrap_or_else(Instant::now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_shortest_round_trip_is_believed_for_10_s() {
        let (clock, start) = (RedisClock::default(), Instant::now());
        clock.observe(start, start + 2 * MS, 1_000_000);
        // 40 ms on the way there: the middle is off by 19 ms, within its doubt.
        clock.observe(start + 10 * MS, start + 51 * MS, 1_049_000);
        assert_eq!(clock.instant_of(1_100), start + 101 * MS);
        clock.observe(start + 60 * MS, start + 61 * MS, 1_059_600);
        assert_eq!(
            clock.instant_of(1_100),
            start + 60 * MS + MS / 2 + MS * 404 / 10
        );
        let later = start + Duration::from_secs(11);
        clock.observe(later, later + 4 * MS, 12_002_500);
        assert_eq!(clock.instant_of(12_003), later + 2 * MS + MS / 2);
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let (clock, start) = (RedisClock::default(), Instant::now());
        clock.observe(start, start + MS, 1_000_000);
        clock.observe(start + 10 * MS, start + 12 * MS, 61_011_000);
        assert_eq!(clock.instant_of(61_100), start + 100 * MS);
        clock.observe(start + 20 * MS, start + 22 * MS, 500_000);
        assert_eq!(clock.instant_of(600), start + 121 * MS);
    }
}
