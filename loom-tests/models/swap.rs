//! A handle swaps what its timer carries, as a future does with its waker, against everything else.
//!
//! A payload stands for a waker: what fires or is returned is woken. So a future is woken if the payload that it left
//! in its timer is the one that comes out.

use super::harness::{UNBOUNDED, bounded, bounded_when_quick, spawn_with};
use super::world::{HELD, World, explore_timer};
use crate::drive::Fate;
use crate::node::moves::Rescheduled;
use crate::node::swap::NotSwapped;
use crate::node::table::Armed;
use crate::state::{Phase, State};
use std::sync::Arc;

const DUE: u64 = 10;

/// The waker of the first poll, and of the second.
const FIRST: u64 = 1;
const SECOND: u64 = 2;
/// What the next timer carries.
const NEXT: u64 = 3;

/// Polls with the second waker. Returns the waker that comes out of the timer, or has come out; none if the first one
/// came back, so that nobody else gets it.
fn poll(world: &World, timer: Armed) -> Option<u64> {
    match world
        .table
        .swap(timer.index, timer.generation, world.payload(SECOND))
    {
        Ok(before) => {
            assert_eq!(before.id(), FIRST);
            Some(SECOND)
        }
        Err(NotSwapped { refused, left }) => {
            assert_eq!(refused.id(), SECOND);
            assert!(
                !state(world, timer).is_live(),
                "refused while it is pending"
            );
            left.iter()
                .for_each(|(left, _)| assert_eq!(left.id(), FIRST));
            left.is_none().then_some(FIRST)
        }
    }
}

/// Drops the future after a poll that has left `waker` to the owner. Returns the one that comes out all the same.
fn drop_future(world: &World, timer: Armed, waker: Option<u64>) -> Option<u64> {
    let taken = world.cancel_and_release(0, timer);
    if taken.is_some() {
        assert_eq!((taken, waker), (Some(SECOND), Some(SECOND)));
        return None;
    }
    waker
}

fn state(world: &World, timer: Armed) -> State {
    world
        .table
        .state(timer.index, timer.generation)
        .expect("the handle keeps the node")
}

/// Lets the owner look at the entry, once: the wakers that come out, and how many timers it counts as fired.
fn look(world: &World, timer: Armed, now: u64) -> (Vec<u64>, usize) {
    let (mut woken, mut fired) = (Vec::new(), 0);
    let count = |one| fired += usize::from(one);
    match world
        .table
        .due(world.owners_cache(), timer.index, timer.mark, now, count)
    {
        Fate::Fire(fired) => woken.push(fired.payload.id()),
        Fate::Drop => {}
        Fate::Reinsert { tick, .. } => panic!("it is due, and looked at again at {tick}"),
    }
    (woken, fired)
}

/// Moves the timer later, of which the owner does not know then.
fn move_before(world: &World, timer: Armed, to: Option<u64>) {
    let moved = to.map(|to| world.reschedule(0, timer, to));
    assert!(matches!(moved, None | Some(Rescheduled::Later)));
}

fn race_the_owner(world: &Arc<World>, timer: Armed, moved_to: Option<u64>, now: u64) {
    move_before(world, timer, moved_to);
    let future = spawn_with(world, move |world| poll(world, timer));
    let (woken, fired) = look(world, timer, now);
    let waker = Vec::from_iter(future.join().unwrap());
    assert_eq!((woken, fired), (waker, 1), "the waker of the last poll");
    assert_eq!(state(world, timer).phase(), Phase::Fired);
    world.release(0, timer);
}

/// The waker of the last poll is the one that is woken; or none is, and the poll sees that the timer has fired.
#[test]
fn swap_or_fire() {
    explore_timer(UNBOUNDED, HELD, DUE, |world, timer| {
        race_the_owner(world, timer, None, DUE)
    });
}

/// The same for a timer that was moved before, of which the owner does not know yet: it ends once, and counts once.
#[test]
fn swap_of_a_moved_timer_or_fire() {
    explore_timer(UNBOUNDED, HELD, DUE - 5, |world, timer| {
        race_the_owner(world, timer, Some(DUE), DUE);
    });
}

fn race_a_stop(world: &Arc<World>, timer: Armed, moved_to: Option<u64>) {
    move_before(world, timer, moved_to);
    let future = spawn_with(world, move |world| poll(world, timer));
    let returned = world.stop();
    assert_eq!(returned, Vec::from_iter(future.join().unwrap()));
    assert_eq!(
        state(world, timer).phase(),
        Phase::Returned,
        "a stop is told from a firing"
    );
    world.release(0, timer);
}

/// A stop returns the payload of the last swap; a payload that it left with the handle is not taken for a firing.
#[test]
fn swap_or_stop() {
    explore_timer(UNBOUNDED, HELD, DUE, |world, timer| {
        race_a_stop(world, timer, None)
    });
}

/// The same for a timer that was moved before, of which the owner does not know yet: the payload that is being
/// swapped is left alone all the same.
#[test]
fn swap_of_a_moved_timer_or_stop() {
    explore_timer(UNBOUNDED, HELD, DUE, |world, timer| {
        race_a_stop(world, timer, Some(DUE + 5));
    });
}

/// At the end of time, when all timers fire.
#[test]
fn swap_or_fire_all() {
    explore_timer(UNBOUNDED, HELD, DUE, |world, timer| {
        race_the_owner(world, timer, None, u64::MAX);
    });
}

/// The future is polled with another waker, then dropped, while its timer fires.
#[test]
fn swap_and_drop_or_fire() {
    explore_timer(bounded_when_quick(3), HELD, DUE, |world, timer| {
        let future = spawn_with(world, move |world| {
            let waker = poll(world, timer);
            drop_future(world, timer, waker)
        });
        let (woken, _) = look(world, timer, DUE);
        assert_eq!(woken, Vec::from_iter(future.join().unwrap()));
    });
}

/// The same while its timer is returned, and the node serves the next timer.
#[test]
fn swap_and_drop_or_stop() {
    explore_timer(bounded(4, 3), HELD, DUE, |world, timer| {
        let future = spawn_with(world, move |world| {
            let waker = poll(world, timer);
            let waker = drop_future(world, timer, waker);
            let next = world.arm(0, DUE, NEXT);
            (waker, world.cancel(0, next))
        });
        let mut returned = world.stop();
        let (waker, next) = future.join().unwrap();
        // The next timer is pending for a moment, in which it may be returned.
        let next_returned = returned.iter().filter(|&&id| id == NEXT).count();
        assert_eq!(next_returned, usize::from(next.is_none()));
        returned.retain(|&id| id != NEXT);
        assert_eq!(returned, Vec::from_iter(waker));
    });
}

/// The future moves its timer while that fires, by the steps of `engine::wake_timer`: a move that comes too late may
/// still find the timer pending, and what it takes then it wakes.
#[test]
fn reset_or_fire() {
    for to in [DUE / 2, 2 * DUE] {
        explore_timer(bounded(4, 3), HELD, DUE, move |world, timer| {
            let future = spawn_with(world, move |world| match world.reschedule(0, timer, to) {
                Rescheduled::Gone => Err(world.cancel_and_release(0, timer)),
                moved => Ok(moved),
            });
            let decided = world.due(timer, timer.mark, DUE);
            match future.join().unwrap() {
                Err(taken) => assert_eq!(taken.is_none(), decided.fired(), "one of them wakes"),
                Ok(moved) => {
                    if !decided.fired() {
                        let fired = world.fire_the_rest(timer, decided.inserted(), [(moved, to)]);
                        assert_eq!(fired, Some(to));
                    }
                    world.release(0, timer);
                }
            }
        });
    }
}
