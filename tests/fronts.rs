//! One vocabulary: the same code compiled against every front.
//!
//! `support/hand.rs` says what differs: who knows the time, and the engine's `schedule` beside the `schedule` that
//! gives a handle.

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "support"]
mod support {
    pub(crate) mod hand;
    pub(crate) mod loop_timer;
    pub(crate) mod random;
    pub(crate) mod setup;
}
#[path = "fronts/bursts.rs"]
mod bursts;
#[path = "fronts/idle.rs"]
mod idle;
#[path = "fronts/loops.rs"]
mod loops;
#[path = "fronts/passed.rs"]
mod passed;
#[path = "fronts/swapped.rs"]
mod swapped;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::hand::Hand;
use support::loop_timer::LoopTimer;
use support::setup::{Fired, HOUR, one_shard, recording, spread};
use tickwheel::{
    Budget, Builder, Clock, Drive, EventLoopTimer, Expired, Key, LocalTimer, ManualClock,
    MonotonicClock, Period, Remote, Settings, SlowHandler, Time, Timer, When,
};

const MS: Duration = Duration::from_millis(1);
/// What the clocks show.
const NOW: Time = Time::from_nanos(9_000_000_000);

/// A builder of engines that are turned by hand.
fn by_hand(tick: Duration, clock: impl Clock) -> Builder {
    one_shard().tick(tick).drive(Drive::Manual).clock(clock)
}

fn event_loop(tick: Duration, clock: impl Clock) -> EventLoopTimer<u64> {
    EventLoopTimer::with_waker(Settings::new().tick(tick).clock(clock), || ()).unwrap()
}

/// A clock that stands at `NOW`.
fn standing() -> ManualClock {
    ManualClock::starting_at(NOW)
}

/// A timer of any front, which is told `NOW` where it must be told the time.
trait Front {
    fn hand(&mut self) -> &mut dyn Hand<u64>;
    /// Fires what is due by `NOW`.
    fn fire(&mut self) -> Vec<Expired<u64>>;

    fn arm(&mut self, when: When, id: u64) -> Key<u64> {
        self.hand().arm(NOW, when, id).unwrap()
    }
    fn arm_periodic(&mut self, first: When, period: Period) -> Key<u64> {
        self.hand().arm_periodic(NOW, first, period, 1).unwrap()
    }
    fn move_to(&mut self, key: Key<u64>, when: When) -> bool {
        self.hand().move_to(NOW, key, when)
    }
    fn cancel(&mut self, key: Key<u64>) -> Option<u64> {
        self.hand().cancel(key).into_payload()
    }
    fn deadline(&mut self, key: Key<u64>) -> Option<Time> {
        self.hand().deadline(key)
    }
}

struct Engine(Timer<u64>, Fired);

impl Front for Engine {
    fn hand(&mut self) -> &mut dyn Hand<u64> {
        &mut self.0
    }
    fn fire(&mut self) -> Vec<Expired<u64>> {
        self.0.turn().unwrap();
        self.1.take()
    }
}

impl Front for EventLoopTimer<u64> {
    fn hand(&mut self) -> &mut dyn Hand<u64> {
        self
    }
    fn fire(&mut self) -> Vec<Expired<u64>> {
        fired_by(self)
    }
}

struct Remotely(Remote<u64>, EventLoopTimer<u64>);

impl Front for Remotely {
    fn hand(&mut self) -> &mut dyn Hand<u64> {
        &mut self.0
    }
    fn fire(&mut self) -> Vec<Expired<u64>> {
        fired_by(&mut self.1)
    }
}

impl Front for LocalTimer<u64> {
    fn hand(&mut self) -> &mut dyn Hand<u64> {
        self
    }
    fn fire(&mut self) -> Vec<Expired<u64>> {
        fired_by(self)
    }
}

fn fired_by(timer: &mut impl LoopTimer<Payload = u64>) -> Vec<Expired<u64>> {
    let mut fired = Vec::new();
    assert!(!timer.poll(NOW, |expired| fired.push(expired)).more);
    fired
}

/// Every front, at `NOW`.
fn fronts(tick: Duration) -> [Box<dyn Front>; 4] {
    let (engine, fired) = recording(by_hand(tick, standing()));
    let driven = event_loop(tick, standing());
    [
        Box::new(Engine(engine, fired)),
        Box::new(event_loop(tick, standing())),
        Box::new(Remotely(driven.remote(), driven)),
        Box::new(LocalTimer::new(tick).unwrap()),
    ]
}

#[test]
fn delays_times_and_instants_mean_the_same() {
    for mut timer in fronts(MS) {
        let due = [Duration::ZERO.into(), NOW.into()].map(|when| timer.arm(when, 1));
        let fired = timer.fire();
        assert!(
            fired
                .iter()
                .all(|it| it.deadline == NOW && it.lateness.is_zero())
        );
        assert_eq!(sorted_keys(&fired), sorted(due));
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
        assert!(
            [second, third, moved]
                .iter()
                .all(|key| timer.deadline(*key) == Some(due))
        );
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
    let (timer, _) = recording(one_shard().drive(Drive::Manual));
    assert!(near(timer.schedule_handle(instant, 1).unwrap().deadline()));
    let mut timer = EventLoopTimer::with_waker(Settings::new(), || ()).unwrap();
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
    let (timer, _) = recording(by_hand(MS, standing()));
    assert!(distant(
        timer
            .schedule_handle(Instant::now() + HOUR, 1)
            .unwrap()
            .deadline()
    ));
    let past = Instant::now().checked_sub(5 * MS);
    let overdue = timer
        .schedule_handle(past.expect("the machine runs for longer"), 2)
        .unwrap();
    assert!(overdue.deadline() < NOW && overdue.deadline() > NOW - 60 * MS * 1000);
    let timer = event_loop(MS, standing());
    timer.remote().schedule(Instant::now() + HOUR, 1).unwrap();
    assert!(distant(timer.close()[0].deadline));
}

/// A clock at `NOW` that counts how often it is asked.
#[derive(Clone)]
struct Counting(Arc<AtomicUsize>, ManualClock);

impl Counting {
    fn new() -> Self {
        Self(Arc::default(), standing())
    }

    /// How often it was asked since the last call.
    fn reads(&self) -> usize {
        // ORDERING: SeqCst: a test.
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Clock for Counting {
    fn now(&self) -> Time {
        // ORDERING: SeqCst: a test.
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.now()
    }
}

#[test]
fn the_clock_is_read_for_a_delay_and_for_a_point_if_a_tick_is_long() {
    for (tick, for_a_point) in [
        (MS, 0),
        (10 * MS - Duration::from_nanos(1), 0),
        (10 * MS, 1),
    ] {
        let clock = Counting::new();
        let (timer, _) = recording(by_hand(tick, clock.clone()));
        timer.start().unwrap();
        clock.reads();
        let handle = timer.schedule_handle(HOUR, 1).unwrap();
        assert_eq!(clock.reads(), 1);
        for point in [NOW + HOUR, NOW, NOW - HOUR] {
            assert!(handle.reschedule(point).is_moved());
            assert_eq!(clock.reads(), for_a_point);
        }
        let mut timer = event_loop(tick, clock.clone());
        for point in [NOW - HOUR, NOW, NOW + HOUR] {
            let key = timer.schedule(NOW, point, 1).unwrap();
            assert!(timer.reschedule(NOW, key, HOUR).is_moved());
        }
        assert_eq!(clock.reads(), 0);
    }
}

#[test]
fn an_operator_sees_what_waits_and_how_late_it_is() {
    let budget = Budget::new().fire(2);
    let clock = standing();
    let (timer, _) = recording(by_hand(MS, clock.clone()).budget(budget));
    (0..5).for_each(|id| _ = timer.schedule(MS, id).unwrap());
    let stats = timer.stats();
    assert_eq!(
        (stats.inbox, stats.lag, stats.cut_short),
        (5, Duration::ZERO, 0)
    );
    clock.advance(3 * MS);
    assert_eq!(
        timer.stats().lag,
        2 * MS,
        "due for two milliseconds, in the inbox"
    );
    assert_eq!(timer.turn(), Ok(5));
    let stats = timer.stats();
    assert_eq!(
        (stats.inbox, stats.lag, stats.cut_short),
        (0, Duration::ZERO, 2)
    );
    let key = timer.schedule(2 * HOUR, 6).unwrap();
    assert!(timer.reschedule(key, HOUR).is_moved());
    assert_eq!(
        timer.stats().inbox,
        2,
        "a timer, and that it is due earlier"
    );
    clock.advance(HOUR - MS);
    assert_eq!(
        (timer.turn(), timer.stats().inbox, timer.stats().lag),
        (Ok(0), 2, Duration::ZERO)
    );
    clock.advance(11 * MS);
    assert_eq!((timer.stats().lag, timer.turn()), (10 * MS, Ok(1)));
    timer.schedule(Duration::ZERO, 7).unwrap();
    timer.stop().unwrap();
    assert_eq!(timer.stats().lag, Duration::ZERO);
}

#[test]
fn a_loops_lateness_can_be_read() {
    let clock = standing();
    let mut timer = event_loop(MS, clock.clone());
    timer.schedule(NOW, MS, 1).unwrap();
    timer.remote().schedule(2 * MS, 2).unwrap();
    assert_eq!(
        (timer.stats().inbox, timer.remote().stats().pending),
        (1, 2)
    );
    clock.advance(5 * MS);
    assert_eq!(timer.stats().lag, 3 * MS, "as far as the inbox tells");
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 2);
    let stats = timer.stats();
    assert_eq!(
        (stats.fired, stats.turns, stats.lag),
        (2, 1, Duration::ZERO)
    );
    assert_eq!(
        (stats.lateness.sum(), stats.lateness.max()),
        (7 * MS, 4 * MS)
    );
    let remote = timer.remote();
    remote.schedule(HOUR, 3).unwrap();
    clock.advance(2 * HOUR);
    assert_eq!((remote.stats().lag, timer.close().len()), (HOUR, 1));
    assert_eq!(remote.stats().lag, Duration::ZERO);
}

#[test]
fn a_slow_handler_is_told_and_all_are_counted() {
    let clock = Counting::new();
    let (told, lateness) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (log, moved, late) = (Arc::clone(&told), clock.1.clone(), Arc::clone(&lateness));
    let timer = by_hand(MS, clock.clone())
        .on_slow_handler(5 * MS, move |slow: &SlowHandler| {
            log.lock().unwrap().push(*slow);
            assert!(slow.took < 9 * MS, "a hook may panic");
        })
        .build_with(move |expired: Expired<u64>| {
            late.lock().unwrap().push(expired.lateness);
            moved.advance(MS * expired.payload as u32);
        })
        .unwrap();
    let keys: Vec<_> = [4, 5, 9]
        .map(|ms| timer.schedule(Duration::ZERO, ms).unwrap())
        .to_vec();
    clock.reads();
    assert_eq!(timer.turn(), Ok(3));
    assert!(clock.reads() <= 8, "twice per call, and twice for the turn");
    assert_eq!(
        *lateness.lock().unwrap(),
        [0, 4, 9].map(|ms| ms * MS),
        "exact beside the hook"
    );
    assert_eq!(timer.stats().lateness.max(), 9 * MS);
    let text = told.lock().unwrap()[0].to_string();
    for part in ["shard 0", "5ms", &keys[1].to_raw().to_string()] {
        assert!(text.contains(part), "{text}");
    }
    let told: Vec<_> = told
        .lock()
        .unwrap()
        .iter()
        .map(|it| (it.shard, it.key, it.took))
        .collect();
    assert_eq!(
        told,
        [(0, keys[1].to_raw(), 5 * MS), (0, keys[2].to_raw(), 9 * MS)]
    );
    let shard = &timer.stats().shards[0];
    assert_eq!(
        (shard.handler_time.count(), shard.handler_time.sum()),
        (3, 18 * MS)
    );
    let (timer, _) = recording(by_hand(MS, standing()));
    timer.schedule(Duration::ZERO, 1).unwrap();
    assert_eq!(
        (timer.turn(), timer.stats().shards[0].handler_time.count()),
        (Ok(1), 0)
    );
}

/// Keys of many timers, all of them with the same numbers of shard, node and generation, but for what keeps them apart.
#[test]
fn a_key_of_another_timer_is_stale() {
    let mut timers: Vec<_> = (0..20).flat_map(|_| fronts(MS)).collect();
    let mut keys: Vec<_> = timers
        .iter_mut()
        .map(|timer| timer.arm(HOUR.into(), 1))
        .collect();
    // And of shards that none of them has.
    let builder = by_hand(MS, standing()).shards(8);
    let (larger, _) = recording(builder);
    keys.extend((0..8).map(|id| spread(&larger, HOUR, id)));
    for (n, timer) in timers.iter_mut().enumerate() {
        for key in keys
            .iter()
            .enumerate()
            .filter(|(m, _)| *m != n)
            .map(|(_, key)| *key)
        {
            assert!(timer.deadline(key).is_none() && !timer.move_to(key, MS.into()));
            assert_eq!(timer.cancel(key), None);
        }
    }
    assert!(
        timers
            .iter_mut()
            .zip(&keys)
            .all(|(timer, key)| timer.cancel(*key) == Some(1))
    );
}
