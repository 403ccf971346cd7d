//! A handle swaps what its timer carries, as a future does with its waker, against everything else.
//!
//! A payload stands for a waker: what fires or is returned is woken. So a future is woken if the payload that it left
//! in its timer is the one that comes out.

use super::harness::{UNBOUNDED, bounded, bounded_when_quick, explore, spawn_with};
use super::world::World;
use crate::drive::Fate;
use crate::node::record::Rescheduled;
use crate::node::swap::NotSwapped;
use crate::node::table::Armed;
use crate::state::Phase;

const DUE: u64 = 10;

/// The waker of the first poll, and of the second.
const FIRST: u64 = 1;
const SECOND: u64 = 2;
/// What the next timer carries.
const NEXT: u64 = 3;

/// What a poll with the second waker finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Polled {
    /// The second waker is in the timer.
    Waits,
    /// The timer has ended; `left`: the first waker came back, nobody else gets it.
    Ended { left: bool },
}

fn poll(world: &World, timer: Armed) -> Polled {
    match world.table.swap(timer.index, timer.generation, world.payload(SECOND)) {
        Ok(before) => {
            assert_eq!(before.id(), FIRST);
            Polled::Waits
        }
        Err(NotSwapped { refused, left }) => {
            assert_eq!(refused.id(), SECOND);
            let state = world.table.state(timer.index, timer.generation);
            assert!(state.is_some_and(|state| !state.is_live()), "refused while it is pending");
            left.iter().for_each(|left| assert_eq!(left.id(), FIRST));
            Polled::Ended { left: left.is_some() }
        }
    }
}

/// What the owner finds at an entry.
#[derive(PartialEq, Eq, Debug)]
enum Look {
    /// The waker that comes out.
    Wakes(u64),
    /// It is to look again a tick later.
    Again,
    Dead,
}

impl Look {
    /// Everybody else is done: what comes of the entry in the end.
    fn finish(self, world: &World, timer: Armed) -> Option<u64> {
        match self {
            Self::Wakes(waker) => Some(waker),
            Self::Dead => None,
            Self::Again => match look(world, timer, DUE + 1) {
                Self::Wakes(waker) => Some(waker),
                Self::Dead => None,
                Self::Again => panic!("nobody swaps any more"),
            },
        }
    }
}

fn look(world: &World, timer: Armed, now: u64) -> Look {
    match world.table.due(world.owners_cache(), timer.index, timer.mark, now, |_| ()) {
        Fate::Fire(fired) => Look::Wakes(fired.payload.id()),
        Fate::Drop => Look::Dead,
        Fate::Reinsert(tick) => {
            assert_eq!(tick, now + 1, "looked at again a tick later");
            Look::Again
        }
    }
}

/// Returns what is pending, as a stop does.
fn stop(world: &World) -> Vec<u64> {
    let mut returned = Vec::new();
    world.table.return_all(world.owners_cache(), |it| returned.push(it.payload.id()));
    returned
}

/// The handle cancels, if it can, and goes; what it took.
fn drop_it(world: &World, thread: usize, timer: Armed) -> Option<u64> {
    let cache = &world.caches[thread];
    let taken = world.table.cancel_held(cache, timer.index);
    world.release(thread, timer);
    taken.map(|payload| payload.id())
}

/// The waker of the last poll is the one that is woken.
#[test]
fn swap_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        let future = spawn_with(&world, move |world| poll(world, timer));
        let looked = look(&world, timer, DUE);
        let polled = future.join().unwrap();
        let woken = looked.finish(&world, timer);
        let expected = match polled {
            Polled::Waits => SECOND,
            Polled::Ended { left } => {
                assert!(!left, "who fires takes");
                FIRST
            }
        };
        assert_eq!(woken, Some(expected), "the waker of the last poll");
        world.release(0, timer);
        world.finish();
    });
}

/// A stop returns the payload of the last swap; a payload that it left with the handle is not taken for a firing.
#[test]
fn swap_or_stop() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        let future = spawn_with(&world, move |world| poll(world, timer));
        let returned = stop(&world);
        let expected = match future.join().unwrap() {
            Polled::Waits => vec![SECOND],
            Polled::Ended { left: false } => vec![FIRST],
            Polled::Ended { left: true } => vec![],
        };
        assert_eq!(returned, expected);
        let state = world.table.state(timer.index, timer.generation).unwrap();
        assert_eq!(state.phase(), Phase::Returned, "a stop is told from a firing");
        world.release(0, timer);
        world.finish();
    });
}

/// At the end of time, when all timers fire, the owner does not wait for a swap: the timer ends once, and the
/// handle keeps the payload that it was swapping.
#[test]
fn swap_or_fire_all() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        let future = spawn_with(&world, move |world| poll(world, timer));
        let mut counted = 0;
        let count = |fired| counted += u64::from(fired);
        let fate = world.table.due(world.owners_cache(), timer.index, timer.mark, u64::MAX, count);
        let fired = match fate {
            Fate::Fire(fired) => Some(fired.payload.id()),
            Fate::Drop => None,
            Fate::Reinsert(tick) => panic!("to be looked at again at {tick}"),
        };
        let expected = match future.join().unwrap() {
            Polled::Waits => Some(SECOND),
            Polled::Ended { left: false } => Some(FIRST),
            Polled::Ended { left: true } => None,
        };
        assert_eq!((fired, counted), (expected, 1));
        let state = world.table.state(timer.index, timer.generation).unwrap();
        assert_eq!(state.phase(), Phase::Fired);
        world.release(0, timer);
        world.finish();
    });
}

/// The same for a timer that was moved before, of which the owner does not know yet: the payload that is being
/// swapped is left alone all the same.
#[test]
fn swap_of_a_moved_timer_or_stop() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        assert!(matches!(world.reschedule(0, timer, DUE + 5), Rescheduled::Later));
        let future = spawn_with(&world, move |world| poll(world, timer));
        let returned = stop(&world);
        let expected = match future.join().unwrap() {
            Polled::Waits => vec![SECOND],
            Polled::Ended { left: false } => vec![FIRST],
            Polled::Ended { left: true } => vec![],
        };
        assert_eq!(returned, expected);
        world.release(0, timer);
        world.finish();
    });
}

/// Such a timer comes due: it ends once, and counts once.
#[test]
fn swap_of_a_moved_timer_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, DUE - 5, FIRST, true);
        assert!(matches!(world.reschedule(0, timer, DUE), Rescheduled::Later));
        let future = spawn_with(&world, move |world| poll(world, timer));
        let (mut counted, mut woken) = (0, Vec::new());
        let mut look = |now| {
            let count = |fired| counted += u64::from(fired);
            let fate = world.table.due(world.owners_cache(), timer.index, timer.mark, now, count);
            if let Fate::Fire(fired) = fate {
                woken.push(fired.payload.id());
            }
        };
        look(DUE);
        let polled = future.join().unwrap();
        // It was looked at again a tick later, if it was in the handle's hands.
        look(DUE + 1);
        let expected = if polled == Polled::Waits { SECOND } else { FIRST };
        assert_eq!((woken, counted), (vec![expected], 1));
        world.release(0, timer);
        world.finish();
    });
}

/// The future is polled with another waker, then dropped, while its timer fires.
#[test]
fn swap_and_drop_or_fire() {
    explore(bounded_when_quick(3), || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        let future = spawn_with(&world, move |world| {
            let polled = poll(world, timer);
            (polled, drop_it(world, 0, timer))
        });
        let looked = look(&world, timer, DUE);
        let ended = future.join().unwrap();
        let woken = looked.finish(&world, timer);
        match ended {
            (Polled::Waits, Some(taken)) => assert_eq!((taken, woken), (SECOND, None)),
            (Polled::Waits, None) => assert_eq!(woken, Some(SECOND)),
            (Polled::Ended { .. }, taken) => assert_eq!((woken, taken), (Some(FIRST), None)),
        }
        world.finish();
    });
}

/// The same while its timer is returned, and the node serves the next timer.
#[test]
fn swap_and_drop_or_stop() {
    explore(bounded(4, 3), || {
        let world = World::new();
        let timer = world.arm(0, DUE, FIRST, true);
        let future = spawn_with(&world, move |world| {
            let polled = poll(world, timer);
            let taken = drop_it(world, 0, timer);
            let next = world.arm(0, DUE, NEXT, false);
            (polled, taken, world.cancel(0, next))
        });
        let mut returned = stop(&world);
        let (polled, taken, next) = future.join().unwrap();
        // The next timer is pending for a moment, in which it may be returned.
        let next_returned = returned.iter().filter(|&&id| id == NEXT).count();
        assert_eq!(next_returned, usize::from(next.is_none()));
        returned.retain(|&id| id != NEXT);
        match (polled, taken) {
            (Polled::Waits, Some(taken)) => assert_eq!((taken, returned), (SECOND, vec![])),
            (Polled::Waits, None) => assert_eq!(returned, [SECOND]),
            (Polled::Ended { left }, taken) => {
                assert_eq!(taken, None);
                assert_eq!(returned, if left { vec![] } else { vec![FIRST] });
            }
        }
        world.finish();
    });
}

/// The future moves its timer while that fires, by the steps of `engine::wake_timer`: a move that comes too late may
/// still find the timer pending, and what it takes then it wakes.
#[test]
fn reset_or_fire() {
    for to in [DUE / 2, 2 * DUE] {
        explore(bounded(4, 3), move || {
            let world = World::new();
            let timer = world.arm(0, DUE, FIRST, true);
            let future = spawn_with(&world, move |world| match world.reschedule(0, timer, to) {
                Rescheduled::Gone => Err(drop_it(world, 0, timer)),
                moved => Ok(moved),
            });
            let decided = world.due(timer, timer.mark, DUE);
            match future.join().unwrap() {
                Err(taken) => assert_eq!(taken.is_none(), decided.fired(), "one of them wakes"),
                Ok(moved) => {
                    if !decided.fired() {
                        let mut entries = decided.entries();
                        entries.extend(world.arrive(timer, moved, to));
                        assert_eq!(world.fire_the_rest(timer, entries), Some(to));
                    }
                    world.release(0, timer);
                }
            }
            world.finish();
        });
    }
}
