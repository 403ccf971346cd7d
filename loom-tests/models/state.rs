//! One node: who ends a timer, who recycles it, and that a moved deadline holds.

use super::harness::{UNBOUNDED, bounded, bounded_when_quick, explore, spawn, yield_now};
use super::world::{Settled, World};
use crate::node::table::Rescheduled;
use crate::state::Phase;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

#[test]
fn cancel_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let canceller = spawn({
            let world = Arc::clone(&world);
            move || world.cancel(1, timer)
        });
        let fired = world.due(timer, timer.mark, 10).fired();
        let cancelled = canceller.join().unwrap();
        assert_eq!(cancelled, if fired { None } else { Some(1) }, "exactly one of the two wins");
        world.finish();
    });
}

#[test]
fn cancel_or_cancel() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let other = spawn({
            let world = Arc::clone(&world);
            move || world.cancel(1, timer).is_some()
        });
        let mine = world.cancel(0, timer).is_some();
        assert!(mine ^ other.join().unwrap(), "exactly one canceller wins");
        world.finish();
    });
}

#[test]
fn moved_later_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let mover = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(1, timer, 20)
        });
        let settled = world.due(timer, timer.mark, 10);
        let moved = mover.join().unwrap();
        assert_eq!(moved, if settled.fired() { Rescheduled::Gone } else { Rescheduled::Later });
        if !settled.fired() {
            assert_eq!(world.fire_the_rest(timer, settled.entries()), Some(20));
        }
        world.finish();
    });
}

#[test]
fn moved_later_twice_or_fire() {
    explore(bounded(4, 3), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let mover = spawn({
            let world = Arc::clone(&world);
            move || [world.reschedule(1, timer, 20), world.reschedule(1, timer, 30)]
        });
        let mut settled = world.due(timer, timer.mark, 10);
        if let Settled::Again(tick, mark) = settled {
            settled = world.due(timer, mark, tick.max(20));
        }
        let moved = mover.join().unwrap();
        match settled {
            Settled::Fired(10) => assert_eq!(moved, [Rescheduled::Gone, Rescheduled::Gone]),
            Settled::Fired(20) => assert_eq!(moved, [Rescheduled::Later, Rescheduled::Gone]),
            Settled::Fired(30) => assert_eq!(moved, [Rescheduled::Later, Rescheduled::Later]),
            Settled::Fired(deadline) => panic!("nobody asked for {deadline}"),
            _ => {
                assert_eq!(moved, [Rescheduled::Later, Rescheduled::Later]);
                assert_eq!(world.fire_the_rest(timer, settled.entries()), Some(30));
            }
        }
        world.finish();
    });
}

#[test]
fn moved_earlier_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 20, 1, false);
        let mover = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(1, timer, 10)
        });
        let settled = world.due(timer, timer.mark, 20);
        match mover.join().unwrap() {
            Rescheduled::Gone => assert_eq!(settled, Settled::Fired(20)),
            Rescheduled::Earlier { mark } => {
                assert!(!settled.fired(), "the first entry is a zombie once the second exists");
                let mut entries = settled.entries();
                entries.push((10, mark));
                assert_eq!(world.fire_the_rest(timer, entries), Some(10));
            }
            other => panic!("{other:?}"),
        }
        world.finish();
    });
}

/// The owner gives a timer a new entry while somebody moves it: whatever entries there are, it fires once, at
/// a deadline that it had, and not before.
#[test]
fn moved_or_its_entry_is_renewed() {
    for to in [10, 30] {
        explore(UNBOUNDED, move || {
            let world = World::new();
            let timer = world.arm(0, 20, 1, false);
            let mover = spawn({
                let world = Arc::clone(&world);
                move || world.reschedule(1, timer, to)
            });
            let renewed = world.table.renew_entry(timer.index, timer.mark);
            let mut entries = vec![renewed.unwrap_or((20, timer.mark))];
            match mover.join().unwrap() {
                Rescheduled::Earlier { mark } => entries.push((to, mark)),
                Rescheduled::Later => {}
                other => panic!("{other:?}"),
            }
            if renewed.is_some() {
                assert_eq!(
                    world.due(timer, timer.mark, 40),
                    Settled::Dead,
                    "the old entry is dead"
                );
            }
            assert_eq!(world.fire_the_rest(timer, entries), Some(to));
            world.finish();
        });
    }
}

#[test]
fn move_or_cancel() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let mover = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(1, timer, 20)
        });
        assert_eq!(world.cancel(0, timer), Some(1), "nobody else ends the timer");
        assert!(matches!(mover.join().unwrap(), Rescheduled::Later | Rescheduled::Gone));
        assert_eq!(world.due(timer, timer.mark, 10), Settled::Dead);
        world.finish();
    });
}

#[test]
fn move_or_move_or_fire() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let movers: Vec<_> = [(1, 20), (2, 30)]
            .map(|(thread, deadline)| {
                let world = Arc::clone(&world);
                spawn(move || world.reschedule(thread, timer, deadline))
            })
            .into();
        let settled = world.due(timer, timer.mark, 10);
        let moved: Vec<_> = movers.into_iter().map(|mover| mover.join().unwrap()).collect();
        if settled.fired() {
            assert_eq!(moved, [Rescheduled::Gone, Rescheduled::Gone], "fired though it was moved");
        } else {
            let mut entries = settled.entries();
            // The second mover moves backwards if the first one has overtaken it.
            entries.extend(moved.iter().filter_map(|moved| match moved {
                Rescheduled::Earlier { mark } => Some((20, *mark)),
                _ => None,
            }));
            let fired = world.fire_the_rest(timer, entries);
            assert!(matches!(fired, Some(20 | 30)), "ended as {fired:?}");
        }
        world.finish();
    });
}

#[test]
fn earlier_or_later_or_fire() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let earlier = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(1, timer, 5)
        });
        let later = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(2, timer, 30)
        });
        let settled = world.due(timer, timer.mark, 10);
        let mut entries = settled.entries();
        let (earlier, later) = (earlier.join().unwrap(), later.join().unwrap());
        if let Rescheduled::Earlier { mark } = earlier {
            entries.push((5, mark));
        }
        let rest = world.fire_the_rest(timer, entries);
        assert!(settled.fired() ^ rest.is_some(), "fires exactly once: {settled:?}, {rest:?}");
        if settled.fired() {
            assert_eq!(later, Rescheduled::Gone, "fired at the old deadline though moved later");
        }
        world.finish();
    });
}

#[test]
fn drop_handle_or_cancel_or_fire() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let holder = spawn({
            let world = Arc::clone(&world);
            move || world.release(1, timer)
        });
        let canceller = spawn({
            let world = Arc::clone(&world);
            move || world.cancel(2, timer).is_some()
        });
        let fired = world.due(timer, timer.mark, 10).fired();
        holder.join().unwrap();
        assert!(fired ^ canceller.join().unwrap(), "exactly one of the two wins");
        world.finish();
    });
}

#[test]
fn handle_cancels_and_drops_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let holder = spawn({
            let world = Arc::clone(&world);
            move || {
                let won = world
                    .table
                    .cancel_held(&world.caches[1], timer.index, timer.generation)
                    .is_some();
                world.release(1, timer);
                won
            }
        });
        let fired = world.due(timer, timer.mark, 10).fired();
        assert!(fired ^ holder.join().unwrap(), "exactly one of the two wins");
        world.finish();
    });
}

#[test]
fn move_or_drop_handle_or_cancel() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let mover = spawn({
            let world = Arc::clone(&world);
            move || world.reschedule(1, timer, 20)
        });
        let holder = spawn({
            let world = Arc::clone(&world);
            move || world.release(2, timer)
        });
        assert_eq!(world.cancel(0, timer), Some(1));
        assert!(matches!(mover.join().unwrap(), Rescheduled::Later | Rescheduled::Gone));
        holder.join().unwrap();
        world.finish();
    });
}

/// The holder recycles a node whose payload another thread has just taken, and arms it again at once.
#[test]
fn recycled_and_armed_again_after_cancel() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let canceller = spawn({
            let world = Arc::clone(&world);
            move || world.cancel(1, timer)
        });
        world.release(0, timer);
        let next = world.arm(0, 10, 2, false);
        let cancelled = canceller.join().unwrap();
        assert_eq!(cancelled, Some(1));
        assert_eq!(world.cancel(0, next), Some(2), "the next timer is untouched");
        world.finish();
    });
}

#[test]
fn stale_key_or_recycled_node() {
    explore(bounded_when_quick(3), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let stranger = spawn({
            let world = Arc::clone(&world);
            move || {
                let moved = world.reschedule(1, timer, 99);
                (moved, world.cancel(1, timer))
            }
        });
        let cancelled = world.cancel(0, timer);
        // The same node, if this thread was the one to recycle it.
        let next = world.arm(0, 10, 2, false);
        let (_moved, stolen) = stranger.join().unwrap();
        assert!(cancelled.is_some() ^ stolen.is_some(), "exactly one canceller wins");
        assert_eq!(cancelled.or(stolen), Some(1), "a stale key reached another timer");
        assert_eq!(world.due(next, next.mark, 10), Settled::Fired(10), "the next timer is moved");
        world.finish();
    });
}

/// A key reaches another thread through something that orders nothing: the state word must do it alone.
#[test]
fn a_key_needs_no_ordering_of_its_own() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let told = Arc::new(AtomicU64::new(0));
        let armer = spawn({
            let (world, told) = (Arc::clone(&world), Arc::clone(&told));
            move || {
                let timer = world.arm(1, 10, 7, false);
                // ORDERING: Relaxed on purpose.
                told.store(timer.generation << 32 | u64::from(timer.index), Ordering::Relaxed);
                timer
            }
        });
        yield_now();
        // ORDERING: Relaxed on purpose.
        let key = told.load(Ordering::Relaxed);
        let mut cancelled = None;
        if key != 0 {
            let (index, generation) = (key as u32, key >> 32);
            let ended = world.table.end(&world.caches[0], index, generation, Phase::Cancelled);
            cancelled = ended.map(|payload| payload.id());
            assert!(matches!(cancelled, None | Some(7)));
        }
        let timer = armer.join().unwrap();
        assert!(cancelled.is_some() ^ world.cancel(0, timer).is_some());
        world.finish();
    });
}
