//! The words that callers and all rooms share: names of timers, answers, errors.
//!
//! Plain data. Nothing here does anything.
//!
//! | room | what is inside |
//! |---|---|
//! | `key` | [`Key`], [`RawKey`]: the packed name of a timer |
//! | `seed` | what keeps the keys of different timers apart |
//! | `answer` | [`Cancel`], [`Reschedule`] |
//! | `expired` | [`Expired`], [`Unfired`]: a timer at its end |
//! | `pin_state` | [`PinState`]: how a worker is pinned |
//! | `recurring` | [`Recurring`]: what a periodic timer may carry |
//! | `turn` | [`Budget`], [`Polled`]: what a turn may do, and came to |
//! | `wheel_kind` | [`WheelKind`] |
//! | `engine_error` | [`StartError`], [`StopError`], [`TurnError`] |
//! | `error` | [`BuildError`], [`ScheduleError`] |
//! | `exclusive` | what lets an error be shared whose payload is not |
//! | `settings` | what all builders are asked for |

mod answer;
mod engine_error;
pub(crate) mod error;
mod exclusive;
mod expired;
mod key;
#[cfg(feature = "threads")]
mod pin_state;
mod recurring;
mod seed;
mod settings;
mod turn;
mod wheel_kind;

pub use answer::{Cancel, Reschedule};
pub use engine_error::{StartError, StopError, TurnError};
pub use error::{BuildError, ScheduleError, ScheduleErrorKind};
pub(crate) use error::{MAX_BUCKETS, Scheduled};
pub use expired::{Expired, Unfired};
pub(crate) use key::GENERATION_BITS;
pub use key::{Key, RawKey};
#[cfg(feature = "threads")]
pub use pin_state::PinState;
pub use recurring::Recurring;
pub(crate) use seed::generation_seed;
pub use settings::Settings;
pub use turn::{Budget, Polled};
pub use wheel_kind::WheelKind;
