//! One node: a deadline that moves holds, wherever whoever moves it stops, and the timer fires once.

use super::harness::{UNBOUNDED, bounded, bounded_when_quick, spawn_with};
use super::world::{BARE, Decided, HELD, explore_timer};
use crate::node::moves::Move;

/// After a confirmed move out the timer does not fire at its old deadline.
#[test]
fn moved_later_or_fire() {
    explore_timer(bounded_when_quick(3), BARE, 10, |world, timer| {
        let mover = world.mover(1, timer, 20);
        let decided = world.due(timer, timer.mark, 10);
        let moved = mover.join().unwrap();
        assert_eq!(
            moved,
            if decided.fired() {
                Move::Gone
            } else {
                Move::Later
            }
        );
        if !decided.fired() {
            assert_eq!(world.fire_the_rest(timer, decided.inserted(), []), Some(20));
        }
    });
}

/// Two moves in a row: neither goes unnoticed, and the timer does not fire at an old deadline.
#[test]
fn moved_later_twice_or_fire() {
    explore_timer(bounded(4, 3), BARE, 10, |world, timer| {
        let mover = spawn_with(world, move |world| {
            [world.move_to(1, timer, 20), world.move_to(1, timer, 30)]
        });
        let mut decided = world.due(timer, timer.mark, 10);
        if let Decided::Again(tick, mark) = decided {
            decided = world.due(timer, mark, tick.max(20));
        }
        let moved = mover.join().unwrap();
        match decided {
            Decided::Fired(10) => assert_eq!(moved, [Move::Gone, Move::Gone]),
            // It fires by a deadline that somebody has put there and not yet told of.
            Decided::Fired(20) => {
                let first = matches!(moved[0], Move::Later | Move::Overtaken);
                assert!(first && moved[1] == Move::Gone, "{moved:?}");
            }
            Decided::Fired(30) => {
                let second = matches!(moved[1], Move::Later | Move::Overtaken);
                assert!(second && moved[0] == Move::Later, "{moved:?}");
            }
            Decided::Fired(deadline) => panic!("nobody asked for {deadline}"),
            _ => {
                assert_eq!(moved, [Move::Later, Move::Later]);
                assert_eq!(world.fire_the_rest(timer, decided.inserted(), []), Some(30));
            }
        }
    });
}

/// The owner comes to the old entry while the deadline is pulled in. The mover may stop at any step, before or after
/// its message: the timer fires, at its old deadline at the latest.
#[test]
fn moved_earlier_or_fire() {
    explore_timer(bounded_when_quick(3), BARE, 20, |world, timer| {
        let mover = world.mover(1, timer, 10);
        // The other thread is not joined: it stands at any of its steps.
        let decided = world.due(timer, timer.mark, 20);
        let moved = mover.join().unwrap();
        match decided {
            Decided::Fired(20) => assert_eq!(moved, Move::Gone, "not by its deadline"),
            Decided::Fired(10) => assert_ne!(moved, Move::Gone, "by its deadline"),
            other => panic!("{other:?}, because somebody moves it"),
        }
        assert_eq!(world.arrive(timer, moved), None, "it has ended");
    });
}

/// The owner comes before both deadlines: when all have gone on, an entry lies at the new one, and only there.
#[test]
fn moved_earlier_or_looked_at() {
    explore_timer(bounded_when_quick(3), BARE, 20, |world, timer| {
        let mover = world.mover(1, timer, 10);
        let decided = world.due(timer, timer.mark, 5);
        assert!(!decided.fired());
        let moves = [mover.join().unwrap()];
        assert_eq!(
            world.fire_the_rest(timer, decided.inserted(), moves),
            Some(10)
        );
    });
}

/// Two threads pull one timer in; the owner hears of the first while the second is at it, which may stop at any step.
#[test]
fn pulled_in_twice_or_arrived() {
    explore_timer(bounded(4, 3), BARE, 30, |world, timer| {
        let first = world.move_to(0, timer, 20);
        let second = world.mover(1, timer, 10);
        let inserted = world.arrive(timer, first);
        assert!(
            matches!(inserted, Some((10 | 20, _))),
            "inserted at {inserted:?}"
        );
        assert!(
            !world.due(timer, timer.mark, 30).fired(),
            "the first entry is a zombie now"
        );
        let moves = [second.join().unwrap()];
        assert_eq!(world.fire_the_rest(timer, inserted, moves), Some(10));
    });
}

/// A mover pulls the deadline in and may stop anywhere before its message; another one pushes it out again, and relies
/// on nobody: the timer fires by its deadline at the latest, once its own message has arrived.
#[test]
fn pulled_in_or_pushed_out_again() {
    explore_timer(bounded(4, 3), BARE, 30, |world, timer| {
        let pulling = world.mover(1, timer, 10);
        let pushed = world.move_to(0, timer, 20);
        let inserted = world.arrive(timer, pushed);
        let Some((tick @ (10 | 20), mark)) = inserted else {
            panic!("inserted as {inserted:?}")
        };
        // The other thread is not joined: it stands at any of its steps.
        let decided = world.due(timer, mark, tick);
        let decided = if decided.fired() {
            decided
        } else {
            world.due(timer, mark, 20)
        };
        assert!(decided.fired(), "{decided:?} at 20");
        let _ = pulling.join().unwrap();
    });
}

/// A mover that loses lets go; the node is recycled once.
#[test]
fn move_or_cancel() {
    explore_timer(UNBOUNDED, BARE, 10, |world, timer| {
        let mover = world.mover(1, timer, 20);
        assert_eq!(
            world.cancel(0, timer),
            Some(1),
            "nobody else ends the timer"
        );
        assert!(!matches!(mover.join().unwrap(), Move::Earlier { .. }));
        assert_eq!(world.due(timer, timer.mark, 10), Decided::Dead);
    });
}

/// The mover comes last and recycles the node; its next payload is not written while the canceller reads the last one.
#[test]
fn recycled_by_the_mover_and_armed_again() {
    explore_timer(UNBOUNDED, BARE, 10, |world, timer| {
        let mover = spawn_with(world, move |world| {
            let _ = world.move_to(1, timer, 20);
            world.arm(1, 10, 2)
        });
        assert_eq!(
            world.cancel(0, timer),
            Some(1),
            "nobody else ends the timer"
        );
        let next = mover.join().unwrap();
        assert_eq!(
            world.cancel(0, next),
            Some(2),
            "the next timer is untouched"
        );
    });
}

/// Concurrent moves: one of the confirmed deadlines holds.
#[test]
fn move_or_move_or_fire() {
    explore_timer(bounded(4, 2), BARE, 10, |world, timer| {
        let movers = [(1, 20), (2, 30)].map(|(thread, to)| world.mover(thread, timer, to));
        let decided = world.due(timer, timer.mark, 10);
        let moved = movers.map(|mover| mover.join().unwrap());
        if decided.fired() {
            assert_eq!(moved, [Move::Gone, Move::Gone], "fired though it was moved");
        } else {
            // The second mover moves backwards if the first one has overtaken it.
            let fired = world.fire_the_rest(timer, decided.inserted(), moved);
            assert!(matches!(fired, Some(20 | 30)), "ended as {fired:?}");
        }
    });
}

/// Two movers and the owner: fires at a confirmed deadline, never early, once.
#[test]
fn earlier_or_later_or_fire() {
    explore_timer(bounded(4, 2), BARE, 10, |world, timer| {
        let movers = [(1, 5), (2, 30)].map(|(thread, to)| world.mover(thread, timer, to));
        let decided = world.due(timer, timer.mark, 10);
        let [earlier, later] = movers.map(|mover| mover.join().unwrap());
        let rest = world.fire_the_rest(timer, decided.inserted(), [earlier, later]);
        assert!(
            decided.fired() ^ rest.is_some(),
            "fires exactly once: {decided:?}, {rest:?}"
        );
        match decided {
            Decided::Fired(10) => assert_eq!(later, Move::Gone, "fired at the old deadline"),
            Decided::Fired(deadline) => assert_eq!(deadline, 5),
            _ => {}
        }
    });
}

/// Mover, handle and canceller: node recycled once.
#[test]
fn move_or_drop_handle_or_cancel() {
    explore_timer(bounded(4, 2), HELD, 10, |world, timer| {
        let mover = world.mover(1, timer, 20);
        let holder = spawn_with(world, move |world| world.release(2, timer));
        assert_eq!(world.cancel(0, timer), Some(1));
        assert!(!matches!(mover.join().unwrap(), Move::Earlier { .. }));
        holder.join().unwrap();
    });
}

/// A future moves its timer while that fires, by the steps of `engine::wake_timer`: a move that comes too late may
/// still find the timer pending, and what it takes then it wakes.
#[test]
fn reset_or_fire() {
    for to in [5, 20] {
        explore_timer(bounded(4, 3), HELD, 10, move |world, timer| {
            let future = spawn_with(world, move |world| match world.move_alone(timer, to, 0) {
                None => Err(world.cancel_and_release(0, timer)),
                Some((_, moved)) => Ok(moved),
            });
            let decided = world.due(timer, timer.mark, 10);
            match future.join().unwrap() {
                Err(taken) => assert_eq!(taken.is_none(), decided.fired(), "one of them wakes"),
                Ok(moved) => {
                    let fired = match decided {
                        Decided::Fired(tick) => Some(tick),
                        _ => world.fire_the_rest(timer, decided.inserted(), [moved]),
                    };
                    assert_eq!(fired, Some(to));
                    world.release(0, timer);
                }
            }
        });
    }
}

/// A future pushes its timer out and pulls it in again, and tells the owner nothing while the first entry is still to be
/// looked at; meanwhile the owner looks at that.
#[test]
fn reset_out_and_in_or_looked_at() {
    for now in [5, 10] {
        explore_timer(bounded(4, 3), HELD, 10, move |world, timer| {
            let future = spawn_with(world, move |world| {
                let (look, told) = world.move_alone(timer, 30, 0)?;
                assert_eq!(told, Move::Later, "pushed out");
                let (_, told) = world.move_alone(timer, 20, look)?;
                Some(told)
            });
            let decided = world.due(timer, timer.mark, now);
            match future.join().unwrap() {
                None => assert_eq!(decided, Decided::Fired(10), "somebody asked for it"),
                Some(told) => {
                    let fired = world.fire_the_rest(timer, decided.inserted(), [told]);
                    assert_eq!(fired, Some(20));
                }
            }
            world.release(0, timer);
        });
    }
}

/// The same while the message that brings the first entry arrives.
#[test]
fn reset_out_and_in_or_arrived() {
    explore_timer(bounded(4, 3), HELD, 10, |world, timer| {
        let future = spawn_with(world, move |world| {
            let (look, _) = world.move_alone(timer, 30, 0).unwrap();
            world.move_alone(timer, 20, look).unwrap().1
        });
        let inserted = world.table.arrive(timer.index, timer.mark);
        let told = future.join().unwrap();
        assert_eq!(world.fire_the_rest(timer, inserted, [told]), Some(20));
        world.release(0, timer);
    });
}

/// A future pulls its timer in, and out again, and in, while its message arrives: the owner is told no second time as long
/// as it has not taken the first message.
#[test]
fn reset_in_and_out_and_in_or_arrived() {
    explore_timer(bounded(4, 3), HELD, 40, |world, timer| {
        let (look, first) = world.move_alone(timer, 10, 0).unwrap();
        assert!(look == 10 && matches!(first, Move::Earlier { .. }));
        let future = spawn_with(world, move |world| {
            let (look, _) = world.move_alone(timer, 30, look).unwrap();
            world.move_alone(timer, 20, look).unwrap().1
        });
        let inserted = world.arrive(timer, first);
        assert!(
            !world.due(timer, timer.mark, 40).fired(),
            "the first entry is a zombie now"
        );
        let told = future.join().unwrap();
        assert_eq!(world.fire_the_rest(timer, inserted, [told]), Some(20));
        world.release(0, timer);
    });
}
