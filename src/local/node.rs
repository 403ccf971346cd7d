//! The record of one single-threaded timer: 24 bytes with a payload of up to eight.
//!
//! What a node carries is told by its word, so that it needs no tag of its own: eight bytes less in every
//! node, and a cancel in a large population is one cache miss on a node. Everything that touches the load
//! without looking is in this file, behind functions that look.

use super::word::{PERIODIC, Word};
use crate::time::{Period, Time};
use crate::types::Key;
use alloc::boxed::Box;
use core::mem::{self, ManuallyDrop};

/// What a periodic timer needs beyond a node.
pub(super) struct Repeat<T> {
    pub(super) period: Period,
    /// The deadline before it was rounded to a tick.
    pub(super) nominal: Time,
    pub(super) payload: T,
    /// `T::clone`, kept here so that only those who schedule periodic timers need a `T: Clone`.
    pub(super) clone: fn(&T) -> T,
}

/// What a node carries: `once` while it is pending, `every` while it is pending and periodic, else nothing.
union Load<T> {
    nothing: (),
    once: ManuallyDrop<T>,
    every: ManuallyDrop<Box<Repeat<T>>>,
}

const _: () = assert!(size_of::<Node<u64>>() == 24);

/// See the module.
pub(super) struct Node<T> {
    word: Word,
    /// Pending: the tick at or after which the timer may fire. Free: the next free node.
    deadline: u64,
    load: Load<T>,
}

impl<T> Node<T> {
    /// A node that has never been armed.
    pub(super) fn free(next: u32) -> Self {
        Self { word: Word::default(), deadline: u64::from(next), load: Load { nothing: () } }
    }

    #[inline]
    pub(super) const fn word(&self) -> Word {
        self.word
    }

    /// The deadline of a pending node.
    #[inline]
    pub(super) const fn deadline(&self) -> u64 {
        self.deadline
    }

    #[inline]
    pub(super) const fn is_named_by(&self, key: Key) -> bool {
        self.word.is_named_by(key)
    }

    /// Arms a free node; the next free one comes back with its new word.
    #[inline(always)]
    pub(super) fn arm(&mut self, deadline: u64, payload: T) -> (Word, u32) {
        self.take_up(deadline, Load { once: ManuallyDrop::new(payload) }, 0)
    }

    /// As [`arm`](Self::arm), for a periodic timer.
    pub(super) fn arm_periodic(&mut self, deadline: u64, repeat: Box<Repeat<T>>) -> (Word, u32) {
        self.take_up(deadline, Load { every: ManuallyDrop::new(repeat) }, PERIODIC)
    }

    #[inline(always)]
    fn take_up(&mut self, deadline: u64, load: Load<T>, flags: u64) -> (Word, u32) {
        debug_assert!(!self.word.is_pending(), "what a pending node carries would be leaked");
        let next = self.deadline as u32;
        self.word = self.word.armed(flags);
        self.deadline = deadline;
        self.load = load;
        (self.word, next)
    }

    /// Ends a pending node, which makes it the first of the free ones, and takes the payload.
    #[inline]
    pub(super) fn end(&mut self, next: u32) -> Option<T> {
        if !self.word.is_pending() {
            return None;
        }
        let periodic = self.word.is_periodic();
        self.word = self.word.ended();
        self.deadline = u64::from(next);
        let load = mem::replace(&mut self.load, Load { nothing: () });
        if periodic {
            // SAFETY: the word said pending and periodic, so this is what the node carried.
            let repeat = ManuallyDrop::into_inner(unsafe { load.every });
            return Some(repeat.payload);
        }
        // SAFETY: the word said pending and not periodic, so this is what the node carried.
        Some(ManuallyDrop::into_inner(unsafe { load.once }))
    }

    /// Sets a pending node's deadline; its entry stays the current one.
    #[inline]
    pub(super) fn move_to(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// Turns a pending node's entry into a zombie; the word that a new one must carry.
    #[inline]
    pub(super) fn supersede_entry(&mut self) -> Word {
        self.word = self.word.superseding_entry();
        self.word
    }

    /// The payload of a pending node.
    #[inline]
    pub(super) fn payload(&self) -> Option<&T> {
        if let Some(repeat) = self.repeat() {
            return Some(&repeat.payload);
        }
        // SAFETY: pending and not periodic, or `repeat` would have answered: this is what it carries.
        self.word.is_pending().then(|| unsafe { &*self.load.once })
    }

    /// The payload of a pending node, to be changed.
    #[inline]
    pub(super) fn payload_mut(&mut self) -> Option<&mut T> {
        if !self.word.is_pending() {
            return None;
        }
        if self.word.is_periodic() {
            return self.repeat_mut().map(|repeat| &mut repeat.payload);
        }
        // SAFETY: pending and not periodic: this is what the node carries.
        Some(unsafe { &mut *self.load.once })
    }

    /// What a pending periodic node repeats.
    #[inline]
    pub(super) fn repeat(&self) -> Option<&Repeat<T>> {
        // SAFETY: pending and periodic: this is what the node carries.
        self.carries_repeat().then(|| unsafe { &**self.load.every })
    }

    /// As [`repeat`](Self::repeat), to be changed.
    #[inline]
    pub(super) fn repeat_mut(&mut self) -> Option<&mut Repeat<T>> {
        // SAFETY: pending and periodic: this is what the node carries.
        self.carries_repeat().then(|| unsafe { &mut **self.load.every })
    }

    #[inline]
    const fn carries_repeat(&self) -> bool {
        self.word.is_pending() & self.word.is_periodic()
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        drop(self.end(0));
    }
}
