//! `FixedTimer` against the model: the deadlines are exact, and the timers fire in the order of their last schedule.

use super::book::{Armed, Book};
use super::choices::{Act, Limit, Ops, Span, weighted};
use super::ledger::Payload;
use super::local_model::{Local, Op, World, run};
use super::ticks::Ticks;
use arbitrary::Arbitrary;
use std::time::Duration;
use tickwheel::{FixedTimer, Key, Reschedule, Settings, Time, When};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    delay: Span,
    max_pending: Limit,
    uptime: Span,
    flood: Flood,
    ops: Ops<Op>,
}

weighted! {
    /// Many timers at once, of which most are cancelled again.
    enum Flood {
        7 => None,
        1 => Of { fours: u8, keep: u8 },
    }
}

/// Spans and steps are in these units, delays of single calls in nanoseconds.
const UNIT: Ticks = Ticks(1_000);

impl Local for FixedTimer<Payload> {
    fn fixed_delay(&self) -> Option<Duration> {
        Some(self.delay())
    }

    fn arm(&mut self, now: Time, _: When, payload: Payload) -> Armed {
        self.schedule(now, payload)
    }

    fn move_to(&mut self, now: Time, key: Key<Payload>, _: When) -> Reschedule {
        self.reschedule(now, key)
    }

    fn get(&self, key: Key<Payload>) -> Option<&Payload> {
        self.get(key)
    }

    fn get_mut(&mut self, key: Key<Payload>) -> Option<&mut Payload> {
        self.get_mut(key)
    }
}

/// Runs the case; panics where timer and model differ.
pub fn check(case: &Case) {
    let limit = case.max_pending.get();
    let settings = limit
        .into_iter()
        .fold(Settings::new(), Settings::max_pending);
    let mut timer = settings
        .build_fixed(case.delay.duration(UNIT))
        .expect("valid");
    let mut book = Book::new(Ticks(1), limit);
    book.is_queue = true;
    let mut world = World::new(book, case.uptime, UNIT);
    if let Flood::Of { fours, keep } = case.flood {
        for n in 0..4 * usize::from(fours) {
            world.act(
                &mut timer,
                Act::Schedule {
                    by: (),
                    delay: Span::Zero,
                },
            );
            if keep == 0 || n % usize::from(keep) != 0 {
                world.act(&mut timer, Act::Cancel { by: (), pick: 0 });
            }
        }
    }
    run(&mut world, timer, &case.ops);
}
