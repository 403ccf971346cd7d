//! Handlers that put another timer in the place of the one that polls them, which they must not: memory stays safe.

use super::{MS, NOW};
use crate::support::loop_timer::LoopTimer;
use crate::support::random::Random;
use std::mem::swap;
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Period, Settings, Time};

type Payload = Arc<()>;

/// Swaps two timers at random, inside and outside of handlers. Each payload is dropped once, and nothing panics.
fn no_payload_is_lost<L: LoopTimer<Payload = Payload>>(
    build: impl Fn() -> L,
    arm: impl Fn(&mut L, Time, Payload),
) {
    for seed in 0..100 {
        let (mut random, payload) = (Random::new(seed), Payload::default());
        let (mut timer, mut other) = (build(), build());
        for round in 0..8 {
            let now = NOW + MS * round;
            for _ in 0..4 {
                arm(&mut timer, now, payload.clone());
                arm(&mut other, now, payload.clone());
            }
            let mut swaps = 0;
            timer.poll_with(now + MS, |timer, _| match random.below(8) {
                0..=2 => {
                    swaps += 1;
                    swap(timer, &mut other);
                }
                3 => *timer = build(),
                4 => _ = (timer.poll(now, |_| ()), other.poll(now, |_| ())),
                5 => timer.clear(),
                _ => arm(timer, now, payload.clone()),
            });
            if swaps % 2 == 1 {
                swap(&mut timer, &mut other);
            }
        }
        drop((timer, other));
        assert_eq!(Arc::strong_count(&payload), 1, "seed {seed}");
    }
}

#[test]
fn a_handler_that_swaps_its_timer_loses_no_payload() {
    let period = Period::fixed_delay(MS);
    no_payload_is_lost(
        || Settings::new().build_local().unwrap(),
        |timer, now, payload| _ = timer.schedule(now, Duration::ZERO, payload).unwrap(),
    );
    no_payload_is_lost(
        || Settings::new().build_local().unwrap(),
        |timer, now, payload| _ = timer.schedule_periodic(now, now, period, payload).unwrap(),
    );
    no_payload_is_lost(
        || EventLoopTimer::with_waker(Settings::new(), || ()).unwrap(),
        |timer, now, payload| _ = timer.schedule(now, Duration::ZERO, payload).unwrap(),
    );
    no_payload_is_lost(
        || EventLoopTimer::with_waker(Settings::new(), || ()).unwrap(),
        |timer, now, payload| _ = timer.schedule_periodic(now, now, period, payload).unwrap(),
    );
}
