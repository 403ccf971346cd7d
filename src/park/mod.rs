//! How an owner sleeps and how producers wake it, without losing a wake-up.
//!
//! `wake_state` is the handshake: a few words and three pairs of fences, explained and proven in `README.md`.
//! `parker` is the sleep itself: a futex on Linux, a parked thread elsewhere.

pub(crate) mod parker;
mod wake_state;

pub(crate) use wake_state::{Announced, Wake, WakeCall, WakeState};
