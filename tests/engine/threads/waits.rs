//! Waiting until one timer's handler has returned, on every front that has other threads.

use crate::support::setup::{HOUR, ms, one_shard, rate, secs, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};
use tickwheel::{Drive, Expired, Key, Settings, Timer, TimerTask, WaitError, executor_fn};

/// A closure that says when it begins and goes on until it is told to, for ten seconds at most.
struct Gate {
    begun: Receiver<()>,
    go_on: Sender<()>,
    returned: Arc<AtomicBool>,
}

impl Gate {
    fn new() -> (Self, impl FnMut() + Send + 'static) {
        let (begin, begun) = channel();
        let (go_on, gone_on) = channel();
        let returned = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&returned);
        let run = move || {
            begin.send(()).unwrap();
            let _ = gone_on.recv_timeout(secs(10));
            tell.store(true, Ordering::Relaxed);
        };
        let gate = Self {
            begun,
            go_on,
            returned,
        };
        (gate, run)
    }

    fn has_returned(&self) -> bool {
        self.returned.load(Ordering::Relaxed)
    }

    /// Waits for the handler, which has begun, while another thread lets it go on a little later.
    fn judge(&self, wait: impl Fn(Duration) -> Result<(), WaitError>) {
        self.begun.recv_timeout(secs(60)).unwrap();
        assert_eq!(wait(ms(5)), Err(WaitError::TimedOut));
        assert_eq!(wait(Duration::ZERO), Err(WaitError::TimedOut));
        let since = Instant::now();
        let go_on = self.go_on.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(ms(30));
                go_on.send(()).unwrap();
            });
            assert_eq!(wait(Duration::MAX), Ok(()));
        });
        assert!(self.has_returned(), "waited {:?}", since.elapsed());
    }
}

fn by_hand() -> Timer {
    one_shard().drive(Drive::Manual).build().unwrap()
}

/// Schedules a closure that is due; a cancel comes too late for it.
fn run_gated(timer: &Timer) -> (Gate, Key<TimerTask>) {
    let (gate, run) = Gate::new();
    let key = timer.run_after(Duration::ZERO, run).unwrap();
    (gate, key)
}

#[test]
fn a_handler_on_a_worker_has_returned_when_the_wait_is_over() {
    let timer = one_shard().build().unwrap();
    let (gate, key) = run_gated(&timer);
    gate.judge(|limit| {
        assert!(!timer.cancel(key).is_won());
        timer.wait_for_handler(key, limit)
    });
}

#[test]
fn a_handle_waits_like_its_key() {
    let timer = one_shard().build().unwrap();
    let (gate, run) = Gate::new();
    let handle = timer.run_after_handle(Duration::ZERO, run).unwrap();
    gate.judge(|limit| {
        assert!(!handle.cancel().is_won());
        handle.wait_for_handler(limit)
    });
}

#[test]
fn a_handler_of_a_turn_by_hand_is_waited_for() {
    let timer = by_hand();
    let (gate, key) = run_gated(&timer);
    std::thread::scope(|scope| {
        let turned = scope.spawn(|| timer.turn());
        gate.judge(|limit| timer.wait_for_handler(key, limit));
        assert_eq!(turned.join().unwrap(), Ok(1));
    });
}

/// Whichever of its entries is due: each move to an earlier deadline leaves one behind.
#[test]
fn a_handler_of_a_timer_that_was_often_moved_is_waited_for() {
    let timer = by_hand();
    let (gate, run) = Gate::new();
    let key = timer.run_after(2 * HOUR, run).unwrap();
    for moves in 1..200 {
        let earlier = 2 * HOUR - moves * secs(10);
        assert!(timer.reschedule(key, earlier).is_moved());
        // One that is due has the shard read of the move.
        timer.run_after(Duration::ZERO, || ()).unwrap();
        assert_eq!(timer.turn(), Ok(1));
    }
    assert!(timer.reschedule(key, Duration::ZERO).is_moved());
    std::thread::scope(|scope| {
        let turned = scope.spawn(|| timer.turn());
        gate.judge(|limit| timer.wait_for_handler(key, limit));
        assert_eq!(turned.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_handler_of_a_driven_shard_is_waited_for() {
    let timer = one_shard().build().unwrap();
    let mut shard = timer.drive_shard(0).unwrap();
    let (gate, key) = run_gated(&timer);
    std::thread::scope(|scope| {
        let returned = Arc::clone(&gate.returned);
        scope.spawn(move || {
            while !returned.load(Ordering::Relaxed) {
                shard.turn(Waker::noop()).unwrap();
            }
        });
        gate.judge(|limit| timer.wait_for_handler(key, limit));
    });
}

#[test]
fn a_handler_of_a_loop_is_waited_for_by_a_remote() {
    let mut timer = Settings::new().build_with_waker(|| ()).unwrap();
    let remote = timer.remote();
    let (gate, run) = Gate::new();
    let key = remote.run_after(Duration::ZERO, run).unwrap();
    std::thread::scope(|scope| {
        let polled = scope.spawn(move || {
            let now = timer.now() + ms(2);
            timer.poll(now, |expired: Expired<TimerTask>| expired.payload.run())
        });
        gate.judge(|limit| {
            assert!(!remote.cancel(key).is_won());
            remote.wait_for_handler(key, limit)
        });
        assert_eq!(polled.join().unwrap().fired, 1);
    });
}

/// What the loop takes out of `expired` is over when it takes the next one, or ends the poll.
#[test]
fn a_timer_that_a_loop_has_taken_is_waited_for_until_it_takes_the_next_one() {
    let mut timer = Settings::new().build_with_waker(|| ()).unwrap();
    let remote = timer.remote();
    let keys = [1, 2].map(|id| remote.schedule(Duration::ZERO, id).unwrap());
    let wait = |nth: usize| {
        let remote = remote.clone();
        let waits = std::thread::spawn(move || remote.wait_for_handler(keys[nth], ms(1)));
        waits.join().unwrap()
    };
    let now = timer.now() + ms(2);
    let mut due = timer.expired(now);
    assert_eq!(due.next().unwrap().payload, 1);
    assert_eq!(wait(0), Err(WaitError::TimedOut));
    assert_eq!(wait(1), Err(WaitError::Pending));
    assert_eq!(due.next().unwrap().payload, 2);
    assert_eq!((wait(0), wait(1)), (Ok(()), Err(WaitError::TimedOut)));
    due.finish();
    assert_eq!((wait(0), wait(1)), (Ok(()), Ok(())));
}

/// The cancel wins, and the call goes on.
#[test]
fn the_present_call_of_a_periodic_timer_is_waited_for() {
    let timer = one_shard().build().unwrap();
    let (gate, run) = Gate::new();
    let key = timer.repeat(Duration::ZERO, rate(HOUR), run).unwrap();
    wait_until("the call begins", || gate.begun.try_recv().is_ok());
    assert_eq!(
        timer.wait_for_handler(key, HOUR),
        Err(WaitError::Pending),
        "also while it is called"
    );
    assert!(timer.cancel(key).is_won());
    let wait = timer.wait_for_handler(key, ms(1));
    assert_eq!(wait, Err(WaitError::TimedOut));
    gate.go_on.send(()).unwrap();
    assert_eq!(timer.wait_for_handler(key, Duration::MAX), Ok(()));
    assert!(gate.has_returned());
}

#[test]
fn another_timers_handler_is_not_waited_for() {
    let timer = one_shard().build().unwrap();
    let over = timer.run_after_handle(Duration::ZERO, || ()).unwrap();
    wait_until("it has fired", || !over.is_pending());
    let cancelled = timer.run_after_handle(HOUR, || ()).unwrap();
    assert!(cancelled.cancel().is_won());
    let (gate, key) = run_gated(&timer);
    gate.begun.recv_timeout(secs(60)).unwrap();
    for ended in [&over, &cancelled] {
        assert_eq!(ended.wait_for_handler(Duration::ZERO), Ok(()));
    }
    // Nor that of the timer before in the same node, which has come to another one.
    assert_eq!(
        timer.wait_for_handler(key, Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    drop(gate);
}

/// Nor is that of a later timer in the same node.
#[test]
fn with_a_stale_key_there_is_nothing_to_wait_for() {
    let timer = one_shard().build().unwrap();
    let stale = timer.run_after(HOUR, || ()).unwrap();
    assert!(timer.cancel(stale).is_won());
    let (gate, key) = run_gated(&timer);
    gate.begun.recv_timeout(secs(60)).unwrap();
    let node = |key: Key<TimerTask>| key.to_raw().to_bits() as u32;
    assert_eq!(node(stale), node(key));
    let wait = |key| timer.wait_for_handler(key, Duration::ZERO);
    assert_eq!(wait(stale), Ok(()));
    assert_eq!(wait(key), Err(WaitError::TimedOut));
    drop(gate);
}

/// Each timer of a chain takes the node of the one before.
#[test]
fn the_next_timer_of_the_same_node_is_not_waited_for_long() {
    fn next(timer: &Timer, left: &Arc<AtomicUsize>) {
        if left.fetch_sub(1, Ordering::Relaxed) > 1 {
            let (again, left) = (timer.downgrade(), Arc::clone(left));
            let run = move || {
                std::thread::sleep(ms(1));
                again.upgrade().inspect(|timer| next(timer, &left));
            };
            let _ = timer.run_after(Duration::ZERO, run);
        }
    }
    let timer = one_shard().build().unwrap();
    let (key, left) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(2000)));
    let (first, chain, told) = (timer.downgrade(), Arc::clone(&left), Arc::clone(&key));
    let run = move || {
        first.upgrade().inspect(|timer| next(timer, &chain));
        drop(told);
    };
    *key.lock().unwrap() = Some(timer.run_after(Duration::ZERO, run).unwrap());
    wait_until("the chain goes on", || left.load(Ordering::Relaxed) < 1990);
    let since = Instant::now();
    let key = key.lock().unwrap().unwrap();
    assert_eq!(timer.wait_for_handler(key, Duration::MAX), Ok(()));
    let left = left.load(Ordering::Relaxed);
    assert!(left > 500, "{left} left after {:?}", since.elapsed());
    timer.stop().unwrap();
}

#[test]
fn a_wait_is_refused_in_each_place_where_it_would_wait_for_itself() {
    let (tell, told) = channel();
    let ask = |timer: &Timer, key| timer.wait_for_handler(key, Duration::MAX);
    for drive in [Drive::Manual, Drive::Workers] {
        let timer = one_shard().drive(drive).build().unwrap();
        let (tell, weak) = (tell.clone(), timer.downgrade());
        let key = timer.run_after(HOUR, || ()).unwrap();
        assert!(timer.cancel(key).is_won());
        let run = move || tell.send(ask(&weak.upgrade().unwrap(), key)).unwrap();
        timer.run_after(Duration::ZERO, run).unwrap();
        if drive == Drive::Manual {
            assert_eq!(timer.turn(), Ok(1));
        }
        assert_eq!(told.recv().unwrap(), Err(WaitError::InsideHandler));
        assert_eq!(ask(&timer, key), Ok(()), "and outside of it");
    }

    let mut timer = Settings::new().build_with_waker(|| ()).unwrap();
    let remote = timer.remote();
    let now = timer.now();
    let key = timer.schedule(now, Duration::ZERO, 1).unwrap();
    let wait = || remote.wait_for_handler(key, Duration::MAX);
    let polled = timer.poll(now, |_| assert_eq!(wait(), Err(WaitError::InsideHandler)));
    assert_eq!((polled.fired, wait()), (1, Ok(())));
}

#[test]
fn an_executor_is_asked_itself() {
    let executor = executor_fn(|_: Expired<u64>| Ok(()), drop);
    let timer = one_shard().build_on(executor).unwrap();
    let key = timer.schedule(HOUR, 1).unwrap();
    assert!(timer.cancel(key).is_won());
    let wait = timer.wait_for_handler(key, Duration::MAX);
    assert_eq!(wait, Err(WaitError::OnExecutor));
}

/// Each round frees what the handler uses as soon as the wait is over.
#[test]
fn what_a_handler_uses_may_go_after_the_wait() {
    let timer = one_shard().shards(2).build().unwrap();
    let mut lost = 0;
    for round in 0..crate::support::setup::stress(20_000) {
        let used = Arc::new(AtomicUsize::new(0));
        let held = Arc::clone(&used);
        let run = move || {
            // Long enough for a cancel to come in between.
            for _ in 0..round % 50 {
                held.fetch_add(1, Ordering::Relaxed);
            }
        };
        let key = timer.run_after(Duration::ZERO, run).unwrap();
        if round % 3 != 0 {
            while timer.is_pending(key) {
                std::hint::spin_loop();
            }
        }
        if !timer.cancel(key).is_won() {
            lost += 1;
            timer.wait_for_handler(key, Duration::MAX).unwrap();
        }
        assert_eq!(Arc::strong_count(&used), 1, "round {round}");
    }
    assert!(lost > 0, "no cancel has lost");
    timer.stop().unwrap();
}
