//! Who is measured.

use clap::ValueEnum;
use std::path::Path;

/// Where Debian has Netty.
pub(crate) const NETTY_JAR: &str = "/usr/share/java/netty-common.jar";

/// Whether Netty can run here: from its source, which takes a compiler.
fn has_netty() -> bool {
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    Path::new(NETTY_JAR).is_file() && has("java") && has("javac")
}

/// tickwheel's timers and their peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Peer {
    /// `tickwheel::LocalTimer`.
    LocalTimer,
    /// `tickwheel::EventLoopTimer`, used by its owner.
    EventLoopTimer,
    /// `tickwheel::Timer` with plain keys.
    Timer,
    /// `tickwheel::Timer` with owned handles.
    TimerHandles,
    /// `tickwheel::Timer` with closures of two words.
    TimerClosures,
    /// `tickwheel::Timer` through a submitter per thread.
    TimerSubmitter,
    /// The same, with deadlines that count from a time which is read now and then.
    TimerTimes,
    /// `tickwheel::Timer` with a slack of 100 us.
    TimerSlack,
    /// `tickwheel::Sleep` on a tokio runtime without timers.
    Sleep,
    /// `tickwheel::LocalTimer` behind a mutex and a condition variable: what does lock-freedom buy?
    LockedWheel,
    /// nexus-timer.
    Nexus,
    /// tokio-util's `DelayQueue`.
    DelayQueue,
    /// tokio's `sleep`.
    Tokio,
    /// pingora-timeout's `fast_sleep`.
    Pingora,
    /// async-io's `Timer`.
    AsyncIo,
    /// Netty's `HashedWheelTimer`, where Java and Debian's `libnetty-java` are installed.
    Netty,
    /// A `BTreeMap` behind one mutex with a condition variable.
    LockedTree,
    /// An indexed 4-ary heap behind a mutex with a condition variable, one per core.
    LockedHeaps,
    /// A binary heap; cancelled timers stay until they surface or are half of it.
    Heap,
    /// No timer: what any would have to do.
    Floor,
}

impl Peer {
    /// As the tables call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "tickwheel LocalTimer",
            Self::EventLoopTimer => "tickwheel EventLoopTimer",
            Self::Timer => "tickwheel Timer",
            Self::TimerHandles => "tickwheel Timer, handles",
            Self::TimerClosures => "tickwheel Timer, closures",
            Self::TimerSubmitter => "tickwheel Timer, submitter",
            Self::TimerTimes => "tickwheel Timer, submitter and times",
            Self::TimerSlack => "tickwheel Timer, slack",
            Self::Sleep => "tickwheel sleep",
            Self::LockedWheel => "Mutex<LocalTimer> + condvar",
            Self::Nexus => "nexus-timer",
            Self::DelayQueue => "tokio-util DelayQueue",
            Self::Tokio => "tokio sleep",
            Self::Pingora => "pingora-timeout",
            Self::AsyncIo => "async-io",
            Self::Netty => "Netty HashedWheelTimer",
            Self::LockedTree => "Mutex<BTreeMap> + condvar",
            Self::LockedHeaps => "Mutex<4-ary heap> per shard",
            Self::Heap => "BinaryHeap, lazy removal",
            Self::Floor => "no timer, only a table",
        }
    }

    /// Whether it is tickwheel, or made of it.
    #[must_use]
    pub fn is_ours(self) -> bool {
        self.name().starts_with("tickwheel") || self == Self::LockedWheel
    }

    /// Whether it may be the "best peer": those are written in Rust.
    #[must_use]
    pub fn is_rival(self) -> bool {
        !self.is_ours() && !matches!(self, Self::Floor | Self::Netty)
    }

    /// Whether what this peer needs is there.
    #[must_use]
    pub fn is_built(self) -> bool {
        self != Self::Netty || has_netty()
    }
}
