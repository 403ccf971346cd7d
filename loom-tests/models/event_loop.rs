//! A loop and its remotes, by the calls of the public interface: its shortcuts for rounds in which nothing was sent lose
//! nothing that is sent meanwhile.

use super::harness::{Bell, Bound, bounded, explore_as, name_of, references, spawn};
use crate::{EventLoopTimer, ManualClock, Remote, Settings, Time};
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

/// A loop that is alone has asked how long to sleep, and then makes a remote, which sends something before the loop
/// blocks or after. The loop itself takes no step in between.
#[test]
fn a_remote_is_made_before_the_block() {
    explore_loop(|it| {
        let asleep = it.timer.poll_timeout(Time::ZERO);
        assert_eq!(asleep, None);
        let remote = it.remote();
        let sending = spawn(move || send(remote, SOON));
        // A second one has nothing to announce.
        drop(it.timer.remote());
        sending.join().unwrap();
        it.assert_woken(asleep, SOON);
    });
}
