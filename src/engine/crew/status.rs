//! Where an engine stands, in one word that every schedule reads.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::forks;

/// The phases in the order in which an engine goes through them; some are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum EnginePhase {
    Init = 0,
    Started = 1,
    /// Turn until a given time, then end.
    Draining = 2,
    /// Fire everything, then end.
    Firing = 3,
    Stopped = 4,
}

/// Where an engine stands.
///
/// The word is read by every schedule and written under the engine's lock only. It carries the number of forks at
/// which it was written. In a forked child that number differs, and the word counts as `Init`, which leads a schedule
/// to the start. There the number at which the workers were started tells that they are another process's threads.
pub(crate) struct EngineStatus {
    /// The phase, and the number of forks at which it was written.
    word: AtomicU64,
    /// One more than the number of forks at which the workers were started; 0 without workers.
    home: AtomicU64,
    /// The engine has been told to stop, in this process or before a fork.
    stopping: AtomicBool,
}

impl EngineStatus {
    pub(crate) fn new() -> Self {
        forks::watch();
        Self {
            word: AtomicU64::new(0),
            home: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> EnginePhase {
        // ORDERING: Acquire pairs with `set`: the workers' set-up is seen with `Started`, the end of a drain with
        // `Draining`. [P12]
        match self.word.load(Ordering::Acquire) ^ forks::count() {
            1 => EnginePhase::Started,
            2 => EnginePhase::Draining,
            3 => EnginePhase::Firing,
            4 => EnginePhase::Stopped,
            // Or the word was written before a fork, which an engine without workers goes along with, stopped or not.
            // ORDERING: Relaxed: of a value that is about to stand in the word, or has before a fork.
            _ => {
                if self.stopping.load(Ordering::Relaxed) && !self.is_forked() {
                    EnginePhase::Stopped
                } else {
                    EnginePhase::Init
                }
            }
        }
    }

    /// Returns whether this is the phase, one that comes after `Init`. One comparison, because each schedule asks.
    #[inline]
    pub(crate) fn is(&self, phase: EnginePhase) -> bool {
        // ORDERING: Acquire as in `phase`. [P12]
        self.word.load(Ordering::Acquire) == forks::count() | phase as u64
    }

    /// Goes on to a later phase; does nothing if the engine is there already. Under the engine's lock.
    pub(crate) fn set(&self, phase: EnginePhase) {
        if self.phase() < phase {
            // ORDERING: Relaxed: read together with the word, which follows, or in a fork.
            self.stopping
                .store(phase > EnginePhase::Started, Ordering::Relaxed);
            // ORDERING: Release as in `phase`. [P12]
            self.word
                .store(forks::count() | phase as u64, Ordering::Release);
        }
    }

    /// Notes that the workers are threads of the calling process.
    pub(super) fn live_here(&self) {
        // ORDERING: Release: a thread that sees that there are workers sees where. [P12]
        self.home.store(forks::count() + 1, Ordering::Release);
    }

    /// Returns whether the workers are another process's threads.
    pub(crate) fn is_forked(&self) -> bool {
        // ORDERING: Acquire pairs with `live_here`. [P12]
        let home = self.home.load(Ordering::Acquire);
        home != 0 && home != forks::count() + 1
    }
}
