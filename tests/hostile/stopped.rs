//! Threads that stop at any instruction: a signal whose handler waits.

use crate::one_shard;
use crate::support::setup::{HOUR, ms, stress, wait_until};
use std::hint::spin_loop;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tickwheel::{Drive, Expired, ManualClock, Period, Shutdown, StopError, Timer};

static STOPPED: AtomicBool = AtomicBool::new(false);
static GO_ON: AtomicBool = AtomicBool::new(false);

/// Stops the thread that gets the signal until [`GO_ON`].
extern "C" fn stop_here(_: libc::c_int) {
    STOPPED.store(true, Ordering::SeqCst);
    while !GO_ON.load(Ordering::SeqCst) {
        // SAFETY: may be called in a handler of a signal.
        unsafe { libc::usleep(20) };
    }
}

/// Lets a thread do `calls` without end, stops it at some instruction, does `meanwhile`, and lets it end its call.
fn stopped_within(calls: impl Fn() + Send + 'static, spins: usize, meanwhile: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    static INSTALLED: Once = Once::new();
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    INSTALLED.call_once(|| {
        let handler: extern "C" fn(libc::c_int) = stop_here;
        // SAFETY: the handler does only what a handler may; no other code of this program uses the signal.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    });
    STOPPED.store(false, Ordering::SeqCst);
    GO_ON.store(false, Ordering::SeqCst);
    let rounds = Arc::new(AtomicUsize::new(0));
    let done = Arc::clone(&rounds);
    let thread = std::thread::spawn(move || {
        while !STOPPED.load(Ordering::SeqCst) {
            calls();
            done.fetch_add(1, Ordering::SeqCst);
        }
    });
    while rounds.load(Ordering::SeqCst) < 3 {
        spin_loop();
    }
    (0..spins).for_each(|_| spin_loop());
    // SAFETY: the thread has not been joined.
    let sent = unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
    assert_eq!(sent, 0);
    wait_until("the thread has stopped", || STOPPED.load(Ordering::SeqCst));
    meanwhile();
    GO_ON.store(true, Ordering::SeqCst);
    thread.join().unwrap();
}

/// Requests a turn: the driver that leaves does.
fn request_a_turn(timer: &Timer<u64>) {
    drop(timer.drive_shard(0).unwrap());
}

fn by_hand(clock: &ManualClock) -> Timer<u64> {
    let builder = one_shard().clock(clock.clone()).drive(Drive::Manual);
    builder.build_with(|_: Expired<u64>| ()).unwrap()
}

/// What a producer knows of its message is of no interest once a drain has taken the message.
#[test]
fn a_thread_that_stops_beside_a_request_leaves_no_lag() {
    type Call = fn(&Timer<u64>);
    let push: Call = |timer| _ = timer.schedule(ms(1), 0).unwrap();
    let move_earlier: Call = |timer| {
        let key = timer.schedule(2 * HOUR, 0).unwrap();
        assert!(timer.reschedule(key, ms(1)).is_moved());
    };
    for round in 0..stress(300) {
        let call = [push, move_earlier][round as usize % 2];
        let clock = ManualClock::new();
        let timer = by_hand(&clock);
        request_a_turn(&timer);
        let own = timer.clone();
        stopped_within(
            move || call(&own),
            (round * 7 % 101) as usize,
            || {
                timer.turn().unwrap();
                clock.advance(HOUR);
            },
        );
        while timer.turn().unwrap() > 0 {}
        timer.cancel_all();
        assert_eq!(timer.pending(), 0);
        request_a_turn(&timer);
        assert_eq!(timer.stats().lag, Duration::ZERO, "round {round}");
    }
}

/// Its timer may be counted and not armed, or armed and not told of. Once it goes on, a drain does not wait for the timer.
#[test]
fn a_thread_that_stops_in_a_periodic_schedule_keeps_no_drain_open() {
    let mode = Shutdown::Drain {
        within: Duration::MAX,
    };
    for round in 0..stress(100) {
        let timer = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
        let (own, accepted) = (timer.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&accepted);
        let schedule = move || {
            let scheduled = own.schedule_periodic(HOUR, Period::fixed_delay(HOUR), 0);
            count.fetch_add(usize::from(scheduled.is_ok()), Ordering::SeqCst);
        };
        let mut rest = Vec::new();
        stopped_within(schedule, (round * 7 % 101) as usize, || {
            match timer.shutdown(mode, ms(50)) {
                Ok(all) => rest = all,
                Err(error) => assert_eq!(error, StopError::TimedOut { shards: 1 }),
            }
        });
        rest.extend(timer.shutdown(mode, Duration::from_secs(20)).unwrap());
        assert_eq!(rest.len(), accepted.load(Ordering::SeqCst), "round {round}");
    }
}
