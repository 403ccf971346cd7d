//! The engine on the real clock with real threads: what only races, sleeps and dying threads can show.
//!
//! | room | what is inside |
//! |---|---|
//! | `timing` | woken in time, asleep while idle |
//! | `driven` | shards that a caller turns in place of their workers |
//! | `races` | stop against turns by hand, the limit under contention, snapshots |
//! | `stopped` | a thread that a signal stops in its turn |
//! | `thread_ends` | threads that end with nodes, handles and engines in their hands |
//! | `shards` | masks, routing, handlers of their own, executors |
//! | `zombies` | what millions of cancelled timers leave behind |
//!
//! Wherever timers race, a ledger apart from the engine's own counters decides: each ended exactly once.

mod driven;
mod races;
mod shards;
#[cfg(target_os = "linux")]
mod stopped;
mod thread_ends;
mod timing;
mod zombies;
