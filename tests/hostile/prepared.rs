//! User code that runs in the middle of a call: a `Clone` or a waker that schedules timers itself.
//!
//! A block of an inbox ends after 8 messages, the next one after 32 more. So each call is made with every number of
//! timers before it that ends a block just there.

use crate::one_shard;
use crate::support::setup::{HOUR, ms, rate};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tickwheel::{Drive, EventLoopTimer, Expired, ManualClock, Remote, Settings, Time};

/// Timers that the user code schedules, at most.
const MOST: u64 = 42;
/// The number of the timer in whose schedule it runs.
const OUTER: u64 = 1000;

type Code = Arc<dyn Fn() + Send + Sync>;

/// A payload whose first `Clone` runs user code.
struct Payload {
    number: u64,
    code: Mutex<Option<Code>>,
}

impl Payload {
    fn number(number: u64) -> Self {
        Self {
            number,
            code: Mutex::new(None),
        }
    }

    fn outer(code: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            number: OUTER,
            code: Mutex::new(Some(Arc::new(code))),
        }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        let code = self.code.lock().unwrap().take();
        if let Some(code) = code {
            code();
        }
        Self::number(self.number)
    }
}

/// The numbers of `inner` timers and the outer one.
fn all(inner: u64) -> BTreeSet<u64> {
    (0..inner).chain([OUTER]).collect()
}

#[test]
fn a_clone_that_schedules_leaves_room_for_its_own_timer() {
    for drive in [Drive::Manual, Drive::Workers] {
        for inner in 0..MOST {
            let (clock, fired) = (ManualClock::new(), Arc::new(Mutex::new(BTreeSet::new())));
            let log = Arc::clone(&fired);
            let timer = one_shard()
                .clock(clock.clone())
                .drive(drive)
                .build_with(move |it: Expired<Payload>| {
                    log.lock().unwrap().insert(it.payload.number);
                })
                .unwrap();
            let own = timer.clone();
            let payload = Payload::outer(move || {
                (0..inner).for_each(|n| _ = own.schedule(ms(1), Payload::number(n)).unwrap());
            });
            timer.schedule_periodic(ms(1), rate(HOUR), payload).unwrap();
            // The clone is made in the first call.
            for _ in 0..2 {
                clock.advance(ms(2));
                _ = timer.turn().is_ok();
                timer.wait_idle();
            }
            assert_eq!(*fired.lock().unwrap(), all(inner), "{drive:?}");
        }
    }
}

#[test]
fn a_clone_that_schedules_on_its_loop_leaves_room_for_its_own_timer() {
    for by_remote in [false, true] {
        for inner in 0..MOST {
            let settings = Settings::new().clock(ManualClock::new());
            let mut timer: EventLoopTimer<Payload> =
                EventLoopTimer::with_waker(settings, || ()).unwrap();
            let (remote, own) = (timer.remote(), timer.remote());
            let payload = Payload::outer(move || {
                (0..inner).for_each(|n| _ = own.schedule(ms(1), Payload::number(n)).unwrap());
            });
            if by_remote {
                remote
                    .schedule_periodic(ms(1), rate(HOUR), payload)
                    .unwrap();
            } else {
                let now = Time::ZERO;
                timer
                    .schedule_periodic(now, ms(1), rate(HOUR), payload)
                    .unwrap();
            }
            let mut fired = BTreeSet::new();
            // The loop clones its own payload in the call, and what is scheduled there fires in a later poll.
            for now in [ms(2), ms(4)] {
                timer.poll(Time::ZERO + now, |it| _ = fired.insert(it.payload.number));
            }
            assert_eq!(fired, all(inner), "by a remote: {by_remote}");
        }
    }
}

/// It is called inside of the schedule whose message it announces.
#[test]
fn a_loop_s_waker_that_schedules_loses_no_timer() {
    for inner in 0..MOST {
        type Own = Arc<Mutex<Option<Remote<u64>>>>;
        let own: Own = Arc::default();
        let (remote_of_waker, is_inside) = (Arc::clone(&own), AtomicBool::new(false));
        let wake = move || {
            let remote = remote_of_waker.lock().unwrap().clone();
            let (Some(remote), false) = (remote, is_inside.swap(true, Ordering::SeqCst)) else {
                return;
            };
            (0..inner).for_each(|n| _ = remote.schedule(ms(1), n).unwrap());
        };
        let settings = Settings::new().clock(ManualClock::new());
        let mut timer = EventLoopTimer::with_waker(settings, wake).unwrap();
        let remote = timer.remote();
        *own.lock().unwrap() = Some(timer.remote());
        assert_eq!(timer.poll_timeout(Time::ZERO), None, "it sleeps");
        remote.schedule(ms(1), OUTER).unwrap();
        let mut fired = BTreeSet::new();
        timer.poll(Time::ZERO + ms(2), |it| _ = fired.insert(it.payload));
        assert_eq!(fired, all(inner));
        own.lock().unwrap().take();
    }
}
