//! A thread is born with the cores and the blocked signals of the one that starts it. The library's threads start in
//! calls of the program's: whatever these threads have made of themselves, a worker does not take it over.

use crate::children::{forked, in_a_process_of_its_own};
use crate::one_shard;
use crate::support::setup::{HOUR, ms, secs, wait_until};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, DrivenShard, PinState, Pinning, Shutdown, Time, Timer, TimerTask,
    unpin_current_thread,
};

/// What a thread has inherited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inherited {
    /// The signals that it blocks, of [`OUTSIDE`] and [`OWN`].
    blocked: Vec<libc::c_int>,
    /// Its cores, where the system tells.
    cores: Option<CpuSet>,
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

/// The cores of the calling thread.
fn cores() -> Option<CpuSet> {
    sched_getaffinity(None).ok()
}

/// The number of the first core that the calling thread may use.
fn first_core() -> usize {
    let is_set = |core: &usize| cores().is_some_and(|cores| cores.is_set(*core));
    (0..CpuSet::MAX_CPU).find(is_set).unwrap_or(0)
}

/// Leaves the calling thread one core, where the system lets it.
fn pin() {
    let mut one = CpuSet::new();
    one.set(first_core());
    let _ = sched_setaffinity(None, &one);
}

fn inherited() -> Inherited {
    Inherited {
        blocked: block(&[]),
        cores: cores(),
    }
}

/// One unpinned shard whose worker tells what it has inherited.
fn telling() -> (Timer, Receiver<Inherited>) {
    let (tell, told) = channel();
    let builder = one_shard().on_worker_start(move |_| tell.send(inherited()).unwrap());
    (builder.build().unwrap(), told)
}

/// A name and a call.
type Way = (&'static str, fn(&Timer));

/// The ways in which a worker starts, each in a call of the thread that makes it.
const WAYS: [Way; 5] = [
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
fn driven(timer: &Timer) -> DrivenShard<TimerTask> {
    let driven = timer.drive_shard(0).unwrap();
    timer.start().unwrap();
    driven
}

/// A call that starts a worker.
type Call = Box<dyn FnOnce() + Send>;

/// A name, and how such a thread makes a call.
type Starter = (&'static str, fn(Call));

/// The threads that make those calls. Each has one core.
const STARTERS: [Starter; 3] = [
    ("a thread of the program's", |call| {
        let pinned = || {
            pin();
            call();
        };
        std::thread::scope(|scope| scope.spawn(pinned).join().unwrap());
    }),
    ("a handler", |call| {
        let timer = pinned().build().unwrap();
        timer.run_after(Duration::ZERO, call).unwrap();
        timer.wait_idle();
        timer.stop().unwrap();
    }),
    ("a hook", |call| {
        let call = Mutex::new(Some(call));
        let hook = move |_| call.lock().unwrap().take().into_iter().for_each(|it| it());
        let timer = pinned().on_worker_start(hook).build().unwrap();
        timer.start().unwrap();
        timer.wait_idle();
        timer.stop().unwrap();
    }),
];

/// An engine whose worker starts that of another one.
fn pinned() -> Builder {
    one_shard().pinning(Pinning::List(vec![first_core()]))
}

#[test]
fn a_worker_inherits_nothing_of_the_thread_that_starts_it() {
    let expected = Inherited {
        blocked: OUTSIDE.to_vec(),
        cores: cores(),
    };
    for (starter, on_starter) in STARTERS {
        for (way, start) in WAYS {
            let (timer, told) = telling();
            on_starter(Box::new(move || {
                block(&[libc::SIGUSR2]);
                let before = inherited();
                start(&timer);
                assert_eq!(inherited(), before, "the starter's own");
            }));
            let told = told.recv_timeout(secs(60)).expect(starter);
            assert_eq!(told, expected, "{way} on {starter}");
        }
    }
}

/// By the first `tickwheel::sleep` in a handler, for example.
#[test]
fn the_shared_engine_of_a_pinned_handler_has_the_cores_of_the_process() {
    if in_a_process_of_its_own(
        the_shared_engine_of_a_pinned_handler_has_the_cores_of_the_process,
        &[],
    ) {
        return;
    }
    let (all, (tell, told)) = (cores(), channel());
    let timer = pinned().build().unwrap();
    let handler = move || {
        let tell = tell.clone();
        let shared = tickwheel::global().unwrap();
        shared
            .run_after(Duration::ZERO, move || tell.send(cores()).unwrap())
            .unwrap();
    };
    timer.run_after(Duration::ZERO, handler).unwrap();
    assert_eq!(told.recv_timeout(secs(60)), Ok(all));
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap()
        };
        let names: Vec<_> = tasks.map(name).filter(|it| it.contains("global")).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
        names.len()
    };
    let shards = tickwheel::global().unwrap().shards();
    wait_until("each worker shows its number", || names() == shards);
    timer.stop().unwrap();
}

/// On this clock every sleep lasts twice as long as it should: so it looks to a worker that waits for its core.
struct Twice(Instant);

impl Clock for Twice {
    fn now(&self) -> Time {
        Time::ZERO + self.0.elapsed() * 2
    }
}

/// Of a worker that leaves its core.
fn cores_in_the_end() -> Option<CpuSet> {
    let clock = Twice(Instant::now());
    let builder = one_shard().pinning(Pinning::Cores).clock(clock);
    let timer: Timer = builder.build().unwrap();
    let (tell, told) = channel();
    loop {
        let tell = tell.clone();
        let tells = move || tell.send(cores()).unwrap();
        timer.run_after(ms(20), tells).unwrap();
        let cores = told.recv_timeout(secs(60)).unwrap();
        match timer.stats().shards[0].pinning {
            PinState::Pinned(_) => {}
            _ => return cores,
        }
    }
}

/// A server's main thread builds its engine and then becomes a loop with a core of its own. A fork has that thread alone.
#[test]
fn a_main_thread_that_pins_itself_after_the_build_keeps_no_other_on_its_core() {
    if in_a_process_of_its_own(
        a_main_thread_that_pins_itself_after_the_build_keeps_no_other_on_its_core,
        &[],
    ) || !crate::support::system::pins_threads()
    {
        return;
    }
    let all = cores();
    let main_thread = || {
        let (timer, told) = telling();
        pin();
        let started = || {
            timer.start().unwrap();
            told.recv_timeout(secs(60)).unwrap().cores
        };
        let unpinned = || {
            unpin_current_thread();
            cores()
        };
        let unpinned = || std::thread::scope(|scope| scope.spawn(unpinned).join().unwrap());
        let in_a_fork = || {
            let (timer, told) = telling();
            timer.start().unwrap();
            let worker = told.recv_timeout(secs(60)).unwrap().cores;
            worker == all && cores_in_the_end() == all
        };
        started() == all
            && cores_in_the_end() == all
            && unpinned() == all
            && cores() != all
            && forked(in_a_fork) == 0
    };
    // With one core a thread cannot leave any.
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_eq!(forked(main_thread), 0);
    }
}

/// No engine has noted the cores of the process.
#[test]
fn a_thread_that_has_pinned_itself_is_unpinned_without_an_engine() {
    if in_a_process_of_its_own(
        a_thread_that_has_pinned_itself_is_unpinned_without_an_engine,
        &[],
    ) || !crate::support::system::pins_threads()
    {
        return;
    }
    let all = cores();
    let unpinned = || {
        pin();
        (unpin_current_thread(), cores())
    };
    let unpinned = std::thread::scope(|scope| scope.spawn(unpinned).join().unwrap());
    assert!(unpinned == (true, all), "{}", unpinned.0);
}

/// A loop with a core that the process has not, as one that is kept from the scheduler.
#[test]
fn a_core_of_the_starters_own_is_not_the_workers() {
    if in_a_process_of_its_own(a_core_of_the_starters_own_is_not_the_workers, &[])
        || !crate::support::system::pins_threads()
    {
        return;
    }
    let all = cores();
    let main_thread = || {
        pin();
        let of_process = cores();
        let (timer, told) = telling();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(None, &all.unwrap()).unwrap();
                timer.start().unwrap();
            });
        });
        told.recv_timeout(secs(60)).unwrap().cores == of_process
    };
    assert_eq!(forked(main_thread), 0);
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
