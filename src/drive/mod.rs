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
//! | `bound` | [`ZombieBound`](bound::ZombieBound): the sweep that keeps zombies few |
//! | `turn` | [`TurnState`]: a turn under way, and the entries that wait for the next one |
//! | `log`, `block` | [`Log`](log::Log): where entries wait before they are inserted |
//! | `policy` | when it pays to look for the dead in the log, and to seal it |

mod block;
mod bound;
mod driver;
mod log;
mod policy;
mod store;
mod turn;

#[cfg(feature = "threads")]
pub(crate) use bound::too_many;
pub(crate) use bound::{ZOMBIE_FLOOR, ZOMBIES_PER_LOOK};
pub(crate) use driver::Driver;
#[cfg(feature = "threads")]
pub(crate) use store::Fired;
pub(crate) use store::{Fate, TimerStore};
pub(crate) use turn::TurnState;

/// Makes room for the places of half a million entries, for an owner that must not call the allocator later. Keeps the
/// memory of the first entries: a drain finds timers that were accepted, and can refuse none. Ends the process if that
/// memory is refused.
#[cfg(feature = "threads")]
pub(crate) fn expect_many(mut driver: Driver) -> Driver {
    _ = (
        driver.log.blocks.try_reserve(1024),
        driver.log.pool.0.try_reserve(1024),
    );
    if !driver.reserve_first() {
        crate::wheel::no_memory();
    }
    driver
}
