//! The worker: the thread of one shard, and the only place where clock, turn and park meet.

use super::core::Core;
use super::handler::Unfired;
use super::lifecycle::{Inside, Seat};
use super::timer::EngineState;
use super::{IdleStrategy, pinning};
use crate::clock::Time;
use crate::sync::slot;
use std::time::Duration;

/// Looks at the inbox between two clock reads of a spinning worker.
const SPINS_PER_CLOCK_READ: u32 = 16;

/// Drives the shard until the engine stops; returns the timers that have not ended.
pub(super) fn run<T>(core: &Core<T>, mut seat: Seat<T>) -> Vec<Unfired<T>> {
    let _inside = Inside::enter(core.id);
    pin(&seat);
    slot::with(|slot| core.router.settle(slot, seat.shard));
    // The start writes `Started` only after it has spawned every worker, so `Init` means go on, too.
    while core.state() != EngineState::Stopped {
        let turn = seat.turn(core, false);
        // Whoever stops the engine summons it afterwards: a turn that has seen the summons sees the state.
        if !turn.more && core.state() != EngineState::Stopped {
            rest(core, &mut seat, turn.next);
        }
    }
    seat.close(core)
}

fn pin<T>(seat: &Seat<T>) {
    let Some(wanted) = seat.core else { return };
    let pinned = match pinning::pin_current(wanted) {
        Ok(()) => Some(wanted),
        Err(error) => {
            log::warn!("the worker of shard {} runs unpinned: {error}", seat.shard);
            None
        }
    };
    seat.owner.remote().counters().pinned.set(pinned.map_or(0, |core| core as u64 + 1));
}

/// Idles until `next` or until a producer calls, as the engine's idle strategy says.
fn rest<T>(core: &Core<T>, seat: &mut Seat<T>, next: u64) {
    let until = core.rate.start_of(next);
    // In ticks, not in time: at the far end of the scale "never" begins at the present.
    if core.rate.current(core.now()) >= next {
        return;
    }
    match core.idle {
        IdleStrategy::Park => park(core, seat, next, until),
        IdleStrategy::SpinThenPark { spin } => {
            let give_up = core.now().saturating_add(spin);
            if !spin_until(core, seat, until.min(give_up)) && core.now() < until {
                park(core, seat, next, until);
            }
        }
        IdleStrategy::BusySpin => {
            // Bounded, so that a stop is seen even if no producer calls.
            let give_up = core.now().saturating_add(Duration::from_millis(1));
            spin_until(core, seat, until.min(give_up));
        }
    }
}

/// Spins until `until`; true if the inbox called before that.
fn spin_until<T>(core: &Core<T>, seat: &Seat<T>, until: Time) -> bool {
    loop {
        let now = core.now();
        if now >= until {
            return false;
        }
        let tick = core.rate.current(now);
        for _ in 0..SPINS_PER_CLOCK_READ {
            if seat.owner.is_called(tick) {
                return true;
            }
            std::hint::spin_loop();
        }
    }
}

fn park<T>(core: &Core<T>, seat: &mut Seat<T>, next: u64, until: Time) {
    if !seat.owner.fall_asleep(next) {
        return;
    }
    let timeout = if core.source.is_virtual() {
        // Time may have moved since the turn; the clock's hook has woken us then, and the sleep ends at once.
        (core.rate.current(core.now()) >= next).then_some(Duration::ZERO)
    } else if until == Time::MAX {
        None
    } else {
        Some(until.saturating_duration_since(core.now()))
    };
    seat.sleeper.sleep(timeout);
    seat.owner.rise();
}
