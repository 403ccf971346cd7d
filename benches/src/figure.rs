//! What is measured: the workloads of the project's performance page, with their sizes.

use crate::peer::Peer;
use std::time::Duration;

/// How big the workloads are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Scale {
    /// So small that the figures mean nothing: for tests of this program.
    Tiny,
    /// The same workloads with fewer steps; leaves out those of ten million.
    Quick,
    /// Everything.
    Full,
}

/// One figure. Sizes are those of the full scale; the smaller scales may cut them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Figure {
    /// So many resident timers; cancel a random one, schedule another.
    Churn(usize),
    /// The same, oldest first, with a clock that ticks.
    ChurnTick(usize),
    /// Schedule so many, run a virtual clock through them, all fire.
    Life(usize),
    /// Push the deadline of a random one of so many further out.
    Rearm(usize),
    /// Producer threads, each of which keeps so many timers in flight.
    Cross {
        /// Threads.
        producers: usize,
        /// Timers in flight per thread.
        in_flight: usize,
    },
    /// Scheduled by one thread, cancelled by another.
    RemoteCancel,
    /// One schedule, by the form in which its deadline is given.
    Forms,
    /// So many timers at random over two seconds of the real clock.
    Late {
        /// Timers.
        timers: usize,
        /// The tick of those peers that have one.
        tick_us: u64,
    },
    /// A million timers due in the same tick while a producer goes on.
    Burst,
    /// A million timers an hour away.
    Idle,
    /// Ten million one-hour timers, scheduled and cancelled at once.
    Zombie,
    /// Five million timers, all cancelled: what stays.
    Shrink,
    /// Due now, while the owner sleeps for an hour.
    Wake,
}

/// The names that `--only` takes.
pub const GROUPS: [&str; 11] = [
    "churn", "life", "rearm", "cross", "forms", "late", "idle", "zombie", "shrink", "burst", "wake",
];

impl Figure {
    /// Every figure of a scale, in the order of the tables.
    #[must_use]
    pub fn all(scale: Scale) -> Vec<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let full = scale == Scale::Full;
        let cross = |producers, in_flight| Self::Cross { producers, in_flight };
        let late = |timers, tick_us| Self::Late { timers, tick_us };
        let mut all = vec![
            Self::Churn(1_000),
            Self::Churn(100_000),
            Self::Churn(1_000_000),
            Self::ChurnTick(100_000),
            Self::ChurnTick(1_000_000),
            Self::Life(1_000_000),
        ];
        all.extend(full.then_some(Self::Life(10_000_000)));
        all.extend([Self::Rearm(100_000), cross(1, 1024), cross(1, 100_000), cross(2, 1024)]);
        all.extend((full && cores > 2).then_some(cross(cores, 1024)));
        all.extend(full.then_some(cross(32, 1024)));
        all.extend([Self::RemoteCancel, Self::Forms, late(100_000, 1000), late(100_000, 50)]);
        all.extend(full.then_some(late(1_000_000, 1000)));
        all.extend([Self::Burst, Self::Idle, Self::Zombie, Self::Shrink, Self::Wake]);
        all
    }

    /// Its name, as goals and commands use it.
    #[must_use]
    pub fn id(self) -> String {
        match self {
            Self::Churn(n) => format!("churn-{}", short(n)),
            Self::ChurnTick(n) => format!("churn-tick-{}", short(n)),
            Self::Life(n) => format!("life-{}", short(n)),
            Self::Rearm(n) => format!("rearm-{}", short(n)),
            Self::Cross { producers, in_flight: 1024 } => format!("cross-{producers}"),
            Self::Cross { producers, in_flight } => {
                format!("cross-{producers}-{}", short(in_flight))
            }
            Self::RemoteCancel => "remote-cancel".to_owned(),
            Self::Forms => "forms".to_owned(),
            Self::Late { timers, tick_us: 1000 } => format!("late-{}", short(timers)),
            Self::Late { timers, tick_us } => format!("late-{}-{tick_us}us", short(timers)),
            Self::Burst => "burst".to_owned(),
            Self::Idle => "idle-1M".to_owned(),
            Self::Zombie => "zombie".to_owned(),
            Self::Shrink => "shrink".to_owned(),
            Self::Wake => "wake".to_owned(),
        }
    }

    /// The figure of this name.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        Self::all(Scale::Full).into_iter().find(|figure| figure.id() == id)
    }

    /// What it does, in a sentence; the numbers are in its name.
    #[must_use]
    #[rustfmt::skip]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Churn(_) => "Resident timers of 1-60 s; cancel a random one, schedule another.",
            Self::ChurnTick(_) => "The same for 2-3 s, the oldest first, on a clock that moves each thousandth part.",
            Self::Life(_) => "Schedule timers over 60 s, run a virtual clock through, all fire.",
            Self::Rearm(_) => "Push the deadline of a random resident timer out.",
            Self::Cross { .. } => "Threads cancel the oldest of their timers of 10-30 s and schedule another. \
                The percentiles are of one schedule, a clock read included.",
            Self::RemoteCancel => "One thread schedules batches of 4096, another cancels them.",
            Self::Forms => "One schedule on an engine that is turned by hand, by the form of its deadline: \
                10-30 s ahead, a delay with a slack of 100 ms, due at once. Cancels are not timed.",
            Self::Late { .. } => "Timers at random over 2 s of the real clock. Lateness counts from just before \
                the call that schedules.",
            Self::Burst => "1 M timers due in one tick, while one thread goes on with cross and one timer is due \
                in each of the next 500 ms. One shard.",
            Self::Idle => "1 M timers an hour away, nothing else.",
            Self::Zombie => "10 M one-hour timers, cancelled as soon as scheduled (2 M in a quick run).",
            Self::Shrink => "5 M one-hour timers, then all cancelled: memory at the peak and 3 s later.",
            Self::Wake => "Due at once, while the owner sleeps for an hour: from the call to the handler.",
        }
    }

    /// Whether one thread does everything.
    #[must_use]
    pub fn is_local(self) -> bool {
        matches!(self, Self::Churn(_) | Self::ChurnTick(_) | Self::Life(_) | Self::Rearm(_))
    }

    /// Whether timers fire on the real clock.
    #[must_use]
    pub fn fires(self) -> bool {
        matches!(self, Self::Late { .. } | Self::Burst | Self::Wake)
    }

    /// Returns the name under which `--only` selects it, the metric by which peers are compared, and whether more of it
    /// is better.
    const fn kind(self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Churn(_) | Self::ChurnTick(_) => ("churn", "ns/pair", false),
            Self::Life(_) => ("life", "ns/timer", false),
            Self::Rearm(_) => ("rearm", "ns/rearm", false),
            Self::Cross { .. } => ("cross", "M pairs/s", true),
            Self::RemoteCancel => ("cross", "ns/cancel", false),
            Self::Forms => ("forms", "delay ns", false),
            Self::Late { tick_us: 1000, .. } => ("late", "p99 ms", false),
            Self::Late { .. } => ("late", "p99 us", false),
            Self::Burst => ("burst", "fired in ms", false),
            Self::Idle => ("idle", "bytes/timer", false),
            Self::Zombie => ("zombie", "peak MiB", false),
            Self::Shrink => ("shrink", "left MiB", false),
            Self::Wake => ("wake", "p50 us", false),
        }
    }

    /// The name under which `--only` selects it.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.kind().0
    }

    /// The metric by which peers are compared, and whether more is better.
    #[must_use]
    pub fn headline(self) -> (&'static str, bool) {
        (self.kind().1, self.kind().2)
    }

    /// Who takes part.
    #[must_use]
    pub fn peers(self) -> Vec<Peer> {
        use Peer::{
            AsyncIo, DelayQueue, EventLoopTimer, Floor, Heap, LocalTimer, LockedHeaps, LockedTree,
            LockedWheel, Netty, Nexus, Pingora, Sleep, Timer, TimerClosures, TimerHandles,
            TimerSlack, TimerSubmitter, TimerTimes, Tokio,
        };
        let mut peers = match self {
            Self::Churn(_) | Self::ChurnTick(_) | Self::Rearm(_) => {
                vec![LocalTimer, EventLoopTimer, Nexus, DelayQueue, Tokio, Heap, Floor]
            }
            Self::Life(_) => {
                vec![LocalTimer, EventLoopTimer, Nexus, DelayQueue, Tokio, Heap]
            }
            Self::Cross { producers: 32, .. } => {
                vec![Timer, LockedWheel, Tokio, Pingora, LockedHeaps]
            }
            Self::Cross { .. } | Self::RemoteCancel => vec![
                Timer,
                TimerHandles,
                TimerClosures,
                TimerSubmitter,
                TimerTimes,
                Sleep,
                LockedWheel,
                Tokio,
                Pingora,
                AsyncIo,
                LockedTree,
                LockedHeaps,
                Netty,
            ],
            Self::Forms => vec![Timer],
            Self::Late { tick_us: 1000, .. } => {
                vec![Timer, Sleep, Tokio, Pingora, LockedTree]
            }
            Self::Late { .. } => vec![Timer, TimerSlack, LockedTree, AsyncIo],
            Self::Burst => vec![Timer, LockedWheel, Tokio, LockedTree],
            Self::Idle => {
                vec![Timer, Sleep, LockedWheel, Tokio, Pingora, AsyncIo, LockedTree]
            }
            Self::Zombie => {
                vec![Timer, LockedWheel, Tokio, Pingora, AsyncIo, LockedTree]
            }
            Self::Shrink => vec![Timer, LockedWheel, Tokio, LockedTree],
            Self::Wake => vec![Timer, LockedWheel, Tokio, AsyncIo, LockedTree],
        };
        if self == Self::RemoteCancel {
            // They save something where a thread schedules and cancels.
            peers.retain(|peer| !matches!(peer, TimerSubmitter | TimerTimes));
            peers.retain(|peer| *peer != Netty);
        }
        peers.retain(|peer| peer.is_built());
        peers
    }

    /// What a peer leaves out, or how it was helped, in this figure.
    #[must_use]
    pub fn remark(self, peer: Peer) -> &'static str {
        let local = self.is_local();
        match peer {
            Peer::LockedWheel => "this project's own wheel behind a lock",
            Peer::Nexus => "bounded, `poll_and_rebalance`",
            Peer::DelayQueue => "deadlines given as `Instant`s, so no clock is read",
            Peer::Sleep if self.fires() => "one task per timer",
            Peer::Sleep => "created, polled once and dropped, on a tokio runtime's workers",
            Peer::Tokio if local => "one waker for all: the payload is not delivered",
            Peer::Tokio if self.fires() => "one task per timer",
            Peer::Tokio => "on the runtime's workers, boxed",
            Peer::Pingora => "10 ms slots; never removes cancelled timers",
            Peer::AsyncIo if self.fires() => "booked in the waker, no executor",
            Peer::AsyncIo => "polled once; no executor",
            Peer::Netty => "Java, after 3 s of warm-up; one queue and one worker for all",
            Peer::Heap => "cancelled timers stay until they are half of it",
            Peer::Floor => "payloads and handles, nothing ever fires: the floor",
            Peer::TimerHandles => "each schedule returns an owned `TimerHandle`",
            Peer::TimerClosures => "a closure of two words per timer",
            Peer::TimerTimes => "the clock is read once per 512 pairs",
            Peer::TimerSlack => "100 us",
            Peer::LockedHeaps => "removes a cancelled timer at once",
            Peer::LocalTimer
            | Peer::EventLoopTimer
            | Peer::Timer
            | Peer::TimerSubmitter
            | Peer::LockedTree => "",
        }
    }
}

/// `1_000` as `1k`, `1_000_000` as `1M`.
#[must_use]
pub fn short(n: usize) -> String {
    match n {
        _ if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        _ if n >= 1_000 && n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        _ => n.to_string(),
    }
}

impl Scale {
    /// Timers, cut for the tiny scale.
    #[must_use]
    pub fn timers(self, full: usize) -> usize {
        if self == Self::Tiny { (full / 1000).clamp(16, 2000) } else { full }
    }

    /// Steps: `full`, a fraction of it in a quick run, a handful in a tiny one.
    #[must_use]
    pub fn steps(self, full: usize) -> usize {
        match self {
            Self::Tiny => 2_000.min(full),
            Self::Quick => full / 4,
            Self::Full => full,
        }
    }

    /// How long something is watched.
    #[must_use]
    pub fn watch(self, full: Duration) -> Duration {
        match self {
            Self::Tiny => Duration::from_millis(20),
            Self::Quick => full / 4,
            Self::Full => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_a_group() {
        let all = Figure::all(Scale::Full);
        let ids: HashSet<_> = all.iter().map(|figure| figure.id()).collect();
        assert_eq!(ids.len(), all.len());
        for figure in all {
            assert_eq!(Figure::of_id(&figure.id()), Some(figure));
            assert!(GROUPS.contains(&figure.group()));
            assert!(figure.peers()[0].is_ours());
        }
    }
}
