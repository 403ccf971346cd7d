//! How an owner sleeps and how producers wake it, without losing a wake-up.
//!
//! `wake_state` is the handshake: a few words and three pairs of fences, explained and proven in `README.md`.
//! `calling` is for a waker that itself has something to tell the owner.
//! `balance` decides which side pays for the fences of a drain.
//! `parker` is the sleep itself: a futex on Linux, a parked thread elsewhere.

mod balance;
mod calling;
pub(crate) mod parker;
mod wake_state;

pub(crate) use balance::Balance;
pub(crate) use calling::Calling;
pub(crate) use wake_state::{Announced, Call, Wake, WakeState};
