//! The state word of a node, one for both node tables: what it says is [`State`]'s, of the core; here are the steps that
//! threads take on it.
//!
//! The shared table goes through [`StateWord`], the single-threaded one uses [`State`] as it is.

mod word;

pub(crate) use tickwheel_core::state::{MOVED, MOVERS, Phase, State, generation_seed};
pub(crate) use word::{Ending, Moved, StateWord};
