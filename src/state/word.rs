//! The state of a node that threads share: every transition is one compare-and-swap here, and nothing else.
//!
//! Callable from any thread, except `arm` (the thread that took the node from a magazine) and what says that it is
//! the owner's.

use crate::sync::atomic::{AtomicU64, Ordering};
use tickwheel_core::state::{
    CLAIMED, HANDLE, HOLDS, MOVED, MOVER, PULLED, Phase, READING_PAYLOAD, State,
};

/// The answer to an attempt to end a timer: the state that it ended in, to tell what it carries.
#[must_use = "the winner owns the payload and may have to release or recycle the node"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The caller won and holds the only reference: it takes the payload, then recycles the node.
    Sole(State),
    /// The caller won; take the payload, then call [`StateWord::release_taking`].
    Shared(State),
    /// The caller won; its own hold keeps the node.
    Held(State),
    /// The timer has ended; its payload is left to the owner, which has claimed it.
    Claimed,
    /// The timer has ended before, or the key is stale.
    Lost,
}

/// The answer to the end of a move.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The owner is to be told, by a message with this mark.
    Tell { mark: u32 },
    /// The owner finds the deadline when it next checks the node.
    Noted,
    /// The timer has ended since; `recycle` if the caller was the last to hold it.
    Ended { recycle: bool },
}

/// The atomic state of one node.
pub(crate) struct StateWord(AtomicU64);

impl Default for StateWord {
    fn default() -> Self {
        Self(AtomicU64::new(State::default().0))
    }
}

impl StateWord {
    #[inline]
    pub(crate) fn load(&self) -> State {
        // ORDERING: Acquire pairs with the Release in `arm`, `finish_move` and the AcqRel in `end`, so
        // what the caller reads of the node next is at least as new as this state [P1].
        State(self.0.load(Ordering::Acquire))
    }

    /// Arms the node: idle or ended -> alive, next generation. The caller owns the node alone and has written it.
    #[inline]
    pub(crate) fn arm(&self, phase: Phase, held: bool) -> State {
        // ORDERING: Relaxed, because the caller alone holds the node; the magazine ordered it.
        let old = State(self.0.load(Ordering::Relaxed));
        let armed = old.armed(phase);
        let new = if held { armed.with(HANDLE) } else { armed };
        // ORDERING: Release publishes payload and deadline to threads that acquire this state [P1], and that the timer
        // is counted to the thread that counts its end [P11].
        self.0.store(new.0, Ordering::Release);
        new
    }

    /// Forgets all but the generation that the node's next timer comes after. The caller owns the node alone.
    pub(crate) fn restart_after(&self, generation: u64) {
        // ORDERING: Relaxed: a reader finds no living timer, and reads nothing else.
        self.0
            .store(State::unarmed(generation).0, Ordering::Relaxed);
    }

    /// Takes one step of a living timer; returns the present state if another thread was faster.
    #[inline]
    #[cfg_attr(tickwheel_loom, track_caller)] // `orderings.sh` weakens each transition by itself
    fn step(&self, from: State, to: State) -> Result<State, State> {
        // ORDERING: AcqRel. Acquire pairs with `arm` and `finish_move`: what the caller reads of the node next is at
        // least as new as `from` [P1] [P3]. Release is for the thread that recycles after reading the new
        // state, as in `release` [P2], and hands a moved deadline on [P3]. Acquire on failure as in `load`.
        match self
            .0
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(to),
            Err(now) => Err(State(now)),
        }
    }

    /// Ends the living timer that `generation` names.
    #[inline]
    pub(crate) fn end(&self, generation: u64, phase: Phase) -> Ending {
        self.end_while(|seen| seen.is_named(generation), phase, false)
    }

    /// Tries once to end the timer that `generation` names, if it fires once and has been neither moved nor held, as
    /// most timers have not: then the caller holds the only reference, as after [`Ending::Sole`]. False says nothing.
    #[inline(always)]
    pub(crate) fn end_as_armed(&self, generation: u64, phase: Phase) -> bool {
        let armed = State::unarmed(generation).in_phase(Phase::Pending);
        self.load() == armed && self.step(armed, armed.in_phase(phase)).is_ok()
    }

    /// Cancels the timer of a `TimerHandle`, whose own hold keeps the node.
    #[inline]
    pub(crate) fn cancel_held(&self) -> Ending {
        self.end_while(State::is_live, Phase::Cancelled, true)
    }

    #[inline(always)]
    fn end_while(&self, lives: impl Fn(State) -> bool, phase: Phase, by_handle: bool) -> Ending {
        let mut seen = self.load();
        while lives(seen) {
            match self.try_end(seen, phase, by_handle) {
                Ok(ending) => return ending,
                // A move, a claim or a detach begins or ends: another thread made progress.
                Err(now) => seen = now,
            }
        }
        Ending::Lost
    }

    /// Tries once to end a timer that was seen alive; the state it has met if that has changed.
    #[inline]
    pub(crate) fn try_end(
        &self,
        seen: State,
        phase: Phase,
        by_handle: bool,
    ) -> Result<Ending, State> {
        let ended = seen.in_phase(phase);
        if by_handle {
            // Its own hold protects the node. Its timer fires once, so it is not claimed.
            self.step(seen, ended)?;
            return Ok(Ending::Held(seen));
        }
        if !seen.has(HOLDS) {
            self.step(seen, ended)?;
            return Ok(Ending::Sole(seen));
        }
        if seen.has(CLAIMED) {
            self.step(seen, ended)?;
            return Ok(Ending::Claimed);
        }
        self.step(seen, ended.with(READING_PAYLOAD))?;
        Ok(Ending::Shared(seen))
    }

    /// Ends a winner's reading of the payload after [`Ending::Shared`]; what is left of the state.
    #[inline]
    pub(crate) fn release_taking(&self) -> State {
        self.release(READING_PAYLOAD)
    }

    /// Lets a `TimerHandle` go, of an ended timer or of one that runs on without it. Returns whether the caller is to
    /// recycle the node.
    #[inline]
    pub(crate) fn release_handle(&self) -> bool {
        // No other hold, and none can begin on an ended timer: no need for a read-modify-write.
        // The flag may stay: `arm` overwrites it.
        self.load().without(HANDLE).is_free() || self.release(HANDLE).is_free()
    }

    #[inline]
    fn release(&self, hold: u64) -> State {
        // ORDERING: AcqRel. Release hands what this holder did with the node to the last one; Acquire
        // lets the last one see what the earlier holders did before it recycles. [P2]
        State(self.0.fetch_and(!hold, Ordering::AcqRel)).without(hold)
    }

    /// Notes that the owner knows of the moves so far. To be called before it reads the deadline, so that a later
    /// move cannot go unnoticed.
    pub(crate) fn acknowledge_move(&self, seen: State) -> Result<State, State> {
        self.step(seen, seen.without(MOVED))
    }

    /// Keeps the node of the timer that `generation` names while its deadline is moved; `None` if that has ended.
    ///
    /// Three threads may be at this with one timer. A fourth waits for the first of them to be done, which takes
    /// nanoseconds, unless all three have been stopped in the middle.
    #[inline]
    pub(crate) fn begin_move(&self, generation: u64) -> Option<State> {
        let mut seen = self.load();
        loop {
            if !seen.is_named(generation) {
                return None;
            }
            if seen.has_most_movers() {
                std::hint::spin_loop();
                seen = self.load();
                continue;
            }
            match self.step(seen, seen.moving()) {
                Ok(now) => return Some(now),
                Err(now) => seen = now,
            }
        }
    }

    /// Ends a move after the deadline was changed. `begun`: the state that it began with. `earlier`: it was pulled in.
    #[inline]
    pub(crate) fn finish_move(&self, begun: State, earlier: bool) -> Moved {
        let mut seen = begun;
        loop {
            if !seen.is_live() {
                return Moved::Ended {
                    recycle: self.give_up_move(),
                };
            }
            let (moved, tell) = seen.moved(earlier);
            match self.step(seen, moved) {
                Ok(now) if tell => return Moved::Tell { mark: now.mark() },
                Ok(_) => return Moved::Noted,
                Err(now) => seen = now,
            }
        }
    }

    /// Ends a move that changed nothing; true: recycle the node.
    pub(crate) fn give_up_move(&self) -> bool {
        // ORDERING: AcqRel as in `release`. [P2]
        State(self.0.fetch_sub(MOVER, Ordering::AcqRel) - MOVER).is_free()
    }

    /// Says, to the only thread that moves the timer, from now on whether the owner has looked at the deadline: `MOVED`
    /// is set, and an owner that looks clears it. The caller holds the node.
    ///
    /// Returns the state, and whether the owner may have looked since the last move; `None` if the timer has ended.
    #[cfg(any(feature = "futures", test))]
    #[inline]
    pub(crate) fn begin_move_alone(&self) -> Option<(State, bool)> {
        let mut seen = self.load();
        let looked = !seen.has(MOVED);
        loop {
            if !seen.is_live() {
                return None;
            }
            if seen.has(MOVED) {
                return Some((seen, looked));
            }
            match self.step(seen, seen.with(MOVED)) {
                Ok(now) => return Some((now, looked)),
                Err(now) => seen = now,
            }
        }
    }

    /// Ends such a move once the deadline was changed; the present state if the owner has looked meanwhile, or the timer
    /// has ended. `tell`: a message is promised.
    #[cfg(any(feature = "futures", test))]
    #[inline]
    pub(crate) fn finish_move_alone(&self, seen: State, tell: bool) -> Result<State, State> {
        self.step(seen, seen.with(if tell { MOVED | PULLED } else { MOVED }))
    }

    /// Decides, as the owner, about an entry with this mark, which has just arrived: the state whose mark it is to be
    /// inserted with; `None` if the timer has ended, or another entry has taken over.
    #[inline]
    pub(crate) fn arrive(&self, mark: u32) -> Option<State> {
        // ORDERING: Relaxed: a hint as in `is_live`; and the message that brought the entry orders the state that its
        // sender has left.
        let seen = State(self.0.load(Ordering::Relaxed));
        if !seen.is_current(mark) {
            None
        } else if !seen.has(MOVED | PULLED) {
            Some(seen)
        } else {
            self.take_over(mark)
        }
    }

    /// Acknowledges the moves of a timer of which a message has arrived. If it was pulled in, the inserted entry becomes a
    /// zombie, in favour of a new one.
    ///
    /// Any message of that timer will do, since the deadline is read from the node.
    #[cold]
    fn take_over(&self, mark: u32) -> Option<State> {
        let mut seen = self.load();
        loop {
            if !seen.is_current(mark) {
                return None;
            }
            if !seen.has(MOVED | PULLED) {
                return Some(seen);
            }
            match self.step(seen, seen.arrived()) {
                Ok(now) => return Some(now),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether the state is still the one that was seen before the deadline was read.
    ///
    /// A thread that moves its timer alone relies on the owner's having seen no deadline that comes after `MOVED`.
    #[inline]
    pub(crate) fn is_still(&self, seen: State) -> bool {
        // ORDERING: Relaxed: behind the read of the deadline, which has acquired what its mover did before. [P28]
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Claims, as the owner, a periodic timer that is due, and which was seen alive and not moved: no other thread takes its
    /// payload until [`release_claim`](Self::release_claim) or [`let_go`](Self::let_go).
    pub(crate) fn claim(&self, seen: State) -> Result<State, State> {
        self.step(seen, seen.with(CLAIMED))
    }

    /// Has a claimed timer that was seen alive wait again, for an entry with a new mark.
    pub(crate) fn release_claim(&self, seen: State) -> Result<State, State> {
        self.step(seen, seen.without(CLAIMED).with_new_mark())
    }

    /// Releases, as the owner, a claimed timer that another thread has ended; returns the remaining state.
    pub(crate) fn let_go(&self) -> State {
        self.release(CLAIMED)
    }

    /// Returns whether an entry with this mark still stands for a living timer.
    #[inline]
    pub(crate) fn is_live(&self, mark: u32) -> bool {
        // ORDERING: Relaxed: a hint. Callers act on the answer through a compare-and-swap.
        State(self.0.load(Ordering::Relaxed)).is_current(mark)
    }
}
