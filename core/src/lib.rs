//! The part of [tickwheel](https://docs.rs/tickwheel) that one thread needs: timing wheels and [`LocalTimer`]. It starts no
//! thread and shares nothing; without the feature `std` it needs an allocator and no operating system.
//!
//! `tickwheel` has all of this under the same names. Depend on this crate where there is no operating system, or where
//! nothing but a `LocalTimer` is wanted; `docs/NO_STD.md` of the repository is the guide.
//!
//! | room | what is inside |
//! |---|---|
//! | `types` | keys, answers, errors, budgets: what users hold |
//! | `time` | points in time, periods, ticks, clocks |
//! | `wheel` | entries in the order of their deadlines, and the turns over them |
//! | `state` | what the state of a node says |
//! | `local` | [`LocalTimer`] |
//! | `loop_timer` | how the timers fire that a loop drives |
//! | `settings` | what a timer can be told |
//! | `contain` | calls into code of the user's |
//! | `sync` | memory of an owner's own |
//!
//! The rooms are public for `tickwheel` alone: versions promise what the root exports, and nothing else.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

#[macro_use]
mod texts;

// rustdoc shows the methods of a type in the order of these modules.
#[doc(hidden)]
pub mod settings;

#[cfg(feature = "std")]
#[doc(hidden)]
pub mod contain;
#[doc(hidden)]
pub mod local;
#[doc(hidden)]
pub mod loop_timer;
#[doc(hidden)]
pub mod state;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod time;
#[doc(hidden)]
pub mod types;
#[doc(hidden)]
pub mod wheel;

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../../tests/support/system.rs"]
mod system;

pub use local::LocalTimer;
pub use loop_timer::Expirations;
pub use settings::Settings;
#[cfg(feature = "std")]
pub use time::{BootClock, ManualClock, MonotonicClock};
pub use time::{Clock, MissedTicks, Period, Time, When};
#[cfg(feature = "std")]
pub use types::SystemError;
pub use types::{
    Budget, BuildError, Cancel, Expired, Key, Polled, RawKey, Recurring, Reschedule, ScheduleError,
    ScheduleErrorKind, StartError, StopError, TurnError, Unfired,
};
