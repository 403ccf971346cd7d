//! One node: who ends a timer, who recycles it, and that a moved deadline holds.

use super::harness::{
    UNBOUNDED, bounded, bounded_when_quick, explore, spawn, spawn_with, yield_now,
};
use super::world::{Decided, World};
use crate::state::Phase;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// One winner, who alone gets the payload.
#[test]
fn cancel_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        let fired = world.due(timer, timer.mark, 10).fired();
        let cancelled = canceller.join().unwrap();
        assert_eq!(cancelled, if fired { None } else { Some(1) }, "exactly one of the two wins");
        world.finish();
    });
}

/// One winner, who alone gets the payload.
#[test]
fn cancel_or_cancel() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let other = spawn_with(&world, move |world| world.cancel(1, timer).is_some());
        let mine = world.cancel(0, timer).is_some();
        assert!(mine ^ other.join().unwrap(), "exactly one canceller wins");
        world.finish();
    });
}

/// The node is recycled once, by the last of handle and winner.
#[test]
fn drop_handle_or_cancel_or_fire() {
    explore(bounded(4, 2), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let holder = spawn_with(&world, move |world| world.release(1, timer));
        let canceller = spawn_with(&world, move |world| world.cancel(2, timer).is_some());
        let fired = world.due(timer, timer.mark, 10).fired();
        holder.join().unwrap();
        assert!(fired ^ canceller.join().unwrap(), "exactly one of the two wins");
        world.finish();
    });
}

/// A handle that cancels and goes: node recycled once.
#[test]
fn handle_cancels_and_drops_or_fire() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let holder = spawn_with(&world, move |world| {
            let won = world.table.cancel_held(&world.caches[1], timer.index).is_some();
            world.release(1, timer);
            won
        });
        let fired = world.due(timer, timer.mark, 10).fired();
        assert!(fired ^ holder.join().unwrap(), "exactly one of the two wins");
        world.finish();
    });
}

/// The holder recycles a node whose payload another thread has just taken, and arms it again at once.
#[test]
fn recycled_and_armed_again_after_cancel() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, true);
        let canceller = spawn_with(&world, move |world| world.cancel(1, timer));
        world.release(0, timer);
        let next = world.arm(0, 10, 2, false);
        let cancelled = canceller.join().unwrap();
        assert_eq!(cancelled, Some(1));
        assert_eq!(world.cancel(0, next), Some(2), "the next timer is untouched");
        world.finish();
    });
}

/// A stale key does not reach the node's next timer.
#[test]
fn stale_key_or_recycled_node() {
    explore(bounded_when_quick(3), || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        let stranger = spawn_with(&world, move |world| {
            let moved = world.reschedule(1, timer, 99);
            (moved, world.cancel(1, timer))
        });
        let cancelled = world.cancel(0, timer);
        // The same node, if this thread was the one to recycle it.
        let next = world.arm(0, 10, 2, false);
        let (_moved, stolen) = stranger.join().unwrap();
        assert!(cancelled.is_some() ^ stolen.is_some(), "exactly one canceller wins");
        assert_eq!(cancelled.or(stolen), Some(1), "a stale key reached another timer");
        assert_eq!(world.due(next, next.mark, 10), Decided::Fired(10), "the next timer is moved");
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

/// A key comes on a way that orders nothing: its deadline is not that of the node's timer before.
#[test]
fn ask_by_a_key_that_has_just_come() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let first = world.arm(0, 5, 1, false);
        let sent = Arc::new(AtomicU64::new(0));
        let way = Arc::clone(&sent);
        let next = spawn_with(&world, move |world| {
            assert_eq!(world.cancel(0, first), Some(1));
            let next = world.arm(0, 9, 2, false);
            assert_eq!((next.index, next.generation), (first.index, first.generation + 1));
            // ORDERING: Relaxed: that is what the model is about.
            way.store(1, Ordering::Relaxed);
            next
        });
        // ORDERING: Relaxed: as above.
        if sent.load(Ordering::Relaxed) == 1 {
            let told = world.table.deadline_of(first.index, first.generation + 1);
            assert!(told.is_none_or(|told| told == 9), "the deadline of the timer before");
        }
        let next = next.join().unwrap();
        assert!(world.due(next, next.mark, 9).fired());
        world.finish();
    });
}

/// No entry fires its timer a tick before the deadline.
#[test]
fn one_tick_decides() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let timer = world.arm(0, 10, 1, false);
        assert_eq!(world.due(timer, timer.mark, 9), Decided::Again(10, timer.mark));
        assert_eq!(world.due(timer, timer.mark, 10), Decided::Fired(10));
        world.finish();
    });
}
