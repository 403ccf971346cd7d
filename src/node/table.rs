//! The node table of one shard: arming and ending timers.

use super::magazine::{Depot, Nodes, ThreadCache};
use super::offer::Offer;
use super::record::{Node, Seen};
use crate::contain;
use crate::state::{Ending, MOVED, MOVERS, Phase, State, generation_seed};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::prefetch::prefetch;
use crate::sync::segments::Segments;
use crate::types::{Cancel, Key, KeyMask};
use crate::wheel::Fate;
use crossbeam_utils::CachePadded;

/// A freshly armed timer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) index: u32,
    pub(crate) generation: u64,
    pub(crate) mark: u32,
}

/// A timer that has fired, or that `stop` has returned, on its way out.
pub(crate) struct Fired<T> {
    pub(crate) payload: T,
    pub(crate) key: Key<T>,
    /// The tick at or after which the timer was to fire.
    pub(crate) deadline: u64,
}

/// A timer that is due.
pub(crate) enum Due<T> {
    /// It has fired and is gone.
    Once(Fired<T>),
    /// It repeats: [`Owner::call`](crate::shard::Owner::call) decides about it.
    Every { index: u32, mark: u32 },
}

/// See the module.
pub(crate) struct Table<T> {
    pub(super) nodes: Segments<Node<T>>,
    pub(super) depot: Depot,
    /// Mixed into the generations of keys, so that another table's keys are stale here.
    keys: KeyMask,
    /// How many timers are periodic. On a line of its own, because every schedule reads the nodes.
    pub(super) periodic: CachePadded<AtomicU64>,
}

impl<T> Nodes for Table<T> {
    fn provide(&self, node: u32) -> bool {
        self.nodes.try_get_or_alloc(node).is_some()
    }

    fn renew(&self, node: u32, generation: u64) {
        if let Some(node) = self.nodes.get(node) {
            node.state.restart_after(generation);
        }
    }
}

impl<T> Table<T> {
    /// Creates the table of a shard, with at most `limit` nodes (fewer than 2^32 in any case).
    pub(crate) fn new(shard: u16, limit: u64) -> Self {
        Self {
            nodes: Segments::new(),
            depot: Depot::new(limit),
            keys: KeyMask::new(shard, generation_seed()),
            periodic: CachePadded::default(),
        }
    }

    /// Returns the name of one of this table's timers.
    #[inline]
    pub(crate) const fn key(&self, index: u32, generation: u64) -> Key<T> {
        self.keys.key(index, generation)
    }

    /// Returns the generation that a key names.
    #[inline]
    pub(crate) const fn generation(&self, key: Key<T>) -> u64 {
        self.keys.generation(key)
    }

    /// Arms a node; gives the offer back if the table is full or there is no memory for it to grow. `count` is called
    /// before any other thread can see the timer.
    #[inline]
    pub(crate) fn arm<'p>(
        &self,
        cache: &ThreadCache,
        deadline: u64,
        payload: Offer<'p, T>,
        held: bool,
        count: impl FnOnce(),
    ) -> Result<Armed, Offer<'p, T>> {
        let Some((index, node)) = self.take_node(cache) else {
            return Err(payload);
        };
        // SAFETY: the node came from the caller's thread cache, so no other thread uses what it carries; an earlier
        // payload was moved out by the winner of its state word.
        unsafe { node.put_single(payload) };
        Ok(Self::arm_node(
            (index, node),
            Phase::Pending,
            deadline,
            held,
            count,
        ))
    }

    /// Returns a free node for the caller alone.
    #[inline]
    pub(super) fn take_node(&self, cache: &ThreadCache) -> Option<(u32, &Node<T>)> {
        let index = cache.take(&self.depot, self)?;
        Some((index, self.nodes.get(index)?))
    }

    /// Returns whether the table can never have more nodes; if it gives none all the same, there is no memory.
    #[cold]
    pub(crate) fn is_full(&self) -> bool {
        self.depot.is_exhausted()
    }

    /// Arms a node, which the caller has taken and which carries the payload.
    #[inline]
    pub(super) fn arm_node(
        (index, node): (u32, &Node<T>),
        phase: Phase,
        deadline: u64,
        held: bool,
        count: impl FnOnce(),
    ) -> Armed {
        node.deadline.set(deadline);
        count();
        let state = node.state.arm(phase, held);
        Armed {
            index,
            generation: state.generation(),
            mark: state.mark(),
        }
    }

    /// Ends a living timer as cancelled or returned and takes its payload.
    #[inline(always)] // a call costs a tenth of a cancel
    pub(crate) fn end(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        phase: Phase,
    ) -> Cancel<T> {
        let Some(node) = self.nodes.get(index) else {
            return Cancel::Gone;
        };
        if node.state.end_as_armed(generation, phase) {
            // SAFETY: as in `take`; the timer fires once.
            let payload = unsafe { node.take_single() };
            cache.give(&self.depot, index);
            return Cancel::Won(payload);
        }
        self.end_any(cache, index, generation, phase)
    }

    /// Like [`end`](Self::end), of a timer in any state.
    #[inline(never)] // out of the way of the usual case
    fn end_any(&self, cache: &ThreadCache, index: u32, generation: u64, phase: Phase) -> Cancel<T> {
        let Some(node) = self.nodes.get(index) else {
            return Cancel::Gone;
        };
        self.collect(cache, index, node, node.state.end(generation, phase))
    }

    /// Like [`Table::end`], for the `TimerHandle` that holds the node: the node stays until [`Table::release`].
    #[inline(always)] // as above
    pub(crate) fn cancel_held(&self, cache: &ThreadCache, index: u32) -> Cancel<T> {
        let Some(node) = self.nodes.get(index) else {
            return Cancel::Gone;
        };
        self.collect(cache, index, node, node.state.cancel_held())
    }

    /// Returns the state of a held node, which is that of the timer it is held for.
    #[inline]
    pub(crate) fn held_state(&self, index: u32) -> State {
        self.nodes
            .get(index)
            .map_or_else(State::default, |node| node.state.load())
    }

    /// Releases the node of a `TimerHandle`.
    #[inline]
    pub(crate) fn release(&self, cache: &ThreadCache, index: u32) {
        if self
            .nodes
            .get(index)
            .is_some_and(|node| node.state.release_handle())
        {
            cache.give(&self.depot, index);
        }
    }

    /// Cancels the timer whose node a future holds, if it is pending, and releases the node. What `end` makes of the
    /// payload, if this has won.
    #[cfg(feature = "futures")]
    #[inline(always)] // as above
    pub(crate) fn end_held<R>(
        &self,
        cache: &ThreadCache,
        index: u32,
        end: impl FnOnce(T) -> R,
    ) -> Option<R> {
        let node = self.nodes.get(index)?;
        let ended = match node.state.cancel_held() {
            Ending::Held(was) => Some(end(self.take(node, was))),
            _ => None,
        };
        if node.state.release_handle() {
            cache.give(&self.depot, index);
        }
        ended
    }

    /// Decides, as the owner, about an entry at `now`.
    #[inline(always)] // as `Wheel::next`
    pub(crate) fn due(&self, cache: &ThreadCache, index: u32, mark: u32, now: u64) -> Fate<Due<T>> {
        let Some(node) = self.nodes.get(index) else {
            return Fate::Drop;
        };
        loop {
            let (seen, found) = match Self::due_node(node, mark, now) {
                Ok(due) => due,
                Err(fate) => return fate,
            };
            if seen.is_periodic() {
                return Fate::Fire(Due::Every { index, mark });
            }
            // Without a mover in `seen` no thread can have moved it when the next step succeeds.
            if seen.has(MOVERS) && !found.is_settled() && !node.deadline.settle(found) {
                continue;
            }
            if let Ok(won) = node.state.try_end(seen, Phase::Fired, false) {
                let key = self.key(index, seen.generation());
                // Never gone: the timer has not been ended before.
                let Cancel::Won(payload) = self.collect(cache, index, node, won) else {
                    return Fate::Drop;
                };
                return Fate::Fire(Due::Once(Fired {
                    payload,
                    key,
                    deadline: found.tick(),
                }));
            }
        }
    }

    /// Looks, as the owner, at the timer behind an entry: its state, in which no move has ended that is not in the deadline.
    /// The entry's fate if it is not due at `now`.
    #[inline(always)] // as above
    pub(super) fn due_node(
        node: &Node<T>,
        mark: u32,
        now: u64,
    ) -> Result<(State, Seen), Fate<Due<T>>> {
        let mut seen = node.state.load();
        loop {
            if !seen.is_current(mark) {
                return Err(Fate::Drop);
            }
            if seen.has(MOVED) {
                match node.state.acknowledge_move(seen) {
                    Ok(clean) => seen = clean,
                    Err(now) => {
                        seen = now;
                        continue;
                    }
                }
            }
            let found = node.deadline.load();
            let tick = found.tick();
            if tick > now {
                if !node.state.is_still(seen) {
                    seen = node.state.load();
                    continue;
                }
                return Err(Fate::Reinsert { tick, mark });
            }
            return Ok((seen, found));
        }
    }

    /// Takes the payload of a timer that the caller has ended, and recycles the node or lets go of it.
    #[inline(always)] // the payload would go through memory
    fn collect(
        &self,
        cache: &ThreadCache,
        index: u32,
        node: &Node<T>,
        ending: Ending,
    ) -> Cancel<T> {
        match ending {
            Ending::Lost => Cancel::Gone,
            Ending::Claimed => Cancel::AfterCall,
            Ending::Sole(was) => {
                let payload = self.take(node, was);
                cache.give(&self.depot, index);
                Cancel::Won(payload)
            }
            // The caller's own hold keeps the node; nothing to release.
            Ending::Held(was) => Cancel::Won(self.take(node, was)),
            Ending::Shared(was) => {
                let payload = self.take(node, was);
                self.give_if_free(cache, index, node.state.release_taking());
                Cancel::Won(payload)
            }
        }
    }

    /// Takes the payload of a timer that the caller has ended, which was in the state `was`.
    #[inline]
    fn take(&self, node: &Node<T>, was: State) -> T {
        if was.is_periodic() {
            // SAFETY: as below; what the timer repeats is the winner's, because the owner had not claimed it.
            return unsafe { self.take_periodic(node) };
        }
        // SAFETY: `arm` wrote the payload and published it with the state that the caller acquired; the caller
        // is the one winner and takes it once.
        unsafe { node.take_single() }
    }

    #[inline]
    pub(super) fn give_if_free(&self, cache: &ThreadCache, index: u32, left: State) {
        if left.is_free() {
            cache.give(&self.depot, index);
        }
    }

    /// Returns whether an entry stands for a pending timer. A hint, unless the answer is no.
    #[inline]
    pub(crate) fn is_live(&self, index: u32, mark: u32) -> bool {
        self.nodes
            .get(index)
            .is_some_and(|node| node.state.is_live(mark))
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

    /// Asks for a node's first and last cache line.
    #[inline]
    pub(crate) fn prefetch_whole(&self, index: u32) {
        if cfg!(not(tickwheel_loom)) {
            if let Some(node) = self.nodes.get(index) {
                prefetch(node);
                let end = std::ptr::from_ref(node).wrapping_add(1);
                prefetch(end.cast::<u8>().wrapping_sub(1));
            }
        }
    }

    /// Returns the state of the node that a key names, if the node still belongs to that timer.
    #[inline]
    pub(crate) fn state(&self, index: u32, generation: u64) -> Option<State> {
        let state = self.nodes.get(index)?.state.load();
        (state.generation() == generation).then_some(state)
    }

    /// Returns the deadline of the timer that a key names, if it lives.
    pub(crate) fn deadline_of(&self, index: u32, generation: u64) -> Option<u64> {
        let node = self.nodes.get(index)?;
        // First, or it may be an earlier timer's: keys come on ways that order nothing.
        if !node.state.load().is_named(generation) {
            return None;
        }
        // If this is the next timer's deadline already, then the state read below is that of an ended timer, or of the
        // next.
        let deadline = node.deadline.load_of_any().tick();
        node.state.load().is_named(generation).then_some(deadline)
    }

    /// Returns the deadline of the timer behind a held node.
    pub(crate) fn deadline(&self, index: u32) -> u64 {
        self.nodes
            .get(index)
            .map_or(u64::MAX, |node| node.deadline.load().tick())
    }

    /// Returns the keys and deadlines of the timers that are pending now. O(peak number of timers).
    pub(crate) fn pending_keys(&self) -> Vec<(Key<T>, u64)> {
        let mut keys = Vec::new();
        self.for_each_pending(|key, tick| keys.push((key, tick)));
        keys
    }

    /// Calls `visit` with the keys and deadlines of the timers that are pending now. O(peak number of timers).
    pub(crate) fn for_each_pending(&self, mut visit: impl FnMut(Key<T>, u64)) {
        self.nodes.for_each(self.depot.end(), |index, node| {
            let generation = node.state.load().generation();
            if let Some(tick) = self.deadline_of(index, generation) {
                visit(self.key(index, generation), tick);
            }
        });
    }

    /// Returns the number of nodes that have served and whose memory the system does not have.
    pub(super) fn resident(&self) -> u64 {
        self.depot
            .end()
            .saturating_sub(self.depot.regions.returned())
    }

    /// Returns the number of nodes that have served and lie in no free region.
    pub(super) fn loose(&self) -> u64 {
        self.depot.end().saturating_sub(self.depot.regions.nodes())
    }

    /// Returns the bytes of nodes that have served, less those whose memory the system has, and of magazines.
    pub(crate) fn held_bytes(&self) -> usize {
        self.resident() as usize * size_of::<Node<T>>() + self.depot.allocated_bytes()
    }

    /// Returns the number of periodic timers, but that one may be missing which another thread begins or ends.
    pub(crate) fn periodic_timers(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release by which a timer is counted in `arm_periodic`: a thread that counts
        // beginnings next finds it among them. [P11]
        self.periodic.load(Ordering::Acquire)
    }

    /// Ends every living timer and gives it to `take`; for `stop`, when no further one can be accepted.
    ///
    /// Nodes armed by producers that are about to be refused are given as well; those producers
    /// then lose the race for their own node and report the timer as accepted.
    pub(crate) fn return_all(&self, cache: &ThreadCache, mut take: impl FnMut(Fired<T>)) {
        self.nodes.for_each(self.depot.end(), |index, node| {
            let state = node.state.load();
            if !state.is_live() {
                return;
            }
            let ending = node.state.end(state.generation(), Phase::Returned);
            // Before the node may serve again.
            let deadline = node.deadline.load().tick();
            if let Cancel::Won(payload) = self.collect(cache, index, node, ending) {
                let key = self.key(index, state.generation());
                take(Fired {
                    payload,
                    key,
                    deadline,
                });
            }
        });
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: `&mut self` means that everything happened before.
        if !std::mem::needs_drop::<T>() && self.periodic.load(Ordering::Relaxed) == 0 {
            return;
        }
        let cache = ThreadCache::default();
        self.return_all(&cache, |returned| contain::drop_payload(returned.payload));
    }
}
