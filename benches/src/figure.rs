//! The figures: the workloads of the project's performance page, with their sizes.

use crate::peer::Peer;
use clap::ValueEnum;
use std::time::Duration;

/// The size of the workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// So small that the figures mean nothing: for tests of this program.
    Tiny,
    /// The same workloads with fewer steps; leaves out those of ten million.
    Quick,
    /// Everything.
    Full,
}

/// A figure: its name in goals, commands and tables, and its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// The name.
    pub id: &'static str,
    /// The work, with the sizes of the full scale; the smaller scales may cut them.
    pub work: Work,
}

/// The work of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// So many resident timers; cancel a random one, schedule another.
    Churn(usize),
    /// The same, oldest first, with a clock that ticks.
    ChurnTick(usize),
    /// Schedule so many, run a virtual clock through them, all fire.
    Life(usize),
    /// Push the deadline of a random one of so many further out.
    Rearm(usize),
    /// The round of a loop in which nothing is due.
    IdleRound,
    /// The calls of a loop's own thread beside so many residents.
    LoopOwner(usize),
    /// One timer is due in each poll of a loop.
    Sparse,
    /// Timers of connections that are reset to 25 ms, 300 ms and 30 s by turns.
    Quic,
    /// So many connections arm three timers each, cancel one, then all.
    Reconnect,
    /// Tasks that sleep 2 to 20 ms again and again.
    Beats,
    /// A task for each sleep of 2 to 20 ms.
    Spawned,
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
        /// A busy loop on each core.
        busy: bool,
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
    Wake {
        /// A busy loop on each core.
        busy: bool,
    },
}

impl Figure {
    /// Returns every figure of a scale, in the order of the tables.
    pub fn all(scale: Scale) -> Vec<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cross = |producers, in_flight| Work::Cross {
            producers,
            in_flight,
        };
        let late = |timers, tick_us| Work::Late {
            timers,
            tick_us,
            busy: false,
        };
        let late_busy = Work::Late {
            timers: 50_000,
            tick_us: 1000,
            busy: true,
        };
        let all = [
            ("churn-1k", Work::Churn(1_000)),
            ("churn-100k", Work::Churn(100_000)),
            ("churn-1M", Work::Churn(1_000_000)),
            ("churn-tick-100k", Work::ChurnTick(100_000)),
            ("churn-tick-1M", Work::ChurnTick(1_000_000)),
            ("life-1M", Work::Life(1_000_000)),
            ("life-10M", Work::Life(10_000_000)),
            ("rearm-100k", Work::Rearm(100_000)),
            ("idle-round", Work::IdleRound),
            ("loop-owner-1k", Work::LoopOwner(1_000)),
            ("loop-owner-100k", Work::LoopOwner(100_000)),
            ("loop-owner-1M", Work::LoopOwner(1_000_000)),
            ("sparse", Work::Sparse),
            ("quic", Work::Quic),
            ("reconnect", Work::Reconnect),
            ("beats", Work::Beats),
            ("spawned", Work::Spawned),
            ("cross-1", cross(1, 1024)),
            ("cross-1-100k", cross(1, 100_000)),
            ("cross-2", cross(2, 1024)),
            ("cross-cores", cross(cores, 1024)),
            ("cross-32", cross(32, 1024)),
            ("remote-cancel", Work::RemoteCancel),
            ("forms", Work::Forms),
            ("late-100k", late(100_000, 1000)),
            ("late-100k-50us", late(100_000, 50)),
            ("late-1M", late(1_000_000, 1000)),
            ("late-busy", late_busy),
            ("burst", Work::Burst),
            ("idle-1M", Work::Idle),
            ("zombie", Work::Zombie),
            ("shrink", Work::Shrink),
            ("wake", Work::Wake { busy: false }),
            ("busy-wake", Work::Wake { busy: true }),
        ];
        let is_long = |id| {
            let long = ["life-10M", "cross-cores", "cross-32", "late-1M"];
            long.contains(&id) || id == "loop-owner-1M"
        };
        let is_wanted = |figure: &Self| {
            (scale == Scale::Full || !is_long(figure.id))
                && (cores > 2 || figure.id != "cross-cores")
        };
        all.into_iter()
            .map(|(id, work)| Self { id, work })
            .filter(is_wanted)
            .collect()
    }

    /// Returns the group by which `--only` selects it as well as by its name.
    pub fn group(&self) -> &'static str {
        if matches!(self.work, Work::LoopOwner(_)) {
            return "loop-owner";
        }
        self.id.split_once('-').map_or(self.id, |id| id.0)
    }

    /// Returns the peers that take part and are installed.
    pub fn peers(&self) -> Vec<Peer> {
        let all = Peer::value_variants().iter().copied();
        all.filter(|peer| self.work.has(*peer) && peer.is_built())
            .collect()
    }

    /// Returns what a peer leaves out, or how it was helped, in this figure.
    pub fn remark(&self, peer: Peer) -> &'static str {
        match peer {
            Peer::Sleep | Peer::Tokio if self.work.fires() => "one task per timer",
            Peer::AsyncIo if self.work.fires() => "booked in the waker, no executor",
            Peer::Tokio if self.work.is_local() => {
                "one waker for all: the payload is not delivered"
            }
            Peer::TimerHandles => "each schedule returns an owned `TimerHandle`",
            Peer::TimerClosures => "a closure of two words per timer",
            Peer::TimerTimes => "the clock is read once per 512 pairs",
            Peer::TimerSlack => "100 us",
            Peer::TimerPriority => "`on_worker_start` gives the workers a round-robin priority",
            Peer::Bitwheel => {
                "64 slots with room for 128 timers each in 3 ranges, the rest in its `BTreeMap`, checked every 32 ms"
            }
            Peer::Tree => "removes a cancelled timer at once",
            Peer::Sleep => "created, polled once and dropped, on a tokio runtime's workers",
            Peer::LockedWheel => "this project's own wheel behind a lock",
            Peer::Nexus => "bounded, `poll_and_rebalance`",
            Peer::DelayQueue => "deadlines given as `Instant`s, so no clock is read",
            Peer::Tokio | Peer::Time if self.work.is_of_servers() => "on a runtime of tokio",
            Peer::Tokio => "on the runtime's workers, boxed",
            #[cfg(tokio_unstable)]
            Peer::TokioAlternative => "on the runtime's workers, boxed",
            #[cfg(feature = "kestrel")]
            Peer::Kestrel => "a callback per timer; one lock for all",
            Peer::Pingora => "10 ms slots; never removes cancelled timers",
            Peer::AsyncIo => "polled once; no executor",
            Peer::LockedHeaps => "removes a cancelled timer at once",
            Peer::Netty => "Java, after 3 s of warm-up; one queue and one worker for all",
            Peer::Hashed if self.work.is_local() => "32 768 buckets of 1 ms; unlinks at once",
            Peer::Hashed => {
                "32 768 buckets of 1 ms, one queue and one worker for all, as Netty has it"
            }
            Peer::Heap => "cancelled timers stay until they are half of it",
            Peer::Floor => "payloads and handles, nothing ever fires: the floor",
            _ => "",
        }
    }
}

impl Work {
    /// Says what it does, in a sentence; the numbers are in the figure's name.
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
            Self::IdleRound => "1000 residents, nothing due, nothing sent: `poll`; the same by `expired`; the question for \
                the timeout; a sleeping round (clock, poll, timeout); a spinning round (clock, poll). Processor time \
                of the thread, the least of 50 chunks.",
            Self::LoopOwner(_) => "The calls of a loop's own thread beside residents: cancel and schedule, a random \
                one and the oldest; move to later and to earlier; fire, in 100 ticks.",
            Self::Late { busy: true, .. } => "The same beside a busy loop on each core.",
            Self::Late { .. } => "Timers at random over 2 s of the real clock. Lateness counts from just before \
                the call that schedules.",
            Self::Sparse => "1000 timers, one due in each tick: a poll per tick, which fires it. Processor time of the thread.",
            Self::Quic => "10 000 connections, whose timer is reset to 25 ms, 300 ms and 30 s by turns, and polled. \
                Processor time of the process.",
            Self::Reconnect => "100 000 connections, five times: a handshake timeout armed and dropped, an idle timeout and \
                a heartbeat armed; then all dropped. Processor time of the process; a call arms one, a clock read included.",
            Self::Beats => "1100 tasks that sleep 2 to 20 ms again and again: 100 000 timers per second.",
            Self::Spawned => "100 000 tasks per second, each of which sleeps once for 2 to 20 ms.",
            Self::Burst => "1 M timers due in one tick, while one thread goes on with cross and one timer is due \
                in each of the next 500 ms. One shard.",
            Self::Idle => "1 M timers an hour away, nothing else.",
            Self::Zombie => "10 M one-hour timers, cancelled as soon as scheduled (2 M in a quick run).",
            Self::Shrink => "5 M one-hour timers, then all cancelled: memory at the peak and 3 s later.",
            Self::Wake { busy: true } => "The same beside a busy loop on each core.",
            Self::Wake { .. } => "Due at once, while the owner sleeps for an hour: from the call to the handler.",
        }
    }

    /// Names it for a reader, as the title of its chart.
    pub fn title(self) -> String {
        match self {
            Self::Churn(timers) => format!("Cancel one of {} timers, schedule one", count(timers)),
            Self::ChurnTick(timers) => {
                format!(
                    "Cancel the oldest of {} timers, schedule one",
                    count(timers)
                )
            }
            Self::Life(timers) => format!("{} timers from schedule to fire", count(timers)),
            Self::Rearm(timers) => format!("Move one of {} timers to later", count(timers)),
            Self::IdleRound => "A loop in which nothing is due".to_owned(),
            Self::LoopOwner(timers) => format!("A loop with {} timers", count(timers)),
            Self::Sparse => "One timer due in each poll of a loop".to_owned(),
            Self::Quic => "Reset to 25 ms, 300 ms and 30 s by turns".to_owned(),
            Self::Reconnect => "A storm of 100 000 connections".to_owned(),
            Self::Beats => "100 000 heartbeats per second".to_owned(),
            Self::Spawned => "100 000 tasks per second that sleep once".to_owned(),
            Self::Cross {
                producers: 1,
                in_flight,
            } => format!(
                "One thread schedules and cancels, {} timers in flight",
                count(in_flight)
            ),
            Self::Cross { producers, .. } => format!("{producers} threads schedule and cancel"),
            Self::RemoteCancel => "One thread schedules, another one cancels".to_owned(),
            Self::Forms => "Schedule, by the form of the deadline".to_owned(),
            Self::Late { busy: true, .. } => {
                "Lateness beside a busy loop on each core, ticks of 1 ms".to_owned()
            }
            Self::Late {
                timers, tick_us, ..
            } => {
                format!("{} timers in 2 s, ticks of {tick_us} us", count(timers))
            }
            Self::Burst => "A million timers due at once".to_owned(),
            Self::Idle => "A million timers an hour away".to_owned(),
            Self::Zombie => "Ten million timers, each cancelled at once".to_owned(),
            Self::Shrink => "Five million timers, all cancelled".to_owned(),
            Self::Wake { busy: true } => {
                "Due at once, while the owner sleeps, beside a busy loop on each core".to_owned()
            }
            Self::Wake { .. } => "Due at once, while the owner sleeps".to_owned(),
        }
    }

    /// Returns whether one thread does everything.
    pub const fn is_local(self) -> bool {
        matches!(
            self,
            Self::Churn(_)
                | Self::ChurnTick(_)
                | Self::Life(_)
                | Self::Rearm(_)
                | Self::IdleRound
                | Self::Sparse
                | Self::LoopOwner(_)
        )
    }

    /// Returns whether it is what the futures of a server do.
    pub const fn is_of_servers(self) -> bool {
        matches!(
            self,
            Self::Quic | Self::Reconnect | Self::Beats | Self::Spawned
        )
    }

    /// Returns whether timers fire on the real clock.
    const fn fires(self) -> bool {
        matches!(self, Self::Late { .. } | Self::Burst | Self::Wake { .. })
    }

    /// Returns whether a peer takes part.
    const fn has(self, peer: Peer) -> bool {
        use Peer::{
            AsyncIo, Bitwheel, DelayQueue, EventLoopRemote, EventLoopTimer, Floor, Hashed, Heap,
            LocalTimer, LockedHeaps, LockedTree, LockedWheel, Netty, Nexus, Pingora, Sleep, Time,
            Timer, TimerPriority, TimerSlack, TimerTimes, TimerUnpinned, Tokio, Tree,
        };
        let is_local = matches!(
            peer,
            LocalTimer | EventLoopTimer | Nexus | DelayQueue | Tokio | Hashed | Heap | Floor
        );
        let is_of_loops = matches!(
            peer,
            LocalTimer | EventLoopTimer | EventLoopRemote | Nexus | Bitwheel | Heap | Tree
        );
        let is_special = matches!(peer, TimerSlack | TimerPriority | TimerUnpinned | Time);
        let is_shared = matches!(peer, Tokio | Hashed) || !is_local && !is_of_loops && !is_special;
        let is_simple = matches!(peer, Timer | LockedWheel | Tokio | LockedTree);
        match self {
            Self::Churn(_) | Self::ChurnTick(_) | Self::Rearm(_) => is_local,
            Self::Life(_) => is_local && !matches!(peer, Floor),
            Self::IdleRound | Self::Sparse | Self::LoopOwner(_) => is_of_loops,
            Self::Quic => matches!(peer, Time | Tokio | LocalTimer),
            Self::Reconnect | Self::Beats | Self::Spawned => matches!(peer, Time | Tokio),
            Self::Cross { producers: 32, .. } => {
                matches!(peer, Timer | LockedWheel | Tokio | Pingora | LockedHeaps)
            }
            Self::Cross { .. } => is_shared,
            Self::RemoteCancel => is_shared && !matches!(peer, TimerTimes | Netty | Hashed),
            Self::Forms => matches!(peer, Timer),
            Self::Late { busy: true, .. } => {
                matches!(
                    peer,
                    Timer | TimerPriority | TimerUnpinned | Sleep | Tokio | LockedTree
                )
            }
            Self::Late { tick_us: 1000, .. } => {
                matches!(peer, Timer | Sleep | Tokio | Pingora | LockedTree)
            }
            Self::Late { .. } => matches!(peer, Timer | TimerSlack | LockedTree | AsyncIo),
            Self::Burst | Self::Shrink => is_simple,
            Self::Idle => is_simple || matches!(peer, Sleep | Pingora | AsyncIo),
            Self::Zombie => is_simple || matches!(peer, Pingora | AsyncIo),
            Self::Wake { .. } => is_simple || matches!(peer, TimerUnpinned | AsyncIo),
        }
    }
}

/// Writes a number of timers with a space before each three digits.
fn count(timers: usize) -> String {
    let digits = timers.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    let groups: Vec<_> = groups
        .into_iter()
        .map(|it| String::from_utf8_lossy(it).into_owned())
        .collect();
    groups.join(" ")
}

impl Scale {
    /// Cuts a number of timers for the tiny scale.
    pub fn timers(self, full: usize) -> usize {
        if self == Self::Tiny {
            (full / 1000).clamp(16, 2000)
        } else {
            full
        }
    }

    /// Returns `full`, a fraction of it in a quick run, a handful in a tiny one.
    pub fn steps(self, full: usize) -> usize {
        match self {
            Self::Tiny => 2_000.min(full),
            Self::Quick => full / 5,
            Self::Full => full,
        }
    }

    /// Returns how long something is watched.
    pub fn watch(self, full: Duration) -> Duration {
        match self {
            Self::Tiny => Duration::from_millis(20),
            Self::Quick => full / 4,
            Self::Full => full,
        }
    }
}
