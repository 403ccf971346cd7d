//! A thread's way to its part of a shard, kept between calls: see `sync::way`.
//!
//! An engine's calls and a remote's take the way if it leads to their shard, and look the producer up otherwise. What
//! they look up becomes the way if it is where the thread's timers go: its home in an engine, the shard of a loop.
//!
//! | what may happen | why no call takes a wrong way |
//! |---|---|
//! | the engine goes, another one takes its place in memory | a group's number is never used again |
//! | the thread ends, another one takes its slot | the way is a thread-local, and forgotten with the slot |
//! | a destructor of a thread-local calls when the slot is gone | it borrows a slot, and forgets the way with it |
//! | the thread gets another home | `set_home` forgets the way |
//! | the process forks | the child's thread has the copy's slot and shard, as without a way |

use super::handle::{ShardHandle, ThreadState};
use super::producer::{Producer, no_memory};
use crate::sync::slot;
use crate::sync::way::{self, Way};

impl<'a, T> Producer<'a, T> {
    /// Returns the producer that the calling thread has just found to be its way.
    ///
    /// # Safety
    ///
    /// The way's group has shards with payloads of this type, and they live for `'a`.
    #[inline(always)] // of every call
    pub(crate) unsafe fn of(way: Way) -> Self {
        // SAFETY: the shard lives (the function's contract), and its thread states as long as it does. The thread has
        // remembered this one with its present slot, so it has it alone.
        unsafe {
            Self {
                shard: &*way.handle.cast::<ShardHandle<T>>(),
                thread: &*way.thread.cast::<ThreadState>(),
            }
        }
    }

    /// Makes this the calling thread's way. For where the thread's timers go, while it has the slot of the producer.
    pub(crate) fn remember(self) {
        way::remember(Way {
            group: self.shard.group,
            shard: self.shard.id,
            handle: std::ptr::from_ref(self.shard).cast(),
            thread: std::ptr::from_ref(self.thread).cast(),
        });
    }
}

impl<T> ShardHandle<T> {
    /// Runs `f` with the calling thread's producer of this shard, which is alone in its group. Ends the process if
    /// there is no memory for one.
    #[inline]
    pub(crate) fn with_producer<R>(&self, f: impl FnOnce(Producer<'_, T>) -> R) -> R {
        self.try_with_producer(|producer| f(producer.unwrap_or_else(|| no_memory())))
    }

    /// Like [`with_producer`](Self::with_producer), but runs `f` with `None` if there is no memory.
    #[inline(always)] // of every call
    pub(crate) fn try_with_producer<R>(&self, f: impl FnOnce(Option<Producer<'_, T>>) -> R) -> R {
        let way = way::current();
        if way.group == self.group {
            // SAFETY: this is the group's only shard.
            f(Some(unsafe { Producer::of(way) }))
        } else {
            self.with_producer_by_slot(f)
        }
    }

    #[inline(never)]
    fn with_producer_by_slot<R>(&self, f: impl FnOnce(Option<Producer<'_, T>>) -> R) -> R {
        slot::with(|slot| {
            let producer = self.try_producer(slot);
            if let Some(producer) = producer {
                producer.remember();
            }
            f(producer)
        })
    }
}
