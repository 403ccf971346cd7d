//! Choices of the builder beyond numbers.

use std::time::Duration;

/// How a worker waits when nothing is due.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, IdleStrategy};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spin = IdleStrategy::SpinThenPark { spin: Duration::from_micros(50) };
/// let timer = Builder::new().shards(1).tick(Duration::from_micros(10)).idle(spin).build()?;
/// # drop(timer);
/// # Ok(()) }
/// ```
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

/// Which threads turn the shards.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Drive, Expired, ManualClock};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let builder = Builder::new().drive(Drive::Manual).clock(clock.clone());
/// let timer = builder.build_with(|expired: Expired<&str>| println!("{}", expired.payload))?;
/// timer.schedule(Duration::from_secs(3600), "an hour later, in no time")?;
/// clock.advance(Duration::from_secs(3599));
/// assert_eq!(timer.turn(), Ok(0));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(timer.turn(), Ok(1));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Drive {
    /// One worker thread per shard. The default.
    #[default]
    Workers,
    /// No threads: the caller calls [`Timer::turn`](crate::Timer::turn). For tests and simulations.
    Manual,
}
