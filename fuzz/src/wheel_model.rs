//! The wheels by themselves. The oracle is the one of the library's own tests.

#[allow(dead_code, reason = "the library's tests use more of it")]
#[path = "../../tests/wheel/model.rs"]
mod model;

use crate::inputs::MAX_OPS;
use arbitrary::Arbitrary;
use model::Checked;
use tickwheel::wheel::{AnyWheel, Hashed, Hierarchical};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    wheel: Kind,
    uptime: Span,
    crowd: Option<Crowd>,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Kind {
    Hierarchical,
    Hashed(u16),
}

/// Many entries in few ticks, so that budgets cut buckets in the middle.
#[derive(Arbitrary, Debug)]
struct Crowd {
    first: Span,
    stride: u16,
    ticks: u8,
    entries: u8,
}

/// Ticks from now: few, many, around powers of two, at the edges of rings, anything.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Span {
    Near(u8),
    Middle(u16),
    Power(u8, i8),
    Ring(u8, u8),
    Any(u64),
}

impl Span {
    fn ticks(self) -> u64 {
        match self {
            Self::Near(ticks) => ticks.into(),
            Self::Middle(ticks) => ticks.into(),
            Self::Power(bit, off) => (1_u64 << (bit % 64)).saturating_add_signed(off.into()),
            Self::Ring(digit, ring) => u64::from(digit % 64) << (6 * (ring % 10)),
            Self::Any(ticks) => ticks,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Insert(Span),
    /// A multiple of the same span, as periodic users make them.
    InsertMultiples(Span, u8),
    InsertOverdue(u8),
    InsertAtFirst,
    Kill(u8),
    KillEveryOther,
    Advance(Span, u8),
    AdvanceToFirst(i8, u8),
    AdvanceFully(Span, u8),
    Sweep(u8),
    SweepCycle(u8),
    Drain,
}

fn apply(wheel: &mut Checked, op: Op) {
    let hand = wheel.hand();
    let ahead = |span: Span| hand.saturating_add(span.ticks());
    match op {
        Op::Insert(span) => drop(wheel.insert(ahead(span))),
        Op::InsertMultiples(span, times) => {
            for n in 1..=u64::from(times % 16) {
                wheel.insert(hand.saturating_add(span.ticks().saturating_mul(n)));
            }
        }
        Op::InsertOverdue(late) => drop(wheel.insert(hand.saturating_sub(late.into()))),
        Op::InsertAtFirst => drop(wheel.insert(wheel.first_tick().unwrap_or(hand))),
        Op::Kill(pick) => wheel.cancel(pick.into()),
        Op::KillEveryOther => (0..wheel.wheel_len()).step_by(2).for_each(|n| wheel.cancel(n)),
        Op::Advance(span, budget) => drop(wheel.advance(ahead(span), budget.into())),
        Op::AdvanceToFirst(off, budget) => {
            let first = wheel.first_tick().unwrap_or(hand);
            wheel.advance(first.saturating_add_signed(off.into()), budget.into());
        }
        Op::AdvanceFully(span, budget) => wheel.advance_fully(ahead(span), 1 + usize::from(budget)),
        Op::Sweep(budget) => drop(wheel.sweep(budget.into())),
        Op::SweepCycle(budget) => wheel.sweep_cycle(1 + usize::from(budget)),
        Op::Drain => wheel.drain(),
    }
}

/// Runs the case; panics where wheel and model differ.
pub fn check(case: &Case) {
    let mut wheel = Checked::new(match case.wheel {
        Kind::Hierarchical => ("hierarchical", AnyWheel::Hierarchical(Hierarchical::new())),
        Kind::Hashed(buckets) => {
            let buckets = (usize::from(buckets % 4096) + 1).next_power_of_two();
            ("hashed", AnyWheel::Hashed(Hashed::new(buckets)))
        }
    });
    wheel.advance_fully(case.uptime.ticks(), 1);
    if let Some(Crowd { first, stride, ticks, entries }) = case.crowd {
        for n in 0..u64::from(entries) {
            let offset = n * 7 % (1 + u64::from(ticks % 8)) * u64::from(stride);
            wheel.insert(wheel.hand().saturating_add(first.ticks()).saturating_add(offset));
        }
    }
    for op in case.ops.iter().take(MAX_OPS) {
        apply(&mut wheel, *op);
    }
    wheel.advance_fully(u64::MAX, 7);
}
