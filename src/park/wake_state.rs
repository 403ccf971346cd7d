//! The words that producers and a shard's owner share besides the inbox: the earliest message, whether a turn is
//! requested, until when the owner sleeps, and that the shard is closed. Read `README.md` beside this file first: it
//! has the protocols, the bad interleavings and the proof sketch.

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::fence;
use crossbeam_utils::CachePadded;

/// The value of `inbox_due` when no message in the inbox needs the owner.
const NOTHING: u64 = u64::MAX;
/// The value of `wake_at` while the owner is awake. A sleeping owner's tick is stored plus one.
const AWAKE: u64 = 0;

/// In `mode`: the shard takes no timers any more.
const CLOSED: u32 = 1;
/// In `mode`: producers execute a full fence, and the owner's drains need no more than that.
const FULL: u32 = 2;

/// Whether a producer has to end the owner's sleep.
#[must_use = "a producer that gets `Needed` must wake the owner"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Wake the owner, then tell with [`WakeState::called`] that it is done.
    Needed(WakeCall),
    NotNeeded,
}

/// The sleep that a producer is about to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakeCall(pub(super) u64);

/// The answer to a producer.
#[must_use = "the owner may have to be woken, and a closed shard takes no timers"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) wake: Wake,
    /// The shard takes no timers any more: what was armed before may be found by `stop` or not.
    pub(crate) closed: bool,
}

/// See the module. Producers read the first three words on every message, so they share a line; they write rarely.
pub(crate) struct WakeState {
    words: CachePadded<Words>,
}

/// The default is awake, and no sleep was ever announced.
#[derive(Default)]
struct Words {
    /// The earliest tick among the messages announced since the last drain began; `NOTHING` if none, never 0.
    inbox_due: AtomicU64,
    /// `AWAKE`, or one plus the tick until which the owner sleeps. The owner's.
    wake_at: AtomicU64,
    /// `CLOSED` and `FULL`. The owner's.
    mode: AtomicU32,
    /// The number of the sleep that `wake_at` announces, or announced last. The owner's.
    sleep: AtomicU64,
    /// The last sleep that a producer has set out to end.
    calling: AtomicU64,
    /// The last sleep for which a producer's wake call has returned, and not failed.
    called: AtomicU64,
    /// A turn was requested, or a message for tick 0 announced, since the last drain began.
    requested: AtomicBool,
}

impl WakeState {
    pub(crate) fn new() -> Self {
        Self::of_mode(if fence::is_asymmetric() { 0 } else { FULL })
    }

    /// Returns one whose producers execute their fences themselves.
    pub(crate) fn fenced() -> Self {
        Self::of_mode(FULL)
    }

    /// Returns whether producers execute their fences themselves.
    #[cfg(all(test, not(tickwheel_loom)))]
    pub(crate) fn is_fenced(&self) -> bool {
        // ORDERING: Relaxed: nothing is read through it.
        self.words.mode.load(Ordering::Relaxed) & FULL != 0
    }

    fn of_mode(mode: u32) -> Self {
        let words = Words {
            inbox_due: AtomicU64::new(NOTHING),
            mode: AtomicU32::new(mode),
            ..Words::default()
        };
        Self {
            words: CachePadded::new(words),
        }
    }

    /// Notifies the owner, as a producer that has published a message for `tick`; `list` lists its writer, if that is
    /// not listed. Any thread, wait-free but for the listing and the lowering of the word.
    #[inline]
    pub(crate) fn notify(&self, tick: u64, list: impl FnOnce()) -> Announced {
        let closed = self.fence_after_push() & CLOSED != 0;
        list();
        // ORDERING: Relaxed, both: ordered by the fence.
        let can_wait = tick >= self.words.inbox_due.load(Ordering::Relaxed);
        if can_wait && tick.saturating_add(1) >= self.words.wake_at.load(Ordering::Relaxed) {
            return Announced {
                wake: Wake::NotNeeded,
                closed,
            };
        }
        Announced {
            wake: self.request_wake(tick),
            closed,
        }
    }

    /// Executes the producer's side of two handshakes: with a drain, by `inbox_due`, and with a close, by the mode
    /// itself.
    #[inline(always)]
    fn fence_after_push(&self) -> u32 {
        // The message comes before the look at the mode, and that before what follows: where the fence is the owner's
        // business alone, it finds a thread on this side of the look, its message written, or on the other.
        fence::compiler();
        // ORDERING: Relaxed: either the fence that the owner executes for all threads orders it, or the next one.
        let mode = self.words.mode.load(Ordering::Relaxed);
        fence::compiler();
        if mode & FULL == 0 {
            return mode;
        }
        // ORDERING: SeqCst fence, pairs with the ones in `begin_drain` and `close`. Either that drain sees the message
        // pushed before this fence, or the load of `inbox_due` sees that it was reset [F1]. Either the close finds what
        // was armed before, or the load below sees that the shard is closed [F5].
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed: ordered by the fence.
        self.words.mode.load(Ordering::Relaxed)
    }

    /// Raises the alarm for a message that the owner does not know to be this early, or would sleep through. A message
    /// for tick 0 requests a turn.
    #[cold]
    fn request_wake(&self, tick: u64) -> Wake {
        // ORDERING: Relaxed: ordered by the fence in `notify`.
        let due = self.words.inbox_due.load(Ordering::Relaxed);
        let is_news = if tick == 0 {
            self.set_requested()
        } else {
            tick < due && self.lower(tick)
        };
        if is_news {
            // ORDERING: SeqCst fence, pairs with the one in `begin_sleep`: either the owner sees the word that
            // has just been written, or the load of `wake_at` below sees the sleep. [F2]
            fence(Ordering::SeqCst);
        }
        // ORDERING: Acquire pairs with `begin_sleep`: the number below is that sleep's or a later one's. [P10]
        if tick.saturating_add(1) >= self.words.wake_at.load(Ordering::Acquire) {
            return Wake::NotNeeded;
        }
        // ORDERING: Relaxed, all three. Producers rely on a wake only after its call: `called` is written after the
        // call has returned. An older number in any of them costs one more wake.
        let sleep = self.words.sleep.load(Ordering::Relaxed);
        if self.words.called.load(Ordering::Relaxed) == sleep {
            return Wake::NotNeeded;
        }
        self.words.calling.store(sleep, Ordering::Relaxed);
        Wake::Needed(WakeCall(sleep))
    }

    /// Notes, as the producer that called, that the wake which `notify` asked for has succeeded: other producers may
    /// rely on it.
    pub(crate) fn called(&self, call: WakeCall) {
        // ORDERING: Relaxed: as in `request_wake`.
        self.words.called.store(call.0, Ordering::Relaxed);
    }

    /// Makes the owner take a turn now. Any thread.
    pub(crate) fn request_turn(&self) -> Wake {
        self.notify(0, || ()).wake
    }

    /// Lowers `inbox_due` to `tick`; false if it was that low already.
    fn lower(&self, tick: u64) -> bool {
        // ORDERING: Release pairs with the Acquire in `begin_drain`: a drain that resets our value sees
        // the message behind it [P8]. Acquire is for the second producer; no model needs it.
        let before = self.words.inbox_due.fetch_min(tick, Ordering::AcqRel);
        before > tick
    }

    /// Notes that a turn is requested; false if it was already.
    fn set_requested(&self) -> bool {
        // ORDERING: Release pairs with the Acquire in `begin_drain`: a drain that resets our value sees what the turn
        // is requested for [P8]. Acquire is for the second thread that requests one, as in `lower`.
        !self.words.requested.swap(true, Ordering::AcqRel)
    }

    /// Returns the earliest tick among unread messages, for reports; `u64::MAX` for none. A message for tick 0 is not
    /// among them.
    pub(crate) fn earliest_unread(&self) -> u64 {
        // ORDERING: Relaxed: a figure for reports.
        self.words.inbox_due.load(Ordering::Relaxed)
    }

    /// Returns, to the owner, the earliest tick among unread messages (0 after a turn request), `u64::MAX` for none.
    #[inline]
    pub(crate) fn inbox_due(&self) -> u64 {
        // ORDERING: Relaxed, both: a message or a request that is missed here requests a wake by itself.
        if self.words.requested.load(Ordering::Relaxed) {
            return 0;
        }
        self.words.inbox_due.load(Ordering::Relaxed)
    }

    /// Begins a drain, as the owner: every message pushed before this call, and not drained yet, will be seen by the
    /// drain that follows; a producer that pushes another one lowers the word anew. `collect` takes the writers that are
    /// listed, between the reset of the words and the fence.
    #[inline]
    pub(crate) fn begin_drain<N>(&self, collect: impl FnOnce() -> N) -> N {
        // ORDERING: Relaxed: a request that is missed here is found by the next drain.
        if self.words.requested.load(Ordering::Relaxed) {
            // ORDERING: Acquire pairs with `set_requested`. [P8]
            self.words.requested.swap(false, Ordering::Acquire);
        }
        // ORDERING: Acquire pairs with `lower`. [P8]
        self.words.inbox_due.swap(NOTHING, Ordering::Acquire);
        let collected = collect();
        // ORDERING: Relaxed: the owner's own word.
        if self.words.mode.load(Ordering::Relaxed) & FULL == 0 {
            fence::heavy();
        } else {
            // ORDERING: SeqCst fence, pairs with the one in `fence_after_push`. [F1]
            fence(Ordering::SeqCst);
        }
        collected
    }

    /// Closes the shard, as the owner: a producer that finds it open from now on has armed its timer where the caller
    /// will see it.
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed, both: the owner's own word, ordered by the fence.
        let mode = self.words.mode.load(Ordering::Relaxed);
        self.words.mode.store(mode | CLOSED, Ordering::Relaxed);
        if mode & FULL == 0 {
            return fence::heavy();
        }
        // ORDERING: SeqCst fence, pairs with the one in `fence_after_push`. [F5]
        fence(Ordering::SeqCst);
    }

    /// Any thread: returns whether the shard is closed. A hint, unless the answer is yes.
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: Relaxed: nothing is read through it.
        self.words.mode.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Announces, as the owner, a sleep until `tick`; returns false if the inbox needs the owner earlier: then it is
    /// still awake.
    pub(crate) fn begin_sleep(&self, tick: u64) -> bool {
        // ORDERING: Relaxed, both: the owner's own word, published by the next store.
        let sleep = self.words.sleep.load(Ordering::Relaxed) + 1;
        self.words.sleep.store(sleep, Ordering::Relaxed);
        // ORDERING: Release shows producers the number of the sleep [P10]; the handshake itself needs only the fence
        // below.
        self.words
            .wake_at
            .store(tick.saturating_add(1), Ordering::Release);
        // ORDERING: SeqCst fence, pairs with the one in `request_wake`. [F2]
        fence(Ordering::SeqCst);
        if self.inbox_due() < tick {
            self.end_sleep();
            return false;
        }
        true
    }

    /// Returns whether the owner has announced a sleep that has not ended; to others, a hint.
    pub(crate) fn is_asleep(&self) -> bool {
        // ORDERING: Relaxed: the owner's own word.
        self.words.wake_at.load(Ordering::Relaxed) != AWAKE
    }

    /// Ends the owner's sleep; returns whether a producer has set out to end it.
    #[inline]
    pub(crate) fn end_sleep(&self) -> bool {
        // ORDERING: Relaxed, all: producers that still read the old value wake an owner that is awake, which is
        // harmless. The answer is a statistic.
        self.words.wake_at.store(AWAKE, Ordering::Relaxed);
        let sleep = self.words.sleep.load(Ordering::Relaxed);
        self.words.calling.load(Ordering::Relaxed) == sleep
    }
}
