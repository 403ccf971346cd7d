//! Failures that other timer systems had with time: wraps, spans, jumps, clocks that go back, pauses.

use crate::support::setup::{
    HOUR, each_recording, each_setup, each_setup_from, ms, one_shard, recording, secs, us,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tickwheel::{Clock, Drive, Time};

#[test]
fn the_wheel_does_not_wrap_at_any_uptime_with_a_far_timer_present() {
    for power in [30_u32, 31, 32, 36, 42] {
        let boundary = 1_u64 << power;
        each_setup_from(Time::ZERO + ms(boundary - 4), |at| {
            let (timer, fired) = at.recording();
            timer.schedule(100 * 365 * 24 * HOUR, 100).unwrap();
            at.wait_idle(&timer);
            for after in 0..8 {
                timer.schedule(ms(after), after).unwrap();
            }
            for after in 0..8 {
                at.wait_idle(&timer);
                assert_eq!(fired.ids(), [after], "2^{power} ms - 4 + {after}");
                at.clock.advance(ms(1));
            }
            at.wait_idle(&timer);
            assert!(fired.ids().is_empty());
            assert_eq!(timer.stop().unwrap()[0].payload, 100);
        });
    }
}

#[test]
fn a_delay_that_is_an_exact_multiple_of_a_rings_span_is_exact() {
    // Spans of the rings and of what lies between them, and multiples of both.
    for span in [8, 16, 64, 128, 512, 4_096, 8_192, 262_144, 524_288] {
        // From a moment aligned to the span, and from one beside it.
        for start in [0, span, span + 1, 3 * span - 1] {
            each_setup_from(Time::ZERO + ms(start), |at| {
                let (timer, fired) = at.recording();
                at.wait_idle(&timer);
                timer.schedule(ms(span), 1).unwrap();
                timer.schedule(ms(2 * span), 2).unwrap();
                at.advance(&timer, ms(span - 1));
                assert!(fired.ids().is_empty(), "early: {span} from {start}");
                at.advance(&timer, ms(1));
                assert_eq!(fired.ids(), [1], "late: {span} from {start}");
                at.advance(&timer, ms(span - 1));
                assert!(fired.ids().is_empty());
                at.advance(&timer, ms(1));
                assert_eq!(fired.ids(), [2]);
            });
        }
    }
}

/// Netty walks every tick that a suspend has missed.
#[test]
fn unlike_netty_a_forward_jump_fires_all_in_order_and_costs_little() {
    each_setup(|at| {
        let (timer, fired) = recording(at.builder().tick(us(1)));
        for id in (0..1_000).rev() {
            timer.schedule(us(3_600_000 * id), id).unwrap();
        }
        let month = 720 * HOUR;
        timer.schedule(month - us(1), 1_000).unwrap();
        timer.schedule(month + us(1), 1_001).unwrap();
        at.wait_idle(&timer);
        for (jump, expected) in [(HOUR, 0..1_000), (month - HOUR, 1_000..1_001)] {
            let before = timer.stats().shards[0].turns;
            at.advance(&timer, jump);
            assert_eq!(fired.ids(), expected.collect::<Vec<_>>());
            let turns = timer.stats().shards[0].turns - before;
            assert!(turns < 100, "{turns} turns for {jump:?} of microseconds");
        }
        assert_eq!(timer.pending(), 1);
    });
}

/// A clock that can be set back, against its contract.
#[derive(Clone, Default)]
struct SetBack(Arc<AtomicU64>);

impl Clock for SetBack {
    fn now(&self) -> Time {
        Time::ZERO + ms(self.0.load(Ordering::SeqCst))
    }
}

#[test]
fn a_clock_that_goes_backwards_makes_timers_late_and_loses_none() {
    let clock = SetBack::default();
    let builder = one_shard().drive(Drive::Manual).clock(clock.clone());
    let (timer, fired) = recording(builder);
    clock.0.store(1_000, Ordering::SeqCst);
    for id in 0..100 {
        timer.schedule(ms(id * 10), id).unwrap();
    }
    // Forward and back again, further each time. What counts is the latest time seen so far.
    let (mut latest, mut seen) = (1_000, timer.turn().unwrap() as u64);
    for now in [1_100, 500, 1_300, 0, 1_200, 1_299, 1_301, 900, 2_000] {
        clock.0.store(now, Ordering::SeqCst);
        latest = now.max(latest);
        seen += timer.turn().unwrap() as u64;
        assert_eq!(seen, ((latest - 1_000) / 10 + 1).min(100), "at {now}");
    }
    assert_eq!(fired.ids(), (0..100).collect::<Vec<_>>());
    assert_eq!((seen, timer.pending()), (100, 0));
}

#[test]
fn a_clock_that_goes_backwards_makes_no_timer_early() {
    let clock = SetBack::default();
    let builder = one_shard().drive(Drive::Manual).clock(clock.clone());
    let (timer, fired) = recording(builder);
    clock.0.store(100, Ordering::SeqCst);
    assert_eq!(timer.turn(), Ok(0));
    clock.0.store(50, Ordering::SeqCst);
    timer.schedule(ms(10), 1).unwrap();
    assert_eq!(
        timer.turn(),
        Ok(0),
        "10 ms have not passed by any reading of this clock"
    );
    clock.0.store(110, Ordering::SeqCst);
    assert_eq!((timer.turn(), fired.ids()), (Ok(1), vec![1]));
}

#[test]
fn a_pause_is_followed_by_one_firing_each_in_order() {
    each_recording(|at, timer, fired| {
        for id in 0..500 {
            timer.schedule(ms(id), id).unwrap();
        }
        at.advance(&timer, ms(99));
        assert_eq!(fired.ids(), (0..100).collect::<Vec<_>>());
        // The process stands still for ten minutes.
        at.advance(&timer, secs(600));
        let late = fired.take();
        assert!(late.iter().map(|e| e.payload).eq(100..500));
        assert!(
            late.iter()
                .all(|e| e.lateness == ms(99) + secs(600) - ms(e.payload))
        );
        at.advance(&timer, secs(600));
        assert!(fired.ids().is_empty(), "nothing is made up for twice");
        timer.schedule(Duration::ZERO, 1).unwrap();
        at.wait_idle(&timer);
        assert_eq!(fired.ids(), [1]);
    });
}
