//! How timers end: once, in one way, with the payload in one pair of hands.

use crate::support::ledger::{Ledger, Payload};
use crate::support::setup::{
    Fired, HOUR, Setup, each_recording, each_setup, ms, one_shard, recording, secs, set_of, sorted,
    wait_until,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{Drive, PanicReport, ScheduleErrorKind, TimerHandle, TimerState, TurnError};

#[test]
fn stop_returns_exactly_what_neither_fired_nor_was_cancelled() {
    each_recording(|at, timer, fired| {
        let keys: Vec<_> = (0..300).map(|id| timer.schedule_key(ms(id), id).unwrap()).collect();
        at.advance(&timer, ms(99));
        for id in 100..200 {
            assert_eq!(timer.cancel(keys[id as usize]).into_payload(), Some(id));
        }
        let returned = timer.stop().unwrap();
        assert_eq!(sorted(fired.ids()), (0..100).collect::<Vec<_>>());
        let ids = sorted(returned.iter().map(|unfired| unfired.payload));
        assert_eq!(ids, (200..300).collect::<Vec<_>>());
        assert_eq!(timer.pending(), 0);
        assert!(timer.stop().unwrap().is_empty(), "a second stop returns nothing");
        at.clock.advance(HOUR);
        assert!(fired.ids().is_empty(), "nothing fires after stop");
    });
}

#[test]
fn stop_returns_what_is_due_but_has_not_fired() {
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    timer.schedule(ms(1), 1).unwrap();
    timer.schedule(Duration::ZERO, 2).unwrap();
    at.clock.advance(secs(1));
    let returned = timer.stop().unwrap();
    assert_eq!(set_of(returned.iter().map(|unfired| unfired.payload)), set_of([1, 2]));
    assert_eq!(fired.len(), 0);
}

#[test]
fn a_stop_returns_timers_that_were_moved_with_their_new_deadlines() {
    each_recording(|_, timer, _fired| {
        let later = timer.schedule(ms(10), 1).unwrap();
        let earlier = timer.schedule(ms(500), 2).unwrap();
        assert!(later.reschedule(ms(700)).moved());
        assert!(earlier.reschedule(ms(300)).moved());
        let mut returned = timer.stop().unwrap();
        returned.sort_by_key(|unfired| unfired.payload);
        let deadlines: Vec<_> = returned.iter().map(|unfired| unfired.deadline).collect();
        let start = tickwheel::Time::ZERO;
        assert_eq!(deadlines, [start + ms(700), start + ms(300)]);
    });
}

#[test]
fn a_panic_is_caught_counted_and_told_and_the_others_fire() {
    each_setup(|at| {
        let told = Arc::new(Mutex::new(Vec::<PanicReport>::new()));
        let (hook, fired) = (Arc::clone(&told), Fired::default());
        let log = fired.clone();
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
        let mut reports = std::mem::take(&mut *told.lock().unwrap());
        reports.sort_by_key(|report| report.key);
        let mut panicked = [keys[0], keys[3], keys[6]].map(tickwheel::Key::to_raw);
        panicked.sort();
        assert_eq!(reports.iter().map(|report| report.key).collect::<Vec<_>>(), panicked);
        assert!(reports.iter().all(|r| r.shard == 0 && r.message.starts_with("number ")));
        let stats = timer.stats();
        assert_eq!((stats.panics(), stats.fired()), (3, 9), "a panicking handler's timer fired");
        assert!(timer.stop().unwrap().is_empty());
    });
}

#[test]
fn a_panicking_hook_is_survived_too() {
    each_setup(|at| {
        let (fired, log) = Fired::pair();
        let timer = at
            .builder()
            .on_panic(|_| panic!("the hook as well"))
            .build_with(move |expired| {
                if expired.payload == 1 {
                    std::panic::panic_any(17_u8);
                }
                log.push(expired);
            })
            .unwrap();
        for id in [1, 2, 1, 3] {
            timer.schedule(ms(1), id).unwrap();
        }
        at.advance(&timer, ms(1));
        assert_eq!(sorted(fired.ids()), [2, 3]);
        assert_eq!(timer.stats().panics(), 2);
        timer.stop().unwrap();
    });
}

#[test]
fn a_key_of_a_larger_engine_is_gone_not_a_crash() {
    let (small, _) = recording(one_shard().drive(Drive::Manual));
    let (large, _) = recording(one_shard().shards(64).routing(tickwheel::Routing::Spread));
    for id in 0..64 {
        let key = large.schedule_key(HOUR, id).unwrap();
        if key.shard() > 0 {
            assert!(!small.is_pending(key));
            assert!(!small.cancel(key).won());
            assert!(!small.reschedule(key, ms(1)).moved());
        }
    }
    assert_eq!(large.stop().unwrap().len(), 64);
}

#[test]
fn an_owned_timeout_answers_for_ever() {
    each_recording(|at, timer, _fired| {
        let fires = timer.schedule(ms(1), 1).unwrap();
        let cancelled = timer.schedule(ms(2), 2).unwrap();
        let by_key = timer.schedule(ms(3), 3).unwrap();
        let returned = timer.schedule(ms(9), 4).unwrap();
        let all = [&fires, &cancelled, &by_key, &returned];
        assert_eq!(all.map(TimerHandle::state), [TimerState::Pending; 4]);
        assert!(all.iter().all(|t| t.is_pending() && !t.is_cancelled() && !t.is_expired()));
        at.advance(&timer, ms(1));
        assert_eq!(cancelled.cancel().into_payload(), Some(2));
        assert_eq!(timer.cancel(by_key.key()).into_payload(), Some(3));
        // Their nodes must not be given to these.
        for id in 100..1100 {
            timer.schedule(ms(1), id).unwrap();
        }
        at.advance(&timer, ms(1));
        assert_eq!(set_of(timer.stop().unwrap().iter().map(|u| u.payload)), set_of([4]));
        drop(timer);
        let (fired, ended) = (TimerState::Fired, TimerState::Cancelled);
        assert_eq!(all.map(TimerHandle::state), [fired, ended, ended, TimerState::Returned]);
        let states = all.map(|t| (t.is_pending(), t.is_cancelled(), t.is_expired()));
        let ended = (false, true, false);
        assert_eq!(states, [(false, false, true), ended, ended, ended]);
        assert!(all.iter().all(|t| !t.cancel().won() && !t.reschedule(ms(1)).moved()));
        assert_eq!(fires.deadline(), tickwheel::Time::ZERO + ms(1));
    });
}

#[test]
fn a_refused_timer_gives_its_payload_back_and_the_count_stays_exact() {
    each_setup(|at| {
        let (timer, fired) = {
            let (fired, log) = Fired::pair();
            let builder = at.builder().max_pending(3);
            (builder.build_with(move |expired| log.push(expired)).unwrap(), fired)
        };
        let first = timer.schedule(ms(1), 1).unwrap();
        timer.schedule(ms(2), 2).unwrap();
        timer.schedule(ms(3), 3).unwrap();
        let error = timer.schedule(ms(1), 4).unwrap_err();
        let limit = ScheduleErrorKind::TooManyPending { pending: 3, max_pending: 3 };
        assert_eq!((error.kind(), error.payload()), (&limit, &4));
        assert_eq!(timer.schedule_key(ms(1), 5).unwrap_err().into_payload(), 5);
        assert_eq!((timer.pending(), timer.stats().rejected), (3, 2));

        assert!(first.cancel().won());
        timer.schedule(ms(4), 6).expect("a cancel frees its place at once");
        assert!(timer.schedule(ms(1), 7).is_err());
        at.advance(&timer, ms(2));
        timer.schedule(ms(3), 8).expect("a fired timer frees its place");
        assert!(timer.schedule(ms(1), 9).is_err());
        assert_eq!(timer.pending(), 3);
        assert_eq!(fired.ids(), [2]);

        assert_eq!(timer.stop().unwrap().len(), 3);
        let error = timer.schedule(ms(1), 10).unwrap_err();
        assert_eq!((error.kind(), error.payload()), (&ScheduleErrorKind::Stopped, &10));
        assert_eq!((timer.pending(), timer.stats().rejected), (0, 5));
    });
}

#[test]
fn only_an_engine_without_workers_is_turned_by_hand() {
    let (workers, _) = Setup::with_workers().recording();
    assert_eq!(workers.turn(), Err(TurnError::DrivenByWorkers));
    let (caller, _) = Setup::by_hand().recording();
    assert_eq!(caller.turn(), Ok(0));
    caller.schedule(Duration::ZERO, 1).unwrap();
    assert_eq!(caller.turn(), Ok(1));
    caller.stop().unwrap();
    assert_eq!(caller.turn(), Err(TurnError::Stopped));
}

#[test]
fn payloads_are_dropped_once_however_their_timers_end() {
    each_setup(|at| {
        let ledgers: Vec<_> = (0..40).map(|_| Ledger::of_payloads()).collect();
        let timer = at.builder().build_with(|_: tickwheel::Expired<Payload>| ()).unwrap();
        let timeouts: Vec<_> = (0..)
            .zip(&ledgers)
            .map(|(n, ledger)| timer.schedule(ms(n), ledger.payload(n)).unwrap())
            .collect();
        at.advance(&timer, ms(9));
        timeouts[10].cancel();
        drop(timer.cancel(timeouts[11].key()));
        assert!(ledgers[..12].iter().all(|ledger| ledger.alive() == 0));
        assert!(ledgers[12..].iter().all(|ledger| ledger.alive() == 1));
        // Stopped by the last handle: what is left is dropped, although timeouts are still held.
        drop(timer);
        // With workers they do it, in their own time.
        wait_until("every payload is dropped", || ledgers.iter().all(|ledger| ledger.alive() == 0));
        drop(timeouts);
        assert!(ledgers.iter().all(|ledger| ledger.alive() == 0));
    });
}
