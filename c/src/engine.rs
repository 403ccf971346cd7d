//! `tw_timer`: an engine with threads of its own.

use crate::calls::Calls;
use crate::{CALLBACKS, Data, give, guard, hand_over, known, moved, period, wait};
use crate::{tw_error, tw_expired, tw_fire, tw_key, tw_left, tw_options, tw_stats};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{EngineState, Expired, Time, Timer};

/// An engine: its threads call a function of yours; any thread schedules.
pub struct tw_timer {
    timer: Timer<Data>,
    /// What each worker is at.
    calls: Box<[Arc<Calls>]>,
}

/// Builds an engine. Its threads, which the first timer starts, call `fire` with `ctx`, several at once if there are
/// several shards; until tw_timer_stop or tw_timer_free has returned. `fire` may use the timer, but not stop or free
/// it. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_new(
    options: *const tw_options,
    fire: tw_fire,
    ctx: *mut c_void,
    made: *mut *mut tw_timer,
) -> tw_error {
    let ctx = Data(ctx);
    // SAFETY: the pointers are null or valid; `fire` gets its own `ctx`.
    guard(|| unsafe {
        let made = NonNull::new(made).ok_or(tw_error::Null)?;
        let fire = fire.ok_or(tw_error::Null)?;
        let builder = tw_options::read(options)?.builder();
        let mut calls = Vec::new();
        // Whatever of the caller's runs on a worker is a callback.
        let builder = builder.on_worker_start(|_| CALLBACKS.set(1));
        let timer = builder.build_per_shard(|_| {
            let own = Arc::new(Calls::default());
            calls.push(Arc::clone(&own));
            move |_: &Timer<Data>, expired: Expired<Data>| {
                let expired = tw_expired::new(&expired);
                own.call(expired.key.words(), || fire(ctx.get(), &expired));
            }
        })?;
        let calls = calls.into();
        hand_over(made, tw_timer { timer, calls });
        Ok(())
    })
}

/// Stops the engine: waits until the callbacks that run have returned, then calls `left`, which may be null, for each
/// timer that was pending. Later schedules are refused; a second stop has nothing left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_stop(
    timer: *const tw_timer,
    left: tw_left,
    ctx: *mut c_void,
) -> tw_error {
    // SAFETY: null or valid; `left` gets its own `ctx`.
    guard(|| unsafe {
        for unfired in known(timer)?.timer.stop()? {
            left.inspect(|left| left(ctx, unfired.payload.get()));
        }
        Ok(())
    })
}

/// Stops the engine if that has not been done, and frees it; data pointers that are left are forgotten. `timer` may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_free(timer: *mut tw_timer) -> tw_error {
    // SAFETY: null, or made by `tw_timer_new` and not used afterwards.
    guard(|| unsafe {
        let Some(known) = timer.as_ref() else {
            return Ok(());
        };
        // In the child of a fork only the memory is left.
        if let Err(tickwheel::StopError::InsideHandler) = known.timer.stop() {
            return Err(tw_error::InCallback);
        }
        drop(Box::from_raw(timer));
        Ok(())
    })
}

/// Schedules a timer for `delay_ns` from now. Its key is written to `key`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_schedule(
    timer: *const tw_timer,
    delay_ns: u64,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let delay = Duration::from_nanos(delay_ns);
        let scheduled = known(timer)?.timer.schedule(delay, Data(data));
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Schedules a timer for a point on the scale of tw_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_schedule_at(
    timer: *const tw_timer,
    deadline: u64,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let scheduled = known(timer)?
            .timer
            .schedule(Time::from_nanos(deadline), Data(data));
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Schedules a timer for `first_ns` from now and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
/// same: a cancel from any thread ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_schedule_periodic(
    timer: *const tw_timer,
    first_ns: u64,
    period_ns: u64,
    kind: c_int,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    let first = Duration::from_nanos(first_ns);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let (timer, period) = (known(timer)?, period(period_ns, kind)?);
        let scheduled = timer.timer.schedule_periodic(first, period, Data(data));
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Moves a pending timer to `delay_ns` from now; of a periodic one the next deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_reschedule(
    timer: *const tw_timer,
    key: tw_key,
    delay_ns: u64,
) -> tw_error {
    // SAFETY: null or valid.
    guard(|| unsafe {
        let delay = Duration::from_nanos(delay_ns);
        moved(known(timer)?.timer.reschedule(key.get()?, delay))
    })
}

/// Like tw_timer_reschedule, to a point on the scale of tw_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_reschedule_at(
    timer: *const tw_timer,
    key: tw_key,
    deadline: u64,
) -> tw_error {
    // SAFETY: null or valid.
    guard(|| unsafe {
        let deadline = Time::from_nanos(deadline);
        moved(known(timer)?.timer.reschedule(key.get()?, deadline))
    })
}

/// Cancels a pending timer. Its data is written to `data`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_cancel(
    timer: *const tw_timer,
    key: tw_key,
    data: *mut *mut c_void,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let answer = known(timer)?.timer.cancel(key.get()?);
        give(data, answer.into_payload().ok_or(tw_error::Gone)?.get());
        Ok(())
    })
}

/// Waits until the callback of the timer has returned, for `limit_ns` at most; UINT64_MAX is for ever. Call it after a
/// cancel, won or lost: then no callback uses the data, which may be freed. TW_ERROR_PENDING before a cancel. In a
/// callback, also of another loop or engine, it waits for no other one, which could wait for this one:
/// TW_ERROR_IN_CALLBACK if the timer's runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_wait(
    timer: *const tw_timer,
    key: tw_key,
    limit_ns: u64,
) -> tw_error {
    // SAFETY: null or valid.
    guard(|| unsafe {
        let (tw_timer { timer, calls }, name) = (known(timer)?, key.get()?);
        if timer.state() == EngineState::Forked {
            return Err(tw_error::Forked);
        }
        let Some(calls) = calls.get(name.shard()) else {
            return Ok(());
        };
        let is_turning = || timer.is_turning(name.shard());
        wait(calls, key, limit_ns, timer.is_pending(name), is_turning)
    })
}

/// Tells when a pending timer is due. `deadline` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_deadline(
    timer: *const tw_timer,
    key: tw_key,
    deadline: *mut u64,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let due = known(timer)?.timer.deadline(key.get()?);
        give(deadline, due.ok_or(tw_error::Gone)?.as_nanos());
        Ok(())
    })
}

/// Returns the number of pending timers; 0 if the timer is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_pending(timer: *const tw_timer) -> usize {
    let mut pending = 0;
    // SAFETY: null or valid.
    guard(|| unsafe {
        pending = known(timer)?.timer.pending();
        Ok(())
    });
    pending
}

/// Writes the statistics so far to `stats`. Not for each round: it visits each thread's counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_timer_stats(timer: *const tw_timer, stats: *mut tw_stats) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let stats = NonNull::new(stats).ok_or(tw_error::Null)?;
        stats.write(tw_stats::of(&known(timer)?.timer.stats().shards));
        Ok(())
    })
}
