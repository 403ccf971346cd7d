//! A loop and its remotes, by the calls of the public interface: its shortcuts for rounds in which nothing was sent lose
//! nothing that is sent meanwhile.

use super::harness::{Bell, Bound, JoinHandle, bounded, explore_as, name_of, references, spawn};
use crate::{EventLoopTimer, ManualClock, Period, Remote, Settings, Time};
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
    explore_bounded(BOUND, scenario);
}

/// The same within another bound.
fn explore_bounded<F>(bound: Bound, scenario: F)
where
    F: Fn(Loop) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), bound, move || {
        let bell = Bell::default();
        let rung = bell.clone();
        let timer = Settings::new()
            .clock(ManualClock::starting_at(Time::ZERO))
            .build_with_waker(move || rung.ring());
        let timer = timer.unwrap();
        references::begin();
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

    /// Makes a remote for a thread, which [`send`]s and lets go.
    fn remote(&self) -> Remote<u64> {
        references::add();
        self.timer.remote()
    }

    /// Everybody is joined: the loop, which was told to sleep for so long, sleeps through nothing that is due before.
    fn assert_woken(&self, asleep: Option<Duration>, due: Duration) {
        let in_time = asleep.is_some_and(|asleep| asleep <= due);
        assert!(in_time || self.bell.rings() > 0, "slept through");
    }
}

/// Sends a timer, and lets the remote go.
fn send(remote: Remote<u64>, delay: Duration) {
    remote.schedule(delay, 1).unwrap();
    drop(remote);
    references::remove();
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

/// The last remote sends something and goes while the loop asks how long to sleep: the loop either finds that it is not
/// alone, and is woken, or sees what was sent.
#[test]
fn the_last_remote_sends_and_goes_or_sleep() {
    explore_loop(|it| {
        let remote = it.remote();
        let sending = spawn(move || send(remote, SOON));
        let asleep = it.timer.poll_timeout(Time::ZERO);
        sending.join().unwrap();
        it.assert_woken(asleep, SOON);
    });
}

/// A loop that is alone has asked how long to sleep, and then makes two remotes, which send something before the loop
/// blocks or after. The loop itself takes no step in between.
#[test]
fn a_remote_is_made_before_the_block() {
    // Two producers beside the loop.
    explore_bounded(bounded(2, 1), |it| {
        let asleep = it.timer.poll_timeout(Time::ZERO);
        assert_eq!(asleep, None);
        let first = it.remote();
        let sending = spawn(move || send(first, 2 * SOON));
        // This one has nothing to announce.
        let second = it.remote();
        let sending_too = spawn(move || send(second, SOON));
        sending.join().unwrap();
        sending_too.join().unwrap();
        it.assert_woken(asleep, SOON);
    });
}

impl Loop {
    /// Makes a remote, and a thread that uses it, then lets it go.
    fn spawn<R: Send + 'static>(
        &self,
        body: impl FnOnce(&Remote<u64>) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let remote = self.remote();
        spawn(move || {
            let result = body(&remote);
            drop(remote);
            references::remove();
            result
        })
    }
}

/// The last remote cancels a timer and goes while the loop, which may find itself alone by then, cancels it as well: one
/// of them gets the payload.
#[test]
fn the_last_remote_cancels_and_goes_or_cancel() {
    explore_loop(|mut it| {
        let key = it.timer.schedule(Time::ZERO, SOON, 7).unwrap();
        let cancelling = it.spawn(move |remote| remote.cancel(key).into_payload());
        let own = it.timer.cancel(key).into_payload();
        let other = cancelling.join().unwrap();
        assert_eq!(own.xor(other), Some(7));
        assert_eq!(it.timer.pending(), 0);
    });
}

/// A loop that was alone has moved a timer, and makes a remote, which pulls the timer in while the loop asks again how
/// long to sleep: the loop sees it, or is woken, and fires it.
#[test]
fn a_remote_moves_what_the_loop_moved_alone() {
    explore_loop(|mut it| {
        let key = it.timer.schedule(Time::ZERO, 2 * SOON, 7).unwrap();
        assert!(it.timer.reschedule(Time::ZERO, key, 9 * SOON).is_moved());
        let asleep = it.timer.poll_timeout(Time::ZERO);
        assert_eq!(asleep, Some(2 * SOON), "the entry stays");
        let moving = it.spawn(move |remote| remote.reschedule(key, SOON).is_moved());
        let asleep = it.timer.poll_timeout(Time::ZERO);
        assert!(moving.join().unwrap());
        it.assert_woken(asleep, SOON);
        assert_eq!(it.timer.poll(Time::ZERO + SOON, |_| ()).fired, 1);
    });
}

/// A handler cancels and moves timers alone, and then makes a remote, which cancels what the handler cancels as well, and
/// what it moved.
#[test]
fn a_remote_is_made_in_a_handler() {
    explore_loop(|mut it| {
        let due = it.timer.schedule(Time::ZERO, Duration::ZERO, 1).unwrap();
        let key = it.timer.schedule(Time::ZERO, SOON, 7).unwrap();
        let mut cancelling = None;
        let mut own = None;
        let Loop { timer, .. } = &mut it;
        timer.poll_with(Time::ZERO, |timer, expired| {
            assert_eq!(expired.key, due);
            let gone = timer.schedule(Time::ZERO, SOON, 8).unwrap();
            assert_eq!(timer.cancel(gone).into_payload(), Some(8));
            assert!(timer.reschedule(Time::ZERO, key, 2 * SOON).is_moved());
            references::add();
            let remote = timer.remote();
            cancelling = Some(spawn(move || {
                let payload = remote.cancel(key).into_payload();
                assert!(!remote.cancel(gone).is_won());
                drop(remote);
                references::remove();
                payload
            }));
            own = timer.cancel(key).into_payload();
        });
        let other = cancelling.unwrap().join().unwrap();
        assert_eq!(own.xor(other), Some(7));
    });
}

/// A loop that is alone moves a timer to earlier and to later, after a remote that has gone or none had moved it, and
/// makes a remote, which moves it as well: it fires once, by the last deadline.
#[test]
fn a_remote_moves_what_the_loop_moved_alone_twice() {
    for moved_before in [false, true] {
        explore_loop(move |mut it| {
            let key = it.timer.schedule(Time::ZERO, 4 * SOON, 7).unwrap();
            if moved_before {
                let before = it.spawn(move |remote| remote.reschedule(key, 5 * SOON).is_moved());
                assert!(before.join().unwrap());
            }
            assert!(it.timer.reschedule(Time::ZERO, key, 2 * SOON).is_moved());
            assert!(it.timer.reschedule(Time::ZERO, key, 3 * SOON).is_moved());
            assert_eq!(it.timer.deadline(key), Some(Time::ZERO + 3 * SOON));
            let moving = it.spawn(move |remote| remote.reschedule(key, SOON).is_moved());
            let asleep = it.timer.poll_timeout(Time::ZERO);
            assert!(moving.join().unwrap());
            it.assert_woken(asleep, SOON);
            let mut polled = |ticks| it.timer.poll(Time::ZERO + ticks * SOON, |_| ()).fired;
            assert_eq!([1, 2, 3, 4, 5].map(&mut polled), [1, 0, 0, 0, 0]);
        });
    }
}

/// A remote pulls a timer in and goes. Its message is under way when the loop, which is alone then, moves the timer, and
/// fires it in the next poll that it is due at.
#[test]
fn the_loop_moves_alone_what_a_remote_has_moved() {
    for to in [1, 3, 6] {
        explore_loop(move |mut it| {
            let key = it.timer.schedule(Time::ZERO, 4 * SOON, 7).unwrap();
            let moving = it.spawn(move |remote| remote.reschedule(key, 2 * SOON).is_moved());
            assert!(it.timer.reschedule(Time::ZERO, key, to * SOON).is_moved());
            assert!(moving.join().unwrap());
            // The last of the two holds.
            let due = it.timer.deadline(key).unwrap();
            let mut polled = |time| it.timer.poll(time, |_| ()).fired;
            assert_eq!(polled(due - Duration::from_millis(1)), 0, "early");
            assert_eq!(polled(due), 1);
            assert_eq!(polled(Time::ZERO + 9 * SOON), 0);
        });
    }
}

/// The handler of a timer that fired while its loop was alone makes a remote, which cancels and moves the timers that are
/// due in the same poll.
#[test]
fn a_remote_is_made_between_two_fires() {
    explore_loop(|mut it| {
        let schedule = |timer: &mut EventLoopTimer<u64>, payload| {
            timer.schedule(Time::ZERO, Duration::ZERO, payload).unwrap()
        };
        let Loop { timer, .. } = &mut it;
        let [first, second] = [1, 2].map(|payload| schedule(timer, payload));
        let mut cancelling = None;
        let mut fired = Vec::new();
        timer.poll_with(Time::ZERO, |timer, expired| {
            fired.push(expired.payload);
            if expired.key == first {
                references::add();
                let remote = timer.remote();
                cancelling = Some(spawn(move || {
                    assert!(!remote.cancel(first).is_won(), "it has fired");
                    let payload = remote.cancel(second).into_payload();
                    drop(remote);
                    references::remove();
                    payload
                }));
            }
        });
        let cancelled = cancelling.unwrap().join().unwrap();
        assert_eq!(fired.get(1).copied().xor(cancelled), Some(2), "ends once");
        assert_eq!(it.timer.pending(), 0);
    });
}

/// The handler of a periodic timer makes a remote, which ends that timer during the call or after it.
#[test]
fn a_remote_is_made_during_a_periodic_call() {
    explore_loop(|mut it| {
        let period = Period::fixed_delay(SOON);
        let key = it
            .timer
            .schedule_periodic(Time::ZERO, Duration::ZERO, period, 7);
        let key = key.unwrap();
        let mut cancelling = None;
        it.timer.poll_with(Time::ZERO, |timer, _| {
            references::add();
            let remote = timer.remote();
            cancelling = Some(spawn(move || {
                let payload = remote.cancel(key).into_payload();
                drop(remote);
                references::remove();
                payload
            }));
            // It is not a timer that fires once.
            assert!(
                timer.reschedule(Time::ZERO, key, 2 * SOON).is_moved() || !timer.is_pending(key)
            );
        });
        assert_eq!(cancelling.unwrap().join().unwrap(), Some(7));
        assert_eq!((it.timer.pending(), it.timer.is_pending(key)), (0, false));
    });
}
