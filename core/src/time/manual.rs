//! A clock that moves only when told to, for tests and simulations.
//!
//! Any thread may read it, move it and register hooks. `now` is one atomic load. A move is one
//! atomic read-modify-write, then the hooks run on the moving thread, with no lock held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::saturating_ns;
use super::{Clock, Time};
use crate::contain;
use crate::sync::atomic::{AtomicU64, Ordering};

type Hook = Weak<dyn Fn() + Send + Sync>;

/// A clock that moves only when told to.
///
/// Clones share one time: give a clone to the builder and keep one to turn. Time never goes back
/// and saturates at [`Time::MAX`]. An engine on this clock wakes its workers by itself when the
/// time moves.
///
/// ```
/// use std::time::Duration;
/// # use tickwheel::{Clock, ManualClock, Time};
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(3600));
/// clock.set(Time::ZERO); // refused: time never goes back
/// assert_eq!(clock.now(), Time::ZERO + Duration::from_secs(3600));
/// assert_eq!(ManualClock::starting_at(Time::from_nanos(17)).now(), Time::from_nanos(17));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    /// Nanoseconds since the origin. Only ever grows.
    now_ns: AtomicU64,
    /// A move holds on to the list it found and runs the hooks without the lock.
    hooks: Mutex<Arc<Vec<Hook>>>,
}

impl ManualClock {
    /// Creates a clock that stands at [`Time::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Time::ZERO)
    }

    /// Creates a clock that stands at `time`, for example to test years of uptime.
    #[must_use]
    pub fn starting_at(time: Time) -> Self {
        let now_ns = AtomicU64::new(time.as_nanos());
        Self {
            shared: Arc::new(Shared {
                now_ns,
                hooks: Mutex::default(),
            }),
        }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        // ORDERING: Acquire pairs with the Release half of the updates in `advance` and `set` [P16]:
        // a reader of a time also sees what was done before the clock was moved to it.
        Time::from_nanos(self.shared.now_ns.load(Ordering::Acquire))
    }

    /// Moves the time forward by `by`, saturating at [`Time::MAX`], then runs the hooks.
    ///
    /// Concurrent advances add up. Returns the time that this call moved to. A hook's panic reaches
    /// the caller after all hooks have run.
    pub fn advance(&self, by: Duration) -> Time {
        let by = saturating_ns(by);
        let step = |now: u64| Some(now.saturating_add(by));
        let time = &self.shared.now_ns;
        // ORDERING: AcqRel. Release pairs with the Acquire in `now`; Acquire because the answer is a time as well,
        // to which earlier movers have contributed. Relaxed for a failed attempt, which is made again. [P16]
        let was = time.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step);
        // `step` never answers `None`, so both arms hold the old value.
        let (Ok(was) | Err(was)) = was;
        self.moved(was, was.saturating_add(by))
    }

    /// Moves the time to `time`, then runs the hooks; does nothing where the clock is there already
    /// or further on. Returns the time the clock stands at.
    pub fn set(&self, time: Time) -> Time {
        // ORDERING: AcqRel, for the same reasons as in `advance`. [P16]
        let was = self
            .shared
            .now_ns
            .fetch_max(time.as_nanos(), Ordering::AcqRel);
        self.moved(was, was.max(time.as_nanos()))
    }

    fn moved(&self, was: u64, now: u64) -> Time {
        if now != was {
            let hooks = Arc::clone(&self.hooks());
            // The hook goes with the call: if no engine keeps it, its captures are dropped in there.
            let run = |hook: Arc<dyn Fn() + Send + Sync>| contain::call(move || hook()).err();
            let panics = hooks.iter().filter_map(Weak::upgrade).filter_map(run);
            if let Some(message) = panics.reduce(|first, _| first) {
                // The panic itself has been reported where it happened.
                std::panic::resume_unwind(Box::new(message));
            }
        }
        Time::from_nanos(now)
    }

    fn hooks(&self) -> MutexGuard<'_, Arc<Vec<Hook>>> {
        self.shared
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Self::now(self)
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        let mut hooks = self.hooks();
        let hooks = Arc::make_mut(&mut hooks);
        hooks.retain(|hook| hook.strong_count() > 0);
        hooks.push(wake);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields!([] ManualClock, "ManualClock", it, now: it.now());

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Kept = Arc<dyn Fn() + Send + Sync>;

    /// Registers a hook that lives as long as what this returns.
    fn hook(clock: &impl Clock, run: impl Fn() + Send + Sync + 'static) -> Kept {
        let hook: Kept = Arc::new(run);
        Clock::on_advance(clock, Arc::downgrade(&hook));
        hook
    }

    /// Returns the clock in a hook of its own.
    fn weakly(clock: &ManualClock) -> impl Fn() -> ManualClock + use<> {
        let shared = Arc::downgrade(&clock.shared);
        move || ManualClock {
            shared: shared.upgrade().expect("it is being moved"),
        }
    }

    /// Returns a hook that notes the time it was called at.
    fn note(clock: &ManualClock) -> (Arc<Mutex<Vec<Time>>>, Kept) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (inside, reader) = (Arc::clone(&seen), weakly(clock));
        let kept = hook(clock, move || inside.lock().unwrap().push(reader().now()));
        (seen, kept)
    }

    #[test]
    fn stands_still_until_it_is_moved_and_never_goes_back() {
        let (clock, at) = (
            ManualClock::starting_at(Time::from_nanos(1 << 60)),
            Time::from_nanos,
        );
        assert_eq!(
            (clock.now(), ManualClock::default().now()),
            (at(1 << 60), Time::ZERO)
        );
        assert_eq!(clock.advance(SECOND), at(1 << 60) + SECOND);
        assert_eq!(clock.set(at(1 << 61)), at(1 << 61));
        assert_eq!(
            [clock.set(at(5)), clock.now(), clock.clone().now()],
            [at(1 << 61); 3]
        );
        assert_eq!(
            [Duration::MAX, SECOND].map(|by| clock.advance(by)),
            [Time::MAX; 2]
        );
        assert_eq!(format!("{clock:?}"), "ManualClock { now: Time(never), .. }");
    }

    #[test]
    fn hooks_run_after_each_move_and_only_then() {
        let clock = ManualClock::new();
        let ((first, _kept), (second, kept)) = (note(&clock), note(&clock));
        clock.advance(SECOND);
        clock.set(Time::ZERO + SECOND * 3);
        clock.set(Time::ZERO);
        clock.advance(Duration::ZERO);
        let expected = [Time::ZERO + SECOND, Time::ZERO + SECOND * 3];
        assert_eq!(*first.lock().unwrap(), expected);
        assert_eq!(*second.lock().unwrap(), expected);
        drop(kept);
        clock.advance(SECOND);
        assert_eq!(first.lock().unwrap().len(), 3);
        assert_eq!(
            *second.lock().unwrap(),
            expected,
            "a hook that is gone is not called"
        );
    }

    #[test]
    fn moves_of_several_threads_add_up() {
        let (clock, start) = (ManualClock::new(), std::sync::Barrier::new(2));
        let moves = || {
            start.wait();
            for _ in 0..200_000 {
                let now = clock.advance(Duration::from_nanos(1));
                assert!(clock.set(Time::ZERO) >= now);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(moves)));
        assert_eq!(clock.now(), Time::from_nanos(400_000));
    }

    #[test]
    fn a_hook_may_move_the_clock_and_add_hooks() {
        let clock = ManualClock::new();
        let inner = weakly(&clock);
        let _kept = hook(&clock, move || {
            let inner = inner();
            if inner.now() < Time::from_nanos(10) {
                let _unkept = hook(&inner, || ());
                inner.advance(Duration::from_nanos(1));
            }
        });
        clock.advance(Duration::from_nanos(1));
        assert_eq!(clock.now(), Time::from_nanos(10));
    }

    #[test]
    fn a_shared_clock_is_a_clock() {
        let manual = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(manual.clone());
        let (moves, moved) = std::sync::mpsc::channel();
        let _kept = hook(&shared, move || moves.send(()).unwrap());
        manual.advance(SECOND);
        assert!(Clock::is_virtual(&shared) && manual.is_virtual());
        assert_eq!(
            (Clock::now(&shared), moved.try_iter().count()),
            (Time::ZERO + SECOND, 1)
        );
    }

    #[test]
    fn hooks_that_are_gone_leave_nothing_behind() {
        let clock = ManualClock::new();
        let kept: Vec<_> = (0..10).map(|_| note(&clock)).collect();
        for _ in 0..20_000 {
            drop(hook(&clock, || ()));
        }
        let left = clock.hooks().len();
        assert!(left <= kept.len() + 1, "{left} hooks are left");
        clock.advance(SECOND);
        assert!(kept.iter().all(|(seen, _)| seen.lock().unwrap().len() == 1));
    }

    #[test]
    fn a_panicking_hook_keeps_no_other_from_running() {
        let clock = ManualClock::new();
        let ((first, _a), _b, (second, _c)) = (
            note(&clock),
            hook(&clock, || panic!("the hook's own")),
            note(&clock),
        );
        assert_eq!(
            contain::call(|| clock.advance(SECOND)),
            Err("the hook's own".to_owned())
        );
        assert_eq!(
            (first.lock().unwrap().len(), second.lock().unwrap().len()),
            (1, 1)
        );
    }

    #[test]
    fn a_hook_that_panics_when_it_is_dropped_keeps_no_other_from_running() {
        struct Bomb;

        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("the hook's captures");
            }
        }

        let clock = ManualClock::new();
        let place: Arc<Mutex<Option<Kept>>> = Arc::default();
        let (inside, bomb) = (Arc::clone(&place), Bomb);
        let kept = hook(&clock, move || {
            let _ = &bomb;
            inside.lock().unwrap().take();
        });
        *place.lock().unwrap() = Some(kept);
        let (second, _kept) = note(&clock);
        assert_eq!(
            contain::call(|| clock.advance(SECOND)),
            Err("the hook's captures".to_owned())
        );
        assert_eq!(second.lock().unwrap().len(), 1);
    }
}
