//! The node table of one shard: arming, ending and moving timers.

use super::magazine::{Depot, ThreadCache};
use super::record::{Load, Node};
use super::segments::Segments;
use crate::contain;
use crate::drive::{Fate, Fired};
use crate::state::{Ending, Move, Moved, Phase, State};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::prefetch::prefetch;
use crate::types::{Key, salt};

/// A freshly armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) index: u32,
    pub(crate) generation: u64,
    pub(crate) mark: u32,
}

/// What a reschedule came to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rescheduled {
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
    shard: u16,
    /// What the generations in keys are mixed with, so that another table's keys are stale here.
    salt: u64,
    /// Whether a periodic timer was ever armed: then even a table of plain numbers has something to free.
    periodic: AtomicBool,
}

impl<T> Table<T> {
    /// The table of a shard, of at most `limit` nodes (fewer than 2^32 in any case).
    pub(crate) fn new(shard: u16, limit: u64) -> Self {
        let depot = Depot::new(limit);
        Self {
            nodes: Segments::new(),
            depot,
            shard,
            salt: salt(),
            periodic: AtomicBool::new(false),
        }
    }

    /// The name of one of this table's timers.
    #[inline]
    pub(crate) const fn key(&self, index: u32, generation: u64) -> Key<T> {
        Key::new(self.shard, index, generation ^ self.salt)
    }

    /// The generation that a key names.
    #[inline]
    pub(crate) const fn generation(&self, key: Key<T>) -> u64 {
        key.generation() ^ self.salt
    }

    pub(super) const fn depot(&self) -> &Depot {
        &self.depot
    }

    pub(super) fn node(&self, index: u32) -> Option<&Node<T>> {
        self.nodes.get(index)
    }

    pub(super) fn note_periodic(&self) {
        // ORDERING: Relaxed: read when nobody else uses the table any more.
        self.periodic.store(true, Ordering::Relaxed);
    }

    /// Arms a node; gives the payload back if the table is full. `count` is called before anybody else can see the
    /// timer.
    #[inline]
    pub(crate) fn arm(
        &self,
        cache: &ThreadCache,
        deadline: u64,
        payload: T,
        held: bool,
        count: impl FnOnce(),
    ) -> Result<Armed, T> {
        let Some(index) = cache.take(&self.depot) else {
            return Err(payload);
        };
        Ok(self.arm_node(index, Phase::Pending, deadline, Load::once(payload), held, count))
    }

    /// Arms the node `index`, which the caller has taken.
    #[inline]
    pub(super) fn arm_node(
        &self,
        index: u32,
        phase: Phase,
        deadline: u64,
        load: Load<T>,
        held: bool,
        count: impl FnOnce(),
    ) -> Armed {
        let node = self.nodes.get_or_alloc(index);
        // SAFETY: the node came from the caller's thread cache, so nobody else uses what it carries; an earlier
        // payload was moved out by the winner of its state word.
        unsafe { node.put(load) };
        // ORDERING: Release: whoever reads it, and be it with an old key, sees that the timer before has ended. [P23]
        // With the state it is published by the Release in `arm` [P1].
        node.deadline.store(deadline, Ordering::Release);
        count();
        let state = node.state.arm(phase, held);
        Armed { index, generation: state.generation(), mark: state.mark() }
    }

    /// Ends a living timer as cancelled or returned and takes its payload; `None` if it had ended.
    #[inline]
    pub(crate) fn end(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        phase: Phase,
    ) -> Option<T> {
        let node = self.nodes.get(index)?;
        self.collect(cache, index, node, node.state.end(generation, phase, false))
    }

    /// As [`Table::end`] for the `Timeout` that holds the node: the node stays until [`Table::release`].
    #[inline]
    pub(crate) fn cancel_held(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
    ) -> Option<T> {
        let node = self.nodes.get(index)?;
        self.collect(cache, index, node, node.state.end(generation, Phase::Cancelled, true))
    }

    /// A `Timeout` lets go of its node.
    #[inline]
    pub(crate) fn release(&self, cache: &ThreadCache, index: u32) {
        let Some(node) = self.nodes.get(index) else {
            return;
        };
        if node.state.release_handle() {
            cache.give(&self.depot, index);
        }
    }

    /// Owner: what becomes of an entry at `now`. `count` is called if a timer has fired that fires once.
    #[inline]
    pub(crate) fn due(
        &self,
        cache: &ThreadCache,
        index: u32,
        mark: u32,
        now: u64,
        count: impl FnOnce(),
    ) -> Fate<Fired<T>> {
        let Some(node) = self.nodes.get(index) else {
            return Fate::Drop;
        };
        let mut seen = node.state.load();
        loop {
            if !seen.is_current(mark) {
                return Fate::Drop;
            }
            if seen.is_periodic() {
                return self.due_periodic(cache, index, node, mark, now);
            }
            if seen.is_moving() || seen.is_exchanged() {
                return Fate::Refile(now.saturating_add(1));
            }
            if seen.is_moved() {
                match node.state.acknowledge_move(seen) {
                    Ok(clean) => seen = clean,
                    Err(now) => {
                        seen = now;
                        continue;
                    }
                }
            }
            // ORDERING: Relaxed: the Acquire on the state, before, makes the latest completed move visible, and
            // the compare-and-swap after rejects any later one. [P3]
            let deadline = node.deadline.load(Ordering::Relaxed);
            if deadline > now {
                return Fate::Refile(deadline);
            }
            match node.state.try_end(seen, Phase::Fired, false) {
                Ok(won) => {
                    count();
                    let key = self.key(index, seen.generation());
                    let Some(payload) = self.collect(cache, index, node, won) else {
                        return Fate::Drop;
                    };
                    return Fate::Fire(Fired { payload, key, deadline, periodic: false });
                }
                Err(now) => seen = now,
            }
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
    ) -> Option<T> {
        match ending {
            Ending::Lost | Ending::Left => None,
            Ending::Sole(was) => {
                let (payload, _) = Self::take(node, was);
                cache.give(&self.depot, index);
                Some(payload)
            }
            // The caller's own hold keeps the node; nothing to release.
            Ending::Held(was) => Some(Self::take(node, was).0),
            Ending::Shared(was) => {
                let (payload, _) = Self::take(node, was);
                self.release_taking(cache, index, node, was);
                Some(payload)
            }
        }
    }

    /// Takes the payload of a timer that the caller has ended, which was in the state `was`; of a periodic timer also
    /// the tick of its coming call, if that is known.
    #[inline]
    fn take(node: &Node<T>, was: State) -> (T, Option<u64>) {
        if was.is_periodic() {
            return Self::take_periodic(node, was);
        }
        // SAFETY: `arm` wrote the payload and published it with the state that the caller acquired; the caller
        // is the one winner and takes it once.
        (unsafe { node.take_once() }, None)
    }

    /// The winner has read the payload, while others look at the node.
    #[inline]
    fn release_taking(&self, cache: &ThreadCache, index: u32, node: &Node<T>, was: State) {
        // SAFETY: the winner has not let go yet, and the timer was periodic if its owner was busy with it.
        let link = was.is_busy().then(|| unsafe { node.link() });
        let left = node.state.release_taking();
        if let Some(link) = link {
            // SAFETY: as above; this is the winner's last release.
            unsafe { Self::winner_let_go(link, left) };
        }
        self.give_if_free(cache, index, left);
    }

    #[inline]
    pub(super) fn give_if_free(&self, cache: &ThreadCache, index: u32, left: State) {
        if left.is_free() {
            cache.give(&self.depot, index);
        }
    }

    /// Moves a living timer's deadline.
    #[inline]
    pub(crate) fn reschedule(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        deadline: u64,
    ) -> Rescheduled {
        let Some(node) = self.nodes.get(index) else {
            return Rescheduled::Gone;
        };
        let begun = match node.state.begin_move(generation) {
            Move::Gone => return Rescheduled::Gone,
            Move::Superseded => return Rescheduled::Superseded,
            Move::Begun(begun) => begun,
        };
        // ORDERING: Relaxed: between begin and finish the caller alone writes; `finish_move` publishes [P3]. Release
        // tells the owner of a periodic timer, who may read it before that, that the move is under way [P22].
        let old = node.deadline.load(Ordering::Relaxed);
        node.deadline.store(deadline, Ordering::Release);
        // Only its owner knows when a periodic timer is due.
        match node.state.finish_move(begun, begun.is_periodic() || deadline < old) {
            Moved::Anew { mark } => Rescheduled::Earlier { mark },
            Moved::Noted => Rescheduled::Later,
            Moved::Ended { recycle } => {
                if recycle {
                    cache.give(&self.depot, index);
                }
                Rescheduled::Gone
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

    /// The deadline of the timer that a key names, if it lives.
    pub(crate) fn deadline_of(&self, index: u32, generation: u64) -> Option<u64> {
        let node = self.nodes.get(index)?;
        // First, or it may be an earlier timer's: keys come on ways that order nothing.
        if !node.state.load().is_named(generation) {
            return None;
        }
        // ORDERING: Acquire pairs with `arm_node`: behind the next timer's deadline lies this one's end. [P23]
        let deadline = node.deadline.load(Ordering::Acquire);
        node.state.load().is_named(generation).then_some(deadline)
    }

    /// The deadline of the timer behind a held node.
    pub(crate) fn deadline(&self, index: u32) -> u64 {
        // ORDERING: Relaxed: the caller holds the node and asks for any recent value.
        self.nodes.get(index).map_or(u64::MAX, |node| node.deadline.load(Ordering::Relaxed))
    }

    /// Returns every living timer; for `stop`, when no further one can be accepted.
    ///
    /// Nodes armed by producers that are about to be refused are returned as well; those producers
    /// then lose the race for their own node and report the timer as accepted.
    pub(crate) fn return_all(&self, cache: &ThreadCache, mut take: impl FnMut(Fired<T>)) {
        self.nodes.for_each(self.depot.end(), |index, node| {
            let state = node.state.load();
            if !state.is_live() {
                return;
            }
            // ORDERING: Relaxed: reported only.
            let deadline = node.deadline.load(Ordering::Relaxed);
            let ending = node.state.end(state.generation(), Phase::Returned, false);
            let (was, shared) = match ending {
                Ending::Lost | Ending::Left => return,
                Ending::Sole(was) | Ending::Held(was) => (was, false),
                Ending::Shared(was) => (was, true),
            };
            let (payload, due) = Self::take(node, was);
            if shared {
                self.release_taking(cache, index, node, was);
            } else {
                cache.give(&self.depot, index);
            }
            let key = self.key(index, was.generation());
            let (deadline, periodic) = (due.unwrap_or(deadline), was.is_periodic());
            take(Fired { payload, key, deadline, periodic });
        });
    }

    /// Bytes allocated for nodes and magazines, used or not.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.nodes.allocated_bytes() + self.depot.allocated_bytes()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: `&mut self` means that everything happened before.
        if !std::mem::needs_drop::<T>() && !self.periodic.load(Ordering::Relaxed) {
            return;
        }
        let cache = ThreadCache::default();
        // An owner that went away during a call has let go of nothing.
        self.nodes.for_each(self.depot.end(), |index, _| self.abandon_call(&cache, index));
        self.return_all(&cache, |returned| contain::drop_payload(returned.payload));
    }
}

impl<T> std::fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("allocated_bytes", &self.allocated_bytes()).finish()
    }
}
