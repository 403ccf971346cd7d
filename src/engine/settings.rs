//! What the builder lets choose, beyond numbers.

use std::time::Duration;

/// What a worker does when nothing is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum IdleStrategy {
    /// Sleep until the next deadline. The default.
    #[default]
    Park,
    /// Spin for this long before sleeping: saves producers the system call and timers the wake-up while
    /// the shard is busy.
    SpinThenPark {
        /// How long to spin.
        spin: Duration,
    },
    /// Never sleep: the lowest lateness, for a whole core. Acts as `Park` on a virtual clock.
    BusySpin,
}

/// Who turns the shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Drive {
    /// One worker thread per shard. The default.
    #[default]
    Workers,
    /// No threads: the caller calls [`Timer::turn`](crate::Timer::turn). For tests and simulations.
    Manual,
}
