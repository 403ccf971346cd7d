//! `LocalSleeps`: sleeps of one thread, fired by hand, by a task, and against a list.

use crate::rig::{Bell, poll, wakers};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, stress, us};
use crate::{TICK, some_deadline};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{
    Budget, Clock, ManualClock, MissedTicks, Period, Remote, ScheduleErrorKind, Settings, Time,
    TimeoutError, When,
};
use tickwheel_util::FutureExt;
use tickwheel_util::local::{LocalSleep, LocalSleeps, Wakeup};

/// Sleeps on a clock that stands.
struct Rig {
    clock: ManualClock,
    sleeps: LocalSleeps,
}

impl Rig {
    fn new() -> Self {
        Self::with(Settings::new())
    }

    fn with(builder: Settings) -> Self {
        let clock = ManualClock::new();
        Self {
            sleeps: LocalSleeps::new(builder.clock(clock.clone())).unwrap(),
            clock,
        }
    }

    fn pass(&self, time: Duration) -> usize {
        self.clock.advance(time);
        self.sleeps.fire().fired
    }
}

#[test]
fn a_delay_of_zero_is_over_at_once_by_the_machines_clock_too() {
    let sleeps = LocalSleeps::new(Settings::new().tick(HOUR)).unwrap();
    let (bell, start) = (Bell::new(), Instant::now());
    // Until the clock computes its times, where the machine lets it.
    while start.elapsed() < ms(30) {
        drop(sleeps.sleep(HOUR));
    }
    for _ in 0..1000 {
        assert!(poll(&mut sleeps.sleep(ms(0)), &bell).is_ready());
        let mut sleep = sleeps.sleep(10 * HOUR);
        assert!(poll(&mut sleep, &bell).is_pending());
        sleep.reset(ms(0));
        assert_eq!(sleeps.poll_timeout(), Some(ms(0)));
        assert_eq!(sleeps.fire().fired, 1);
    }
}

#[test]
fn a_reset_to_what_has_passed_is_over_at_once_whatever_the_tick() {
    let past = Instant::now()
        .checked_sub(ms(1))
        .expect("the machine runs for longer");
    let rig = Rig::with(Settings::new().tick(HOUR));
    rig.clock.advance(HOUR * 3 / 2);
    let now = rig.clock.now();
    for when in [
        ms(0).into(),
        now.into(),
        (now - ms(1)).into(),
        When::from(past),
    ] {
        for polled_by_others in [false, true] {
            let bell = Bell::new();
            let mut sleep = rig.sleeps.sleep(10 * HOUR);
            assert!(poll(&mut sleep, &bell).is_pending());
            sleep.reset(when);
            assert!(sleep.deadline() <= now);
            let bell = if polled_by_others { Bell::new() } else { bell };
            assert!(poll(&mut sleep, &bell).is_pending());
            assert_eq!(
                (rig.sleeps.poll_timeout(), rig.pass(ms(0))),
                (Some(ms(0)), 1)
            );
            assert_eq!(
                (bell.rings(), poll(&mut sleep, &bell)),
                (1, Poll::Ready(Ok(())))
            );
        }
    }
    let mut ahead = rig.sleeps.sleep(10 * HOUR);
    assert!(poll(&mut ahead, &Bell::new()).is_pending());
    ahead.reset(now + us(1));
    assert_eq!(rig.pass(HOUR / 2 - us(1)), 0, "a tick later, not at once");
    assert_eq!(rig.pass(us(1)), 1);
}

#[test]
fn one_sleep_too_many_is_an_error_that_passes() {
    let rig = Rig::with(Settings::new().max_pending(1));
    let bell = Bell::new();
    let (mut one, mut two) = (rig.sleeps.sleep(ms(5)), rig.sleeps.sleep(ms(5)));
    assert!(poll(&mut one, &bell).is_pending());
    let Poll::Ready(Err(error)) = poll(&mut two, &bell) else {
        panic!("there is no place")
    };
    let kind = ScheduleErrorKind::TooManyPending {
        pending: 1,
        max_pending: 1,
    };
    assert_eq!((error.kind(), wakers(&bell)), (&kind, 1));
    // Another waker needs no further place.
    assert!(poll(&mut one, &Bell::new()).is_pending());
    drop(one);
    assert!(poll(&mut two, &bell).is_pending());
}

/// A waker that arms a timer when it goes.
struct Greedy(Remote<Wakeup>);

impl Wake for Greedy {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Greedy {
    fn drop(&mut self) {
        let _ = self.0.schedule(HOUR, Waker::noop().clone().into());
    }
}

#[test]
fn a_sleep_that_loses_its_place_to_its_own_waker_is_not_over() {
    let rig = Rig::with(Settings::new().max_pending(1));
    let mut sleep = rig.sleeps.sleep(ms(5));
    let greedy = Waker::from(Arc::new(Greedy(rig.sleeps.remote())));
    assert!(
        sleep
            .poll_sleep(&mut Context::from_waker(&greedy))
            .is_pending()
    );
    drop(greedy);
    for _ in 0..2 {
        // Its place is given up with the waker, which takes it for another timer.
        assert!(matches!(
            poll(&mut sleep, &Bell::new()),
            Poll::Ready(Err(_))
        ));
        assert!(!sleep.is_elapsed());
    }
}

#[test]
fn the_driver_sleeps_until_the_next_deadline_and_wakes_for_an_earlier_one() {
    let (rig, driver, bell) = (Rig::new(), Bell::new(), Bell::new());
    let (clock, naps) = (&rig.clock, RefCell::new(Vec::new()));
    let mut driving = Box::pin(rig.sleeps.drive(|nap| {
        naps.borrow_mut().push(nap);
        let until = clock.now() + nap;
        poll_fn(move |_| {
            if clock.now() < until {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
    }));
    let mut drive = || {
        assert!(poll(&mut driving, &driver).is_pending());
        naps.take()
    };
    assert_eq!(drive(), [], "without an end");
    let mut sleeps = [HOUR, ms(20), 2 * HOUR].map(|delay| rig.sleeps.sleep(delay));
    for (sleep, wakes, nap) in [(0, 1, HOUR), (1, 2, ms(20))] {
        assert!(poll(&mut sleeps[sleep], &bell).is_pending());
        assert_eq!((driver.rings(), drive()), (wakes, vec![nap]));
    }
    assert!(
        poll(&mut sleeps[2], &bell).is_pending() && driver.rings() == 2,
        "a later one"
    );
    sleeps[2].reset(ms(10));
    assert_eq!((driver.rings(), drive()), (3, vec![ms(10)]));
    rig.sleeps
        .remote()
        .schedule(ms(5), Waker::from(Arc::clone(&bell)).into())
        .unwrap();
    assert_eq!((driver.rings(), drive()), (4, vec![ms(5)]));
    for (rings, nap) in [(1, ms(5)), (2, ms(10)), (3, HOUR - ms(20))] {
        clock.set(rig.sleeps.now() + rig.sleeps.poll_timeout().unwrap());
        assert_eq!((drive(), bell.rings()), (vec![nap], rings));
    }
    assert_eq!(
        (driver.rings(), wakers(&bell)),
        (4, 1),
        "it is not woken for what it waits for"
    );
}

#[test]
fn a_driver_whose_budget_is_used_up_lets_others_run() {
    let rig = Rig::with(Settings::new().budget(Budget::new().fire(1)));
    let (fired, driver) = (Bell::new(), Bell::new());
    let mut sleeps = [(); 4].map(|()| rig.sleeps.sleep(ms(5)));
    assert!(
        sleeps
            .iter_mut()
            .all(|sleep| poll(sleep, &fired).is_pending())
    );
    rig.clock.advance(ms(5));
    let mut driving = Box::pin(rig.sleeps.drive(|_| pending::<()>()));
    for round in 1..=3 {
        assert!(poll(&mut driving, &driver).is_pending());
        assert_eq!(
            (fired.rings(), driver.rings()),
            (round, round),
            "it asks for another turn"
        );
    }
}

/// A waker that is about to do anything.
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Hook {
    fn wake(self: Arc<Self>) {
        let hook = self.0.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
    }
}

fn hooked(hook: impl FnOnce() + Send + 'static) -> Waker {
    Arc::new(Hook(Mutex::new(Some(Box::new(hook))))).into()
}

#[test]
fn a_wake_that_panics_leaves_the_others_awake() {
    let rig = Rig::new();
    let bell = Bell::new();
    let (mut one, mut two) = (rig.sleeps.sleep(ms(5)), rig.sleeps.sleep(ms(5)));
    let waker = hooked(|| panic!("the waker's wake"));
    assert!(
        one.poll_sleep(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert!(poll(&mut two, &bell).is_pending());
    assert_eq!((rig.pass(ms(5)), bell.rings()), (2, 1));
    assert!(poll(&mut one, &bell).is_ready());
}

thread_local! {
    static DROPS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// A waker each clone of which panics when it is dropped, while this thread says so.
fn moody() -> Waker {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(null(), &VTABLE),
        |_| (),
        |_| (),
        |_| assert!(!DROPS_PANIC.get(), "the waker's drop"),
    );
    // SAFETY: the table's functions do not look at the data.
    unsafe { Waker::new(null(), &VTABLE) }
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_harms_no_sleep() {
    let (rig, bell, waker) = (
        Rig::with(Settings::new().max_pending(2)),
        Bell::new(),
        moody(),
    );
    let mut cx = Context::from_waker(&waker);
    let [mut replaced, mut dropped, mut refused] = [(); 3].map(|()| rig.sleeps.sleep(ms(5)));
    assert!(replaced.poll_sleep(&mut cx).is_pending());
    assert!(dropped.poll_sleep(&mut cx).is_pending());
    DROPS_PANIC.set(true);
    assert!(matches!(refused.poll_sleep(&mut cx), Poll::Ready(Err(_))));
    assert!(poll(&mut replaced, &bell).is_pending());
    drop(dropped);
    DROPS_PANIC.set(false);
    assert_eq!((rig.pass(ms(5)), bell.rings()), (1, 1));
}

#[test]
fn a_drivers_waker_that_panics_when_it_is_replaced_takes_no_wake_from_the_next_driver() {
    let (rig, bell) = (Rig::new(), Bell::new());
    let drive = || Box::pin(rig.sleeps.drive(|_| pending::<()>()));
    let mut first = drive();
    let waker = moody();
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    DROPS_PANIC.set(true);
    let second_poll = std::panic::AssertUnwindSafe(|| poll(&mut first, &bell));
    let _ = std::panic::catch_unwind(second_poll);
    DROPS_PANIC.set(false);
    drop(first);
    let mut second = drive();
    assert!(poll(&mut second, &bell).is_pending());
    let before = bell.rings();
    let mut sleep = rig.sleeps.sleep(ms(5));
    assert!(poll(&mut sleep, &Bell::new()).is_pending());
    assert_eq!(bell.rings(), before + 1, "earlier than all others");
}

/// A waker that lies somewhere, and whose clones are others: as those of executors that count no references for a poll.
struct Lying(Arc<Bell>);

impl Lying {
    fn poll(&self, sleep: &mut LocalSleep) -> bool {
        fn wake(data: *const ()) {
            // SAFETY: as in `poll`.
            Arc::clone(unsafe { &(*data.cast::<Lying>()).0 }).wake();
        }
        static VTABLE: RawWakerVTable = RawWakerVTable::new(
            |data| {
                // SAFETY: as in `poll`.
                let bell = Arc::clone(unsafe { &(*data.cast::<Lying>()).0 });
                let clone = std::mem::ManuallyDrop::new(Waker::from(bell));
                RawWaker::new(clone.data(), clone.vtable())
            },
            wake,
            wake,
            |_| (),
        );
        // SAFETY: the data is this, which outlives the waker.
        let waker = unsafe { Waker::new(std::ptr::from_ref(self).cast(), &VTABLE) };
        let mut cx = Context::from_waker(&waker);
        sleep.poll_sleep(&mut cx).is_pending()
    }
}

#[test]
fn a_task_whose_waker_lies_where_another_ones_lay_is_woken() {
    let (rig, bells) = (Rig::new(), [Bell::new(), Bell::new()]);
    let mut sleep = rig.sleeps.sleep(ms(5));
    let mut place = Lying(Arc::clone(&bells[0]));
    assert!(place.poll(&mut sleep));
    place.0 = Arc::clone(&bells[1]);
    assert!(place.poll(&mut sleep));
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!(bells.map(|bell| bell.rings()), [0, 1]);
}

thread_local! {
    static SLEEPS: RefCell<Option<(LocalSleeps, LocalSleep)>> = const { RefCell::new(None) };
}

#[test]
fn a_wake_may_poll_fire_and_sleep_anew() {
    let rig = Rig::new();
    let waker = hooked(|| {
        let (sleeps, mut sleep) = SLEEPS.take().unwrap();
        assert!(poll(&mut sleep, &Bell::new()).is_ready());
        assert_eq!(sleeps.fire().fired, 0, "everything due has been taken");
        sleep.reset(ms(1));
        assert!(poll(&mut sleep, &Bell::new()).is_pending());
        SLEEPS.set(Some((sleeps, sleep)));
    });
    let mut sleep = rig.sleeps.sleep(ms(5));
    assert!(
        sleep
            .poll_sleep(&mut Context::from_waker(&waker))
            .is_pending()
    );
    SLEEPS.set(Some((rig.sleeps.clone(), sleep)));
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!((rig.pass(ms(1)), rig.sleeps.pending()), (1, 0));
    SLEEPS.set(None);
}

#[test]
fn a_remote_does_not_keep_the_drivers_waker() {
    let (rig, bell) = (Rig::new(), Bell::new());
    let remote = rig.sleeps.remote();
    let mut driving = Box::pin(rig.sleeps.drive(|_| pending::<()>()));
    assert!(poll(&mut driving, &bell).is_pending());
    drop(driving);
    drop(rig);
    assert_eq!(wakers(&bell), 0);
    assert!(remote.schedule(HOUR, Waker::noop().clone().into()).is_err());
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Unarmed,
    Armed(usize),
    Fired,
    Elapsed,
}

/// A sleep, its deadline as it was asked for, and what the list says of it.
struct Entry(LocalSleep, u64, Stage);

/// Lets time pass, to `now`; enters which bells rang.
fn pass(rig: &Rig, time: u64, now: u64, entries: &mut [Entry], rings: &mut [u64]) {
    let fired = rig.pass(Duration::from_nanos(time));
    let mut expected = 0;
    for Entry(sleep, due, stage) in entries {
        let Stage::Armed(bell) = *stage else { continue };
        if sleep.is_elapsed() {
            assert!(*due <= now, "early");
            (*stage, expected) = (Stage::Fired, expected + 1);
            rings[bell] += 1;
        } else {
            assert!(now < due.div_ceil(TICK) * TICK, "late");
        }
    }
    assert_eq!(fired, expected);
}

#[test]
fn sleeps_behave_as_the_list_says() {
    for seed in 0..stress(60) {
        let (random, rig) = (&mut Random::new(seed), Rig::new());
        let bells = [(); 3].map(|()| Bell::new());
        let (mut rings, mut entries, mut now) = ([0; 3], Vec::<Entry>::new(), 0);
        for _ in 0..400 {
            let (deadline, when) = some_deadline(random, now);
            let which = random.below(entries.len().max(1) as u64) as usize;
            match (random.below(100), entries.get_mut(which)) {
                (0..25, _) => {
                    let sleep = rig.sleeps.sleep(when);
                    assert_eq!(sleep.deadline().as_nanos(), deadline);
                    entries.push(Entry(sleep, deadline, Stage::Unarmed));
                }
                (25..60, Some(Entry(sleep, due, stage))) => {
                    let bell = random.below(3) as usize;
                    let is_ready = poll(sleep, &bells[bell]).is_ready();
                    *stage = match *stage {
                        Stage::Fired | Stage::Elapsed => Stage::Elapsed,
                        Stage::Unarmed if *due <= now => Stage::Elapsed,
                        Stage::Unarmed | Stage::Armed(_) => Stage::Armed(bell),
                    };
                    assert_eq!(is_ready, *stage == Stage::Elapsed, "{stage:?}");
                }
                (60..75, Some(Entry(sleep, due, stage))) => {
                    sleep.reset(when);
                    *due = deadline;
                    if !matches!(stage, Stage::Armed(_)) {
                        *stage = Stage::Unarmed;
                    }
                }
                (75..85, Some(_)) => drop(entries.swap_remove(which)),
                _ => {
                    let time = random.below(4 * TICK);
                    now += time;
                    pass(&rig, time, now, &mut entries, &mut rings);
                }
            }
            for (index, bell) in bells.iter().enumerate() {
                let armed = entries
                    .iter()
                    .filter(|it| it.2 == Stage::Armed(index))
                    .count();
                assert_eq!((bell.rings(), wakers(bell)), (rings[index], armed));
            }
        }
        drop(entries);
        assert_eq!(rig.sleeps.pending(), 0);
    }
}

#[test]
fn a_timeout_polls_its_future_first_and_says_elapsed_until_a_reset() {
    let (rig, bell) = (Rig::new(), Bell::new());
    let mut cx = Context::from_waker(Waker::noop());
    // Ready at once: no timer.
    let mut ready = Box::pin(rig.sleeps.timeout(ms(5), async { 7 }));
    assert_eq!(ready.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
    assert_eq!(rig.sleeps.pending(), 0);

    let polls = Cell::new(0);
    let never = poll_fn(|_| {
        polls.set(polls.get() + 1);
        Poll::<()>::Pending
    });
    let mut late = Box::pin(never.timeout_on(&rig.sleeps, ms(5)));
    assert!(poll(&mut late, &bell).is_pending());
    assert_eq!((rig.pass(ms(4)), bell.rings()), (0, 0));
    assert_eq!((rig.pass(ms(1)), bell.rings()), (1, 1));
    for _ in 0..3 {
        let over = Poll::Ready(Err(TimeoutError::Elapsed));
        assert_eq!(poll(&mut late, &bell), over);
        assert_eq!(polls.get(), 2, "it stops being polled");
    }
    late.as_mut().reset(ms(5));
    assert!(poll(&mut late, &bell).is_pending() && rig.sleeps.pending() == 1);
    assert_eq!(polls.get(), 3);
    drop(late);
    assert_eq!(rig.sleeps.pending(), 0);
}

#[test]
fn an_interval_keeps_its_grid_and_its_policy_for_missed_ticks() {
    let beat_of = |missed: Option<MissedTicks>| {
        let rig = Rig::new();
        let start = rig.sleeps.now();
        let mut beat = rig.sleeps.interval(ms(10));
        if let Some(missed) = missed {
            beat = beat.missed_ticks(missed);
        }
        // Asked for at 0, 10, 35 and whenever the next one is due.
        let mut ticks = Vec::new();
        for pass in [0, 10, 25, 0] {
            rig.pass(ms(pass));
            let mut tick = beat.poll_tick(&mut Context::from_waker(Waker::noop()));
            while tick.is_pending() {
                rig.pass(ms(1));
                tick = beat.poll_tick(&mut Context::from_waker(Waker::noop()));
            }
            let Poll::Ready(Ok(due)) = tick else {
                panic!("there is no limit")
            };
            ticks.push((due - start).as_millis());
        }
        (ticks, (rig.sleeps.now() - start).as_millis())
    };
    assert_eq!(beat_of(None), (vec![0, 10, 20, 40], 40));
    assert_eq!(beat_of(Some(MissedTicks::Burst)), (vec![0, 10, 20, 30], 35));
    assert_eq!(beat_of(Some(MissedTicks::Delay)), (vec![0, 10, 20, 45], 45));
}

#[test]
fn a_pause_between_ticks_begins_when_the_next_one_is_asked_for() {
    let rig = Rig::new();
    let start = rig.sleeps.now();
    let mut beat = rig.sleeps.interval(Period::fixed_delay(ms(10)));
    assert!(
        beat.poll_tick(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    rig.pass(ms(7));
    let bell = Bell::new();
    let waker = Waker::from(Arc::clone(&bell));
    assert!(
        beat.poll_tick(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert_eq!((rig.pass(ms(9)), rig.pass(ms(1)), bell.rings()), (0, 1, 1));
    let due = Poll::Ready(Ok(start + ms(17)));
    assert_eq!(beat.poll_tick(&mut Context::from_waker(&waker)), due);
}

#[test]
fn an_interval_that_is_reset_immediately_ticks_now_and_a_period_later() {
    let rig = Rig::new();
    let mut beat = rig.sleeps.interval_at(ms(10), ms(10));
    rig.pass(ms(7));
    beat.reset_immediately();
    let mut cx = Context::from_waker(Waker::noop());
    for pause in [ms(0), ms(10)] {
        rig.pass(pause);
        let due = rig.sleeps.now();
        assert_eq!(beat.poll_tick(&mut cx), Poll::Ready(Ok(due)));
        assert!(beat.poll_tick(&mut cx).is_pending());
    }
}

/// The same three limits as by the shared engine, on a clock that stands in between.
#[test]
fn streams_are_limited_by_the_threads_timer() {
    use futures_lite::{Stream, StreamExt as _, stream};
    use tickwheel_util::stream::StreamExt;
    fn next<S: Stream>(stream: Pin<&mut S>) -> Poll<Option<S::Item>> {
        stream.poll_next(&mut Context::from_waker(Waker::noop()))
    }
    let rig = Rig::with(Settings::new().max_pending(1));
    let sleeps = &rig.sleeps;

    let mut limited = pin!(
        stream::once(1)
            .chain(stream::pending())
            .timeout_on(sleeps, ms(5))
    );
    assert_eq!(next(limited.as_mut()), Poll::Ready(Some(Ok(1))));
    assert!(next(limited.as_mut()).is_pending());
    // There is room for one timer: the others say so, and go on later.
    let mut refused = pin!(stream::pending::<()>().timeout_on(sleeps, ms(5)));
    let Poll::Ready(Some(Err(TimeoutError::Sleep(_)))) = next(refused.as_mut()) else {
        panic!("there is no place")
    };
    assert_eq!(rig.pass(ms(5)), 1);
    let elapsed = Poll::Ready(Some(Err(TimeoutError::Elapsed)));
    assert_eq!(next(limited.as_mut()), elapsed);
    assert!(next(limited.as_mut()).is_pending(), "once per pause");

    let mut throttled = pin!(stream::iter([1, 2]).throttle_on(sleeps, ms(5)));
    assert_eq!(next(throttled.as_mut()), Poll::Ready(Some(Ok(1))));
    assert!(next(throttled.as_mut()).is_pending());
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!(next(throttled.as_mut()), Poll::Ready(Some(Ok(2))));

    let items = stream::iter([1, 2, 3]).chain(stream::pending());
    let mut lists = pin!(items.chunks_timeout_on(sleeps, 2, ms(5)));
    assert_eq!(next(lists.as_mut()), Poll::Ready(Some(Ok(vec![1, 2]))));
    assert!(next(lists.as_mut()).is_pending());
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!(next(lists.as_mut()), Poll::Ready(Some(Ok(vec![3]))));
}

/// Stands, and counts how often it is read.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU32>);

impl Clock for Counting {
    fn now(&self) -> Time {
        self.0.fetch_add(1, Ordering::SeqCst);
        Time::ZERO
    }
}

#[test]
fn a_sleep_that_is_dropped_in_time_has_read_the_clock_once() {
    let clock = Counting::default();
    let sleeps = LocalSleeps::new(Settings::new().clock(clock.clone())).unwrap();
    for delay in [HOUR, ms(5), 2 * HOUR] {
        let before = clock.0.load(Ordering::SeqCst);
        let mut sleep = sleeps.sleep(Time::ZERO + delay);
        assert!(poll(&mut sleep, &Bell::new()).is_pending());
        drop(sleep);
        assert_eq!(clock.0.load(Ordering::SeqCst) - before, 1);
    }
}
