//! What a handler may do, and that nobody waits for one.

use crate::support::setup::{Fired, HOUR, Setup, each_setup, ms, reflexive, sorted};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    Clock, Drive, Expired, Key, ManualClock, PanicReport, StopError, Time, Timer, TurnError,
};

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
fn a_panic_is_caught_counted_and_told_and_the_others_fire() {
    each_setup(|at| {
        let told = Arc::new(Mutex::new(Vec::<PanicReport>::new()));
        let (hook, (fired, log)) = (Arc::clone(&told), Fired::pair());
        let timer = at
            .builder()
            .on_panic(move |report| hook.lock().unwrap().push(report.clone()))
            .build_with(move |expired| {
                assert!(expired.payload % 3 != 0, "number {}", expired.payload);
                log.push(expired);
            })
            .unwrap();
        let keys: Vec<_> = (0..9).map(|id| timer.schedule_key(ms(id / 3), id).unwrap()).collect();
        at.advance(&timer, ms(10));
        assert_eq!(sorted(fired.ids()), [1, 2, 4, 5, 7, 8]);
        let reports = std::mem::take(&mut *told.lock().unwrap());
        let panicked = [keys[0], keys[3], keys[6]].map(Key::to_raw);
        assert_eq!(reports.iter().map(|report| report.key).collect::<Vec<_>>(), panicked);
        assert!(reports.iter().all(|it| it.shard == 0 && it.message.starts_with("number ")));
        let stats = timer.stats();
        assert_eq!((stats.panics(), stats.fired()), (3, 9), "a panicking handler's timer fired");
        assert!(timer.stop().unwrap().is_empty());
    });
}

#[test]
fn a_handler_may_neither_stop_nor_turn_its_engine_but_stop_another() {
    each_setup(|at| {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mine = Arc::clone(&answers);
        let (other, _fired) = at.recording();
        other.schedule(HOUR, 1).unwrap();
        let stopped = other.clone();
        let timer = reflexive(at.builder(), move |timer: &Timer<u64>, _| {
            timer.wait_idle();
            let stop = |timer: &Timer<u64>| timer.stop().map(|rest| rest.len());
            let driven = timer.drive_shard(0).err();
            mine.lock().unwrap().push((stop(timer), timer.turn(), driven, stop(&stopped)));
        });
        timer.schedule(Duration::ZERO, 1).unwrap();
        at.wait_idle(&timer);
        let turned = match at.drive {
            Drive::Manual => TurnError::InsideHandler,
            _ => TurnError::DrivenByWorkers,
        };
        let inside =
            (Err(StopError::InsideHandler), Err(turned), Some(TurnError::InsideHandler), Ok(1));
        assert_eq!(*answers.lock().unwrap(), [inside]);
        assert!(!timer.is_stopped() && other.is_stopped());
        timer.stop().unwrap();
    });
}

#[test]
fn a_hanging_handler_delays_no_caller() {
    each_setup(|at| {
        let ((entered, is_in), (let_go, gate)) = (channel(), channel());
        let (gate, (fired, log)) = (Mutex::new(gate), Fired::pair());
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
        timer.schedule(Duration::ZERO, 0).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| at.wait_idle(&timer));
            is_in.recv().unwrap();
            // The owner hangs, and everything goes on: more than inbox and magazines hold in one piece.
            let keys: Vec<Key<u64>> =
                (1..40_000).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
            assert!(keys.iter().all(|key| timer.reschedule(*key, ms(5)).moved()));
            assert!(keys[..20_000].iter().all(|key| timer.cancel(*key).won()));
            assert_eq!((timer.pending(), timer.stats().fired(), fired.len()), (19_999, 1, 0));
            let_go.send(()).unwrap();
        });
        at.advance(&timer, ms(5));
        assert_eq!(fired.ids().len(), 20_000);
        timer.stop().unwrap();
    });
}
