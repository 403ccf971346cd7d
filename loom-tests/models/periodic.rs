//! One periodic timer: its owner at a call, against whoever cancels, stops or moves it at any step.
//!
//! What is kept and what is handed to a call are two payloads; the [`World`] counts them, and the nodes.

use super::caller::{FIRST, Owner, repeat};
use super::harness::{bounded, explore, spawn, spawn_with};
use super::world::{Decided, World};
use crate::drive::Fate;
use crate::node::periodic::Call;
use crate::node::record::Rescheduled;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Repeat;
use std::sync::Arc;

/// The timer is cancelled while its owner is at any step of two calls.
#[test]
fn cancel_or_call() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        owner.run_to(FIRST);
        owner.run_to(2 * FIRST);
        assert_eq!(canceller.join().unwrap(), Some(1), "nobody else ends the timer");
        let calls = owner.calls.len();
        owner.run_to(3 * FIRST);
        assert_eq!(owner.calls.len(), calls, "called after its end");
        assert!(!owner.is_live());
        drop(owner);
        world.finish();
    });
}

/// As above, for two cancellers, one of which gets the payload.
#[test]
fn cancel_or_cancel_or_call() {
    explore(bounded(3, 1), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let cancellers = [1, 2].map(|thread| {
            let (world, timer) = (Arc::clone(&world), owner.timer);
            spawn(move || world.cancel(thread, timer).is_some())
        });
        owner.run_to(FIRST);
        let won = cancellers.map(|canceller| canceller.join().unwrap());
        assert!(won[0] ^ won[1], "exactly one canceller wins");
        owner.run_to(3 * FIRST);
        assert!(owner.calls.len() <= 1 && !owner.is_live());
        drop(owner);
        world.finish();
    });
}

/// Whoever knows of a cancel knows that no call begins any more.
#[test]
fn no_call_begins_after_a_cancel() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let over = Arc::new(AtomicU64::new(0));
        let canceller = spawn({
            let (world, timer, over) = (Arc::clone(&world), owner.timer, Arc::clone(&over));
            move || {
                assert_eq!(world.cancel(1, timer), Some(1));
                // ORDERING: Release pairs with the Acquire below.
                over.store(1, Ordering::Release);
            }
        });
        owner.before_the_call = Some(over);
        owner.run_to(FIRST);
        canceller.join().unwrap();
        owner.run_to(3 * FIRST);
        drop(owner);
        world.finish();
    });
}

/// Whoever knows of a move knows that no call begins for the deadline that it has moved away from.
#[test]
fn no_call_begins_at_the_old_deadline_after_a_move() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let moved = Arc::new(AtomicU64::new(0));
        let mover = spawn({
            let (world, timer, moved) = (Arc::clone(&world), owner.timer, Arc::clone(&moved));
            move || {
                let answer = world.reschedule(1, timer, 2 * FIRST);
                // ORDERING: Release pairs with the owner's Acquire.
                moved.store(1, Ordering::Release);
                answer
            }
        });
        owner.before_the_call = Some(moved);
        owner.run_to(FIRST);
        owner.before_the_call = None;
        owner.arrived(2 * FIRST, &mover.join().unwrap());
        owner.run_to(2 * FIRST);
        assert_eq!(owner.calls.last(), Some(&(2 * FIRST)));
        assert_eq!(world.cancel(0, owner.timer), Some(1));
        drop(owner);
        world.finish();
    });
}

/// The deadlines of all calls up to four periods, when the timer is moved to `to` around the first one.
fn moved_around_the_first_call(to: u64, expected: &'static [&'static [u64]]) {
    let moved = Arc::new(move || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let mover = spawn_with(&world, move |world| world.reschedule(1, timer, to));
        owner.run_to(FIRST);
        let moved = mover.join().unwrap();
        assert!(matches!(moved, Rescheduled::Later | Rescheduled::Earlier { .. }));
        owner.arrived(to, &moved);
        for now in FIRST..=4 * FIRST {
            owner.run_to(now);
        }
        assert!(expected.contains(&&*owner.calls) && !owner.late, "{:?}", owner.calls);
        assert_eq!(owner.shown(), owner.calls.last().map(|last| last + FIRST));
        assert_eq!(world.cancel(0, owner.timer), Some(1));
        drop(owner);
        world.finish();
    });
    explore(bounded(4, 2), move || moved());
}

/// A move that was confirmed holds, whether it comes before the call, within it or after it.
#[test]
fn moved_later_or_call() {
    moved_around_the_first_call(15, &[&[15, 25, 35], &[10, 15, 25, 35]]);
}

/// The same for a deadline that is over already: the timer is called at once, and once.
#[test]
fn moved_earlier_or_call() {
    moved_around_the_first_call(5, &[&[5, 15, 25, 35], &[10, 5, 15, 25, 35]]);
}

/// The same for the deadline that it has: to be called for it again.
#[test]
fn moved_to_where_it_was_or_call() {
    moved_around_the_first_call(10, &[&[10, 20, 30, 40], &[10, 10, 20, 30, 40]]);
}

/// Two movers and the owner: a confirmed deadline holds, and none makes two calls.
#[test]
fn move_or_move_or_call() {
    explore(bounded(2, 1), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let movers = [(1, 13), (2, 17)].map(|(thread, to)| {
            let (world, timer) = (Arc::clone(&world), owner.timer);
            (to, spawn(move || world.reschedule(thread, timer, to)))
        });
        owner.run_to(FIRST);
        for (to, mover) in movers {
            let moved = mover.join().unwrap();
            assert_ne!(moved, Rescheduled::Gone);
            owner.arrived(to, &moved);
        }
        for now in FIRST..=18 {
            owner.run_to(now);
        }
        let calls = match *owner.calls {
            [10, ref rest @ ..] => rest,
            ref all => all,
        };
        assert!(matches!(calls, [13] | [17]) && !owner.late, "{:?}", owner.calls);
        assert_eq!(owner.shown(), owner.calls.last().map(|last| last + FIRST));
        assert_eq!(world.cancel(0, owner.timer), Some(1));
        drop(owner);
        world.finish();
    });
}

/// One thread moves the timer twice: the second deadline holds, though nothing in the state tells the two apart.
#[test]
fn moved_twice_or_call() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let mover = spawn_with(&world, move |world| {
            [13, 17].map(|to| (to, world.reschedule(1, timer, to)))
        });
        owner.run_to(FIRST);
        for (to, moved) in mover.join().unwrap() {
            owner.arrived(to, &moved);
        }
        for now in FIRST..=18 {
            owner.run_to(now);
        }
        assert!(matches!(*owner.calls, [17] | [10, 17]) && !owner.late, "{:?}", owner.calls);
        assert_eq!(owner.shown(), Some(17 + FIRST));
        assert_eq!(world.cancel(0, owner.timer), Some(1));
        drop(owner);
        world.finish();
    });
}

/// Two movers to deadlines that are over: each makes one call at most, whether or not it has ended its move when the
/// owner sees the deadline.
#[test]
fn move_or_move_to_the_past_or_call() {
    explore(bounded(2, 1), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let movers = [(1, 4), (2, 6)].map(|(thread, to)| {
            let (world, timer) = (Arc::clone(&world), owner.timer);
            (to, spawn(move || world.reschedule(thread, timer, to)))
        });
        owner.run_to(FIRST);
        for (to, mover) in movers {
            owner.arrived(to, &mover.join().unwrap());
        }
        owner.run_to(FIRST + 1);
        let times = |to| owner.calls.iter().filter(|&&call| call == to).count();
        let once = [4, 6, 10].iter().all(|&to| times(to) <= 1);
        assert!(once && times(4) + times(6) > 0, "{:?}", owner.calls);
        assert_eq!(world.cancel(0, owner.timer), Some(1));
        drop(owner);
        world.finish();
    });
}

/// A canceller and a mover: no call after the cancel, one call at most.
#[test]
fn cancel_or_move_or_call() {
    explore(bounded(3, 1), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        let mover = spawn_with(&world, move |world| world.reschedule(2, timer, 15));
        owner.run_to(FIRST);
        assert_eq!(canceller.join().unwrap(), Some(1), "nobody else ends the timer");
        owner.arrived(15, &mover.join().unwrap());
        let calls = owner.calls.len();
        owner.run_to(3 * FIRST);
        assert!(owner.calls.len() == calls && calls <= 1, "called after its end");
        drop(owner);
        world.finish();
    });
}

/// A call, then the end of the shard, while somebody cancels.
#[test]
fn cancel_or_call_and_stop() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer).is_some());
        owner.run_to(FIRST);
        let mut returned = Vec::new();
        world.table.return_all(world.owners_cache(), |fired| returned.push(fired.payload.id()));
        let cancelled = canceller.join().unwrap();
        assert_eq!(returned, if cancelled { vec![] } else { vec![1] }, "exactly one of the two");
        drop(owner);
        world.finish();
    });
}

/// The end of the shard comes upon a call that was prepared and never made.
#[test]
fn cancel_or_a_call_that_is_given_up() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let owner = Owner::new(&world);
        let timer = owner.timer;
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer).is_some());
        let (table, cache, timer) = (&world.table, world.owners_cache(), owner.timer);
        drop(table.due(cache, timer.index, timer.mark, FIRST, |_| ()));
        table.abandon_call(cache, timer.index);
        let mut returned = Vec::new();
        table.return_all(cache, |fired| returned.push(fired.payload.id()));
        assert!(canceller.join().unwrap() ^ (returned == [1]), "exactly one of the two wins");
        drop(owner);
        world.finish();
    });
}

/// The payload cannot be cloned: the call is left out, and the timer goes on unless it is cancelled.
#[test]
fn cancel_or_a_clone_that_panics() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let plan = Repeat {
            clone: |_| std::panic::resume_unwind(Box::new(())),
            ..repeat(world.payload(1))
        };
        let timer = world.table.arm_periodic(&world.caches[0], plan, world.payload(1), || ());
        let timer = timer.unwrap();
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        let fate = world.table.due(world.owners_cache(), timer.index, timer.mark, FIRST, |_| ());
        assert!(
            matches!(fate, Fate::Reinsert(tick) if tick == 2 * FIRST) || matches!(fate, Fate::Drop)
        );
        assert_eq!(canceller.join().unwrap(), Some(1), "nobody else ends the timer");
        world.finish();
    });
}

/// The node's next timer is not touched by what is left of a periodic one.
#[test]
fn recycled_and_armed_again_during_a_call() {
    explore(bounded(3, 1), || {
        let world = World::new();
        let mut owner = Owner::new(&world);
        let timer = owner.timer;
        let other = spawn_with(&world, move |world| {
            assert_eq!(world.cancel(1, timer), Some(1));
            world.arm(1, 7, 2, false)
        });
        owner.run_to(FIRST);
        let next = other.join().unwrap();
        assert!(matches!(world.due(next, next.mark, 7), Decided::Fired(7)));
        drop(owner);
        world.finish();
    });
}

/// The winner of a periodic timer lets go of the node last but one: the owner, which goes on to recycle it, arms the
/// next timer there.
#[test]
fn winner_lets_go_or_recycled_by_the_owner() {
    explore(bounded(4, 3), || {
        let world = World::new();
        let owner = Owner::new(&world);
        let timer = owner.timer;
        let (table, cache) = (&world.table, world.owners_cache());
        let Fate::Fire(fired) = table.due(cache, timer.index, timer.mark, FIRST, |_| ()) else {
            panic!("it is due");
        };
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        drop(fired);
        table.abandon_call(cache, timer.index);
        // In the same node, if the owner was the last to let go.
        let next = table.arm(cache, 7, world.payload(2), false, || ()).unwrap();
        assert!(matches!(world.due(next, next.mark, 7), Decided::Fired(7)));
        assert_eq!(canceller.join().unwrap(), Some(1));
        drop(owner);
        world.finish();
    });
}

/// No call begins a tick before its deadline, also if the timer is moved by one tick just before.
#[test]
fn one_tick_decides() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let owner = Owner::new(&world);
        let (timer, table, cache) = (owner.timer, &world.table, world.owners_cache());
        let due = |mark, now| table.due(cache, timer.index, mark, now, |_| ());
        assert!(matches!(due(timer.mark, FIRST - 1), Fate::Reinsert(FIRST)));
        let Fate::Fire(fired) = due(timer.mark, FIRST) else { panic!("it is due") };
        let _ = world.reschedule(1, timer, FIRST + 1);
        let Call::Moved(Some((tick, mark))) = table.confirm_call(cache, fired, FIRST) else {
            panic!("it was moved before the call");
        };
        assert_eq!(tick, FIRST + 1);
        let Fate::Fire(fired) = due(mark, FIRST + 1) else { panic!("it is due") };
        assert!(matches!(table.confirm_call(cache, fired, FIRST + 1), Call::Begins(_)));
        assert_eq!(world.cancel(1, timer), Some(1));
        table.abandon_call(cache, timer.index);
        drop(owner);
        world.finish();
    });
}
