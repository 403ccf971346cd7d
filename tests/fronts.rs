//! One vocabulary: the same code compiled against every front.
//!
//! A front either knows the time (an engine, a remote) or is told it (an event loop's timer, a local one): then
//! `now` is the first argument of every call. That, and the engine's `schedule_key` beside the `schedule` that
//! gives a handle, is all that differs, as `front!` shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    Budget, Builder, Clock, Drive, EventLoopTimer, Expired, FixedTimer, Key, LocalTimer, LoopTimer,
    ManualClock, MonotonicClock, Period, Pinning, Remote, Routing, ScheduleErrorKind, Settings,
    SlowHandler, Time, Timer, When, executor_fn,
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// What the clocks show.
const NOW: Time = Time::from_nanos(9_000_000_000);

type Fired = Arc<Mutex<Vec<Expired<u64>>>>;

/// An engine that is turned by hand.
fn engine(clock: impl Clock) -> (Timer<u64>, Fired) {
    engine_of(MS, clock)
}

fn engine_of(tick: Duration, clock: impl Clock) -> (Timer<u64>, Fired) {
    let fired = Fired::default();
    let log = Arc::clone(&fired);
    let builder = Builder::new().shards(1).tick(tick).pinning(Pinning::Off).drive(Drive::Manual);
    let timer = builder.clock(clock).build_with(move |expired| log.lock().unwrap().push(expired));
    (timer.unwrap(), fired)
}

fn event_loop(clock: impl Clock) -> EventLoopTimer<u64> {
    event_loop_of(MS, clock)
}

fn event_loop_of(tick: Duration, clock: impl Clock) -> EventLoopTimer<u64> {
    Settings::new().tick(tick).clock(clock).build_with_waker(|| ()).unwrap()
}

/// A clock that stands at `NOW`.
fn standing() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(NOW);
    clock
}

/// A timer of any front, which is told `NOW` where it must be told the time.
trait Front {
    fn arm(&mut self, when: When, id: u64) -> Key<u64>;
    fn arm_periodic(&mut self, first: When, period: Period) -> Key<u64>;
    fn move_to(&mut self, key: Key<u64>, when: When) -> bool;
    fn cancel(&mut self, key: Key<u64>) -> Option<u64>;
    /// The deadline, if the timer is pending.
    fn deadline(&self, key: Key<u64>) -> Option<Time>;
    /// Fires what is due by `NOW`.
    fn fire(&mut self) -> Vec<Expired<u64>>;
}

macro_rules! front {
    ($name:ident($($part:ty),+), $it:ident => $timer:expr, $arm:ident, [$($now:expr)?], $fire:expr) => {
        struct $name($($part),+);

        impl Front for $name {
            fn arm(&mut self, when: When, id: u64) -> Key<u64> {
                let $it = self;
                $timer.$arm($($now,)? when, id).unwrap()
            }
            fn arm_periodic(&mut self, first: When, period: Period) -> Key<u64> {
                let $it = self;
                $timer.schedule_periodic($($now,)? first, period, 1).unwrap()
            }
            fn move_to(&mut self, key: Key<u64>, when: When) -> bool {
                let $it = self;
                $timer.reschedule($($now,)? key, when).moved()
            }
            fn cancel(&mut self, key: Key<u64>) -> Option<u64> {
                let $it = self;
                $timer.cancel(key).into_payload()
            }
            fn deadline(&self, key: Key<u64>) -> Option<Time> {
                let $it = self;
                assert_eq!($timer.is_pending(key), $timer.deadline(key).is_some());
                $timer.deadline(key)
            }
            fn fire(&mut self) -> Vec<Expired<u64>> {
                let $it = self;
                $fire
            }
        }
    };
}

front!(Engine(Timer<u64>, Fired), it => it.0, schedule_key, [], {
    it.0.turn().unwrap();
    std::mem::take(&mut *it.1.lock().unwrap())
});
front!(Loop(EventLoopTimer<u64>), it => it.0, schedule, [NOW], fired_by(&mut it.0));
front!(Remotely(Remote<u64>, EventLoopTimer<u64>), it => it.0, schedule, [], fired_by(&mut it.1));
front!(Local(LocalTimer<u64>), it => it.0, schedule, [NOW], fired_by(&mut it.0));

fn fired_by(timer: &mut impl LoopTimer<Payload = u64>) -> Vec<Expired<u64>> {
    let mut fired = Vec::new();
    assert!(!timer.poll(NOW, |expired| fired.push(expired)).more);
    fired
}

/// Every front, at `NOW`.
fn fronts(tick: Duration) -> [Box<dyn Front>; 4] {
    let (engine, fired) = engine_of(tick, standing());
    let driven = event_loop_of(tick, standing());
    [
        Box::new(Engine(engine, fired)),
        Box::new(Loop(event_loop_of(tick, standing()))),
        Box::new(Remotely(driven.remote(), driven)),
        Box::new(Local(LocalTimer::new(tick).unwrap())),
    ]
}

#[path = "fronts/passed.rs"]
mod passed;

#[test]
fn an_overdue_deadline_stays_and_its_lateness_is_true() {
    for mut timer in fronts(MS) {
        let at = |n: u32| Time::ZERO + MS * n;
        let moved = timer.arm(HOUR.into(), 3);
        let later = timer.arm(at(2).into(), 2);
        let first = timer.arm((Time::ZERO + MS / 2).into(), 1);
        assert!(timer.move_to(moved, at(3).into()));
        assert!(timer.deadline(first).is_some());
        let mut fired = timer.fire();
        fired.sort_by_key(|expired| expired.deadline);
        let told: Vec<_> = fired.iter().map(|it| (it.key, it.payload, it.deadline)).collect();
        assert_eq!(told, [(first, 1, at(1)), (later, 2, at(2)), (moved, 3, at(3))]);
        assert!(fired.iter().all(|it| it.lateness == NOW - it.deadline));
        assert_eq!(timer.cancel(first), None);
    }
}

#[test]
fn delays_times_and_instants_mean_the_same() {
    for mut timer in fronts(MS) {
        let after = timer.arm(Duration::ZERO.into(), 1);
        let at = timer.arm(NOW.into(), 2);
        let to_delay = timer.arm(HOUR.into(), 3);
        assert!(timer.move_to(to_delay, Duration::ZERO.into()));
        let never = timer.arm(Duration::MAX.into(), 4);
        let fired = timer.fire();
        assert!(fired.iter().all(|it| it.deadline == NOW && it.lateness.is_zero()));
        assert_eq!(sorted_keys(&fired), sorted([after, at, to_delay]));
        assert_eq!(timer.cancel(never), Some(4));
        // An instant that lies far ahead by the machine's clock does so by every other.
        let far = timer.arm((Instant::now() + 48 * HOUR).into(), 5);
        assert!(timer.fire().is_empty() && timer.deadline(far).is_some());
        assert!(timer.move_to(far, (Instant::now() + 24 * HOUR).into()));
        assert_eq!(timer.cancel(far), Some(5));
    }
}

fn sorted(keys: impl Into<Vec<Key<u64>>>) -> Vec<Key<u64>> {
    let mut keys = keys.into();
    keys.sort();
    keys
}

fn sorted_keys(fired: &[Expired<u64>]) -> Vec<Key<u64>> {
    sorted(fired.iter().map(|it| it.key).collect::<Vec<_>>())
}

#[test]
fn timers_of_one_slack_share_a_deadline() {
    // The points of a slack of 100 ms lie 2^26 ns apart, 67 ms.
    let (slack, grid) = (100 * MS, 1 << 26);
    let point = Time::from_nanos((NOW.as_nanos() / grid + 3) * grid);
    let before = |ms: u32| When::from(point - MS * ms).with_slack(slack);
    let delay = (point - NOW) - 30 * MS;
    for mut timer in fronts(MS) {
        let first = timer.arm(before(60), 1);
        let second = timer.arm(before(1), 2);
        let third = timer.arm(When::from(delay).with_slack(slack), 3);
        let moved = timer.arm(HOUR.into(), 4);
        assert!(timer.move_to(moved, before(20)));
        let exact = timer.arm(delay.into(), 5);
        let due = timer.deadline(first).unwrap();
        assert!(due >= point && due < point + MS);
        assert!([second, third, moved].iter().all(|key| timer.deadline(*key) == Some(due)));
        assert!(timer.deadline(exact).unwrap() < point - 28 * MS);
        assert!(timer.fire().is_empty());
    }
}

#[test]
fn an_instant_is_exact_on_the_machines_clock() {
    let clock = MonotonicClock::new();
    let instant = Instant::now() + HOUR;
    let exact = clock.time_of(instant);
    let near = |told: Time| told >= exact && told < exact + MS;
    let timer = Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual);
    let timer = timer.build_with(|_: Expired<u64>| ()).unwrap();
    assert!(near(timer.schedule(instant, 1).unwrap().deadline()));
    let mut timer = Settings::new().build_with_waker(|| ()).unwrap();
    timer.schedule(clock.now(), instant, 1u64).unwrap();
    timer.remote().schedule(instant, 2u64).unwrap();
    assert!(timer.close().iter().all(|unfired| near(unfired.deadline)));
    let mut timer = LocalTimer::new(MS).unwrap();
    let key = timer.schedule(clock.now(), instant, 1).unwrap();
    assert!(near(timer.deadline(key).unwrap()));
}

#[test]
fn an_instant_keeps_its_distance_on_another_clock() {
    let distant = |told: Time| told > NOW + HOUR - 60 * MS * 1000 && told <= NOW + HOUR + MS;
    let (timer, _) = engine(standing());
    assert!(distant(timer.schedule(Instant::now() + HOUR, 1).unwrap().deadline()));
    let past = Instant::now().checked_sub(5 * MS);
    let overdue = timer.schedule(past.expect("the machine runs for longer"), 2).unwrap();
    assert!(overdue.deadline() < NOW && overdue.deadline() > NOW - 60 * MS * 1000);
    let timer = event_loop(standing());
    timer.remote().schedule(Instant::now() + HOUR, 1).unwrap();
    assert!(distant(timer.close()[0].deadline));
}

/// A clock that counts how often it is asked.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Clock for Counting {
    fn now(&self) -> Time {
        // ORDERING: SeqCst: a test.
        self.0.fetch_add(1, Ordering::SeqCst);
        NOW
    }
}

#[test]
fn the_clock_is_read_for_a_delay_and_for_a_point_if_a_tick_is_long() {
    for (tick, for_a_point) in [(MS, 0), (10 * MS - Duration::from_nanos(1), 0), (10 * MS, 1)] {
        let clock = Counting::default();
        // ORDERING: SeqCst: a test.
        let reads = || clock.0.swap(0, Ordering::SeqCst);
        let (timer, _) = engine_of(tick, clock.clone());
        timer.start().unwrap();
        reads();
        let handle = timer.schedule(HOUR, 1).unwrap();
        assert_eq!(reads(), 1);
        for point in [NOW + HOUR, NOW, NOW - HOUR] {
            assert!(handle.reschedule(point).moved());
            assert_eq!(reads(), for_a_point);
        }
        timer.schedule_batch([NOW - MS, NOW, NOW + MS].map(|point| (point, 1))).unwrap();
        assert_eq!(reads(), for_a_point);
        let mut timer = event_loop_of(tick, clock.clone());
        for point in [NOW - HOUR, NOW, NOW + HOUR] {
            let key = timer.schedule(NOW, point, 1).unwrap();
            assert!(timer.reschedule(NOW, key, HOUR).moved());
        }
        assert_eq!(reads(), 0);
    }
}

#[test]
fn an_operator_sees_what_waits_and_how_late_it_is() {
    let budget = Budget::new().fire(2);
    let clock = standing();
    let builder = Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual);
    let timer =
        builder.clock(clock.clone()).budget(budget).build_with(|_: Expired<u64>| ()).unwrap();
    (0..5).for_each(|id| drop(timer.schedule(MS, id).unwrap()));
    let stats = timer.stats();
    assert_eq!((stats.inbox(), stats.lag(), stats.cut_short()), (5, Duration::ZERO, 0));
    clock.advance(3 * MS);
    assert_eq!(timer.stats().lag(), 2 * MS, "due for two milliseconds, in the inbox");
    assert_eq!(timer.turn(), Ok(5));
    let stats = timer.stats();
    assert_eq!((stats.inbox(), stats.lag(), stats.cut_short()), (0, Duration::ZERO, 2));
    let key = timer.schedule_key(2 * HOUR, 6).unwrap();
    assert!(timer.reschedule(key, HOUR).moved());
    assert_eq!(timer.stats().inbox(), 2, "a timer, and that it is due earlier");
    clock.advance(HOUR - MS);
    assert_eq!(
        (timer.turn(), timer.stats().inbox(), timer.stats().lag()),
        (Ok(0), 2, Duration::ZERO)
    );
    clock.advance(11 * MS);
    assert_eq!((timer.stats().lag(), timer.turn()), (10 * MS, Ok(1)));
    timer.schedule(Duration::ZERO, 7).unwrap();
    timer.stop().unwrap();
    assert_eq!(timer.stats().lag(), Duration::ZERO);
}

#[test]
fn a_loops_lateness_can_be_read() {
    let clock = standing();
    let mut timer = event_loop(clock.clone());
    timer.schedule(NOW, MS, 1).unwrap();
    timer.remote().schedule(2 * MS, 2).unwrap();
    assert_eq!((timer.stats().inbox, timer.remote().stats().pending), (1, 2));
    clock.advance(5 * MS);
    assert_eq!(timer.stats().lag, 3 * MS, "as far as the inbox tells");
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 2);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.turns, stats.lag), (2, 1, Duration::ZERO));
    assert_eq!((stats.lateness.sum(), stats.lateness.max()), (7 * MS, 4 * MS));
}

/// Pulls five timers, which `arm` schedules for an hour after it is called.
fn can_be_left_half_way<L: LoopTimer<Payload = u64>>(
    mut timer: L,
    arm: impl Fn(&mut L, Time, u64) -> Key<u64>,
) {
    let then = NOW + HOUR;
    let keys: Vec<_> = (0..5).map(|id| arm(&mut timer, NOW, id)).collect();
    assert_eq!(timer.expired(NOW).count(), 0);
    let mut due = timer.expired(then);
    let first = due.next().unwrap();
    assert_eq!((first.key, first.payload, first.deadline), (keys[0], 0, then));
    // The timer can be used, and a poll inside does nothing.
    assert_eq!(due.timer().poll(then, |_| ()).fired, 0);
    assert_eq!(due.timer().expired(then).count(), 0);
    assert!(due.timer().cancel(keys[1]).won());
    let again = arm(due.timer(), then, 7);
    let polled = due.finish();
    assert_eq!((polled.fired, polled.more), (1, true));
    assert_eq!(timer.poll_timeout(then), Some(Duration::ZERO), "nothing is lost");
    // A loop that is left half-way leaves the rest to the next poll.
    let seen: Vec<u64> = timer.expired(then).take(2).map(|it| it.payload).collect();
    assert_eq!(seen, [2, 3]);
    let left: Vec<u64> = timer.expired(then).map(|it| it.payload).collect();
    assert_eq!((left, timer.pending()), (vec![4], 1));
    assert_eq!(timer.deadline(again), Some(then + HOUR));
}

#[test]
fn expirations_can_be_dropped_at_any_point() {
    let timer = event_loop(standing());
    can_be_left_half_way(timer, |timer, now, id| timer.schedule(now, HOUR, id).unwrap());
    let timer = LocalTimer::new(MS).unwrap();
    can_be_left_half_way(timer, |timer, now, id| timer.schedule(now, HOUR, id).unwrap());
    let timer = FixedTimer::with_delay(HOUR);
    can_be_left_half_way(timer, |timer, now, id| timer.schedule(now, id).unwrap());
}

/// Pulls a periodic timer that is due at `NOW` and rests a millisecond after each call.
fn goes_on_when_it_is_pulled(mut timer: impl LoopTimer<Payload = u64>, key: Key<u64>) {
    for round in 0..3_u32 {
        let mut due = timer.expired(NOW + 2 * MS * round);
        assert_eq!(due.next().map(|expired| expired.key), Some(key));
        assert!(due.next().is_none());
        assert_eq!(due.finish().fired, 1);
        assert!(timer.is_pending(key));
    }
    assert_eq!(timer.cancel(key).into_payload(), Some(1));
}

#[test]
fn a_periodic_timer_that_is_pulled_goes_on_after_its_call() {
    let pause = Period::fixed_delay(MS).unwrap();
    let mut timer = LocalTimer::new(MS).unwrap();
    let key = timer.schedule_periodic(NOW, Duration::ZERO, pause, 1).unwrap();
    goes_on_when_it_is_pulled(timer, key);
    let mut timer = event_loop(standing());
    let key = timer.schedule_periodic(NOW, Duration::ZERO, pause, 1).unwrap();
    goes_on_when_it_is_pulled(timer, key);
}

#[test]
fn room_is_made_and_given_back_without_a_key_that_names_another_timer() {
    let mut timer = Settings::new().capacity(1000).build_local().unwrap();
    let empty = timer.held_bytes();
    let keys: Vec<_> = (0..1000).map(|id| timer.schedule(NOW, 10 * MS, id).unwrap()).collect();
    assert!(timer.held_bytes() >= empty && empty >= 1000 * 24);
    keys.iter().skip(10).for_each(|key| assert!(timer.cancel(*key).won()));
    assert!(timer.cancel(keys[3]).won());
    timer.shrink_to_fit();
    assert!(timer.held_bytes() + 900 * 24 < empty + 20_000, "{}", timer.held_bytes());
    timer.reserve(500);
    let new: Vec<_> = (0..1000).map(|id| timer.schedule(NOW, 20 * MS, id).unwrap()).collect();
    assert!(keys.iter().skip(10).all(|key| !timer.is_pending(*key)), "they name nothing");
    assert!(!timer.is_pending(keys[3]));
    let mut fired = Vec::new();
    timer.poll(NOW + 10 * MS, |expired| fired.push(expired.payload));
    assert_eq!(fired, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(timer.pending(), 1000);
    assert!(new.iter().all(|key| timer.cancel(*key).won()));
    timer.shrink_to_fit();
    assert!(timer.is_empty());
    let mut fixed = Settings::new().capacity(10).max_pending(11).build_fixed(MS).unwrap();
    let keys: Vec<_> = (0..11).map(|id| fixed.schedule(NOW, id).unwrap()).collect();
    assert!(fixed.schedule(NOW, 11).is_err());
    fixed.shrink_to_fit();
    assert!(keys.iter().all(|key| fixed.cancel(*key).won()));
    let roomy = LocalTimer::<u64>::with_capacity(MS, 1000).unwrap().held_bytes();
    let fixed = Settings::new().capacity(1000).build_fixed::<u64>(MS).unwrap().held_bytes();
    assert!(roomy >= 1000 * 24 && fixed >= 1000 * 24, "{roomy} {fixed}");
    assert!(LocalTimer::<u64>::with_capacity(Duration::ZERO, 1).is_err());
}

#[test]
fn builders_can_be_cloned() {
    let clock = standing();
    let builder = Settings::new().tick(2 * MS).max_pending(1).clock(clock);
    let twin = builder.clone();
    for builder in [builder, twin] {
        let mut timer = builder.build_with_waker(|| ()).unwrap();
        assert_eq!((timer.tick(), timer.now()), (2 * MS, NOW));
        timer.schedule(NOW, MS, 1u64).unwrap();
        assert!(timer.schedule(NOW, MS, 2).is_err());
    }
    let builder = Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual);
    let builder = builder.clock(standing()).max_pending(1);
    for builder in [builder.clone(), builder] {
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        assert_eq!(timer.now(), NOW);
        timer.schedule(MS, 1).unwrap();
        assert!(timer.schedule(MS, 2).is_err());
    }
}

#[test]
fn a_slow_handler_is_told_and_all_are_counted() {
    let clock = standing();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (log, moved) = (Arc::clone(&told), clock.clone());
    let builder = Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual);
    let timer = builder
        .clock(clock.clone())
        .on_slow_handler(5 * MS, move |slow: &SlowHandler| {
            log.lock().unwrap().push(*slow);
            assert!(slow.took < 9 * MS, "a hook may panic");
        })
        .build_with(move |expired: Expired<u64>| {
            moved.advance(MS * expired.payload as u32);
        })
        .unwrap();
    let keys: Vec<_> = [4, 5, 9].map(|ms| timer.schedule_key(Duration::ZERO, ms).unwrap()).to_vec();
    assert_eq!(timer.turn(), Ok(3));
    let told: Vec<_> = told.lock().unwrap().iter().map(|it| (it.shard, it.key, it.took)).collect();
    assert_eq!(told, [(0, keys[1].to_raw(), 5 * MS), (0, keys[2].to_raw(), 9 * MS)]);
    let shard = &timer.stats().shards[0];
    assert_eq!((shard.handler_time.count(), shard.handler_time.sum()), (3, 18 * MS));
    let (timer, _) = engine(standing());
    timer.schedule(Duration::ZERO, 1).unwrap();
    assert_eq!((timer.turn(), timer.stats().shards[0].handler_time.count()), (Ok(1), 0));
}

/// An engine of two shards, each of which sleeps, is woken, and meets an executor that takes nothing.
#[test]
fn the_engines_numbers_are_the_sums_of_its_shards() {
    let refuse = |expired: Expired<u64>| Err(expired);
    let builder = Builder::new().shards(2).pinning(Pinning::Off).routing(Routing::Spread);
    let timer = builder.build_on(executor_fn(refuse, drop)).unwrap();
    // One thread's timers go to each in turn.
    assert!((0..2).all(|id| timer.schedule_key(MS, id).is_ok()));
    let end = Instant::now() + 60 * Duration::from_secs(1);
    while timer.stats().refused_by_executor() < 2 && Instant::now() < end {
        std::thread::yield_now();
    }
    timer.stop().unwrap();
    let stats = timer.stats();
    assert_eq!((stats.fired(), stats.refused_by_executor()), (2, 2));
    let sum = |of: fn(&tickwheel::ShardStats) -> u64| stats.shards.iter().map(of).sum::<u64>();
    assert_eq!(stats.parks(), sum(|shard| shard.parks));
    assert_eq!(stats.wakes(), sum(|shard| shard.wakes));
}

#[test]
fn a_timer_says_what_it_was_made_with_and_takes_another_budget() {
    let local = LocalTimer::<u64>::new(3 * MS).unwrap();
    assert_eq!(local.tick(), 3 * MS);
    let mut fixed = FixedTimer::with_delay(5 * MS / 2);
    assert_eq!((fixed.delay(), fixed.poll_timeout_ms(NOW)), (5 * MS / 2, -1));
    fixed.schedule(NOW, 1).unwrap();
    assert_eq!(fixed.poll_timeout_ms(NOW), 3, "rounded up");

    let mut timer = event_loop(standing());
    assert!((0..5).all(|id| timer.schedule(NOW, Duration::ZERO, id).is_ok()));
    timer.set_budget(Budget::new().fire(2));
    let polled = timer.poll(NOW, |_| ());
    assert!((1..=2).contains(&polled.fired) && polled.more, "{polled:?}");
}

/// A text names a setting, and not the builder of another front.
#[test]
fn errors_name_cures_that_their_front_has() {
    let no_fire = Budget::new().fire(0);
    let (local, looped) = (Settings::new, Settings::new);
    let mut texts = vec![
        local().tick(Duration::ZERO).build_local::<u64>().unwrap_err().to_string(),
        local().max_pending(0).build_fixed::<u64>(MS).unwrap_err().to_string(),
        local().budget(no_fire).build_local::<u64>().unwrap_err().to_string(),
        looped().tick(Duration::ZERO).build_with_waker::<u64>(|| ()).unwrap_err().to_string(),
        looped().max_pending(0).build_with_waker::<u64>(|| ()).unwrap_err().to_string(),
        looped().budget(no_fire).build_with_waker::<u64>(|| ()).unwrap_err().to_string(),
    ];
    let mut timer = local().max_pending(1).build_local().unwrap();
    timer.schedule(NOW, HOUR, 1).unwrap();
    texts.push(timer.schedule(NOW, HOUR, 2).unwrap_err().to_string());
    let full = ScheduleErrorKind::OutOfNodes { shard: 0, limit: 17 }.to_string();
    let remote = event_loop(standing()).remote();
    let gone = remote.schedule(HOUR, 1).unwrap_err().to_string();
    assert!(gone.contains("loop's timer"), "{gone}");
    texts.extend([full, gone]);
    for text in texts {
        assert!(!text.contains("Builder::") && !text.contains("Routing::"), "{text}");
    }
}

/// Arms five timers with `arm`, and shows each call of `LoopTimer` on them.
fn does_what_each_loop_timer_does<L: LoopTimer<Payload = u64>>(
    mut timer: L,
    arm: impl Fn(&mut L, u64) -> Key<u64>,
) {
    timer.reserve(1000);
    let keys: Vec<_> = (0..5).map(|id| arm(&mut timer, id)).collect();
    assert_eq!((timer.pending(), timer.is_empty()), (5, false));
    let deadline = timer.deadline(keys[0]).expect("it is pending");
    let mut listed: Vec<_> = timer.keys().collect();
    listed.sort();
    let mut armed: Vec<_> = keys.iter().map(|key| (*key, deadline)).collect();
    armed.sort();
    assert_eq!(listed, armed);

    assert_eq!(timer.cancel(keys[4]).into_payload(), Some(4));
    assert!(!timer.is_pending(keys[4]) && timer.keys().count() == 4);
    assert!(timer.next_deadline() <= Some(deadline));
    assert!(timer.poll_timeout(NOW).is_some_and(|sleep| NOW + sleep <= deadline));
    assert!(timer.poll_timeout_ms(NOW) > 0);
    timer.set_budget(Budget::new().fire(1));
    assert_eq!(timer.poll(deadline, |_| ()).fired, 1);
    assert_eq!(timer.expired(deadline).next().map(|expired| expired.payload), Some(1));
    let mut drain = timer.drain();
    let unfired = drain.next().expect("two are left");
    assert!(unfired.payload >= 2 && unfired.deadline == deadline);
    drop(drain);
    assert!(!timer.is_pending(unfired.key));
    timer.clear();
    assert!(timer.is_empty() && timer.held_bytes() > 0);
    assert_eq!(timer.poll_with(deadline, |_, _| panic!("it was cleared")).fired, 0);
}

#[test]
fn code_that_is_generic_over_loop_timers_drives_each_of_them() {
    let in_an_hour = |timer: &mut LocalTimer<u64>, id| timer.schedule(NOW, HOUR, id).unwrap();
    does_what_each_loop_timer_does(LocalTimer::new(MS).unwrap(), in_an_hour);
    let at_the_back = |timer: &mut FixedTimer<u64>, id| timer.schedule(NOW, id).unwrap();
    does_what_each_loop_timer_does(FixedTimer::with_delay(HOUR), at_the_back);
    let timer =
        Settings::new().clock(ManualClock::starting_at(NOW)).build_with_waker(|| ()).unwrap();
    let in_a_loop = |timer: &mut EventLoopTimer<u64>, id| timer.schedule(NOW, HOUR, id).unwrap();
    does_what_each_loop_timer_does(timer, in_a_loop);
}

#[test]
fn a_loops_drain_leaves_timers_that_a_remote_schedules_meanwhile() {
    let mut timer = Settings::new().build_with_waker(|| ()).unwrap();
    let remote = timer.remote();
    let first = timer.schedule(NOW, HOUR, 1_u64).unwrap();
    let mut drain = timer.drain();
    let second = remote.schedule(HOUR, 2).unwrap();
    assert_eq!(drain.next().map(|unfired| unfired.key), Some(first));
    assert!(drain.next().is_none());
    drop(drain);
    assert!(timer.is_pending(second) && timer.pending() == 1);
}
