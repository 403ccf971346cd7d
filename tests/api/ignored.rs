//! Answers that a program may well not look at: no warning asks for a `let _ =`.
//!
//! What may not be ignored are futures, guards, builders, iterators of what is due, a sleep that was announced, and
//! what does nothing but answer.

#![deny(unused_must_use)]

use super::support::setup::{HOUR, ms, one_shard};
use tickwheel::{EventLoopTimer, Expired, LocalTimer, ManualClock, Settings, Time};

#[test]
fn effects_need_no_look_at_their_answers() {
    let timer = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
    let handle = timer.schedule_handle(HOUR, 1).unwrap();
    handle.reschedule(2 * HOUR);
    handle.cancel();
    let key = timer.schedule(HOUR, 2).unwrap();
    timer.reschedule(key, 2 * HOUR);
    timer.cancel(key);
    assert_eq!((timer.pending(), timer.stats().cancelled), (0, 2));
    ManualClock::new().advance(HOUR);
    ManualClock::new().set(Time::ZERO);
    tickwheel::unpin_current_thread();
}

#[test]
fn loops_need_no_look_at_their_answers() {
    let now = Time::ZERO;
    let mut timer = EventLoopTimer::<u64>::with_waker(Settings::new(), || ()).unwrap();
    let remote = timer.remote();
    let own = timer.schedule(now, HOUR, 1).unwrap();
    let theirs = remote.schedule(HOUR, 2).unwrap();
    timer.reschedule(now, own, 2 * HOUR);
    timer.cancel(own);
    remote.reschedule(theirs, 2 * HOUR);
    remote.cancel(theirs);
    timer.poll(now, |_| ());
    timer.poll_with(now, |_, _| ());
    timer.expired(now).finish();

    let mut timer = LocalTimer::new(ms(1)).unwrap();
    let key = timer.schedule(now, HOUR, 1).unwrap();
    timer.reschedule(now, key, 2 * HOUR);
    timer.cancel(key);
    timer.poll(now, |_| ());
    timer.poll_with(now, |_, _| ());
    timer.poll_with_clock(&ManualClock::new(), |_, _| ());
}
