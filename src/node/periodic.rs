//! The node table: periodic timers.
//!
//! A node carries a box with the payload and the recurrence. Before each call the owner claims the timer, clones the
//! payload, goes on to the next deadline and releases the claim. Then the handler is called with the clone, while the
//! timer waits like any other. If a thread has ended the timer under the claim, the call gets the payload itself. If a
//! thread has moved it, there is no call: the timer waits for the new deadline.

use super::magazine::ThreadCache;
use super::record::Node;
use super::table::{Armed, Fired, Table};
use crate::contain;
use crate::state::{MOVED, Phase};
use crate::sync::atomic::Ordering;
use crate::sync::boxed::EmptyBox;
use crate::time::{Recurrence, Repeat, Time};
use crate::types::Key;
use crate::wheel::Fate;

/// The fate of a periodic timer that was due. An entry is its tick and its mark.
#[must_use]
pub(crate) enum Call<T> {
    /// Its handler is to be called, and it goes on.
    Begins {
        fired: Fired<T>,
        entry: (u64, u32),
        /// It shows the next deadline.
        recurrence: Recurrence,
    },
    /// Its handler is to be called for the last time: the timer has ended.
    Last(Fired<T>),
    /// No call: it is not due, was moved, or its payload cannot be cloned.
    Waits((u64, u32)),
    /// The entry is dead.
    Gone,
}

impl<T> Table<T> {
    /// Arms a periodic timer; gives the payload back if the table is full, or there is no memory.
    ///
    /// `count` is called before any other thread can see the timer.
    pub(crate) fn arm_periodic(
        &self,
        cache: &ThreadCache,
        repeat: Repeat<T>,
        count: impl FnOnce(),
    ) -> Result<Armed, T> {
        let place = EmptyBox::new();
        let Some((place, (index, node))) =
            place.and_then(|place| Some((place, self.take_node(cache)?)))
        else {
            return Err(repeat.payload);
        };
        let deadline = repeat.recurrence.tick();
        // SAFETY: as in `arm`.
        unsafe { node.put_repeat(place.put(repeat)) };
        let count = || {
            count();
            // No mover's.
            node.deadline.settle(node.deadline.load());
            // ORDERING: Release pairs with the Acquire in `periodic_timers`. [P11]
            self.periodic.fetch_add(1, Ordering::Release);
        };
        let node = (index, node);
        Ok(Self::arm_node(node, Phase::Waiting, deadline, false, count))
    }

    /// Takes the payload of a periodic timer that has ended.
    ///
    /// # Safety
    ///
    /// As for [`Node::take_repeat`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn take_periodic(&self, node: &Node<T>) -> T {
        // SAFETY: the function's contract.
        let repeat = unsafe { node.take_repeat() };
        // ORDERING: Relaxed: a thread counts a timer's end after this, by a Release. [P11]
        self.periodic.fetch_sub(1, Ordering::Relaxed);
        repeat.payload
    }

    /// Decides, as the owner, about a periodic timer's entry at `now`, which is in the turn's tick `tick`. Directly before
    /// the handler is called.
    pub(crate) fn call(
        &self,
        cache: &ThreadCache,
        (index, mark): (u32, u32),
        tick: u64,
        now: Time,
        clone_panicked: impl FnOnce(),
    ) -> Call<T> {
        let Some(node) = self.nodes.get(index) else {
            return Call::Gone;
        };
        let (mut seen, found) = loop {
            let (seen, found) = match Self::due_node(node, mark, tick) {
                Ok(due) => due,
                Err(Fate::Reinsert { tick, mark }) => return Call::Waits((tick, mark)),
                Err(Fate::Drop | Fate::Fire(_)) => return Call::Gone,
            };
            if let Ok(claimed) = node.state.claim(seen) {
                break (claimed, found);
            }
        };
        // Under the claim, which keeps the node. A move to the same tick is seen as well.
        node.deadline.settle(found);
        let due = found.tick();
        // SAFETY: the owner has claimed the timer.
        let (clone, recurrence) = unsafe {
            node.with_repeat(|repeat| {
                let clone = || (repeat.clone)(&repeat.payload);
                let clone = contain::catch_and_log("a payload's Clone", clone);
                if !found.is_settled() {
                    repeat.recurrence.move_to_tick(due);
                }
                repeat.recurrence.advance(now);
                (clone, repeat.recurrence)
            })
        };
        if clone.is_none() {
            clone_panicked();
        }
        let key = self.key(index, seen.generation());
        let fired = |payload| Fired {
            payload,
            key,
            deadline: due,
        };
        let mut is_moved = false;
        let entry = loop {
            if !seen.is_live() {
                // SAFETY: the timer has ended, and the thread that has ended it has left the payload to the owner.
                let payload = unsafe { self.take_periodic(node) };
                self.give_if_free(cache, index, node.state.let_go());
                clone.into_iter().for_each(contain::drop_payload);
                return Call::Last(fired(payload));
            }
            let moved = seen.has(MOVED);
            if moved {
                match node.state.acknowledge_move(seen) {
                    Ok(clean) => seen = clean,
                    Err(now) => {
                        seen = now;
                        continue;
                    }
                }
            }
            node.deadline.go_on(due, recurrence.tick());
            let next = node.deadline.load();
            // A move whose deadline was settled above asks for this call.
            is_moved |= moved && !next.is_settled();
            match node.state.release_claim(seen) {
                Ok(now) => break (next.tick(), now.mark()),
                Err(now) => seen = now,
            }
        };
        match clone {
            Some(payload) if is_moved => {
                contain::drop_payload(payload);
                Call::Waits(entry)
            }
            Some(payload) => Call::Begins {
                fired: fired(payload),
                entry,
                recurrence,
            },
            // One that is far behind, and whose clones panic, holds up no turn.
            None => Call::Waits((entry.0.max(tick.saturating_add(1)), entry.1)),
        }
    }

    /// Counts a fixed delay from `ended`, the end of the call, unless the timer has ended or was moved since `recurrence` was
    /// shown. A later deadline needs no new entry.
    pub(crate) fn rest(
        &self,
        cache: &ThreadCache,
        key: Key<T>,
        mut recurrence: Recurrence,
        ended: Time,
    ) {
        let shown = recurrence.tick();
        let Some(node) = self.nodes.get(key.index()) else {
            return;
        };
        if !recurrence.rest(ended) {
            return;
        }
        // As a mover, so that the node stays this timer's.
        if node.state.begin_move(self.generation(key)).is_some() {
            node.deadline.go_on(shown, recurrence.tick());
            if node.state.give_up_move() {
                cache.give(&self.depot, key.index());
            }
        }
    }
}
