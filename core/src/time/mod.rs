//! Time: points on a scale of nanoseconds, ticks, periods, and the clocks that tell it.
//!
//! Nothing here knows of timers. Any thread may use all of it. Only the fronts and their workers read a clock;
//! everything below them takes the time as an argument.
//!
//! | room | what is inside |
//! |---|---|
//! | `point` | [`Time`], a point on the scale of nanoseconds |
//! | `clock` | [`Clock`], the contract of a clock |
//! | `tick` | ticks, and the only rounding to them |
//! | `period` | how a periodic timer goes on: pure arithmetic |
//! | `repeat` | what a periodic timer repeats, and its recurrence: how it goes from one deadline to the next |
//! | `when` | [`When`]: a delay, a time or an instant, as a caller says it |
//! | `deadline` | from what a caller says to a tick; the present of a timer that is told the time |
//! | `slack` | where a deadline may move to, if being late is no harm |
//! | `monotonic` | the machine's clock |
//! | `boot` | a clock that counts the time of a suspended machine |
//! | `quick` | the machine's clock for schedule calls: cheaper, and never behind |
//! | `manual` | a clock that a test or a simulation turns by hand |
//! | `source` | the clock that a timer was given |

// rustdoc shows the methods of a type in the order of these modules.
mod point;

#[cfg(feature = "std")]
mod boot;
mod clock;
mod deadline;
#[cfg(feature = "std")]
mod manual;
#[cfg(feature = "std")]
mod monotonic;
mod period;
#[cfg(feature = "std")]
mod quick;
mod repeat;
mod slack;
#[cfg(feature = "std")]
mod source;
mod tick;
mod when;

#[cfg(feature = "std")]
pub use boot::BootClock;
pub use clock::Clock;
pub(crate) use clock::read_quietly;
pub use deadline::{Deadline, MonotonicNow};
#[cfg(feature = "std")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use monotonic::MonotonicClock;
pub use period::{MissedTicks, Period};
pub use point::Time;
pub use point::{saturating_ns, whole_ms};
#[cfg(feature = "std")]
pub(crate) use quick::QuickClock;
pub use repeat::{Recurrence, Repeat};
pub use slack::Grid;
#[cfg(feature = "std")]
pub use source::{AnyClock, TimeSource};
pub use tick::TickRate;
pub use when::When;
