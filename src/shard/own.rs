//! An owner's own timers: those that no other thread knows of.
//!
//! A loop has them, in a plain table, and an engine's worker has none. Their entries lie in the shard's wheel beside
//! those of its table. So one turn fires both, tick by tick and within one budget, one tick says when there is something
//! to do, and one bound holds for what is cancelled.

use super::producer::Producer;
use crate::wheel::{Entry, Records};

/// See the module.
pub(crate) trait Own: Records {
    /// Returns whether an entry is one of theirs.
    fn owns(&self, entry: &Entry) -> bool;

    /// Returns the bytes that they hold.
    fn held_bytes(&self) -> usize;
}

/// No own timers, for an engine's worker: its handlers schedule as other threads do.
pub(crate) struct NoOwn;

impl Records for NoOwn {
    fn is_live(&self, _: &Entry) -> bool {
        false
    }

    fn prefetch(&self, _: &Entry) {}

    fn pending(&self) -> u64 {
        0
    }
}

impl Own for NoOwn {
    #[inline(always)]
    fn owns(&self, _: &Entry) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// The timers behind the entries of a wheel: those of the shard's table, and the owner's own.
pub(crate) struct AllTimers<'a, T, O> {
    pub(crate) shard: Producer<'a, T>,
    pub(crate) own: &'a mut O,
}

impl<T, O: Own> Records for AllTimers<'_, T, O> {
    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        if self.own.owns(entry) {
            self.own.is_live(entry)
        } else {
            self.shard.is_live(entry)
        }
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        if self.own.owns(entry) {
            self.own.prefetch(entry);
        } else {
            self.shard.prefetch(entry);
        }
    }

    /// Both, because an own timer is counted where those of the owner are.
    fn pending(&self) -> u64 {
        self.shard.pending()
    }
}
