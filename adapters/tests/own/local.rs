//! `LocalSleeps`: sleeps of one thread, fired by hand, by a task, and against a list.

use crate::rig::{Bell, block_on, poll, wakers};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, stress, us};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{
    Budget, EventLoopTimer, ManualClock, Remote, ScheduleErrorKind, Settings, Time, When,
};
use tickwheel_util::{LocalSleep, LocalSleeps, Wakeup};

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
        Self { sleeps: LocalSleeps::new(builder.clock(clock.clone())).unwrap(), clock }
    }

    fn pass(&self, time: Duration) -> usize {
        self.clock.advance(time);
        self.sleeps.fire().fired
    }
}

#[test]
fn it_is_ready_at_its_deadline_and_wakes_once() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.sleeps.sleep(us(4_500));
    assert_eq!((rig.sleeps.pending(), sleep.deadline()), (0, Time::ZERO + us(4_500)));
    assert!(poll(&mut sleep, &bell).is_pending() && poll(&mut sleep, &bell).is_pending());
    assert_eq!((rig.sleeps.pending(), wakers(&bell)), (1, 1));
    assert_eq!(rig.sleeps.poll_timeout(), Some(ms(5)));
    assert_eq!(rig.pass(ms(5) - us(1)), 0);
    assert!(poll(&mut sleep, &bell).is_pending() && !sleep.is_elapsed() && bell.rings() == 0);
    assert_eq!(rig.pass(us(1)), 1);
    assert_eq!((bell.rings(), wakers(&bell), sleep.is_elapsed()), (1, 0, true));
    for _ in 0..2 {
        assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
    }
    assert_eq!(rig.sleeps.poll_timeout(), None);
}

#[test]
fn a_drop_a_reset_and_another_waker_leave_nothing_behind() {
    let rig = Rig::new();
    let (one, other) = (Bell::new(), Bell::new());
    let mut sleep = rig.sleeps.sleep(ms(5));
    assert!(poll(&mut sleep, &one).is_pending() && poll(&mut sleep, &other).is_pending());
    assert_eq!((wakers(&one), wakers(&other), rig.sleeps.pending()), (0, 1, 1));
    sleep.reset(ms(9));
    assert_eq!(rig.pass(ms(8)), 0);
    sleep.reset(rig.sleeps.now());
    assert_eq!((rig.pass(Duration::ZERO), one.rings(), other.rings()), (1, 0, 1));
    sleep.reset(rig.sleeps.now());
    assert!(!sleep.is_elapsed() && poll(&mut sleep, &one).is_ready() && sleep.is_elapsed());
    sleep.reset(ms(5));
    assert!(!sleep.is_elapsed() && poll(&mut sleep, &one).is_pending());
    drop(sleep);
    assert_eq!((wakers(&one), rig.sleeps.pending(), rig.pass(HOUR)), (0, 0, 0));
    let at_once = [Duration::ZERO.into(), When::from(Time::ZERO), rig.sleeps.now().into()]
        .map(|when| rig.sleeps.sleep(when));
    for mut sleep in at_once {
        assert!(poll(&mut sleep, &one).is_ready(), "no timer");
    }
}

#[test]
fn a_reset_to_what_has_passed_is_over_at_once_whatever_the_tick() {
    let past = Instant::now().checked_sub(ms(1)).expect("the machine runs for longer");
    let rig = Rig::with(Settings::new().tick(HOUR));
    rig.clock.advance(HOUR * 3 / 2);
    let now = rig.clock.now();
    for when in [ms(0).into(), now.into(), (now - ms(1)).into(), When::from(past)] {
        for polled_by_others in [false, true] {
            let bell = Bell::new();
            let mut sleep = rig.sleeps.sleep(10 * HOUR);
            assert!(poll(&mut sleep, &bell).is_pending());
            sleep.reset(when);
            assert!(sleep.deadline() <= now);
            let bell = if polled_by_others { Bell::new() } else { bell };
            assert!(poll(&mut sleep, &bell).is_pending());
            assert_eq!((rig.sleeps.poll_timeout(), rig.pass(ms(0))), (Some(ms(0)), 1));
            assert_eq!((bell.rings(), poll(&mut sleep, &bell)), (1, Poll::Ready(Ok(()))));
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
    let Poll::Ready(Err(error)) = poll(&mut two, &bell) else { panic!("there is no place") };
    let kind = ScheduleErrorKind::TooManyPending { pending: 1, max_pending: 1 };
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
    assert!(sleep.poll_sleep(&mut Context::from_waker(&greedy)).is_pending());
    drop(greedy);
    for _ in 0..2 {
        // Its place is given up with the waker, which takes it for another timer.
        assert!(matches!(poll(&mut sleep, &Bell::new()), Poll::Ready(Err(_))));
        assert!(!sleep.is_elapsed());
    }
}

#[test]
fn a_driver_whose_budget_is_used_up_lets_others_run() {
    let rig = Rig::with(Settings::new().budget(Budget::new().fire(1)));
    let (fired, driver) = (Bell::new(), Bell::new());
    let mut sleeps: Vec<_> = (0..4).map(|_| rig.sleeps.sleep(ms(5))).collect();
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep, &fired).is_pending()));
    rig.clock.advance(ms(5));
    let mut driving = Box::pin(rig.sleeps.drive(|_| std::future::pending::<()>()));
    for round in 1..=3 {
        assert!(poll(&mut driving, &driver).is_pending());
        assert_eq!((fired.rings(), driver.rings()), (round, round), "it asks for another turn");
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
    assert!(one.poll_sleep(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&mut two, &bell).is_pending());
    assert_eq!((rig.pass(ms(5)), bell.rings()), (2, 1));
    assert!(poll(&mut one, &bell).is_ready());
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
    assert!(sleep.poll_sleep(&mut Context::from_waker(&waker)).is_pending());
    SLEEPS.set(Some((rig.sleeps.clone(), sleep)));
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!((rig.pass(ms(1)), rig.sleeps.pending()), (1, 0));
    SLEEPS.set(None);
}

/// What a runtime sleeps by, for these tests: the shared engine.
async fn runtimes_sleep(time: Duration) {
    tickwheel::sleep(time).await;
}

/// Polls both until the second is ready.
async fn drive_until<T>(sleeps: &LocalSleeps, task: impl Future<Output = T>) -> T {
    let (mut drive, mut task) =
        (std::pin::pin!(sleeps.drive(runtimes_sleep)), std::pin::pin!(task));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(never) = drive.as_mut().poll(cx) {
            match never {}
        }
        task.as_mut().poll(cx)
    })
    .await
}

#[test]
fn a_task_drives_the_sleeps_and_sees_earlier_ones_in_time() {
    let sleeps = LocalSleeps::new(Settings::new()).unwrap();
    let start = Instant::now();
    block_on(drive_until(&sleeps, async {
        sleeps.sleep(ms(5)).await.unwrap();
        // The driver plans to sleep for an hour when the others are armed.
        let mut hour = sleeps.sleep(HOUR);
        assert!(poll(&mut hour, &Bell::new()).is_pending());
        runtimes_sleep(ms(5)).await;
        sleeps.sleep(ms(5)).await.unwrap();
        hour.reset(ms(5));
        hour.await.unwrap();
    }));
    let took = start.elapsed();
    assert!(took >= ms(20) && took < HOUR, "{took:?}");
    assert_eq!(sleeps.pending(), 0);
}

#[test]
fn other_threads_wake_by_a_remote() {
    let sleeps = LocalSleeps::new(Settings::new()).unwrap();
    let bell = Bell::new();
    block_on(drive_until(&sleeps, async {
        let remote = sleeps.remote();
        let waker = Waker::from(Arc::clone(&bell));
        // The driver sleeps without an end by then.
        let thread = std::thread::spawn(move || {
            std::thread::sleep(ms(10));
            remote.schedule(ms(2), waker.into()).unwrap();
        });
        while bell.rings() == 0 {
            runtimes_sleep(ms(1)).await;
        }
        thread.join().unwrap();
    }));
    assert_eq!(bell.rings(), 1);
}

#[test]
fn a_remote_does_not_keep_the_drivers_waker() {
    let (rig, bell) = (Rig::new(), Bell::new());
    let remote = rig.sleeps.remote();
    let mut driving = Box::pin(rig.sleeps.drive(|_| std::future::pending::<()>()));
    assert!(poll(&mut driving, &bell).is_pending());
    drop(driving);
    drop(rig);
    assert_eq!(wakers(&bell), 0);
    assert!(remote.schedule(HOUR, Waker::noop().clone().into()).is_err());
}

#[test]
fn a_timer_of_a_loop_of_its_own_is_taken_over() {
    let clock = ManualClock::new();
    let timer: EventLoopTimer<Wakeup> =
        Settings::new().clock(clock.clone()).build_with_waker(|| ()).unwrap();
    let sleeps = LocalSleeps::from(timer);
    let bell = Bell::new();
    let mut sleep = sleeps.sleep(ms(5));
    assert!(poll(&mut sleep, &bell).is_pending());
    clock.advance(ms(5));
    assert_eq!((sleeps.fire().fired, bell.rings()), (1, 1));
    // Futures that cannot be sent.
    let shared = Rc::new(7);
    block_on(async { assert_eq!((sleep.await, *shared), (Ok(()), 7)) });
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Unarmed,
    Armed(usize),
    Fired,
    Elapsed,
}

const TICK: u64 = 1_000_000;
const BELLS: usize = 3;

/// A sleep, its deadline in nanoseconds as it was asked for, and what the list says of it.
struct Entry(LocalSleep, u64, Stage);

#[test]
fn sleeps_behave_as_the_list_says() {
    for seed in 0..stress(60) {
        let random = &mut Random::new(seed);
        let rig = Rig::new();
        let bells: [_; BELLS] = std::array::from_fn(|_| Bell::new());
        let (mut rings, mut entries, mut now) = ([0; BELLS], Vec::<Entry>::new(), 0_u64);
        for _ in 0..400 {
            let far = if random.chance(80) { 20 * TICK } else { 3_000 * TICK };
            let ahead = 1 + random.below(far);
            let is_point = random.chance(50);
            let deadline =
                if is_point { (now + ahead).saturating_sub(5 * TICK) } else { now + ahead };
            let when: tickwheel::When = if is_point {
                Time::from_nanos(deadline).into()
            } else {
                Duration::from_nanos(ahead).into()
            };
            let which = random.below(entries.len().max(1) as u64) as usize;
            let is_there = which < entries.len();
            match random.below(100) {
                0..25 => {
                    let stage = Stage::Unarmed;
                    entries.push(Entry(rig.sleeps.sleep(when), deadline, stage));
                }
                25..60 if is_there => {
                    let (Entry(sleep, due, stage), bell) =
                        (&mut entries[which], random.below(BELLS as u64) as usize);
                    let answer = poll(sleep, &bells[bell]);
                    *stage = match *stage {
                        Stage::Fired | Stage::Elapsed => Stage::Elapsed,
                        Stage::Unarmed if *due <= now => Stage::Elapsed,
                        Stage::Unarmed | Stage::Armed(_) => Stage::Armed(bell),
                    };
                    assert_eq!(answer.is_ready(), *stage == Stage::Elapsed, "{stage:?}");
                }
                60..75 if is_there => {
                    let Entry(sleep, due, stage) = &mut entries[which];
                    sleep.reset(when);
                    *due = deadline;
                    if !matches!(stage, Stage::Armed(_)) {
                        *stage = Stage::Unarmed;
                    }
                }
                75..85 if is_there => drop(entries.swap_remove(which)),
                _ => {
                    let time = random.below(4 * TICK);
                    now += time;
                    let fired = rig.pass(Duration::from_nanos(time));
                    let mut expected = 0;
                    for Entry(sleep, due, stage) in &mut entries {
                        if let Stage::Armed(bell) = *stage {
                            let (least, most) = (*due, due.div_ceil(TICK) * TICK);
                            let is_over = sleep.is_elapsed();
                            assert!(if is_over { least <= now } else { now < most }, "{due}");
                            if is_over {
                                (*stage, expected) = (Stage::Fired, expected + 1);
                                rings[bell] += 1;
                            }
                        }
                    }
                    assert_eq!(fired, expected);
                }
            }
            for bell in 0..BELLS {
                let armed = entries.iter().filter(|it| it.2 == Stage::Armed(bell)).count();
                assert_eq!((bells[bell].rings(), wakers(&bells[bell])), (rings[bell], armed));
            }
        }
        drop(entries);
        assert_eq!(rig.sleeps.pending(), 0);
    }
}
