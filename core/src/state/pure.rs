//! The state word of a node: what it says and how it changes, without memory or threads.
//!
//! ```text
//!   63             18 17    10   9       8        7        6       5       4..3      2     1..0
//!  +-----------------+--------+------+--------+---------+-------+--------+--------+--------+---+
//!  | generation (46) |hint (8)| LIVE | PULLED | CLAIMED | MOVED |  (1)   | MOVERS | HANDLE |   |
//!  +-----------------+--------+------+--------+---------+-------+--------+--------+--------+---+
//!          |<------- mark (32) -------->|  (1) READING_PAYLOAD; it, CLAIMED, MOVERS and HANDLE are the holds
//!
//!   phase      LIVE  1..0
//!   Idle         0    0 0        Idle ---+--> Pending (fires once) ---+--> Cancelled, Fired, Returned
//!   Cancelled    0    0 1                |                            |
//!   Fired        0    1 0                +--> Waiting (repeats) ------+
//!   Returned     0    1 1
//!   Pending      1    0 0
//!   Waiting      1    0 1
//! ```
//!
//! * *phase*: a timer that fires once is *pending* until it ends, a periodic one *waiting*.
//! * *generation*: grows by one each time the node is armed. At 20 million arms of one node per second, more than one
//!   thread reaches, 46 bits would take 40 days to come round.
//! * *holds*: references to the node. `HANDLE` is a `TimerHandle`'s, `MOVERS` counts the threads that are changing the
//!   deadline, `CLAIMED` is the owner's, `READING_PAYLOAD` a winner's. What they protect is told in `tickwheel`'s `state`.
//! * `MOVED`: the deadline has changed since the owner last looked. Movers set it, the owner clears it.
//! * `PULLED`: the deadline may lie before the entry that is inserted, and a mover has promised the owner a message.
//!   Until it arrives the old entry stands, so a mover that stops on its way makes nothing late.
//! * *hint*: which of a node's entries is the current one. A deadline that moves *out* needs no new entry. One that is
//!   *pulled in* gets a second entry and a new hint, so the first entry is a zombie; so does each period. One of 256
//!   entries that moves have left behind looks like the current one: a look when it is due, nothing else.

use crate::types::GENERATION_BITS;

/// The phase, but for whether the timer lives.
const STAGE_MASK: u64 = 0b11;
pub const HANDLE: u64 = 1 << 2;
/// How many threads are moving the timer.
pub const MOVERS: u64 = 0b11 << 3;
pub const MOVER: u64 = 1 << 3;
pub const READING_PAYLOAD: u64 = 1 << 5;
pub const MOVED: u64 = 1 << 6;
pub const CLAIMED: u64 = 1 << 7;
pub const PULLED: u64 = 1 << 8;
const LIVE: u64 = 1 << 9;
const PHASE_MASK: u64 = LIVE | STAGE_MASK;
pub const HOLDS: u64 = HANDLE | MOVERS | READING_PAYLOAD | CLAIMED;
/// Where a mark begins: beside the hint, with the bit that says that the timer lives, so that one comparison tells
/// whether an entry is dead.
const MARK_SHIFT: u32 = LIVE.trailing_zeros();
const HINT_SHIFT: u32 = MARK_SHIFT + 1;
const HINT_BITS: u32 = 8;
const HINT_ONE: u64 = 1 << HINT_SHIFT;
const HINT_MASK: u64 = ((1 << HINT_BITS) - 1) << HINT_SHIFT;
const GENERATION_SHIFT: u32 = HINT_SHIFT + HINT_BITS;
const GENERATION_ONE: u64 = 1 << GENERATION_SHIFT;
const GENERATION_MASK: u64 = !(GENERATION_ONE - 1);
const _: () = assert!((PHASE_MASK | HOLDS | MOVED | PULLED) == HINT_ONE - 1);
const _: () = assert!(GENERATION_SHIFT + GENERATION_BITS == u64::BITS);

/// Where a timer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Phase {
    /// Never armed. The all-zero word, so that fresh segments come zeroed from the allocator.
    Idle = 0b00,
    /// A canceller won.
    Cancelled = 0b01,
    /// The owner won.
    Fired = 0b10,
    /// `stop` won.
    Returned = 0b11,
    /// Armed, to fire once.
    Pending = LIVE,
    /// Armed, to fire again and again.
    Waiting = LIVE | 0b01,
}

/// One value of a state word.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct State(pub u64);

impl State {
    /// Returns the state of a node that was never armed; its first timer has the generation after this one.
    #[inline]
    pub const fn unarmed(generation: u64) -> Self {
        Self(generation << GENERATION_SHIFT)
    }

    #[inline]
    pub const fn phase(self) -> Phase {
        match (self.has(LIVE), self.has(0b10), self.has(0b01)) {
            (false, false, false) => Phase::Idle,
            (false, false, true) => Phase::Cancelled,
            (false, true, false) => Phase::Fired,
            (false, true, true) => Phase::Returned,
            (true, _, false) => Phase::Pending,
            (true, _, true) => Phase::Waiting,
        }
    }

    #[inline]
    pub const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    /// Returns the mark of an entry that is inserted for this state. The lowest bit says that the timer lives.
    #[inline]
    pub const fn mark(self) -> u32 {
        (self.0 >> MARK_SHIFT) as u32
    }

    /// Returns whether the timer has not ended.
    #[inline]
    pub const fn is_live(self) -> bool {
        self.has(LIVE)
    }

    /// Returns whether a timer that lives is periodic. Meaningless once it has ended.
    #[inline]
    pub const fn is_periodic(self) -> bool {
        self.has(STAGE_MASK)
    }

    /// Returns whether the timer lives and this is its generation.
    #[inline]
    pub const fn is_named(self, generation: u64) -> bool {
        self.is_live() && (self.0 ^ generation << GENERATION_SHIFT) < GENERATION_ONE
    }

    /// Returns whether an entry with this mark, which was taken when the timer lived, stands for a living timer.
    #[inline]
    pub const fn is_current(self, mark: u32) -> bool {
        self.mark() == mark
    }

    /// Returns whether one of these bits is set.
    #[inline]
    pub const fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// Returns the state in another phase. The references stay.
    #[inline]
    #[must_use]
    pub const fn in_phase(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE_MASK | phase as u64)
    }

    /// Returns the state alive, in the next generation, without references.
    #[inline]
    #[must_use]
    pub const fn armed(self, phase: Phase) -> Self {
        Self((self.0 & GENERATION_MASK).wrapping_add(GENERATION_ONE) | phase as u64)
    }

    /// Returns the state with a mark that no entry carries yet: those that are inserted are zombies. `PULLED` goes,
    /// because the next entry lies where it belongs.
    #[inline]
    #[must_use]
    pub const fn with_new_mark(self) -> Self {
        Self(self.0 & !(HINT_MASK | PULLED) | self.0.wrapping_add(HINT_ONE) & HINT_MASK)
    }
}

/// The methods for nodes that threads share.
impl State {
    /// Returns whether as many are as can be counted.
    #[inline]
    pub const fn has_most_movers(self) -> bool {
        self.0 & MOVERS == MOVERS
    }

    /// Returns whether the timer has ended and no reference to the node is left.
    #[inline]
    pub const fn is_free(self) -> bool {
        self.0 & (LIVE | HOLDS) == 0
    }

    pub const fn without(self, flag: u64) -> Self {
        Self(self.0 & !flag)
    }

    pub const fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    /// Returns the state with one more thread that moves the timer.
    #[must_use]
    pub const fn moving(self) -> Self {
        Self(self.0 + MOVER)
    }

    /// Returns the state once the owner has taken a message of the timer: it knows of all moves so far, and if the
    /// deadline may lie before the entry that is inserted, that is a zombie.
    #[must_use]
    pub const fn arrived(self) -> Self {
        let known = self.without(MOVED);
        if known.has(PULLED) {
            known.with_new_mark()
        } else {
            known
        }
    }

    /// Returns the state after one of those that move the timer has done so, and whether the owner is to be told: if
    /// the deadline was pulled in, or may have been by another thread whose message has not arrived.
    pub const fn moved(self, earlier: bool) -> (Self, bool) {
        let left = Self(self.0 - MOVER);
        let tell = earlier || left.has(MOVERS) || left.has(PULLED);
        (left.with(if tell { MOVED | PULLED } else { MOVED }), tell)
    }
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let flags = self.0 & (HOLDS | MOVED | PULLED);
        write!(f, "{:?} #{} {flags:#011b}", self.phase(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_read_as_it_was_written() {
        use Phase::*;
        let ended = [Idle, Cancelled, Fired, Returned].map(|phase| (phase, false));
        let living = [Pending, Waiting].map(|phase| (phase, true));
        for (phase, lives) in ended.into_iter().chain(living) {
            let state = State::default()
                .armed(Pending)
                .with(HOLDS | MOVED)
                .in_phase(phase);
            assert_eq!((state.phase(), state.is_live()), (phase, lives));
            assert!(!lives || state.is_periodic() == (phase != Pending));
            assert!(!state.is_free());
            assert_eq!(state.without(HOLDS).is_free(), !lives);
        }
    }

    #[test]
    fn the_generation_comes_round_without_touching_the_rest() {
        let last = State(u64::MAX << GENERATION_SHIFT).armed(Phase::Waiting);
        assert_eq!((last.generation(), last.0), (0, Phase::Waiting as u64));
    }

    #[test]
    fn an_entry_is_current_until_its_timer_ends_or_is_moved_earlier() {
        let state = State::default().armed(Phase::Pending);
        assert!(state.is_current(state.mark()));
        assert!(!state.in_phase(Phase::Fired).is_current(state.mark()));
        let mut moved = state;
        for _ in 1..1 << HINT_BITS {
            moved = moved.with_new_mark();
            assert!(moved.is_current(moved.mark()) && !moved.is_current(state.mark()));
            assert_eq!(moved.generation(), state.generation());
        }
        // Round once: an old entry looks current again, which `local::table` says is harmless.
        assert_eq!(moved.with_new_mark(), state);
        let next = state.in_phase(Phase::Fired).armed(Phase::Pending);
        assert!(
            !next.is_current(state.mark()),
            "the next timer's mark differs"
        );
    }

    #[test]
    fn movers_do_not_rely_on_each_others_message() {
        let mut moving = State::default().armed(Phase::Pending);
        while !moving.has_most_movers() {
            moving = moving.moving();
        }
        let (moving, tell) = moving.moved(false);
        assert!(tell, "the others may have pulled the deadline in");
        let (moving, tell) = moving.moved(true);
        assert!(tell && moving.has(MOVERS));
        let (moved, tell) = moving.moved(false);
        assert!(tell, "a message is promised and may never come");
        assert!(!moved.has(MOVERS));
    }
}
