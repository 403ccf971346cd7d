//! The sleep handshake: no push and no turn request is slept through, and one sleep costs one wake.
//!
//! The inbox is a row of flags here, so that the two words of the wake_state are all that is modelled. Nobody
//! really sleeps (in `parker` the owner does): at the end, when every thread is joined, an owner that fell asleep too long
//! must have been woken. `src/park/README.md` draws the interleavings that these scenarios rule out.

use super::harness::{
    Bell, Bound, JoinHandle, UNIT, bounded, bounded_when_quick, explore, explore_as, fence_for_all,
    name_of, spawn_with,
};
use crate::park::{Wake, WakeState};
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Where the owner would sleep to if nothing were in the inbox.
const FAR: u64 = 100;

struct Shard {
    wake_state: WakeState,
    /// The messages: their ticks, and whether they are published.
    inbox: Vec<(u64, AtomicBool)>,
    bell: Bell,
    /// Written with each ring, so that a thread may be stopped before one.
    rung: AtomicBool,
}

impl Shard {
    fn new(ticks: &[u64]) -> Arc<Self> {
        Arc::new(Self {
            wake_state: WakeState::new(),
            inbox: ticks
                .iter()
                .map(|&tick| (tick, AtomicBool::new(false)))
                .collect(),
            bell: Bell::default(),
            rung: AtomicBool::new(false),
        })
    }

    /// The first message, for 5, has ended a sleep and is done with; the second one is for 6.
    fn after_a_call() -> Arc<Self> {
        let shard = Self::new(&[5, 6]);
        assert_eq!(shard.turn_and_sleep(), Some(FAR));
        shard.push(0);
        assert!(shard.bell.rings() == 1 && shard.wake_state.end_sleep());
        assert_eq!(shard.drain(), 5);
        shard
    }

    fn push(&self, message: usize) {
        let (tick, published) = &self.inbox[message];
        // ORDERING: Release, as the inbox publishes. It must not be this that saves the handshake.
        published.store(true, Ordering::Release);
        self.wake(self.wake_state.notify(*tick, || ()).wake);
    }

    /// Starts a thread that pushes a message.
    fn pusher(self: &Arc<Self>, message: usize) -> JoinHandle<()> {
        spawn_with(self, move |shard| shard.push(message))
    }

    fn wake(&self, wake: Wake) {
        if let Wake::Needed(call) = wake {
            // ORDERING: Relaxed: it only makes the ring a step of the model.
            self.rung.store(true, Ordering::Relaxed);
            self.bell.ring();
            self.wake_state.called(call);
        }
    }

    /// Drains: the earliest tick among the messages that are seen.
    fn drain(&self) -> u64 {
        self.wake_state.begin_drain(|| ());
        self.peek()
    }

    fn peek(&self) -> u64 {
        let seen = |(tick, published): &(u64, AtomicBool)| {
            // ORDERING: Acquire, as the reader of the inbox.
            published.load(Ordering::Acquire).then_some(*tick)
        };
        self.inbox.iter().filter_map(seen).min().unwrap_or(u64::MAX)
    }

    /// The attempt to sleep until `tick`; none if something came up.
    fn sleep(&self, tick: u64) -> Option<u64> {
        self.wake_state.begin_sleep(tick).then_some(tick)
    }

    /// One turn and the attempt to sleep: the tick until which the owner sleeps.
    fn turn_and_sleep(&self) -> Option<u64> {
        self.sleep(self.drain().min(self.wake_state.inbox_due()).min(FAR))
    }

    /// Everybody is joined: nothing is slept through.
    fn assert_nothing_slept_through(&self, asleep: Option<u64>) {
        let earliest = self.peek();
        match asleep {
            Some(until) if earliest < until => {
                assert!(
                    self.bell.rings() > 0,
                    "slept through the message for {earliest}"
                );
            }
            Some(_) => {}
            None => assert_eq!(self.drain(), earliest, "the next turn sees everything"),
        }
    }
}

/// Explores a shard whose inbox gets messages for these ticks.
fn explore_shard<F>(bound: Bound, ticks: &'static [u64], scenario: F)
where
    F: Fn(&Arc<Shard>) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        scenario(&Shard::new(ticks))
    });
}

/// Each message comes from a thread of its own while the owner goes to sleep.
fn race_the_pushes(shard: &Arc<Shard>) {
    let pushing: Vec<_> = (0..shard.inbox.len())
        .map(|message| shard.pusher(message))
        .collect();
    let asleep = shard.turn_and_sleep();
    pushing
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    shard.assert_nothing_slept_through(asleep);
    assert!(
        shard.bell.rings() as usize <= shard.inbox.len(),
        "one wake for each at most"
    );
}

/// No push is slept through.
#[test]
fn push_or_sleep() {
    explore(bounded_when_quick(3), || race_the_pushes(&Shard::new(&[5])));
}

/// With two producers: nothing slept through, at most one wake for each.
#[test]
fn two_push_or_sleep() {
    explore(bounded(3, 2), || race_the_pushes(&Shard::new(&[5, 7])));
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
    let pushing = shard.pusher(1);
    // The first message is taken and done with: only the second one can end the sleep.
    shard.wake_state.begin_drain(|| ());
    // ORDERING: Acquire, as the reader of the inbox.
    let seen = shard.inbox[1].1.load(Ordering::Acquire);
    let asleep = shard.sleep(if seen { 7 } else { FAR }.min(shard.wake_state.inbox_due()));
    pushing.join().unwrap();
    match asleep {
        Some(until) if until > 7 => assert_eq!(shard.bell.rings(), 1, "slept through"),
        Some(until) => assert_eq!(until, 7),
        None => assert!(shard.wake_state.inbox_due() <= 7),
    }
}

/// The inbox's word lies one tick behind the message, and the owner goes to sleep until there.
#[test]
fn push_one_tick_before_the_word_or_sleep() {
    explore_shard(bounded_when_quick(3), &[5, 6], |shard| {
        shard.push(1);
        let pushing = shard.pusher(0);
        let asleep = shard.wake_state.begin_sleep(6);
        pushing.join().unwrap();
        assert!(
            !asleep || shard.bell.rings() == 1,
            "slept through the message for 5"
        );
    });
}

/// The owner sleeps out a short sleep and begins a longer one while a producer is on its way.
#[test]
fn push_or_sleep_twice() {
    explore_shard(bounded_when_quick(3), &[50], |shard| {
        let pushing = shard.pusher(0);
        let asleep = shard.sleep(10).and_then(|_| {
            let _ = shard.wake_state.end_sleep();
            shard.turn_and_sleep()
        });
        pushing.join().unwrap();
        shard.assert_nothing_slept_through(asleep);
    });
}

/// Of two producers that are early enough one wakes the owner, and both do if neither knows of the other's call yet.
/// Once a call has returned, nobody calls again.
#[test]
fn few_wakes_for_one_sleep() {
    explore_shard(bounded_when_quick(3), &[5, 6, 4], |shard| {
        assert_eq!(shard.turn_and_sleep(), Some(FAR));
        let pushing = shard.pusher(0);
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
        let pushing = shard.pusher(1);
        let asleep = shard.sleep(shard.wake_state.inbox_due().min(FAR));
        pushing.join().unwrap();
        let in_time = asleep.is_none_or(|until| until <= 6) || shard.bell.rings() == 2;
        assert!(in_time, "slept through the message for 6");
    });
}

/// The same, with the inbox's word low already, from somebody who stops before the call: a producer that sees this
/// sleep must see its number, too.
#[test]
fn a_call_for_the_last_sleep_is_not_relied_on() {
    explore(bounded_when_quick(3), || {
        let shard = Shard::after_a_call();
        let pushing = spawn_with(&shard, move |shard| {
            (shard.wake_state.is_asleep(), shard.push(1))
        });
        let asleep = shard.wake_state.begin_sleep(FAR);
        let _ = shard.wake_state.notify(4, || ());
        let (found_asleep, ()) = pushing.join().unwrap();
        assert!(
            !asleep || !found_asleep || shard.bell.rings() == 2,
            "nobody has called"
        );
    });
}

/// A producer may stop anywhere, before its wake call for example: whoever pushes meanwhile relies on no call that
/// has not returned.
#[test]
fn a_stopped_producer_delays_nobody_else() {
    explore_shard(bounded_when_quick(3), &[5, 6], |shard| {
        assert_eq!(shard.turn_and_sleep(), Some(FAR));
        let stopping = shard.pusher(0);
        shard.push(1);
        // The other one has not been joined: it stands at any of its steps, the ring among them.
        // ORDERING: Relaxed: as where it is written.
        let _ = shard.rung.load(Ordering::Relaxed);
        assert_ne!(
            shard.bell.rings(),
            0,
            "the message for 6 waits for the one for 5"
        );
        stopping.join().unwrap();
    });
}

/// A message that is not due before the owner wakes by itself costs no wake.
#[test]
fn no_wake_for_what_can_wait() {
    explore_shard(bounded_when_quick(3), &[FAR, FAR + 1], |shard| {
        assert_eq!(shard.turn_and_sleep(), Some(FAR));
        let pushing = shard.pusher(0);
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
    explore(UNIT, || {
        for (tick, wakes) in [(FAR - 1, true), (FAR, false), (FAR + 1, false)] {
            let state = WakeState::new();
            assert!(state.begin_sleep(FAR));
            // The second time the inbox's word is low, and its producer has stopped before its call.
            for again in [false, true] {
                let needed = state.notify(tick, || ()).wake != Wake::NotNeeded;
                assert_eq!(needed, wakes, "{tick}, again: {again}");
            }
            assert_eq!(state.inbox_due(), tick, "what the next turn begins with");
            // Of two messages the earlier one counts, by a tick.
            let _ = state.notify(tick - 1, || ());
            assert_eq!(state.inbox_due(), tick - 1);
            let _ = state.end_sleep();
            // The owner falls asleep unless something is due before its tick.
            for (until, sleeps) in [(tick - 2, true), (tick - 1, true), (tick, false)] {
                assert_eq!(state.begin_sleep(until), sleeps, "until {until}");
                let _ = state.end_sleep();
            }
        }
    });
}

/// As the worker loop: look at the state after each turn, and only then sleep.
#[test]
fn stop_or_sleep() {
    explore_shard(bounded_when_quick(3), &[], |shard| {
        let state = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&state);
        let stopping = spawn_with(shard, move |shard| {
            // ORDERING: Release, as the engine sets its state.
            stop.store(true, Ordering::Release);
            shard.wake(shard.wake_state.request_turn());
        });
        // ORDERING: Acquire, as the worker reads the engine's state.
        let stopped = || state.load(Ordering::Acquire);
        let mut asleep = false;
        for _ in 0..3 {
            if shard.wake_state.inbox_due() == 0 {
                shard.wake_state.begin_drain(|| ());
            }
            if stopped() {
                break;
            }
            asleep = shard.wake_state.begin_sleep(u64::MAX);
            if asleep {
                break;
            }
        }
        let saw_it = !asleep && stopped();
        stopping.join().unwrap();
        assert!(saw_it || shard.bell.rings() == 1, "slept through the stop");
    });
}

/// A request that has not ended when a drain begins leaves no tick of a message that this drain has taken.
#[test]
fn request_or_drain() {
    explore_shard(bounded_when_quick(3), &[5], |shard| {
        shard.push(0);
        let requesting = spawn_with(shard, |shard| shard.wake(shard.wake_state.request_turn()));
        assert_eq!(shard.drain(), 5);
        requesting.join().unwrap();
        shard.wake(shard.wake_state.request_turn());
        assert_eq!(shard.wake_state.earliest_unread(), u64::MAX);
        assert_eq!(shard.wake_state.inbox_due(), 0);
    });
}

/// A request hides no unread message from reports, and a drain hides none that it has not taken.
#[test]
fn push_or_drain_beside_a_request() {
    explore_shard(bounded_when_quick(3), &[5], |shard| {
        shard.wake(shard.wake_state.request_turn());
        let pushing = shard.pusher(0);
        let drained = shard.drain();
        pushing.join().unwrap();
        shard.wake(shard.wake_state.request_turn());
        let reported = shard.wake_state.earliest_unread();
        // A producer may announce late what the drain has taken: then the owner takes a turn for it, too.
        assert!(reported == 5 || drained == 5, "an unread message is hidden");
        assert_eq!(shard.drain(), 5);
        assert_eq!(shard.wake_state.earliest_unread(), u64::MAX);
    });
}

/// Of two threads that request a turn for something, each is seen by this drain or asks for another one.
#[test]
fn two_requests_or_drain() {
    explore(bounded(3, 2), || {
        let shard = Shard::new(&[]);
        let states: Arc<[AtomicBool; 2]> = Arc::default();
        let requesting = [0, 1].map(|nth| {
            let states = Arc::clone(&states);
            spawn_with(&shard, move |shard| {
                // ORDERING: Relaxed: the handshake alone shows it.
                states[nth].store(true, Ordering::Relaxed);
                shard.wake(shard.wake_state.request_turn());
            })
        });
        shard.wake_state.begin_drain(|| ());
        // ORDERING: Relaxed: as where they are written.
        let seen = states.each_ref().map(|it| it.load(Ordering::Relaxed));
        requesting
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let all_seen = seen == [true; 2];
        assert!(all_seen || shard.wake_state.inbox_due() == 0, "{seen:?}");
    });
}
