//! The record of one timer: a state word, a deadline and a payload. Only the table and its other verbs use it.
//!
//! | field | who may touch it |
//! |---|---|
//! | `state` | any thread, see `crate::state` |
//! | `deadline` | the armer, then any mover and the owner: see [`DeadlineWord`] |
//! | `load` | the armer before it arms; then the winner of the state word, or the owner of a timer that it has claimed |
//!
//! `table` puts and takes a payload that fires once, and `periodic` one that repeats. The node does not say which of the
//! two it carries: its state does. `moves` replaces deadlines.

use super::offer::Offer;
use crate::state::StateWord;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::segments::Zeroable;
use crate::time::Repeat;
use std::mem::ManuallyDrop;

/// See the module. 24 bytes with an eight-byte payload.
pub(super) struct Node<T> {
    pub(super) state: StateWord,
    pub(super) deadline: DeadlineWord,
    load: UnsafeCell<NodePayload<T>>,
}

/// The contents of a node: `single` while it is pending, `repeat` while it is waiting, else nothing.
union NodePayload<T> {
    nothing: (),
    single: ManuallyDrop<T>,
    repeat: ManuallyDrop<Box<Repeat<T>>>,
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
            deadline: DeadlineWord::default(),
            load: UnsafeCell::new(NodePayload { nothing: () }),
        }
    }
}

// SAFETY: payloads move between threads (hence T: Send) and each is only ever touched by one at a time: the armer
// before it publishes the node, then the one winner of the state word, or the owner while it has claimed the timer.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Node<T> {}

impl<T> Node<T> {
    /// Moves the payload of a timer that fires once into the node.
    ///
    /// # Safety
    ///
    /// The caller holds the node alone, and what it carried has been taken. As for [`Offer::move_to`].
    #[inline(always)] // or the payload goes through memory
    pub(super) unsafe fn put_single(&self, payload: Offer<'_, T>) {
        self.load.with_mut(|load| {
            // SAFETY: the caller holds the node alone (the function's contract).
            unsafe { payload.move_to((&raw mut (*load).single).cast()) };
        });
    }

    /// Writes what a timer repeats.
    ///
    /// # Safety
    ///
    /// The caller holds the node alone, and what it carried has been taken.
    pub(super) unsafe fn put_repeat(&self, repeat: Box<Repeat<T>>) {
        let repeat = ManuallyDrop::new(repeat);
        self.load.with_mut(|load| {
            // SAFETY: the caller holds the node alone (the function's contract).
            unsafe { load.write(NodePayload { repeat }) };
        });
    }

    /// Takes the payload of a timer that fires once.
    ///
    /// # Safety
    ///
    /// The caller has ended the timer and has not let go of the node; it calls this once.
    #[inline]
    pub(super) unsafe fn take_single(&self) -> T {
        self.load.with(|load| {
            // SAFETY: this is what the node carries, and it is the caller's to take (the function's contract).
            ManuallyDrop::into_inner(unsafe { std::ptr::read(&raw const (*load).single) })
        })
    }

    /// Takes what a timer repeats.
    ///
    /// # Safety
    ///
    /// The timer repeats. The caller has ended it, or has claimed it, and another thread has ended it since; it has not let
    /// go of the node, and calls this once.
    pub(super) unsafe fn take_repeat(&self) -> Box<Repeat<T>> {
        self.load.with_mut(|load| {
            // SAFETY: this is what the node carries, and it is the caller's to take (the function's contract).
            unsafe { ManuallyDrop::take(&mut (*load).repeat) }
        })
    }

    /// Uses what a timer repeats. `f` does not come back here.
    ///
    /// # Safety
    ///
    /// The caller is the owner and has claimed the timer, which repeats.
    pub(super) unsafe fn with_repeat<R>(&self, f: impl FnOnce(&mut Repeat<T>) -> R) -> R {
        self.load.with_mut(|load| {
            // SAFETY: this is what the node carries, and no other thread uses it now (the function's contract).
            f(unsafe { &mut *(*load).repeat })
        })
    }
}

const SETTLED: u64 = 1 << 63;
const NEVER: u64 = SETTLED - 1;

/// The tick at or after which a timer may fire. Entries may name an earlier tick, never a later one, unless a message
/// is under way.
///
/// ```text
///   63      62 .. 0
///   settled tick (all ones: never)
/// ```
///
/// A move is over when its exchange here has succeeded; the state word only tells the owner to look. So it does not
/// matter where a mover stops: the value here is always a complete deadline. The node is kept
/// meanwhile (`MOVERS`), so that a slow exchange cannot meet the node's next timer.
///
/// The owner's own move takes three exchanges as well; the two on the state word keep the node.
/// Without them, by an exchange here and a second look at the state, it may meet the node's next timer: the owner
/// reads the state and the deadline 10; another thread cancels the timer and arms the next one in the node for 10;
/// the owner's exchange makes that 20, until the second look takes it back. No timer fires late by it, because only
/// the owner fires. But the other thread may ask for its timer's deadline in between, and is told 20. Loom finds an
/// execution in which it is told 20. Models of the rest fail as well: loom lets a load return what an exchange has
/// put before another thread's store, so they prove nothing either way.
///
/// The owner sets the highest bit where it acts on the value while another thread may be moving it:
///
/// * of a timer that fires once, directly before it ends it: who comes to move it now is too late;
/// * of a periodic timer, directly before it claims it and when it goes on: a move clears the bit, so the owner never
///   overwrites a mover's deadline.
#[derive(Default)]
pub(super) struct DeadlineWord(AtomicU64);

/// The value at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Seen {
    /// Returns the tick, `u64::MAX` for never.
    #[inline]
    pub(super) const fn tick(self) -> u64 {
        let tick = self.0 & NEVER;
        if tick == NEVER { u64::MAX } else { tick }
    }

    pub(super) const fn is_settled(self) -> bool {
        self.0 & SETTLED != 0
    }
}

/// Returns a tick as it is stored. Those from 2^63 on are as far away as never.
#[inline]
const fn stored(tick: u64) -> u64 {
    if tick < NEVER { tick } else { NEVER }
}

impl DeadlineWord {
    /// Sets the deadline of a timer that no other thread knows, or no other thread moves.
    #[inline]
    pub(super) fn set(&self, tick: u64) {
        // ORDERING: Release: a reader, even with an old key, sees that the timer before has ended [P23], and the owner
        // that the timer has been moved [P28]. With the state it is published by the Release in `arm` [P1].
        self.0.store(stored(tick), Ordering::Release);
    }

    /// Clears it because the node's memory is given back.
    pub(super) fn forget(&self) {
        // ORDERING: Relaxed: the system orders nothing.
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the deadline of a timer that may have ended: to be confirmed by a look at the state after this.
    pub(super) fn load_of_any(&self) -> Seen {
        // ORDERING: Acquire pairs with `set`: if this is the next timer's, the state read next is not the last one's.
        // [P23]
        Seen(self.0.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn load(&self) -> Seen {
        // ORDERING: Acquire pairs with `set`, by which a thread moves its timer alone: an owner that reads the deadline
        // sees that it was moved in the state that it checks next [P28]. Otherwise who acts on it has the state word's
        // Acquire before [P3], and a compare-and-swap after.
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Replaces the deadline, unless it is settled and `final_when_settled`; returns the tick that stood there before.
    ///
    /// The caller keeps the node.
    #[inline]
    pub(super) fn move_to(&self, tick: u64, final_when_settled: bool) -> Option<u64> {
        let mut seen = self.load();
        loop {
            if final_when_settled && seen.is_settled() {
                return None;
            }
            // ORDERING: Relaxed, both: the state word publishes it, and the owner's mark excludes it otherwise.
            match self.0.compare_exchange(
                seen.0,
                stored(tick),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(seen.tick()),
                Err(now) => seen = Seen(now),
            }
        }
    }

    /// Marks what the owner has seen as settled; false if a thread has moved the deadline since.
    pub(super) fn settle(&self, seen: Seen) -> bool {
        self.replace(seen.0, seen.tick())
    }

    /// Replaces the deadline that the owner has settled, unless a thread has moved it since.
    pub(super) fn go_on(&self, from: u64, to: u64) {
        let _ = self.replace(stored(from) | SETTLED, to);
    }

    fn replace(&self, seen: u64, to: u64) -> bool {
        // ORDERING: Relaxed: only the one order of this word's exchanges matters.
        let order = Ordering::Relaxed;
        let new = stored(to) | SETTLED;
        self.0.compare_exchange(seen, new, order, order).is_ok()
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_of_time_is_never() {
        let deadline = DeadlineWord::default();
        for (tick, kept) in [
            (NEVER - 1, NEVER - 1),
            (NEVER, u64::MAX),
            (u64::MAX, u64::MAX),
        ] {
            deadline.set(tick);
            assert_eq!(deadline.load().tick(), kept);
            assert!(deadline.settle(deadline.load()));
            assert_eq!(
                (deadline.load().tick(), deadline.load().is_settled()),
                (kept, true)
            );
        }
    }

    #[test]
    fn a_settled_deadline_moves_only_if_it_is_not_final() {
        let deadline = DeadlineWord::default();
        deadline.set(5);
        let stale = deadline.load();
        assert_eq!(deadline.move_to(7, true), Some(5));
        assert!(!deadline.settle(stale), "it was moved since");
        assert!(deadline.settle(deadline.load()));
        assert_eq!(deadline.move_to(9, true), None);
        assert_eq!(deadline.move_to(9, false), Some(7));
        assert!(!deadline.load().is_settled());
    }
}
