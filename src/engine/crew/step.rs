//! One step of a shard: a turn, and the announcement of the sleep that follows. Its worker and a `DrivenShard` take the
//! same steps; what they sleep on is theirs. `wait_idle` waits until a step of each shard has found nothing left to do.

use super::status::EnginePhase;
use crate::engine::inner::{Inner, ShardWorker};
use crate::engine::settings::{Drive, IdleStrategy};
use crate::sync::atomic::Ordering;
use crate::time::Time;
use std::time::Duration;

/// Looks at the inbox between two clock reads of a spinning worker.
const SPINS_PER_CLOCK_READ: u32 = 16;

/// The longest sleep while the engine drains: the last timer may be cancelled behind the worker's back.
const DRAINING_SLEEP: Duration = Duration::from_millis(10);

/// The result of a step.
pub(super) enum Next {
    /// Another step, at once.
    Turn,
    /// A sleep, which is announced, and then another step.
    Sleep {
        /// How long the sleep lasts at most, unless the shard is woken; `None` for ever.
        timeout: Option<Duration>,
        /// When the sleep is over.
        until: Time,
    },
    /// The shard's end.
    End,
}

/// Ends the shard's sleep, turns it once, and announces the next sleep if nothing is due, as `idle` says.
pub(super) fn step<T>(inner: &Inner<T>, shard: &mut ShardWorker<T>, idle: IdleStrategy) -> Next {
    if shard.owner.is_asleep() {
        shard.owner.end_sleep();
    }
    let phase = inner.status.phase();
    match phase {
        // The start writes `Started` only after it has spawned every worker, so `Init` means go on, too.
        EnginePhase::Init | EnginePhase::Started => {}
        EnginePhase::Draining => {
            if is_drained(inner, shard) {
                return Next::End;
            }
        }
        EnginePhase::Firing | EnginePhase::Stopped => return Next::End,
    }
    let standing = &inner.berths[shard.shard].standing;
    let idle_calls = inner.idle_calls();
    let now = inner.source.now();
    let turn = shard.turn(inner, now, inner.rate.current(now), &inner.budget, false);
    // A thread that changes the phase, or calls `wait_idle`, requests a turn afterwards: a turn that has seen the
    // request sees the change. The answer to a call needs a turn that reads the clock after it.
    if turn.more || inner.status.phase() != phase || inner.idle_calls() != idle_calls {
        return Next::Turn;
    }
    let end = match phase {
        EnginePhase::Draining => inner.rate.deadline_at(inner.drain_until()),
        _ => u64::MAX,
    };
    let handle = &shard.owner.handle;
    let next = if handle.is_in_test_time() && handle.pending() == 0 {
        // Time would jump to the deadline of a timer that has ended, or to where spare memory goes back.
        u64::MAX
    } else {
        shard.owner.next_tick().min(end)
    };
    // In ticks, not in time: at the far end of the scale "never" begins at the present.
    if inner.rate.current(inner.source.now()) >= next {
        return Next::Turn;
    }
    standing.answer_idle(idle_calls);
    rest(inner, shard, next, phase, idle)
}

/// Returns whether a shard that drains has come to its end: periodic timers are not waited for.
fn is_drained<T>(inner: &Inner<T>, shard: &ShardWorker<T>) -> bool {
    inner.source.now() >= inner.drain_until() || shard.owner.handle.sums().pending_once() == 0
}

/// Spins or announces a sleep until `next` or until a producer calls.
fn rest<T>(
    inner: &Inner<T>,
    shard: &ShardWorker<T>,
    next: u64,
    phase: EnginePhase,
    idle: IdleStrategy,
) -> Next {
    let until = inner.rate.start_of(next);
    let sleeps = match idle {
        IdleStrategy::Park => true,
        IdleStrategy::SpinThenPark { spin } => {
            !spin_for(inner, shard, until, spin, phase) && inner.source.now() < until
        }
        IdleStrategy::BusySpin => {
            spin_for(inner, shard, until, Duration::MAX, phase);
            false
        }
    };
    // Announced without the slack: a deadline from there on can wait as long as the one that is known.
    if !sleeps || !shard.owner.begin_sleep(next) {
        return Next::Turn;
    }
    let until = inner.rate.with_slack(until, inner.slack);
    let mut timeout = if inner.source.is_virtual() {
        // Time may have moved since the turn; the clock's hook has woken us then, and the sleep ends at once.
        (inner.rate.current(inner.source.now()) >= next).then_some(Duration::ZERO)
    } else if until == Time::MAX {
        None
    } else {
        let left = until.saturating_duration_since(inner.source.now());
        Some(inner.source.bounded(left))
    };
    if phase == EnginePhase::Draining {
        timeout = Some(timeout.map_or(DRAINING_SLEEP, |timeout| timeout.min(DRAINING_SLEEP)));
    }
    Next::Sleep { timeout, until }
}

/// Spins until `until`, or for `spin` if that is less; true if before that the inbox called, or `phase` or its drain was
/// over.
fn spin_for<T>(
    inner: &Inner<T>,
    shard: &ShardWorker<T>,
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

impl<T> Inner<T> {
    pub(crate) fn wait_idle(&self) {
        let is_at_rest = matches!(
            self.status.phase(),
            EnginePhase::Init | EnginePhase::Stopped
        );
        if is_at_rest || matches!(self.drive, Drive::Manual) || self.is_inside() {
            return;
        }
        let call = self.call_idle();
        self.request_turns();
        for berth in &self.berths {
            berth.standing.await_idle(call);
        }
    }

    /// Counts a call of `wait_idle` and returns its number. The caller requests turns and awaits the shards' answers.
    fn call_idle(&self) -> u64 {
        // ORDERING: Release pairs with the Acquire in `idle_calls`: a turn that begins with this call sees the timers that
        // were scheduled before. [P43]
        self.idle_calls.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns how many calls there were. A turn that has taken a call's request sees the call afterwards.
    #[inline]
    pub(super) fn idle_calls(&self) -> u64 {
        // ORDERING: Acquire as in `call_idle`. [P43]
        self.idle_calls.load(Ordering::Acquire)
    }
}
