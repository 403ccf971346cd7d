//! `tw_loop`: the timers of a loop, and `tw_remote`: the other threads' access to them.

use crate::{Data, give, guard, hand_over, known, nanos};
use crate::{tw_error, tw_expired, tw_fire, tw_key, tw_left, tw_options, tw_polled};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::time::Duration;
use tickwheel::{EventLoopTimer, LocalTimer, Polled, Remote, Time};

/// The timers of a loop. Calls must not overlap.
pub struct tw_loop {
    /// The timers: in their box, or as a poll lends them to the callback that runs.
    timers: Cell<Timers>,
    /// A callback may be running, so this is neither polled nor closed nor freed.
    is_busy: Cell<bool>,
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
        let timers = Box::new(settings.build_with_waker(move || {
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
    let (now, delay) = (Time::from_nanos(now), Duration::from_nanos(delay_ns));
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let scheduled = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.schedule(now, delay, Data(data)),
            Lent::WithRemotes(timers) => timers.schedule(now, delay, Data(data)),
        };
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Moves a pending timer to `now + delay_ns`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_loop_reschedule(
    timers: *mut tw_loop,
    now: u64,
    key: tw_key,
    delay_ns: u64,
) -> tw_error {
    let (now, delay) = (Time::from_nanos(now), Duration::from_nanos(delay_ns));
    // SAFETY: null or valid.
    guard(|| unsafe {
        let answer = match known(timers)?.lend()? {
            Lent::Alone(timers) => timers.reschedule(now, key.get()?, delay),
            Lent::WithRemotes(timers) => timers.reschedule(now, key.get()?, delay),
        };
        answer.moved().then_some(()).ok_or(tw_error::Gone)
    })
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
        let result = this.keep_busy(|| {
            Ok(match this.lend()? {
                Lent::Alone(timers) => timers.poll_with(now, |timers, expired| {
                    this.timers.set(Timers::Alone(timers));
                    fire(ctx, &tw_expired::new(&expired));
                }),
                Lent::WithRemotes(timers) => timers.poll_with(now, |timers, expired| {
                    this.timers.set(Timers::WithRemotes(timers));
                    fire(ctx, &tw_expired::new(&expired));
                }),
            })
        });
        this.timers.set(before);
        let Polled { fired, more, .. } = result?;
        give(polled, tw_polled { fired, more });
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
pub struct tw_remote(Remote<Data>);

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
        match known(timers)?.lend()? {
            Lent::Alone(_) => return Err(tw_error::NoRemotes),
            Lent::WithRemotes(timers) => hand_over(made, tw_remote(timers.remote())),
        }
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
    key: *mut tw_key,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let scheduled = known(remote)?.0.schedule(delay, Data(data));
        give(key, tw_key::of(scheduled)?);
        Ok(())
    })
}

/// Moves a pending timer to `delay_ns` from now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_reschedule(
    remote: *const tw_remote,
    key: tw_key,
    delay_ns: u64,
) -> tw_error {
    let delay = Duration::from_nanos(delay_ns);
    // SAFETY: null or valid.
    guard(|| unsafe {
        let answer = known(remote)?.0.reschedule(key.get()?, delay);
        answer.moved().then_some(()).ok_or(tw_error::Gone)
    })
}

/// Cancels a pending timer. Its data is written to `data`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_remote_cancel(
    remote: *const tw_remote,
    key: tw_key,
    data: *mut *mut c_void,
) -> tw_error {
    // SAFETY: the pointers are null or valid.
    guard(|| unsafe {
        let answer = known(remote)?.0.cancel(key.get()?);
        give(data, answer.into_payload().ok_or(tw_error::Gone)?.get());
        Ok(())
    })
}
