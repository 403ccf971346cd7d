//! `LocalTimer`: timers of one thread, without atomics or locks.
//!
//! [`LocalTimer`] drives a wheel by the same turns as the engine does; only the records behind the
//! entries are its own, a plain table instead of a shared one. An entry in the wheel is a hint: it says when to look
//! at a node. The node alone knows whether its timer is pending and when it is due. So a cancel recycles the node at
//! once and leaves the entry behind as a zombie, and a deadline that is pushed out is only written down.
//!
//! | room | what is inside |
//! |---|---|
//! | `node` | states and nodes: what a node carries, told by its state |
//! | `table` | the nodes: arming, ending, moving, deciding what is due |
//! | `timer` | [`LocalTimer`]: schedule, cancel, reschedule, ask |
//! | `poll` | [`LocalTimer`]: firing, periodic timers |
//! | `memory` | [`LocalTimer`]: all that it holds, and the memory for it |
//!
//! A loop's own timers (`crate::event_loop`) have the same table.

// rustdoc shows the methods of a type in the order of these modules.
mod timer;

mod poll;

mod memory;
mod node;
pub mod table;

pub use timer::LocalTimer;
