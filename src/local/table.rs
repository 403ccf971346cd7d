//! The nodes of a single-threaded timer: arming, ending, moving, and the decision about what is due.
//!
//! What always holds: a pending node has an entry with its current mark, inserted at its deadline or earlier.
//! A mark may come round (after 2^23 armings, or 256 moves to an earlier deadline); an old entry with the same
//! mark then looks current, is inserted again for the node's deadline, and dies with the timer. One entry too many
//! does no harm.

use super::node::Node;
use crate::state::{Phase, State, generation_seed};
use crate::sync::boxed::Place;
use crate::sync::prefetch::prefetch;
use crate::time::{Deadline, Repeat, Time};
use crate::turn::{Fate, TimerStore};
use crate::types::{Key, ScheduleError, ScheduleErrorKind};
use crate::wheel::{Entry, Records};
use alloc::vec::Vec;

/// The end of the free list.
const NIL: u32 = u32::MAX;

/// The most nodes of one table: every index but `NIL`.
const MAX_NODES: usize = NIL as usize;

/// A timer that has just been armed or moved: key and entry in few words.
///
/// They are put together where they are used, because a key or an entry that goes through memory is written
/// in parts and read back as a whole; that stall would double the cost of a schedule.
#[derive(Clone, Copy)]
pub(super) struct Armed {
    state: State,
    index: u32,
}

impl Armed {
    #[inline(always)]
    pub(super) const fn key<T>(self) -> Key<T> {
        Key::new(0, self.index, self.state.generation())
    }

    #[inline(always)]
    pub(super) const fn entry(self, deadline: u64) -> Entry {
        Entry {
            deadline,
            index: self.index,
            mark: self.state.mark(),
        }
    }
}

/// A timer that is due.
pub(super) enum Due<T> {
    /// It has fired and is gone.
    Once {
        payload: T,
        key: Key<T>,
        deadline: u64,
    },
    /// It fires and stays: call [`Table::renew`] and insert the entry that comes of it.
    Every { index: u32 },
}

/// A periodic timer on its way to its next deadline.
pub(super) struct Renewed<T> {
    pub(super) key: Key<T>,
    /// The tick that it fires for.
    pub(super) deadline: u64,
    /// The entry to insert for the next one.
    pub(super) entry: Entry,
    /// Whether the next deadline is to be counted anew from the end of the handler.
    pub(super) rests: bool,
}

/// The result of a change of deadline.
#[must_use]
pub(super) enum Rescheduled {
    /// Done; the entry that is inserted finds the new deadline when it comes due.
    Later,
    /// Done; an entry must be inserted, because the new deadline is earlier.
    Earlier(Armed),
    /// The timer has ended, or the key is stale.
    Gone,
}

/// See the module.
pub(super) struct Table<T> {
    nodes: Vec<Node<T>>,
    /// The free node that is taken next: the one that was freed last, whose line is still in cache.
    free: u32,
    pending: usize,
    /// Timers that may be pending.
    limit: usize,
    /// Where the nodes begin to count generations: at random, so that other tables' keys are stale here.
    seed: u64,
}

impl<T> Table<T> {
    pub(super) fn new(max_pending: Option<usize>) -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
            pending: 0,
            limit: max_pending.map_or(MAX_NODES, |limit| limit.min(MAX_NODES)),
            seed: generation_seed(),
        }
    }

    pub(super) const fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.capacity() * size_of::<Node<T>>()
    }

    #[inline]
    fn node(&self, key: Key<T>) -> Option<&Node<T>> {
        self.nodes
            .get(key.index() as usize)
            .filter(|node| node.is_named_by(key))
    }

    #[inline]
    fn node_mut(&mut self, key: Key<T>) -> Option<&mut Node<T>> {
        self.nodes
            .get_mut(key.index() as usize)
            .filter(|node| node.is_named_by(key))
    }

    /// Arms a node that fires once; gives the payload back if the limit is reached or there is no memory.
    #[inline(always)]
    pub(super) fn arm(&mut self, deadline: u64, payload: T) -> Result<Armed, ScheduleError<T>> {
        if self.pending >= self.limit {
            return Err(self.refusal(payload));
        }
        if self.free == NIL && !self.grow() {
            return Err(ScheduleError::no_memory(payload));
        }
        Ok(self.arm_with(|node| node.arm(deadline, payload)))
    }

    /// Like [`arm`](Self::arm), for a timer that fires again and again.
    pub(super) fn arm_periodic(&mut self, repeat: Repeat<T>) -> Result<Armed, ScheduleError<T>> {
        if self.pending >= self.limit {
            return Err(self.refusal(repeat.payload));
        }
        let place = Place::new().filter(|_| self.free != NIL || self.grow());
        let Some(place) = place else {
            return Err(ScheduleError::no_memory(repeat.payload));
        };
        let (tick, repeat) = (repeat.recurrence.tick(), place.put(repeat));
        Ok(self.arm_with(|node| node.arm_periodic(tick, repeat)))
    }

    /// Returns the error of one timer more than the limit.
    #[cold]
    fn refusal(&self, payload: T) -> ScheduleError<T> {
        let limit = self.limit;
        let kind = if limit == MAX_NODES {
            ScheduleErrorKind::OutOfNodes {
                shard: 0,
                limit: limit as u64,
            }
        } else {
            ScheduleErrorKind::TooManyPending {
                pending: limit,
                max_pending: limit,
            }
        };
        ScheduleError::new(kind, payload)
    }

    /// Arms the first free node; there must be one.
    #[inline(always)]
    fn arm_with(&mut self, arm: impl FnOnce(&mut Node<T>) -> (State, u32)) -> Armed {
        let index = self.free;
        let (state, next) = arm(&mut self.nodes[index as usize]);
        self.free = next;
        self.pending += 1;
        Armed { state, index }
    }

    /// Makes room for `timers` more pending nodes, if there is memory for it.
    pub(super) fn reserve(&mut self, timers: usize) {
        let (free, before) = (self.nodes.len() - self.pending, self.nodes.capacity());
        let more = timers
            .saturating_sub(free)
            .min(MAX_NODES - self.nodes.len());
        let _ = self.nodes.try_reserve(more);
        self.after_growth(before);
    }

    /// Asks for huge pages, if the nodes have moved to another place: they are looked at in random order.
    fn after_growth(&self, before: usize) {
        if self.nodes.capacity() > before {
            #[cfg(feature = "threads")]
            crate::sync::pages::prefer_huge(self.nodes.as_ptr().cast(), self.held_bytes());
        }
    }

    /// Gives up the free nodes behind the last pending one, and what is reserved beyond. O(nodes).
    pub(super) fn shrink_to_fit(&mut self) {
        let last = self.nodes.iter().rposition(|node| node.state().is_live());
        let used = last.map_or(0, |at| at + 1);
        if used < self.nodes.len() {
            self.nodes.truncate(used);
            // The nodes that come after these begin anew, where no key of the old ones names them.
            self.seed = generation_seed();
            self.free = NIL;
            for (index, node) in self.nodes.iter_mut().enumerate().rev() {
                if !node.state().is_live() {
                    node.move_to(u64::from(self.free));
                    self.free = index as u32;
                }
            }
        }
        if shrink_to_fit(&mut self.nodes) {
            self.after_growth(0);
        }
    }

    /// Adds a free node; false if there is no memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let before = self.nodes.capacity();
        let has_room = self.nodes.try_reserve(1).is_ok();
        if has_room {
            self.after_growth(before);
            self.free = u32::try_from(self.nodes.len()).expect("callers keep below MAX_NODES");
            self.nodes.push(Node::free(NIL, self.seed));
        }
        has_room
    }

    /// Ends a pending timer and takes its payload; `None` if it had ended.
    #[inline]
    pub(super) fn end(&mut self, key: Key<T>, phase: Phase) -> Option<T> {
        let payload = self
            .nodes
            .get_mut(key.index() as usize)?
            .end(key, self.free, phase)?;
        self.free = key.index();
        self.pending -= 1;
        Some(payload)
    }

    /// Moves a pending timer.
    #[inline]
    pub(super) fn reschedule(&mut self, key: Key<T>, deadline: Deadline) -> Rescheduled {
        let Some(node) = self.node_mut(key) else {
            return Rescheduled::Gone;
        };
        if node.state().is_periodic() {
            Self::restart(node, deadline);
        }
        let later = deadline.tick >= node.deadline();
        node.move_to(deadline.tick);
        if later {
            return Rescheduled::Later;
        }
        Rescheduled::Earlier(Armed {
            state: node.supersede_entry(),
            index: key.index(),
        })
    }

    /// Moves a pending timer that has no entry; false if it has ended.
    #[inline]
    pub(super) fn move_to(&mut self, key: Key<T>, deadline: u64) -> bool {
        let node = self.node_mut(key);
        node.map(|node| node.move_to(deadline)).is_some()
    }

    #[cold]
    fn restart(node: &mut Node<T>, deadline: Deadline) {
        if let Some(repeat) = node.repeat_mut() {
            repeat.recurrence.move_to(deadline);
        }
    }

    /// Sends a periodic timer that is due on to its next deadline.
    ///
    /// # Panics
    ///
    /// If the node is not a periodic one: only for what [`Due::Every`] says.
    pub(super) fn renew(&mut self, index: u32, now: Time) -> Renewed<T> {
        let node = &mut self.nodes[index as usize];
        let repeat = node.repeat_mut().expect("this is what `Due::Every` says");
        repeat.recurrence.advance(now);
        let (next, rests) = (repeat.recurrence.tick(), repeat.recurrence.rests);
        let deadline = node.deadline();
        node.move_to(next);
        let armed = Armed {
            state: node.supersede_entry(),
            index,
        };
        Renewed {
            key: armed.key(),
            deadline,
            entry: armed.entry(next),
            rests,
        }
    }

    /// Counts a fixed delay from `ended`, unless the handler has cancelled the timer or moved it. A later deadline
    /// needs no new entry.
    pub(super) fn rest(&mut self, key: Key<T>, ended: Time) {
        let Some(node) = self.node_mut(key) else {
            return;
        };
        let Some(Repeat { recurrence, .. }) = node.repeat_mut() else {
            return;
        };
        if recurrence.rest(ended) {
            let next = recurrence.tick();
            node.move_to(next);
        }
    }

    /// Returns a clone of a periodic timer's payload.
    pub(super) fn clone_payload(&self, key: Key<T>) -> Option<T> {
        let repeat = self.node(key)?.repeat()?;
        Some((repeat.clone)(&repeat.payload))
    }

    pub(super) fn deadline(&self, key: Key<T>) -> Option<u64> {
        self.node(key).map(Node::deadline)
    }

    /// Returns whether a node's timer, which must be pending if there is such a node, is due at `now`.
    #[inline(always)]
    pub(super) fn is_due(&self, index: u32, now: u64) -> bool {
        self.nodes
            .get(index as usize)
            .is_some_and(|node| node.deadline() <= now)
    }

    /// Returns the deadline of a node's timer, which must be pending.
    #[inline]
    pub(super) fn deadline_of(&self, index: u32) -> u64 {
        self.nodes[index as usize].deadline()
    }

    pub(super) fn get(&self, key: Key<T>) -> Option<&T> {
        self.node(key).and_then(Node::payload)
    }

    pub(super) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.node_mut(key)?.payload_mut()
    }

    /// Returns all pending timers, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key<T>, u64, &T)> {
        self.nodes.iter().zip(0..).filter_map(|(node, index)| {
            let payload = node.payload()?;
            Some((
                Key::new(0, index, node.state().generation()),
                node.deadline(),
                payload,
            ))
        })
    }

    /// Ends the first pending timer at or behind a node, and takes its key, deadline and payload.
    pub(super) fn take_from(&mut self, node: usize) -> Option<(Key<T>, u64, T)> {
        let rest = self.nodes.get(node..)?;
        let index = node + rest.iter().position(|node| node.state().is_live())?;
        self.take(index as u32, Phase::Returned)
    }

    /// Ends the timer of a node, if it is pending, and takes its key, deadline and payload.
    #[inline]
    pub(super) fn take(&mut self, index: u32, phase: Phase) -> Option<(Key<T>, u64, T)> {
        let node = self.nodes.get_mut(index as usize)?;
        let key = Key::new(0, index, node.state().generation());
        let deadline = node.deadline();
        let payload = node.end_any(self.free, phase)?;
        self.free = index;
        self.pending -= 1;
        Some((key, deadline, payload))
    }
}

impl<T> Records for Table<T> {
    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.nodes
            .get(entry.index as usize)
            .is_some_and(|node| node.state().is_current(entry.mark))
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        if let Some(node) = self.nodes.get(entry.index as usize) {
            prefetch(node);
        }
    }

    fn pending(&self) -> u64 {
        self.pending as u64
    }
}

impl<T> TimerStore for Table<T> {
    type Fired = Due<T>;

    #[inline]
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        let Some(node) = self.nodes.get(entry.index as usize) else {
            return Fate::Drop;
        };
        let (state, deadline) = (node.state(), node.deadline());
        if !state.is_current(entry.mark) {
            return Fate::Drop;
        }
        if deadline > now {
            return Fate::Reinsert {
                tick: deadline,
                mark: entry.mark,
            };
        }
        if state.is_periodic() {
            return Fate::Fire(Due::Every { index: entry.index });
        }
        let Some((key, deadline, payload)) = self.take(entry.index, Phase::Fired) else {
            return Fate::Drop;
        };
        Fate::Fire(Due::Once {
            payload,
            key,
            deadline,
        })
    }
}

/// Moves `values` to a place without room for more, if there is memory for it; whether they have moved.
///
/// `Vec::shrink_to_fit` ends the process where the allocator needs memory to give some back and has none.
pub(super) fn shrink_to_fit<V>(values: &mut Vec<V>) -> bool {
    let mut fitting = Vec::new();
    let moves = values.len() < values.capacity() && fitting.try_reserve_exact(values.len()).is_ok();
    if moves {
        fitting.append(values);
        *values = fitting;
    }
    moves
}

#[cfg(all(test, feature = "threads", target_os = "linux", not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::system::prefers_huge;

    #[test]
    fn many_nodes_prefer_huge_pages() {
        let (mut grown, mut reserved) = (Table::<u64>::new(None), Table::<u64>::new(None));
        (0..200_000).for_each(|n| assert!(grown.arm(n, n).is_ok()));
        reserved.reserve(200_000);
        let mut shrunk = Table::<u64>::new(None);
        (0..200_000).for_each(|n| assert!(shrunk.arm(n, n).is_ok()));
        shrunk.shrink_to_fit();
        assert_eq!(shrunk.nodes.len(), shrunk.nodes.capacity());
        for table in [grown, reserved, shrunk] {
            assert_ne!(prefers_huge(table.nodes.as_ptr().cast()), Some(false));
        }
    }
}
