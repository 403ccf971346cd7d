//! What the engine's tests share: setups with a clock that is turned by hand, a log of what fired, and
//! small things.
//!
//! `TICKWHEEL_STRESS=N` multiplies the repeats of the tests that look for races. `TICKWHEEL_SHARDS=N` sets how many shards
//! an engine has in tests that hold with any number, 3 unless it is set; one shard alone would be a stand-in.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tickwheel::__internal::set_home;
use tickwheel::{
    Builder, Drive, Expired, Key, ManualClock, MissedTicks, Period, Pinning, Time, Timer, When,
};

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Zombies and unread messages that are tolerated whatever the load: 16 Ki of the engine's zombie
/// floor, 64 Ki of its inbox, and a quarter of growth before the engine looks again.
pub(crate) const ZOMBIE_CONSTANT: u64 = 100 * 1024;

/// Schedules timer `id` on shard `id % shards`.
pub(crate) fn spread(timer: &Timer<u64>, when: impl Into<When>, id: u64) -> Key<u64> {
    set_home(timer, id as usize % timer.shards());
    timer.schedule(when, id).expect("the engine takes it")
}

/// Repeats of a stress test.
pub(crate) fn stress(repeats: u64) -> u64 {
    let factor = std::env::var("TICKWHEEL_STRESS")
        .ok()
        .and_then(|text| text.parse().ok());
    repeats * factor.unwrap_or(1)
}

/// Once per `every`; periods that were missed are skipped.
pub(crate) fn rate(every: Duration) -> Period {
    Period::fixed_rate(every, MissedTicks::Skip)
}

/// A builder for one unpinned shard.
pub(crate) fn one_shard() -> Builder {
    Builder::new().shards(1).pinning(Pinning::Off)
}

/// A builder for an engine of some unpinned shards. The first thread that schedules has the first one as its home.
pub(crate) fn some_shards() -> Builder {
    let shards = std::env::var("TICKWHEEL_SHARDS");
    let shards = shards.map_or(3, |shards| shards.parse().expect("a number"));
    Builder::new().shards(shards).pinning(Pinning::Off)
}

/// Uses another engine on this thread, which then remembers no way to the test's.
pub(crate) fn use_another_engine() {
    static OTHER: OnceLock<Timer<u64>> = OnceLock::new();
    let other = OTHER.get_or_init(|| {
        let builder = some_shards().drive(Drive::Manual);
        builder.build_with(|_| ()).expect("the engine is built")
    });
    let key = other.schedule(HOUR, 0).expect("the engine takes it");
    assert!(other.cancel(key).is_won());
}

/// Waits for something that another thread does; panics after a time that only a hang can take.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < secs(120), "waited in vain until {what}");
        std::thread::sleep(us(200));
    }
}

/// One way to run an engine on a manual clock.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) clock: ManualClock,
    pub(crate) drive: Drive,
}

/// Runs a test with and without workers.
pub(crate) fn each_setup(test: impl Fn(&Setup)) {
    each_setup_from(Time::ZERO, test);
}

/// As [`each_setup`], with the clock at `start`.
pub(crate) fn each_setup_from(start: Time, test: impl Fn(&Setup)) {
    for drive in [Drive::Manual, Drive::Workers] {
        test(&Setup {
            clock: ManualClock::starting_at(start),
            drive,
        });
    }
}

/// As [`each_setup`], with an engine that logs what fires.
pub(crate) fn each_recording(test: impl Fn(&Setup, Timer<u64>, Fired)) {
    each_setup(|at| {
        let (timer, fired) = at.recording();
        test(at, timer, fired);
    });
}

impl Setup {
    /// Without workers.
    pub(crate) fn by_hand() -> Self {
        Self {
            clock: ManualClock::new(),
            drive: Drive::Manual,
        }
    }

    /// With workers.
    pub(crate) fn with_workers() -> Self {
        Self {
            drive: Drive::Workers,
            ..Self::by_hand()
        }
    }

    /// Some shards, 1 ms ticks.
    pub(crate) fn builder(&self) -> Builder {
        some_shards().clock(self.clock.clone()).drive(self.drive)
    }

    /// An engine that logs what fires.
    pub(crate) fn recording(&self) -> (Timer<u64>, Fired) {
        recording(self.builder())
    }

    /// Lets everything fire that is due now.
    pub(crate) fn wait_idle<T: Send + 'static>(&self, timer: &Timer<T>) {
        use_another_engine();
        match self.drive {
            Drive::Manual => {
                timer.turn().expect("the engine can be turned");
            }
            _ => timer.wait_idle(),
        }
    }

    /// Moves the clock, then as [`wait_idle`](Self::wait_idle).
    pub(crate) fn advance<T: Send + 'static>(&self, timer: &Timer<T>, by: Duration) {
        self.clock.advance(by);
        self.wait_idle(timer);
    }

    /// As [`advance`](Self::advance), to a point in time.
    pub(crate) fn go_to<T: Send + 'static>(&self, timer: &Timer<T>, time: Time) {
        self.clock.set(time);
        self.wait_idle(timer);
    }
}

/// What an engine has fired, in order.
#[derive(Clone, Default)]
pub(crate) struct Fired(Arc<Mutex<Vec<Expired<u64>>>>);

impl Fired {
    /// One log, to be looked at and to be written by a handler.
    pub(crate) fn pair() -> (Self, Self) {
        let fired = Self::default();
        (fired.clone(), fired)
    }

    pub(crate) fn push(&self, expired: Expired<u64>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(expired);
    }

    /// Everything that fired since the last call.
    pub(crate) fn take(&self) -> Vec<Expired<u64>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The payloads of everything that fired since the last call.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.take().iter().map(|expired| expired.payload).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// An engine that logs what fires.
pub(crate) fn recording(builder: Builder) -> (Timer<u64>, Fired) {
    let (fired, log) = Fired::pair();
    let timer = builder
        .build_with(move |expired| log.push(expired))
        .expect("the engine is built");
    (timer, fired)
}

/// An engine whose handler may use the engine. Stop it: the handler keeps it alive.
pub(crate) fn reflexive<T: Send + 'static>(
    builder: Builder,
    handler: impl Fn(&Timer<T>, Expired<T>) + Send + Sync + 'static,
) -> Timer<T> {
    let cell = Arc::new(OnceLock::<Timer<T>>::new());
    let inside = Arc::clone(&cell);
    let timer = builder
        .build_with(move |expired| handler(inside.get().expect("the engine is known"), expired))
        .expect("the engine is built");
    assert!(cell.set(timer.clone()).is_ok());
    timer
}

/// Sorted, for comparing what fired at one moment.
pub(crate) fn sorted(ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut ids: Vec<u64> = ids.into_iter().collect();
    ids.sort_unstable();
    ids
}

/// As a set, for comparing regardless of order; panics on doubles.
#[track_caller]
pub(crate) fn set_of(ids: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
    let mut set = BTreeSet::new();
    for id in ids {
        assert!(set.insert(id), "{id} came twice");
    }
    set
}
