//! The entry: what a wheel stores of a timer.

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

/// Ends the process: there is no memory for an entry of an accepted timer, and no caller to tell.
#[cold]
#[inline(never)]
pub fn no_memory() -> ! {
    alloc::alloc::handle_alloc_error(Layout::new::<Entry>())
}
