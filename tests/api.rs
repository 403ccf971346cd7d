//! What users rely on without calling it: auto traits, sizes, the texts of errors, `Debug` without
//! conditions, object safety. What must not compile is shown in the crate's documentation.

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "support"]
mod support {
    pub(crate) mod setup;
}
#[path = "api/ignored.rs"]
mod ignored;

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use support::setup::{HOUR, one_shard, recording};
use tickwheel::{
    Budget, BuildError, Builder, Cancel, Clock, Drive, EventLoopTimer, Executor, Expired, Interval,
    Key, LocalTimer, ManualClock, Pinning, RawKey, Remote, RemoteKey, ScheduleError,
    ScheduleErrorKind, Sleep, StartError, Stats, StopError, Time, Timeout, Timer, TimerGuard,
    TimerHandle, TimerTask, TurnError, Unfired, WeakTimer, executor_fn,
};

const fn send_and_sync<T: Send + Sync>() {}
const fn copy<T: Copy>() {}
const fn unwind_safe<T: std::panic::UnwindSafe>() {}
const fn ref_unwind_safe<T: std::panic::RefUnwindSafe>() {}

/// Whether a type is `Clone`, `Sync` and so on, answered at compile time without requiring it.
macro_rules! is {
    ($type:ty: $bound:path) => {{
        #[allow(dead_code, reason = "one of the two answers is shadowed")]
        trait Fallback {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> Fallback for T {}
        struct Asked<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "absent for types that are not")]
        impl<T: ?Sized + $bound> Asked<T> {
            const ANSWER: bool = true;
        }
        <Asked<$type>>::ANSWER
    }};
}

#[path = "api/auto_traits.rs"]
mod auto_traits;

/// A payload that may move to another thread and nothing else.
struct SendOnly(#[allow(dead_code, reason = "only its type matters")] std::cell::Cell<u8>);

/// What is derived is told by `docs/api.txt`.
#[test]
fn whatever_the_payload_handles_cross_threads_and_keys_are_plain_data() {
    send_and_sync::<(Timer<SendOnly>, TimerHandle<SendOnly>, Remote<SendOnly>)>();
    send_and_sync::<(
        Key<std::rc::Rc<u8>>,
        Key<std::cell::Cell<u8>>,
        ManualClock,
        Stats,
    )>();
    copy::<(Key<String>, RawKey, Expired<u64>, Unfired<u64>, Cancel<u64>)>();
    copy::<RemoteKey<String>>();
    assert!(is!(Timer<SendOnly>: Clone) && !is!(TimerHandle<u64>: Clone));
    assert!(!is!(Timer<std::rc::Rc<u8>>: Send) && !is!(TimerHandle<std::rc::Rc<u8>>: Sync));
    assert!(is!((TimerTask, Builder, Expired<SendOnly>, Unfired<SendOnly>): Send));
    assert!(is!(Key<f32>: std::hash::Hash) && is!(Key<f32>: Ord) && is!(Key<SendOnly>: Debug));
    assert!(is!(RemoteKey<f32>: std::hash::Hash) && is!(RemoteKey<f32>: Ord));
}

#[test]
fn a_panic_beside_a_timer_leaves_it_usable() {
    unwind_safe::<(Timer<SendOnly>, TimerHandle<SendOnly>, TimerGuard<SendOnly>)>();
    ref_unwind_safe::<(Timer<SendOnly>, TimerHandle<SendOnly>, TimerGuard<SendOnly>)>();
    unwind_safe::<(WeakTimer<SendOnly>, Remote<SendOnly>, Key<SendOnly>)>();
    ref_unwind_safe::<(WeakTimer<SendOnly>, Remote<SendOnly>, Key<SendOnly>)>();
    unwind_safe::<(EventLoopTimer<u64>, LocalTimer<u64>)>();
    ref_unwind_safe::<(EventLoopTimer<u64>, Sleep)>();
    unwind_safe::<(Sleep, Interval, Timeout<String>)>();
    assert!(!is!(Timeout<&'static mut u8>: std::panic::UnwindSafe));
}

#[test]
fn sizes_are_pinned() {
    assert_eq!(
        (size_of::<Key<String>>(), align_of::<Key<String>>()),
        (12, 4)
    );
    assert_eq!(
        (size_of::<Option<Key<u8>>>(), size_of::<Option<RawKey>>()),
        (12, 12)
    );
    assert_eq!(
        size_of::<Option<(Key<u64>, u32)>>(),
        16,
        "a key packs well beside other data"
    );
    assert!(size_of::<TimerHandle<u64>>() <= 24);
    assert!(
        size_of::<TimerHandle<[u8; 1000]>>() <= 24,
        "a handle does not hold the payload"
    );
    assert_eq!(
        size_of::<Option<TimerHandle<u64>>>(),
        size_of::<TimerHandle<u64>>()
    );
    assert_eq!(size_of::<Timer<u64>>(), size_of::<usize>());
    assert_eq!(size_of::<Time>(), 8);
    assert_eq!(size_of::<TimerTask>(), 4 * size_of::<usize>());
    assert!(size_of::<ScheduleError<()>>() <= 48);
}

#[test]
fn errors_are_send_sync_and_static() {
    fn error<E: Error + Send + Sync + Clone + PartialEq + 'static>() {}
    error::<BuildError>();
    error::<ScheduleErrorKind>();
    error::<StartError>();
    error::<StopError>();
    error::<TurnError>();
    const fn of_any_payload<T: Send + Sync + 'static>() {}
    of_any_payload::<(
        ScheduleError<u64>,
        ScheduleError<TimerTask>,
        ScheduleError<SendOnly>,
    )>();
    assert!(!is!(ScheduleError<std::rc::Rc<u8>>: Send));
    // `?` works in a function that returns any error, whatever the payload is.
    fn boxed(
        timer: &Timer<SendlessDebug>,
    ) -> Result<Key<SendlessDebug>, Box<dyn Error + Send + Sync>> {
        Ok(timer.schedule(HOUR, SendlessDebug)?)
    }
    let timer = one_shard()
        .build_with(|_: Expired<SendlessDebug>| ())
        .unwrap();
    timer.stop().unwrap();
    let error = boxed(&timer)
        .unwrap_err()
        .downcast::<ScheduleError<SendlessDebug>>()
        .unwrap();
    assert_eq!(ScheduleErrorKind::from(*error), ScheduleErrorKind::Stopped);
}

/// A payload without `Debug`.
struct SendlessDebug;

/// Asserts that a text has all of these parts.
#[track_caller]
fn says(text: impl ToString, parts: &[&str]) {
    let text = text.to_string();
    assert!(
        parts.iter().all(|part| text.contains(part)),
        "{text:?} lacks one of {parts:?}"
    );
}

#[test]
fn debug_does_not_need_a_payload_that_can_be_printed() {
    let timer = one_shard()
        .build_with(|_: Expired<SendlessDebug>| ())
        .unwrap();
    let timeout = timer.schedule_handle(HOUR, SendlessDebug).unwrap();
    says(
        format!("{:?}", timer),
        &["Timer", "Started", "shards: 1", "tick: 1ms"],
    );
    says(
        format!("{:?}", timeout),
        &["TimerHandle", "Key(0:", "Pending"],
    );
    says(
        format!("{:?}", timer.stats()),
        &["scheduled: 1", "lateness"],
    );
    says(format!("{:?}", TimerTask::new(|| ())), &["TimerTask"]);
    says(format!("{:?}", Builder::new()), &["Builder", "Park", "1ms"]);
    says(format!("{:?}", ManualClock::new()), &["ManualClock"]);
    assert_eq!(timer.stop().unwrap().len(), 1);
    says(format!("{:?}", timeout), &["Returned"]);
    let error = timer.schedule(HOUR, SendlessDebug).unwrap_err();
    says(format!("{:?}", error), &["ScheduleError", "Stopped"]);
}

#[test]
fn builder_errors_name_the_number_and_the_cure() {
    let new = Builder::new;
    let cases: [(Builder, &[&str]); 12] = [
        (new().tick(Duration::ZERO), &["tick is 0", "1us to 1h"]),
        (
            new().tick(Duration::from_nanos(999)),
            &["999ns", "1us to 1h"],
        ),
        (new().tick(2 * HOUR), &["7200s", "1us to 1h"]),
        (new().shards(0), &["shards is 0", "1 to 1024"]),
        (new().shards(1025), &["shards is 1025", "1024"]),
        (new().max_pending(0), &["max_pending is 0", "no limit"]),
        (
            new().budget(Budget::new().fire(0)),
            &["budget.fire", "at least 1"],
        ),
        (
            new().budget(Budget::new().drain(0)),
            &["budget.drain", "at least 1"],
        ),
        (
            new().budget(Budget::new().sweep(0)),
            &["budget.sweep", "at least 1"],
        ),
        (
            new().pinning(Pinning::List(vec![])),
            &["0 cores", "Pinning::Off"],
        ),
        (
            new().pinning(Pinning::List(vec![1 << 20])),
            &["core 1048576", "choose from"],
        ),
        (new().thread_name("a\0b"), &["NUL", "byte 1", "remove"]),
    ];
    for (builder, parts) in cases {
        says(
            builder.build().expect_err("the builder refuses this"),
            parts,
        );
    }
}

#[test]
fn the_extremes_of_every_setting_are_accepted() {
    let new = || one_shard().drive(Drive::Manual);
    let most = usize::MAX;
    for builder in [
        new().tick(Duration::from_micros(1)),
        new().tick(HOUR),
        new().max_pending(1),
        new().max_pending(most),
        new().budget(Budget::new().fire(1).drain(1).sweep(1)),
        new().budget(Budget::new().fire(most).drain(most).sweep(most)),
        new().thread_name(""),
    ] {
        let settings = format!("{builder:?}");
        let clock = ManualClock::new();
        let (timer, fired) = recording(builder.clock(clock.clone()));
        // Only the first is sure of a place where the limit is one.
        let due = (0..20)
            .filter(|id| timer.schedule(HOUR, *id).is_ok())
            .count();
        clock.advance(2 * HOUR);
        assert_eq!((timer.turn(), fired.len()), (Ok(due), due), "{settings}");
    }
}

#[test]
fn clocks_and_executors_can_be_shared() {
    // One clock and one executor for two engines.
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
    let (sender, receiver) = std::sync::mpsc::channel();
    let execute = move |it: Expired<u64>| sender.send(it).map_err(|refused| refused.0);
    let executor: Arc<dyn Executor<u64>> = Arc::new(executor_fn(execute, drop));
    for payload in [1, 2] {
        let builder = one_shard().clock(Arc::clone(&clock));
        let timer = builder.build_on(Arc::clone(&executor)).unwrap();
        timer.schedule(Duration::ZERO, payload).unwrap();
        assert_eq!(receiver.recv().unwrap().payload, payload);
    }
}

#[test]
fn keys_are_ordered_and_hashed_by_what_they_name() {
    let (timer, _) = recording(one_shard().drive(Drive::Manual));
    let mut keys: Vec<Key<u64>> = (0..100)
        .map(|id| timer.schedule(HOUR, id).unwrap())
        .collect();
    keys.sort();
    assert!(
        keys.is_sorted_by(|one, next| one < next),
        "no two are equal"
    );
    let hasher = std::hash::RandomState::new();
    let hashes = keys
        .iter()
        .map(|key| std::hash::BuildHasher::hash_one(&hasher, key));
    let different: std::collections::HashSet<u64> = hashes.collect();
    assert_eq!(
        different.len(),
        keys.len(),
        "a collision in 64 bits is not to be expected"
    );
}

#[test]
fn refusals_name_their_cause() {
    use std::io::{Error, ErrorKind};
    use tickwheel::{Elapsed, SleepError, TimeoutError};
    assert_eq!(Error::from(Elapsed).kind(), ErrorKind::TimedOut);
    assert_eq!(
        Error::from(TimeoutError::Elapsed).kind(),
        ErrorKind::TimedOut
    );
    let stopped = SleepError::from(ScheduleErrorKind::Stopped);
    for error in [
        Error::from(stopped.clone()),
        TimeoutError::Sleep(stopped.clone()).into(),
    ] {
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Other, stopped.to_string())
        );
        assert!(error.into_inner().is_some(), "the cause is kept");
    }
}
