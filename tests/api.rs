//! What users rely on without calling it: auto traits, sizes, the texts of errors, `Debug` without
//! conditions, object safety. What must not compile is shown in the crate's documentation.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with other programs, each of which uses a part"
)]
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
use support::setup::{HOUR, ms, one_shard, recording};
use tickwheel::{
    Budget, BuildError, Builder, Cancel, Clock, Drive, DurationHistogram, EngineState,
    EventLoopTimer, Executor, Expired, FixedTimer, IdleStrategy, Interval, Key, LocalTimer,
    ManualClock, MonotonicClock, PanicReport, Period, Pinning, RawKey, Remote, Reschedule, Routing,
    ScheduleError, ScheduleErrorKind, Settings, ShardStats, Sleep, StartError, Stats, StopError,
    Submitter, Time, Timeout, Timer, TimerGuard, TimerHandle, TimerTask, TurnError, Unfired,
    WeakTimer, WheelKind, When, executor_fn,
};

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}
const fn clone<T: Clone>() {}
const fn copy<T: Copy>() {}
const fn fixed<T: 'static>() {}

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

/// A payload that may move to another thread and nothing else.
struct SendOnly(#[allow(dead_code, reason = "only its type matters")] std::cell::Cell<u8>);

#[test]
fn handles_cross_threads_and_only_timers_can_be_cloned() {
    send::<Timer<SendOnly>>();
    sync::<Timer<SendOnly>>();
    clone::<Timer<SendOnly>>();
    send::<TimerHandle<SendOnly>>();
    sync::<TimerHandle<SendOnly>>();
    assert!(is!(Timer<u64>: Clone) && !is!(TimerHandle<u64>: Clone));
    assert!(!is!(Timer<std::rc::Rc<u8>>: Send) && !is!(TimerHandle<std::rc::Rc<u8>>: Sync));
    send::<TimerTask>();
    send::<Builder>();
    send::<Expired<SendOnly>>();
    send::<Unfired<SendOnly>>();
    send::<ManualClock>();
    sync::<ManualClock>();
    clone::<ManualClock>();
}

#[test]
fn names_times_and_settings_are_plain_data() {
    copy::<Key<String>>();
    copy::<RawKey>();
    send::<Key<std::rc::Rc<u8>>>();
    sync::<Key<std::cell::Cell<u8>>>();
    copy::<Time>();
    copy::<Budget>();
    copy::<Drive>();
    copy::<EngineState>();
    copy::<Expired<u64>>();
    copy::<IdleStrategy>();
    copy::<MonotonicClock>();
    copy::<Reschedule>();
    copy::<Cancel<u64>>();
    copy::<Routing>();
    copy::<Unfired<u64>>();
    copy::<WheelKind>();
    clone::<Pinning>();
    clone::<Stats>();
    clone::<ShardStats>();
    clone::<DurationHistogram>();
    clone::<PanicReport>();
    send::<Stats>();
    sync::<Stats>();
    assert!(is!(Key<f32>: std::hash::Hash) && is!(Key<f32>: Ord) && is!(Time: std::hash::Hash));
    assert!(is!(Key<f32>: std::fmt::Display) && is!(Key<SendOnly>: Debug));
    assert!(is!(RawKey: std::fmt::Display) && is!(RawKey: Ord) && is!(RawKey: std::hash::Hash));
    assert!(is!(Time: std::fmt::Display) && is!(Time: Ord) && is!(Time: From<std::time::Instant>));
    assert!(is!(When: std::hash::Hash) && is!(When: Eq) && is!(Period: std::hash::Hash));
    assert_eq!(Time::from_nanos(17).as_nanos(), 17);
    clone::<Builder>();
    clone::<Settings>();
    clone::<Settings>();
}

#[test]
fn a_panic_beside_a_timer_leaves_it_usable() {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    assert!(is!(Timer<SendOnly>: UnwindSafe) && is!(Timer<SendOnly>: RefUnwindSafe));
    assert!(is!(TimerHandle<SendOnly>: UnwindSafe) && is!(TimerHandle<SendOnly>: RefUnwindSafe));
    assert!(is!(TimerGuard<SendOnly>: UnwindSafe) && is!(TimerGuard<SendOnly>: RefUnwindSafe));
    assert!(is!(WeakTimer<SendOnly>: UnwindSafe) && is!(WeakTimer<SendOnly>: RefUnwindSafe));
    assert!(is!(Remote<SendOnly>: UnwindSafe) && is!(Remote<SendOnly>: RefUnwindSafe));
    assert!(is!(Key<SendOnly>: UnwindSafe) && is!(Key<SendOnly>: RefUnwindSafe));
    assert!(is!(EventLoopTimer<u64>: UnwindSafe) && is!(EventLoopTimer<u64>: RefUnwindSafe));
    assert!(is!(LocalTimer<u64>: UnwindSafe) && is!(FixedTimer<u64>: UnwindSafe));
    assert!(is!(Submitter<'static, SendOnly>: UnwindSafe));
    assert!(is!(Sleep: UnwindSafe) && is!(Sleep: RefUnwindSafe) && is!(Interval: UnwindSafe));
    assert!(is!(Timeout<String>: UnwindSafe) && !is!(Timeout<&'static mut u8>: UnwindSafe));
}

#[test]
fn sizes_are_pinned() {
    assert_eq!((size_of::<Key<String>>(), align_of::<Key<String>>()), (12, 4));
    assert_eq!((size_of::<Option<Key<u8>>>(), size_of::<Option<RawKey>>()), (12, 12));
    assert_eq!(size_of::<Option<(Key<u64>, u32)>>(), 16, "a key packs well beside other data");
    assert!(size_of::<TimerHandle<u64>>() <= 24);
    assert!(size_of::<TimerHandle<[u8; 1000]>>() <= 24, "a handle does not hold the payload");
    assert_eq!(size_of::<Option<TimerHandle<u64>>>(), size_of::<TimerHandle<u64>>());
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
    fn of_any_payload<T: Send + 'static>() {
        fixed::<ScheduleError<T>>();
        send::<ScheduleError<T>>();
        sync::<ScheduleError<T>>();
    }
    of_any_payload::<u64>();
    of_any_payload::<TimerTask>();
    of_any_payload::<SendOnly>();
    assert!(!is!(ScheduleError<std::rc::Rc<u8>>: Send));
    // `?` works in a function that returns any error, whatever the payload is.
    fn boxed(
        timer: &Timer<SendlessDebug>,
    ) -> Result<Key<SendlessDebug>, Box<dyn Error + Send + Sync>> {
        Ok(timer.schedule_key(HOUR, SendlessDebug)?)
    }
    let timer = one_shard().build_with(|_: Expired<SendlessDebug>| ()).unwrap();
    timer.stop().unwrap();
    assert!(boxed(&timer).is_err());
    fn closure(timer: &Timer) -> Result<TimerHandle<TimerTask>, Box<dyn Error + Send + Sync>> {
        Ok(timer.run_after(HOUR, || ())?)
    }
    let timer = one_shard().build().unwrap();
    timer.stop().unwrap();
    let error = closure(&timer).unwrap_err();
    let error = error.downcast::<ScheduleError<TimerTask>>().unwrap();
    assert_eq!(ScheduleErrorKind::from(*error), ScheduleErrorKind::Stopped);
}

/// A payload without `Debug`.
struct SendlessDebug;

#[test]
fn debug_does_not_need_a_payload_that_can_be_printed() {
    fn debug<D: Debug>(value: &D, parts: &[&str]) {
        let text = format!("{value:?}");
        for part in parts {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    let timer = one_shard().build_with(|_: Expired<SendlessDebug>| ()).unwrap();
    let timeout = timer.schedule(HOUR, SendlessDebug).unwrap();
    debug(&timer, &["Timer", "Started", "shards: 1", "tick: 1ms"]);
    debug(&timeout, &["TimerHandle", "Key(0:", "Pending"]);
    debug(&timer.stats(), &["scheduled: 1", "lateness"]);
    debug(&TimerTask::new(|| ()), &["TimerTask"]);
    debug(&Builder::new(), &["Builder", "Park", "Home", "1ms"]);
    debug(&ManualClock::new(), &["ManualClock"]);
    assert_eq!(timer.stop().unwrap().len(), 1);
    debug(&timeout, &["Returned"]);
    let error = timer.schedule(HOUR, SendlessDebug).unwrap_err();
    debug(&error, &["ScheduleError", "Stopped"]);
}

/// The text of the error that a builder gives.
fn refusal(builder: Builder) -> String {
    builder.build().expect_err("the builder refuses this").to_string()
}

#[test]
fn builder_errors_name_the_number_and_the_cure() {
    let new = Builder::new;
    let hashed = |buckets| WheelKind::Hashed { buckets };
    let cases: [(Builder, &[&str]); 14] = [
        (new().tick(Duration::ZERO), &["tick is 0", "1us to 1h"]),
        (new().tick(Duration::from_nanos(999)), &["999ns", "1us to 1h"]),
        (new().tick(2 * HOUR), &["7200s", "1us to 1h"]),
        (new().shards(0), &["shards is 0", "1 to 1024"]),
        (new().shards(1025), &["shards is 1025", "1024"]),
        (new().wheel(hashed(0)), &["buckets is 0", "choose 1 to"]),
        (new().wheel(hashed(65_537)), &["65537", "65536", "choose 1 to"]),
        (new().max_pending(0), &["max_pending is 0", "no limit"]),
        (new().budget(Budget::new().fire(0)), &["budget.fire", "at least 1"]),
        (new().budget(Budget::new().drain(0)), &["budget.drain", "at least 1"]),
        (new().budget(Budget::new().sweep(0)), &["budget.sweep", "at least 1"]),
        (new().pinning(Pinning::List(vec![])), &["0 cores", "Pinning::Off"]),
        (new().pinning(Pinning::List(vec![1 << 20])), &["core 1048576", "choose from"]),
        (new().thread_name("a\0b"), &["NUL", "byte 1", "remove"]),
    ];
    for (builder, parts) in cases {
        let text = refusal(builder);
        for part in parts {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
    }
}

#[test]
fn the_extremes_of_every_setting_are_accepted() {
    let caller = || Builder::new().shards(1).drive(Drive::Manual);
    for builder in [
        caller().tick(Duration::from_micros(1)),
        caller().tick(HOUR),
        caller().wheel(WheelKind::Hashed { buckets: 1 }),
        caller().wheel(WheelKind::Hashed { buckets: 3 }),
        caller().max_pending(1),
        caller().max_pending(usize::MAX),
        caller().budget(Budget::new().fire(1).drain(1).sweep(1)),
        caller().budget(Budget::new().fire(usize::MAX).drain(usize::MAX).sweep(usize::MAX)),
        caller().thread_name(""),
        caller().pinning(Pinning::Off),
    ] {
        let settings = format!("{builder:?}");
        let clock = ManualClock::new();
        let (timer, fired) = recording(builder.clock(clock.clone()));
        for id in 0..20 {
            // Only the first is sure of a place where the limit is one.
            if timer.schedule_key(HOUR, id).is_err() {
                assert_eq!(timer.pending(), 1);
            }
        }
        clock.advance(2 * HOUR);
        let due = timer.pending();
        assert_eq!(timer.turn(), Ok(due), "{settings}");
        assert_eq!(fired.ids().len(), due);
        timer.stop().unwrap();
    }
}

#[test]
fn run_time_errors_name_the_cure() {
    let timer = one_shard().max_pending(1).build_with(|_: Expired<u64>| ()).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    let text = timer.schedule(HOUR, 2).unwrap_err().to_string();
    assert!(text.contains("1 timers are pending") && text.contains("max_pending is 1"), "{text}");
    assert!(text.contains("raise the builder's max_pending"), "{text}");
    let text = timer.turn().unwrap_err().to_string();
    assert!(text.contains("Drive::Manual"), "{text}");
    timer.stop().unwrap();
    for text in
        [timer.schedule(HOUR, 3).unwrap_err().to_string(), timer.start().unwrap_err().to_string()]
    {
        assert!(text.contains("stopped") && text.contains("build a new one"), "{text}");
    }
}

#[test]
fn cancel_and_reschedule_answers_can_be_asked() {
    assert!(Cancel::Won(1).won() && !Cancel::<u64>::Lost.won());
    assert_eq!(Cancel::Won(1).into_payload(), Some(1));
    assert_eq!(Cancel::<u64>::Lost.into_payload(), None);
    assert!(Reschedule::Moved.moved() && !Reschedule::Gone.moved());
}

#[test]
fn clocks_and_executors_can_be_boxed() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
    let timer = one_shard().clock(clock).drive(Drive::Manual).build_with(|_: Expired<u64>| ());
    assert_eq!(timer.unwrap().now(), Time::ZERO);
    // One executor for two engines.
    let (sender, receiver) = std::sync::mpsc::channel();
    let execute = move |it: Expired<u64>| sender.send(it).map_err(|refused| refused.0);
    let executor: Arc<dyn Executor<u64>> = Arc::new(executor_fn(execute, drop));
    for payload in [1, 2] {
        let timer = one_shard().build_on(Arc::clone(&executor)).unwrap();
        timer.schedule_key(Duration::ZERO, payload).unwrap();
        assert_eq!(receiver.recv().unwrap().payload, payload);
    }
}

#[test]
fn an_engine_says_how_it_was_built() {
    let (timer, _fired) = recording(one_shard().shards(3).tick(ms(5)));
    assert_eq!((timer.shards(), timer.tick(), timer.pending()), (3, ms(5), 0));
    let before = timer.now();
    assert!(timer.now() >= before);
    let key = timer.schedule_key(HOUR, 1).unwrap();
    let again = key;
    assert!(key.shard() < 3 && key == again && format!("{key:?}").starts_with("Key("));
    assert_eq!(timer.stop().unwrap()[0].key, key);
}

#[test]
fn closures_are_the_default_payload() {
    let timer: Timer = Builder::new().shards(1).pinning(Pinning::Off).build().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    timer.run_after(Duration::ZERO, move || sender.send(1).unwrap()).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    // A cancelled closure comes back and may still be run, by hand.
    let (sender, receiver) = std::sync::mpsc::channel();
    let timeout = timer.run_after(HOUR, move || sender.send(2).unwrap()).unwrap();
    timeout.cancel().into_payload().unwrap().run();
    assert_eq!(receiver.recv(), Ok(2));
    // A task that was made beforehand is taken as it is.
    timer.schedule_key(HOUR, TimerTask::new(|| ())).unwrap();
    assert_eq!(timer.stop().unwrap().len(), 1);
}

/// Everything that can be done with a key, to a timer that did not hand it out.
macro_rules! refuses {
    ($timer:expr, $key:expr $(, $now:expr)?) => {{
        assert!(!$timer.is_pending($key));
        assert!(!$timer.cancel($key).won());
        assert!(!$timer.reschedule($($now,)? $key, HOUR).moved());
    }};
}

/// Keys of many timers, all of them with the same numbers of shard, node and generation, but for what keeps
/// them apart.
#[test]
fn a_key_of_another_timer_is_stale() {
    let engines: Vec<_> =
        (0..20).map(|_| one_shard().build_with(|_: Expired<u64>| ()).unwrap()).collect();
    let mut loops: Vec<_> =
        (0..20).map(|_| Settings::new().build_with_waker::<u64>(|| ()).unwrap()).collect();
    let mut locals: Vec<LocalTimer<u64>> =
        (0..20).map(|_| LocalTimer::new(ms(1)).unwrap()).collect();
    let mut fixed: Vec<FixedTimer<u64>> = (0..20).map(|_| FixedTimer::with_delay(HOUR)).collect();
    let mut keys: Vec<Key<u64>> = Vec::new();
    for engine in &engines {
        keys.push(engine.schedule_key(HOUR, 1).unwrap());
    }
    for timer in &mut loops {
        keys.push(timer.schedule(Time::ZERO, HOUR, 1u64).unwrap());
    }
    for timer in &mut locals {
        keys.push(timer.schedule(Time::ZERO, HOUR, 1).unwrap());
    }
    for timer in &mut fixed {
        keys.push(timer.schedule(Time::ZERO, 1).unwrap());
    }
    for (n, key) in keys.iter().copied().enumerate() {
        engines.iter().enumerate().filter(|(i, _)| *i != n).for_each(|(_, it)| refuses!(it, key));
        for (i, timer) in loops.iter_mut().enumerate().filter(|(i, _)| 20 + *i != n) {
            refuses!(timer, key, Time::ZERO);
            refuses!(timer.remote(), key);
            assert_eq!(timer.pending(), 1, "{i}");
        }
        for (_, timer) in locals.iter_mut().enumerate().filter(|(i, _)| 40 + *i != n) {
            refuses!(timer, key, Time::ZERO);
        }
        for (_, timer) in fixed.iter_mut().enumerate().filter(|(i, _)| 60 + *i != n) {
            assert!(!timer.is_pending(key) && !timer.cancel(key).won());
            assert!(!timer.reschedule(Time::ZERO, key).moved());
        }
    }
    assert!(engines.iter().zip(&keys).all(|(it, key)| it.cancel(*key).won()));
    assert!(loops.iter_mut().zip(&keys[20..]).all(|(it, key)| it.cancel(*key).won()));
    assert!(locals.iter_mut().zip(&keys[40..]).all(|(it, key)| it.cancel(*key).won()));
    assert!(fixed.iter_mut().zip(&keys[60..]).all(|(it, key)| it.cancel(*key).won()));
}

#[test]
fn keys_are_ordered_and_hashed_by_what_they_name() {
    let (timer, _) = recording(one_shard().drive(Drive::Manual));
    let keys: Vec<Key<u64>> = (0..100).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert!(
        sorted.windows(2).all(|pair| pair[0] < pair[1] && pair[0].partial_cmp(&pair[1]).is_some())
    );
    let hasher = std::hash::RandomState::new();
    let hashes = keys.iter().map(|key| std::hash::BuildHasher::hash_one(&hasher, key));
    let different: std::collections::HashSet<u64> = hashes.collect();
    assert_eq!(different.len(), keys.len(), "a collision in 64 bits is not to be expected");
    timer.stop().unwrap();
}

/// A batch that is refused in the middle says what was accepted, and why the rest was not.
#[test]
fn refusals_name_their_cause() {
    let (timer, _) = recording(one_shard().drive(Drive::Manual).max_pending(2));
    let refused = timer.schedule_batch((0..3).map(|id| (HOUR, id))).unwrap_err();
    assert_eq!(refused.accepted().len(), 2);
    assert!(refused.accepted().iter().all(|key| timer.is_pending(*key)));
    assert!(refused.source().is_none(), "the limit has no cause");
    timer.stop().unwrap();

    use std::io::{Error, ErrorKind};
    use tickwheel::{Elapsed, SleepError, TimeoutError};
    assert_eq!(Error::from(Elapsed).kind(), ErrorKind::TimedOut);
    assert_eq!(Error::from(TimeoutError::Elapsed).kind(), ErrorKind::TimedOut);
    let stopped = SleepError::from(ScheduleErrorKind::Stopped);
    for error in [Error::from(stopped.clone()), TimeoutError::Sleep(stopped.clone()).into()] {
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Other, stopped.to_string()));
        assert!(error.into_inner().is_some(), "the cause is kept");
    }
}
