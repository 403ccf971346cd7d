//! A process that forks with engines in it: the child gets their memory, and none of their threads.

use crate::children::{forked, in_a_process_of_its_own};
use crate::support::setup::{HOUR, recording, secs, us, wait_until};
use crate::{arm, one_shard};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tickwheel::{
    Drive, EngineState, Expired, LocalTimer, RawKey, ScheduleErrorKind, Shutdown, Sleep,
    SleepError, StartError, StopError, Time, Timer, TurnError,
};

#[test]
fn a_fork_is_refused_and_told() {
    if in_a_process_of_its_own(a_fork_is_refused_and_told, &[]) {
        return;
    }
    // An engine that has no workers yet may be taken along: a daemon forks before it starts anything. First, because
    // where a thread of the process is about to end, an emulator's child may hang at its own first one.
    let (unstarted, fired) = recording(one_shard());
    let status = forked(|| {
        unstarted.schedule(Duration::ZERO, 5).unwrap();
        wait_until("it has fired", || fired.len() == 1);
        unstarted.stop().is_ok()
    });
    assert_eq!(status, 0);
    unstarted.stop().unwrap();
    let (timer, fired) = recording(one_shard().shards(2));
    timer.schedule(HOUR, 1).unwrap();
    let kept = timer.schedule_handle(HOUR, 2).unwrap();
    let status = forked(|| {
        let refused = timer.schedule(Duration::ZERO, 3).unwrap_err();
        let forked = ScheduleErrorKind::Start(StartError::Forked);
        refused.kind() == &forked
            && *refused.payload() == 3
            && timer.state() == EngineState::Forked
            && timer.start() == Err(StartError::Forked)
            && timer.stop() == Err(StopError::Forked)
            && {
                timer.wait_idle();
                drop(timer.clone());
                // Its memory is whole: what was pending can be taken back here, too.
                kept.cancel().is_won()
            }
            && {
                // The thread finds the engine of its own.
                let (own, _) = recording(one_shard().drive(Drive::Manual));
                let key = own.schedule(HOUR, 5).unwrap();
                !timer.cancel(key).is_won() && own.pending() == 1 && own.cancel(key).is_won()
            }
    });
    assert_eq!(status, 0);
    // Nothing of that has reached the engine's own process.
    assert_eq!(timer.state(), EngineState::Started);
    timer.schedule(Duration::ZERO, 4).unwrap();
    wait_until("it has fired", || fired.len() == 1);
    assert_eq!(timer.stop().unwrap().len(), 2);
    // The last handle dropped in a child waits for nobody.
    let (last, _fired) = recording(one_shard());
    last.schedule(HOUR, 6).unwrap();
    let mut last = Some(last);
    assert_eq!(forked(|| last.take().is_some()), 0);
}

/// The parent's worker is amid a handler, which never returns in the child.
#[test]
fn in_a_child_no_shard_turns() {
    if in_a_process_of_its_own(in_a_child_no_shard_turns, &[]) {
        return;
    }
    let (go_on, gone_on) = std::sync::mpsc::sync_channel::<()>(0);
    let gone_on = std::sync::Mutex::new(gone_on);
    let timer = one_shard()
        .build_with(move |_: Expired<u64>| gone_on.lock().unwrap().recv().unwrap())
        .unwrap();
    let key = timer.schedule(Duration::ZERO, 1).unwrap();
    wait_until("it has fired", || !timer.is_pending(key));
    assert_eq!(forked(|| !timer.is_turning(0)), 0);
    assert!(timer.is_turning(0));
    go_on.send(()).unwrap();
    timer.stop().unwrap();
}

/// A key that comes from another process by a pipe ends no timer of this one.
#[test]
fn keys_of_timers_that_two_processes_build_after_a_fork_differ() {
    if in_a_process_of_its_own(
        keys_of_timers_that_two_processes_build_after_a_fork_differ,
        &[],
    ) {
        return;
    }
    let keys = || {
        let mut local = LocalTimer::new(us(1000)).unwrap();
        let of_local = local.schedule(Time::ZERO, HOUR, 0).unwrap().to_raw();
        let (timer, _) = recording(one_shard().drive(Drive::Manual));
        [of_local, timer.schedule(HOUR, 0).unwrap().to_raw()].map(RawKey::to_bits)
    };
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let status = forked(|| {
        let mut write = |key: u128| there.write_all(&key.to_ne_bytes()).is_ok();
        keys().into_iter().all(&mut write)
    });
    assert_eq!(status, 0);
    let of_child = [(); 2].map(|()| {
        let mut key = [0; 16];
        here.read_exact(&mut key).unwrap();
        u128::from_ne_bytes(key)
    });
    let own = keys();
    assert!(own[0] != of_child[0] && own[1] != of_child[1], "{own:x?}");
}

/// The first process of a container is number 1, and so is that of a container which it makes by a fork.
#[test]
fn a_fork_with_the_same_process_id_is_told() {
    if in_a_process_of_its_own(a_fork_with_the_same_process_id_is_told, &[]) {
        return;
    }
    // SAFETY: a system call about numbers; what it may say is that it is not allowed.
    let may_be_first = |flags| unsafe { libc::unshare(flags) } == 0;
    let status = forked(|| {
        if !may_be_first(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) {
            eprintln!("skipped: no namespaces");
            return true;
        }
        let outer = forked(|| {
            let (timer, fired) = recording(one_shard());
            arm(&timer, us(1), 1);
            wait_until("it has fired", || fired.len() == 1);
            let own = std::process::id();
            if !may_be_first(libc::CLONE_NEWPID) {
                eprintln!("skipped: no namespace within another one");
                return true;
            }
            let inner = forked(|| {
                let refused = timer.schedule(us(1), 2).unwrap_err();
                std::process::id() == own
                    && refused.kind() == &ScheduleErrorKind::Start(StartError::Forked)
                    && timer.state() == EngineState::Forked
                    && timer.stop() == Err(StopError::Forked)
            });
            inner == 0
        });
        outer == 0
    });
    assert_eq!(status, 0);
}

#[test]
fn an_engine_that_is_turned_by_hand_goes_along_with_a_fork() {
    if in_a_process_of_its_own(an_engine_that_is_turned_by_hand_goes_along_with_a_fork, &[]) {
        return;
    }
    let (running, fired) = recording(one_shard().drive(Drive::Manual));
    let (stopped, _fired) = recording(one_shard().drive(Drive::Manual));
    for timer in [&running, &stopped] {
        arm(timer, Duration::ZERO, 1);
        arm(timer, HOUR, 2);
    }
    assert_eq!(stopped.stop().unwrap().len(), 2);
    let status = forked(|| {
        running.turn() == Ok(1)
            && running.schedule(Duration::ZERO, 3).is_ok()
            && running.turn() == Ok(1)
            && running.state() == EngineState::Started
            && running.stop().unwrap().len() == 1
            && running.turn() == Err(TurnError::Stopped)
    });
    assert_eq!(status, 0);
    assert_eq!(
        (running.pending(), fired.len()),
        (2, 0),
        "the child's calls are its own"
    );
    let status = forked(|| {
        let refused = stopped.schedule(HOUR, 3).unwrap_err();
        stopped.is_stopped()
            && refused.kind() == &ScheduleErrorKind::Stopped
            && stopped.start() == Err(StartError::Stopped)
            && stopped.turn() == Err(TurnError::Stopped)
            && stopped.stop() == Ok(Vec::new())
    });
    assert_eq!(status, 0);
}

#[test]
fn a_future_that_was_armed_before_a_fork_ends_with_an_error() {
    struct Quiet;
    impl Wake for Quiet {
        fn wake(self: Arc<Self>) {}
    }
    if in_a_process_of_its_own(
        a_future_that_was_armed_before_a_fork_ends_with_an_error,
        &[],
    ) {
        return;
    }
    // A clone of `Waker::noop()` may look like another one.
    let wakers = [(); 2].map(|()| Waker::from(Arc::new(Quiet)));
    let [mut same, mut other] = wakers.each_ref().map(Context::from_waker);
    let is_told = |polled| {
        matches!(polled, Poll::Ready(Err(error))
            if SleepError::kind(&error) == &ScheduleErrorKind::Start(StartError::Forked))
    };
    let workers: Timer = one_shard().build().unwrap();
    let by_hand: Timer = one_shard().drive(Drive::Manual).build().unwrap();
    let mut sleeps = [(); 3].map(|()| workers.sleep(HOUR));
    let mut goes_along = by_hand.sleep(HOUR);
    for sleep in sleeps.iter_mut().chain([&mut goes_along]) {
        assert!(sleep.poll_sleep(&mut same).is_pending());
    }
    let status = forked(|| {
        let [polled, of_another, reset] = &mut sleeps;
        reset.reset(HOUR / 2);
        is_told(polled.poll_sleep(&mut same))
            && is_told(of_another.poll_sleep(&mut other))
            && is_told(reset.poll_sleep(&mut same))
            && workers.pending() == 0
            && {
                polled.reset(HOUR);
                is_told(polled.poll_sleep(&mut same))
            }
            && goes_along.poll_sleep(&mut other).is_pending()
            && by_hand.pending() == 1
    });
    assert_eq!(status, 0);
    assert_eq!(workers.pending(), 3);
}

#[test]
fn a_driven_shard_does_not_go_along_with_a_fork() {
    if in_a_process_of_its_own(a_driven_shard_does_not_go_along_with_a_fork, &[]) {
        return;
    }
    let (timer, fired) = recording(one_shard());
    let mut shard = Some(timer.drive_shard(0).unwrap());
    arm(&timer, Duration::ZERO, 1);
    let status = forked(|| {
        // An emulator may have one of its own.
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let refused = shard.as_mut().unwrap().turn(Waker::noop()) == Err(TurnError::Stopped)
            && timer.drive_shard(0).is_err();
        shard = None;
        refused && threads() == before && fired.len() == 0
    });
    assert_eq!(status, 0);
    // The parent's own; the child has dropped a copy.
    assert_eq!(timer.pending(), 1);
    assert_eq!(
        timer.drive_shard(0).unwrap_err(),
        TurnError::Driven { shard: 0 }
    );
}

/// Its state is that of any engine which the parent has started.
#[test]
fn an_engine_that_ends_or_has_ended_is_forked_in_a_child() {
    if in_a_process_of_its_own(an_engine_that_ends_or_has_ended_is_forked_in_a_child, &[]) {
        return;
    }
    let modes = [
        Shutdown::Drain { within: HOUR },
        Shutdown::FireAll,
        Shutdown::ReturnUnfired,
    ];
    for mode in modes {
        let (timer, (tell, told)) = (one_shard().build().unwrap(), channel());
        let go_on = Arc::new(Barrier::new(2));
        let handler = Arc::clone(&go_on);
        // It holds the shard up at its end.
        timer
            .run_after(Duration::ZERO, move || {
                tell.send(()).unwrap();
                handler.wait();
            })
            .unwrap();
        told.recv_timeout(secs(60)).unwrap();
        let mut sleep = timer.sleep(HOUR);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sleep.poll_sleep(&mut cx).is_pending());
        let is_forked = |sleep: &mut Sleep<SleepError>| {
            let mut cx = Context::from_waker(Waker::noop());
            let refused = timer.run_after(HOUR, || ()).unwrap_err();
            let forked = ScheduleErrorKind::Start(StartError::Forked);
            timer.state() == EngineState::Forked
                && !timer.is_stopped()
                && refused.kind() == &forked
                && timer.start() == Err(StartError::Forked)
                && matches!(timer.stop(), Err(StopError::Forked))
                && timer.drive_shard(0).is_err()
                && matches!(sleep.poll_sleep(&mut cx), Poll::Ready(Err(_)))
                && {
                    timer.wait_idle();
                    true
                }
        };
        let limit = Duration::ZERO;
        assert!(matches!(
            timer.shutdown(mode, limit),
            Err(StopError::TimedOut { .. })
        ));
        assert_eq!(forked(|| is_forked(&mut sleep)), 0, "{mode:?} begins");
        go_on.wait();
        drop(sleep);
        timer.stop().unwrap();
        let mut late = timer.sleep(HOUR);
        assert_eq!(forked(|| is_forked(&mut late)), 0, "{mode:?} is over");
        assert_eq!(timer.state(), EngineState::Stopped);
    }
}
