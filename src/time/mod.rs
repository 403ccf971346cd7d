//! Time: points on a scale of nanoseconds, ticks, periods, and the clocks that tell it.
//!
//! Nothing here knows of timers. Any thread may use all of it. Only the fronts and their workers read a clock;
//! everything below them takes the time as an argument.
//!
//! | room | what is inside |
//! |---|---|
//! | `tick` | [`Time`], ticks, and the only rounding of durations in the crate |
//! | `period` | how a periodic timer goes on: pure arithmetic |
//! | `repeat` | what a periodic timer repeats, and its course from one deadline to the next |
//! | `timeout` | timeouts as the system calls of event loops take them |
//! | `when` | [`When`]: a delay, a time or an instant, as a caller says it |
//! | `slack` | how long an owner sleeps that may fire a little later |
//! | `clock` | [`Clock`], the contract of a clock |
//! | `monotonic` | the machine's clock |
//! | `boot` | a clock that counts the time of a suspended machine |
//! | `quick` | the same for schedule calls: cheaper, and never behind |
//! | `manual` | a clock that a test or a simulation turns by hand |
//! | `source` | the clock that a timer was given |

#[cfg(feature = "shard")]
mod boot;
mod clock;
#[cfg(feature = "std")]
mod manual;
#[cfg(feature = "std")]
mod monotonic;
mod period;
#[cfg(feature = "shard")]
mod quick;
mod repeat;
mod slack;
#[cfg(feature = "shard")]
mod source;
mod tick;
mod timeout;
mod when;

#[cfg(feature = "shard")]
pub use boot::BootClock;
pub use clock::Clock;
#[cfg(feature = "std")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use monotonic::MonotonicClock;
pub use period::{MissedTicks, Period, PeriodError};
#[cfg(feature = "shard")]
pub(crate) use quick::QuickClock;
pub(crate) use repeat::{Course, Repeat};
#[cfg(feature = "shard")]
pub(crate) use source::TimeSource;
pub use tick::Time;
pub(crate) use tick::{TickRate, saturating_ns};
pub(crate) use timeout::whole_ms;
pub use when::When;
