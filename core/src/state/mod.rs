//! The state of a node: what its word says and what it becomes, without memory or threads.
//!
//! | room | what is inside |
//! |---|---|
//! | `seed` | random numbers, which keep the keys of different tables apart |
//! | `pure` | [`State`]: what a word says and what it becomes |

mod pure;
mod seed;

pub use pure::{
    CLAIMED, HANDLE, HOLDS, MOVED, MOVER, MOVERS, PULLED, Phase, READING_PAYLOAD, State,
};
pub use seed::generation_seed;
