//! Small dense numbers for threads.
//!
//! A thread that touches an engine for the first time takes the lowest free number and keeps it until it ends; then the
//! number goes to the next thread that asks. So a slot names at most one live thread at a time, and a thread state
//! (`shard::handle`) has one writer. The next thread inherits the state that an ended thread leaves, and nothing in it
//! is lost.
//!
//! The lock below is taken once when a thread arrives and once when it ends, never in between. No thread allocates, or
//! does anything else that takes long, while it holds the lock.

use super::way;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
struct Pool {
    next: u32,
    /// Has room for all numbers below `next`.
    free: BinaryHeap<Reverse<u32>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    next: 0,
    free: BinaryHeap::new(),
});

/// The value of `CURRENT` in a thread that holds no slot.
const NONE: u32 = u32::MAX;

thread_local! {
    /// Read on every operation: no destructor, hence no state check on access.
    static CURRENT: Cell<u32> = const { Cell::new(NONE) };
    /// Gives the slot back when the thread ends.
    static GUARD: Cell<Option<Lease>> = const { Cell::new(None) };
}

/// A slot that is handed back on drop.
struct Lease(u32);

impl Lease {
    fn take() -> Self {
        let mut room = BinaryHeap::new();
        loop {
            // The mutex orders everything that the slot's last thread did with its thread states before what the next one does.
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Reverse(slot)) = pool.free.pop() {
                return Self(slot);
            }
            if pool.free.capacity() < room.capacity() {
                // Both are empty.
                std::mem::swap(&mut pool.free, &mut room);
            }
            let fresh = pool.next;
            if (fresh as usize) < pool.free.capacity() {
                pool.next += 1;
                return Self(fresh);
            }
            drop(pool);
            room = BinaryHeap::with_capacity(2 * fresh as usize + 64);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // It leads to thread states that the number's next holder has alone.
        way::forget();
        // After this thread-local is gone the thread must not go on using the number.
        let _ = CURRENT.try_with(|current| {
            if current.get() == self.0 {
                current.set(NONE);
            }
        });
        POOL.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .free
            .push(Reverse(self.0));
    }
}

/// Runs `f` with the calling thread's slot.
///
/// Works in destructors of thread-locals too: a thread that has already given its slot back borrows
/// one for the length of the call.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(u32) -> R) -> R {
    match CURRENT.try_with(Cell::get) {
        Ok(slot) if slot != NONE => f(slot),
        _ => with_slow(f),
    }
}

#[cold]
fn with_slow<R>(f: impl FnOnce(u32) -> R) -> R {
    let lease = Lease::take();
    let slot = lease.0;
    let mut borrowed = Some(lease);
    let _ = GUARD.try_with(|guard| guard.set(borrowed.take()));
    let _ = CURRENT.try_with(|current| current.set(slot));
    // `borrowed` still holds the lease when the thread is being torn down: returned after `f`, for which the thread has
    // this slot and no other.
    let result = f(slot);
    drop(borrowed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_so_they_stay_dense() {
        for n in 0..400 {
            let slot = || with(|slot| slot);
            let slot = std::thread::scope(|scope| scope.spawn(slot).join().unwrap());
            assert!(slot < 150, "slot {slot} is not dense in round {n}");
        }
    }

    #[test]
    fn works_in_a_thread_local_destructor() {
        struct Late(std::sync::mpsc::Sender<(u32, u32)>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0
                    .send(with(|slot| (slot, with(|within| within))))
                    .unwrap();
                // Windows destroys thread-locals in rounds, and the slot goes back in a later one.
                let given_back = CURRENT.with(Cell::get) == NONE;
                assert!(
                    given_back || cfg!(windows),
                    "only for the length of the call"
                );
            }
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            LATE.with(|late| late.set(Some(Late(sender))));
            with(|_| ());
        })
        .join()
        .unwrap();
        let (slot, within) = receiver.recv().unwrap();
        assert_eq!(slot, within, "a thread has one slot");
    }

    /// The number's next holder has what the way leads to alone.
    #[test]
    fn a_way_is_forgotten_with_the_slot() {
        /// Says, at the end of its thread, whether the slot was given back, and which way is left; and the same of a
        /// call that borrows a slot.
        struct Late(std::sync::mpsc::Sender<(bool, [u64; 2])>);
        impl Drop for Late {
            fn drop(&mut self) {
                let given_back = CURRENT.with(Cell::get) == NONE;
                let after = way::current().group;
                with(|_| remember(18));
                let borrowed = way::current().group;
                self.0.send((given_back, [after, borrowed])).unwrap();
            }
        }
        fn remember(group: u64) {
            way::remember(way::Way {
                group,
                ..way::Way::NONE
            });
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Destroyed after the lease, because it is used first.
            LATE.with(|late| late.set(None));
            with(|_| remember(17));
            LATE.with(|late| late.set(Some(Late(sender))));
            assert_eq!(with(|_| way::current().group), 17);
        })
        .join()
        .unwrap();
        let (given_back, ways) = receiver.recv().unwrap();
        // Windows destroys thread-locals in rounds, and the slot goes back in a later one.
        let expected = if given_back { [0, 0] } else { [17, 18] };
        assert_eq!(ways, expected);
        assert!(given_back || cfg!(windows));
    }
}
