//! The state word of a node: every transition, and nothing else.
//!
//! ```text
//!   63                          16 15        8 7   6       5       4       3      2..0
//!  +------------------------------+-----------+---+-------+-------+-------+------+-------+
//!  |        generation (48)       |  hint (8) | P | MOVED | TAKING| MOVING|HANDLE| phase |
//!  +------------------------------+-----------+---+-------+-------+-------+------+-------+
//! ```
//!
//! * *phase*: idle -> pending -> one of cancelled, fired, returned. The compare-and-swap that leaves
//!   *pending* decides the timer's end, and its winner owns the payload.
//! * *generation*: grows by one each time the node is armed, so a key that names an earlier timer of
//!   the same node never matches again (48 bits: at 20 million arms of one node per second it would
//!   take five months to come round).
//! * *holds* `HANDLE`, `MOVING`, `TAKING`: somebody besides the winner still looks at the node. `HANDLE`
//!   belongs to a `Timeout`, `MOVING` to a thread that is changing the deadline, `TAKING` to a winner
//!   that is reading the payload while one of the other two exists. Whoever lets go last recycles.
//! * `MOVED`: the deadline has changed since the owner last looked. Only movers set it, only the owner
//!   clears it: if it is clear in the word that the owner's compare-and-swap expects, no move can have
//!   completed in between, so a moved timer cannot fire at its old deadline.
//! * `P` (`PERIODIC`): the owner has more to do when the timer fires; see `shard::periodic`.
//! * *hint*: which of a node's entries is the current one. Moving a deadline *forward in time* files
//!   nothing; moving it *earlier* files a second entry and grows this number, which turns the first
//!   entry into a zombie.
//!
//! Callable from any thread, except `arm` (the thread that took the node from a magazine) and `due`
//! (the shard's owner).

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::types::GENERATION_BITS;

const PHASE_BITS: u32 = 3;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;
const HANDLE: u64 = 1 << PHASE_BITS;
const MOVING: u64 = HANDLE << 1;
const TAKING: u64 = MOVING << 1;
const MOVED: u64 = TAKING << 1;
const PERIODIC: u64 = MOVED << 1;
const HOLDS: u64 = HANDLE | MOVING | TAKING;
const HINT_SHIFT: u32 = 8;
const HINT_BITS: u32 = 8;
const HINT_ONE: u64 = 1 << HINT_SHIFT;
const HINT_MASK: u64 = ((1 << HINT_BITS) - 1) << HINT_SHIFT;
const GENERATION_SHIFT: u32 = HINT_SHIFT + HINT_BITS;
const GENERATION_ONE: u64 = 1 << GENERATION_SHIFT;
const _: () = assert!(PERIODIC < HINT_ONE);
const _: () = assert!(GENERATION_SHIFT + GENERATION_BITS == u64::BITS);

/// Bits of a mark: what an entry or message remembers of the state word (hint and low generation bits).
const MARK_BITS: u32 = 31;
const MARK_MASK: u64 = (1 << MARK_BITS) - 1;

/// Where a timer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Phase {
    /// Never armed. The all-zero word, so that fresh segments come zeroed from the allocator.
    Idle = 0,
    /// Armed: it will be cancelled, fire, or be returned.
    Pending = 1,
    /// A canceller won.
    Cancelled = 2,
    /// The owner won.
    Fired = 3,
    /// `stop` won.
    Returned = 4,
}

/// A decoded state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    #[inline]
    pub(crate) fn phase(self) -> Phase {
        match self.0 & PHASE_MASK {
            1 => Phase::Pending,
            2 => Phase::Cancelled,
            3 => Phase::Fired,
            4 => Phase::Returned,
            _ => Phase::Idle,
        }
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    /// What an entry filed for this state remembers; fits 31 bits.
    #[inline]
    pub(crate) const fn mark(self) -> u32 {
        (self.0 >> HINT_SHIFT & MARK_MASK) as u32
    }

    /// Whether the timer is one period of a periodic one.
    #[inline]
    pub(crate) const fn is_periodic(self) -> bool {
        self.has(PERIODIC)
    }

    #[inline]
    const fn is_pending(self) -> bool {
        self.0 & PHASE_MASK == Phase::Pending as u64
    }

    #[inline]
    const fn names(self, generation: u64) -> bool {
        self.generation() == generation
    }

    #[inline]
    const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    const fn ended(self, phase: Phase) -> u64 {
        self.0 & !PHASE_MASK | phase as u64
    }
}

/// The answer to an attempt to end a timer.
#[must_use = "the winner owns the payload and may have to release or recycle the node"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The caller won and nobody else looks at the node: take the payload, then recycle.
    WonSole,
    /// The caller won; take the payload, then call [`StateWord::release_taking`].
    WonShared,
    /// The timer has ended before, or the key is stale.
    Lost,
}

/// The answer to the owner's question whether an entry is due.
#[must_use = "a due timer must be fired, any other entry filed again or dropped"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Fired: the owner owns the payload.
    Fired(Ending),
    /// Still pending, at this later deadline: file the entry again.
    Later(u64),
    /// Somebody is changing the deadline right now: look again at the next tick.
    Moving,
    /// A zombie: drop the entry.
    Dead,
}

/// The answer to an attempt to begin a move.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// The caller alone may write the deadline until it calls [`StateWord::finish_move`].
    Begun,
    /// Another thread is moving the same timer: this move counts as the earlier of the two.
    Superseded,
    /// The timer has ended, or the key is stale.
    Gone,
}

/// The answer to the end of a move.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// The move holds. An entry with this mark is the current one.
    Done { mark: u32 },
    /// The timer was cancelled or returned meanwhile; `recycle` if the caller was the last to hold it.
    Ended { recycle: bool },
}

/// The answer to a `Timeout` letting go of its node.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Somebody else still holds the node, or the timer is still pending.
    Held,
    /// The caller was the last: recycle.
    Recycle,
}

/// The atomic state of one node.
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl Default for StateWord {
    fn default() -> Self {
        Self(AtomicU64::new(Phase::Idle as u64))
    }
}

impl StateWord {
    #[inline]
    pub(crate) fn load(&self) -> State {
        // ORDERING: Acquire pairs with the Release in `arm`, `finish_move` and the AcqRel in `end`, so
        // what the caller reads of the node next is at least as new as this state. [P1]
        State(self.0.load(Ordering::Acquire))
    }

    /// Idle or ended -> pending, next generation. The caller owns the node alone and has written it.
    #[inline]
    pub(crate) fn arm(&self, held: bool) -> State {
        self.arm_with(if held { HANDLE } else { 0 })
    }

    /// As [`StateWord::arm`], for one period of a periodic timer.
    pub(crate) fn arm_periodic(&self) -> State {
        self.arm_with(PERIODIC)
    }

    #[inline]
    fn arm_with(&self, flags: u64) -> State {
        // ORDERING: Relaxed, because the caller alone holds the node; the magazine ordered it.
        let old = self.0.load(Ordering::Relaxed);
        let generation = (old & !(GENERATION_ONE - 1)).wrapping_add(GENERATION_ONE);
        let new = generation | Phase::Pending as u64 | flags;
        // ORDERING: Release publishes payload and deadline to whoever acquires this state. [P1]
        self.0.store(new, Ordering::Release);
        State(new)
    }

    /// pending -> `phase` for the timer that `generation` names.
    ///
    /// `by_handle`: the caller is the `Timeout` itself, whose own hold keeps the node.
    #[inline]
    pub(crate) fn end(&self, generation: u64, phase: Phase, by_handle: bool) -> Ending {
        let mut seen = self.load();
        loop {
            if !seen.is_pending() || !seen.names(generation) {
                return Ending::Lost;
            }
            match self.try_end(seen, phase, by_handle) {
                Ok(ending) => return ending,
                // Only a move beginning or ending, or a detach, brings us here: somebody made progress.
                Err(now) => seen = now,
            }
        }
    }

    /// One attempt of [`StateWord::end`].
    #[inline]
    fn try_end(&self, seen: State, phase: Phase, by_handle: bool) -> Result<Ending, State> {
        let others = seen.has(MOVING) || (seen.has(HANDLE) && !by_handle);
        let taking = if others && !by_handle { TAKING } else { 0 };
        // ORDERING: AcqRel. Acquire pairs with `arm`: the winner reads the payload [P1]. Release is for
        // whoever recycles after reading the ended state, as in `release` [P2]. Acquire on failure as in `load`.
        match self.0.compare_exchange(
            seen.0,
            seen.ended(phase) | taking,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) if others || by_handle => Ok(Ending::WonShared),
            Ok(_) => Ok(Ending::WonSole),
            Err(now) => Err(State(now)),
        }
    }

    /// Ends a winner's reading of the payload after [`Ending::WonShared`] without `by_handle`.
    #[inline]
    pub(crate) fn release_taking(&self) -> Release {
        self.release(TAKING)
    }

    /// A `Timeout` lets go: of an ended timer, or of a pending one that runs on without it.
    #[inline]
    pub(crate) fn release_handle(&self) -> Release {
        let seen = self.load();
        if !seen.is_pending() && !seen.has(HOLDS & !HANDLE) {
            // No other hold, and none can begin on an ended timer: no need for a read-modify-write.
            // The flag may stay: `arm` overwrites it.
            return Release::Recycle;
        }
        self.release(HANDLE)
    }

    #[inline]
    fn release(&self, hold: u64) -> Release {
        // ORDERING: AcqRel. Release hands what this holder did with the node to the last one; Acquire
        // lets the last one see what all the others did before it recycles. [P2]
        let left = State(self.0.fetch_and(!hold, Ordering::AcqRel) & !hold);
        if !left.is_pending() && !left.has(HOLDS) { Release::Recycle } else { Release::Held }
    }

    /// Owner: is the timer behind an entry due, and if so, fire it.
    ///
    /// `deadline` reads the node's deadline.
    #[inline]
    pub(crate) fn due(&self, mark: u32, now: u64, deadline: impl Fn() -> u64) -> Due {
        let mut seen = self.load();
        loop {
            if !seen.is_pending() || seen.mark() != mark {
                return Due::Dead;
            }
            if seen.has(MOVING) {
                return Due::Moving;
            }
            if seen.has(MOVED) {
                match self.acknowledge_move(seen) {
                    Ok(clean) => seen = clean,
                    Err(now) => {
                        seen = now;
                        continue;
                    }
                }
            }
            let deadline = deadline();
            if deadline > now {
                return Due::Later(deadline);
            }
            match self.try_end(seen, Phase::Fired, false) {
                Ok(ending) => return Due::Fired(ending),
                Err(now) => seen = now,
            }
        }
    }

    /// Clears `MOVED` before the owner reads the deadline, so that a later move cannot go unnoticed.
    fn acknowledge_move(&self, seen: State) -> Result<State, State> {
        let clean = seen.0 & !MOVED;
        // ORDERING: Acquire pairs with the Release in `finish_move`: the deadline read next is the moved
        // one [P3]. Release keeps the chain for later acquirers of the payload.
        self.0
            .compare_exchange(seen.0, clean, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| State(clean))
            .map_err(State)
    }

    /// Claims the right to write the deadline of the timer that `generation` names.
    #[inline]
    pub(crate) fn begin_move(&self, generation: u64) -> Move {
        let mut seen = self.load();
        loop {
            if !seen.is_pending() || !seen.names(generation) {
                return Move::Gone;
            }
            if seen.has(MOVING) {
                return Move::Superseded;
            }
            // ORDERING: Acquire pairs with `finish_move`: the caller reads the last mover's deadline [P3].
            // Release keeps the chain from `arm` for later acquirers.
            match self.0.compare_exchange(
                seen.0,
                seen.0 | MOVING,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Move::Begun,
                Err(now) => seen = State(now),
            }
        }
    }

    /// Ends a move after the deadline was written. `earlier`: a second entry will be filed.
    #[inline]
    pub(crate) fn finish_move(&self, earlier: bool) -> Moved {
        // ORDERING: Relaxed is enough to guess; the compare-and-swap below decides.
        let mut seen = State(self.0.load(Ordering::Relaxed));
        loop {
            if !seen.is_pending() {
                let recycle = self.release(MOVING) == Release::Recycle;
                return Moved::Ended { recycle };
            }
            let mut new = seen.0 & !MOVING | MOVED;
            if earlier {
                new = new & !HINT_MASK | new.wrapping_add(HINT_ONE) & HINT_MASK;
            }
            // ORDERING: AcqRel. Release publishes the new deadline to the owner and to the next mover [P3],
            // Acquire keeps the chain from `arm`; Relaxed on failure: the loop decides anew.
            match self.0.compare_exchange(seen.0, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Moved::Done { mark: State(new).mark() };
                }
                Err(now) => seen = State(now),
            }
        }
    }

    /// Gives a pending timer with this mark a new one, unless it is being moved: then it gets one anyway, or soon.
    pub(crate) fn renew_mark(&self, mark: u32) -> Option<State> {
        let seen = self.load();
        if !seen.is_pending() || seen.mark() != mark || seen.has(MOVING) {
            return None;
        }
        let new = seen.0 & !HINT_MASK | seen.0.wrapping_add(HINT_ONE) & HINT_MASK;
        // ORDERING: Acquire pairs with `finish_move`: the caller reads the last mover's deadline [P3]. Release keeps
        // the chain from `arm` for later acquirers. Relaxed on failure: somebody else was faster, and nothing is read.
        let renewed =
            self.0.compare_exchange(seen.0, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        renewed.then_some(State(new))
    }

    /// Whether an entry with this mark still stands for a pending timer.
    #[inline]
    pub(crate) fn is_live(&self, mark: u32) -> bool {
        // ORDERING: Relaxed: a hint. Whoever acts on the answer does so through a compare-and-swap.
        let seen = State(self.0.load(Ordering::Relaxed));
        // Without a branch: nobody can guess which entries are dead.
        seen.is_pending() & (seen.mark() == mark)
    }
}
