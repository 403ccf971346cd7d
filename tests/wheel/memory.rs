//! What the wheels allocate, hold and give back, with an allocator that counts per thread.

use crate::support::allocations::allocations;
use crate::support::random::Random;
use tickwheel::wheel::{AnyWheel, Entry, Hashed, Hierarchical, Wheel};

fn wheels() -> [(&'static str, AnyWheel); 3] {
    [
        ("hierarchical", AnyWheel::Hierarchical(Hierarchical::new())),
        ("hashed 512", AnyWheel::Hashed(Hashed::new(512))),
        ("hashed 2^16", AnyWheel::Hashed(Hashed::new(1 << 16))),
    ]
}

fn entry(deadline: u64, index: u32) -> Entry {
    Entry { deadline, index, mark: 0 }
}

fn fill(wheel: &mut AnyWheel, count: u32, after: u64, span: u64) {
    let mut random = Random::new(0x2545_F491_4F6C_DD1D);
    let hand = wheel.hand();
    for index in 0..count {
        wheel.insert(entry(hand + after + random.below(span), index));
    }
}

/// Insert, advance and sweep in a fixed proportion: after a warm-up the pools have what it takes.
#[test]
fn a_steady_state_allocates_nothing() {
    for (name, mut wheel) in wheels() {
        let mut random = Random::new(88_172_645_463_325_252);
        let mut due = Vec::with_capacity(4096);
        let mut run = |wheel: &mut AnyWheel, ticks: u64| {
            for _ in 0..ticks {
                let now = wheel.hand() + 1;
                for index in 0..10 {
                    wheel.insert(entry(now + 1 + random.below(2000), index));
                }
                due.clear();
                while wheel.advance(now, 100, &mut due) {}
                wheel.sweep(20, &mut |entry| entry.index % 2 == 0);
            }
        };
        run(&mut wheel, 6000);
        let before = allocations();
        run(&mut wheel, 4000);
        assert_eq!(allocations() - before, 0, "{name}");
    }
}

#[test]
fn swept_zombies_give_their_memory_back() {
    for (name, mut wheel) in wheels() {
        let start = wheel.held_bytes();
        fill(&mut wheel, 300_000, 10_000, 100_000);
        let peak = wheel.held_bytes();
        assert!(peak < 300_000 * 48 + start, "{name}: {peak} bytes at the peak");
        let mut calls = 0;
        while !wheel.sweep(1000, &mut |entry| entry.index % 1000 != 0).cycle_done {
            calls += 1;
        }
        assert!(calls >= 290, "{name}: the sweep kept to its budget");
        assert_eq!(wheel.len(), 300, "{name}");
        let left = wheel.held_bytes();
        assert!(left < start + (5 << 20), "{name}: {start} at first, {peak} at most, {left} left");
    }
}

#[test]
fn fired_timers_give_their_memory_back() {
    for (name, mut wheel) in wheels() {
        let start = wheel.held_bytes();
        fill(&mut wheel, 300_000, 1, 60_000);
        let mut due = Vec::new();
        let mut fired = 0;
        while !wheel.is_empty() {
            let _ = wheel.advance(wheel.hand() + 500, 5000, &mut due);
            fired += due.len();
            due.clear();
        }
        assert_eq!(fired, 300_000, "{name}");
        let left = wheel.held_bytes();
        assert!(left < start + (3 << 20), "{name}: {start} at first, {left} left");
    }
}

#[test]
fn far_timers_show_their_exact_deadline_and_need_no_wakeup() {
    for (name, mut wheel) in wheels() {
        let hour = 3_600_000;
        fill(&mut wheel, 1_000_000, hour, 1000);
        let first = wheel.next_deadline();
        assert!(first.is_some_and(|first| first >= hour), "{name}: {first:?}");
        let before = allocations();
        let mut due = Vec::new();
        for quarter in 1..=3 {
            // A budget of nothing: the wheel may neither yield nor owe anything.
            assert!(!wheel.advance(hour / 4 * quarter, 0, &mut due), "{name}");
            assert_eq!(wheel.next_deadline(), first, "{name}");
        }
        assert_eq!(allocations(), before, "{name}: time passes without allocating");
        let _ = wheel.advance(first.unwrap_or(0), 1_000_000, &mut due);
        assert!(due.iter().all(|entry| Some(entry.deadline) == first) && !due.is_empty(), "{name}");
    }
}
