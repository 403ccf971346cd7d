//! What Netty's `HashedWheelTimer` does, what Dubbo's copy of it checks beyond, and what tickwheel does about it, row
//! by row.
//!
//! Here are arguments, states, start and stop; `timeouts` has delays, limits, cancels, order and tasks, `real_time` the
//! checks that are about real time. Tests named `netty_...` reproduce the reference; tests named `unlike_netty_...` are
//! deliberate deviations. Nothing warns of more than 64 engines in a process, as Netty does.

mod real_time;
mod timeouts;

use crate::support::setup::{HOUR, Setup, ms, one_shard, recording, secs, set_of, us, wait_until};
use std::time::Duration;
use tickwheel::BuildError::{ShardsOutOfRange, TickOutOfRange, ZeroMaxPending};
use tickwheel::{EngineState, ScheduleErrorKind, StartError, Time};

#[test]
fn netty_and_dubbo_refuse_bad_arguments() {
    let tick = |tick| (one_shard().tick(tick), TickOutOfRange { tick });
    for (builder, error) in [
        tick(Duration::ZERO),
        tick(Duration::MAX),
        (one_shard().max_pending(0), ZeroMaxPending),
        (one_shard().shards(0), ShardsOutOfRange { shards: 0 }),
    ] {
        assert_eq!(builder.build().err(), Some(error));
    }
}

#[test]
fn unlike_netty_ticks_below_a_millisecond_are_honoured() {
    for tick in [us(1), us(50), us(999)] {
        let at = Setup::with_workers();
        let (timer, fired) = recording(at.builder().tick(tick));
        assert_eq!(timer.tick(), tick, "not raised to a millisecond");
        timer.schedule(tick, 1).unwrap();
        at.go_to(&timer, Time::from_nanos(tick.as_nanos() as u64 - 1));
        assert_eq!(fired.len(), 0);
        at.advance(&timer, Duration::from_nanos(1));
        assert_eq!(fired.ids(), [1]);
    }
}

/// Threads of this process whose names begin so.
#[cfg(target_os = "linux")]
fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(prefix)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn netty_starts_its_worker_with_the_first_timer_and_ends_it_with_stop() {
    let (timer, _fired) = recording(one_shard().thread_name("lazy"));
    assert_eq!(
        (timer.state(), threads_named("lazy-")),
        (EngineState::Init, 0)
    );
    timer.schedule(HOUR, 1).unwrap();
    wait_until("the worker runs", || threads_named("lazy-") == 1);
    timer.schedule(HOUR, 2).unwrap();
    assert_eq!(threads_named("lazy-"), 1);
    timer.stop().unwrap();
    wait_until("the worker has gone", || threads_named("lazy-") == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn netty_starts_explicitly_too_and_states_are_init_started_shut_down() {
    let (timer, _fired) = recording(one_shard().shards(2).thread_name("eager"));
    assert_eq!(
        (timer.state(), timer.is_stopped()),
        (EngineState::Init, false)
    );
    for _ in 0..2 {
        timer.start().unwrap();
        assert_eq!(
            (timer.state(), timer.is_stopped()),
            (EngineState::Started, false)
        );
        wait_until("the workers run", || threads_named("eager-") == 2);
    }
    timer.stop().unwrap();
    assert_eq!(
        (timer.state(), timer.is_stopped()),
        (EngineState::Stopped, true)
    );
    assert!(timer.clone().is_stopped(), "by any handle");
    assert_eq!(timer.start(), Err(StartError::Stopped));
}

#[test]
fn unlike_netty_a_timer_refused_after_stop_comes_back_and_leaks_no_count() {
    for has_run in [false, true] {
        let (timer, fired) = recording(one_shard().max_pending(1));
        if has_run {
            timer.schedule(Duration::ZERO, 7).unwrap();
            wait_until("it has run", || fired.len() == 1);
            timer.schedule(HOUR, 8).unwrap();
        }
        assert_eq!(timer.stop().unwrap().len(), usize::from(has_run));
        for id in 0..10 {
            let error = timer.schedule(ms(1), id).unwrap_err();
            let told = (error.kind(), *error.payload());
            assert_eq!(told, (&ScheduleErrorKind::Stopped, id));
        }
        let stats = timer.stats();
        assert_eq!((timer.pending(), stats.rejected), (0, 10));
        let run = u64::from(has_run);
        assert_eq!((stats.scheduled, stats.fired), (2 * run, run));
    }
}

#[test]
fn netty_stop_returns_what_neither_fired_nor_was_cancelled_and_cancels_it() {
    let at = Setup::with_workers();
    let (timer, fired) = at.recording();
    let timeouts: Vec<_> = (0..9)
        .map(|id| timer.schedule_handle(secs(id), id).unwrap())
        .collect();
    at.advance(&timer, secs(1));
    assert!(timeouts[5].cancel().is_won());
    assert_eq!((fired.ids(), timer.pending()), (vec![0, 1], 6));
    let returned = set_of(timer.stop().unwrap().iter().map(|unfired| unfired.payload));
    assert_eq!(returned, set_of([2, 3, 4, 6, 7, 8]), "with their payloads");
    assert!(
        timeouts[2..]
            .iter()
            .all(|t| t.is_cancelled() && !t.is_fired())
    );
    assert!(timeouts[2..].iter().all(|t| !t.cancel().is_won()));
    assert!(
        timer.stop().unwrap().is_empty(),
        "a second stop returns nothing"
    );
    // Unlike Netty's, the count goes down with them.
    assert_eq!((timer.pending(), timer.stats().pending), (0, 0));
}

#[test]
fn netty_timers_due_together_all_fire_although_a_tick_moves_100_000_at_most() {
    const TIMERS: u64 = 250_000;
    assert_eq!(tickwheel::Budget::new().drain, 100_000);
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    (0..TIMERS).for_each(|id| _ = timer.schedule(ms(1), id).unwrap());
    at.advance(&timer, ms(1));
    let turns = timer.stats().shards[0].turns;
    assert!(
        turns >= TIMERS / 100_000,
        "the work of a turn is bounded: {turns} turns"
    );
    assert_eq!(
        set_of(fired.ids()).len() as u64,
        TIMERS,
        "the rest went on at once"
    );
}
