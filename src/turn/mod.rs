//! The turn: insert, fire what is due, sweep zombies, within a budget.
//!
//! A shard's owner and the single-threaded timers keep their timers' records in different tables, one atomic and one
//! not. Everything else about a turn is the same and lives here, once: the [`Driver`] owns the wheel and asks the
//! [`TimerStore`] what to do about each entry.
//!
//! | room | what is inside |
//! |---|---|
//! | `store` | [`TimerStore`]: what the driver asks about an entry |
//! | `driver` | [`Driver`]: one turn after the other |
//! | `state` | [`TurnState`]: a turn under way |

mod driver;
mod state;
mod store;

pub(crate) use driver::Driver;
pub(crate) use state::TurnState;
#[cfg(feature = "threads")]
pub(crate) use store::Fired;
pub(crate) use store::{Fate, TimerStore};
