//! Choices of a user beyond numbers: how an engine waits, who turns it, how it stops.

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
    /// order of their deadlines, with two exceptions. A timer that was pushed out may stand at an earlier deadline of
    /// its own. Of a tick with more than 16 384 timers, the rest takes turns with later ticks: see
    /// [`Budget`](crate::Budget). A periodic timer fires once, even if it is moved meanwhile, and its next period is
    /// returned.
    FireAll,
    /// They fire when they are due, for as long as this by the engine's clock or until none is left; then the rest is
    /// returned. An engine that its caller turns fires what is due at the moment of the call. A periodic timer is not
    /// waited for: the call that runs is its last one, and it is returned with the rest, at the end.
    Drain {
        /// How long from the call on; `Duration::MAX` means for ever. Of several drains the one that ends first counts.
        /// Workers look at the clock before each turn. A timer that has not fired when the time is over is returned,
        /// even if it was due a moment before. A turn that has begun goes on, to [`Budget::fire`](crate::Budget::fire)
        /// timers.
        within: Duration,
    },
}
