//! The sleep handshake: no push and no turn request is slept through, and one sleep costs one wake.
//!
//! The inbox is a row of flags here, so that the two words of the wake_state are all that is modelled. Nobody
//! really sleeps: at the end, when every thread is joined, an owner that fell asleep too long must have
//! been woken. `src/park/README.md` draws the interleavings that these scenarios rule out.

use super::harness::{
    Bell, bounded, bounded_when_quick, explore, fence_for_all, spawn, spawn_with, yield_now,
};
use crate::park::{Wake, WakeState};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Where the owner would sleep to if nothing were in the inbox.
const FAR: u64 = 100;

struct Shard {
    wake_state: WakeState,
    /// The messages: their ticks, and whether they are published.
    inbox: Vec<(u64, AtomicBool)>,
    bell: Bell,
    stopped: AtomicBool,
    /// Written with each ring, so that a thread may be stopped before one.
    rung: AtomicBool,
}

/// How a walk of the owner ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Asleep until this tick.
    Asleep(u64),
    /// It did not fall asleep: something came up.
    Awake,
}

impl Shard {
    fn new(ticks: &[u64]) -> Arc<Self> {
        Arc::new(Self {
            wake_state: WakeState::new(),
            inbox: ticks.iter().map(|&tick| (tick, AtomicBool::new(false))).collect(),
            bell: Bell::default(),
            stopped: AtomicBool::new(false),
            rung: AtomicBool::new(false),
        })
    }

    /// The first message, for 5, has ended a sleep and is done with; the second one is for 6.
    fn after_a_call() -> Arc<Self> {
        let shard = Self::new(&[5, 6]);
        assert_eq!(shard.turn_and_sleep(), End::Asleep(FAR));
        shard.push(0);
        assert!(shard.bell.rings() == 1 && shard.wake_state.end_sleep());
        assert_eq!(shard.drain(), 5);
        shard
    }

    fn push(&self, message: usize) {
        let (tick, published) = &self.inbox[message];
        // ORDERING: Release, as the inbox publishes. It must not be this that saves the handshake.
        published.store(true, Ordering::Release);
        self.wake(self.wake_state.notify(*tick).wake);
    }

    fn wake(&self, wake: Wake) {
        if let Wake::Needed(call) = wake {
            // ORDERING: Relaxed: it only makes the ring a step of the model.
            self.rung.store(true, Ordering::Relaxed);
            self.bell.ring();
            self.wake_state.called(call);
        }
    }

    fn stop(&self) {
        // ORDERING: Release, as the engine sets its state.
        self.stopped.store(true, Ordering::Release);
        self.wake(self.wake_state.request_turn());
    }

    /// Drains: the earliest tick among the messages that are seen.
    fn drain(&self) -> u64 {
        self.wake_state.begin_drain();
        self.peek()
    }

    fn peek(&self) -> u64 {
        let seen = |(tick, published): &(u64, AtomicBool)| {
            // ORDERING: Acquire, as the reader of the inbox.
            if published.load(Ordering::Acquire) { *tick } else { u64::MAX }
        };
        self.inbox.iter().map(seen).min().unwrap_or(u64::MAX)
    }

    /// One turn and the attempt to sleep.
    fn turn_and_sleep(&self) -> End {
        let tick = self.drain().min(self.wake_state.inbox_due()).min(FAR);
        if self.wake_state.begin_sleep(tick) { End::Asleep(tick) } else { End::Awake }
    }

    /// Everybody is joined: nothing is slept through.
    fn assert_nothing_slept_through(&self, end: End) {
        let earliest = self.peek();
        match end {
            End::Asleep(until) if earliest < until => {
                assert!(self.bell.rings() > 0, "slept through the message for {earliest}");
            }
            End::Asleep(_) => {}
            End::Awake => assert_eq!(self.drain(), earliest, "the next turn sees everything"),
        }
    }
}

fn push(shard: &Arc<Shard>, message: usize) -> super::harness::JoinHandle<()> {
    let shard = Arc::clone(shard);
    spawn(move || shard.push(message))
}

/// No push is slept through.
#[test]
fn push_or_sleep() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[5]);
        let pushing = push(&shard, 0);
        let end = shard.turn_and_sleep();
        pushing.join().unwrap();
        shard.assert_nothing_slept_through(end);
        assert!(shard.bell.rings() <= 1);
    });
}

/// The inbox's word is low already, from a message that the drain is about to take: the producer must not
/// rely on it.
#[test]
fn push_behind_an_earlier_message_or_drain() {
    explore(bounded_when_quick(3), || push_or_drain(false));
}

/// The same where the producer's fence is the owner's `membarrier`.
#[test]
fn light_push_behind_an_earlier_message_or_drain() {
    explore(bounded(4, 3), || push_or_drain(true));
}

fn push_or_drain(is_light: bool) {
    fence_for_all(is_light);
    let shard = Shard::new(&[5, 7]);
    shard.push(0);
    let pushing = push(&shard, 1);
    // The first message is taken and done with: only the second one can end the sleep.
    shard.wake_state.begin_drain();
    // ORDERING: Acquire, as the reader of the inbox.
    let seen = shard.inbox[1].1.load(Ordering::Acquire);
    let tick = if seen { 7 } else { FAR }.min(shard.wake_state.inbox_due());
    let end = if shard.wake_state.begin_sleep(tick) { End::Asleep(tick) } else { End::Awake };
    pushing.join().unwrap();
    match end {
        End::Asleep(until) if until > 7 => assert_eq!(shard.bell.rings(), 1, "slept through"),
        End::Asleep(until) => assert_eq!(until, 7),
        End::Awake => assert!(shard.wake_state.inbox_due() <= 7),
    }
}

/// The inbox's word lies one tick behind the message, and the owner goes to sleep until there.
#[test]
fn push_one_tick_before_the_word_or_sleep() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[5, 6]);
        shard.push(1);
        let pushing = push(&shard, 0);
        let asleep = shard.wake_state.begin_sleep(6);
        pushing.join().unwrap();
        assert!(!asleep || shard.bell.rings() == 1, "slept through the message for 5");
    });
}

/// The owner sleeps out a short sleep and begins a longer one while a producer is on its way.
#[test]
fn push_or_sleep_twice() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[50]);
        let pushing = push(&shard, 0);
        let mut end = End::Awake;
        if shard.wake_state.begin_sleep(10) {
            let _ = shard.wake_state.end_sleep();
            end = shard.turn_and_sleep();
        }
        pushing.join().unwrap();
        shard.assert_nothing_slept_through(end);
    });
}

/// Of two producers that are early enough one wakes the owner, and both do if neither knows of the other's call yet.
/// Once a call has returned, nobody calls again.
#[test]
fn few_wakes_for_one_sleep() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[5, 6, 4]);
        assert_eq!(shard.turn_and_sleep(), End::Asleep(FAR));
        let pushing = push(&shard, 0);
        shard.push(1);
        pushing.join().unwrap();
        let rings = shard.bell.rings();
        assert!(matches!(rings, 1 | 2), "{rings} wakes");
        shard.push(2);
        assert_eq!(shard.bell.rings(), rings, "the owner was woken already");
    });
}

/// A call ended the last sleep; a producer that comes while the owner goes to sleep again does not rely on that one.
#[test]
fn push_or_sleep_after_a_call() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::after_a_call();
        let pushing = push(&shard, 1);
        let tick = shard.wake_state.inbox_due().min(FAR);
        let asleep = shard.wake_state.begin_sleep(tick);
        pushing.join().unwrap();
        assert!(!asleep || tick <= 6 || shard.bell.rings() == 2, "slept through the message for 6");
    });
}

/// The same, with the inbox's word low already, from somebody who stops before the call: a producer that sees this
/// sleep must see its number, too.
#[test]
fn a_call_for_the_last_sleep_is_not_relied_on() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::after_a_call();
        let pushing =
            spawn_with(&shard, move |shard| (shard.wake_state.seems_asleep(), shard.push(1)));
        let asleep = shard.wake_state.begin_sleep(FAR);
        let _ = shard.wake_state.notify(4);
        let (found_asleep, ()) = pushing.join().unwrap();
        assert!(!asleep || !found_asleep || shard.bell.rings() == 2, "nobody has called");
    });
}

/// A producer may stop anywhere, before its wake call for example: whoever pushes meanwhile relies on no call that
/// has not returned.
#[test]
fn a_stopped_producer_delays_nobody_else() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[5, 6]);
        assert_eq!(shard.turn_and_sleep(), End::Asleep(FAR));
        let stopping = push(&shard, 0);
        shard.push(1);
        // The other one has not been joined: it stands at any of its steps, the ring among them.
        // ORDERING: Relaxed: as where it is written.
        let _ = shard.rung.load(Ordering::Relaxed);
        assert_ne!(shard.bell.rings(), 0, "the message for 6 waits for the one for 5");
        stopping.join().unwrap();
    });
}

/// A message that is not due before the owner wakes by itself costs no wake.
#[test]
fn no_wake_for_what_can_wait() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[FAR, FAR + 1]);
        assert_eq!(shard.turn_and_sleep(), End::Asleep(FAR));
        let pushing = push(&shard, 0);
        shard.push(1);
        pushing.join().unwrap();
        assert_eq!(shard.bell.rings(), 0);
        assert_eq!(shard.drain(), FAR, "and is seen when it wakes");
    });
}

/// Each decision of the handshake is exact to the tick: one tick before the end of a sleep, or before the inbox's word,
/// is early enough.
#[test]
fn one_tick_decides() {
    explore(bounded_when_quick(3), || {
        for (tick, wakes) in [(FAR - 1, true), (FAR, false), (FAR + 1, false)] {
            let shard = Shard::new(&[tick]);
            assert!(shard.wake_state.begin_sleep(FAR));
            assert_eq!(shard.wake_state.notify(tick).wake != Wake::NotNeeded, wakes, "{tick}");
            // The inbox's word is low now, and its producer has stopped before its call.
            assert_eq!(
                shard.wake_state.notify(tick).wake != Wake::NotNeeded,
                wakes,
                "{tick} again"
            );
            assert_eq!(shard.wake_state.inbox_due(), tick, "what the next turn begins with");
            // Of two messages the earlier one counts, by a tick.
            let _ = shard.wake_state.notify(tick - 1);
            assert_eq!(shard.wake_state.inbox_due(), tick - 1);
            let _ = shard.wake_state.end_sleep();
            // The owner falls asleep unless something is due before its tick.
            for (until, sleeps) in [(tick - 2, true), (tick - 1, true), (tick, false)] {
                assert_eq!(shard.wake_state.begin_sleep(until), sleeps, "until {until}");
                let _ = shard.wake_state.end_sleep();
            }
        }
    });
}

/// With two producers: nothing slept through, at most one wake.
#[test]
fn two_push_or_sleep() {
    explore(bounded(3, 2), || {
        let shard = Shard::new(&[5, 7]);
        let pushing = [push(&shard, 0), push(&shard, 1)];
        let end = shard.turn_and_sleep();
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        shard.assert_nothing_slept_through(end);
        assert!(shard.bell.rings() <= 2, "one wake for each producer at most");
    });
}

/// As the worker loop: look at the state after each turn, and only then sleep.
#[test]
fn stop_or_sleep() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::new(&[]);
        let stopping = spawn_with(&shard, move |shard| shard.stop());
        // ORDERING: Acquire, as the worker reads the engine's state.
        let stopped = || shard.stopped.load(Ordering::Acquire);
        let mut asleep = false;
        for _ in 0..3 {
            if shard.wake_state.inbox_due() == 0 {
                shard.wake_state.begin_drain();
            }
            if stopped() {
                break;
            }
            if shard.wake_state.begin_sleep(u64::MAX) {
                asleep = true;
                break;
            }
        }
        let saw_it = !asleep && stopped();
        stopping.join().unwrap();
        assert!(saw_it || shard.bell.rings() == 1, "slept through the stop");
    });
}

/// An owner that really blocks: loom reports a deadlock if the wake is lost. What was pushed is visible to
/// the owner once the wake has ended its sleep, although the words themselves are relaxed.
#[test]
fn a_wake_ends_a_real_sleep() {
    explore(bounded_when_quick(2), || {
        let shard = Shard::new(&[5]);
        let channel = Arc::new(Channel::default());
        let pushing = spawn({
            let (shard, channel) = (Arc::clone(&shard), Arc::clone(&channel));
            move || {
                shard.push(0);
                if shard.bell.rings() > 0 {
                    channel.send();
                }
            }
        });
        let mut turns = 0;
        while shard.drain() != 5 {
            turns += 1;
            assert!(turns < 4, "turns without end");
            if shard.wake_state.begin_sleep(FAR) {
                channel.receive();
                assert!(shard.wake_state.end_sleep(), "only a producer ends this sleep");
            }
        }
        pushing.join().unwrap();
    });
}

/// The wake's way to the owner; stands for the system call.
#[derive(Default)]
struct Channel(AtomicU64);

impl Channel {
    fn send(&self) {
        // ORDERING: Release, as a write to the waker's descriptor.
        self.0.store(1, Ordering::Release);
    }

    fn receive(&self) {
        // ORDERING: Acquire, as the return of the poll.
        while self.0.load(Ordering::Acquire) == 0 {
            yield_now();
        }
    }
}
