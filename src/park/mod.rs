//! How an owner sleeps and how producers wake it, without losing a wake-up.
//!
//! `signal` is the handshake: two words and two pairs of fences, explained and proven in `README.md`.
//! `sleeper` is the sleep itself: `mio::Poll`, with a timerfd where the system has one.

pub(crate) mod sleeper;
mod wake_state;

pub(crate) use wake_state::{Wake, WakeState};
