//! The record of one single-threaded timer: 24 bytes with a payload of up to eight.
//!
//! What a node carries is told by its state, so that it needs no tag of its own: eight bytes less in every
//! node, and a cancel in a large population is one cache miss on a node. Everything that touches the load
//! without looking is in this file, behind functions that look.

use crate::state::{Phase, State};
use crate::time::Repeat;
use crate::types::Key;
use alloc::boxed::Box;
use core::mem::{self, ManuallyDrop};

/// The contents of a node: `single` while it is pending, `periodic` while it is waiting, else nothing.
union NodePayload<T> {
    nothing: (),
    single: ManuallyDrop<T>,
    periodic: ManuallyDrop<Box<Repeat<T>>>,
}

const _: () = assert!(size_of::<Node<u64>>() == 24);

/// See the module.
pub(super) struct Node<T> {
    state: State,
    /// Pending: the tick at or after which the timer may fire. Free: the next free node.
    deadline: u64,
    load: NodePayload<T>,
}

impl<T> Node<T> {
    /// Creates a node that has never been armed: its first timer is in the generation after `generation`.
    pub(super) fn free(next: u32, generation: u64) -> Self {
        Self {
            state: State::unarmed(generation),
            deadline: u64::from(next),
            load: NodePayload { nothing: () },
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Returns the deadline of a pending node.
    pub(super) const fn deadline(&self) -> u64 {
        self.deadline
    }

    pub(super) const fn is_named_by(&self, key: Key<T>) -> bool {
        self.state.is_named(key.generation())
    }

    /// Arms a free node; the next free one comes back with its new state.
    #[inline(always)]
    pub(super) fn arm(&mut self, deadline: u64, payload: T) -> (State, u32) {
        self.take_up(
            deadline,
            NodePayload {
                single: ManuallyDrop::new(payload),
            },
            Phase::Pending,
        )
    }

    /// Like [`arm`](Self::arm), for a periodic timer.
    pub(super) fn arm_periodic(&mut self, deadline: u64, repeat: Box<Repeat<T>>) -> (State, u32) {
        self.take_up(
            deadline,
            NodePayload {
                periodic: ManuallyDrop::new(repeat),
            },
            Phase::Waiting,
        )
    }

    #[inline(always)]
    fn take_up(&mut self, deadline: u64, load: NodePayload<T>, phase: Phase) -> (State, u32) {
        debug_assert!(
            !self.state.is_live(),
            "what a living node carries would be leaked"
        );
        let next = self.deadline as u32;
        self.state = self.state.armed(phase);
        self.deadline = deadline;
        self.load = load;
        (self.state, next)
    }

    /// Ends the timer that `key` names, which makes its node the first of the free ones, and takes the payload.
    #[inline(always)]
    pub(super) fn end(&mut self, key: Key<T>, next: u32, phase: Phase) -> Option<T> {
        // SAFETY: only a living timer is named.
        self.is_named_by(key)
            .then(|| unsafe { self.take(next, phase) })
    }

    /// Like [`end`](Self::end), for the timer that the node has, if it is pending.
    #[inline(always)]
    pub(super) fn end_any(&mut self, next: u32, phase: Phase) -> Option<T> {
        // SAFETY: it lives.
        self.state
            .is_live()
            .then(|| unsafe { self.take(next, phase) })
    }

    /// # Safety
    ///
    /// The node is pending.
    #[inline(always)]
    unsafe fn take(&mut self, next: u32, phase: Phase) -> T {
        let periodic = self.state.is_periodic();
        self.state = self.state.in_phase(phase);
        self.deadline = u64::from(next);
        let load = mem::replace(&mut self.load, NodePayload { nothing: () });
        if periodic {
            // SAFETY: the node was pending and is periodic, so this is what it carried.
            let repeat = ManuallyDrop::into_inner(unsafe { load.periodic });
            return repeat.payload;
        }
        // SAFETY: the node was pending and is not periodic, so this is what it carried.
        ManuallyDrop::into_inner(unsafe { load.single })
    }

    /// Sets a pending node's deadline; its entry stays the current one.
    pub(super) fn move_to(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// Turns a pending node's entry into a zombie; the state that a new one must carry.
    pub(super) fn supersede_entry(&mut self) -> State {
        self.state = self.state.with_new_mark();
        self.state
    }

    /// Returns the payload of a pending node.
    pub(super) fn payload(&self) -> Option<&T> {
        if let Some(repeat) = self.repeat() {
            return Some(&repeat.payload);
        }
        // SAFETY: pending and not periodic, or `repeat` would have answered: this is what it carries.
        self.state.is_live().then(|| unsafe { &*self.load.single })
    }

    /// Returns the payload of a pending node, to be changed.
    pub(super) fn payload_mut(&mut self) -> Option<&mut T> {
        if self.carries_repeat() {
            return self.repeat_mut().map(|repeat| &mut repeat.payload);
        }
        // SAFETY: pending and not periodic: this is what the node carries.
        self.state
            .is_live()
            .then(|| unsafe { &mut *self.load.single })
    }

    /// Returns the recurrence of a pending periodic node.
    pub(super) fn repeat(&self) -> Option<&Repeat<T>> {
        // SAFETY: pending and periodic: this is what the node carries.
        self.carries_repeat()
            .then(|| unsafe { &**self.load.periodic })
    }

    /// Like [`repeat`](Self::repeat), but mutable.
    pub(super) fn repeat_mut(&mut self) -> Option<&mut Repeat<T>> {
        // SAFETY: pending and periodic: this is what the node carries.
        self.carries_repeat()
            .then(|| unsafe { &mut **self.load.periodic })
    }

    const fn carries_repeat(&self) -> bool {
        self.state.is_live() & self.state.is_periodic()
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if let Some(payload) = self.end_any(0, Phase::Cancelled) {
            drop_payload(payload);
        }
    }
}

/// Drops a payload. With a standard library, later payloads are dropped even if this destructor panics.
pub(super) fn drop_payload<T>(payload: T) {
    #[cfg(feature = "std")]
    crate::contain::drop_payload(payload);
    #[cfg(not(feature = "std"))]
    drop(payload);
}
