//! The worker: the thread of one shard, and the only place where clock, turn and park meet.

use super::inner::Inner;
use super::lifecycle::{Inside, ShardWorker};
use super::pinning;
use super::settings::IdleStrategy;
use super::state::EngineState;
use crate::sync::slot;
use crate::time::Time;
use crate::types::Unfired;
use std::time::Duration;

/// Looks at the inbox between two clock reads of a spinning worker.
const SPINS_PER_CLOCK_READ: u32 = 16;

/// Drives the shard until the engine stops; returns the timers that have not ended.
pub(super) fn run<T>(inner: &Inner<T>, mut shard_worker: ShardWorker<T>) -> Vec<Unfired<T>> {
    let _inside = Inside::enter(inner.id);
    pin(&shard_worker);
    slot::with(|slot| inner.router.set_home(slot, shard_worker.shard));
    // The start writes `Started` only after it has spawned every worker, so `Init` means go on, too.
    while inner.state() != EngineState::Stopped {
        let turn = shard_worker.turn(inner, false);
        // Whoever stops the engine turn request it afterwards: a turn that has seen the turn request sees the state.
        if !turn.more && inner.state() != EngineState::Stopped {
            rest(inner, &mut shard_worker, turn.next);
        }
    }
    shard_worker.close(inner)
}

fn pin<T>(shard_worker: &ShardWorker<T>) {
    let Some(wanted) = shard_worker.core else { return };
    let pinned = match pinning::pin_current(wanted) {
        Ok(()) => Some(wanted),
        Err(error) => {
            log::warn!("the worker of shard {} runs unpinned: {error}", shard_worker.shard);
            None
        }
    };
    shard_worker.owner.handle().counters().pinned.set(pinned.map_or(0, |core| core as u64 + 1));
}

/// Idles until `next` or until a producer calls, as the engine's idle strategy says.
fn rest<T>(inner: &Inner<T>, shard_worker: &mut ShardWorker<T>, next: u64) {
    let until = inner.rate.start_of(next);
    // In ticks, not in time: at the far end of the scale "never" begins at the present.
    if inner.rate.current(inner.now()) >= next {
        return;
    }
    match inner.idle {
        IdleStrategy::Park => park(inner, shard_worker, next, until),
        IdleStrategy::SpinThenPark { spin } => {
            let give_up = inner.now().saturating_add(spin);
            if !spin_until(inner, shard_worker, until.min(give_up)) && inner.now() < until {
                park(inner, shard_worker, next, until);
            }
        }
        IdleStrategy::BusySpin => {
            // Bounded, so that a stop is seen even if no producer calls.
            let give_up = inner.now().saturating_add(Duration::from_millis(1));
            spin_until(inner, shard_worker, until.min(give_up));
        }
    }
}

/// Spins until `until`; true if the inbox called before that.
fn spin_until<T>(inner: &Inner<T>, shard_worker: &ShardWorker<T>, until: Time) -> bool {
    loop {
        let now = inner.now();
        if now >= until {
            return false;
        }
        let tick = inner.rate.current(now);
        for _ in 0..SPINS_PER_CLOCK_READ {
            if shard_worker.owner.is_called(tick) {
                return true;
            }
            std::hint::spin_loop();
        }
    }
}

fn park<T>(inner: &Inner<T>, shard_worker: &mut ShardWorker<T>, next: u64, until: Time) {
    if !shard_worker.owner.fall_asleep(next) {
        return;
    }
    let timeout = if inner.source.is_virtual() {
        // Time may have moved since the turn; the clock's hook has woken us then, and the sleep ends at once.
        (inner.rate.current(inner.now()) >= next).then_some(Duration::ZERO)
    } else if until == Time::MAX {
        None
    } else {
        Some(until.saturating_duration_since(inner.now()))
    };
    shard_worker.sleeper.sleep(timeout);
    shard_worker.owner.rise();
}
