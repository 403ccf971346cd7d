//! A loop with timers of its own and its remotes, by the calls of the public interface: rounds in which nothing was sent
//! lose nothing that is sent meanwhile, and one announced sleep, one limit and one count serve both kinds.

use super::harness::{Bell, Bound, JoinHandle, bounded, explore_as, name_of, spawn};
use crate::{EventLoopTimer, ManualClock, Period, Remote, RemoteKey, Settings, Time};
use std::time::Duration;

/// A push and a sleep take some hundred steps.
const BOUND: Bound = bounded(3, 2);

const SOON: Duration = Duration::from_millis(5);

struct Loop {
    timer: EventLoopTimer<u64>,
    bell: Bell,
}

/// Explores a loop whose clock stands, and whose last poll has left it idle.
fn explore_loop<F>(scenario: F)
where
    F: Fn(Loop) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), BOUND, move || {
        let bell = Bell::default();
        let rung = bell.clone();
        let timer = EventLoopTimer::with_waker(
            Settings::new().clock(ManualClock::starting_at(Time::ZERO)),
            move || rung.ring(),
        );
        let timer = timer.unwrap();
        let mut it = Loop { timer, bell };
        assert_eq!(it.poll(), 0);
        scenario(it);
    });
}

impl Loop {
    /// Polls; returns how many timers have fired.
    fn poll(&mut self) -> usize {
        self.timer.poll(Time::ZERO, |_| ()).fired
    }

    /// Makes a remote for a thread.
    fn remote(&self) -> Remote<u64> {
        self.timer.remote()
    }

    /// Everybody is joined: the loop, which was told to sleep for so long, sleeps through nothing that is due before.
    fn assert_woken(&self, asleep: Option<Duration>, due: Duration) {
        let in_time = asleep.is_some_and(|asleep| asleep <= due);
        assert!(in_time || self.bell.rings() > 0, "slept through");
    }
}

/// Sends a timer.
fn send(remote: Remote<u64>, delay: Duration) {
    remote.schedule(delay, 1).unwrap();
}

/// A remote sends something that is due while the loop polls in vain, or goes to sleep: the loop fires it then, or is
/// woken, and fires it in the next poll.
#[test]
fn send_or_idle_round() {
    explore_loop(|mut it| {
        let remote = it.remote();
        let sending = spawn(move || send(remote, Duration::ZERO));
        let fired = it.poll();
        let asleep = it.timer.poll_timeout(Time::ZERO);
        sending.join().unwrap();
        if fired == 0 {
            it.assert_woken(asleep, Duration::ZERO);
            assert_eq!(it.poll(), 1, "not seen by a poll");
        }
    });
}

/// The same with a timer of the loop's own, which is due before the remote's or after it: the loop sleeps through
/// neither, and fires both by their deadlines.
#[test]
fn send_or_sleep_beside_an_own_timer() {
    for (own, theirs) in [(2, 1), (1, 2)] {
        explore_loop(move |mut it| {
            it.timer.schedule(Time::ZERO, own * SOON, 7).unwrap();
            let remote = it.remote();
            let sending = spawn(move || send(remote, theirs * SOON));
            let asleep = it.timer.poll_timeout(Time::ZERO);
            sending.join().unwrap();
            it.assert_woken(asleep, own.min(theirs) * SOON);
            let mut fired = Vec::new();
            it.timer
                .poll(Time::ZERO + 2 * SOON, |it| fired.push(it.payload));
            assert_eq!(fired, if own == 1 { [7, 1] } else { [1, 7] });
        });
    }
}

impl Loop {
    /// Makes a thread that uses a remote.
    fn spawn<R: Send + 'static>(
        &self,
        body: impl FnOnce(&Remote<u64>) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let remote = self.remote();
        spawn(move || body(&remote))
    }

    /// Schedules a timer that remotes may use.
    fn schedule_theirs(&self, delay: Duration, payload: u64) -> RemoteKey<u64> {
        self.remote().schedule(delay, payload).unwrap()
    }
}

/// A remote cancels a timer while the loop cancels it as well: one of them gets the payload.
#[test]
fn cancel_or_cancel() {
    explore_loop(|mut it| {
        let key = it.schedule_theirs(SOON, 7);
        let cancelling = it.spawn(move |remote| remote.cancel(key).into_payload());
        let own = it.timer.cancel(key).into_payload();
        let other = cancelling.join().unwrap();
        assert_eq!(own.xor(other), Some(7));
        assert_eq!(it.timer.pending(), 0);
    });
}

/// A remote pulls its timer in while the loop moves it as well, and asks how long to sleep: it fires once, by the last
/// deadline, and the loop sleeps through no earlier one.
#[test]
fn move_or_move() {
    for to in [1, 3, 6] {
        explore_loop(move |mut it| {
            let key = it.schedule_theirs(4 * SOON, 7);
            assert_eq!(it.poll(), 0);
            let moving = it.spawn(move |remote| remote.reschedule(key, 2 * SOON).is_moved());
            assert!(it.timer.reschedule(Time::ZERO, key, to * SOON).is_moved());
            let asleep = it.timer.poll_timeout(Time::ZERO);
            assert!(moving.join().unwrap());
            let due = it.timer.deadline(key).unwrap();
            it.assert_woken(asleep, due.saturating_duration_since(Time::ZERO));
            let mut polled = |time| it.timer.poll(time, |_| ()).fired;
            assert_eq!(polled(due - Duration::from_millis(1)), 0, "early");
            assert_eq!(polled(due), 1);
            assert_eq!(polled(Time::ZERO + 9 * SOON), 0);
        });
    }
}

/// A reader never finds an end of one of the loop's own timers without its beginning, and a periodic one always pending.
#[test]
fn own_timers_are_counted_for_other_threads() {
    explore_loop(|mut it| {
        let soon = Period::from(SOON);
        it.timer
            .schedule_periodic(Time::ZERO, SOON, soon, 7)
            .unwrap();
        let looking = it.spawn(|remote| {
            let stats = remote.stats();
            let ended = stats.fired + stats.cancelled;
            assert!(ended < stats.scheduled, "one is pending: {stats:?}");
        });
        let key = it.timer.schedule(Time::ZERO, SOON, 8).unwrap();
        assert_eq!(it.timer.cancel(key).into_payload(), Some(8));
        assert_eq!(it.timer.poll(Time::ZERO + SOON, |_| ()).fired, 1);
        looking.join().unwrap();
    });
}

/// The handler of a remote's periodic timer moves it while a remote ends it, during the call or after it.
#[test]
fn a_remote_cancels_during_a_periodic_call() {
    explore_loop(|mut it| {
        let period = Period::fixed_delay(SOON);
        let remote = it.remote();
        let key = remote.schedule_periodic(Duration::ZERO, period, 7).unwrap();
        let mut cancelling = None;
        it.timer.poll_with(Time::ZERO, |timer, _| {
            let remote = remote.clone();
            cancelling = Some(spawn(move || remote.cancel(key).into_payload()));
            assert!(
                timer.reschedule(Time::ZERO, key, 2 * SOON).is_moved() || !timer.is_pending(key)
            );
        });
        assert_eq!(cancelling.unwrap().join().unwrap(), Some(7));
        assert_eq!((it.timer.pending(), it.timer.is_pending(key)), (0, false));
    });
}

/// A remote cancels its periodic timer during a call whose handler drains the loop: one of them gets the payload, and the
/// end of the call brings nothing back.
#[test]
fn cancel_or_drain_during_a_periodic_call() {
    explore_loop(|mut it| {
        let remote = it.remote();
        let period = Period::fixed_delay(SOON);
        let key = remote.schedule_periodic(Duration::ZERO, period, 7).unwrap();
        let mut ends = None;
        it.timer.poll_with(Time::ZERO, |timer, _| {
            let remote = remote.clone();
            let cancelling = spawn(move || remote.cancel(key).into_payload());
            let drained: Vec<u64> = timer.drain().map(|it| it.payload).collect();
            ends = Some((cancelling, drained));
        });
        let (cancelling, mut drained) = ends.unwrap();
        drained.extend(cancelling.join().unwrap());
        assert_eq!((drained, it.timer.pending()), (vec![7], 0));
        assert_eq!(it.timer.poll(Time::ZERO + 2 * SOON, |_| ()).fired, 0);
    });
}

/// A handler makes a remote, whose thread sends while the loop ends its poll and goes to sleep.
#[test]
fn send_by_a_remote_that_a_handler_makes() {
    explore_loop(|mut it| {
        it.timer.schedule(Time::ZERO, Duration::ZERO, 7).unwrap();
        let mut sending = None;
        let polled = it.timer.poll_with(Time::ZERO, |timer, expired| {
            if expired.payload == 7 {
                let remote = timer.remote();
                sending = Some(spawn(move || send(remote, Duration::ZERO)));
            }
        });
        let asleep = it.timer.poll_timeout(Time::ZERO);
        sending.unwrap().join().unwrap();
        if polled.fired == 1 {
            it.assert_woken(asleep, Duration::ZERO);
            assert_eq!(it.poll(), 1, "not seen by a poll");
        }
    });
}
