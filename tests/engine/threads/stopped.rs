//! A thread that a signal stops in the middle of a turn keeps its own shard and no other.

use crate::support::setup::{ms, one_shard, rate, wait_until};
use crate::support::system::pins_threads;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;
use tickwheel::__internal::set_home;
use tickwheel::{
    Builder, Drive, DrivenShard, Expired, PinState, Pinning, Shutdown, StopError, Timer,
};

/// One test at a time stops threads.
static ONE: Mutex<()> = Mutex::new(());
/// A thread that is in the signal's handler does not return from it.
static HELD: AtomicBool = AtomicBool::new(false);
/// And it is in there.
static IS_IN: AtomicBool = AtomicBool::new(false);

/// Calls nothing but the system.
extern "C" fn hold(_signal: libc::c_int) {
    IS_IN.store(true, Ordering::SeqCst);
    while HELD.load(Ordering::SeqCst) {
        // SAFETY: takes no memory of the caller's.
        unsafe { libc::sched_yield() };
    }
    IS_IN.store(false, Ordering::SeqCst);
}

/// Takes the signal for one test.
fn take_signal() -> MutexGuard<'static, ()> {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: the handler calls nothing that a signal may not interrupt.
    let before = unsafe { libc::signal(libc::SIGUSR1, hold as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    one
}

/// Lets the calling worker take signals, as no other does.
fn take_signals() {
    // SAFETY: a set of this function's, written before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Lets the thread go on, also if the test fails.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        HELD.store(false, Ordering::SeqCst);
    }
}

/// Stops a thread wherever it is, for as long as `meanwhile` takes.
fn stopped(thread: libc::pthread_t, meanwhile: impl FnOnce()) {
    HELD.store(true, Ordering::SeqCst);
    let held = Held;
    // SAFETY: the thread has not been joined, or is a worker that its engine has not.
    let sent = unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
    assert_eq!(sent, 0);
    wait_until("the thread has stopped", || IS_IN.load(Ordering::SeqCst));
    meanwhile();
    drop(held);
    wait_until("the thread goes on", || !IS_IN.load(Ordering::SeqCst));
}

/// Turns a shard without a pause until `done`.
fn turn(mut shard: DrivenShard<u64>, done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        shard.turn(Waker::noop()).unwrap();
    }
}

/// The stopped thread's turns are short, and begin and end with whatever shards have in common.
#[test]
fn a_thread_that_stops_in_a_turn_delays_no_other_shard() {
    let _one = take_signal();
    let fired: Arc<[AtomicU64; 2]> = Arc::default();
    let count = Arc::clone(&fired);
    let timer: Timer<u64> = one_shard()
        .shards(2)
        .drive(Drive::Workers)
        .build_with(move |expired: Expired<u64>| {
            count[expired.shard].fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let shards = [0, 1].map(|shard| timer.drive_shard(shard).unwrap());
    for id in 0..2 {
        set_home(&timer, id as usize);
        timer.schedule_periodic(ms(1), rate(ms(1)), id).unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let turning = shards.map(|shard| {
        let done = Arc::clone(&done);
        std::thread::spawn(move || turn(shard, &done))
    });
    wait_until("both shards fire", || {
        fired.iter().all(|it| it.load(Ordering::SeqCst) > 0)
    });
    for _ in 0..300 {
        stopped(turning[0].as_pthread_t(), || {
            let before = fired[1].load(Ordering::SeqCst);
            wait_until("the other shard fires", || {
                fired[1].load(Ordering::SeqCst) >= before + 2
            });
        });
    }
    done.store(true, Ordering::SeqCst);
    turning.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(timer.stop().unwrap().len(), 2);
}

/// Two threads turn all shards by hand, one after the other, and one of them stops.
#[test]
fn a_thread_that_stops_in_a_turn_by_hand_keeps_no_other_from_the_rest() {
    const SHARDS: usize = 3;
    let _one = take_signal();
    let fired: Arc<[AtomicU64; SHARDS]> = Arc::default();
    let count = Arc::clone(&fired);
    let timer: Timer<u64> = one_shard()
        .shards(SHARDS)
        .drive(Drive::Manual)
        .build_with(move |expired: Expired<u64>| {
            count[expired.shard].fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    for id in 0..SHARDS as u64 {
        set_home(&timer, id as usize);
        timer.schedule_periodic(ms(1), rate(ms(1)), id).unwrap();
    }
    let turning = [0, 1].map(|_| {
        let timer = timer.clone();
        std::thread::spawn(move || while timer.turn().is_ok() {})
    });
    let now = || -> [u64; SHARDS] { std::array::from_fn(|it| fired[it].load(Ordering::SeqCst)) };
    wait_until("all shards fire", || now().iter().all(|it| *it > 0));
    for _ in 0..300 {
        stopped(turning[0].as_pthread_t(), || {
            let before = now();
            wait_until("all shards fire but one", || {
                let go_on = now()
                    .into_iter()
                    .zip(before)
                    .filter(|(it, was)| *it >= was + 2);
                go_on.count() >= SHARDS - 1
            });
        });
    }
    let mut left = Vec::new();
    stopped(turning[0].as_pthread_t(), || {
        match timer.shutdown(Shutdown::ReturnUnfired, ms(20)) {
            Ok(all) => left = all,
            // Its own shard, and the one that the other thread turns at the time.
            Err(error) => assert!(matches!(error, StopError::TimedOut { shards: 1..=2 })),
        }
    });
    turning.into_iter().for_each(|it| it.join().unwrap());
    left.extend(timer.stop().unwrap());
    assert_eq!(left.len(), SHARDS);
}

/// So it looks where the core of a worker runs another thread when the worker is woken.
#[test]
fn a_worker_that_runs_late_after_wakes_leaves_its_core() {
    if !pins_threads() {
        return;
    }
    let _one = take_signal();
    let (tell, told) = channel();
    let timer: Timer<u64> = Builder::new()
        .shards(1)
        .pinning(Pinning::Cores)
        .on_worker_start(move |_| {
            take_signals();
            // SAFETY: asks for the calling thread.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
        })
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    timer.start().unwrap();
    let worker = told.recv().unwrap();
    let pinning = || timer.stats().shards[0].pinning;
    for round in 0..100 {
        // It sleeps without an end, or will soon: on a busy machine not every round finds it asleep.
        std::thread::sleep(ms(5));
        stopped(worker, || {
            timer.schedule(Duration::ZERO, round).unwrap();
            std::thread::sleep(ms(3));
        });
        wait_until("it has fired", || timer.stats().fired == round + 1);
        timer.wait_idle();
        if matches!(pinning(), PinState::Widened(_)) {
            break;
        }
    }
    let state = pinning();
    assert!(matches!(state, PinState::Widened(_)), "{state:?}");
    timer.stop().unwrap();
}
