//! How an owner sleeps and how producers wake it, without losing a wake-up.
//!
//! `wake_state` is the handshake: a few words and three pairs of fences, explained and proven in `README.md`.
//! `balance` decides which side pays for the fences of a drain.
//! `sleeper` is the sleep itself: `mio::Poll`, with a timerfd where the system has one.

mod balance;
pub(crate) mod sleeper;
mod wake_state;

pub(crate) use balance::Balance;
pub(crate) use wake_state::{Announced, Call, Wake, WakeState};
