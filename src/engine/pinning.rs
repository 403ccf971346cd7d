//! Which core each worker runs on.
//!
//! A pinned worker keeps its cache, and waits for its core while another one is free. So workers are pinned only where
//! the cores are the process's own: to cores of its affinity mask, and not in a container whose quota is less than
//! those. Each engine takes the cores after those of the engine before it. A worker that is kept waiting all the same
//! leaves its core ([`Starvation`]).
//!
//! Masks and quota are read when an engine is built. A worker first leaves the mask that it has inherited, then pins
//! itself. A failed pin is reported and the worker runs unpinned.
//!
//! Room: `cores` (what the process may use).

mod cores;

pub(crate) use cores::Cores;

use crate::types::BuildError;
use core_affinity::CoreId;
use std::time::Duration;

/// Which core each worker is pinned to.
///
/// Cores are named by the operating system's number. On systems without thread affinity every
/// choice acts like [`Pinning::Off`]; a pin that fails is logged and shown in the statistics, never
/// fatal.
///
/// On Linux each thread has a mask of its own, so the cores of the process are those that its main thread and the thread
/// that builds have when an engine is built, this one or an earlier one. Build the first engine, or call
/// [`global`](crate::global()), before these threads pin themselves. Workers begin with these cores, whichever thread
/// starts them. A mask that is narrowed later from outside (`taskset -ap`) does not bind workers that start afterwards;
/// a `cpuset` does.
///
/// A thread inherits the mask of the one that starts it: threads and processes that a *handler* starts share the
/// worker's one core, unless the threads call [`unpin_current_thread`] or the engine is built with [`Pinning::Off`].
///
/// ```
/// use tickwheel::{Builder, Pinning};
///
/// let on_its_own = Builder::new().shards(1).pinning(Pinning::List(vec![0]));
/// let beside_a_runtime = Builder::new().shards(1).pinning(Pinning::Off);
/// if let Err(error) = on_its_own.build() {
///     println!("{error}"); // the process may not use core 0
/// }
/// assert!(beside_a_runtime.build().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Each worker on a core of its own, as long as there are enough: engines of one process go on where the last one
    /// ended. On Linux nothing is pinned in a container whose CPU quota is less than the cores of the process. A worker
    /// that its core keeps waiting, twice by more than half a millisecond, may use all of these cores from then on;
    /// [`ShardStats::pinning`](crate::ShardStats::pinning) says so. That is noticed at the end of a sleep, not in a
    /// spin or in the middle of work.
    #[default]
    Cores,
    /// Worker `i` on the `i`-th core of this list, starting over when there are more workers than
    /// entries, with any quota; it stays there. The builder refuses an empty list and cores that the process may
    /// not use.
    List(Vec<usize>),
    /// No pinning: the operating system moves workers as it likes, on the cores of the process.
    Off,
}

/// Watches whether a pinned worker runs when its sleep is over, or when it is woken.
pub(crate) struct Starvation {
    watched: bool,
    late: u32,
    on_time: u32,
}

impl Starvation {
    /// A worker that runs later than this after its sleep had to wait for the core: a sleep's own error, and the way
    /// of a wake, are tens of microseconds.
    const LATE: Duration = Duration::from_micros(500);
    /// So many late sleeps are enough. Each may have made several timers late.
    const ENOUGH: u32 = 2;
    /// So many sleeps in time make up for a late one: 2 late ones of 2000 leave a worker where it is.
    const FORGIVEN_AFTER: u32 = 1000;

    /// Watches workers whose cores the user has not named.
    pub(crate) fn of(pinning: &Pinning) -> Self {
        Self {
            watched: *pinning == Pinning::Cores,
            late: 0,
            on_time: 0,
        }
    }

    /// Records how late a sleep ended; returns whether the worker should leave its core.
    pub(crate) fn record_lateness(&mut self, late: Duration) -> bool {
        if late > Self::LATE {
            self.late += 1;
            return self.watched && self.late >= Self::ENOUGH;
        }
        self.on_time += 1;
        self.late = self
            .late
            .saturating_sub(self.on_time / Self::FORGIVEN_AFTER);
        self.on_time %= Self::FORGIVEN_AFTER;
        false
    }
}

/// One above the largest core number that an affinity mask can hold.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CORE_LIMIT: usize = 1024;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CORE_LIMIT: usize = usize::BITS as usize;

/// Returns the core for each worker of a new engine, or `None` where it is not to be pinned.
pub(crate) fn deal(pinning: &Pinning, cores: &Cores, shards: usize) -> Vec<Option<usize>> {
    let (from, first) = match pinning {
        Pinning::Cores if cores.are_ours() => (cores.allowed(), cores::take_turn(shards)),
        Pinning::List(list) => (&list[..], 0),
        Pinning::Cores | Pinning::Off => (&[][..], 0),
    };
    let core = |shard: usize| {
        let place = first.wrapping_add(shard).checked_rem(from.len())?;
        from.get(place).copied()
    };
    (0..shards).map(core).collect()
}

/// Checks a user's list against the cores that may be used.
pub(crate) fn check_pinning(pinning: &Pinning, allowed: &[usize]) -> Result<(), BuildError> {
    let Pinning::List(list) = pinning else {
        return Ok(());
    };
    if list.is_empty() {
        return Err(BuildError::EmptyCoreList);
    }
    match list.iter().find(|core| !allowed.contains(core)) {
        Some(&core) => Err(BuildError::UnknownCore {
            core,
            allowed: allowed.to_vec(),
        }),
        None => Ok(()),
    }
}

/// Lets the calling thread run on every core of the process, as [`Pinning`] has them; whether that worked.
///
/// For threads that a handler starts: they inherit the worker's core. Works on Linux only; elsewhere it does nothing
/// and answers false.
///
/// ```
/// # let timer = tickwheel::Timer::new().unwrap();
/// timer.run_after(std::time::Duration::ZERO, || {
///     std::thread::spawn(|| {
///         tickwheel::unpin_current_thread();
///         // ... work for many cores ...
///     });
/// }).unwrap();
/// ```
pub fn unpin_current_thread() -> bool {
    cores::widen_current_thread()
}

/// Pins the calling thread to `core`; returns whether the system agreed.
pub(crate) fn pin_current(core: usize) -> bool {
    core < CORE_LIMIT && core_affinity::set_for_current(CoreId { id: core })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_reuse_cores_and_engines_continue_the_round() {
        let three = Cores::with([2, 3, 7], None);
        let deal = |pinning: &Pinning, shards| deal(pinning, &three, shards);
        assert_eq!(
            deal(&Pinning::List(vec![7, 2]), 3),
            [Some(7), Some(2), Some(7)]
        );
        assert_eq!(deal(&Pinning::Off, 2), [None; 2]);
        assert_eq!(deal(&Pinning::List(vec![]), 2), [None; 2]);
        // Other tests of this process build engines, too: only neighbours within an engine are certain.
        let place = |core: Option<usize>| [2, 3, 7].iter().position(|it| Some(*it) == core);
        for pair in deal(&Pinning::Cores, 7).windows(2) {
            assert_eq!(place(pair[1]), place(pair[0]).map(|place| (place + 1) % 3));
        }
        // Under a quota nothing is pinned but what the user names.
        let half = Cores::with([0, 1, 2, 3], Some(0.5));
        assert_eq!(super::deal(&Pinning::Cores, &half, 2), [None; 2]);
        assert_eq!(super::deal(&Pinning::List(vec![3]), &half, 1), [Some(3)]);
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused_not_a_panic() {
        let missing = [CORE_LIMIT - 1, CORE_LIMIT, usize::MAX];
        let all = Cores::of_this_process();
        assert!(
            missing
                .iter()
                .all(|core| all.allowed().contains(core) || !pin_current(*core))
        );
    }

    #[test]
    fn a_worker_is_starved_when_it_is_late_often_and_not_when_it_is_late_now_and_then() {
        let (late, soon) = (Duration::from_millis(3), Duration::from_micros(80));
        let mut often = Starvation::of(&Pinning::Cores);
        assert!(!often.record_lateness(late));
        assert!((0..1500).all(|_| !often.record_lateness(soon)));
        // 1000 sleeps in time have made up for one.
        assert!(!often.record_lateness(late));
        assert!((0..400).all(|_| !often.record_lateness(soon)));
        assert!(often.record_lateness(late));
        let mut seldom = Starvation::of(&Pinning::Cores);
        for _ in 0..100 {
            assert!(!seldom.record_lateness(late));
            assert!((0..1000).all(|_| !seldom.record_lateness(soon)));
        }
        let mut named = Starvation::of(&Pinning::List(vec![0]));
        assert!(
            (0..100).all(|_| !named.record_lateness(late)),
            "a named core is kept"
        );
    }
}
