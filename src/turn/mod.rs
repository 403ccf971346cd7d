//! Turns over a wheel: insert, fire what is due, sweep zombies, within a budget.
//!
//! A shard's owner and the single-threaded timers keep their timers' records in different tables, one atomic and one
//! not. Everything else about a turn is the same and lives here, once: the [`Turns`] own the wheel and ask the
//! [`TimerStore`] what to do about each entry.
//!
//! | room | what is inside |
//! |---|---|
//! | `store` | [`TimerStore`]: what a turn asks about an entry |
//! | `turns` | [`Turns`]: one turn after the other |
//! | `state` | [`TurnState`]: a turn under way |

mod state;
mod store;
mod turns;

pub(crate) use state::TurnState;
pub(crate) use store::{Fate, TimerStore};
pub(crate) use turns::{NodeMemory, Settled, Turns};
