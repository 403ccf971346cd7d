//! `tw_loop`: the timers of a loop, and `tw_remote`: the other threads' access to them.

use crate::calls::Calls;
use crate::{CALLBACKS, Data, give, guard, hand_over, known, moved, nanos, period, wait};
use crate::{
    tw_error, tw_expired, tw_fire, tw_key, tw_left, tw_options, tw_polled, tw_remote_key, tw_stats,
};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Expired, LocalTimer, Polled, Remote, Time, When};

/// The timers of a loop. Calls must not overlap.
pub struct tw_loop {
    /// The timers: in their box, or as a poll lends them to the callback that runs.
    timers: Cell<Timers>,
    /// A callback may be running, so this is neither polled nor closed nor freed.
    is_busy: Cell<bool>,
    /// The callback that runs has asked for the end of its poll.
    breaks: Cell<bool>,
    /// What its polls are at.
    calls: Arc<Calls>,
}

#[derive(Clone, Copy)]
enum Timers {
    Alone(*mut LocalTimer<Data>),
    WithRemotes(*mut EventLoopTimer<Data>),
    Closed,
}

/// The timers for the length of a call.
enum Lent<'a> {
    Alone(&'a mut LocalTimer<Data>),
    WithRemotes(&'a mut EventLoopTimer<Data>),
}

impl tw_loop {
    fn new(timers: Timers) -> Self {
        Self {
            timers: Cell::new(timers),
            is_busy: Cell::new(false),
            breaks: Cell::new(false),
            calls: Arc::default(),
        }
    }

    /// Lends the timers to a call, which runs no C code but a poll's callbacks.
    #[inline]
    fn lend(&self) -> Result<Lent<'_>, tw_error> {
        match self.timers.get() {
            // SAFETY: they live until `close`. Nothing else uses them meanwhile: the caller's calls do not overlap, but
            // for those in a poll's callbacks, and there the pointer is the reference that the poll lends.
            Timers::Alone(timers) => Ok(Lent::Alone(unsafe { &mut *timers })),
            // SAFETY: as above.
            Timers::WithRemotes(timers) => Ok(Lent::WithRemotes(unsafe { &mut *timers })),
            Timers::Closed => Err(tw_error::Closed),
        }
    }

    /// Runs a call with callbacks, in which no other one is allowed.
    fn keep_busy<R>(&self, call: impl FnOnce() -> Result<R, tw_error>) -> Result<R, tw_error> {
        if self.is_busy.replace(true) {
            return Err(tw_error::InCallback);
        }
        let result = catch_unwind(AssertUnwindSafe(call));
        self.is_busy.set(false);
        result.unwrap_or(Err(tw_error::Panicked))
    }

    /// Schedules a timer.
    #[inline]
    unsafe fn schedule(
        &self,
        now: u64,
        when: impl Into<When>,
        data: *mut c_void,
        key: *mut tw_key,
    ) -> Result<(), tw_error> {
        let now = Time::from_nanos(now);
        let scheduled = match self.lend()? {
            Lent::Alone(timers) => timers.schedule(now, when, Data(data)),
            Lent::WithRemotes(timers) => timers.schedule(now, when, Data(data)),
        };
        // SAFETY: null or valid, as the header asks.
        unsafe { give(key, tw_key::of(scheduled)?) };
        Ok(())
    }

    /// Moves a timer.
    #[inline]
    fn reschedule(&self, now: u64, key: tw_key, when: impl Into<When>) -> Result<(), tw_error> {
        let (now, key) = (Time::from_nanos(now), key.get()?);
        moved(match self.lend()? {
            Lent::Alone(timers) => timers.reschedule(now, key, when),
            Lent::WithRemotes(timers) => timers.reschedule(now, key, when),
        })
    }

    fn close(&self, mut left: impl FnMut(Data)) -> Result<(), tw_error> {
        self.keep_busy(|| match self.timers.replace(Timers::Closed) {
            Timers::Alone(timers) => {
                // SAFETY: it was boxed by `tw_loop_new`, and no poll lends it, because none is under way.
                let mut timers = unsafe { Box::from_raw(timers) };
                timers.drain().for_each(|unfired| left(unfired.payload));
                Ok(())
            }
            Timers::WithRemotes(timers) => {
                // SAFETY: as above, by `tw_loop_new_with_remotes`.
                let timers = unsafe { Box::from_raw(timers) };
                timers
                    .close()
                    .into_iter()
                    .for_each(|unfired| left(unfired.payload));
                Ok(())
            }
            Timers::Closed => Err(tw_error::Closed),
        })
    }
}

/// A loop's poll, on the thread that polls.
struct Polling<'a>(&'a Calls);

impl<'a> Polling<'a> {
    fn begin(calls: &'a Calls) -> Self {
        CALLBACKS.set(CALLBACKS.get() + 1);
        calls.set_polls(true);
        Self(calls)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.set_polls(false);
        CALLBACKS.set(CALLBACKS.get() - 1);
    }
}

/// Builds timers of one thread, without atomics. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_new(
    options: *const tw_options,
    made: *mut *mut tw_loop,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let made = NonNull::new(made).ok_or(tw_error::Null)?;
        let timers = Box::new(tw_options::read(options)?.settings().build_local()?);
        hand_over(made, tw_loop::new(Timers::Alone(Box::into_raw(timers))));
        Ok(())
    })
}

/// Ends the loop's current sleep, or its next one: writes to an eventfd, for example. Called by any thread that uses a
/// remote; must not block, nor use the loop or its remotes. `ctx` must stay valid until the loop and all of its remotes
/// are freed.
pub type tw_wake = Option<unsafe extern "C" fn(ctx: *mut c_void)>;

/// Builds timers that other threads reach by remotes. `options` may be null; `wake` too, if the loop never sleeps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_new_with_remotes(
    options: *const tw_options,
    wake: tw_wake,
    ctx: *mut c_void,
    made: *mut *mut tw_loop,
) -> tw_error {
    let ctx = Data(ctx);
    // SAFETY: the pointers are null or valid; `wake` gets its own `ctx`.
    guard(|| unsafe {
        let made = NonNull::new(made).ok_or(tw_error::Null)?;
        let settings = tw_options::read(options)?.settings();
        let timers = Box::new(EventLoopTimer::with_waker(settings, move || {
            wake.inspect(|wake| wake(ctx.get()));
        })?);
        let timers = Timers::WithRemotes(Box::into_raw(timers));
        hand_over(made, tw_loop::new(timers));
        Ok(())
    })
}

/// Frees the loop; data pointers that are left are forgotten. Not in callbacks. `timers` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_free(timers: *mut tw_loop) -> tw_error {
    // SAFETY: null, or valid and not used afterwards.
    guard(|| unsafe {
        let Some(known) = timers.as_ref() else {
            return Ok(());
        };
        if known.close(|_| ()) == Err(tw_error::InCallback) {
            return Err(tw_error::InCallback);
        }
        drop(Box::from_raw(timers));
        Ok(())
    })
}

/// Ends the timers and calls `left`, which may be null, for each that was pending. Later calls are refused, those of
/// remotes as well. Not in callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_close(
    timers: *mut tw_loop,
    left: tw_left,
    ctx: *mut c_void,
) -> tw_error {
    // SAFETY: null or valid; `left` gets its own `ctx`.
    guard(|| unsafe {
        known(timers)?.close(|data| {
            left.inspect(|left| left(ctx, data.get()));
        })
    })
}

/// Schedules a timer for `now + delay_ns`. Its key is written to `key`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_schedule(
    timers: *mut tw_loop,
    now: u64,
    delay_ns: u64,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe { known(timers)?.schedule(now, delay, data, key) })
}

/// Schedules a timer for a point on the loop's scale of time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_schedule_at(
    timers: *mut tw_loop,
    now: u64,
    deadline: u64,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    let deadline = Time::from_nanos(deadline);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe { known(timers)?.schedule(now, deadline, data, key) })
}

/// Schedules a timer for `now + first_ns` and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
/// same over all periods.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_schedule_periodic(
    timers: *mut tw_loop,
    now: u64,
    first_ns: u64,
    period_ns: u64,
    kind: c_int,
    data: *mut c_void,
    key: *mut tw_key,
) -> tw_error {
    let (now, first) = (Time::from_nanos(now), Duration::from_nanos(first_ns));
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let (this, period) = (known(timers)?, period(period_ns, kind)?);
        let scheduled = match this.lend()? {
            Lent::Alone(timers) => timers.schedule_periodic(now, first, period, Data(data)),
            Lent::WithRemotes(timers) => timers.schedule_periodic(now, first, period, Data(data)),
        };
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Moves a pending timer to `now + delay_ns`; of a periodic one the next deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_reschedule(
    timers: *mut tw_loop,
    now: u64,
    key: tw_key,
    delay_ns: u64,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: null or valid.
    guard(|| unsafe { known(timers)?.reschedule(now, key, delay) })
}

/// Like tw_loop_reschedule, to a point on the loop's scale of time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_reschedule_at(
    timers: *mut tw_loop,
    now: u64,
    key: tw_key,
    deadline: u64,
) -> tw_error {
    let deadline = Time::from_nanos(deadline);
    // SAFETY: null or valid.
    guard(|| unsafe { known(timers)?.reschedule(now, key, deadline) })
}

/// Cancels a pending timer. Its data is written to `data`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_cancel(
    timers: *mut tw_loop,
    key: tw_key,
    data: *mut *mut c_void,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let answer = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.cancel(key.get()?),
            Lent::WithRemotes(timers) => timers.cancel(key.get()?),
        };
        give(data, answer.into_payload().ok_or(tw_error::Gone)?.get());
        Ok(())
    })
}

/// Tells when a pending timer is due. `deadline` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_deadline(
    timers: *const tw_loop,
    key: tw_key,
    deadline: *mut u64,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let due = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.deadline(key.get()?),
            Lent::WithRemotes(timers) => timers.deadline(key.get()?),
        };
        give(deadline, due.ok_or(tw_error::Gone)?.as_nanos());
        Ok(())
    })
}

/// Returns the number of pending timers; 0 if the loop is null or closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_pending(timers: *const tw_loop) -> usize {
    let mut pending = 0;
    // SAFETY: null or valid.
    guard(|| unsafe {
        pending = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.pending(),
            Lent::WithRemotes(timers) => timers.pending(),
        };
        Ok(())
    });
    pending
}

/// Calls `fire` for each timer that is due at `now`, within the budget. `fire` may use the loop, but not poll, close or
/// free it; what it schedules fires in a later poll. `polled` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_poll(
    timers: *mut tw_loop,
    now: u64,
    fire: tw_fire,
    ctx: *mut c_void,
    polled: *mut tw_polled,
) -> tw_error {
    let now = Time::from_nanos(now);
    // SAFETY: the pointers are null or valid; `fire` gets its own `ctx`.
    guard(|| unsafe {
        let (this, fire) = (known(timers)?, fire.ok_or(tw_error::Null)?);
        let before = this.timers.get();
        // Whether the poll goes on after it.
        let call = |timers, expired: Expired<Data>| {
            this.timers.set(timers);
            let expired = tw_expired::new(&expired);
            this.calls.call(expired.key.words(), || fire(ctx, &expired));
            !this.breaks.get()
        };
        let result = this.keep_busy(|| {
            this.breaks.set(false);
            let _polling = Polling::begin(&this.calls);
            Ok(match this.lend()? {
                Lent::Alone(timers) => {
                    let mut due = timers.expired(now);
                    while let Some(expired) = due.next() {
                        if !call(Timers::Alone(due.timer()), expired) {
                            break;
                        }
                    }
                    due.finish()
                }
                Lent::WithRemotes(timers) => {
                    let mut due = timers.expired(now);
                    while let Some(expired) = due.next() {
                        if !call(Timers::WithRemotes(due.timer()), expired) {
                            break;
                        }
                    }
                    due.finish()
                }
            })
        });
        this.timers.set(before);
        let Polled { fired, more, .. } = result?;
        give(polled, tw_polled { fired, more });
        Ok(())
    })
}

/// Ends the poll after the callback that calls this: what is due besides stays due, and `more` says so. Without a poll
/// under way it does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_break(timers: *mut tw_loop) -> tw_error {
    // SAFETY: null or valid.
    guard(|| unsafe {
        known(timers)?.breaks.set(true);
        Ok(())
    })
}

/// Returns when there is something to do next, at the earliest deadline or before it; UINT64_MAX for never, and if the
/// loop is null or closed. It announces no sleep: before one, call tw_loop_poll_timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_next_deadline(timers: *const tw_loop) -> u64 {
    let mut next = None;
    // SAFETY: null or valid.
    guard(|| unsafe {
        next = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.next_deadline(),
            Lent::WithRemotes(timers) => timers.next_deadline(),
        };
        Ok(())
    });
    next.map_or(u64::MAX, Time::as_nanos)
}

/// Writes the statistics so far to `stats`. A loop without remotes counts nothing: TW_ERROR_NO_REMOTES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_stats(timers: *const tw_loop, stats: *mut tw_stats) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let stats = NonNull::new(stats).ok_or(tw_error::Null)?;
        match known(timers)?.lend()? {
            Lent::Alone(_) => return Err(tw_error::NoRemotes),
            Lent::WithRemotes(timers) => stats.write(tw_stats::of(&[timers.stats()])),
        }
        Ok(())
    })
}

/// Returns how long the loop may sleep before its next poll: nanoseconds, UINT64_MAX for ever. From here on a remote
/// calls the waker if it schedules something earlier. 0 if the loop is null or closed: the poll that follows says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_poll_timeout(timers: *const tw_loop, now: u64) -> u64 {
    let (now, mut timeout) = (Time::from_nanos(now), Some(Duration::ZERO));
    // SAFETY: null or valid.
    guard(|| unsafe {
        timeout = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.poll_timeout(now),
            Lent::WithRemotes(timers) => timers.poll_timeout(now),
        };
        Ok(())
    });
    timeout.map_or(u64::MAX, nanos)
}

/// Like tw_loop_poll_timeout, for epoll_wait and poll: milliseconds, rounded up, -1 for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_poll_timeout_ms(timers: *const tw_loop, now: u64) -> c_int {
    // SAFETY: as there.
    match unsafe { tw_loop_poll_timeout(timers, now) } {
        u64::MAX => -1,
        timeout => c_int::try_from(timeout.div_ceil(1_000_000)).unwrap_or(c_int::MAX),
    }
}

/// Schedules on a loop from other threads.
pub struct tw_remote(Remote<Data>, Arc<Calls>);

/// Makes a remote of a loop that was built with remotes. One is enough for all threads. Free it after its last use,
/// before or after the loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_new(
    timers: *const tw_loop,
    made: *mut *mut tw_remote,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let made = NonNull::new(made).ok_or(tw_error::Null)?;
        let this = known(timers)?;
        let Lent::WithRemotes(timers) = this.lend()? else {
            return Err(tw_error::NoRemotes);
        };
        hand_over(made, tw_remote(timers.remote(), Arc::clone(&this.calls)));
        Ok(())
    })
}

/// Frees a remote. `remote` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_free(remote: *mut tw_remote) {
    // SAFETY: null, or made by `tw_remote_new` and not used afterwards.
    guard(|| unsafe {
        known(remote)?;
        drop(Box::from_raw(remote));
        Ok(())
    });
}

/// Schedules a timer for `delay_ns` from now; the loop calls it. Its key is written to `key`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_schedule(
    remote: *const tw_remote,
    delay_ns: u64,
    data: *mut c_void,
    key: *mut tw_remote_key,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let scheduled = known(remote)?.0.schedule(delay, Data(data));
        give(key, tw_remote_key::of(scheduled)?);
        Ok(())
    })
}

/// Schedules a timer for a point on the scale of tw_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_schedule_at(
    remote: *const tw_remote,
    deadline: u64,
    data: *mut c_void,
    key: *mut tw_remote_key,
) -> tw_error {
    let deadline = Time::from_nanos(deadline);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let scheduled = known(remote)?.0.schedule(deadline, Data(data));
        give(key, tw_remote_key::of(scheduled)?);
        Ok(())
    })
}

/// Schedules a timer for `first_ns` from now and then once per `period_ns`, as `kind` says, a tw_period. Its key stays the
/// same: a cancel from any thread ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_schedule_periodic(
    remote: *const tw_remote,
    first_ns: u64,
    period_ns: u64,
    kind: c_int,
    data: *mut c_void,
    key: *mut tw_remote_key,
) -> tw_error {
    let first = Duration::from_nanos(first_ns);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let (remote, period) = (known(remote)?, period(period_ns, kind)?);
        let scheduled = remote.0.schedule_periodic(first, period, Data(data));
        give(key, tw_remote_key::of(scheduled)?);
        Ok(())
    })
}

/// Moves a pending timer to `delay_ns` from now; of a periodic one the next deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_reschedule(
    remote: *const tw_remote,
    key: tw_remote_key,
    delay_ns: u64,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: null or valid.
    guard(|| unsafe { moved(known(remote)?.0.reschedule(key.get()?, delay)) })
}

/// Like tw_remote_reschedule, to a point on the scale of tw_now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_reschedule_at(
    remote: *const tw_remote,
    key: tw_remote_key,
    deadline: u64,
) -> tw_error {
    let deadline = Time::from_nanos(deadline);
    // SAFETY: null or valid.
    guard(|| unsafe { moved(known(remote)?.0.reschedule(key.get()?, deadline)) })
}

/// Cancels a pending timer. Its data is written to `data`, which may be null. This ends no sleep: a loop that is to notice
/// that its last timer is gone must be woken by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_cancel(
    remote: *const tw_remote,
    key: tw_remote_key,
    data: *mut *mut c_void,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let answer = known(remote)?.0.cancel(key.get()?);
        give(data, answer.into_payload().ok_or(tw_error::Gone)?.get());
        Ok(())
    })
}

/// Waits until the loop's callback for the timer has returned, for `limit_ns` at most; UINT64_MAX is for ever. Call it
/// after a cancel, won or lost: then no callback uses the data, which may be freed. TW_ERROR_PENDING before a cancel. In a
/// callback, also of another loop or engine, it waits for no other one, which could wait for this one:
/// TW_ERROR_IN_CALLBACK if the timer's runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_wait(
    remote: *const tw_remote,
    key: tw_remote_key,
    limit_ns: u64,
) -> tw_error {
    // SAFETY: null or valid.
    guard(|| unsafe {
        let (tw_remote(remote, calls), name) = (known(remote)?, key.get()?);
        let is_pending = remote.is_pending(name);
        wait(calls, key.key, limit_ns, is_pending, || calls.polls())
    })
}

/// Tells when a pending timer is due. `deadline` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_deadline(
    remote: *const tw_remote,
    key: tw_remote_key,
    deadline: *mut u64,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let due = known(remote)?.0.deadline(key.get()?);
        give(deadline, due.ok_or(tw_error::Gone)?.as_nanos());
        Ok(())
    })
}
