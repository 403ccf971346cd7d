//! The record of one timer.

use super::deadline::Deadline;
use super::periodic_state::Link;
use crate::state::StateWord;
use crate::sync::cell::UnsafeCell;
use crate::sync::segments::Zeroable;
use std::mem::ManuallyDrop;

/// One timer's record: 24 bytes with an eight-byte payload.
pub(super) struct Node<T> {
    pub(super) state: StateWord,
    pub(super) deadline: Deadline,
    load: UnsafeCell<NodePayload<T>>,
}

/// The contents of a node: `single` while it is pending, `periodic` while it is periodic and until its owner has let
/// go, else nothing.
pub(super) union NodePayload<T> {
    nothing: (),
    single: ManuallyDrop<T>,
    periodic: Link<T>,
}

impl<T> NodePayload<T> {
    #[inline]
    pub(super) const fn single(payload: T) -> Self {
        Self { single: ManuallyDrop::new(payload) }
    }

    pub(super) const fn periodic(link: Link<T>) -> Self {
        Self { periodic: link }
    }
}

#[cfg(not(tickwheel_loom))]
const _: () = assert!(size_of::<Node<u64>>() == 24);

// SAFETY: state and deadline are atomic integers (zero is idle), and a load of any bytes is a union without a field.
unsafe impl<T> Zeroable for Node<T> {
    fn make_idle(&self) {
        self.state.restart_after(0);
        self.deadline.forget();
        // A free node carries nothing that is read.
        self.load.with_mut(|_| ());
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self {
            state: StateWord::default(),
            deadline: Deadline::default(),
            load: UnsafeCell::new(NodePayload { nothing: () }),
        }
    }
}

// SAFETY: payloads move between threads (hence T: Send) and each is only ever touched by one at a time: the armer
// before it publishes the node, then the one winner of the state word, or the handle while the word says that it
// swaps the payload; of a periodic timer see `periodic_state`.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Node<T> {}

impl<T> Node<T> {
    /// Writes what the node carries.
    ///
    /// # Safety
    ///
    /// The caller holds the node alone or is swapping the payload, and what it carried has been taken.
    #[inline]
    pub(super) unsafe fn put(&self, load: NodePayload<T>) {
        self.load.with_mut(|cell| {
            // SAFETY: the caller holds the node alone (the function's contract).
            unsafe { cell.write(load) };
        });
    }

    /// Takes the payload of a timer that fires once.
    ///
    /// # Safety
    ///
    /// The caller has ended the timer and has not let go of the node, or is swapping the payload; it calls this once
    /// for each payload.
    #[inline]
    pub(super) unsafe fn take_single(&self) -> T {
        self.load.with(|load| {
            // SAFETY: this is what the node carries, and it is the caller's to take (the function's contract).
            ManuallyDrop::into_inner(unsafe { std::ptr::read(&raw const (*load).single) })
        })
    }

    /// Returns the periodic state of a periodic timer.
    ///
    /// # Safety
    ///
    /// The node's timer is periodic, and the caller keeps the node: it has ended the timer or is its busy owner.
    pub(super) unsafe fn link(&self) -> Link<T> {
        self.load.with(|load| {
            // SAFETY: this is what a periodic node carries (the function's contract), and no thread writes it before
            // the caller lets go.
            unsafe { (*load).periodic }
        })
    }
}
