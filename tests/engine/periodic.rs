//! Periodic timers on every front: one table of steps and interruptions, the policies; and, on the engine, what users'
//! code does around a call: payloads that lock and panic, clocks and wakers that cancel.

use crate::support::hand::Hand;
use crate::support::loop_timer::LoopTimer;
use crate::support::setup::{HOUR, ms, one_shard, rate, us};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tickwheel::{
    Cancel, Clock, Drive, EventLoopTimer, Expired, Key, LocalTimer, ManualClock, MissedTicks,
    Period, Remote, Settings, Time, Timer, TimerTask, WeakTimer,
};

/// A timer of one kind on the script's clock.
trait Front {
    /// What is done from outside and within a handler.
    fn hand(&mut self) -> &mut dyn Hand<Load>;
    /// The same timers for code that runs while the front is borrowed, where there is such a way.
    fn other(&self) -> Option<Box<dyn Hand<Load> + Send>>;
    /// Runs what is due, until nothing is.
    fn run(&mut self);
    /// Timers scheduled, timers fired and panics, where they are counted.
    fn counts(&self) -> Option<[u64; 3]>;
    /// Ends the front; how many timers that returns.
    fn end(self: Box<Self>) -> usize;
}

type Act = Box<dyn FnOnce(&mut dyn Hand<Load>) + Send>;

/// What happens in a test, and what is to happen once in its course.
#[derive(Default)]
struct Script {
    clock: ManualClock,
    loads: AtomicUsize,
    in_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    in_call: Mutex<Option<Act>>,
    /// For each call when it was made and for which deadline, in milliseconds.
    calls: Mutex<Vec<(u64, u64)>>,
    /// The last call has come.
    is_over: AtomicBool,
}

impl Script {
    fn now(&self) -> u64 {
        millis(self.clock.now())
    }

    fn call(&self, hand: &mut dyn Hand<Load>, expired: &Expired<Load>) {
        // What the timer was given stays with it until then.
        let is_last = !expired.payload.is_copy;
        let was_over = self.is_over.fetch_or(is_last, Ordering::SeqCst);
        assert!(!was_over, "called after its last call");
        self.calls
            .lock()
            .unwrap()
            .push((self.now(), millis(expired.deadline)));
        let act = self.in_call.lock().unwrap().take();
        act.into_iter().for_each(|act| act(hand));
    }
}

fn millis(time: Time) -> u64 {
    time.as_nanos() / 1_000_000
}

struct Load {
    script: Arc<Script>,
    is_copy: bool,
}

impl Load {
    fn new(script: &Arc<Script>, is_copy: bool) -> Self {
        script.loads.fetch_add(1, Ordering::SeqCst);
        Self {
            script: Arc::clone(script),
            is_copy,
        }
    }
}

impl Clone for Load {
    fn clone(&self) -> Self {
        let act = self.script.in_clone.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
        Self::new(&self.script, true)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.script.loads.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Engine(Timer<Load>, Drive);

impl Front for Engine {
    fn hand(&mut self) -> &mut dyn Hand<Load> {
        &mut self.0
    }

    fn other(&self) -> Option<Box<dyn Hand<Load> + Send>> {
        Some(Box::new(self.0.clone()))
    }

    fn run(&mut self) {
        match self.1 {
            Drive::Manual => until_idle(|| self.0.turn().unwrap()),
            _ => self.0.wait_idle(),
        }
    }

    fn counts(&self) -> Option<[u64; 3]> {
        let stats = self.0.stats();
        Some([stats.scheduled, stats.fired, stats.panics])
    }

    fn end(self: Box<Self>) -> usize {
        self.0
            .stop()
            .unwrap()
            .into_iter()
            .filter(|left| !left.payload.is_copy)
            .count()
    }
}

/// A timer that its owner polls, with its remote, if the test uses that instead: a remote does not reach the loop's own.
struct Polled<L> {
    timer: L,
    remote: Option<Remote<Load>>,
    counts: fn(&L) -> Option<[u64; 3]>,
    script: Arc<Script>,
}

impl<L: Hand<Load> + LoopTimer<Payload = Load> + 'static> Front for Polled<L> {
    fn hand(&mut self) -> &mut dyn Hand<Load> {
        match &mut self.remote {
            Some(remote) => remote,
            None => &mut self.timer,
        }
    }

    fn other(&self) -> Option<Box<dyn Hand<Load> + Send>> {
        self.remote.clone().map(|remote| Box::new(remote) as _)
    }

    fn run(&mut self) {
        let Self { timer, script, .. } = self;
        let calls = || script.calls.lock().unwrap().len();
        let mut is_wrong = false;
        // A panic of the handler, or of a `Clone`, ends its poll.
        let mut poll = || {
            let before = calls();
            let polled = timer.poll_with(script.clock.now(), |timer, it| script.call(timer, &it));
            is_wrong |= polled.fired != calls() - before;
            polled.fired
        };
        until_idle(|| catch_unwind(AssertUnwindSafe(&mut poll)).unwrap_or(1));
        assert!(!is_wrong, "what is no call has not fired");
    }

    fn counts(&self) -> Option<[u64; 3]> {
        (self.counts)(&self.timer)
    }

    fn end(mut self: Box<Self>) -> usize {
        self.timer.drain().count()
    }
}

/// Turns until nothing fires twice. A timer that its `Clone` moves to the past waits for the next turn.
fn until_idle(mut turn: impl FnMut() -> usize) {
    while turn() + turn() > 0 {}
}

/// Each front, on a script of its own, with room for one timer.
fn fronts() -> impl Iterator<Item = (Arc<Script>, Box<dyn Front>)> {
    (0..5).map(|kind| {
        let script = Arc::<Script>::default();
        let front: Box<dyn Front> = match kind {
            0 | 1 => {
                let (calls, clock) = (Arc::clone(&script), script.clock.clone());
                let drive = [Drive::Manual, Drive::Workers][kind];
                let handler = move |timer: &Timer<Load>, it| calls.call(&mut timer.clone(), &it);
                let builder = one_shard().clock(clock).drive(drive).max_pending(1);
                Box::new(Engine(
                    builder.build_per_shard(|_| handler.clone()).unwrap(),
                    drive,
                ))
            }
            2 | 3 => {
                let builder = Settings::new().clock(script.clock.clone()).max_pending(1);
                let timer = EventLoopTimer::with_waker(builder, || ()).unwrap();
                let (remote, script) = (timer.remote(), Arc::clone(&script));
                let counts = |timer: &EventLoopTimer<_>| {
                    let stats = timer.stats();
                    Some([stats.scheduled, stats.fired, stats.panics])
                };
                Box::new(Polled {
                    timer,
                    remote: (kind == 3).then_some(remote),
                    counts,
                    script,
                })
            }
            _ => {
                let timer = Settings::new().max_pending(1).build_local().unwrap();
                let script = Arc::clone(&script);
                Box::new(Polled {
                    timer,
                    remote: None,
                    counts: |_| None,
                    script,
                })
            }
        };
        (script, front)
    })
}

/// Goes on to `to` by milliseconds; the calls since the last time: when, and for which deadline.
fn run_to(script: &Script, front: &mut dyn Front, to: u64) -> Vec<(u64, u64)> {
    while script.now() < to {
        script.clock.advance(ms(1));
        front.run();
    }
    std::mem::take(&mut *script.calls.lock().unwrap())
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

fn pause(length: Duration) -> Period {
    Period::fixed_delay(length)
}

/// Where a periodic timer is interrupted.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// At 15 ms, between two calls.
    Before,
    /// At 20 ms, while the payload of the second call is cloned.
    InClone,
    /// At 20 ms, in the second call.
    InCall,
}

/// By what it is interrupted.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Cancel,
    MoveTo(u64),
    Panic,
}

impl By {
    fn act(self, step: Step, hand: &mut dyn Hand<Load>, key: Key<Load>) {
        match self {
            Self::Cancel => {
                assert!(hand.deadline(key).is_some());
                match hand.cancel(key) {
                    Cancel::Won(load) => assert!(!load.is_copy && step != Step::InClone),
                    Cancel::AfterCall => assert_eq!(step, Step::InClone),
                    Cancel::Gone => panic!("it is pending"),
                }
                assert!(!cancel(hand, key) && hand.deadline(key).is_none());
                assert!(!move_to(hand, key, 1000));
            }
            Self::MoveTo(to) => assert!(hand.pending() == 1 && move_to(hand, key, to)),
            Self::Panic => panic!("by the script"),
        }
    }
}

/// Returns whether the cancel has won, and the payload is what the timer was given.
fn cancel(hand: &mut dyn Hand<Load>, key: Key<Load>) -> bool {
    let payload = hand.cancel(key).into_payload();
    payload.is_some_and(|load| !load.is_copy)
}

/// Moves a timer to a point in time, for which no front asks what time it is.
fn move_to(hand: &mut dyn Hand<Load>, key: Key<Load>, to: u64) -> bool {
    hand.move_to(Time::ZERO, key, at(to).into())
}

/// Starts a periodic timer; `None` if it is refused.
fn start(
    script: &Arc<Script>,
    front: &mut dyn Front,
    first: Duration,
    period: Period,
) -> Option<Key<Load>> {
    let load = Load::new(script, false);
    let now = script.clock.now();
    front.hand().arm_periodic(now, first.into(), period, load)
}

/// A timer that is first called after 10 ms and then every 10 ms is interrupted: for which deadlines it is called.
#[rustfmt::skip]
const INTERRUPTIONS: [(Step, By, &[u64]); 14] = [
    (Step::Before, By::Cancel, &[10]),
    (Step::Before, By::MoveTo(17), &[10, 17, 27, 37, 47]),
    (Step::Before, By::MoveTo(20), &[10, 20, 30, 40, 50]),
    (Step::Before, By::MoveTo(40), &[10, 40, 50]),
    (Step::Before, By::MoveTo(12), &[10, 12, 22, 32, 42, 52]),
    (Step::InClone, By::Cancel, &[10, 20]),
    (Step::InClone, By::MoveTo(22), &[10, 22, 32, 42, 52]),
    (Step::InClone, By::MoveTo(45), &[10, 45]),
    (Step::InClone, By::MoveTo(15), &[10, 15, 25, 35, 45]),
    (Step::InClone, By::Panic, &[10, 30, 40, 50]),
    (Step::InCall, By::Cancel, &[10, 20]),
    (Step::InCall, By::MoveTo(22), &[10, 20, 22, 32, 42, 52]),
    (Step::InCall, By::MoveTo(15), &[10, 20, 15, 25, 35, 45]),
    (Step::InCall, By::Panic, &[10, 20, 30, 40, 50]),
];

/// One row for one front; whether the front has this step.
fn interrupted(
    script: &Arc<Script>,
    front: &mut dyn Front,
    period: Period,
    (step, by, expected): (Step, By, &[u64]),
    cancels: bool,
) -> bool {
    let other = front.other();
    if step == Step::InClone && by != By::Panic && other.is_none() {
        return false;
    }
    let key = start(script, front, ms(10), period).expect("there is room for one");
    assert_eq!(front.hand().deadline(key), Some(at(10)));
    let mut calls = run_to(script, front, 15);
    match step {
        Step::Before => by.act(step, front.hand(), key),
        Step::InCall => {
            let act: Act = Box::new(move |hand| by.act(step, hand, key));
            *script.in_call.lock().unwrap() = Some(act);
        }
        Step::InClone => {
            let act: Box<dyn FnOnce() + Send> = match other {
                Some(mut other) => Box::new(move || by.act(step, &mut *other, key)),
                None => Box::new(|| panic!("by the script")),
            };
            *script.in_clone.lock().unwrap() = Some(act);
        }
    }
    front.run();
    calls.extend(run_to(script, front, 54));
    let deadlines: Vec<_> = calls.iter().map(|&(_, deadline)| deadline).collect();
    assert_eq!(deadlines, expected);
    let since = if step == Step::Before { 15 } else { 20 };
    assert!(
        calls
            .iter()
            .all(|&(now, due)| now == due || (now == since && due < now)),
        "{calls:?}"
    );
    let lives = by != By::Cancel;
    let next = expected.last().filter(|_| lives).map(|last| at(last + 10));
    assert_eq!(
        (front.hand().deadline(key), front.hand().pending()),
        (next, usize::from(lives))
    );
    let is_over = script.is_over.swap(false, Ordering::SeqCst);
    assert_eq!(is_over, (step, by) == (Step::InClone, By::Cancel));
    let fired = expected.len() as u64;
    if let Some([scheduled, counted, panics]) = front.counts() {
        assert_eq!(
            (scheduled, counted),
            (fired + u64::from(!is_over), fired),
            "a period is scheduled as the call fires"
        );
        // A handler's panic goes on into a loop, which does not count it.
        assert!(panics == u64::from(by == By::Panic) || (step, by) == (Step::InCall, By::Panic));
    }
    // It keeps its permit between periods, and gives it back however it ends.
    let another = start(script, front, ms(10), period);
    assert_eq!(another.is_some(), !lives, "there is room for one");
    assert!(another.is_none_or(|key| cancel(front.hand(), key)));
    assert!(!lives || !cancels || cancel(front.hand(), key));
    true
}

#[test]
fn each_interruption_costs_what_it_ends_or_moves_and_nothing_else() {
    for row in INTERRUPTIONS {
        let to_the_past = matches!(row.1, By::MoveTo(12 | 15));
        // After a call that comes late a fixed delay differs.
        let periods = if to_the_past {
            &[rate(ms(10))][..]
        } else {
            &[rate(ms(10)), pause(ms(10))]
        };
        for &period in periods {
            for cancels in [true, false] {
                for (kind, (script, mut front)) in fronts().enumerate() {
                    let row_of = || interrupted(&script, &mut *front, period, row, cancels);
                    let tried = catch_unwind(AssertUnwindSafe(row_of));
                    let tried = tried.unwrap_or_else(|_| panic!("front {kind}, {row:?}"));
                    let left = usize::from(tried && row.1 != By::Cancel && !cancels);
                    assert_eq!(front.end(), left, "front {kind}, {row:?}");
                    assert_eq!(
                        script.loads.load(Ordering::SeqCst),
                        0,
                        "front {kind}, {row:?}"
                    );
                }
            }
        }
    }
}

/// One timer serves a connection for its whole life: moved between its calls, or in one of them.
#[test]
fn a_timer_that_is_never_due_by_itself_is_armed_again_in_place() {
    for (script, mut front) in fronts() {
        let key = start(&script, &mut *front, ms(10), Period::NEVER).expect("there is room");
        assert_eq!(run_to(&script, &mut *front, 15), [(10, 10)]);
        assert_eq!(front.hand().deadline(key), Some(Time::MAX));
        assert_eq!(run_to(&script, &mut *front, 80), []);
        assert!(front.hand().pending() == 1 && move_to(front.hand(), key, 90));
        let act: Act = Box::new(move |hand| assert!(move_to(hand, key, 95)));
        *script.in_call.lock().unwrap() = Some(act);
        let calls = run_to(&script, &mut *front, 120);
        assert_eq!(calls, [(90, 90), (95, 95)]);
        assert_eq!(front.hand().deadline(key), Some(Time::MAX));
        assert!(cancel(front.hand(), key));
        assert_eq!(front.end(), 0);
    }
}

/// Calls at the end of a pause from 10 to 47 ms, and those after it.
#[test]
fn missed_periods_are_skipped_delayed_or_made_up_for() {
    let of = |missed| Period::fixed_rate(ms(10), missed);
    #[rustfmt::skip]
    let policies: [(Period, &[(u64, u64)]); 4] = [
        (of(MissedTicks::Skip), &[(47, 20), (50, 50), (60, 60)]),
        (of(MissedTicks::Delay), &[(47, 20), (57, 57)]),
        (of(MissedTicks::Burst), &[(47, 20), (47, 30), (47, 40), (50, 50), (60, 60)]),
        (pause(ms(10)), &[(47, 20), (57, 57)]),
    ];
    for (period, expected) in policies {
        for (script, mut front) in fronts() {
            start(&script, &mut *front, ms(10), period).unwrap();
            assert_eq!(run_to(&script, &mut *front, 10), [(10, 10)]);
            script.clock.advance(ms(37));
            front.run();
            assert_eq!(run_to(&script, &mut *front, 64), expected, "{period:?}");
        }
    }
}

/// A timer that is far behind holds up the shard that it shares by one call per turn.
#[test]
fn missed_periods_are_made_up_for_turn_by_turn_where_a_shard_is_shared() {
    let burst = Period::fixed_rate(ms(10), MissedTicks::Burst);
    let clock = ManualClock::new();
    let builder = one_shard().clock(clock.clone()).drive(Drive::Manual);
    let timer = builder.build_with(|_: Expired<u32>| ()).unwrap();
    let builder = Settings::new().clock(clock.clone());
    let mut event_loop = EventLoopTimer::with_waker(builder, || ()).unwrap();
    let mut local = LocalTimer::new(ms(1)).unwrap();
    timer.schedule_periodic(ms(10), burst, 1).unwrap();
    event_loop
        .schedule_periodic(Time::ZERO, ms(10), burst, 1)
        .unwrap();
    local
        .schedule_periodic(Time::ZERO, ms(10), burst, 1)
        .unwrap();
    clock.advance(ms(35));
    let (now, due) = (clock.now(), Some(Duration::ZERO));
    for fired in [1, 1, 1, 0] {
        assert_eq!(event_loop.poll_timeout(now) == due, fired > 0);
        assert_eq!(event_loop.poll(now, |_| ()).fired, fired);
        assert_eq!(timer.turn(), Ok(fired));
    }
    assert_eq!(local.poll(now, |_| ()).fired, 3);
}

/// With a fixed delay a slow handler delays the next call, where the front reads the clock after it.
#[test]
fn a_fixed_delay_starts_when_the_handler_has_ended() {
    for (script, mut front) in fronts().take(4) {
        start(&script, &mut *front, ms(10), pause(ms(10))).unwrap();
        let mut calls = Vec::new();
        for next in [10, 45, 80] {
            let clock = script.clock.clone();
            *script.in_call.lock().unwrap() = Some(Box::new(move |_| {
                clock.advance(ms(25));
            }));
            calls.extend(run_to(&script, &mut *front, next));
        }
        let due: Vec<_> = calls.iter().map(|&(_, deadline)| deadline).collect();
        assert_eq!(due, [10, 45, 80]);
    }
}

/// A third of a second is no whole number of milliseconds, nor of ticks: rounding must not add up.
#[test]
fn ten_thousand_periods_do_not_drift() {
    const THIRD: u64 = 333_333_333;
    for (script, mut front) in fronts() {
        let length = Duration::from_nanos(THIRD);
        let key = start(&script, &mut *front, length, rate(length)).unwrap();
        for n in 1..=10_000 {
            let deadline = front.hand().deadline(key).unwrap();
            assert_eq!(millis(deadline), (n * THIRD).div_ceil(1_000_000));
            script.clock.set(deadline);
            front.run();
        }
        assert_eq!(script.calls.lock().unwrap().len(), 10_000);
    }
}

/// A `Clone` that always panics, of a timer that is far behind, ends no turn late, and no other timer.
#[test]
fn clones_that_panic_hold_up_nobody() {
    struct Brittle;
    impl Clone for Brittle {
        fn clone(&self) -> Self {
            panic!("no clone")
        }
    }
    let burst = Period::fixed_rate(us(1), MissedTicks::Burst);
    let clock = ManualClock::new();
    let builder = one_shard().clock(clock.clone()).drive(Drive::Manual);
    let timer = builder.build_with(|_: Expired<Brittle>| ()).unwrap();
    let key = timer.schedule_periodic(ms(1), burst, Brittle).unwrap();
    let other = timer.schedule(ms(10), Brittle).unwrap();
    clock.advance(ms(10));
    assert_eq!((timer.turn(), timer.stats().panics), (Ok(1), 1));
    assert!(timer.is_pending(key) && !timer.is_pending(other));
    clock.advance(ms(1));
    assert_eq!((timer.turn(), timer.stats().panics), (Ok(0), 2));
    assert!(timer.cancel(key).is_won());
}

/// Its copies are made under a lock of the user's.
struct Guarded(Arc<Mutex<()>>);

impl Clone for Guarded {
    fn clone(&self) -> Self {
        let _held = self.0.lock().unwrap();
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn copies_under_a_users_lock_do_not_meet_a_lock_of_the_timers() {
    let users = Arc::new(Mutex::new(()));
    let timer = one_shard()
        .tick(us(20))
        .build_with(|_: Expired<Guarded>| ())
        .unwrap();
    for _ in 0..200 {
        let period = rate(us(20));
        let key = timer
            .schedule_periodic(Duration::ZERO, period, Guarded(Arc::clone(&users)))
            .unwrap();
        for _ in 0..20 {
            let _held = users.lock().unwrap();
            assert!(timer.is_pending(key));
            assert!(timer.reschedule(key, Duration::ZERO).is_moved());
            std::thread::yield_now();
        }
        let _held = users.lock().unwrap();
        assert!(!matches!(timer.cancel(key), Cancel::Gone));
    }
    assert!(timer.stop().unwrap().is_empty());
}

/// A clock that is turned by hand, and cancels a timer at one of its readings.
#[derive(Default)]
struct Cancelling {
    time: ManualClock,
    readings_left: AtomicUsize,
    victim: OnceLock<(WeakTimer<u32>, Key<u32>)>,
    won: AtomicBool,
}

impl Clock for Cancelling {
    fn now(&self) -> Time {
        if let Some((timer, key)) = self.victim.get() {
            if self.readings_left.fetch_sub(1, Ordering::SeqCst) == 1 {
                let won = timer.upgrade().unwrap().cancel(*key).is_won();
                self.won.store(won, Ordering::SeqCst);
            }
        }
        self.time.now()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        self.time.on_advance(wake);
    }
}

/// With a hook for slow handlers the clock is read once more before each of them, and without one before every 64th.
#[test]
fn a_cancel_at_any_reading_of_the_clock_prevents_the_call_or_comes_after_it() {
    for (ahead, reading) in (1..8).map(|n| (0, n)).chain((1..200).map(|n| (63, n))) {
        let clock = Arc::new(Cancelling::default());
        let (seen, late) = (Arc::clone(&clock), Arc::new(AtomicUsize::new(0)));
        let calls = Arc::clone(&late);
        let builder = one_shard().clock(Arc::clone(&clock)).drive(Drive::Manual);
        let builder = if ahead == 0 {
            builder.on_slow_handler(HOUR, |_| ())
        } else {
            builder
        };
        let timer = builder
            .build_with(move |expired: Expired<u32>| {
                let late = expired.payload == 7 && seen.won.load(Ordering::SeqCst);
                calls.fetch_add(usize::from(late), Ordering::SeqCst);
            })
            .unwrap();
        (0..ahead).for_each(|_| _ = timer.schedule(ms(5), 1).unwrap());
        let key = timer.schedule_periodic(ms(10), rate(ms(10)), 7).unwrap();
        clock.time.advance(ms(20));
        clock.readings_left.store(reading, Ordering::SeqCst);
        assert!(clock.victim.set((timer.downgrade(), key)).is_ok());
        let fired = timer.turn().unwrap() as u64;
        assert_eq!(fired, timer.stats().fired, "a prevented call is no fire");
        assert!(
            clock.won.load(Ordering::SeqCst) || reading > 3,
            "the clock is read that often"
        );
        assert_eq!(
            late.load(Ordering::SeqCst),
            0,
            "called after the cancel at reading {reading}"
        );
    }
}

/// What a waker cancels, and whether it has.
#[derive(Default)]
struct Victim {
    timer: OnceLock<(WeakTimer, Key<TimerTask>)>,
    won: AtomicBool,
}

impl Wake for Victim {
    fn wake(self: Arc<Self>) {
        let (timer, key) = self.timer.get().unwrap();
        let won = timer.upgrade().unwrap().cancel(*key).is_won();
        self.won.fetch_or(won, Ordering::SeqCst);
    }
}

/// Wakers of a turn are gathered, and called together later: before a periodic timer's call is decided.
#[test]
fn a_waker_of_the_same_turn_that_cancels_prevents_the_call() {
    let clock = ManualClock::new();
    let timer: Timer = one_shard()
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build()
        .unwrap();
    let victim = Arc::new(Victim::default());
    let waker = Waker::from(Arc::clone(&victim));
    let mut sleep = timer.sleep(ms(5));
    assert!(
        sleep
            .poll_sleep(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let call = move || _ = counted.fetch_add(1, Ordering::SeqCst);
    let key = timer.repeat(ms(10), rate(ms(10)), call).unwrap();
    assert!(victim.timer.set((timer.downgrade(), key)).is_ok());
    clock.advance(ms(20));
    assert_eq!(timer.turn(), Ok(1));
    assert!(victim.won.load(Ordering::SeqCst), "the sleep has woken");
    assert_eq!(calls.load(Ordering::SeqCst), 0, "called before the waker");
}

#[test]
fn a_closure_that_panics_in_one_period_is_called_in_the_next() {
    let clock = ManualClock::new();
    let timer = one_shard().clock(clock.clone()).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let panics_once = move || assert_ne!(counted.fetch_add(1, Ordering::SeqCst), 1, "boom");
    timer.repeat(ms(1), rate(ms(1)), panics_once).unwrap();
    for _ in 0..5 {
        clock.advance(ms(1));
        timer.wait_idle();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    assert_eq!(timer.stats().panics, 1);
    assert_eq!(timer.stop().unwrap().len(), 1, "it goes on");
}

/// A timer that its payload's `Clone` moves, or cancels.
type Own = Arc<OnceLock<(Timer<Copied>, Key<Copied>, bool)>>;

/// A copy whose destructor panics.
struct Copied(bool, Own);

impl Clone for Copied {
    fn clone(&self) -> Self {
        match self.1.get() {
            None => {}
            Some((timer, key, true)) => assert!(matches!(timer.cancel(*key), Cancel::AfterCall)),
            // To its second period and no further.
            Some((timer, key, false)) => {
                let moved = timer.deadline(*key) == Some(at(10));
                assert!(!moved || timer.reschedule(*key, at(25)).is_moved());
            }
        }
        Self(true, Arc::clone(&self.1))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        assert!(!self.0, "a copy is dropped");
    }
}

#[test]
fn a_call_that_is_moved_away_or_cancelled_ends_no_worker_when_its_copy_panics_in_its_drop() {
    let moved = [(10, 0, Some(25)), (25, 1, Some(35)), (35, 2, Some(45))];
    let cancelled = [(10, 1, None), (20, 1, None), (30, 1, None)];
    for (drive, is_cancelled) in [Drive::Manual, Drive::Workers]
        .into_iter()
        .flat_map(|drive| [(drive, false), (drive, true)])
    {
        let clock = ManualClock::new();
        let (calls, own) = (Arc::new(AtomicUsize::new(0)), Own::default());
        let counted = Arc::clone(&calls);
        let timer: Timer<Copied> = one_shard()
            .clock(clock.clone())
            .drive(drive)
            .build_with(move |mut expired: Expired<Copied>| {
                expired.payload.0 = false;
                counted.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let load = Copied(false, Arc::clone(&own));
        let key = timer.schedule_periodic(at(10), rate(ms(10)), load).unwrap();
        assert!(own.set((timer.clone(), key, is_cancelled)).is_ok());
        for (now, called, next) in if is_cancelled { cancelled } else { moved } {
            clock.set(at(now));
            match drive {
                Drive::Manual => _ = timer.turn().unwrap(),
                _ => timer.wait_idle(),
            }
            let now = (calls.load(Ordering::SeqCst), timer.deadline(key));
            assert_eq!(now, (called, next.map(at)), "{drive:?}");
        }
        assert_eq!(timer.state(), tickwheel::EngineState::Started);
        assert!(timer.stats().shards[0].failure.is_none());
        assert_eq!(timer.stop().unwrap().len(), usize::from(!is_cancelled));
    }
}
