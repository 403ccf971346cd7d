//! `EventLoopTimer`: one shard that is driven by the user's own event loop.
//!
//! What the loop itself schedules lies in a plain table, as in a `LocalTimer`: no other thread sees it. Other
//! threads hold a [`Remote`]: they push through the shard's inbox, and wake the loop only if it sleeps
//! beyond what they have scheduled.
//!
//! It is the same shard and the same turn as the engine's, with one wheel for both kinds; only the thread differs.
//!
//! Rooms: `build` (from settings to a timer), `own` (the loop's own timers), `timer` (the owner's side), `remote` (the
//! other threads' side), `remote_key` (the name of what that schedules).

mod build;
mod own;
mod remote;
mod remote_key;
mod timer;

pub use remote::Remote;
pub use remote_key::RemoteKey;
pub use timer::EventLoopTimer;

use crate::shard::ShardHandle;
use crate::stats::ShardStats;
use crate::time::{TickRate, Time};

/// The number of the shard in keys of what the loop itself has scheduled, which its table counts as a `LocalTimer` does.
const OWN: u16 = 0;
/// The same in keys of what remotes have scheduled.
const REMOTES: u16 = 1;

/// Returns what a loop has counted by `now`, both kinds of timers together. O(threads).
fn stats_of<T>(shard: &ShardHandle<T>, rate: &TickRate, now: Time) -> ShardStats {
    ShardStats {
        shard: 0,
        ..shard.stats(rate, now)
    }
}
