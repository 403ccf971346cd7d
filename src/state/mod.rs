//! The state word of a node, one for both node tables.
//!
//! | room | what is inside |
//! |---|---|
//! | `seed` | random numbers, which keep the keys of different tables apart |
//! | `pure` | [`State`]: what a word says and what it becomes, without memory or threads |
//! | `word` | [`StateWord`]: the same for threads, each step one compare-and-swap |
//!
//! The shared table goes through [`StateWord`], the single-threaded one uses [`State`] as it is.

mod pure;
mod seed;
#[cfg(feature = "threads")]
mod word;

#[cfg(feature = "threads")]
pub(crate) use pure::{CLAIMED, MOVED, MOVERS, READING_PAYLOAD};
pub(crate) use pure::{Phase, State};
pub(crate) use seed::generation_seed;
#[cfg(feature = "threads")]
pub(crate) use word::{Confirmed, Ending, Finished, Moved, StateWord};
