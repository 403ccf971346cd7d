//! The node table of one shard: arming, ending and moving timers.

use super::magazine::{Depot, ThreadCache};
use super::segments::{Segments, Zeroable};
use crate::drive::Fate;
use crate::state::{Due, Ending, Move, Moved, Phase, Release, State, StateWord};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::prefetch::prefetch;
use std::mem::MaybeUninit;

/// One timer's record: 24 bytes with an eight-byte payload.
pub(crate) struct Node<T> {
    state: StateWord,
    /// The tick at or after which the timer may fire. Entries may name an earlier tick, never a later one.
    deadline: AtomicU64,
    payload: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: state and deadline are atomic integers (zero is idle), the payload is `MaybeUninit`.
unsafe impl<T> Zeroable for Node<T> {
    #[cfg(tickwheel_loom)]
    fn idle() -> Self {
        Self {
            state: StateWord::default(),
            deadline: AtomicU64::new(0),
            payload: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

// SAFETY: the payload moves between threads (hence T: Send) and is only ever touched by one at a time:
// the armer before it publishes the node, then the one winner of the state word.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Node<T> {}

/// A freshly armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) index: u32,
    pub(crate) generation: u64,
    pub(crate) mark: u32,
}

/// A timer that the owner has just fired.
pub(crate) struct Fired<T> {
    pub(crate) payload: T,
    pub(crate) generation: u64,
    pub(crate) deadline: u64,
    /// It was one period of a periodic timer.
    pub(crate) periodic: bool,
}

/// What a move came to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rearm {
    /// Done; the entry that is already filed finds the new deadline when it comes due.
    Later,
    /// Done; an entry with this mark must be handed to the owner, because the new deadline is earlier.
    Earlier { mark: u32 },
    /// A concurrent move overrides this one.
    Superseded,
    /// The timer has ended, or the key is stale.
    Gone,
}

/// See the module.
pub(crate) struct Table<T> {
    nodes: Segments<Node<T>>,
    depot: Depot,
}

impl<T> Table<T> {
    /// A table of at most `limit` nodes (fewer than 2^32 in any case).
    pub(crate) fn new(limit: u64) -> Self {
        Self { nodes: Segments::new(), depot: Depot::new(limit) }
    }

    /// Arms a node; gives the payload back if the table is full.
    #[inline]
    pub(crate) fn arm(
        &self,
        cache: &ThreadCache,
        deadline: u64,
        payload: T,
        held: bool,
    ) -> Result<Armed, T> {
        self.arm_by(cache, deadline, payload, |state| state.arm(held))
    }

    /// As [`Table::arm`], for one period of a periodic timer.
    pub(crate) fn arm_periodic(
        &self,
        cache: &ThreadCache,
        deadline: u64,
        payload: T,
    ) -> Result<Armed, T> {
        self.arm_by(cache, deadline, payload, StateWord::arm_periodic)
    }

    #[inline]
    fn arm_by(
        &self,
        cache: &ThreadCache,
        deadline: u64,
        payload: T,
        arm: impl FnOnce(&StateWord) -> State,
    ) -> Result<Armed, T> {
        let Some(index) = cache.take(&self.depot) else {
            return Err(payload);
        };
        let node = self.nodes.get_or_alloc(index);
        node.payload.with_mut(|cell| {
            // SAFETY: the node came from our thread cache, so nobody else writes or reads its payload; an earlier
            // payload was moved out by the winner of its state word.
            unsafe { cell.write(MaybeUninit::new(payload)) };
        });
        // ORDERING: Relaxed: published by the Release in `arm`. [P1]
        node.deadline.store(deadline, Ordering::Relaxed);
        let state = arm(&node.state);
        Ok(Armed { index, generation: state.generation(), mark: state.mark() })
    }

    /// Ends a pending timer as cancelled or returned and takes its payload; `None` if it had ended.
    #[inline]
    pub(crate) fn end(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        phase: Phase,
    ) -> Option<T> {
        let node = self.nodes.get(index)?;
        match node.state.end(generation, phase, false) {
            Ending::Lost => None,
            won => Some(self.collect(cache, index, node, won)),
        }
    }

    /// As [`Table::end`] for the `Timeout` that holds the node: the node stays until [`Table::release`].
    #[inline]
    pub(crate) fn cancel_held(&self, index: u32, generation: u64) -> Option<T> {
        let node = self.nodes.get(index)?;
        match node.state.end(generation, Phase::Cancelled, true) {
            Ending::Lost => None,
            // The caller's own hold keeps the node; nothing to release.
            // SAFETY: we won, so the payload is ours, and this is the only time it is taken.
            _won => Some(unsafe { Self::take_payload(node) }),
        }
    }

    /// A `Timeout` lets go of its node.
    #[inline]
    pub(crate) fn release(&self, cache: &ThreadCache, index: u32) {
        let Some(node) = self.nodes.get(index) else {
            return;
        };
        if node.state.release_handle() == Release::Recycle {
            cache.give(&self.depot, index);
        }
    }

    /// Owner: what becomes of an entry at `now`.
    #[inline]
    pub(crate) fn due(
        &self,
        cache: &ThreadCache,
        index: u32,
        mark: u32,
        now: u64,
    ) -> Fate<Fired<T>> {
        let Some(node) = self.nodes.get(index) else {
            return Fate::Drop;
        };
        // ORDERING: Relaxed: the Acquire on the state, before, makes the latest completed move visible, and
        // the compare-and-swap after rejects any later one. [P3]
        match node.state.due(mark, now, || node.deadline.load(Ordering::Relaxed)) {
            Due::Dead => Fate::Drop,
            Due::Moving => Fate::Refile(now.saturating_add(1)),
            Due::Later(deadline) => Fate::Refile(deadline),
            Due::Fired(won) => {
                let state = node.state.load();
                // ORDERING: Relaxed: as above; no move can begin on a fired timer.
                let deadline = node.deadline.load(Ordering::Relaxed);
                Fate::Fire(Fired {
                    payload: self.collect(cache, index, node, won),
                    generation: state.generation(),
                    deadline,
                    periodic: state.is_periodic(),
                })
            }
        }
    }

    /// Takes the payload of a timer that the caller has ended, and recycles the node or lets go of it.
    #[inline]
    fn collect(&self, cache: &ThreadCache, index: u32, node: &Node<T>, won: Ending) -> T {
        // SAFETY: the caller won, so the payload is its own, and this is the only time it is taken.
        let payload = unsafe { Self::take_payload(node) };
        if won == Ending::WonSole || node.state.release_taking() == Release::Recycle {
            cache.give(&self.depot, index);
        }
        payload
    }

    /// # Safety
    ///
    /// The caller must have won the transition out of *pending* and must not have taken the payload yet.
    #[inline]
    unsafe fn take_payload(node: &Node<T>) -> T {
        node.payload.with(|cell| {
            // SAFETY: `arm` initialised the payload and published it with the state that the caller
            // acquired; the winner takes it once (the function's contract).
            unsafe { cell.read().assume_init() }
        })
    }

    /// Moves a pending timer's deadline.
    #[inline]
    pub(crate) fn rearm(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        deadline: u64,
    ) -> Rearm {
        let Some(node) = self.nodes.get(index) else {
            return Rearm::Gone;
        };
        match node.state.begin_move(generation) {
            Move::Gone => return Rearm::Gone,
            Move::Superseded => return Rearm::Superseded,
            Move::Begun => {}
        }
        // ORDERING: Relaxed: between begin and finish the caller alone writes; `finish_move` publishes. [P3]
        let old = node.deadline.load(Ordering::Relaxed);
        node.deadline.store(deadline, Ordering::Relaxed);
        match node.state.finish_move(deadline < old) {
            Moved::Done { mark } if deadline < old => Rearm::Earlier { mark },
            Moved::Done { .. } => Rearm::Later,
            Moved::Ended { recycle } => {
                if recycle {
                    cache.give(&self.depot, index);
                }
                Rearm::Gone
            }
        }
    }

    /// Gives a pending timer whose current mark this is a new one, so that every entry it has is dead; what a new entry
    /// needs: deadline and mark.
    pub(crate) fn renew_entry(&self, index: u32, mark: u32) -> Option<(u64, u32)> {
        let node = self.nodes.get(index)?;
        let state = node.state.renew_mark(mark)?;
        // ORDERING: Relaxed: at least as new as the last completed move, which the exchange acquired [P3]. A move that
        // begins now and makes it earlier sends an entry of its own; one that makes it later finds this one.
        Some((node.deadline.load(Ordering::Relaxed), state.mark()))
    }

    /// Whether an entry stands for a pending timer. A hint, unless the answer is no.
    #[inline]
    pub(crate) fn is_live(&self, index: u32, mark: u32) -> bool {
        self.nodes.get(index).is_some_and(|node| node.state.is_live(mark))
    }

    /// Asks for a node's cache line.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        // Not in the models: finding the node is an atomic load, which would only double their work.
        if cfg!(not(tickwheel_loom)) {
            if let Some(node) = self.nodes.get(index) {
                prefetch(node);
            }
        }
    }

    /// The state of the node that a key names, if the node still belongs to that timer.
    #[inline]
    pub(crate) fn state(&self, index: u32, generation: u64) -> Option<State> {
        let state = self.nodes.get(index)?.state.load();
        (state.generation() == generation).then_some(state)
    }

    /// The deadline of the timer behind a held node.
    pub(crate) fn deadline(&self, index: u32) -> u64 {
        // ORDERING: Relaxed: the caller holds the node and asks for any recent value.
        self.nodes.get(index).map_or(u64::MAX, |node| node.deadline.load(Ordering::Relaxed))
    }

    /// Returns every pending timer; for `stop`, when no further one can be accepted.
    ///
    /// Nodes armed by producers that are about to be refused are returned as well; those producers
    /// then lose the race for their own node and report the timer as accepted.
    pub(crate) fn return_all(&self, cache: &ThreadCache, mut take: impl FnMut(u32, Fired<T>)) {
        self.nodes.for_each(self.depot.end(), |index, node| {
            let state = node.state.load();
            if state.phase() != Phase::Pending {
                return;
            }
            // ORDERING: Relaxed: reported only.
            let deadline = node.deadline.load(Ordering::Relaxed);
            let (generation, periodic) = (state.generation(), state.is_periodic());
            if let Some(payload) = self.end(cache, index, generation, Phase::Returned) {
                take(index, Fired { payload, generation, deadline, periodic });
            }
        });
    }

    /// Bytes allocated for nodes and magazines, used or not.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.nodes.allocated_bytes() + self.depot.allocated_bytes()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let cache = ThreadCache::default();
        self.return_all(&cache, |_, returned| drop(returned));
    }
}

impl<T> std::fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("allocated_bytes", &self.allocated_bytes()).finish()
    }
}
