//! Uptimes, spans and jumps that other timer wheels got wrong.

use crate::support::checked_wheel::{CheckedWheel, wheels};
use tickwheel::wheel::{Entry, Wheel};

/// A budget that never runs out in these tests.
const AMPLE: usize = 100_000;

/// Uptimes at which 32-bit ticks, signed ticks or the rings of other wheels wrapped.
const BOUNDARIES: [u32; 6] = [30, 31, 32, 36, 42, 63];

/// A wheel whose hand has been moved to `hand`, with an entry far behind every tick of the test.
fn aged(wheel: (&'static str, tickwheel::wheel::AnyWheel), hand: u64) -> (CheckedWheel, u64) {
    let mut wheel = CheckedWheel::new(wheel);
    let far = hand.saturating_add(hand / 2).saturating_add(1 << 20);
    wheel.insert(far);
    wheel.advance_fully(hand, AMPLE);
    (wheel, far)
}

#[test]
fn uptime_boundaries_are_crossed_by_jumps() {
    for bit in BOUNDARIES {
        for wheel in wheels() {
            let boundary = 1_u64 << bit;
            let (mut wheel, far) = aged(wheel, boundary - 5000);
            for jump in [1, 63, 64, 65, 511, 512, 513, 4097, 10_000] {
                for offset in [0, 1, 2, jump / 2, jump, jump + 1] {
                    wheel.insert(wheel.hand() + offset);
                    wheel.insert(boundary - 1 + offset);
                }
                wheel.advance_fully(wheel.hand() + jump, 3);
            }
            wheel.advance_fully(far, AMPLE);
        }
    }
}

#[test]
fn delays_reach_to_the_end_of_the_scale() {
    for wheel in wheels() {
        let mut wheel = CheckedWheel::new(wheel);
        let far = [1 << 62, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for deadline in far.into_iter().rev().chain(far) {
            wheel.insert(deadline);
        }
        for deadline in far {
            wheel.advance_fully(deadline - 1, AMPLE);
            wheel.advance_fully(deadline, 1);
            wheel.insert(deadline);
        }
        assert!(!wheel.advance(u64::MAX, 10));
        wheel.insert(u64::MAX);
        wheel.insert(0);
        wheel.advance_fully(u64::MAX, 1);
        assert_eq!(wheel.hand(), u64::MAX);
    }
}

/// Entries that move to finer rings while a sweep is half-way must not slip past it, wherever it stands.
#[test]
fn a_sweep_cycle_finds_dead_entries_although_time_passes() {
    let filled = |number: usize| {
        let (name, mut wheel) = wheels().swap_remove(number);
        for n in 0..1600 {
            let row = u64::from(n / 4);
            let deadline =
                [100 + row, 1024 + row, 66_000 + 100 * row, 150_000 + 977 * row][n as usize % 4];
            wheel.insert(Entry { deadline, index: n / 4, mark: 0 });
        }
        (name, wheel)
    };
    let is_dead = &mut |entry: Entry| entry.index % 2 == 0;
    for (number, to) in (0..wheels().len()).flat_map(|number| [(number, 1024), (number, 66_000)]) {
        for calls in 0.. {
            let (name, mut wheel) = filled(number);
            if (0..calls).any(|_| wheel.sweep(31, is_dead).cycle_done) {
                assert!(calls > 1600 / 64, "{name}: a call keeps to its budget");
                break;
            }
            let mut due = Vec::new();
            while wheel.advance(to, 50, &mut due) {}
            while !wheel.sweep(31, is_dead).cycle_done {}
            wheel.drain_all(&mut |entry| {
                assert!(!is_dead(entry), "{name}: {entry:?} after {calls} calls and {to} ticks");
            });
        }
    }
}
