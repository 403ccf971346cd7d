//! The turn: file, fire what is due, sweep zombies, within a budget.
//!
//! A shard's owner and the single-threaded timers keep their timers' records in different tables, one atomic and one
//! not. Everything else about a turn is the same and lives here, once: the [`Driver`] owns the wheel and asks the
//! [`TimerStore`] what to do about each entry.
//!
//! | room | what is inside |
//! |---|---|
//! | `store` | [`TimerStore`]: what the driver asks about an entry |
//! | `driver` | [`Driver`]: one turn after the other |
//! | `bound`, `round` | the bound on zombies, and a round of the sweep that keeps it |
//! | `turn` | [`TurnState`]: a turn under way |
//! | `staging` | [`StagingBuffer`]: where recent entries wait before they are filed |
//! | `sealed` | the log of those that outlive it |
//! | `young` | their entries |

mod bound;
mod driver;
mod round;
mod sealed;
mod staging;
mod store;
mod turn;
mod young;

pub(crate) use driver::{Drivable, Driver};
pub(crate) use round::too_many;
use staging::StagingBuffer;
pub(crate) use store::{Fate, Fired, TimerStore};
pub(crate) use turn::TurnState;
