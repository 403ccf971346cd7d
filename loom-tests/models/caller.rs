//! The owner of one periodic timer, whose calls and entries a scenario can look at.

use super::harness::Payload;
use super::world::World;
use crate::drive::Fate;
use crate::node::periodic::Call;
use crate::node::record::Rescheduled;
use crate::node::table::Armed;
use crate::state::State;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::{Deadline, MissedTicks, Period, Recurrence, Repeat, TickRate, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A tick, in nanoseconds.
const TICK: u64 = 2;
/// The first deadline, and the length of the period, in ticks.
pub(super) const FIRST: u64 = 10;

pub(super) fn repeat(payload: Payload) -> Repeat<Payload> {
    let every = Duration::from_nanos(FIRST * TICK);
    let period = Period::fixed_rate(every, MissedTicks::Skip).unwrap();
    let first = Deadline { nominal: Time::from_nanos(FIRST * TICK), tick: FIRST };
    let course = Recurrence::new(first, period, TickRate::new(TICK));
    Repeat { payload, clone: Payload::clone, course }
}

/// The owner of one periodic timer: what it has called, and the entries that lie in its wheel.
pub(super) struct Owner {
    world: Arc<World>,
    pub(super) timer: Armed,
    /// Tick and mark.
    entries: BTreeSet<(u64, u32)>,
    /// The deadlines of the calls.
    pub(super) calls: Vec<u64>,
    /// A call came later than the tick after the one for which everybody was joined, and than its deadline.
    pub(super) late: bool,
    /// Set to 1 by a canceller that has won, or a mover that has moved the timer away.
    pub(super) before_the_call: Option<Arc<AtomicU64>>,
}

impl Owner {
    pub(super) fn new(world: &Arc<World>) -> Self {
        let armed = world.table.arm_periodic(
            &world.caches[0],
            repeat(world.payload(1)),
            world.payload(1),
            || (),
        );
        let timer = armed.unwrap();
        let entries = BTreeSet::from([(FIRST, timer.mark)]);
        Self {
            world: Arc::clone(world),
            timer,
            entries,
            calls: Vec::new(),
            late: false,
            before_the_call: None,
        }
    }

    /// A move's message has arrived.
    pub(super) fn arrived(&mut self, deadline: u64, moved: &Rescheduled) {
        if let Rescheduled::Earlier { mark } = *moved {
            self.entries.extend(self.world.table.arrive(self.timer.index, mark, deadline));
        }
    }

    /// Deals with the earliest entry, if it is due at `now`; false if none is.
    fn step(&mut self, now: u64) -> bool {
        let Some(&(tick, mark)) = self.entries.first().filter(|(tick, _)| *tick <= now) else {
            return false;
        };
        self.entries.remove(&(tick, mark));
        let Self { world, timer, .. } = self;
        let (table, cache) = (&world.table, world.owners_cache());
        match table.due(cache, timer.index, mark, now, |_| ()) {
            Fate::Drop => {}
            Fate::Reinsert(tick) => drop(self.entries.insert((tick, mark))),
            Fate::Fire(fired) => {
                assert!(fired.periodic && table.generation(fired.key) == timer.generation);
                assert!(fired.deadline <= now, "early: {} at {now}", fired.deadline);
                // ORDERING: Acquire pairs with the canceller's Release.
                let over = |over: &Arc<AtomicU64>| over.load(Ordering::Acquire) == 1;
                let over = self.before_the_call.as_ref().is_some_and(over);
                let fired = match table.confirm_call(cache, fired, now) {
                    Call::Begins(fired) => fired,
                    Call::Moved(inserted) => {
                        self.entries.extend(inserted);
                        return true;
                    }
                    Call::Ended(_) => return true,
                };
                assert!(
                    !over,
                    "a call begins after the cancel, or the move, that was to prevent it"
                );
                assert_eq!(fired.payload.id(), 1);
                self.calls.push(fired.deadline);
                self.late |= now > fired.deadline.max(FIRST + 1);
                drop(fired);
                let next = table.finish_call(cache, timer.index, Time::from_nanos(now * TICK));
                self.entries.extend(next);
            }
        }
        true
    }

    pub(super) fn run_to(&mut self, now: u64) {
        let mut steps = 0;
        while self.step(now) {
            steps += 1;
            assert!(steps < 20, "the owner does not come to rest: {:?}", self.entries);
        }
    }

    fn state(&self) -> Option<State> {
        self.world.table.state(self.timer.index, self.timer.generation)
    }

    /// The deadline that others see.
    pub(super) fn shown(&self) -> Option<u64> {
        self.world.table.deadline_of(self.timer.index, self.timer.generation)
    }

    pub(super) fn is_live(&self) -> bool {
        self.state().is_some_and(State::is_live)
    }
}
