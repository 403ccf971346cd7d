//! The state word of a node, one for both node tables: what it says is [`State`]'s, of the core; here are the steps that
//! threads take on it.
//!
//! The shared table goes through [`StateWord`], the single-threaded one uses [`State`] as it is.

mod word;

pub(crate) use tickwheel_core::state::{
    CLAIMED, MOVED, MOVERS, Phase, READING_PAYLOAD, State, generation_seed,
};
pub(crate) use word::{Confirmed, Ending, Finished, Moved, StateWord};
