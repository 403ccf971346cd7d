//! The timers that are measured.

use crate::process::take_priority;
use clap::ValueEnum;
use std::path::Path;

/// The place of Debian's Netty.
pub(crate) const NETTY_JAR: &str = "/usr/share/java/netty-common.jar";

/// tickwheel's timers and their peers, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// `tickwheel::LocalTimer`.
    LocalTimer,
    /// `tickwheel::EventLoopTimer`, used by its owner.
    EventLoopTimer,
    /// The same, while a remote exists.
    EventLoopRemote,
    /// `tickwheel::Timer` with plain keys.
    Timer,
    /// `tickwheel::Timer` with owned handles.
    TimerHandles,
    /// `tickwheel::Timer` with closures of two words.
    TimerClosures,
    /// `tickwheel::Timer`, with deadlines that count from a time which is read now and then.
    TimerTimes,
    /// `tickwheel::Timer` with a slack of 100 us.
    TimerSlack,
    /// `tickwheel::Timer` whose workers have a round-robin priority.
    TimerPriority,
    /// `tickwheel::Timer` whose workers are pinned to no core.
    TimerUnpinned,
    /// `tickwheel::Sleep` on a tokio runtime without timers.
    Sleep,
    /// `tickwheel_util::time` in the place of `tokio::time`.
    Time,
    /// `tickwheel::LocalTimer` behind a mutex and a condition variable: what does lock-freedom buy?
    LockedWheel,
    /// nexus-timer.
    Nexus,
    /// bitwheel.
    Bitwheel,
    /// tokio-util's `DelayQueue`.
    DelayQueue,
    /// tokio's `sleep`.
    Tokio,
    /// The same on tokio's alternative timer, which `RUSTFLAGS="--cfg tokio_unstable"` adds.
    #[cfg(tokio_unstable)]
    TokioAlternative,
    /// kestrel-timer, which the feature `kestrel` adds.
    #[cfg(feature = "kestrel")]
    Kestrel,
    /// pingora-timeout's `fast_sleep`.
    Pingora,
    /// async-io's `Timer`.
    AsyncIo,
    /// A `BTreeMap` behind one mutex with a condition variable.
    LockedTree,
    /// An indexed 4-ary heap behind a mutex with a condition variable, one per core.
    LockedHeaps,
    /// Netty's `HashedWheelTimer`, where Java and Debian's `libnetty-java` are installed.
    Netty,
    /// Netty's wheel in its plainest form, of `examples/hashed_wheel.rs`; where threads share it, behind one queue and one
    /// worker.
    Hashed,
    /// A binary heap; cancelled timers stay until they surface or are half of it.
    Heap,
    /// A `BTreeMap`.
    Tree,
    /// No timer: what any would have to do.
    Floor,
}

impl Peer {
    /// Returns its name in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "tickwheel LocalTimer",
            Self::EventLoopTimer => "tickwheel EventLoopTimer",
            Self::EventLoopRemote => "tickwheel EventLoopTimer, a remote",
            Self::Timer => "tickwheel Timer",
            Self::TimerHandles => "tickwheel Timer, handles",
            Self::TimerClosures => "tickwheel Timer, closures",
            Self::TimerTimes => "tickwheel Timer, given times",
            Self::TimerSlack => "tickwheel Timer, slack",
            Self::TimerPriority => "tickwheel Timer, priority",
            Self::TimerUnpinned => "tickwheel Timer, unpinned",
            Self::Sleep => "tickwheel sleep",
            Self::Time => "tickwheel time",
            Self::LockedWheel => "Mutex<LocalTimer> + condvar",
            Self::Nexus => "nexus-timer",
            Self::Bitwheel => "bitwheel",
            Self::DelayQueue => "tokio-util DelayQueue",
            Self::Tokio => "tokio sleep",
            #[cfg(tokio_unstable)]
            Self::TokioAlternative => "tokio sleep, alternative timer",
            #[cfg(feature = "kestrel")]
            Self::Kestrel => "kestrel-timer",
            Self::Pingora => "pingora-timeout",
            Self::AsyncIo => "async-io",
            Self::LockedTree => "Mutex<BTreeMap> + condvar",
            Self::LockedHeaps => "Mutex<4-ary heap> per shard",
            Self::Netty => "Netty HashedWheelTimer",
            Self::Hashed => "hashed wheel, plain",
            Self::Heap => "BinaryHeap, lazy removal",
            Self::Tree => "BTreeMap",
            Self::Floor => "no timer, only a table",
        }
    }

    /// Returns whether it is tickwheel as its users have it.
    pub fn is_ours(self) -> bool {
        self.name().starts_with("tickwheel")
    }

    /// Returns whether it may be the "best peer": those are written in Rust, and not only to show something.
    pub fn is_rival(self) -> bool {
        !self.is_ours()
            && !matches!(
                self,
                Self::LockedWheel | Self::Floor | Self::Netty | Self::Hashed
            )
    }

    /// Returns whether it runs here: Netty is compiled from its source, and a priority takes a right.
    pub fn is_built(self) -> bool {
        if self == Self::TimerPriority {
            // On a thread of its own, which ends with it.
            return std::thread::spawn(|| take_priority().is_ok())
                .join()
                .unwrap_or(false);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has = |name| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        self != Self::Netty || Path::new(NETTY_JAR).is_file() && has("java") && has("javac")
    }
}
