//! Time: points on a scale of nanoseconds, ticks, periods, and the clocks that tell it.
//!
//! Nothing here knows of timers. Any thread may use all of it. Only the fronts and their workers read a clock;
//! everything below them takes the time as an argument.
//!
//! | room | what is inside |
//! |---|---|
//! | `point` | [`Time`], a point on the scale, [`Clock`], the contract of a clock, and ticks |
//! | `period` | how a periodic timer goes on: pure arithmetic |
//! | `repeat` | what a periodic timer repeats, and its course from one deadline to the next |
//! | `timeout` | timeouts as the system calls of event loops take them |
//! | `when` | [`When`]: a delay, a time or an instant, as a caller says it |
//! | `latest` | the present of a timer that is told the time |
//! | `slack` | how long an owner may sleep, and where a deadline may move to, if being late is no harm |
//! | `monotonic` | the machine's clock |
//! | `boot` | a clock that counts the time of a suspended machine |
//! | `quick` | the same for schedule calls: cheaper, and never behind |
//! | `manual` | a clock that a test or a simulation turns by hand |
//! | `source` | the clock that a timer was given |

#[cfg(feature = "threads")]
mod boot;
mod latest;
#[cfg(feature = "std")]
mod manual;
#[cfg(feature = "std")]
mod monotonic;
mod period;
mod point;
#[cfg(feature = "threads")]
mod quick;
mod repeat;
mod slack;
#[cfg(feature = "threads")]
mod source;
mod timeout;
mod when;

#[cfg(feature = "threads")]
pub use boot::BootClock;
pub(crate) use latest::MonotonicNow;
#[cfg(feature = "std")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use monotonic::MonotonicClock;
pub use period::{MissedTicks, Period, PeriodError};
pub use point::{Clock, Time};
pub(crate) use point::{TickRate, read_quietly, saturating_ns};
#[cfg(feature = "threads")]
pub(crate) use quick::QuickClock;
pub(crate) use repeat::{Recurrence, Repeat};
#[cfg(feature = "threads")]
pub(crate) use source::{AnyClock, TimeSource};
pub(crate) use timeout::whole_ms;
pub(crate) use when::Deadline;
pub use when::When;
