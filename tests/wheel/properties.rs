//! Random operations on every kind of wheel, each step compared with the model.

use super::model::{Checked, wheels};
use proptest::prelude::*;

/// One operation; ticks are relative to the hand so that every case reaches all of time.
#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    /// A deadline at or before the hand, by this much.
    InsertOverdue(u64),
    /// A deadline in the same tick as the earliest entry, which an unfinished advance may be yielding.
    InsertAtFirst,
    Cancel(usize),
    Advance {
        by: u64,
        budget: usize,
    },
    AdvanceFully {
        by: u64,
        budget: usize,
    },
    /// To the earliest deadline, give or take a tick.
    AdvanceToFirst {
        offset: i64,
        budget: usize,
    },
    Sweep(usize),
    SweepCycle(usize),
    Drain,
}

/// Spans of one tick to all of time, thick around the powers of two where rings and revolutions end.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..=70,
        3 => 0_u64..6000,
        2 => 0_u64..400_000,
        2 => (0_u32..64, -2_i64..=2).prop_map(|(bit, off)| (1_u64 << bit).saturating_add_signed(off)),
        1 => (1_u64..64, 0_u32..10).prop_map(|(digit, ring)| digit << (6 * ring)),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

/// Steps of time: mostly small, sometimes far beyond a revolution, rarely to the end.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0_u64..=3,
        4 => 0_u64..=200,
        3 => 0_u64..20_000,
        2 => (0_u32..50).prop_map(|bit| 1_u64 << bit),
        1 => span(),
    ]
}

fn budget() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1_usize..=4, 2 => 5_usize..=40, 1 => 41_usize..=1000, 1 => Just(0)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => span().prop_map(Op::Insert),
        2 => (0_u64..100).prop_map(Op::InsertOverdue),
        8 => Just(Op::InsertAtFirst),
        10 => any::<usize>().prop_map(Op::Cancel),
        10 => (step(), budget()).prop_map(|(by, budget)| Op::Advance { by, budget }),
        3 => (step(), 1_usize..50).prop_map(|(by, budget)| Op::AdvanceFully { by, budget }),
        10 => (-1_i64..=1, budget()).prop_map(|(offset, budget)| Op::AdvanceToFirst { offset, budget }),
        8 => (0_usize..40).prop_map(Op::Sweep),
        2 => (1_usize..100).prop_map(Op::SweepCycle),
        1 => Just(Op::Drain),
    ]
}

fn apply(wheel: &mut Checked, op: &Op) {
    let hand = wheel.hand();
    match *op {
        Op::Insert(span) => drop(wheel.insert(hand.saturating_add(span))),
        Op::InsertOverdue(late) => drop(wheel.insert(hand.saturating_sub(late))),
        Op::InsertAtFirst => drop(wheel.insert(wheel.first_tick().unwrap_or(hand))),
        Op::Cancel(pick) => wheel.cancel(pick),
        Op::Advance { by, budget } => drop(wheel.advance(hand.saturating_add(by), budget)),
        Op::AdvanceFully { by, budget } => wheel.advance_fully(hand.saturating_add(by), budget),
        Op::AdvanceToFirst { offset, budget } => {
            let first = wheel.first_tick().unwrap_or(hand);
            wheel.advance(first.saturating_add_signed(offset), budget);
        }
        Op::Sweep(budget) => drop(wheel.sweep(budget)),
        Op::SweepCycle(budget) => wheel.sweep_cycle(budget),
        Op::Drain => wheel.drain(),
    }
}

/// Many entries in few ticks: chains of several chunks that budgets cut in the middle.
fn crowd() -> impl Strategy<Value = Vec<u64>> {
    let ticks = prop::collection::vec(span(), 1..6);
    (ticks, 0_usize..200)
        .prop_map(|(ticks, count)| (0..count).map(|n| ticks[n * 7 % ticks.len()].max(1)).collect())
}

/// Each case runs five wheels, so half the usual number keeps `cargo test` short.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 2, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn wheels_behave_like_the_sorted_map(
        crowd in crowd(),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        for wheel in wheels() {
            let mut wheel = Checked::new(wheel);
            for &deadline in &crowd {
                wheel.insert(deadline);
            }
            for op in &ops {
                apply(&mut wheel, op);
            }
            wheel.advance_fully(u64::MAX, 7);
        }
    }

    #[test]
    fn crowded_buckets_survive_interleaved_sweeps_and_advances(
        crowd in crowd(),
        base in span(),
        ops in prop::collection::vec((1_u64..300, 1_usize..20, 1_usize..30, any::<[usize; 6]>()), 1..25),
    ) {
        for wheel in wheels() {
            let mut wheel = Checked::new(wheel);
            wheel.advance_fully(base, 10);
            for &span in &crowd {
                wheel.insert(base.saturating_add(span));
            }
            for (by, fire, sweep, picks) in &ops {
                picks.iter().for_each(|&pick| wheel.cancel(pick));
                wheel.sweep(*sweep);
                wheel.advance(wheel.hand().saturating_add(*by), *fire);
                wheel.insert(wheel.first_tick().unwrap_or(base));
                wheel.insert(wheel.hand().saturating_add(*by * 64));
            }
            wheel.advance_fully(wheel.hand().saturating_add(1), 1);
            wheel.sweep_cycle(5);
            wheel.drain();
        }
    }
}
