//! Defines the entry, and what a sweep is asked and reports.

use core::alloc::Layout;

/// The part of a timer that a wheel stores: 16 bytes of plain data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tick at which the entry is due.
    pub deadline: u64,
    /// The timer's place in its node table; the wheel only carries it.
    pub index: u32,
    /// A value for the owner, for example a generation; the wheel only carries it.
    pub mark: u32,
}

const _: () = assert!(core::mem::size_of::<Entry>() == 16);

/// The result of one call of [`Rings::sweep`](super::Rings::sweep).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Entries looked at.
    pub examined: usize,
    /// Entries dropped because they were dead.
    pub removed: usize,
    /// The sweep has been through every bucket and starts over with the next call.
    pub cycle_done: bool,
}

/// Tells a sweep which entries of a batch are dead: bit `n` of the answer stands for entry `n`.
///
/// A batch has between 1 and 64 entries. Looking at a whole batch lets the owner load the records
/// of its timers side by side instead of one after the other.
pub type DeadMask<'a> = &'a mut dyn FnMut(&[Entry]) -> u64;

/// Ends the process: there is no memory for an entry of an accepted timer, and no caller to tell.
#[cold]
#[inline(never)]
pub fn no_memory() -> ! {
    alloc::alloc::handle_alloc_error(Layout::new::<Entry>())
}
