//! The engine of a runtime whose time a test can hold still: it lives by tokio's clock.
//!
//! tokio moves its paused clock to its next timer when no task is ready, no socket has data and no blocking task runs.
//! So the task that turns the engine waits by a timer of tokio's, and the engine's time moves when tokio's does.

use super::Turning;
use super::alarm::TokioAlarm;
use crate::driving::by_alarm::TurnedByAlarm;
use crate::time::scale::Scale;
use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::__internal::in_test_time;
use tickwheel::{Builder, Clock, Drive, Time, Timer, TurnError};
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::Instant;

/// As fine as can be, so that a jump ends where the sleep does, and not at another tick behind it.
const TICK: Duration = Duration::from_micros(1);

/// tokio's clock, as the runtime sees it.
#[derive(Clone)]
struct TokioClock {
    scale: Scale,
    /// Taken when the runtime shuts down, because a handle keeps the runtime's memory and files.
    runtime: Arc<Mutex<Option<Handle>>>,
}

impl TokioClock {
    fn of(runtime: Handle) -> Self {
        let start = Instant::now();
        // On the scale of the machine's clock, but that a tick begins now: so rounding is the same in each run.
        let time_at_start = next_tick(Time::from(start.into_std()));
        Self {
            scale: Scale::new(start.into_std().into(), time_at_start),
            runtime: Arc::new(Mutex::new(Some(runtime))),
        }
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns where the tick begins that `time` lies in or before; the end of time, if it lies in the last one.
fn next_tick(time: Time) -> Time {
    let tick = time
        .as_nanos()
        .checked_next_multiple_of(TICK.as_nanos() as u64);
    tick.map_or(Time::MAX, Time::from_nanos)
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        let runtime = self.runtime().clone();
        let _inside = runtime.as_ref().map(Handle::enter);
        self.scale.time_of(Instant::now().into_std().into())
    }
}

/// Turns the engine of a runtime.
struct Turns {
    turning: TurnedByAlarm<TokioAlarm>,
    clock: TokioClock,
}

impl Future for Turns {
    type Output = TurnError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        Pin::new(&mut self.turning).poll(cx)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        let runtime = self.clock.runtime().take();
        if let Some(runtime) = &runtime {
            scales().remove(&runtime.id());
        }
        drop(runtime);
    }
}

/// Builds an engine for the runtime that the thread is in, whose time can stand, and what turns it.
pub(super) fn build(builder: Builder, runtime: &Handle, alarm: TokioAlarm) -> (Timer, Turning) {
    let clock = TokioClock::of(runtime.clone());
    // By hand, because `advance` turns it, too.
    let builder = builder.tick(TICK).drive(Drive::Manual).clock(clock.clone());
    let timer = in_test_time(builder).build();
    let timer = timer.expect("these settings are in range");
    let turning = TurnedByAlarm::new(&timer, alarm).expect("a new engine has its shard");
    scales().insert(runtime.id(), clock.scale);
    (timer, Box::new(Turns { turning, clock }))
}

/// The scales of the runtimes whose time can stand and that have an engine.
static SCALES: LazyLock<Mutex<HashMap<Id, Scale>>> = LazyLock::new(Mutex::default);

fn scales() -> MutexGuard<'static, HashMap<Id, Scale>> {
    SCALES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the scale of the runtime that the thread is in, if its time can stand and it has not ended.
pub(crate) fn scale() -> Option<Scale> {
    if !is_current() {
        return None;
    }
    // It has a scale from its engine on.
    super::with_engine(|_| ())?;
    let id = Handle::try_current().ok()?.id();
    scales().get(&id).copied()
}

/// Returns the time of the runtime that the thread is in, or else the machine's.
pub(crate) fn now() -> std::time::Instant {
    // tokio's clock panics on a thread that ends, once a clock has been paused anywhere.
    let runtime = Handle::try_current();
    if runtime.is_err_and(|error| error.is_thread_local_destroyed()) {
        return std::time::Instant::now();
    }
    Instant::now().into_std()
}

pub(super) fn is_pausable(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
}

/// Returns whether the thread is in a runtime whose time can stand.
pub(crate) fn is_current() -> bool {
    Handle::try_current().is_ok_and(|runtime| is_pausable(&runtime))
}

/// Fires what is due on the runtime's engine; false if its time cannot stand.
pub(crate) fn turn() -> bool {
    // A waker that the turn calls may sleep on another runtime.
    super::with_engine(Timer::clone).is_some_and(|timer| timer.turn().is_ok())
}

/// Moves time that stands to where the engine's next tick begins; false if it cannot stand.
pub(crate) fn align() -> bool {
    if !turn() {
        return false;
    }
    let now = super::with_engine(Timer::now).unwrap_or_default();
    let rest = next_tick(now) - now;
    // Its first poll moves the clock.
    let _ = pin!(tokio::time::advance(rest)).poll(&mut Context::from_waker(Waker::noop()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_has_ended_leaves_no_scale() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        let id = runtime.handle().id();
        runtime.block_on(async { assert!(scale().is_some()) });
        assert!(scales().contains_key(&id));
        drop(runtime);
        assert!(!scales().contains_key(&id));
    }
}
