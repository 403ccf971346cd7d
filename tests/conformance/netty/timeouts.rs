//! Delays, limits, cancels, order, tasks.

use crate::support::ledger::{Ledger, Payload};
use crate::support::setup::{
    Fired, HOUR, Setup, ms, one_shard, recording, reflexive, secs, set_of, wait_until,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{
    Cancel, Executor, Expired, ScheduleErrorKind, StopError, Timer, TimerTask, executor_fn,
};

#[test]
fn netty_refuses_the_timer_above_the_limit_and_names_both_numbers() {
    let at = Setup::with_workers();
    let (timer, _fired) = recording(at.builder().max_pending(2));
    timer.schedule(secs(5), 1).unwrap();
    timer.schedule(secs(5), 2).unwrap();
    let error = timer.schedule(secs(1), 3).unwrap_err();
    let kind = ScheduleErrorKind::TooManyPending {
        pending: 2,
        max_pending: 2,
    };
    assert_eq!(*error.kind(), kind);
    let text = error.to_string();
    assert!(text.contains("2 timers are pending") && text.contains("max_pending is 2"));
    assert_eq!(error.into_payload(), 3, "and the payload comes back");
    assert_eq!(timer.pending(), 2);
}

#[test]
fn netty_frees_the_place_of_a_cancelled_timer_here_at_once() {
    let (timer, _fired) = recording(one_shard().max_pending(2));
    timer.schedule(HOUR, 0).unwrap();
    for id in 1..1000 {
        let timeout = timer
            .schedule_handle(HOUR, id)
            .expect("no tick has to pass first");
        timer.schedule(HOUR, id).unwrap_err();
        assert!(timeout.cancel().is_won());
    }
}

#[test]
fn netty_frees_the_place_of_a_fired_timer_before_its_task_runs() {
    let at = Setup::with_workers();
    let (fired, log) = Fired::pair();
    let timer = reflexive(
        at.builder().max_pending(2),
        move |timer: &Timer<u64>, expired| {
            timer.schedule(ms(1), expired.payload + 10).unwrap();
            log.push(expired);
        },
    );
    timer.schedule(ms(1), 1).unwrap();
    timer.schedule(ms(1), 2).unwrap();
    at.advance(&timer, ms(1));
    assert_eq!(fired.ids(), [1, 2]);
    at.advance(&timer, ms(1));
    assert_eq!(fired.ids(), [11, 12]);
    assert_eq!((timer.stats().panics, timer.stats().rejected), (0, 0));
    timer.stop().unwrap();
}

#[test]
fn netty_clamps_huge_delays_and_they_do_not_fire() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    let huge = timer.schedule_handle(Duration::MAX, 1).unwrap();
    let long = timer
        .schedule_handle(Duration::from_nanos(i64::MAX as u64), 2)
        .unwrap();
    at.advance(&timer, 10_000 * HOUR);
    assert!(fired.ids().is_empty() && huge.is_pending());
    assert_eq!(huge.cancel(), Cancel::Won(1));
    at.go_to(&timer, long.deadline());
    assert_eq!(fired.ids(), [2], "292 years are no huge delay");
}

#[test]
fn netty_a_timeout_is_pending_then_cancelled_or_expired_for_ever() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    let expires = timer.schedule_handle(ms(1), 1).unwrap();
    let cancelled = timer.schedule_handle(ms(1), 2).unwrap();
    assert!(expires.is_pending() && !expires.is_cancelled() && !expires.is_fired());
    assert_eq!(cancelled.cancel(), Cancel::Won(2), "here with the payload");
    for _ in 0..3 {
        at.advance(&timer, ms(1));
        assert_eq!(
            (cancelled.cancel(), expires.cancel()),
            (Cancel::Gone, Cancel::Gone)
        );
        assert!(cancelled.is_cancelled() && !cancelled.is_fired() && !cancelled.is_pending());
        assert!(expires.is_fired() && !expires.is_cancelled() && !expires.is_pending());
    }
    timer.stop().unwrap();
    assert!(cancelled.is_cancelled() && expires.is_fired());
    // A timeout knows its task; here the payload comes with the key.
    let [expired] = fired.take()[..] else {
        panic!("one has fired")
    };
    assert_eq!((expired.payload, expired.key), (1, expires.key()));
    assert_eq!(expired.deadline, expires.deadline());
}

#[test]
fn netty_runs_timers_of_one_bucket_in_the_order_they_came() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    for id in 0..2000 {
        timer.schedule(ms(7), id).unwrap();
    }
    at.advance(&timer, ms(7));
    assert_eq!(fired.ids(), (0..2000).collect::<Vec<_>>());
}

#[test]
fn netty_passes_a_timer_by_for_as_many_rounds_as_it_is_away() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    // Netty's wheel of four buckets has all of them in one, a round apart.
    for round in 0..50 {
        timer.schedule(ms(4 * round + 2), round).unwrap();
    }
    for tick in 0..200 {
        let expected = if tick % 4 == 2 {
            vec![tick / 4]
        } else {
            vec![]
        };
        at.wait_idle(&timer);
        assert_eq!(fired.ids(), expected, "at tick {tick}");
        at.clock.advance(ms(1));
    }
}

#[test]
fn netty_swallows_panics_and_stop_is_empty_after_all_have_fired() {
    let at = Setup::with_workers();
    let ran = Arc::new(AtomicU32::new(0));
    let timer = at.builder().build().unwrap();
    for n in 0..100 {
        let ran = Arc::clone(&ran);
        let task = move || {
            assert!(n % 2 == 0, "the task fails");
            ran.fetch_add(1, Ordering::SeqCst);
        };
        timer.run_after(ms(n % 10), task).unwrap();
    }
    at.advance(&timer, ms(10));
    assert_eq!(
        (ran.load(Ordering::SeqCst), timer.stats().panics),
        (50, 50),
        "and counted"
    );
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn dubbo_a_timeout_whose_task_has_thrown_is_expired() {
    let at = Setup::with_workers();
    let timer = at.builder().build().unwrap();
    let timeout = timer
        .run_after_handle(ms(1), || panic!("the task throws"))
        .unwrap();
    at.advance(&timer, ms(1));
    assert!(timeout.is_fired() && !timeout.is_cancelled() && !timeout.is_pending());
    assert!(!timeout.cancel().is_won() && !timeout.reschedule(ms(1)).is_moved());
    assert_eq!((timer.pending(), timer.stats().panics), (0, 1));
}

#[test]
fn unlike_dubbo_tasks_that_block_a_pool_leave_the_limit_to_others() {
    const LIMIT: u64 = 8;
    let (queue, tasks) = channel::<TimerTask>();
    let (let_go, gate) = channel::<()>();
    let pool = std::thread::spawn(move || {
        gate.recv().unwrap();
        tasks.into_iter().for_each(TimerTask::run);
    });
    let at = Setup::with_workers();
    let builder = at.builder().max_pending(LIMIT as usize);
    let timer = builder.build_on(one_thread(queue, Arc::default())).unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    for round in 1..=3 {
        for _ in 0..LIMIT {
            let ran = Arc::clone(&ran);
            let task = move || _ = ran.fetch_add(1, Ordering::SeqCst);
            timer.run_after(ms(1), task).unwrap();
        }
        let refused = timer.run_after(ms(1), || ()).unwrap_err();
        assert!(matches!(
            refused.kind(),
            ScheduleErrorKind::TooManyPending { .. }
        ));
        at.advance(&timer, ms(1));
        assert_eq!((timer.pending(), timer.stats().fired), (0, round * LIMIT));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0, "they wait in the pool");
    let_go.send(()).unwrap();
    timer.stop().unwrap();
    drop(timer);
    pool.join().unwrap();
    assert_eq!(u64::from(ran.load(Ordering::SeqCst)), 3 * LIMIT);
}

/// Sends tasks to a thread of its own; hands them back once that has gone.
fn one_thread(
    queue: Sender<TimerTask>,
    refused: Arc<Mutex<Vec<TimerTask>>>,
) -> impl Executor<TimerTask> {
    let execute = move |expired: Expired<TimerTask>| {
        let (task, rest) = expired.split();
        queue
            .send(task)
            .map_err(|refused| rest.with_payload(refused.0))
    };
    executor_fn(execute, move |expired| {
        refused.lock().unwrap().push(expired.payload)
    })
}

#[test]
fn netty_runs_tasks_on_a_given_executor() {
    let (queue, tasks) = channel::<TimerTask>();
    let pool = std::thread::Builder::new().name("the pool".to_owned());
    let pool = pool
        .spawn(move || tasks.into_iter().for_each(TimerTask::run))
        .unwrap();
    let timer = one_shard()
        .build_on(one_thread(queue, Arc::default()))
        .unwrap();
    let (sender, receiver) = channel();
    let task = move || {
        sender
            .send(std::thread::current().name().map(str::to_owned))
            .unwrap()
    };
    timer.run_after(ms(1), task).unwrap();
    assert_eq!(
        receiver.recv_timeout(secs(20)),
        Ok(Some("the pool".to_owned()))
    );
    timer.stop().unwrap();
    drop(timer);
    pool.join().unwrap();
}

#[test]
fn unlike_netty_a_task_that_the_executor_rejects_is_not_lost() {
    let (queue, tasks) = channel::<TimerTask>();
    drop(tasks);
    let refused = Arc::new(Mutex::new(Vec::new()));
    let timer = one_shard()
        .build_on(one_thread(queue, Arc::clone(&refused)))
        .unwrap();
    let (sender, receiver) = channel();
    timer
        .run_after(ms(1), move || sender.send("it runs").unwrap())
        .unwrap();
    wait_until("it is refused", || refused.lock().unwrap().len() == 1);
    refused.lock().unwrap().pop().unwrap().run();
    assert_eq!(receiver.try_recv(), Ok("it runs"));
    timer.wait_idle();
    assert_eq!(timer.stats().shards[0].refused_by_executor, 1);
}

#[test]
fn netty_calls_a_cancel_hook_once_and_never_the_task() {
    // The canceller gets the payload, so whatever is to happen on a cancel happens there.
    let hooks = Ledger::of_payloads();
    let at = Setup::with_workers();
    let timer = at
        .builder()
        .build_with(|_: Expired<Payload>| panic!("it runs"))
        .unwrap();
    let timeout = timer.schedule_handle(ms(1), hooks.payload(0)).unwrap();
    drop(timeout.cancel().into_payload());
    assert_eq!(hooks.alive(), 0);
    assert!(!timeout.cancel().is_won());
    at.advance(&timer, ms(5));
    assert_eq!((timer.stats().fired, timer.stats().panics), (0, 0));
}

#[test]
fn netty_stop_inside_a_task_is_an_error() {
    let at = Setup::with_workers();
    let (sender, receiver) = channel();
    let timer = reflexive(at.builder(), move |timer: &Timer<u64>, _| {
        sender.send(timer.stop().map(|rest| rest.len())).unwrap();
    });
    timer.schedule(Duration::ZERO, 1).unwrap();
    assert_eq!(
        receiver.recv_timeout(secs(20)),
        Ok(Err(StopError::InsideHandler))
    );
    assert!(!timer.is_stopped());
    timer.stop().unwrap();
}

#[test]
fn netty_pending_goes_from_three_to_zero_by_two_cancels_and_one_fire() {
    let at = Setup::with_workers();
    let (timer, _fired) = at.recording();
    let first = timer.schedule_handle(ms(1), 1).unwrap();
    let others = [2, 3].map(|id| timer.schedule_handle(HOUR, id).unwrap());
    for (left, timeout) in [2, 1].into_iter().zip(others) {
        assert!(timeout.cancel().is_won());
        assert_eq!(timer.pending(), left, "here at once, not at the next tick");
    }
    at.advance(&timer, ms(1));
    assert_eq!((timer.pending(), first.is_fired()), (0, true));
}

#[test]
fn netty_eleven_timers_in_a_tick_the_first_blocks_ten_are_cancelled_meanwhile() {
    let (entered, is_in) = channel();
    let (let_go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let at = Setup::with_workers();
    let (fired, log) = Fired::pair();
    let timer = at
        .builder()
        .max_pending(11)
        .build_with(move |expired: Expired<u64>| {
            if expired.payload == 0 {
                entered.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            }
            log.push(expired);
        })
        .unwrap();
    let timeouts: Vec<_> = (0..11)
        .map(|id| timer.schedule_handle(ms(1), id).unwrap())
        .collect();
    at.clock.advance(ms(1));
    is_in.recv().unwrap();
    assert!(
        timeouts[1..]
            .iter()
            .all(|timeout| timeout.cancel().is_won())
    );
    let_go.send(()).unwrap();
    timer.wait_idle();
    assert_eq!((timer.pending(), fired.ids()), (0, vec![0]));
    // Nothing was counted down twice: exactly eleven fit again.
    for id in 0..11 {
        timer.schedule(HOUR, id).unwrap();
    }
    timer.schedule(HOUR, 11).unwrap_err();
    assert_eq!(
        set_of(timer.stop().unwrap().iter().map(|u| u.payload)),
        (0..11).collect()
    );
}
