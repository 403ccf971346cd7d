//! The nodes of a single-threaded timer: arming, ending, moving, and the decision about what is due.
//!
//! What always holds: a pending node has an entry with its current mark, inserted at its deadline or earlier.
//! A mark may come round (after 2^23 armings, or 256 moves to an earlier deadline); an old entry with the same
//! mark then looks current, is inserted again for the node's deadline, and dies with the timer. One entry too many
//! does no harm.

use super::node::Nodes;
use crate::state::{Phase, State, generation_seed};
use crate::sync::boxed::EmptyBox;
use crate::time::{Deadline, Repeat, Time};
use crate::types::{Key, ScheduleError, ScheduleErrorKind};
use crate::wheel::{Entry, Fate, Records, TimerStore};
use core::mem;

/// The end of the free list.
const NIL: u32 = u32::MAX;

/// The most nodes of one table: every index but `NIL`.
const MAX_NODES: usize = NIL as usize;

/// A timer that has just been armed or moved: key and entry in few words.
///
/// They are put together where they are used, because a key or an entry that goes through memory is written
/// in parts and read back as a whole; that stall would double the cost of a schedule.
#[derive(Clone, Copy)]
pub struct Armed {
    state: State,
    index: u32,
}

impl Armed {
    #[inline(always)]
    pub const fn key<T>(self) -> Key<T> {
        Key::new(0, self.index, self.state.generation())
    }

    #[inline(always)]
    pub const fn entry(self, deadline: u64) -> Entry {
        Entry {
            deadline,
            index: self.index,
            mark: self.state.mark(),
        }
    }
}

/// A timer that is due.
pub enum Due<T> {
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
pub struct Renewed<T> {
    pub key: Key<T>,
    /// The tick that it fires for.
    pub deadline: u64,
    /// The entry to insert for the next one.
    pub entry: Entry,
    /// Whether the next deadline is to be counted anew from the end of the handler.
    pub rests: bool,
}

/// The result of a move.
#[must_use]
pub enum LocalMove {
    /// Done; the entry that is inserted finds the new deadline when it comes due.
    Later,
    /// Done; an entry must be inserted, because the new deadline is earlier.
    Earlier(Armed),
    /// The timer has ended, or the key is stale.
    Gone,
}

/// See the module.
pub struct Table<T> {
    nodes: Nodes<T>,
    /// The free node that is taken next: the one that was freed last, whose lines are still in cache.
    free: u32,
    pending: usize,
    /// Timers that may be pending.
    limit: usize,
    /// Where the nodes begin to count generations: at random, so that other tables' keys are stale here.
    seed: u64,
}

impl<T> Table<T> {
    pub fn new(max_pending: Option<usize>) -> Self {
        Self {
            nodes: Nodes::new(),
            free: NIL,
            pending: 0,
            limit: max_pending.map_or(MAX_NODES, |limit| limit.min(MAX_NODES)),
            seed: generation_seed(),
        }
    }

    pub(crate) const fn pending(&self) -> usize {
        self.pending
    }

    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    pub fn held_bytes(&self) -> usize {
        self.nodes.held_bytes()
    }

    /// Arms a node that fires once; gives the payload back if the limit is reached or there is no memory.
    #[inline(always)]
    pub fn arm(&mut self, deadline: u64, payload: T) -> Result<Armed, ScheduleError<T>> {
        if !self.has_free() && !self.grow() {
            return Err(self.refusal(payload));
        }
        let armed = self.nodes.arm(self.free, deadline, payload);
        Ok(self.count_armed(armed))
    }

    /// Like [`arm`](Self::arm), for a timer that fires again and again.
    pub fn arm_periodic(&mut self, repeat: Repeat<T>) -> Result<Armed, ScheduleError<T>> {
        if !self.has_free() && !self.grow() {
            return Err(self.refusal(repeat.payload));
        }
        let Some(place) = EmptyBox::new() else {
            return Err(ScheduleError::no_memory(repeat.payload));
        };
        let armed = self.nodes.arm_periodic(self.free, place.put(repeat));
        Ok(self.count_armed(armed))
    }

    /// Counts a timer whose node, the first free one, has been armed; `next`: the free node after it.
    #[inline(always)]
    fn count_armed(&mut self, (state, next): (State, u32)) -> Armed {
        let index = mem::replace(&mut self.free, next);
        self.pending += 1;
        Armed { state, index }
    }

    /// Returns whether there is a free node. Then the limit is not reached: there are never more nodes than may be
    /// pending.
    #[inline(always)]
    fn has_free(&self) -> bool {
        (self.free as usize) < self.nodes.len()
    }

    /// Adds free nodes; false if as many are pending as may be, or there is no memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let nodes = self.nodes.len();
        let most = self.limit - nodes;
        let grows = most > 0 && self.nodes.add(most, NIL, self.seed);
        if grows {
            self.free = nodes as u32;
        }
        grows
    }

    /// Returns the error of a timer that finds no free node: it is one more than the limit, or there is no memory.
    #[cold]
    fn refusal(&self, payload: T) -> ScheduleError<T> {
        let limit = self.limit;
        if self.pending < limit {
            return ScheduleError::no_memory(payload);
        }
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

    /// Makes room for `timers` more pending nodes, if there is memory for it.
    pub fn reserve(&mut self, timers: usize) {
        let free = self.nodes.len() - self.pending;
        let more = timers.saturating_sub(free);
        self.nodes.reserve(more.min(MAX_NODES - self.nodes.len()));
    }

    /// Gives up the free nodes behind the last pending one, and what is reserved beyond. O(nodes).
    pub fn shrink_to_fit(&mut self) {
        let states = self.nodes.states();
        let last = states.iter().rposition(|state| state.is_live());
        let used = last.map_or(0, |at| at + 1);
        if used < self.nodes.len() {
            self.nodes.truncate(used);
            // The nodes that come after these begin anew, where no key of the old ones names them.
            self.seed = generation_seed();
            self.free = NIL;
            for index in (0..used).rev() {
                if !self.nodes.states()[index].is_live() {
                    self.nodes.link(index as u32, self.free);
                    self.free = index as u32;
                }
            }
        }
        self.nodes.shrink_to_fit();
    }

    /// Ends a pending timer and takes its payload; `None` if it had ended.
    #[inline]
    pub fn end(&mut self, key: Key<T>, phase: Phase) -> Option<T> {
        let payload = self.nodes.end(key, self.free, phase)?;
        self.free = key.index();
        self.pending -= 1;
        Some(payload)
    }

    /// Moves a pending timer.
    #[inline]
    pub fn move_to(&mut self, key: Key<T>, deadline: Deadline) -> LocalMove {
        let Some((state, before)) = self.nodes.move_by_key(key, deadline.tick) else {
            return LocalMove::Gone;
        };
        let index = key.index();
        if state.is_periodic() {
            self.restart(index, deadline);
        }
        if deadline.tick >= before {
            return LocalMove::Later;
        }
        let state = self.nodes.supersede_entry(index);
        LocalMove::Earlier(Armed { state, index })
    }

    #[cold]
    fn restart(&mut self, index: u32, deadline: Deadline) {
        if let Some(repeat) = self.nodes.repeat_mut(index) {
            repeat.recurrence.move_to(deadline);
        }
    }

    /// Sends a periodic timer that is due on to its next deadline.
    ///
    /// # Panics
    ///
    /// If the node is not a periodic one: only for what [`Due::Every`] says.
    pub fn renew(&mut self, index: u32, now: Time) -> Renewed<T> {
        let deadline = self.deadline_of(index);
        let repeat = self.nodes.repeat_mut(index);
        let repeat = repeat.expect("this is what `Due::Every` says");
        repeat.recurrence.advance(now);
        let (next, rests) = (repeat.recurrence.tick(), repeat.recurrence.rests);
        self.nodes.move_to(index, next);
        let state = self.nodes.supersede_entry(index);
        let armed = Armed { state, index };
        Renewed {
            key: armed.key(),
            deadline,
            entry: armed.entry(next),
            rests,
        }
    }

    /// Counts a fixed delay from `ended`, unless the handler has cancelled the timer or moved it. A later deadline
    /// needs no new entry.
    pub fn rest(&mut self, key: Key<T>, ended: Time) {
        if self.nodes.named(key).is_none() {
            return;
        }
        let Some(Repeat { recurrence, .. }) = self.nodes.repeat_mut(key.index()) else {
            return;
        };
        if recurrence.rest(ended) {
            let next = recurrence.tick();
            self.nodes.move_to(key.index(), next);
        }
    }

    /// Returns a clone of a periodic timer's payload.
    pub fn clone_payload(&self, key: Key<T>) -> Option<T> {
        self.nodes.named(key)?;
        let repeat = self.nodes.repeat(key.index())?;
        Some((repeat.clone)(&repeat.payload))
    }

    #[inline]
    pub fn deadline(&self, key: Key<T>) -> Option<u64> {
        self.nodes.named(key)?;
        self.nodes.deadline(key.index())
    }

    /// Returns the deadline of a node's timer, which must be pending.
    #[inline]
    pub(crate) fn deadline_of(&self, index: u32) -> u64 {
        self.nodes.deadline(index).unwrap_or(u64::MAX)
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        self.nodes.named(key)?;
        self.nodes.payload(key.index())
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.nodes.named(key)?;
        self.nodes.payload_mut(key.index())
    }

    /// Returns all pending timers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, u64, &T)> {
        self.nodes
            .states()
            .iter()
            .zip(0..)
            .filter_map(|(state, index)| {
                let payload = self.nodes.payload(index)?;
                let key = Key::new(0, index, state.generation());
                Some((key, self.deadline_of(index), payload))
            })
    }

    /// Ends the first pending timer at or behind a node, and takes its key, deadline and payload.
    pub fn take_from(&mut self, node: usize) -> Option<(Key<T>, u64, T)> {
        let rest = self.nodes.states().get(node..)?;
        let index = node + rest.iter().position(|state| state.is_live())?;
        self.take(index as u32, Phase::Returned)
    }

    /// Ends the timer of a node, if it is pending, and takes its key, deadline and payload.
    #[inline]
    pub(crate) fn take(&mut self, index: u32, phase: Phase) -> Option<(Key<T>, u64, T)> {
        let taken = self.nodes.end_any(index, self.free, phase)?;
        self.free = index;
        self.pending -= 1;
        Some(taken)
    }
}

impl<T> Records for Table<T> {
    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.nodes.is_current(entry.index, entry.mark)
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.nodes.prefetch_state(entry.index);
    }

    fn pending(&self) -> u64 {
        self.pending as u64
    }
}

impl<T> TimerStore for Table<T> {
    type Fired = Due<T>;

    #[inline]
    fn prefetch_due(&self, entry: &Entry) {
        self.nodes.prefetch(entry.index);
    }

    #[inline]
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        let Some((state, deadline)) = self.nodes.current(entry.index, entry.mark) else {
            return Fate::Drop;
        };
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

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::system::prefers_huge;

    #[test]
    fn many_nodes_prefer_huge_pages() {
        let (mut grown, mut reserved) = (Table::<u64>::new(None), Table::<u64>::new(None));
        (0..400_000).for_each(|n| assert!(grown.arm(n, n).is_ok()));
        reserved.reserve(400_000);
        let mut shrunk = Table::<u64>::new(None);
        (0..400_000).for_each(|n| assert!(shrunk.arm(n, n).is_ok()));
        shrunk.shrink_to_fit();
        assert_eq!(shrunk.nodes.len(), shrunk.nodes.capacity());
        for table in [&grown, &reserved, &shrunk] {
            for place in table.nodes.places() {
                assert_ne!(prefers_huge(place), Some(false));
            }
        }
    }
}
