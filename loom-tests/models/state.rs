//! One node: who ends a timer, who recycles it, and that a moved deadline holds.

use super::harness::{
    UNBOUNDED, UNIT, bounded, bounded_when_quick, explore, spawn_with, yield_now,
};
use super::world::{BARE, Decided, HELD, World, explore_timer};
use crate::state::Phase;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// One winner, who alone gets the payload.
#[test]
fn cancel_or_fire() {
    explore_timer(UNBOUNDED, BARE, 10, |world, timer| {
        let canceller = world.canceller(1, timer);
        let fired = world.due(timer, timer.mark, 10).fired();
        let cancelled = canceller.join().unwrap();
        assert_eq!(
            cancelled,
            if fired { None } else { Some(1) },
            "exactly one of the two wins"
        );
    });
}

/// One winner, who alone gets the payload.
#[test]
fn cancel_or_cancel() {
    explore_timer(UNBOUNDED, BARE, 10, |world, timer| {
        let other = world.canceller(1, timer);
        let mine = world.cancel(0, timer).is_some();
        assert!(
            mine ^ other.join().unwrap().is_some(),
            "exactly one canceller wins"
        );
    });
}

/// The node is recycled once, by the last of handle and winner.
#[test]
fn drop_handle_or_cancel_or_fire() {
    explore_timer(bounded(4, 2), HELD, 10, |world, timer| {
        let holder = spawn_with(world, move |world| world.release(1, timer));
        let canceller = world.canceller(2, timer);
        let fired = world.due(timer, timer.mark, 10).fired();
        holder.join().unwrap();
        assert!(
            fired ^ canceller.join().unwrap().is_some(),
            "exactly one of the two wins"
        );
    });
}

/// A handle that cancels and goes: node recycled once.
#[test]
fn handle_cancels_and_drops_or_fire() {
    explore_timer(UNBOUNDED, HELD, 10, |world, timer| {
        let holder = spawn_with(world, move |world| world.cancel_and_release(1, timer));
        let fired = world.due(timer, timer.mark, 10).fired();
        assert!(
            fired ^ holder.join().unwrap().is_some(),
            "exactly one of the two wins"
        );
    });
}

/// The holder recycles a node whose payload another thread has just taken, and arms it again at once.
#[test]
fn recycled_and_armed_again_after_cancel() {
    explore_timer(UNBOUNDED, HELD, 10, |world, timer| {
        let canceller = world.canceller(1, timer);
        world.release(0, timer);
        let next = world.arm(0, 10, 2);
        assert_eq!(canceller.join().unwrap(), Some(1));
        assert_eq!(
            world.cancel(0, next),
            Some(2),
            "the next timer is untouched"
        );
    });
}

/// A stale key does not reach the node's next timer.
#[test]
fn stale_key_or_recycled_node() {
    explore_timer(bounded_when_quick(3), BARE, 10, |world, timer| {
        let stranger = spawn_with(world, move |world| {
            let _ = world.move_to(1, timer, 99);
            world.cancel(1, timer)
        });
        let cancelled = world.cancel(0, timer);
        // The same node, if this thread was the one to recycle it.
        let next = world.arm(0, 10, 2);
        let stolen = stranger.join().unwrap();
        assert!(
            cancelled.is_some() ^ stolen.is_some(),
            "exactly one canceller wins"
        );
        assert_eq!(
            cancelled.or(stolen),
            Some(1),
            "a stale key reached another timer"
        );
        assert_eq!(
            world.due(next, next.mark, 10),
            Decided::Fired(10),
            "the next timer is moved"
        );
    });
}

/// A key reaches another thread through something that orders nothing: the state word must do it alone.
#[test]
fn a_key_needs_no_ordering_of_its_own() {
    explore(UNBOUNDED, || {
        let world = World::new();
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        let armer = spawn_with(&world, move |world| {
            let timer = world.arm(1, 10, 7);
            // ORDERING: Relaxed on purpose.
            tell.store(
                timer.generation << 32 | u64::from(timer.index),
                Ordering::Relaxed,
            );
            timer
        });
        yield_now();
        // ORDERING: Relaxed on purpose.
        let key = told.load(Ordering::Relaxed);
        let mut cancelled = None;
        if key != 0 {
            let (index, generation) = (key as u32, key >> 32);
            let ended = world
                .table
                .end(&world.caches[0], index, generation, Phase::Cancelled);
            cancelled = ended.into_payload().map(|payload| payload.id());
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
    explore_timer(UNBOUNDED, BARE, 5, |world, first| {
        let sent = Arc::new(AtomicU64::new(0));
        let way = Arc::clone(&sent);
        let next = spawn_with(world, move |world| {
            assert_eq!(world.cancel(0, first), Some(1));
            let next = world.arm(0, 9, 2);
            assert_eq!(
                (next.index, next.generation),
                (first.index, first.generation + 1)
            );
            // ORDERING: Relaxed: that is what the model is about.
            way.store(1, Ordering::Relaxed);
            next
        });
        // ORDERING: Relaxed: as above.
        if sent.load(Ordering::Relaxed) == 1 {
            let told = world.table.deadline_of(first.index, first.generation + 1);
            assert!(
                told.is_none_or(|told| told == 9),
                "the deadline of the timer before"
            );
        }
        let next = next.join().unwrap();
        assert!(world.due(next, next.mark, 9).fired());
    });
}

/// No entry fires its timer a tick before the deadline.
#[test]
fn one_tick_decides() {
    explore_timer(UNIT, BARE, 10, |world, timer| {
        assert_eq!(
            world.due(timer, timer.mark, 9),
            Decided::Again(10, timer.mark)
        );
        assert_eq!(world.due(timer, timer.mark, 10), Decided::Fired(10));
    });
}
