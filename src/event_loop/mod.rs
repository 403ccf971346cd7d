//! `EventLoopTimer`: one shard that is driven by the user's own event loop.
//!
//! The loop owns the timer: it schedules, cancels and fires without locks, queues or other threads. Other
//! threads hold a [`Remote`]: they push through the shard's inbox, and wake the loop only if it sleeps
//! beyond what they have scheduled.
//!
//! It is the same shard and the same turn as the engine's; only the thread differs.
//!
//! Rooms: `build` (from settings to a timer), `timer` (the owner's side), `remote` (the other threads' side).

mod build;
mod remote;
mod timer;

pub use remote::Remote;
pub use timer::EventLoopTimer;
