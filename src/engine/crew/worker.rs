//! A worker: the thread of one shard, from its start to its end.

use super::step::{Next, step};
use crate::contain;
use crate::engine::hooks;
use crate::engine::inner::{Berth, EngineOwner, Inner, ShardWorker};
use crate::engine::pinning;
use crate::park::parker::{ParkEnd, Parker};
use crate::stats::PinState;
use crate::time::{MonotonicClock, Time};
use std::sync::Arc;
use std::time::Duration;

/// Runs a worker's thread, but for what its handlers have left in thread-locals.
pub(super) fn work<T: Send + 'static>(engine: Arc<EngineOwner<T>>, number: usize) {
    let (berth, hooks) = (&engine.berths[number], &engine.hooks);
    let standing = Arc::clone(&berth.standing);
    // The thread that has started this one may be a pinned worker, or have pinned itself.
    pinning::unpin_current_thread();
    // As in a turn, so that no other thread turns the shard before the hook has returned.
    let begun = berth.turn(berth.lock(), |shard| {
        pin(berth, shard);
        engine.set_home(number);
        hooks::tell("the start hook", hooks.worker_start.as_ref(), &number);
    });
    let last = match begun {
        // A `DrivenShard` has panicked before this thread came.
        None => return contain::drop_quietly("an engine", engine),
        Some(Ok(())) => turn_until_the_end(&engine, berth),
        Some(Err(shard)) => Some(shard),
    };
    let tell_stop = || hooks::tell("the stop hook", hooks.worker_stop.as_ref(), &number);
    let Some(shard) = last else {
        tell_stop();
        return contain::drop_quietly("an engine", engine);
    };
    engine.end(shard);
    // The engine waits for this thread yet.
    let inside = berth.enter();
    tell_stop();
    drop(inside);
    // A caller that has waited for the end, and then drops the last `Timer`, finds no worker that keeps the engine.
    contain::drop_quietly("an engine", engine);
    standing.set_gone();
}

/// Turns a shard until it must end, except while a `DrivenShard` has it. Returns the shard to be ended; `None` if another
/// thread ends it, because its turn has panicked.
fn turn_until_the_end<T>(engine: &Inner<T>, berth: &Berth<T>) -> Option<ShardWorker<T>> {
    let mut parker = Parker::of(&berth.waker.worker);
    let (mut has_left, mut overslept) = (false, None);
    loop {
        let slept = overslept.take();
        let turned = berth.turn(berth.lock(), |shard| {
            // `claim` sets `driven` before it requests a turn. So a turn that finds the request also finds `driven`.
            if !berth.standing.is_driven() {
                if std::mem::take(&mut has_left) {
                    pin(berth, shard);
                }
                if let Some(slept) = slept {
                    note_lateness(engine, berth, shard, slept);
                }
                let next = step(engine, shard, engine.idle);
                if !berth.standing.is_driven() {
                    return Some(next);
                }
            }
            berth.set_pinning(PinState::Unpinned);
            None
        })?;
        match turned {
            Err(shard) => return Some(shard),
            Ok(Some(Next::Turn)) => {}
            Ok(Some(Next::Sleep { timeout, until })) => {
                let from = MonotonicClock::new().now();
                overslept = match parker.sleep(timeout) {
                    ParkEnd::Timeout => Some(Overslept::Since(until)),
                    ParkEnd::Woken => berth.waker.woken_ago(from).map(Overslept::By),
                };
            }
            Ok(Some(Next::End)) => return berth.lock().take(),
            Ok(None) => {
                berth.standing.await_release();
                has_left = true;
            }
        }
    }
}

/// Pins the calling thread to the shard's core, if it has one.
fn pin<T>(berth: &Berth<T>, shard: &ShardWorker<T>) {
    let Some(core) = shard.core else { return };
    if pinning::pin_current(core) {
        berth.set_pinning(PinState::Pinned(core));
    } else {
        contain::warn(format_args!(
            "the worker of shard {} runs unpinned: the system refused to pin it to core {core}; check that the core \
             exists, or use Pinning::Off",
            shard.shard
        ));
    }
}

/// How late a worker runs after a sleep.
enum Overslept {
    /// The sleep ended by itself, and was over then by the engine's clock.
    Since(Time),
    /// The worker was woken so long ago by the machine's clock.
    By(Duration),
}

/// Notes how late a worker runs after a sleep.
fn note_lateness<T>(
    inner: &Inner<T>,
    berth: &Berth<T>,
    shard: &mut ShardWorker<T>,
    slept: Overslept,
) {
    let late = match slept {
        Overslept::Since(_) if inner.source.is_virtual() => return,
        Overslept::Since(until) => inner.source.now().saturating_duration_since(until),
        Overslept::By(late) => late,
    };
    if shard.starvation.record_lateness(late) {
        leave_core(berth, shard);
    }
}

/// Unpins a worker that has waited for its core too often while it could have run on another.
#[cold]
fn leave_core<T>(berth: &Berth<T>, shard: &mut ShardWorker<T>) {
    let Some(core) = shard.core.take() else {
        return;
    };
    if pinning::unpin_current_thread() {
        berth.set_pinning(PinState::Widened(core));
        contain::warn(format_args!(
            "the worker of shard {} was kept waiting for core {core}; it may use all cores now",
            shard.shard
        ));
    }
}
