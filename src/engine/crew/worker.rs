//! The worker: the thread of one shard, and the only place where clock, turn and park meet.

use super::status::EnginePhase;
use crate::contain;
use crate::engine::inner::{Inner, ShardWorker};
use crate::engine::pinning;
use crate::engine::settings::IdleStrategy;
use crate::park::parker::ParkEnd;
use crate::shard::PinState;
use crate::shard::Turn;
use crate::sync::atomic::Ordering;
use crate::time::Time;
use std::time::Duration;

/// Looks at the inbox between two clock reads of a spinning worker.
const SPINS_PER_CLOCK_READ: u32 = 16;

/// The longest sleep while the engine drains: the last timer may be cancelled behind the worker's back.
const DRAINING_SLEEP: Duration = Duration::from_millis(10);

/// Drives the shard until the engine ends, or until a `DrivenShard` claims it, which it tells. The caller closes the
/// shard, also if this panics.
pub(super) fn drive<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>) -> bool {
    wake_up(shard);
    let seat = &*inner.seats[shard.shard];
    // The start writes `Started` only after it has spawned every worker, so `Init` means go on, too.
    loop {
        let phase = inner.status.phase();
        match phase {
            EnginePhase::Init | EnginePhase::Started if seat.is_driven() => return true,
            EnginePhase::Init | EnginePhase::Started => {}
            EnginePhase::Draining if !is_drained(inner, shard) => {}
            EnginePhase::Draining | EnginePhase::Stopped => return false,
            EnginePhase::Firing => {
                shard.fire_until(inner, Some(u64::MAX));
                return false;
            }
        }
        let turn = shard.turn(inner);
        // A thread that changes the phase, or claims the shard, requests a turn afterwards: a turn that has seen the
        // request sees the change.
        if !turn.more && inner.status.phase() == phase && !seat.is_driven() {
            let end = match phase {
                EnginePhase::Draining => inner.rate.deadline_at(inner.drain_until()),
                _ => u64::MAX,
            };
            rest(inner, shard, turn.next.min(end), phase);
        }
    }
}

/// Runs one turn of a driven shard. Returns how long to wait before the next one, `None` for ever.
pub(super) fn turn_driven<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>) -> Option<Duration> {
    wake_up(shard);
    let Turn { more, next, .. } = shard.turn(inner);
    let is_due = more || inner.rate.current(inner.source.now()) >= next;
    if is_due || !answer_requests(inner, shard) || !shard.owner.begin_sleep(next) {
        return Some(Duration::ZERO);
    }
    sleep_length(inner, next, with_slack(inner, next))
}

/// Ends the sleep that a driven shard has announced, if it has.
fn wake_up<T>(shard: &ShardWorker<T>) {
    if shard.owner.is_asleep() {
        shard.owner.end_sleep();
    }
}

/// Returns whether a shard that drains has come to its end.
fn is_drained<T>(inner: &Inner<T>, shard: &ShardWorker<T>) -> bool {
    inner.source.now() >= inner.drain_until() || shard.owner.handle.pending() == 0
}

/// Pins the calling thread to the shard's core, if it has one.
pub(super) fn pin<T>(shard: &ShardWorker<T>) {
    let Some(core) = shard.core else { return };
    if pinning::pin_current(core) {
        shard
            .owner
            .handle
            .counters
            .pinning
            .set(PinState::Pinned(core).pack());
    } else {
        contain::warn(format_args!(
            "the worker of shard {} runs unpinned: the system refused to pin it to core {core}; check that the core \
             exists, or use Pinning::Off",
            shard.shard
        ));
    }
}

/// Idles until `next` or until a producer calls, as the engine's idle strategy says.
fn rest<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>, next: u64, phase: EnginePhase) {
    let until = inner.rate.start_of(next);
    // In ticks, not in time: at the far end of the scale "never" begins at the present.
    if inner.rate.current(inner.source.now()) >= next || !answer_requests(inner, shard) {
        return;
    }
    match inner.idle {
        IdleStrategy::Park => park(inner, shard, next, phase),
        IdleStrategy::SpinThenPark { spin } => {
            if !spin_for(inner, shard, until, spin, phase) && inner.source.now() < until {
                park(inner, shard, next, phase);
            }
        }
        IdleStrategy::BusySpin => {
            spin_for(inner, shard, until, Duration::MAX, phase);
        }
    }
}

/// Answers the calls of `wait_idle` that were seen before the last turn began: all that was due for them is handled.
/// Returns whether there are no newer ones; those need one more turn, which reads the clock after this.
fn answer_requests<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>) -> bool {
    if shard.idle_answered != shard.idle_seen {
        shard.idle_answered = shard.idle_seen;
        inner.berths.answer(shard.shard, shard.idle_seen);
    }
    // ORDERING: Relaxed: a call that is missed here has requested a turn, and is seen after that.
    let seen = inner.idle_requests.load(Ordering::Relaxed);
    std::mem::replace(&mut shard.idle_seen, seen) == seen
}

/// Spins until `until`, or for `spin` if that is less; true if before that the inbox called, or `phase` or its drain was
/// over.
fn spin_for<T>(
    inner: &Inner<T>,
    shard: &mut ShardWorker<T>,
    until: Time,
    spin: Duration,
    phase: EnginePhase,
) -> bool {
    let until = until.min(inner.source.now().saturating_add(spin));
    let mut called = false;
    while !called {
        let now = inner.source.now();
        if now >= until {
            break;
        }
        // A stop requests a turn only after it has ended the shards that have no thread, and who cancels the last timer
        // of a drain requests none.
        called = is_called_soon(shard, inner.rate.current(now))
            || inner.status.phase() != phase
            || phase == EnginePhase::Draining && is_drained(inner, shard);
    }
    called
}

/// Looks at the inbox for a while.
fn is_called_soon<T>(shard: &ShardWorker<T>, tick: u64) -> bool {
    (0..SPINS_PER_CLOCK_READ).any(|_| {
        std::hint::spin_loop();
        shard.owner.is_called(tick)
    })
}

fn park<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>, next: u64, phase: EnginePhase) {
    // Announced without the slack: a deadline from there on can wait as long as the one that is known.
    if !shard.owner.begin_sleep(next) {
        return;
    }
    let until = with_slack(inner, next);
    let mut timeout = sleep_length(inner, next, until);
    if phase == EnginePhase::Draining {
        timeout = Some(timeout.map_or(DRAINING_SLEEP, |timeout| timeout.min(DRAINING_SLEEP)));
    }
    let ended = shard.parker.sleep(timeout);
    shard.owner.end_sleep();
    if ended == ParkEnd::Timeout && !inner.source.is_virtual() {
        let late = inner.source.now().saturating_duration_since(until);
        if shard.starvation.record_lateness(late) {
            leave_core(shard);
        }
    }
}

/// Returns until when a shard sleeps whose next tick is `next`.
fn with_slack<T>(inner: &Inner<T>, next: u64) -> Time {
    inner
        .rate
        .with_slack(inner.rate.start_of(next), inner.slack)
}

/// Returns how long a shard sleeps, `None` for ever.
fn sleep_length<T>(inner: &Inner<T>, next: u64, until: Time) -> Option<Duration> {
    if inner.source.is_virtual() {
        // Time may have moved since the turn; the clock's hook has woken us then, and the sleep ends at once.
        (inner.rate.current(inner.source.now()) >= next).then_some(Duration::ZERO)
    } else if until == Time::MAX {
        None
    } else {
        Some(
            inner
                .source
                .bounded(until.saturating_duration_since(inner.source.now())),
        )
    }
}

/// Unpins a worker that has waited for its core too often while it could have run on another.
#[cold]
fn leave_core<T>(shard: &mut ShardWorker<T>) {
    let Some(core) = shard.core.take() else {
        return;
    };
    if pinning::unpin_current_thread() {
        shard
            .owner
            .handle
            .counters
            .pinning
            .set(PinState::Widened(core).pack());
        contain::warn(format_args!(
            "the worker of shard {} was kept waiting for core {core}; it may use all cores now",
            shard.shard
        ));
    }
}
