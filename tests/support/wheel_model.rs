//! The wheel by itself: random operations, each answer compared with [`CheckedWheel`]'s models.

use super::checked_wheel::CheckedWheel;
use super::choices::{Ops, small, weighted};
use arbitrary::Arbitrary;

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    /// The logarithm of the buckets of the hashed wheel beside it.
    ring: u8,
    /// Small bursts, in which more than the order of ticks comes into play.
    bursts: Option<u8>,
    uptime: Span,
    crowd: Option<Crowd>,
    ops: Ops<Op>,
}

/// Many entries in few ticks, so that budgets cut buckets in the middle.
#[derive(Arbitrary, Debug)]
struct Crowd {
    first: Span,
    stride: u16,
    ticks: u8,
    entries: u8,
}

weighted! {
    /// Ticks from now: few, many, around powers of two, at the edges of rings, anything.
    enum Span {
        4 => Near(u8),
        4 => Middle(u16),
        3 => Power(u8, i8),
        2 => Ring(u8, u8),
        1 => Any(u64),
        1 => End,
    }
}

weighted! {
    /// Steps of time: mostly small, at times far beyond a revolution, seldom to the end.
    enum Advance {
        6 => Few(u8),
        4 => Near(u8),
        3 => Middle(u16),
        2 => Power(u8),
        1 => Far(Span),
    }
}

weighted! {
    enum Op {
        30 => Insert(Span),
        /// A multiple of the same span, as periodic users make them.
        4 => InsertMultiples(Span, u8),
        2 => InsertOverdue(u8),
        8 => InsertAtFirst,
        10 => Kill(u8),
        1 => KillEveryOther,
        10 => Advance(Advance, u8),
        10 => AdvanceToFirst(i8, u8),
        3 => AdvanceFully(Advance, u8),
        8 => Sweep(u8),
        2 => SweepCycle(u8),
        6 => TakeBacklog(u8),
        1 => Drain,
    }
}

impl Advance {
    fn ticks(self) -> u64 {
        match self {
            Self::Few(ticks) => (ticks % 4).into(),
            Self::Near(ticks) => ticks.into(),
            Self::Middle(ticks) => ticks.into(),
            Self::Power(bit) => 1 << (bit % 50),
            Self::Far(span) => span.ticks(),
        }
    }
}

impl Span {
    fn ticks(self) -> u64 {
        match self {
            Self::Near(ticks) => ticks.into(),
            Self::Middle(ticks) => ticks.into(),
            Self::Power(bit, off) => (1_u64 << (bit % 64)).saturating_add_signed(off.into()),
            Self::Ring(digit, ring) => u64::from(digit % 64) << (6 * (ring % 10)),
            Self::Any(ticks) => ticks,
            Self::End => u64::MAX,
        }
    }
}

fn apply(wheel: &mut CheckedWheel, op: Op) {
    let hand = wheel.hand();
    let ahead = |span: Span| hand.saturating_add(span.ticks());
    match op {
        Op::Insert(span) => drop(wheel.insert(ahead(span))),
        Op::InsertMultiples(span, times) => {
            for n in 1..=u64::from(times % 13) {
                wheel.insert(hand.saturating_add(span.ticks().saturating_mul(n)));
            }
        }
        Op::InsertOverdue(late) => drop(wheel.insert(hand.saturating_sub(late.into()))),
        Op::InsertAtFirst => drop(wheel.insert(wheel.first_tick().unwrap_or(hand))),
        Op::Kill(pick) => wheel.cancel(pick.into()),
        Op::KillEveryOther => wheel.cancel_every_other(),
        Op::Advance(by, budget) => {
            wheel.advance(hand.saturating_add(by.ticks()), small(budget));
        }
        Op::AdvanceToFirst(off, budget) => {
            let first = wheel.first_tick().unwrap_or(hand);
            wheel.advance(first.saturating_add_signed((off % 2).into()), small(budget));
        }
        Op::AdvanceFully(by, budget) => {
            wheel.advance_fully(hand.saturating_add(by.ticks()), 1 + small(budget));
        }
        Op::Sweep(budget) => drop(wheel.sweep(small(budget))),
        Op::TakeBacklog(limit) => wheel.take_backlog(small(limit)),
        Op::SweepCycle(budget) => wheel.sweep_cycle(1 + small(budget)),
        Op::Drain => wheel.drain(),
    }
}

/// Runs the case; panics where wheel and model differ.
pub fn check(case: &Case) {
    let bursts = case.bursts.map(|bursts| 1 + usize::from(bursts % 8));
    let mut wheel = CheckedWheel::new(bursts, 1 << (case.ring % 11));
    wheel.advance_fully(case.uptime.ticks(), 1);
    if let Some(Crowd {
        first,
        stride,
        ticks,
        entries,
    }) = case.crowd
    {
        for n in 0..u64::from(entries) {
            let offset = n * 7 % (1 + u64::from(ticks % 8)) * u64::from(stride);
            wheel.insert(
                wheel
                    .hand()
                    .saturating_add(first.ticks())
                    .saturating_add(offset),
            );
        }
    }
    for op in &case.ops.0 {
        apply(&mut wheel, *op);
    }
    wheel.advance_fully(u64::MAX, 7);
}
