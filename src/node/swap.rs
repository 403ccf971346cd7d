//! The node table: a handle swaps the payload of its pending timer.
//!
//! ```text
//!   handle: begin_swap   the payload is the handle's: who ends the timer (the owner that fires it, or `stop`) leaves
//!                        the payload to the handle
//!           take, put
//!           end_swap     the timer goes on with the other payload, or has ended meanwhile
//! ```
//!
//! The entry in the wheel stays as it is: its mark does not say what the timer carries. No code of the user's runs in
//! between, so a swap that has begun ends.

use super::record::NodePayload;
use super::table::Table;
use crate::state::Phase;

/// A timer has ended before its payload was swapped.
pub(crate) struct NotSwapped<T> {
    /// The other payload, which the timer did not take.
    pub(crate) refused: T,
    /// The timer's payload, if the thread that ended it has left that to the handle, and how it ended.
    pub(crate) left: Option<(T, Phase)>,
}

impl<T> Table<T> {
    /// Swaps what the pending timer `generation` in the node `index` carries; returns the earlier payload.
    ///
    /// The caller is the one who holds the timer's handle.
    pub(crate) fn swap(&self, index: u32, generation: u64, payload: T) -> Result<T, NotSwapped<T>> {
        let node = self
            .nodes
            .get(index)
            .filter(|node| node.state.begin_swap(generation));
        let Some(node) = node else {
            return Err(NotSwapped {
                refused: payload,
                left: None,
            });
        };
        // SAFETY: a pending timer that fires once carries this, which is the caller's until the swap ends.
        let before = unsafe { node.take_single() };
        // SAFETY: as above, and what the node carried has been taken.
        unsafe { node.put(NodePayload::single(payload)) };
        let state = node.state.end_swap();
        if state.is_live() {
            return Ok(before);
        }
        // SAFETY: the thread that ended the timer has left the payload to the caller, whose handle keeps the node.
        let refused = unsafe { node.take_single() };
        Err(NotSwapped {
            refused,
            left: Some((before, state.phase())),
        })
    }
}
