//! Which core each worker runs on.
//!
//! The cores a thread may use are its affinity mask, not the machine's core count: under `taskset`,
//! in a container or in a test the mask may be a single core. The builder reads the mask once, on
//! the thread that builds the engine; a worker pins itself once, first thing on its own thread. A
//! failed pin is reported and the worker runs unpinned.

use crate::types::BuildError;
use core_affinity::CoreId;
use thiserror::Error;

/// Which core each worker is pinned to.
///
/// Cores are named by the operating system's number. On systems without thread affinity every
/// choice acts like [`Pinning::Off`]; a pin that fails is logged and shown in the statistics, never
/// fatal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Worker `i` on the `i`-th core that the building thread may use, starting over when there are
    /// more workers than cores.
    #[default]
    Cores,
    /// Worker `i` on the `i`-th core of this list, starting over when there are more workers than
    /// entries. The builder refuses an empty list and cores that the building thread may not use.
    List(Vec<usize>),
    /// No pinning: the operating system moves workers as it likes.
    Off,
}

/// A worker could not be pinned; it runs unpinned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PinError {
    /// The system refused, or has no such thing.
    #[error(
        "the system refused to pin the thread to core {core}; \
         check that the core exists, or use Pinning::Off"
    )]
    Refused { core: usize },
    /// The system agreed, but the thread's mask is not that one core.
    #[error(
        "the thread was pinned to core {core} but its mask is now {found:?}; \
         something else changes this process's affinity"
    )]
    NotInForce { core: usize, found: Vec<usize> },
}

/// One above the largest core number that an affinity mask can hold.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CORE_LIMIT: usize = 1024;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CORE_LIMIT: usize = usize::BITS as usize;

/// The cores that the calling thread may run on, in rising order; never empty.
pub(crate) fn allowed_cores() -> Vec<usize> {
    let mut cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    if cores.is_empty() {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        cores.extend(0..count);
    }
    cores.sort_unstable();
    cores
}

/// One shard for each core that the calling thread may run on, and at least one.
pub(crate) fn default_shards() -> usize {
    allowed_cores().len().clamp(1, crate::types::checks::MAX_SHARDS)
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
        Some(&core) => Err(BuildError::UnknownCore { core, allowed: allowed.to_vec() }),
        None => Ok(()),
    }
}

/// The core for the worker of `shard`, or `None` where it is not to be pinned.
///
/// `allowed` is the mask of the thread that built the engine. It is an argument because a worker's
/// own mask may already be narrower than that.
pub(crate) fn core_for(pinning: &Pinning, shard: usize, allowed: &[usize]) -> Option<usize> {
    let cores = match pinning {
        Pinning::Cores => allowed,
        Pinning::List(list) => list,
        Pinning::Off => return None,
    };
    cores.get(shard.checked_rem(cores.len())?).copied()
}

/// Pins the calling thread to `core` and checks that it took effect, where the system can tell.
pub(crate) fn pin_current(core: usize) -> Result<(), PinError> {
    if core >= CORE_LIMIT || !core_affinity::set_for_current(CoreId { id: core }) {
        return Err(PinError::Refused { core });
    }
    verify(core)
}

/// Reads the thread's mask back: it must be the one core.
#[cfg(target_os = "linux")]
fn verify(core: usize) -> Result<(), PinError> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    // A system that cannot be asked is trusted: the pin itself has succeeded.
    let Ok(mask) = sched_getaffinity(None) else {
        return Ok(());
    };
    if mask.count() == 1 && mask.is_set(core) {
        return Ok(());
    }
    let found = (0..CpuSet::MAX_CPU).filter(|&core| mask.is_set(core)).collect();
    Err(PinError::NotInForce { core, found })
}

#[cfg(not(target_os = "linux"))]
fn verify(_core: usize) -> Result<(), PinError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_start_over_when_cores_run_out() {
        let allowed = [2, 3, 7];
        let cores =
            |pinning: &Pinning| [0, 1, 2, 3].map(|shard| core_for(pinning, shard, &allowed));
        assert_eq!(cores(&Pinning::Cores), [Some(2), Some(3), Some(7), Some(2)]);
        assert_eq!(cores(&Pinning::List(vec![7, 2])), [Some(7), Some(2), Some(7), Some(2)]);
        assert_eq!(cores(&Pinning::Off), [None; 4]);
        assert_eq!(cores(&Pinning::List(vec![])), [None; 4]);
        assert_eq!(Pinning::default(), Pinning::Cores);
    }

    #[test]
    fn a_list_must_name_cores_that_may_be_used() {
        let allowed = [2, 3];
        let check = |list: &[usize]| check_pinning(&Pinning::List(list.to_vec()), &allowed);
        assert_eq!(check(&[3, 3, 2]), Ok(()));
        assert_eq!(check(&[]), Err(BuildError::EmptyCoreList));
        let unknown = BuildError::UnknownCore { core: 4, allowed: allowed.to_vec() };
        assert_eq!(check(&[2, 4]), Err(unknown));
        assert_eq!(check_pinning(&Pinning::Cores, &allowed), Ok(()));
        assert_eq!(check_pinning(&Pinning::Off, &[]), Ok(()));
    }

    #[test]
    fn there_is_always_a_core_and_a_shard() {
        let cores = allowed_cores();
        assert!(!cores.is_empty() && cores.is_sorted());
        assert_eq!(default_shards(), cores.len().min(crate::types::checks::MAX_SHARDS));
    }

    #[test]
    fn a_core_out_of_range_is_refused_not_a_panic() {
        for core in [CORE_LIMIT, usize::MAX] {
            let error = pin_current(core).unwrap_err();
            assert_eq!(error, PinError::Refused { core });
            assert!(error.to_string().contains(&core.to_string()));
        }
    }

    /// Masks belong to threads, so each test changes only its own thread's.
    #[cfg(target_os = "linux")]
    mod masked {
        use super::*;
        use rustix::thread::{CpuSet, sched_setaffinity};

        fn on_own_thread(test: impl FnOnce() + Send + 'static) {
            std::thread::spawn(test).join().unwrap();
        }

        #[test]
        fn a_mask_of_one_core_gives_one_core_and_one_shard() {
            for core in allowed_cores() {
                on_own_thread(move || {
                    let mut mask = CpuSet::new();
                    mask.set(core);
                    sched_setaffinity(None, &mask).unwrap();
                    assert_eq!(allowed_cores(), [core]);
                    assert_eq!(default_shards(), 1);
                    let unknown = check_pinning(&Pinning::List(vec![core + 1]), &allowed_cores());
                    assert!(matches!(unknown, Err(BuildError::UnknownCore { .. })));
                });
            }
        }

        #[test]
        fn a_pinned_thread_runs_on_its_core_only() {
            for core in allowed_cores() {
                on_own_thread(move || {
                    assert_eq!(pin_current(core), Ok(()));
                    assert_eq!(allowed_cores(), [core]);
                    assert_eq!(rustix::thread::sched_getcpu(), core);
                });
            }
        }

        #[test]
        fn a_core_that_does_not_exist_is_refused() {
            on_own_thread(|| {
                let before = allowed_cores();
                let missing = CORE_LIMIT - 1;
                if !before.contains(&missing) {
                    assert_eq!(pin_current(missing), Err(PinError::Refused { core: missing }));
                    assert_eq!(allowed_cores(), before);
                }
            });
        }
    }
}
