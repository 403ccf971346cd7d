//! Wakers whose `Clone`, `Drop` and `wake` panic or call back.

use crate::rig::{Bell, Rig, poll};
use crate::support::setup::{HOUR, ms};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use tickwheel::{Builder, Clock, Period, Pinning, Sleep, SleepError, Time, Timer};

/// What the next such call of a waker does.
#[derive(Default)]
struct Moods {
    clone: AtomicBool,
    wake: AtomicBool,
    drop: AtomicBool,
}

static LEAKED: Mutex<Vec<&Moods>> = Mutex::new(Vec::new());

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_it);

fn moods<'a>(data: *const ()) -> &'a Moods {
    // SAFETY: every waker of this table is made of leaked moods.
    unsafe { &*data.cast() }
}

fn panic_if(mood: &AtomicBool, what: &str) {
    assert!(!mood.load(Ordering::SeqCst), "the waker's {what}");
}

fn clone(data: *const ()) -> RawWaker {
    panic_if(&moods(data).clone, "clone");
    RawWaker::new(data, &VTABLE)
}

fn wake(data: *const ()) {
    wake_by_ref(data);
}

fn wake_by_ref(data: *const ()) {
    panic_if(&moods(data).wake, "wake");
}

fn drop_it(data: *const ()) {
    panic_if(&moods(data).drop, "drop");
}

fn moody() -> (&'static Moods, Waker) {
    let moods: &'static Moods = Box::leak(Box::default());
    // Otherwise LeakSanitizer finds that nothing has it.
    LEAKED.lock().unwrap().push(moods);
    // SAFETY: the table's functions expect moods that are never freed.
    (moods, unsafe {
        Waker::new(std::ptr::from_ref(moods).cast(), &VTABLE)
    })
}

fn poll_with(sleep: &mut Sleep<SleepError>, waker: &Waker) -> Poll<()> {
    sleep
        .poll_sleep(&mut Context::from_waker(waker))
        .map(|ended| ended.unwrap())
}

#[test]
fn a_clone_that_panics_leaves_everything_as_it_was() {
    let rig = Rig::new();
    let (moods, waker) = moody();
    let mut sleep = rig.timer.sleep(ms(5));
    moods.clone.store(true, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &waker))).is_err());
    assert_eq!(rig.timer.stats().scheduled, 0);
    let bell = Bell::new();
    assert!(poll(&mut sleep, &bell).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &waker))).is_err());
    rig.pass(ms(5));
    assert_eq!(bell.rings(), 1, "the waker before is still there");
    assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
}

#[test]
fn a_drop_that_panics_ends_in_the_log() {
    let rig = Rig::new();
    let (moods, waker) = moody();
    let mut sleeps: Vec<_> = (0..3).map(|_| rig.timer.sleep(ms(5))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    moods.drop.store(true, Ordering::SeqCst);
    let bell = Bell::new();
    assert!(poll(&mut sleeps[0], &bell).is_pending(), "replaced");
    drop(sleeps.pop());
    rig.timer.stop().unwrap();
    assert!(matches!(poll(&mut sleeps[1], &bell), Poll::Ready(Err(_))));
    assert!(bell.rings() >= 1);
    moods.drop.store(false, Ordering::SeqCst);
}

/// A list is dropped in one go: two panics there would end the process.
#[test]
fn what_a_stop_returns_may_be_dropped_whatever_its_wakers_do() {
    let rig = Rig::new();
    let (moods, waker) = moody();
    let mut sleeps: Vec<_> = (0..3).map(|_| rig.timer.sleep(ms(5))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &waker).is_pending());
    }
    moods.wake.store(true, Ordering::SeqCst);
    let returned = rig.timer.stop().unwrap();
    assert_eq!(returned.len(), 3);
    drop(returned);
}

/// A driver whose waker panics once is deaf for that one call, and not for good.
#[test]
fn a_waker_that_panics_leaves_the_shard_to_the_next_one() {
    let timer = Builder::new()
        .shards(1)
        .pinning(Pinning::Off)
        .build()
        .unwrap();
    let mut shard = timer.drive_shard(0).unwrap();
    let (moods, waker) = moody();
    let mut turns = |waker: &Waker| {
        catch_unwind(AssertUnwindSafe(|| {
            while shard.turn(waker).unwrap().is_some() {}
        }))
    };
    moods.clone.store(true, Ordering::SeqCst);
    assert!(turns(&waker).is_err(), "its clone panics");
    moods.clone.store(false, Ordering::SeqCst);
    turns(&waker).unwrap();
    moods.drop.store(true, Ordering::SeqCst);
    let bell = Bell::new();
    turns(&Waker::from(Arc::clone(&bell))).unwrap();
    let _key = timer.run_after(HOUR, || ()).unwrap();
    assert_eq!(bell.rings(), 1);
    moods.drop.store(false, Ordering::SeqCst);
}

#[test]
fn a_wake_that_panics_is_a_handlers_panic_and_the_others_are_woken() {
    let rig = Rig::new();
    let (moods, waker) = moody();
    let (mut sleep, mut other) = (rig.timer.sleep(ms(5)), rig.timer.sleep(ms(5)));
    let bell = Bell::new();
    assert!(poll_with(&mut sleep, &waker).is_pending() && poll(&mut other, &bell).is_pending());
    moods.wake.store(true, Ordering::SeqCst);
    assert_eq!(rig.pass(ms(5)), 2);
    assert_eq!((bell.rings(), rig.timer.stats().panics), (1, 1));
    assert!(
        poll_with(&mut sleep, &waker).is_ready(),
        "fired all the same"
    );
    // Where a stop wakes.
    let (mut sleep, mut other) = (rig.timer.sleep(ms(5)), rig.timer.sleep(ms(5)));
    assert!(poll_with(&mut sleep, &waker).is_pending() && poll(&mut other, &bell).is_pending());
    let returned = rig.timer.stop().unwrap();
    assert_eq!((returned.len(), bell.rings()), (2, 2));
    moods.wake.store(false, Ordering::SeqCst);
    drop(returned);
}

/// A waker that polls, and drops, what it wakes.
struct Inline {
    timer: Timer,
    sleep: Mutex<Option<Sleep<SleepError>>>,
    polled: Mutex<Vec<bool>>,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let Some(mut sleep) = self.sleep.lock().unwrap().take() else {
            return;
        };
        let bell = Bell::new();
        let is_ready = matches!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
        self.polled.lock().unwrap().push(is_ready);
        let mut next = self.timer.sleep(ms(5));
        if poll(&mut next, &bell).is_pending() {
            *self.sleep.lock().unwrap() = Some(next);
        }
        drop(sleep);
    }
}

#[test]
fn a_wake_may_poll_drop_and_sleep_anew() {
    let rig = Rig::new();
    let inline = Arc::new(Inline {
        timer: rig.timer.clone(),
        sleep: Mutex::default(),
        polled: Mutex::default(),
    });
    let mut sleep = rig.timer.sleep(ms(5));
    let waker = Waker::from(Arc::clone(&inline));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    *inline.sleep.lock().unwrap() = Some(sleep);
    assert_eq!(rig.pass(ms(5)), 1);
    assert_eq!(*inline.polled.lock().unwrap(), [true]);
    assert_eq!(rig.timer.pending(), 1, "the one that the wake has armed");
    let mut far = rig.timer.sleep(HOUR);
    assert!(poll_with(&mut far, &waker).is_pending());
    rig.timer.stop().unwrap();
    assert_eq!(
        *inline.polled.lock().unwrap(),
        [true, false],
        "woken by the stop: not ready"
    );
    *inline.sleep.lock().unwrap() = None;
}

/// A clock that stands, and panics once, in the reading of this number from now on.
#[derive(Clone, Default)]
struct Once(Arc<AtomicU32>);

impl Clock for Once {
    fn now(&self) -> Time {
        let nth = self.0.load(Ordering::SeqCst);
        self.0.store(nth.saturating_sub(1), Ordering::SeqCst);
        assert_ne!(nth, 1, "the clock");
        Time::ZERO + ms(5)
    }
}

#[test]
fn an_interval_whose_clock_panics_ticks_no_earlier_for_it() {
    let clock = Once::default();
    let rig = Rig::with(|builder| builder.clock(clock.clone()));
    let mut beat = rig.timer.interval(Period::fixed_delay(HOUR));
    let mut context = Context::from_waker(Waker::noop());
    let panics = |act: &mut dyn FnMut()| {
        clock.0.store(1, Ordering::SeqCst);
        assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    };
    assert!(
        beat.poll_tick(&mut context).is_ready(),
        "the first one at once"
    );
    panics(&mut || _ = beat.poll_tick(&mut context));
    panics(&mut || beat.reset_after(ms(1)));
    assert!(beat.poll_tick(&mut context).is_pending());
}
