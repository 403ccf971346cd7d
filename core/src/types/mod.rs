//! The words that callers and all rooms share: names of timers, answers, errors.
//!
//! Plain data. Nothing here does anything.
//!
//! | room | what is inside |
//! |---|---|
//! | `key` | [`Key`], [`RawKey`]: the packed name of a timer |
//! | `answer` | [`Cancel`], [`Reschedule`] |
//! | `expired` | [`Expired`], [`Unfired`]: a timer at its end |
//! | `recurring` | [`Recurring`]: what a periodic timer may carry |
//! | `turn` | [`Budget`], [`Polled`]: what a turn may do, and came to |
//! | `engine_error` | [`StartError`], [`StopError`], [`TurnError`] |
//! | `error` | [`BuildError`], [`ScheduleError`] |
//! | `system` | `SystemError`: the operating system's reason, kept in these |

mod answer;
mod engine_error;
pub mod error;
mod expired;
mod key;
mod recurring;
#[cfg(feature = "std")]
mod system;
mod turn;

pub use answer::{Cancel, Reschedule};
pub use engine_error::{StartError, StopError, TurnError};
pub use error::Scheduled;
pub use error::{BuildError, ScheduleError, ScheduleErrorKind};
pub use expired::{Expired, Unfired};
pub(crate) use key::GENERATION_BITS;
pub use key::KeyMask;
pub use key::{Key, RawKey};
pub use recurring::Recurring;
#[cfg(feature = "std")]
pub use system::SystemError;
pub use turn::{Budget, Polled};
