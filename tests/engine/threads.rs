//! The engine on the real clock with real threads: what only races, sleeps and dying threads can show.
//!
//! | room | what is inside |
//! |---|---|
//! | `timing` | never early, woken in time, asleep while idle |
//! | `stopping` | `stop` against producers, turns and itself; the last handle |
//! | `driven` | shards that a caller turns in place of their workers |
//! | `races` | cancel, fire and reschedule of one timer; the limit under contention |
//! | `submitters` | one thread's own way to an engine |
//! | `thread_ends` | threads that end with nodes, handles and engines in their hands |
//! | `shards` | masks, routing, handlers of their own, executors |
//! | `zombies` | what millions of cancelled timers leave behind |
//!
//! Wherever timers race, a ledger apart from the engine's own counters decides: each ended exactly once.

mod driven;
mod races;
mod shards;
mod stopping;
mod submitters;
mod thread_ends;
mod timing;
mod zombies;
