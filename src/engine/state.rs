//! Where an engine stands: one word for the whole engine, and why a shard has ended before its time.
//!
//! The word is read by every schedule and written under the lifecycle's lock only. It lies in memory that a forked
//! child finds zero: `Init`, which leads a schedule to the start. There a second byte of that kind tells whether the
//! workers are this process's threads. The number of the process does not tell: in another namespace it may be the
//! same, and asking for it is a system call.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::wiped::WipedByte;
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
    word: WipedByte,
    /// 1 in the process whose threads the workers are.
    here: WipedByte,
    /// There are workers, in this process or in the one that was forked.
    has_workers: AtomicBool,
    /// The engine has been told to end, in this process or before a fork.
    ended: AtomicBool,
    /// Why each shard has ended before its time.
    failures: Box<[OnceLock<String>]>,
}

impl EngineStatus {
    pub(crate) fn new(shards: usize) -> Self {
        let failures = (0..shards).map(|_| OnceLock::new()).collect();
        let (word, here) = (WipedByte::new(), WipedByte::new());
        let (has_workers, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { word, here, has_workers, ended, failures }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Acquire pairs with `set`: the workers' set-up is seen with `Started`, the end of a drain with
        // `Draining`. [P12]
        match self.word.get().load(Ordering::Acquire) {
            0 => Phase::Init,
            1 => Phase::Started,
            2 => Phase::Draining,
            3 => Phase::Firing,
            _ => Phase::Stopped,
        }
    }

    /// Goes on to a later phase; does nothing if the engine is there already. Under the lifecycle's lock.
    pub(crate) fn set(&self, phase: Phase) {
        if self.phase() < phase {
            // ORDERING: Relaxed: read together with the word, which follows, or in a fork.
            self.ended.store(phase > Phase::Started, Ordering::Relaxed);
            // ORDERING: Release as in `phase`. [P12]
            self.word.get().store(phase as u8, Ordering::Release);
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

    /// The calling process is the one whose threads the workers are.
    pub(super) fn live_here(&self) {
        // ORDERING: Relaxed: published by the next store.
        self.here.get().store(1, Ordering::Relaxed);
        // ORDERING: Release: a thread that sees that there are workers sees where. [P12]
        self.has_workers.store(true, Ordering::Release);
    }

    /// Whether the workers are another process's threads.
    pub(super) fn is_forked(&self) -> bool {
        // ORDERING: Acquire pairs with `live_here`. [P12] Relaxed: published by the first.
        self.has_workers.load(Ordering::Acquire) && self.here.get().load(Ordering::Relaxed) == 0
    }

    /// Notes why a shard has ended; the first reason stays.
    pub(super) fn fail(&self, shard: usize, message: String) {
        if let Some(failure) = self.failures.get(shard) {
            let _ = failure.set(message);
        }
    }

    /// Why a shard has ended before its time, if it has.
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

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_told_whatever_its_number() {
        let status = EngineStatus::new(1);
        status.live_here();
        status.set(Phase::Started);
        assert!(!status.is_forked());
        for wiped in [&status.word, &status.here] {
            // ORDERING: Relaxed: one thread.
            wiped.get().store(0, Ordering::Relaxed);
        }
        assert!(status.is_forked());
        assert_eq!(status.engine_state(), EngineState::Forked);
    }
}
