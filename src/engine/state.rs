//! Where an engine stands: one word for the whole engine, and why a shard has ended before its time.
//!
//! The word is read by every schedule and written under the lifecycle's lock only. It carries the number of forks at
//! which it was written. In a forked child that number differs, and the word counts as `Init`, which leads a schedule
//! to the start. There the number at which the workers were started tells that they are another process's threads.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::forks;
use crate::time::Time;
use std::sync::OnceLock;

/// Where an engine stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EngineState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// assert_eq!(timer.state(), EngineState::Init);
/// timer.run_after(Duration::from_secs(5), || ())?;
/// assert_eq!(timer.state(), EngineState::Started);
/// timer.stop()?;
/// assert_eq!(timer.state(), EngineState::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum EngineState {
    /// Built; the workers start with the first timer or with [`Timer::start`](crate::Timer::start).
    Init,
    /// Running.
    Started,
    /// Running, but a worker has ended by a panic: its shard refuses timers, and [`Stats`](crate::Stats) says why.
    Failed,
    /// Being shut down in a mode in which what is pending still fires, see [`Shutdown`](crate::Shutdown); new timers
    /// are refused.
    Draining,
    /// Stopped, which is final: by [`Timer::stop`](crate::Timer::stop) and the modes that return pending timers from
    /// the moment of the call, otherwise when the last shard has ended.
    Stopped,
    /// Started by another process, of which this one is a fork: the workers are not here.
    Forked,
}

/// Says what becomes of the timers that are pending when an engine ends.
///
/// New timers are refused from the moment of the call in every mode.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Shutdown, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.run_after(Duration::from_secs(3600), || println!("flushed early, not lost"))?;
/// let unfired = timer.shutdown(Shutdown::FireAll, Duration::from_secs(5))?;
/// assert!(unfired.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Shutdown {
    /// They are returned, due ones included. The default, and what [`Timer::stop`](crate::Timer::stop) does.
    #[default]
    ReturnUnfired,
    /// They all fire now, each on its shard: the one case in which a timer fires before its deadline. They come in the
    /// order of their deadlines; but a timer that was pushed out may stand at an earlier one of its own, and of a tick
    /// with more than 16 384 of them the rest takes turns with what comes later, see [`Budget`](crate::Budget). A
    /// periodic timer fires once, even if it is moved meanwhile, and its next period is returned.
    FireAll,
    /// They fire when they are due, until this time by the engine's clock or until none is left; then the rest is
    /// returned. An engine that its caller turns fires what is due at the moment of the call.
    Drain {
        /// When to give up.
        until: Time,
    },
}

/// The phases in the order in which an engine goes through them; some are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    Init = 0,
    Started = 1,
    /// Turn until a given time, then end.
    Draining = 2,
    /// Fire everything, then end.
    Firing = 3,
    Stopped = 4,
}

/// See the module.
pub(crate) struct EngineStatus {
    /// The phase, and the number of forks at which it was written.
    word: AtomicU64,
    /// One more than the number of forks at which the workers were started; 0 without workers.
    home: AtomicU64,
    /// The engine has been told to end, in this process or before a fork.
    ended: AtomicBool,
    /// Why each shard has ended before its time.
    failures: Box<[OnceLock<String>]>,
}

impl EngineStatus {
    pub(crate) fn new(shards: usize) -> Self {
        let failures = (0..shards).map(|_| OnceLock::new()).collect();
        forks::watch();
        let (word, home) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { word, home, ended: AtomicBool::new(false), failures }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Acquire pairs with `set`: the workers' set-up is seen with `Started`, the end of a drain with
        // `Draining`. [P12]
        match self.word.load(Ordering::Acquire) ^ Self::forks() {
            1 => Phase::Started,
            2 => Phase::Draining,
            3 => Phase::Firing,
            4 => Phase::Stopped,
            // Also of a word that was written before a fork.
            _ => Phase::Init,
        }
    }

    /// Returns the number of forks, above the bits of a phase.
    #[inline]
    fn forks() -> u64 {
        u64::from(forks::count()) << 8
    }

    /// Goes on to a later phase; does nothing if the engine is there already. Under the lifecycle's lock.
    pub(crate) fn set(&self, phase: Phase) {
        if self.phase() < phase {
            // ORDERING: Relaxed: read together with the word, which follows, or in a fork.
            self.ended.store(phase > Phase::Started, Ordering::Relaxed);
            // ORDERING: Release as in `phase`. [P12]
            self.word.store(Self::forks() | phase as u64, Ordering::Release);
        }
    }

    /// Like [`phase`](Self::phase), but a fork does not forget an end. For rare calls.
    pub(super) fn lasting_phase(&self) -> Phase {
        match self.phase() {
            // ORDERING: Relaxed: of a value that is about to stand in the word, or has before a fork.
            Phase::Init if self.ended.load(Ordering::Relaxed) => Phase::Stopped,
            phase => phase,
        }
    }

    /// Notes that the workers are threads of the calling process.
    pub(super) fn live_here(&self) {
        // ORDERING: Release: a thread that sees that there are workers sees where. [P12]
        self.home.store(u64::from(forks::count()) + 1, Ordering::Release);
    }

    /// Returns whether the workers are another process's threads.
    pub(super) fn is_forked(&self) -> bool {
        // ORDERING: Acquire pairs with `live_here`. [P12]
        let home = self.home.load(Ordering::Acquire);
        home != 0 && home != u64::from(forks::count()) + 1
    }

    /// Notes why a shard has ended; the first reason stays.
    pub(super) fn fail(&self, shard: usize, message: String) {
        if let Some(failure) = self.failures.get(shard) {
            let _ = failure.set(message);
        }
    }

    /// Returns why a shard has ended before its time, if it has.
    pub(super) fn failure(&self, shard: usize) -> Option<&String> {
        self.failures.get(shard)?.get()
    }

    /// Returns the state for the user.
    pub(super) fn engine_state(&self) -> EngineState {
        let failed = || self.failures.iter().any(|failure| failure.get().is_some());
        match self.lasting_phase() {
            Phase::Init if self.is_forked() => EngineState::Forked,
            Phase::Init => EngineState::Init,
            Phase::Started if failed() => EngineState::Failed,
            Phase::Started => EngineState::Started,
            Phase::Draining | Phase::Firing => EngineState::Draining,
            Phase::Stopped => EngineState::Stopped,
        }
    }
}

#[cfg(all(test, unix, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_told_that_the_workers_are_elsewhere() {
        let status = EngineStatus::new(1);
        status.live_here();
        status.set(Phase::Started);
        assert_eq!(status.engine_state(), EngineState::Started);
        // SAFETY: the child reads atomics and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no fork");
        if child == 0 {
            let told = status.is_forked()
                && status.phase() == Phase::Init
                && status.engine_state() == EngineState::Forked;
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!told)) };
        }
        let mut ended = 0;
        // SAFETY: waits for our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut ended, 0) }, child);
        assert_eq!(ended, 0, "the child was not told, or a signal");
        assert_eq!((status.is_forked(), status.phase()), (false, Phase::Started));
    }
}
