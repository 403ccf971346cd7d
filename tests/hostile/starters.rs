//! A thread is born with the cores and the blocked signals of the one that starts it. The library's threads start in
//! calls of the program's: whatever these threads have made of themselves, a worker does not take it over.

use crate::children::{forked, in_a_process_of_its_own};
use crate::one_shard;
use crate::support::setup::{HOUR, ms, secs};
use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tickwheel::{Builder, Drive, DrivenShard, Shutdown, Timer};

/// What a thread has inherited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inherited {
    /// The signals that it blocks, of [`OUTSIDE`] and [`OWN`].
    blocked: Vec<libc::c_int>,
}

/// Signals that others send.
const OUTSIDE: [libc::c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGPROF,
];
/// Signals that a thread's own instructions cause.
const OWN: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Blocks signals on the calling thread, too; returns those that it blocks then.
fn block(signals: &[libc::c_int]) -> Vec<libc::c_int> {
    let [mut set, mut present] = [MaybeUninit::<libc::sigset_t>::uninit(); 2];
    // SAFETY: the sets are written before they are read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        let mut blocks = |set| libc::pthread_sigmask(libc::SIG_BLOCK, set, present.as_mut_ptr());
        assert_eq!((blocks(set.as_ptr()), blocks(std::ptr::null())), (0, 0));
        let is_blocked = |it: &libc::c_int| libc::sigismember(present.as_ptr(), *it) == 1;
        OUTSIDE.into_iter().chain(OWN).filter(is_blocked).collect()
    }
}

fn inherited() -> Inherited {
    Inherited {
        blocked: block(&[]),
    }
}

/// What each worker of the library has, whoever starts it.
fn expected() -> Inherited {
    Inherited {
        blocked: OUTSIDE.to_vec(),
    }
}

/// One unpinned shard whose worker tells what it has inherited.
fn telling() -> (Timer, Receiver<Inherited>) {
    let (tell, told) = channel();
    let builder = one_shard().on_worker_start(move |_| tell.send(inherited()).unwrap());
    (builder.build().unwrap(), told)
}

/// The ways in which a worker starts, each in a call of the thread that makes it.
const WAYS: [(&str, fn(&Timer)); 5] = [
    ("a start", |timer| timer.start().unwrap()),
    ("a first timer", |timer| {
        timer.run_after(HOUR, || ()).unwrap();
    }),
    ("a driver's drop", |timer| drop(driven(timer))),
    ("a driver's drop after a turn", |timer| {
        let mut driven = driven(timer);
        driven.turn(std::task::Waker::noop()).unwrap();
        drop(driven);
    }),
    ("a shutdown beside a driver", |timer| {
        let driven = driven(timer);
        timer.shutdown(Shutdown::FireAll, secs(60)).unwrap();
        drop(driven);
    }),
];

/// A shard that has no worker, of an engine that has started.
fn driven(timer: &Timer) -> DrivenShard<tickwheel::TimerTask> {
    let driven = timer.drive_shard(0).unwrap();
    timer.start().unwrap();
    driven
}

/// The threads that make those calls.
const STARTERS: [(&str, fn(Box<dyn FnOnce() + Send>)); 3] = [
    ("a thread of the program's", |call| {
        std::thread::spawn(call).join().unwrap();
    }),
    ("a handler", |call| {
        let timer = other_engine().build().unwrap();
        timer.run_after(Duration::ZERO, call).unwrap();
        timer.wait_idle();
        timer.stop().unwrap();
    }),
    ("a hook", |call| {
        let call = std::sync::Mutex::new(Some(call));
        let hook = move |_| call.lock().unwrap().take().into_iter().for_each(|it| it());
        let timer = other_engine().on_worker_start(hook).build().unwrap();
        timer.start().unwrap();
        timer.wait_idle();
        timer.stop().unwrap();
    }),
];

/// An engine whose worker starts that of another one.
fn other_engine() -> Builder {
    one_shard().drive(Drive::Workers)
}

#[test]
fn a_worker_inherits_nothing_of_the_thread_that_starts_it() {
    for (starter, on_starter) in STARTERS {
        for (way, start) in WAYS {
            let (timer, told) = telling();
            on_starter(Box::new(move || {
                let before = block(&[libc::SIGUSR2]);
                start(&timer);
                assert_eq!(block(&[]), before, "the starter's own signals");
            }));
            let told = told.recv_timeout(secs(60)).expect(starter);
            assert_eq!(told, expected(), "{way} on {starter}");
        }
    }
}

/// As a program in C does that reads its signals from a descriptor: it blocks them after the engine has started.
#[test]
fn a_signal_that_the_program_waits_for_does_not_end_it() {
    if in_a_process_of_its_own(a_signal_that_the_program_waits_for_does_not_end_it, &[]) {
        return;
    }
    // The child has this one thread and the workers.
    let status = forked(|| {
        let timer = one_shard().shards(2).build().unwrap();
        timer.start().unwrap();
        timer.wait_idle();
        block(&[libc::SIGUSR1]);
        // SAFETY: signals of this process, which blocks them.
        let waited = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGUSR1);
            (0..100).all(|_| {
                let mut signal = 0;
                libc::kill(libc::getpid(), libc::SIGUSR1);
                libc::sigwait(&raw const set, &raw mut signal) == 0 && signal == libc::SIGUSR1
            })
        };
        let (tell, told) = channel();
        timer
            .run_after(ms(1), move || tell.send(()).unwrap())
            .unwrap();
        waited && told.recv_timeout(secs(60)).is_ok()
    });
    assert_eq!(status, 0, "-1: a worker has taken the signal");
}
