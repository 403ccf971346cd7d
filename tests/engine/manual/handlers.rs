//! What a handler may do, and that nobody waits for one.

use crate::support::setup::{Fired, HOUR, Setup, each_setup, ms, reflexive, sorted, wait_until};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{Clock, Drive, Expired, Key, ManualClock, StopError, Time, Timer, TurnError};

#[test]
fn timers_that_a_handler_schedules_fire_in_a_later_turn() {
    let at = Setup::by_hand();
    let (fired, log) = Fired::pair();
    let timer = reflexive(at.builder(), move |timer: &Timer<u64>, expired| {
        if expired.payload < 3 {
            timer.schedule(Duration::ZERO, expired.payload + 1).unwrap();
        }
        log.push(expired);
    });
    timer.schedule(Duration::ZERO, 0).unwrap();
    for id in 0..=3 {
        assert_eq!(timer.turn(), Ok(1));
        assert_eq!(fired.ids(), [id]);
    }
    assert_eq!(timer.turn(), Ok(0));
    timer.stop().unwrap();
}

/// Counts how often it is read.
struct Counted {
    clock: ManualClock,
    readings: Arc<AtomicU64>,
}

impl Clock for Counted {
    fn now(&self) -> Time {
        self.readings.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }
}

#[test]
fn lateness_is_exact_where_slow_handlers_are_looked_for() {
    let at = Setup::by_hand();
    let (lateness, clock) = (Arc::new(Mutex::new(Vec::new())), at.clock.clone());
    let (log, readings) = (Arc::clone(&lateness), Arc::new(AtomicU64::new(0)));
    let counted = Counted { clock: clock.clone(), readings: Arc::clone(&readings) };
    let builder = at.builder().clock(counted).on_slow_handler(HOUR, |_| ());
    let timer = reflexive(builder, move |_: &Timer<u64>, expired| {
        log.lock().unwrap().push(expired.lateness);
        clock.advance(ms(5));
    });
    (0..10).for_each(|id| drop(timer.schedule(Duration::ZERO, id).unwrap()));
    readings.store(0, Ordering::SeqCst);
    timer.turn().unwrap();
    assert!(readings.load(Ordering::SeqCst) <= 21, "twice per call, and once for the turn");
    assert_eq!(*lateness.lock().unwrap(), (0..10).map(|n| ms(5 * n)).collect::<Vec<_>>());
    assert_eq!(timer.stats().lateness().max(), ms(45));
    timer.stop().unwrap();
}

#[test]
fn a_handler_may_move_its_neighbours_in_the_same_tick() {
    each_setup(|at| {
        let keys = Arc::new(Mutex::new(Vec::<Key<u64>>::new()));
        let (mine, fired) = (Arc::clone(&keys), Fired::default());
        let log = fired.clone();
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, expired| {
            if expired.payload == 0 {
                for key in &mine.lock().unwrap()[1..] {
                    assert!(timer.reschedule(*key, ms(10)).moved());
                }
                assert!(!timer.reschedule(expired.key, ms(10)).moved());
            }
            log.push(expired);
        });
        let scheduled: Vec<Key<u64>> =
            (0..500).map(|id| timer.schedule_key(ms(1), id).unwrap()).collect();
        *keys.lock().unwrap() = scheduled;
        at.advance(&timer, ms(1));
        assert_eq!(fired.ids(), [0]);
        at.advance(&timer, ms(9));
        assert!(fired.ids().is_empty());
        at.advance(&timer, ms(1));
        assert_eq!(sorted(fired.ids()), (1..500).collect::<Vec<_>>());
        assert_eq!(timer.stats().panics(), 0);
        timer.stop().unwrap();
    });
}

#[test]
fn a_handler_can_neither_stop_nor_turn_its_engine() {
    each_setup(|at| {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mine = Arc::clone(&answers);
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, _| {
            timer.wait_idle();
            let stopped = timer.stop().map(|rest| rest.len());
            mine.lock().unwrap().push((stopped, timer.turn()));
        });
        timer.schedule(Duration::ZERO, 1).unwrap();
        at.wait_idle(&timer);
        let turned = match at.drive {
            Drive::Manual => TurnError::InsideHandler,
            _ => TurnError::DrivenByWorkers,
        };
        assert_eq!(*answers.lock().unwrap(), [(Err(StopError::InsideHandler), Err(turned))]);
        assert!(!timer.is_stopped());
        timer.stop().unwrap();
    });
}

#[test]
fn a_handler_is_inside_its_engine_even_while_it_turns_another() {
    // The outer handler turns the inner engine, whose handler reaches back.
    let outer: Timer = Setup::by_hand().builder().build().unwrap();
    let inner: Timer = Setup::by_hand().builder().build().unwrap();
    let (sender, answers) = channel();
    let reach_back = outer.clone();
    inner
        .run_after(Duration::ZERO, move || {
            let stopped = reach_back.stop().map(|rest| rest.len());
            sender.send((stopped, reach_back.turn())).unwrap();
        })
        .unwrap();
    let turns = inner.clone();
    outer.run_after(Duration::ZERO, move || assert_eq!(turns.turn(), Ok(1))).unwrap();
    let driver = outer.clone();
    // On a thread of its own, so that a deadlock fails the test instead of hanging it.
    std::thread::spawn(move || driver.turn());
    let answer = answers.recv_timeout(crate::support::setup::secs(20));
    let inside = (Err(StopError::InsideHandler), Err(TurnError::InsideHandler));
    assert_eq!(answer, Ok(inside), "a deadlock");
    outer.stop().unwrap();
    inner.stop().unwrap();
}

/// An engine whose handler waits until it is let go.
fn stuck(at: &Setup) -> (Timer<u64>, Receiver<()>, Sender<()>, Fired) {
    let (entered, is_in) = channel();
    let (let_go, gate) = channel();
    let gate = Mutex::new(gate);
    let (fired, log) = Fired::pair();
    let timer = at
        .builder()
        .build_with(move |expired: Expired<u64>| {
            if expired.payload == 0 {
                entered.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            }
            log.push(expired);
        })
        .unwrap();
    (timer, is_in, let_go, fired)
}

#[test]
fn a_hanging_handler_delays_no_caller() {
    each_setup(|at| {
        let (timer, is_in, let_go, fired) = stuck(at);
        timer.schedule(Duration::ZERO, 0).unwrap();
        let driver = timer.clone();
        let turning =
            (at.drive == Drive::Manual).then(|| std::thread::spawn(move || driver.turn().unwrap()));
        is_in.recv().unwrap();
        // The owner hangs, and everything goes on: more than inbox and magazines hold in one piece.
        let keys: Vec<Key<u64>> =
            (1..40_000).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
        assert!(keys.iter().all(|key| timer.reschedule(*key, ms(5)).moved()));
        assert!(keys[..20_000].iter().all(|key| timer.cancel(*key).won()));
        assert_eq!(timer.pending(), 19_999);
        assert_eq!(timer.stats().fired(), 1);
        assert_eq!(fired.len(), 0);
        let_go.send(()).unwrap();
        if let Some(turning) = turning {
            turning.join().unwrap();
        }
        at.advance(&timer, ms(5));
        assert_eq!(sorted(fired.ids()).len(), 20_000);
        timer.stop().unwrap();
    });
}

#[test]
fn stop_waits_for_the_handler_that_runs() {
    let at = Setup::with_workers();
    let (timer, is_in, let_go, fired) = stuck(&at);
    timer.schedule(Duration::ZERO, 0).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    is_in.recv().unwrap();
    let stopping = std::thread::spawn({
        let timer = timer.clone();
        move || timer.stop().unwrap().len()
    });
    wait_until("the stop has begun", || timer.is_stopped());
    assert!(timer.schedule(HOUR, 2).is_err(), "refused at once, without waiting");
    std::thread::sleep(ms(5));
    assert!(!stopping.is_finished());
    let_go.send(()).unwrap();
    assert_eq!(stopping.join().unwrap(), 1);
    assert_eq!(fired.ids(), [0], "the handler has returned before stop has");
}
