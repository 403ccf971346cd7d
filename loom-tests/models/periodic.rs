//! One periodic timer: its owner at a call, against whoever cancels, stops or moves it at any step.
//!
//! The [`World`] counts payloads, clones and nodes.

use super::harness::{Bound, JoinHandle, Payload, UNIT, bounded, explore_as, name_of, spawn_with};
use super::world::{Decided, World};
use crate::node::moves::Move;
use crate::node::periodic::Call;
use crate::node::table::{Armed, Due};
use crate::state::State;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::{Deadline, MissedTicks, Period, Recurrence, Repeat, TickRate, Time};
use crate::types::Cancel;
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

/// What a timer repeats that is called first at `tick`, and every [`FIRST`] ticks then.
fn repeat(world: &World, tick: u64, period: fn(Duration) -> Period) -> Repeat<Payload> {
    let first = Deadline {
        nominal: Time::from_nanos(tick * TICK),
        tick,
    };
    let period = period(Duration::from_nanos(FIRST * TICK));
    Repeat {
        payload: world.payload(1),
        clone: Payload::clone,
        recurrence: Recurrence::new(first, period, TickRate::new(TICK)),
    }
}

fn rate(every: Duration) -> Period {
    Period::fixed_rate(every, MissedTicks::Skip)
}

/// The owner of one periodic timer: what it has called, and the entries that lie in its wheel.
struct Owner {
    world: Arc<World>,
    timer: Armed,
    /// Tick and mark.
    entries: BTreeSet<(u64, u32)>,
    /// The deadlines of the calls.
    calls: Vec<u64>,
    /// The last call has come, with the payload itself.
    is_over: bool,
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
        Self::of(world, repeat(world, FIRST, rate))
    }

    fn of(world: &Arc<World>, repeat: Repeat<Payload>) -> Self {
        let armed = world.table.arm_periodic(&world.caches[0], repeat, || ());
        let Ok(timer) = armed else {
            panic!("a node is free");
        };
        Self {
            world: Arc::clone(world),
            timer,
            entries: BTreeSet::from([(FIRST, timer.mark)]),
            calls: Vec::new(),
            is_over: false,
            late: false,
            over: None,
        }
    }

    /// Starts a thread that cancels the timer; whether it has got the payload.
    fn canceller(&self, thread: usize) -> JoinHandle<Cancel<Payload>> {
        let timer = self.timer;
        spawn_with(&self.world, move |world| world.end(thread, timer))
    }

    /// Starts threads that move the timer, each to its tick.
    fn movers<const N: usize>(&self, to: [u64; N]) -> [JoinHandle<Move>; N] {
        let mut threads = 1..;
        to.map(|to| self.world.mover(threads.next().unwrap(), self.timer, to))
    }

    /// Starts a thread after whose step no call for the present deadline may begin, if it answers so.
    fn rules_out_calls<R: Send + 'static>(
        &mut self,
        step: impl FnOnce(&World, Armed) -> (R, bool) + Send + 'static,
    ) -> JoinHandle<R> {
        let over = Arc::new(AtomicU64::new(0));
        self.over = Some(Arc::clone(&over));
        let timer = self.timer;
        spawn_with(&self.world, move |world| {
            let (answer, ruled_out) = step(world, timer);
            // ORDERING: Release pairs with the owner's Acquire.
            over.store(u64::from(ruled_out), Ordering::Release);
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

    /// Deals with the earliest entry, if it is due at `now`; false if none is.
    fn step(&mut self, now: u64) -> bool {
        let Some(&(tick, mark)) = self.entries.first().filter(|(tick, _)| *tick <= now) else {
            return false;
        };
        self.entries.remove(&(tick, mark));
        let (table, cache) = (&self.world.table, self.world.owners_cache());
        match table.due(cache, self.timer.index, mark, now) {
            Fate::Drop => {}
            Fate::Reinsert { tick, mark } => drop(self.entries.insert((tick, mark))),
            Fate::Fire(Due::Once(_)) => panic!("it repeats"),
            Fate::Fire(Due::Every { index, mark }) => _ = self.call((index, mark), now),
        }
        true
    }

    fn call(&mut self, entry: (u32, u32), now: u64) -> Option<Recurrence> {
        // ORDERING: Acquire pairs with the Release of who rules out the call.
        let over = self
            .over
            .as_ref()
            .is_some_and(|over| over.load(Ordering::Acquire) == 1);
        let (table, cache) = (&self.world.table, self.world.owners_cache());
        let time = Time::from_nanos(now * TICK);
        let (fired, next, recurrence) = match table.call(cache, entry, now, time, || ()) {
            Call::Begins {
                fired,
                entry,
                recurrence,
            } => (fired, Some(entry), Some(recurrence)),
            Call::Last(fired) => {
                self.is_over = true;
                (fired, None, None)
            }
            Call::Waits(entry) => {
                self.entries.insert(entry);
                return None;
            }
            Call::Gone => return None,
        };
        self.entries.extend(next);
        assert!(!over, "a call begins after what was to prevent it");
        let generation = self.world.table.generation(fired.key);
        assert!(generation == self.timer.generation && fired.payload.id() == 1);
        assert!(fired.deadline <= now, "early: {} at {now}", fired.deadline);
        self.calls.push(fired.deadline);
        self.late |= now > fired.deadline.max(FIRST + 1);
        recurrence
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

/// Threads cancel the timer while its owner calls it up to `last`, at most `most` times: one of them gets the payload, or
/// the last call.
fn race_the_calls<const N: usize>(owner: &mut Owner, threads: [usize; N], last: u64, most: usize) {
    let cancellers = threads.map(|thread| owner.canceller(thread));
    owner.run_to(FIRST);
    owner.run_to(last);
    let (mut won, mut after_call) = (vec![], 0);
    for canceller in cancellers {
        match canceller.join().unwrap() {
            Cancel::Won(payload) => won.push(payload.id()),
            Cancel::AfterCall => after_call += 1,
            Cancel::Gone => {}
        }
    }
    owner.assert_ended(most);
    assert_eq!(after_call, usize::from(owner.is_over));
    assert_eq!(won, if owner.is_over { vec![] } else { vec![1] });
}

/// The timer is cancelled while its owner is at any step of two calls.
#[test]
fn cancel_or_call() {
    explore_owner(bounded(4, 2), |_, owner| {
        race_the_calls(owner, [1], SECOND, 2)
    });
}

/// As above, for two cancellers, one of which ends the timer.
#[test]
fn cancel_or_cancel_or_call() {
    explore_owner(bounded(3, 1), |_, owner| {
        race_the_calls(owner, [1, 2], FIRST, 1)
    });
}

/// Whoever knows of a cancel that has got the payload knows that no call begins any more.
#[test]
fn no_call_begins_after_a_cancel() {
    explore_owner(bounded(4, 2), |_, owner| {
        let canceller = owner.rules_out_calls(|world, timer| {
            let won = world.end(1, timer).is_won();
            (won, won)
        });
        owner.run_to(FIRST);
        assert_ne!(canceller.join().unwrap(), owner.is_over);
        owner.run_to(3 * FIRST);
    });
}

/// Whoever knows of a move knows that no call begins for the deadline that it has moved away from.
#[test]
fn no_call_begins_at_the_old_deadline_after_a_move() {
    explore_owner(bounded(4, 2), |_, owner| {
        let mover = owner.rules_out_calls(|world, timer| (world.move_to(1, timer, SECOND), true));
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

/// A canceller and a mover: no call after the cancel but the last one, one call at most.
#[test]
fn cancel_or_move_or_call() {
    explore_owner(bounded(3, 1), |_, owner| {
        let mover = owner.world.mover(2, owner.timer, 15);
        race_the_calls(owner, [1], FIRST, 1);
        owner.arrived(mover.join().unwrap());
        owner.assert_ended(1);
    });
}

/// A call, then the end of the shard, while somebody cancels.
#[test]
fn cancel_or_call_and_stop() {
    explore_owner(bounded(4, 2), |world, owner| {
        let canceller = owner.canceller(1);
        owner.run_to(FIRST);
        let returned = world.stop();
        let cancelled = canceller.join().unwrap().is_won();
        let ends = [cancelled, owner.is_over, returned == [1]];
        assert_eq!(ends.iter().filter(|&&it| it).count(), 1, "{ends:?}");
    });
}

/// Explores what becomes of a periodic timer whose payload cannot be cloned.
fn explore_without_clones(scenario: impl Fn(&mut Owner) + Send + Sync + 'static) {
    explore_as(name_of(&scenario), bounded(4, 2), move || {
        let world = World::new();
        let clone = |_: &Payload| std::panic::resume_unwind(Box::new(()));
        let plan = repeat(&world, FIRST, rate);
        let mut owner = Owner::of(&world, Repeat { clone, ..plan });
        scenario(&mut owner);
        drop(owner);
        world.finish();
    });
}

/// The payload cannot be cloned: a move that has begun before the call is left out holds all the same.
#[test]
fn move_or_a_clone_that_panics() {
    const BETWEEN: u64 = FIRST + FIRST / 2;
    explore_without_clones(|owner| {
        let mover = owner.movers([BETWEEN]);
        assert!(owner.step(FIRST));
        owner.join(mover);
        assert!(
            owner
                .entries
                .first()
                .is_some_and(|&(tick, _)| tick <= BETWEEN)
        );
        assert!(owner.calls.is_empty());
        assert_eq!(owner.world.cancel(0, owner.timer), Some(1));
    });
}

/// The payload cannot be cloned: the call is left out, but for the last one, which needs no clone.
#[test]
fn cancel_or_a_clone_that_panics() {
    explore_without_clones(|owner| race_the_calls(owner, [1], FIRST, 1));
}

/// The node's next timer is not touched by what is left of a periodic one.
#[test]
fn recycled_and_armed_again_during_a_call() {
    explore_owner(bounded(3, 1), |world, owner| {
        let timer = owner.timer;
        let other = spawn_with(&owner.world, move |world| {
            drop(world.end(1, timer));
            world.arm(1, 7, 2)
        });
        owner.run_to(FIRST);
        let next = other.join().unwrap();
        assert_eq!(world.due(next, next.mark, 7), Decided::Fired(7));
    });
}

/// Explores the end of a call of a timer with a fixed delay at [`SECOND`], while another thread acts.
fn explore_rest<R: Send + 'static>(
    act: fn(&World, Armed) -> R,
    check: impl Fn(&World, Armed, R) + Send + Sync + 'static,
) {
    explore_as(name_of(&check), bounded(4, 2), move || {
        let world = World::new();
        let mut owner = Owner::of(&world, repeat(&world, FIRST, Period::fixed_delay));
        let timer = owner.timer;
        let recurrence = owner.call((timer.index, timer.mark), FIRST).unwrap();
        let other = spawn_with(&world, move |world| act(world, timer));
        let ended = Time::from_nanos(SECOND * TICK);
        let key = world.table.key(timer.index, timer.generation);
        world
            .table
            .rest(world.owners_cache(), key, recurrence, ended);
        check(&world, timer, other.join().unwrap());
        drop(owner);
        world.finish();
    });
}

/// A move during a call holds, also to the deadline that the timer shows: no pause begins at the end.
#[test]
fn move_or_the_end_of_a_call() {
    explore_rest(
        |world, timer| [15, SECOND].map(|to| world.move_to(1, timer, to)),
        |world, timer, _| {
            let deadline = world.table.deadline_of(timer.index, timer.generation);
            assert_eq!(deadline, Some(SECOND));
            assert_eq!(world.cancel(0, timer), Some(1));
        },
    );
}

/// The end of a call does not move the node's next timer, whose deadline is the one that the last timer showed.
#[test]
fn recycled_or_the_end_of_a_call() {
    explore_rest(
        |world, timer| {
            assert_eq!(world.cancel(1, timer), Some(1));
            let next = repeat(world, SECOND, rate);
            world.table.arm_periodic(&world.caches[1], next, || ()).ok()
        },
        |world, _, next| {
            let next = next.expect("a node is free");
            let deadline = world.table.deadline_of(next.index, next.generation);
            assert_eq!(deadline, Some(SECOND));
            assert_eq!(world.cancel(0, next), Some(1));
        },
    );
}

/// No call begins a tick before its deadline, also if the timer is moved by one tick just before.
#[test]
fn one_tick_decides() {
    explore_owner(UNIT, |world, owner| {
        let timer = owner.timer;
        let entry = (timer.index, timer.mark);
        assert!(owner.call(entry, FIRST - 1).is_none());
        let _ = world.move_to(1, timer, FIRST + 1);
        assert!(owner.call(entry, FIRST).is_none());
        assert!(owner.calls.is_empty() && owner.call(entry, FIRST + 1).is_some());
        assert_eq!(world.cancel(1, timer), Some(1));
    });
}
