//! `schedule_batch` of every front that other threads may use.

#[path = "support/ledger.rs"]
#[allow(dead_code, reason = "shared with other test programs")]
mod ledger;

use ledger::Ledger;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    BatchError, Builder, Clock, Drive, EventLoopTimer, Expired, ManualClock, Pinning, Routing,
    ScheduleErrorKind, Settings, Time, Timer, When,
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn by_hand() -> Builder {
    Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual)
}

fn quiet(builder: Builder) -> Timer<u64> {
    builder.build_with(|_: Expired<u64>| ()).unwrap()
}

/// Counts how often it is read.
struct Counting(Arc<AtomicUsize>);

impl Clock for Counting {
    fn now(&self) -> Time {
        self.0.fetch_add(1, Ordering::Relaxed);
        Time::ZERO + HOUR
    }
}

#[test]
fn delays_count_from_when_the_iterator_has_ended() {
    let clock = Arc::new(ManualClock::new());
    let timer = quiet(by_hand().clock(Arc::clone(&clock)));
    // The payload's making takes a second each time, and a timer is never early against it.
    let slow = (0..3u64).map(|id| {
        (5 * MS, {
            clock.advance(Duration::from_secs(1));
            id
        })
    });
    let keys = timer.schedule_batch(slow).unwrap();
    for key in keys {
        assert_eq!(timer.deadline(key), Some(Time::ZERO + Duration::from_secs(3) + 5 * MS));
    }
}

#[test]
fn a_batch_does_what_single_calls_do_and_reads_the_clock_once() {
    let whens = || {
        [When::from(5 * MS), When::from(Time::ZERO + 2 * HOUR), When::from(MS / 3), When::from(MS)]
    };
    let batch = || whens().into_iter().zip(0u64..);
    macro_rules! check {
        ($timer:expr, $single:ident, $reads:expr) => {{
            let keys = $timer.schedule_batch(batch()).unwrap();
            assert_eq!($reads.swap(0, Ordering::Relaxed), 1);
            for ((when, id), key) in batch().zip(keys) {
                let single = $timer.$single(when, id).unwrap();
                assert_eq!($timer.deadline(key), $timer.deadline(single));
                assert_eq!($timer.cancel(key).into_payload(), Some(id));
            }
            $reads.store(0, Ordering::Relaxed);
            let at = $timer.schedule_batch([(Time::ZERO, 7), (Time::ZERO + HOUR, 8)]).unwrap();
            assert_eq!(($reads.load(Ordering::Relaxed), at.len()), (0, 2));
            $reads.store(0, Ordering::Relaxed);
            let in_an_hour = Instant::now() + HOUR;
            let at = $timer.schedule_batch((0..100).map(|id| (in_an_hour, id))).unwrap();
            assert_eq!(($reads.load(Ordering::Relaxed), at.len()), (1, 100));
            assert!(at.windows(2).all(|two| $timer.deadline(two[0]) == $timer.deadline(two[1])));
            assert_eq!($timer.schedule_batch([(MS, 0); 0]).unwrap(), []);
        }};
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let timer = quiet(by_hand().clock(Counting(Arc::clone(&reads))));
    timer.start().unwrap();
    reads.store(0, Ordering::Relaxed);
    check!(timer, schedule_key, reads);
    let builder = Settings::new().clock(Counting(Arc::clone(&reads)));
    let owner = builder.build_with_waker::<u64>(|| ()).unwrap();
    reads.store(0, Ordering::Relaxed);
    check!(owner.remote(), schedule, reads);
}

#[test]
fn a_submitters_batch_goes_where_its_timers_go() {
    let timer = quiet(by_hand().clock(ManualClock::new()));
    let submitter = timer.submitter();
    let keys = submitter.schedule_batch((0..1000).map(|id| (HOUR, id))).unwrap();
    assert_eq!((timer.pending(), keys.len()), (1000, 1000));
    for (key, id) in keys.into_iter().zip(0..) {
        assert_eq!(submitter.cancel(key).into_payload(), Some(id));
    }
}

#[test]
fn a_batch_wakes_a_sleeping_loop_once_and_all_of_it_fires_in_order() {
    let (wakes, clock) = (Arc::new(AtomicUsize::new(0)), ManualClock::new());
    let counted = Arc::clone(&wakes);
    let mut timer: EventLoopTimer<u64> = Settings::new()
        .clock(clock)
        .build_with_waker(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(timer.poll_timeout(Time::ZERO), None);
    // Each earlier than the one before, and more than any block of the inbox holds.
    let batch = (1..=1000u64).rev().map(|ms| (MS * ms as u32, ms));
    assert_eq!(timer.remote().schedule_batch(batch).unwrap().len(), 1000);
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    let mut fired = Vec::new();
    let polled = timer.poll(Time::ZERO + 2000 * MS, |expired| fired.push(expired.payload));
    assert_eq!((polled.fired, fired), (1000, (1..=1000).collect()));

    let now = Time::ZERO + 2000 * MS;
    timer.schedule(now, 100 * MS, 0).unwrap();
    assert_eq!(timer.poll_timeout(now), Some(100 * MS));
    let at = |ms| (now + ms * MS, 1);
    timer.remote().schedule_batch([at(200), at(300)]).unwrap();
    assert_eq!(wakes.load(Ordering::Relaxed), 1, "nothing of it is early enough");
    timer.remote().schedule_batch([at(200), at(50), at(300)]).unwrap();
    assert_eq!(wakes.load(Ordering::Relaxed), 2, "the earliest decides, wherever it is");
}

#[test]
fn a_batch_beyond_the_limit_returns_payloads_and_deadlines() {
    fn is_shared<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    const _: fn(&BatchError<tickwheel::TimerTask>) = is_shared;
    let timer = quiet(by_hand().clock(ManualClock::new()).max_pending(3));
    timer.schedule_key(HOUR, 99).unwrap();
    let error = timer.schedule_batch((1..=4).map(|ms| (MS * ms as u32, ms))).unwrap_err();
    is_shared(&error);
    assert!(error.to_string().starts_with("2 timers of the batch were accepted"), "{error}");
    let (kind, accepted, refused) = error.into_parts();
    assert_eq!(kind, ScheduleErrorKind::TooManyPending { pending: 3, max_pending: 3 });
    assert_eq!(refused, [(Time::ZERO + 3 * MS, 3), (Time::ZERO + 4 * MS, 4)]);
    assert_eq!((timer.pending(), timer.stats().rejected), (3, 2), "each that was refused");
    for (key, id) in accepted.into_iter().zip(1..) {
        assert_eq!(timer.cancel(key).into_payload(), Some(id));
    }
    // The places are free again.
    assert_eq!(timer.schedule_batch(refused).unwrap().len(), 2);
}

#[test]
fn an_engine_that_is_stopped_refuses_all_of_a_batch() {
    let timer = quiet(by_hand());
    let submitter = timer.submitter();
    timer.stop().unwrap();
    for error in [
        timer.schedule_batch([(MS, 1), (MS, 2)]).unwrap_err(),
        submitter.schedule_batch([(MS, 1), (MS, 2)]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
        assert!(error.accepted().is_empty());
        assert_eq!(error.into_refused().into_iter().map(|it| it.1).collect::<Vec<_>>(), [1, 2]);
    }
    assert_eq!(timer.schedule_batch([(MS, 0); 0]).unwrap(), [], "nothing is refused");
    assert_eq!(submitter.schedule_batch([(MS, 0); 0]).unwrap(), []);
    assert_eq!(timer.stats().rejected, 4, "none of an empty batch");
    let owner: EventLoopTimer<u64> = Settings::new().build_with_waker(|| ()).unwrap();
    let remote = owner.remote();
    assert_eq!(remote.schedule_batch([(HOUR, 1)]).unwrap().len(), 1);
    assert_eq!(owner.close().len(), 1);
    let error = remote.schedule_batch([(HOUR, 2), (HOUR, 3)]).unwrap_err();
    assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
    assert_eq!(error.into_refused().len(), 2);
    assert_eq!(remote.schedule_batch([(HOUR, 4); 0]).unwrap(), []);
}

#[test]
fn the_callers_iterator_may_use_the_timer_and_may_panic() {
    let timer = quiet(by_hand().clock(ManualClock::new()));
    let nested = (0..3).map(|id| {
        timer.schedule_key(HOUR, 10 + id).unwrap();
        (HOUR, id)
    });
    assert_eq!(timer.schedule_batch(nested).unwrap().len(), 3);
    assert_eq!(timer.pending(), 6);
    let panicking = (0..3u64).map(|id| if id == 2 { panic!("the caller's") } else { (HOUR, id) });
    assert!(catch_unwind(AssertUnwindSafe(|| timer.schedule_batch(panicking))).is_err());
    assert_eq!(timer.pending(), 6, "nothing is armed before the iterator has ended");
}

#[test]
fn batches_that_race_with_a_stop_end_exactly_once() {
    const THREADS: u64 = 3;
    const BATCHES: u64 = 40;
    const SIZE: u64 = 50;
    for round in 0..30 {
        let ledger = Ledger::new(THREADS * BATCHES * SIZE);
        let fired = Arc::clone(&ledger);
        let timer = Builder::new()
            .shards(2)
            .pinning(Pinning::Off)
            .build_with(move |expired: Expired<ledger::Payload>| fired.fired(expired.payload.id()))
            .unwrap();
        timer.start().unwrap();
        let returned = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (timer, ledger) = (&timer, &ledger);
                scope.spawn(move || {
                    for batch in 0..BATCHES {
                        let first = (thread * BATCHES + batch) * SIZE;
                        let payloads = (first..first + SIZE).map(|id| ledger.begin(id));
                        // Some are due at once, so that the owner fires while others are armed.
                        let timers = payloads.map(|it| (HOUR * (it.id() % 3) as u32, it));
                        if let Err(error) = timer.schedule_batch(timers) {
                            assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
                            for (_, payload) in error.into_refused() {
                                ledger.refused(payload.id());
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(100 * round));
            returned.lock().unwrap().extend(timer.stop().unwrap());
        });
        for unfired in returned.into_inner().unwrap() {
            ledger.returned(unfired.payload.id());
        }
        drop(timer);
        let ends = ledger.check();
        assert_eq!(ends.fired + ends.returned + ends.refused, THREADS * BATCHES * SIZE);
    }
}

#[test]
fn a_submitter_reaches_timers_of_every_shard() {
    let timer = quiet(by_hand().shards(2).routing(Routing::Spread).clock(ManualClock::new()));
    let submitter = timer.submitter();
    let keys: Vec<_> = (0..20).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
    for (key, id) in keys.into_iter().zip(0..) {
        assert!(submitter.reschedule(key, 2 * HOUR).moved());
        assert_eq!(timer.deadline(key), Some(Time::ZERO + 2 * HOUR));
        assert_eq!(submitter.cancel(key).into_payload(), Some(id));
    }
    assert_eq!(timer.pending(), 0);
}
