//! Wheels: where a shard's owner keeps the deadlines of its timers.
//!
//! A wheel stores plain [`Entry`] values and gives them back in the order of their deadlines. It is
//! pure: no atomics, no threads, no clock, no `unsafe`. Time is the argument of [`Wheel::advance`],
//! in ticks counted from the engine's origin. One owner uses it through `&mut self`; it is `Send`.
//!
//! Cancelled timers are not taken out when they are cancelled. Their entries stay until they come
//! due or until [`Wheel::sweep`] drops them; the wheel itself does not know which entries are dead.
//!
//! ```text
//! insert --> level or ring position from the deadline --> bucket: chain of chunks of entries
//! advance -> next occupied bucket, never the next tick --> due entries, tick by tick, first in first out
//! sweep ---> bucket by bucket, chunk by chunk ----------> dead entries dropped, the rest packed
//! ```
//!
//! Both kinds follow "Hashed and Hierarchical Timing Wheels" by Varghese and Lauck (SOSP 1987,
//! IEEE/ACM Transactions on Networking 1997): their schemes 6 (hashed) and 7 (hierarchical).
//!
//! | room | what is inside |
//! |---|---|
//! | `bits` | which ring and bucket a deadline belongs to; bit searches |
//! | `chunks` | pooled memory of entries, bucket chains |
//! | `pass` | filtering one bucket, a chunk at a time |
//! | `ring` | 64 buckets with their occupancy word |
//! | `sweep` | the cursor that goes round all buckets and drops the dead |
//! | `staging buffer` | where young entries wait, outside of the wheel |
//! | `hierarchical` | rings of growing span; the default |
//! | `hashed` | one power-of-two ring with rounds |
//! | `pages`, `min_tree` | the buckets of that ring, and their index of earliest deadlines |

mod bits;
mod chunks;
mod hashed;
mod hierarchical;
mod min_tree;
mod staging;
mod pages;
mod pass;
mod ring;
mod sweep;

pub use hashed::Hashed;
pub use hierarchical::Hierarchical;
pub(crate) use staging::{Living, StagingBuffer};

/// What a wheel stores of one timer: 16 bytes of plain data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tick at which the entry is due.
    pub deadline: u64,
    /// The timer's place in its node table; the wheel only carries it.
    pub index: u32,
    /// Whatever else the owner wants back, a generation for instance; the wheel only carries it.
    pub mark: u32,
}

const _: () = assert!(std::mem::size_of::<Entry>() == 16);

/// What one call of [`Wheel::advance`] left undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an advance that ran out of budget has to be called again"]
pub struct Advance {
    /// The budget ran out: entries due at the given tick remain, call again with the same tick.
    pub more: bool,
}

/// What one call of [`Wheel::sweep`] did.
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

/// A set of entries ordered by deadline, with a hand that only moves forward.
pub trait Wheel {
    /// Files an entry. O(1); allocates only while the wheel grows beyond what it held before.
    ///
    /// A deadline at or before the hand is *overdue*: the next [`advance`](Self::advance) yields
    /// overdue entries before all others, in the order in which they were inserted.
    fn insert(&mut self, entry: Entry);

    /// The earliest deadline of all entries, `None` when there are none. O(1).
    ///
    /// Exact as long as no sweep has removed an entry; after that it may be earlier than the
    /// earliest entry (never later) until the sweep has finished the bucket of the removed one. It is at or
    /// before the hand while overdue entries wait, and at or before `to` while an advance to `to`
    /// is unfinished.
    fn next_deadline(&self) -> Option<u64>;

    /// Moves the hand towards `to` and appends the entries that are due by then to `due`: overdue
    /// ones first, then by deadline, and in the order of their insertion within one tick.
    ///
    /// At most `budget` entries are appended, and filing work is bounded by a multiple of the
    /// budget. A `to` before the hand yields overdue entries only. The hand never passes a tick that
    /// has not been yielded completely, so an entry inserted for that tick meanwhile still comes
    /// last in it. With nothing due the cost is O(1), whatever the distance; otherwise it depends on
    /// the entries yielded and moved, never on the number of ticks passed.
    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> Advance;

    /// Examines about `budget` entries (one batch more at most), continuing where the last call
    /// ended, and drops those that `is_dead` marks.
    ///
    /// Once a call has reported `cycle_done`, the calls up to and including the next one that
    /// reports it see every entry that was present at their start and has neither come due nor
    /// belongs to an unfinished advance. The order of what remains does not change.
    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep;

    /// [`sweep_batches`](Self::sweep_batches) with a question per entry.
    fn sweep(&mut self, budget: usize, is_dead: &mut dyn FnMut(Entry) -> bool) -> Sweep {
        self.sweep_batches(budget, &mut |entries| {
            let dead = |(place, entry): (usize, &Entry)| u64::from(is_dead(*entry)) << place;
            entries.iter().enumerate().map(dead).fold(0, |mask, bit| mask | bit)
        })
    }

    /// Takes every entry out, in no particular order. The hand stays where it is.
    fn drain_all(&mut self, f: &mut dyn FnMut(Entry));

    /// The entries filed, dead ones included.
    fn len(&self) -> usize;

    /// Whether no entry is filed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last tick of which every entry has been yielded; 0 at first.
    fn hand(&self) -> u64;

    /// The memory that the wheel holds, in bytes, its reserves included.
    fn held_bytes(&self) -> usize;
}

/// One of the two kinds of wheel, chosen when the engine is built.
///
/// The dispatch is a predictable branch, not a call through a table.
pub enum AnyWheel {
    /// Rings of growing span; right for every mix of delays.
    Hierarchical(Hierarchical),
    /// One ring with rounds; right when delays are short and similar.
    Hashed(Hashed),
}

/// Calls the same method on whichever wheel there is.
macro_rules! either {
    ($self:expr, $wheel:ident => $call:expr) => {
        match $self {
            AnyWheel::Hierarchical($wheel) => $call,
            AnyWheel::Hashed($wheel) => $call,
        }
    };
}

impl Wheel for AnyWheel {
    // Inlined all the way, here and below: a caller that passes an entry through memory writes it in
    // parts and reads it back as a whole, and that stall doubles the cost of an insert.
    #[inline(always)]
    fn insert(&mut self, entry: Entry) {
        either!(self, wheel => wheel.insert(entry));
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        either!(self, wheel => wheel.next_deadline())
    }

    #[inline]
    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> Advance {
        either!(self, wheel => wheel.advance(to, budget, due))
    }

    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        either!(self, wheel => wheel.sweep_batches(budget, is_dead))
    }

    fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        either!(self, wheel => wheel.drain_all(f));
    }

    #[inline]
    fn len(&self) -> usize {
        either!(self, wheel => wheel.len())
    }

    #[inline]
    fn hand(&self) -> u64 {
        either!(self, wheel => wheel.hand())
    }

    fn held_bytes(&self) -> usize {
        either!(self, wheel => wheel.held_bytes())
    }
}
