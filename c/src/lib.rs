//! The C interface of `tickwheel`. The rules for its callers stand in `include/tickwheel.h`, which cbindgen writes from
//! these files; `cbindgen.toml` has its first page.
//!
//! Rooms: `calls` (what a shard is at while it calls), `event_loop` (a loop's timers and their remotes), `engine`.

#![allow(
    non_camel_case_types,
    reason = "the names of C, which the header repeats"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header has the rules: for threads and pointers above, and at each function what may be null"
)]

mod calls;
mod event_loop;

mod engine;

pub use engine::*;
pub use event_loop::*;

use calls::{Calls, Progress};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic;
use std::time::{Duration, Instant};
use tickwheel::{
    Budget, BuildError, DurationHistogram, Expired, Key, MissedTicks, MonotonicClock, Period,
    Pinning, RawKey, RemoteKey, Reschedule, ScheduleError, ScheduleErrorKind, ShardStats,
    StartError, StopError,
};

/// The answer of most calls: TW_ERROR_OK, which is 0, or why nothing was done.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum tw_error {
    /// Done.
    Ok = 0,
    /// A pointer is null that must not be.
    Null = 1,
    /// The key names no pending timer of this loop or engine. After a reschedule it may be firing.
    Gone = 2,
    /// It is closed or stopped, or the remote's loop is.
    Closed = 3,
    /// This call is not allowed inside of a callback of the same loop or engine, nor a wait in any for one that runs.
    InCallback = 4,
    /// An option or a period is out of range.
    Option = 5,
    /// As many timers are pending as `max_pending` allows.
    Full = 6,
    /// There is no memory for the timer, or the table of timers is full. Where memory is refused to a new loop, remote
    /// or engine, to its close or stop, or to a timer that moves, the process ends; a move of a tw_remote's or a
    /// tw_timer's timer may have no effect instead.
    NoMemory = 7,
    /// The system gave no thread.
    NoThread = 8,
    /// The engine was started before a fork; its threads are in the other process.
    Forked = 9,
    /// The loop was built without remotes.
    NoRemotes = 10,
    /// tickwheel has panicked, which is a bug of its own; its message is on stderr.
    Panicked = 11,
    /// The timer has not ended, so there is no callback to wait for.
    Pending = 12,
    /// The callback was still under way at the end of the time limit.
    TimedOut = 13,
}

impl tw_error {
    const TEXTS: [&CStr; 14] = [
        c"no error",
        c"a pointer is null; see the header for those that may be",
        c"the key names no pending timer here: it has fired, was cancelled, or belongs to another timer",
        c"closed or stopped: build a new one",
        c"not allowed in a callback: return from it, and call then",
        c"out of range: tick_ns is 1000 to 3600000000000, shards at most 1024, 0 the default and all that reserved takes; a period is at least 1, its kind a tw_period",
        c"as many timers are pending as max_pending allows: cancel some, or raise it",
        c"no memory for the timer: free some, and try again",
        c"the system gave no thread: raise its limit, or use fewer shards",
        c"started before a fork, and its threads are in the other process: build a new one here",
        c"the loop has no remotes: build it by tw_loop_new_with_remotes",
        c"tickwheel has panicked: a bug, please report the message on stderr; close the timer",
        c"the timer is pending: cancel it, then wait for its callback",
        c"the callback is still under way: wait again",
    ];
}

/// Returns what an error means and what to do: a static text. For numbers that are no tw_error as well.
#[unsafe(no_mangle)]
pub extern "C" fn tw_error_text(error: c_int) -> *const c_char {
    let text = usize::try_from(error)
        .ok()
        .and_then(|error| tw_error::TEXTS.get(error));
    text.unwrap_or(&c"not an error of tickwheel").as_ptr()
}

/// Settings. Zero all of it, then set what you need: zero is the default of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_options {
    /// The length of a tick, 1000 (1 us) to 3.6e12 (1 h); default 1 ms.
    pub tick_ns: u64,
    /// How much longer than until the next deadline a sleep may be, so that timers share a wake-up.
    pub slack_ns: u64,
    /// The most pending timers; default no limit.
    pub max_pending: usize,
    /// The most entries that one poll or turn fires; default 4096.
    pub fire_budget: usize,
    /// tw_timer: the number of worker threads, at most 1024; default one per core.
    pub shards: usize,
    /// tw_timer: nonzero leaves the workers unpinned; default one core each.
    pub unpinned: c_int,
    /// Zero: room for settings of later versions, which this one refuses.
    pub reserved: [u64; 4],
}

impl tw_options {
    /// Reads the options of a caller; null is the default of all.
    unsafe fn read(options: *const Self) -> Result<Self, tw_error> {
        let defaults = Self {
            tick_ns: 0,
            slack_ns: 0,
            max_pending: 0,
            fire_budget: 0,
            shards: 0,
            unpinned: 0,
            reserved: [0; 4],
        };
        // SAFETY: null, or valid, as the header asks.
        let options = unsafe { options.as_ref() }.copied().unwrap_or(defaults);
        if options.reserved != [0; 4] {
            return Err(tw_error::Option);
        }
        Ok(options)
    }

    fn tick(&self) -> Duration {
        match self.tick_ns {
            0 => Duration::from_millis(1),
            tick => Duration::from_nanos(tick),
        }
    }

    fn budget(&self) -> Budget {
        match self.fire_budget {
            0 => Budget::new(),
            entries => Budget::new().fire(entries),
        }
    }

    fn settings(&self) -> tickwheel::Settings {
        let settings = tickwheel::Settings::new()
            .tick(self.tick())
            .slack(Duration::from_nanos(self.slack_ns))
            .budget(self.budget());
        match self.max_pending {
            0 => settings,
            most => settings.max_pending(most),
        }
    }

    fn builder(&self) -> tickwheel::Builder {
        let mut builder = tickwheel::Builder::new()
            .tick(self.tick())
            .slack(Duration::from_nanos(self.slack_ns))
            .budget(self.budget());
        if self.max_pending != 0 {
            builder = builder.max_pending(self.max_pending);
        }
        if self.shards != 0 {
            builder = builder.shards(self.shards);
        }
        if self.unpinned != 0 {
            builder = builder.pinning(Pinning::Off);
        }
        builder
    }
}

/// Names one timer. Plain data: copy it, store it, send it anywhere. Two keys are equal if both words are.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct tw_key {
    /// The first word.
    pub high: u64,
    /// The second word; 0 in a zeroed key only.
    pub low: u64,
}

impl tw_key {
    fn of(scheduled: Result<Key<Data>, ScheduleError<Data>>) -> Result<Self, tw_error> {
        match scheduled {
            Ok(key) => Ok(Self::new(key)),
            Err(error) => Err(error.into_kind().into()),
        }
    }

    /// The index's bits are inverted, so that no key is all zeros.
    fn new(key: Key<Data>) -> Self {
        let bits = key.to_raw().to_bits();
        Self {
            high: (bits >> 32) as u64,
            low: u64::from(!(bits as u32)),
        }
    }

    fn words(self) -> [u64; 2] {
        [self.high, self.low]
    }

    fn get(self) -> Result<Key<Data>, tw_error> {
        let index = u32::try_from(self.low).map_err(|_| tw_error::Gone)?;
        let bits = u128::from(self.high) << 32 | u128::from(!index);
        RawKey::from_bits(bits)
            .map(Key::from_raw)
            .ok_or(tw_error::Gone)
    }
}

/// Names one timer that a tw_remote has scheduled: remotes take no other. Its `key` is for the calls of the loop.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct tw_remote_key {
    /// As the loop's calls and its callbacks have it.
    pub key: tw_key,
}

impl tw_remote_key {
    fn of(scheduled: Result<RemoteKey<Data>, ScheduleError<Data>>) -> Result<Self, tw_error> {
        let key = tw_key::of(scheduled.map(Key::from))?;
        Ok(Self { key })
    }

    fn get(self) -> Result<RemoteKey<Data>, tw_error> {
        RemoteKey::from_raw(self.key.get()?.to_raw()).ok_or(tw_error::Gone)
    }
}

/// A timer that has fired.
#[repr(C)]
pub struct tw_expired {
    /// What it was scheduled with.
    pub data: *mut c_void,
    /// Its key, which names nothing any more, unless the timer is periodic.
    pub key: tw_key,
    /// When it was due: the time asked for, rounded up to a tick. If it was due at once, the beginning of the tick in
    /// which it was scheduled, or of an earlier one.
    pub deadline: u64,
    /// How long after its deadline it is called.
    pub lateness: u64,
    /// No call comes after this one: the timer fires once, or a cancel in the moment before has answered TW_ERROR_GONE.
    pub is_last: bool,
}

impl tw_expired {
    fn new(expired: &Expired<Data>) -> Self {
        Self {
            data: expired.payload.0,
            key: tw_key::new(expired.key),
            deadline: expired.deadline.as_nanos(),
            lateness: nanos(expired.lateness),
            is_last: expired.is_last,
        }
    }
}

/// The result of one poll.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct tw_polled {
    /// How many timers were fired.
    pub fired: usize,
    /// More is due, or there is housekeeping left: serve the sockets, then poll again without a sleep.
    pub more: bool,
}

/// Called for each timer that fires, with the `ctx` that was given beside it. The struct is gone when it returns.
pub type tw_fire = Option<unsafe extern "C" fn(ctx: *mut c_void, expired: *const tw_expired)>;

/// Called with the data of each timer that had not fired when its timer was closed or stopped.
pub type tw_left = Option<unsafe extern "C" fn(ctx: *mut c_void, data: *mut c_void)>;

/// A `fire` for timers that have a function each: the data of each timer begins with a tw_fire, which is called with the
/// same arguments. Such a struct may lie anywhere; `struct request { tw_fire fire; ... }` is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_call(ctx: *mut c_void, expired: *const tw_expired) {
    // SAFETY: a poll or a worker passes it, and the caller's data begins with a function, as the header asks.
    unsafe {
        let fire = (*expired).data.cast::<tw_fire>().read();
        fire.inspect(|fire| fire(ctx, expired));
    }
}

/// How a periodic timer goes on after a callback.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum tw_period {
    /// Deadlines are a period apart. Those that were missed are left out.
    Skip = 0,
    /// Like SKIP; after missed ones the next deadline is a period from now.
    Delay = 1,
    /// Like SKIP; missed ones are made up for, one call each.
    Burst = 2,
    /// The period begins when the callback has returned; on a loop without remotes at the `now` of its poll.
    Pause = 3,
}

/// Reads the period of a caller.
fn period(period_ns: u64, kind: c_int) -> Result<Period, tw_error> {
    let length = Duration::from_nanos(period_ns);
    let missed = match kind {
        0 => MissedTicks::Skip,
        1 => MissedTicks::Delay,
        2 => MissedTicks::Burst,
        3 if period_ns != 0 => return Ok(Period::fixed_delay(length)),
        _ => return Err(tw_error::Option),
    };
    if period_ns == 0 {
        return Err(tw_error::Option);
    }
    Ok(Period::fixed_rate(length, missed))
}

/// What was counted so far, by all threads. `reserved` is 0: room for later versions.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct tw_stats {
    /// Timers accepted, fired, cancelled, and left at the end. A period counts as one scheduled and one fired.
    pub scheduled: u64,
    /// See above.
    pub fired: u64,
    /// See above.
    pub cancelled: u64,
    /// See above.
    pub left: u64,
    /// Timers pending.
    pub pending: u64,
    /// Moves of pending timers.
    pub rescheduled: u64,
    /// Sleeps, and those of them that another thread ended early.
    pub sleeps: u64,
    /// See above.
    pub wakes: u64,
    /// Bytes held for timers.
    pub held_bytes: u64,
    /// How late the oldest timer is that is due and has not fired; 0 where all is well.
    pub lag_ns: u64,
    /// How late timers fired: half of them at most so late, 99 of 100, and the latest. To 7 % or so.
    pub lateness_p50_ns: u64,
    /// See above.
    pub lateness_p99_ns: u64,
    /// See above.
    pub lateness_max_ns: u64,
    /// Zero.
    pub reserved: [u64; 7],
}

impl tw_stats {
    /// Sums up shards.
    fn of(shards: &[ShardStats]) -> Self {
        let (mut sum, mut lateness) = (Self::default(), DurationHistogram::default());
        for shard in shards {
            sum.scheduled += shard.scheduled;
            sum.fired += shard.fired;
            sum.cancelled += shard.cancelled;
            sum.left += shard.returned;
            sum.pending += shard.pending;
            sum.rescheduled += shard.rescheduled;
            sum.sleeps += shard.parks;
            sum.wakes += shard.wakes;
            sum.held_bytes += shard.held_bytes;
            sum.lag_ns = sum.lag_ns.max(nanos(shard.lag));
            lateness.merge(&shard.lateness);
        }
        sum.lateness_p50_ns = nanos(lateness.percentile(50.0));
        sum.lateness_p99_ns = nanos(lateness.percentile(99.0));
        sum.lateness_max_ns = nanos(lateness.max());
        sum
    }
}

/// Returns the version of the library, like "1.0.0": a static text.
#[unsafe(no_mangle)]
pub extern "C" fn tw_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the time since its first reading in this process, by the system's monotonic clock (about 20 ns).
#[unsafe(no_mangle)]
pub extern "C" fn tw_now() -> u64 {
    MonotonicClock::new().now().as_nanos()
}

/// A caller's pointer: handed back, never followed.
#[derive(Clone, Copy)]
struct Data(*mut c_void);

// SAFETY: it is never followed here; the header says from which threads callbacks get it.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    /// Returns the pointer. Closures that use it capture the whole, which threads may share, not the field.
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Runs a call; no panic leaves it.
#[inline]
fn guard(call: impl FnOnce() -> Result<(), tw_error>) -> tw_error {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => tw_error::Ok,
        Ok(Err(error)) => error,
        Err(_) => tw_error::Panicked,
    }
}

/// Refuses null.
unsafe fn known<'a, T>(pointer: *const T) -> Result<&'a T, tw_error> {
    // SAFETY: null, or valid during the call, as the header asks.
    unsafe { pointer.as_ref() }.ok_or(tw_error::Null)
}

/// Writes a result, if the caller wants it.
unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: valid for writes, as the header asks.
        unsafe { place.write(value) }
    }
}

/// Hands the caller a new object.
unsafe fn hand_over<T>(place: NonNull<*mut T>, value: T) {
    // SAFETY: valid for writes, as the header asks.
    unsafe { place.write(Box::into_raw(Box::new(value))) }
}

thread_local! {
    /// How many callbacks the thread may be in: one inside of the other, or a worker's one after the other.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Checks before the first pause: most callbacks are short.
const SPINS: u32 = 100;
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// How often pauses double: to 1.28 ms.
const DOUBLINGS: u32 = 6;

/// Waits until the callback of a timer has returned. A thread that is in a callback does not, because another one may
/// wait for that: it waits only until it is known whether the timer's runs, while no callback of the shard does.
/// `is_pending` was asked before.
fn wait(
    calls: &Calls,
    key: tw_key,
    limit_ns: u64,
    is_pending: bool,
    is_turning: impl Fn() -> bool,
) -> Result<(), tw_error> {
    if is_pending {
        return Err(tw_error::Pending);
    }
    let (last, until) = (calls.last(), Instant::now().checked_add(limit(limit_ns)));
    for check in 0.. {
        match calls.progress(key.words(), last, &is_turning) {
            Progress::Over => break,
            Progress::Runs if CALLBACKS.get() > 0 => return Err(tw_error::InCallback),
            Progress::Runs | Progress::Unknown => {}
        }
        if check < SPINS {
            std::hint::spin_loop();
            continue;
        }
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            return Err(tw_error::TimedOut);
        }
        let pause = FIRST_PAUSE * (1 << (check - SPINS).min(DOUBLINGS));
        std::thread::sleep(left.min(pause));
    }
    Ok(())
}

/// Returns a time limit; `u64::MAX` is for ever.
fn limit(limit_ns: u64) -> Duration {
    match limit_ns {
        u64::MAX => Duration::MAX,
        limit => Duration::from_nanos(limit),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<BuildError> for tw_error {
    fn from(_: BuildError) -> Self {
        Self::Option
    }
}

impl From<ScheduleErrorKind> for tw_error {
    fn from(kind: ScheduleErrorKind) -> Self {
        match kind {
            ScheduleErrorKind::Stopped | ScheduleErrorKind::WorkerFailed { .. } => Self::Closed,
            ScheduleErrorKind::TooManyPending { .. } => Self::Full,
            ScheduleErrorKind::OutOfNodes { .. } | ScheduleErrorKind::OutOfMemory => Self::NoMemory,
            ScheduleErrorKind::Start(StartError::Stopped) => Self::Closed,
            ScheduleErrorKind::Start(StartError::Forked) => Self::Forked,
            ScheduleErrorKind::Start(_) => Self::NoThread,
            _ => Self::Panicked,
        }
    }
}

/// Returns the answer of a move.
fn moved(answer: Reschedule) -> Result<(), tw_error> {
    answer.is_moved().then_some(()).ok_or(tw_error::Gone)
}

impl From<StopError> for tw_error {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Forked => Self::Forked,
            _ => Self::InCallback,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guard(|| panic!("on purpose")), tw_error::Panicked);
        assert_eq!(guard(|| Err(tw_error::Gone)), tw_error::Gone);
        assert_eq!(guard(|| Ok(())), tw_error::Ok);
    }

    #[test]
    fn each_error_has_a_text_and_other_numbers_too() {
        for error in [
            -1,
            0,
            tw_error::Panicked as c_int,
            tw_error::TimedOut as c_int,
            14,
            c_int::MIN,
            c_int::MAX,
        ] {
            // SAFETY: a static text.
            let text = unsafe { CStr::from_ptr(tw_error_text(error)) };
            let known = (0..=tw_error::TimedOut as c_int).contains(&error);
            assert_eq!(text != c"not an error of tickwheel", known, "{error}");
        }
    }
}
