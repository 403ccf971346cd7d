//! One periodic timer: its owner at a call, against whoever cancels, stops or moves it at any step.
//!
//! What is kept and what is handed to a call are two payloads; the [`World`] counts them, and the nodes.

use super::harness::{
    Bound, JoinHandle, Payload, UNIT, bounded, explore, explore_as, name_of, spawn_with,
};
use super::world::{Decided, OWNER, World};
use crate::node::fired::Fired;
use crate::node::moves::Move;
use crate::node::periodic::Call;
use crate::node::table::Armed;
use crate::state::State;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::{Deadline, MissedTicks, Period, Recurrence, Repeat, TickRate, Time};
use crate::wheel::Fate;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// A tick, in nanoseconds.
const TICK: u64 = 2;
/// The first deadline, and the length of the period, in ticks.
const FIRST: u64 = 10;
const SECOND: u64 = 2 * FIRST;

fn repeat(payload: Payload) -> Repeat<Payload> {
    let every = Duration::from_nanos(FIRST * TICK);
    let period = Period::fixed_rate(every, MissedTicks::Skip);
    let first = Deadline {
        nominal: Time::from_nanos(FIRST * TICK),
        tick: FIRST,
    };
    let recurrence = Recurrence::new(first, period, TickRate::new(TICK));
    Repeat {
        payload,
        clone: Payload::clone,
        recurrence,
    }
}

/// The owner of one periodic timer: what it has called, and the entries that lie in its wheel.
struct Owner {
    world: Arc<World>,
    timer: Armed,
    /// Tick and mark.
    entries: BTreeSet<(u64, u32)>,
    /// The deadlines of the calls.
    calls: Vec<u64>,
    /// A call came later than the tick after the one for which everybody was joined, and than its deadline.
    late: bool,
    /// Set to 1 by a thread that has done what rules out another call for the present deadline.
    over: Option<Arc<AtomicU64>>,
}

/// Explores what becomes of one periodic timer, with the payload 1.
fn explore_owner<F>(bound: Bound, scenario: F)
where
    F: Fn(&World, &mut Owner) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        scenario(&world, &mut owner);
        drop(owner);
        world.finish();
    });
}

impl Owner {
    fn new(world: &Arc<World>) -> Self {
        let plan = repeat(world.payload(1));
        let armed = world
            .table
            .arm_periodic(&world.caches[0], plan, world.payload(1), || ());
        let timer = armed.unwrap();
        let entries = BTreeSet::from([(FIRST, timer.mark)]);
        let world = Arc::clone(world);
        Self {
            world,
            timer,
            entries,
            calls: Vec::new(),
            late: false,
            over: None,
        }
    }

    /// Starts threads that move the timer, each to its tick.
    fn movers<const N: usize>(&self, to: [u64; N]) -> [JoinHandle<Move>; N] {
        let mut threads = 1..;
        to.map(|to| self.world.mover(threads.next().unwrap(), self.timer, to))
    }

    /// Starts a thread after whose step no call for the present deadline may begin.
    fn rules_out_calls<R: Send + 'static>(
        &mut self,
        step: impl FnOnce(&World, Armed) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let over = Arc::new(AtomicU64::new(0));
        self.over = Some(Arc::clone(&over));
        let timer = self.timer;
        spawn_with(&self.world, move |world| {
            let answer = step(world, timer);
            // ORDERING: Release pairs with the owner's Acquire.
            over.store(1, Ordering::Release);
            answer
        })
    }

    /// Waits for movers, whose messages arrive.
    fn join<const N: usize>(&mut self, movers: [JoinHandle<Move>; N]) {
        for mover in movers {
            let moved = mover.join().unwrap();
            assert_ne!(moved, Move::Gone, "nobody ends the timer");
            self.arrived(moved);
        }
    }

    /// A move's message has arrived.
    fn arrived(&mut self, moved: Move) {
        self.entries.extend(self.world.arrive(self.timer, moved));
    }

    fn due(&self, mark: u32, now: u64) -> Fate<Fired<Payload>> {
        let (table, cache) = (&self.world.table, self.world.owners_cache());
        table.due(cache, self.timer.index, mark, now, |_| ())
    }

    /// The entry is due at `now`.
    fn fires(&self, mark: u32, now: u64) -> Fired<Payload> {
        let Fate::Fire(fired) = self.due(mark, now) else {
            panic!("it is due")
        };
        fired
    }

    fn confirm(&self, fired: Fired<Payload>, now: u64) -> Call<Payload> {
        self.world
            .table
            .confirm_call(self.world.owners_cache(), fired, now)
    }

    fn abandon_call(&self) {
        self.world
            .table
            .abandon_call(self.world.owners_cache(), self.timer.index);
    }

    /// Deals with the earliest entry, if it is due at `now`; false if none is.
    fn step(&mut self, now: u64) -> bool {
        let Some(&(tick, mark)) = self.entries.first().filter(|(tick, _)| *tick <= now) else {
            return false;
        };
        self.entries.remove(&(tick, mark));
        match self.due(mark, now) {
            Fate::Drop => {}
            Fate::Reinsert { tick, mark } => drop(self.entries.insert((tick, mark))),
            Fate::Fire(fired) => self.call(fired, now),
        }
        true
    }

    fn call(&mut self, fired: Fired<Payload>, now: u64) {
        let generation = self.world.table.generation(fired.key);
        assert!(fired.periodic && generation == self.timer.generation);
        assert!(fired.deadline <= now, "early: {} at {now}", fired.deadline);
        // ORDERING: Acquire pairs with the Release of who rules out the call.
        let over = self
            .over
            .as_ref()
            .is_some_and(|over| over.load(Ordering::Acquire) == 1);
        match self.confirm(fired, now) {
            Call::Begins(fired) => {
                assert!(!over, "a call begins after what was to prevent it");
                assert_eq!(fired.payload.id(), 1);
                self.calls.push(fired.deadline);
                self.late |= now > fired.deadline.max(FIRST + 1);
                drop(fired);
                let (table, cache) = (&self.world.table, self.world.owners_cache());
                let ended = Time::from_nanos(now * TICK);
                self.entries
                    .extend(table.finish_call(cache, self.timer.index, ended));
            }
            Call::Moved(inserted) => self.entries.extend(inserted),
            Call::Ended(_) => {}
        }
    }

    fn run_to(&mut self, now: u64) {
        let mut steps = 0;
        while self.step(now) {
            steps += 1;
            assert!(
                steps < 20,
                "the owner does not come to rest: {:?}",
                self.entries
            );
        }
    }

    fn run_through(&mut self, ticks: RangeInclusive<u64>) {
        ticks.for_each(|now| self.run_to(now));
    }

    /// The timer has been cancelled: it is called no more, and was called `most` times at most.
    fn assert_ended(&mut self, most: usize) {
        let calls = self.calls.len();
        self.run_to(3 * FIRST);
        assert!(
            self.calls.len() == calls && calls <= most,
            "called after its end"
        );
        let state = self
            .world
            .table
            .state(self.timer.index, self.timer.generation);
        assert!(!state.is_some_and(State::is_live));
    }

    /// Everybody is joined: others see the deadline a period after the last call, and the timer can be cancelled.
    fn assert_in_time(&self) {
        assert!(!self.late, "{:?}", self.calls);
        let shown = self
            .world
            .table
            .deadline_of(self.timer.index, self.timer.generation);
        assert_eq!(shown, self.calls.last().map(|last| last + FIRST));
        assert_eq!(self.world.cancel(0, self.timer), Some(1));
    }
}

/// Threads cancel the timer while its owner calls it up to `last`, at most `most` times.
fn race_the_calls<const N: usize>(owner: &mut Owner, threads: [usize; N], last: u64, most: usize) {
    let cancellers = threads.map(|thread| owner.world.canceller(thread, owner.timer));
    owner.run_to(FIRST);
    owner.run_to(last);
    let won = cancellers
        .into_iter()
        .filter_map(|canceller| canceller.join().unwrap());
    assert!(won.eq([1]), "exactly one canceller wins");
    owner.assert_ended(most);
}

/// The timer is cancelled while its owner is at any step of two calls.
#[test]
fn cancel_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        race_the_calls(owner, [1], SECOND, 2)
    });
}

/// As above, for two cancellers, one of which gets the payload.
#[test]
fn cancel_or_cancel_or_call() {
    explore_owner(bounded(3, 1), |_, owner| {
        race_the_calls(owner, [1, 2], FIRST, 1)
    });
}

/// Whoever knows of a cancel knows that no call begins any more.
#[test]
fn no_call_begins_after_a_cancel() {
    explore_owner(bounded(4, 2), |_, owner| {
        let canceller = owner.rules_out_calls(|world, timer| world.cancel(1, timer));
        owner.run_to(FIRST);
        assert_eq!(canceller.join().unwrap(), Some(1));
        owner.run_to(3 * FIRST);
    });
}

/// Whoever knows of a move knows that no call begins for the deadline that it has moved away from.
#[test]
fn no_call_begins_at_the_old_deadline_after_a_move() {
    explore_owner(bounded(4, 2), |_, owner| {
        let mover = owner.rules_out_calls(|world, timer| world.move_to(1, timer, SECOND));
        owner.run_to(FIRST);
        owner.over = None;
        owner.arrived(mover.join().unwrap());
        owner.run_to(SECOND);
        assert_eq!(owner.calls.last(), Some(&SECOND));
        owner.assert_in_time();
    });
}

/// The deadlines of all calls up to four periods, when the timer is moved to `to` around the first one.
fn moved_around_the_first_call(owner: &mut Owner, to: u64, expected: &[&[u64]]) {
    let mover = owner.movers([to]);
    owner.run_to(FIRST);
    owner.join(mover);
    owner.run_through(FIRST..=4 * FIRST);
    assert!(expected.contains(&&*owner.calls), "{:?}", owner.calls);
    owner.assert_in_time();
}

/// A move that was confirmed holds, whether it comes before the call, within it or after it.
#[test]
fn moved_later_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        moved_around_the_first_call(owner, 15, &[&[15, 25, 35], &[10, 15, 25, 35]]);
    });
}

/// The same for a deadline that is over already: the timer is called at once, and once.
#[test]
fn moved_earlier_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        moved_around_the_first_call(owner, 5, &[&[5, 15, 25, 35], &[10, 5, 15, 25, 35]]);
    });
}

/// The same for the deadline that it has: to be called for it again.
#[test]
fn moved_to_where_it_was_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        moved_around_the_first_call(owner, 10, &[&[10, 20, 30, 40], &[10, 10, 20, 30, 40]]);
    });
}

/// Two movers and the owner: a confirmed deadline holds, and none makes two calls.
#[test]
fn move_or_move_or_call() {
    explore_owner(bounded(2, 1), |_, owner| {
        let movers = owner.movers([13, 17]);
        owner.run_to(FIRST);
        owner.join(movers);
        owner.run_through(FIRST..=18);
        let calls = owner.calls.strip_prefix(&[10]).unwrap_or(&owner.calls);
        assert!(matches!(calls, [13] | [17]), "{:?}", owner.calls);
        owner.assert_in_time();
    });
}

/// One thread moves the timer twice: the second deadline holds, though nothing in the state tells the two apart.
#[test]
fn moved_twice_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        let timer = owner.timer;
        let mover = spawn_with(&owner.world, move |world| {
            [13, 17].map(|to| world.move_to(1, timer, to))
        });
        owner.run_to(FIRST);
        for moved in mover.join().unwrap() {
            owner.arrived(moved);
        }
        owner.run_through(FIRST..=18);
        assert!(matches!(*owner.calls, [17] | [10, 17]), "{:?}", owner.calls);
        owner.assert_in_time();
    });
}

/// Two movers to deadlines that are over: each makes one call at most, whether or not it has ended its move when the
/// owner sees the deadline.
#[test]
fn move_or_move_to_the_past_or_call() {
    explore_owner(bounded(2, 1), |world, owner| {
        let movers = owner.movers([4, 6]);
        owner.run_to(FIRST);
        owner.join(movers);
        owner.run_to(FIRST + 1);
        let times = |to| owner.calls.iter().filter(|&&call| call == to).count();
        let once = [4, 6, 10].iter().all(|&to| times(to) <= 1);
        assert!(once && times(4) + times(6) > 0, "{:?}", owner.calls);
        assert_eq!(world.cancel(0, owner.timer), Some(1));
    });
}

/// A canceller and a mover: no call after the cancel, one call at most.
#[test]
fn cancel_or_move_or_call() {
    explore_owner(bounded(3, 1), |_, owner| {
        let canceller = owner.world.canceller(1, owner.timer);
        let mover = owner.world.mover(2, owner.timer, 15);
        owner.run_to(FIRST);
        assert_eq!(
            canceller.join().unwrap(),
            Some(1),
            "nobody else ends the timer"
        );
        owner.arrived(mover.join().unwrap());
        owner.assert_ended(1);
    });
}

/// A call, then the end of the shard, while somebody cancels.
#[test]
fn cancel_or_call_and_stop() {
    explore_owner(bounded(4, 2), |world, owner| {
        let canceller = owner.world.canceller(1, owner.timer);
        owner.run_to(FIRST);
        let returned = world.stop();
        let cancelled = canceller.join().unwrap().is_some();
        assert_eq!(
            returned,
            if cancelled { vec![] } else { vec![1] },
            "exactly one of the two"
        );
    });
}

/// The end of the shard comes upon a call that was prepared and never made.
#[test]
fn cancel_or_a_call_that_is_given_up() {
    explore_owner(bounded(4, 2), |world, owner| {
        let canceller = owner.world.canceller(1, owner.timer);
        drop(owner.due(owner.timer.mark, FIRST));
        owner.abandon_call();
        let returned = world.stop();
        let cancelled = canceller.join().unwrap().is_some();
        assert!(cancelled ^ (returned == [1]), "exactly one of the two wins");
    });
}

/// Arms a timer whose payload cannot be cloned.
fn without_clones(world: &World) -> Armed {
    let clone = |_: &Payload| std::panic::resume_unwind(Box::new(()));
    let plan = Repeat {
        clone,
        ..repeat(world.payload(1))
    };
    let armed = world
        .table
        .arm_periodic(&world.caches[0], plan, world.payload(1), || ());
    armed.unwrap()
}

/// The payload cannot be cloned: a move that has begun before the call is left out holds all the same.
#[test]
fn move_or_a_clone_that_panics() {
    const BETWEEN: u64 = FIRST + FIRST / 2;
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = without_clones(&world);
        let mover = world.mover(1, timer, BETWEEN);
        let decided = world.due(timer, timer.mark, FIRST);
        let moved = mover.join().unwrap();
        let told = world.arrive(timer, moved).is_some();
        let Decided::Again(tick, _) = decided else {
            panic!("it goes on: {decided:?}");
        };
        assert!(told || tick <= BETWEEN, "{moved:?}, inserted at {tick}");
        assert_eq!(world.cancel(0, timer), Some(1));
        world.finish();
    });
}

/// The payload cannot be cloned: the call is left out, and the timer goes on unless it is cancelled.
#[test]
fn cancel_or_a_clone_that_panics() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = without_clones(&world);
        let canceller = world.canceller(1, timer);
        let decided = world.due(timer, timer.mark, FIRST);
        assert!(
            matches!(decided, Decided::Again(SECOND, _) | Decided::Dead),
            "{decided:?}"
        );
        assert_eq!(
            canceller.join().unwrap(),
            Some(1),
            "nobody else ends the timer"
        );
        world.finish();
    });
}

/// The node's next timer is not touched by what is left of a periodic one.
#[test]
fn recycled_and_armed_again_during_a_call() {
    explore_owner(bounded(3, 1), |world, owner| {
        let timer = owner.timer;
        let other = spawn_with(&owner.world, move |world| {
            assert_eq!(world.cancel(1, timer), Some(1));
            world.arm(1, 7, 2)
        });
        owner.run_to(FIRST);
        let next = other.join().unwrap();
        assert_eq!(world.due(next, next.mark, 7), Decided::Fired(7));
    });
}

/// The winner of a periodic timer lets go of the node last but one: the owner, which goes on to recycle it, arms the
/// next timer there.
#[test]
fn winner_lets_go_or_recycled_by_the_owner() {
    explore_owner(bounded(4, 3), |world, owner| {
        let fired = owner.fires(owner.timer.mark, FIRST);
        let canceller = owner.world.canceller(1, owner.timer);
        drop(fired);
        owner.abandon_call();
        // In the same node, if the owner was the last to let go.
        let next = world.arm(OWNER, 7, 2);
        assert_eq!(world.due(next, next.mark, 7), Decided::Fired(7));
        assert_eq!(canceller.join().unwrap(), Some(1));
    });
}

/// No call begins a tick before its deadline, also if the timer is moved by one tick just before.
#[test]
fn one_tick_decides() {
    explore_owner(UNIT, |world, owner| {
        let timer = owner.timer;
        assert!(matches!(
            owner.due(timer.mark, FIRST - 1),
            Fate::Reinsert { tick: FIRST, .. }
        ));
        let fired = owner.fires(timer.mark, FIRST);
        let _ = world.move_to(1, timer, FIRST + 1);
        let Call::Moved(Some((tick, mark))) = owner.confirm(fired, FIRST) else {
            panic!("it was moved before the call");
        };
        assert_eq!(tick, FIRST + 1);
        let fired = owner.fires(mark, FIRST + 1);
        assert!(matches!(owner.confirm(fired, FIRST + 1), Call::Begins(_)));
        assert_eq!(world.cancel(1, timer), Some(1));
        owner.abandon_call();
    });
}
