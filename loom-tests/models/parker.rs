//! The sleep with the real parker: over the kernel's futex on real threads, and over one of loom's, which blocks, in the
//! models. A wake that is lost is a deadlock there.

use super::harness::{Bound, Probe, UNBOUNDED, bounded, bounded_when_quick, explore, spawn};
use crate::park::parker::{ParkEnd, Parker, Unparker};
use crate::park::{Wake, WakeState};
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Three threads, of which the owner takes several turns.
const THREE_THREADS: Bound = bounded(3, 2);

/// Where the owner sleeps to if nothing is in the inbox.
const FAR: u64 = 100;

/// Whether the owner sleeps now. Loom's futex tells; the kernel's does not.
fn is_owner_asleep() -> bool {
    #[cfg(tickwheel_loom)]
    return crate::sync::explored::futex::is_anybody_asleep();
    #[cfg(not(tickwheel_loom))]
    false
}

/// A wake ends the sleep that it meets, or the next one, and what was done before it is seen then.
#[test]
fn wake_or_sleep() {
    explore(UNBOUNDED, || {
        let waker = Unparker::default();
        let mut parker = Parker::of(&waker);
        let probe = Arc::new(Probe::new());
        let set = Arc::clone(&probe);
        let waking = spawn(move || {
            set.set(1);
            waker.wake(|| ());
        });
        if parker.sleep(None) == ParkEnd::Woken {
            assert_eq!(probe.get(), 1);
        }
        waking.join().unwrap();
    });
}

/// When a wake returns, the sleep is over, wherever another thread stands with its own wake.
#[test]
fn a_thread_that_stops_in_a_wake_stops_no_other_wake() {
    explore(bounded_when_quick(3), || {
        let waker = Unparker::default();
        let mut parker = Parker::of(&waker);
        let other = waker.clone();
        let stopping = spawn(move || other.wake(|| ()));
        let waking = spawn(move || {
            waker.wake(|| ());
            assert!(
                !is_owner_asleep(),
                "the wake of the other thread was relied on"
            );
        });
        let _ = parker.sleep(None);
        stopping.join().unwrap();
        waking.join().unwrap();
    });
}

/// The words of the handshake, an inbox of two flags, and the parker.
struct Shard {
    wake_state: WakeState,
    waker: Unparker,
    published: [AtomicBool; 2],
    /// What the owner has drained; no part of the model.
    seen: [std::sync::atomic::AtomicBool; 2],
}

/// The ticks of the messages.
const TICKS: [u64; 2] = [5, 6];

impl Shard {
    fn push(&self, message: usize) {
        // ORDERING: Release, as the inbox publishes.
        self.published[message].store(true, Ordering::Release);
        if let Wake::Needed(call) = self.wake_state.notify(TICKS[message], || ()).wake {
            self.waker.wake(|| ());
            self.wake_state.called(call);
        }
    }

    fn has_seen(&self, message: usize) -> bool {
        // ORDERING: SeqCst: no part of the model.
        self.seen[message].load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Drains, and sleeps until there is more, as often as needed.
    fn run_until_all_is_seen(&self, parker: &mut Parker) {
        for _ in 0..8 {
            self.wake_state.begin_drain(|| ());
            for message in 0..2 {
                // ORDERING: Acquire, as the reader of the inbox; SeqCst as above.
                if self.published[message].load(Ordering::Acquire) {
                    self.seen[message].store(true, std::sync::atomic::Ordering::SeqCst);
                }
            }
            if (0..2).all(|message| self.has_seen(message)) {
                return;
            }
            if self.wake_state.begin_sleep(FAR) {
                let _ = parker.sleep(None);
                let _ = self.wake_state.end_sleep();
            }
        }
        panic!("turns without end");
    }
}

/// Two producers and an owner that blocks: it comes to see both messages. The earlier one is not slept through once its
/// producer is done, wherever the other one stands, in the middle of its wake for example.
#[test]
fn push_or_sleep() {
    explore(THREE_THREADS, || {
        let waker = Unparker::default();
        let mut parker = Parker::of(&waker);
        let shard = Arc::new(Shard {
            wake_state: WakeState::new(),
            waker,
            published: Default::default(),
            seen: Default::default(),
        });
        let [earlier, later] = [0, 1].map(|message| {
            let shard = Arc::clone(&shard);
            spawn(move || {
                shard.push(message);
                // Asked in this order: an owner that has seen it may fall asleep again.
                let slept_through = message == 0 && is_owner_asleep() && !shard.has_seen(0);
                assert!(!slept_through, "the message for 5 waits for the one for 6");
            })
        });
        shard.run_until_all_is_seen(&mut parker);
        earlier.join().unwrap();
        later.join().unwrap();
    });
}
