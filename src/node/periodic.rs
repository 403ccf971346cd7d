//! The node table: periodic timers. Owner only, except `arm_periodic` and what a cancel does to one.
//!
//! ```text
//!   entry due ---> due_periodic: Waiting -> Preparing      not due yet, or moved: -> Waiting
//!                    clone the payload               Clone panics: -> Waiting, for the next deadline
//!                  confirm_call: Preparing -> Running      the last step before the handler; moved away: -> Waiting
//!                    the handler runs
//!                  finish_call:  Running -> Waiting        at the next deadline, or the one it was moved to
//! ```
//!
//! A cancel or a stop ends the timer at any step. If it does so before *running*, the handler is not called; if
//! after, that call was the last one.

use super::fired::Fired;
use super::magazine::ThreadCache;
use super::periodic_state::Link;
use super::record::Node;
use super::table::{Armed, Table};
use crate::contain;
use crate::state::{CLAIMED, Confirmed, Finished, MOVED, Phase, READING_PAYLOAD, State};
use crate::sync::atomic::Ordering;
use crate::sync::boxed::EmptyBox;
use crate::time::{Repeat, Time};
use crate::wheel::Fate;

/// The fate of a call that was about to begin.
#[must_use]
pub(crate) enum Call<T> {
    /// It begins; call [`Table::finish_call`] after it.
    Begins(Fired<T>),
    /// The timer has been moved beyond now: no call. The entry to be inserted, and its tick, if the timer goes on.
    Moved(Option<(u64, u32)>),
    /// The timer has been ended: no call.
    Ended(T),
}

impl<T> Table<T> {
    /// Arms a periodic timer, whose calls get clones of `template`; gives the payload back if the table is full, or
    /// there is no memory.
    ///
    /// `count` is called before any other thread can see the timer.
    pub(crate) fn arm_periodic(
        &self,
        cache: &ThreadCache,
        repeat: Repeat<T>,
        template: T,
        count: impl FnOnce(),
    ) -> Result<Armed, T> {
        let place = EmptyBox::new();
        let Some((place, (index, node))) =
            place.and_then(|place| Some((place, self.take_node(cache)?)))
        else {
            contain::drop_payload(template);
            return Err(repeat.payload);
        };
        let deadline = repeat.recurrence.tick();
        // SAFETY: as in `arm`.
        unsafe { node.put_link(Link::new(place, repeat, template)) };
        Ok(Self::arm_node(
            (index, node),
            Phase::Waiting,
            deadline,
            false,
            || {
                count();
                // ORDERING: Release pairs with the Acquire in `periodic_timers`. [P11]
                self.periodic_states.fetch_add(1, Ordering::Release);
            },
        ))
    }

    /// Frees a periodic state, and counts that it is gone.
    ///
    /// # Safety
    ///
    /// As for [`Link::free`].
    unsafe fn free(&self, link: Link<T>) {
        // SAFETY: the function's contract.
        unsafe { link.free() };
        // ORDERING: Relaxed: a thread counts a timer's end after this, by a Release. [P11]
        self.periodic_states.fetch_sub(1, Ordering::Relaxed);
    }

    /// Decides a periodic timer's entry at `now`. If it fires, [`confirm_call`](Self::confirm_call) is next.
    #[cold]
    pub(super) fn due_periodic(
        &self,
        cache: &ThreadCache,
        index: u32,
        node: &Node<T>,
        mark: u32,
        now: u64,
        clone_panicked: impl FnOnce(),
    ) -> Fate<Fired<T>> {
        let Some(state) = node.state.begin_call(mark) else {
            return Fate::Drop;
        };
        // SAFETY: the timer was alive and periodic when this call was begun, which keeps the node.
        let link = unsafe { node.link() };
        // SAFETY: the owner has claimed the timer.
        unsafe { Self::take_over(node, link) };
        // SAFETY: as above.
        let due = unsafe { link.own(|own| own.recurrence.tick()) };
        let is_due = due <= now;
        if is_due {
            // SAFETY: as above.
            if let Some(payload) = unsafe { link.clone_template() } {
                let key = self.key(index, state.generation());
                return Fate::Fire(Fired {
                    payload,
                    key,
                    deadline: due,
                    periodic: true,
                });
            }
            clone_panicked();
            // SAFETY: as above.
            unsafe { link.own(|own| own.recurrence.skip(now)) };
        }
        // A call that is left out counts as one: a move that began before it compares with a deadline that is over.
        // SAFETY: as above.
        let inserted = unsafe { self.let_wait(cache, index, node, link, is_due) };
        // One that is far behind, and whose clones panic, holds up no turn.
        inserted.map_or(Fate::Drop, |(tick, mark)| Fate::Reinsert {
            tick: tick.max(now.saturating_add(1)),
            mark,
        })
    }

    /// Confirms the call of a periodic timer, which has `fired` at the tick `now`, directly before its handler is
    /// called.
    pub(crate) fn confirm_call(
        &self,
        cache: &ThreadCache,
        mut fired: Fired<T>,
        now: u64,
    ) -> Call<T> {
        let index = fired.key.index();
        let Some(node) = self.nodes.get(index) else {
            return Call::Ended(fired.payload);
        };
        // SAFETY: the owner has claimed the timer, which keeps the node.
        let link = unsafe { node.link() };
        loop {
            match node.state.confirm_call() {
                Confirmed::Begins => return Call::Begins(fired),
                Confirmed::Moved => {
                    // SAFETY: the owner has claimed the timer.
                    unsafe { Self::take_over(node, link) };
                    // SAFETY: as above.
                    fired.deadline = unsafe { link.own(|own| own.recurrence.tick()) };
                    if fired.deadline > now {
                        // SAFETY: as above.
                        let inserted = unsafe { self.let_wait(cache, index, node, link, false) };
                        contain::drop_payload(fired.payload);
                        return Call::Moved(inserted);
                    }
                }
                Confirmed::Ended => {
                    // SAFETY: the timer has ended.
                    unsafe { self.let_go(cache, index, node, link) };
                    return Call::Ended(fired.payload);
                }
            }
        }
    }

    /// Notes that the handler of a periodic timer has returned at `now`. Returns the next entry to be inserted, and its
    /// tick, if the timer goes on.
    pub(crate) fn finish_call(
        &self,
        cache: &ThreadCache,
        index: u32,
        now: Time,
    ) -> Option<(u64, u32)> {
        let node = self.nodes.get(index)?;
        // SAFETY: the owner has claimed the timer, which keeps the node.
        let link = unsafe { node.link() };
        // SAFETY: as above.
        unsafe { link.own(|own| own.recurrence.advance(now)) };
        // SAFETY: as above.
        unsafe { self.let_wait(cache, index, node, link, true) }
    }

    /// Gives up a call that was prepared or begun: the timer waits again, without an entry, if it has not ended.
    pub(crate) fn abandon_call(&self, cache: &ThreadCache, index: u32) {
        let Some(node) = self
            .nodes
            .get(index)
            .filter(|node| node.state.load().has(CLAIMED))
        else {
            return;
        };
        // SAFETY: the owner has claimed the timer, which keeps the node.
        unsafe { self.let_wait(cache, index, node, node.link(), false) };
    }

    /// Lets go of a timer that the owner had claimed. Returns the tick and mark of its next entry, if it goes on.
    ///
    /// # Safety
    ///
    /// The owner has claimed the timer behind `node`, whose periodic state is `link`.
    unsafe fn let_wait(
        &self,
        cache: &ThreadCache,
        index: u32,
        node: &Node<T>,
        link: Link<T>,
        called: bool,
    ) -> Option<(u64, u32)> {
        loop {
            // Before the state changes: afterwards another thread may free the periodic state.
            // SAFETY: the owner has claimed the timer (the function's contract).
            let due = unsafe { link.own(|own| own.recurrence.tick()) };
            node.deadline.show(due);
            match node.state.finish_call(called) {
                Finished::Waits { mark } => return Some((due, mark)),
                // SAFETY: the owner has still claimed the timer.
                Finished::Moved => unsafe { Self::take_over(node, link) },
                Finished::Ended => {
                    // SAFETY: the owner has still claimed the timer, which has ended.
                    unsafe { self.let_go(cache, index, node, link) };
                    return None;
                }
            }
        }
    }

    /// Takes the deadline of a move over, if there was one.
    ///
    /// # Safety
    ///
    /// Like [`let_wait`](Self::let_wait).
    unsafe fn take_over(node: &Node<T>, link: Link<T>) {
        loop {
            let seen = node.state.load();
            if !seen.is_live() || !seen.has(MOVED) {
                // A move that has not ended does not count yet.
                return;
            }
            if node.state.acknowledge_move(seen).is_ok() {
                break;
            }
        }
        loop {
            // At least as new as all moves that were acknowledged.
            let deadline = node.deadline.load();
            if deadline.is_settled() {
                return;
            }
            // A mover may not have announced this deadline yet: the mark tells it then that the owner knows.
            if node.deadline.settle(deadline) {
                // SAFETY: the owner has claimed the timer (the function's contract).
                return unsafe { link.own(|own| own.recurrence.move_to_tick(deadline.tick())) };
            }
        }
    }

    /// Releases, as the owner, a timer that has ended.
    ///
    /// # Safety
    ///
    /// Like [`let_wait`](Self::let_wait), and the timer has ended.
    unsafe fn let_go(&self, cache: &ThreadCache, index: u32, node: &Node<T>, link: Link<T>) {
        let left = node.state.let_go();
        if !left.has(READING_PAYLOAD) {
            // SAFETY: the winner has taken what was kept and let go, and so has the owner.
            unsafe { self.free(link) };
        }
        self.give_if_free(cache, index, left);
    }

    /// Takes the payload of a periodic timer that the caller has just ended.
    #[cold]
    #[inline(never)]
    pub(super) fn take_periodic(&self, node: &Node<T>, was: State) -> T {
        // SAFETY: the caller has ended the timer, which was periodic, and has not let go.
        let link = unsafe { node.link() };
        // SAFETY: the caller has ended the timer.
        let kept = unsafe { link.take_kept() };
        if !was.has(CLAIMED) {
            // SAFETY: the timer was not claimed when the caller ended it, so all of the periodic state is the caller's.
            unsafe { self.free(link) };
        }
        kept
    }

    /// Frees the state of a timer that was claimed, if the winner is the last that used it.
    ///
    /// # Safety
    ///
    /// `link` is the periodic state of that timer, and `left` what its last release has left.
    #[cold]
    pub(super) unsafe fn winner_let_go(&self, link: Link<T>, left: State) {
        if !left.has(CLAIMED) {
            // SAFETY: winner and owner have both let go, the winner last.
            unsafe { self.free(link) };
        }
    }
}
