//! The two words between producers and a shard's owner: what lies in the inbox, and until when the owner
//! sleeps. Read `README.md` beside this file first: it has both protocols, the bad interleavings and the
//! proof sketch.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;

/// The value of `inbox_due` when nothing in the inbox needs the owner.
const NOTHING: u64 = u64::MAX;
/// The value of `wake_at` while the owner is awake. A sleeping owner's tick is stored plus one.
const AWAKE: u64 = 0;

/// Whether a producer has to end the owner's sleep.
#[must_use = "the one producer that gets `Needed` must wake the owner"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    Needed,
    NotNeeded,
}

/// See the module. Producers read both words on every push, so they share a line; they write rarely.
#[derive(Debug)]
pub(crate) struct WakeState {
    words: CachePadded<Words>,
}

#[derive(Debug)]
struct Words {
    /// The earliest tick among the messages pushed since the last drain began; `NOTHING` if none.
    inbox_due: AtomicU64,
    /// `AWAKE`, or one plus the tick until which the owner sleeps.
    wake_at: AtomicU64,
    /// `AWAKE`, or one plus the tick until which the owner spins with nothing to do: it looks at the inbox by
    /// itself, so nobody has to wake it.
    spins_until: AtomicU64,
}

impl WakeState {
    pub(crate) fn new() -> Self {
        let words = Words {
            inbox_due: AtomicU64::new(NOTHING),
            wake_at: AtomicU64::new(AWAKE),
            spins_until: AtomicU64::new(AWAKE),
        };
        Self { words: CachePadded::new(words) }
    }

    /// Producer: a message for `tick` has been published. Any thread, lock-free.
    #[inline]
    pub(crate) fn notify(&self, tick: u64) -> Wake {
        // ORDERING: SeqCst fence, pairs with the one in `begin_drain`: either that drain sees the message
        // pushed before this fence, or the load below sees that the word was reset. [F1]
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed: ordered by the fence.
        if tick < self.words.inbox_due.load(Ordering::Relaxed) && self.lower(tick) {
            // ORDERING: SeqCst fence, pairs with the one in `fall_asleep`: either the owner sees the lowered
            // word, or the load of `wake_at` below sees the sleep. [F2]
            fence(Ordering::SeqCst);
        }
        // ORDERING: Relaxed: ordered by the fences.
        let wake_at = self.words.wake_at.load(Ordering::Relaxed);
        if tick.saturating_add(1) < wake_at {
            self.claim_wake(tick, wake_at)
        } else {
            Wake::NotNeeded
        }
    }

    /// Any thread: makes the owner look now, whatever its deadlines.
    pub(crate) fn request_turn(&self) -> Wake {
        self.notify(0)
    }

    /// Lowers `inbox_due` to `tick`; false if it was that low already.
    #[cold]
    fn lower(&self, tick: u64) -> bool {
        // ORDERING: Release pairs with the Acquire in `begin_drain`: a drain that resets our value sees
        // the message behind it. [P8]
        self.words.inbox_due.fetch_min(tick, Ordering::AcqRel) > tick
    }

    /// One producer among those that are early enough gets to wake the owner.
    #[cold]
    fn claim_wake(&self, tick: u64, mut wake_at: u64) -> Wake {
        while tick.saturating_add(1) < wake_at {
            // ORDERING: Relaxed: the wake itself (a system call, or the loom model's channel) carries the
            // happens-before; the word only elects the waker.
            match self.words.wake_at.compare_exchange(
                wake_at,
                AWAKE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Wake::Needed,
                Err(now) => wake_at = now,
            }
        }
        Wake::NotNeeded
    }

    /// Owner: the earliest tick among unread messages (0 after a turn request), `u64::MAX` for none.
    #[inline]
    pub(crate) fn inbox_due(&self) -> u64 {
        // ORDERING: Relaxed: a message that is missed here raises the alarm by itself.
        self.words.inbox_due.load(Ordering::Relaxed)
    }

    /// Owner: every message pushed before this call, and not drained yet, will be seen by the drain that
    /// follows; every other one notifies itself anew.
    #[inline]
    pub(crate) fn begin_drain(&self) {
        // ORDERING: Acquire pairs with `lower` [P8]. Release shows `is_idle`, if it finds the word reset,
        // that the owner is awake [P9].
        self.words.inbox_due.swap(NOTHING, Ordering::AcqRel);
        // ORDERING: SeqCst fence, pairs with the first one in `notify`. [F1]
        fence(Ordering::SeqCst);
    }

    /// Owner: notifies a sleep until `tick`. False if the inbox needs it earlier: then it is still awake.
    pub(crate) fn fall_asleep(&self, tick: u64) -> bool {
        // ORDERING: Release shows `is_idle` what the handlers did [P9]; the handshake itself needs only
        // the fence below.
        self.words.wake_at.store(tick.saturating_add(1), Ordering::Release);
        // ORDERING: SeqCst fence, pairs with the second one in `notify`. [F2]
        fence(Ordering::SeqCst);
        if self.inbox_due() < tick {
            self.rise();
            return false;
        }
        true
    }

    /// Owner: the sleep is over; true if a producer ended it.
    #[inline]
    pub(crate) fn rise(&self) -> bool {
        // ORDERING: Relaxed: producers that still read the old value wake an owner that is awake, which is
        // harmless.
        self.words.wake_at.swap(AWAKE, Ordering::Relaxed) == AWAKE
    }

    /// Owner: has nothing to do until `tick` and spins.
    pub(crate) fn begin_spin(&self, tick: u64) {
        // ORDERING: Release as in `fall_asleep`. [P9]
        self.words.spins_until.store(tick.saturating_add(1), Ordering::Release);
    }

    /// Owner: the spin is over.
    pub(crate) fn end_spin(&self) {
        // ORDERING: Relaxed: `begin_drain` publishes it, as it does the end of a sleep. [P9]
        self.words.spins_until.store(AWAKE, Ordering::Relaxed);
    }

    /// Any thread: the owner is asleep, or spins, and nothing that was pushed before this call is due at `now`.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        // The inbox comes first. The caller's own pushes have lowered its word: if it is high, a drain has
        // begun since, on an owner that was awake. Asked the other way round, a sleep that was announced
        // and called off again before that drain would be taken for one after it.
        // ORDERING: Acquire pairs with `begin_drain`: the load of `wake_at` below sees that the owner was
        // awake in that drain, or a later sleep. [P9]
        if self.words.inbox_due.load(Ordering::Acquire) <= now {
            return false;
        }
        // ORDERING: Acquire pairs with `fall_asleep` and `begin_spin`: the handlers' effects are visible [P9].
        [&self.words.wake_at, &self.words.spins_until].into_iter().any(|until| {
            let until = until.load(Ordering::Acquire);
            until != AWAKE && (until == u64::MAX || until - 1 > now)
        })
    }
}
