//! Arguments, states, start and stop.

use super::netty;
use crate::support::ledger::Ledger;
use crate::support::setup::{
    Fired, HOUR, Setup, ms, recording, secs, set_of, sorted, stress, us, wait_until,
};
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{
    BuildError, Builder, EngineState, Expired, ManualClock, ScheduleErrorKind, StartError, Time,
    Timer, WheelKind,
};

fn hashed(tick: Duration, buckets: usize) -> Result<Timer, BuildError> {
    let wheel = WheelKind::Hashed { buckets };
    Builder::new().shards(1).tick(tick).wheel(wheel).build()
}

#[test]
fn netty_refuses_bad_ticks_and_wheel_sizes() {
    assert_eq!(
        hashed(Duration::ZERO, 1).err(),
        Some(BuildError::TickOutOfRange { tick: Duration::ZERO })
    );
    assert_eq!(hashed(ms(1), 0).err(), Some(BuildError::BucketsOutOfRange { buckets: 0 }));
    let many = 65_537;
    assert_eq!(hashed(ms(1), many).err(), Some(BuildError::BucketsOutOfRange { buckets: many }));
    assert!(hashed(HOUR, many - 1).is_ok(), "no revolution goes beyond the range of time");
}

#[test]
fn netty_rounds_the_bucket_count_up_to_a_power_of_two() {
    for (asked, made) in [(1, 1), (2, 2), (3, 4), (5, 8), (511, 512), (512, 512), (513, 1024)] {
        assert_eq!(tickwheel::wheel::Hashed::new(asked).buckets(), made);
    }
    // A ring of three fires everything like a ring of four.
    let clock = ManualClock::new();
    let builder = netty().wheel(WheelKind::Hashed { buckets: 3 }).clock(clock.clone());
    let (timer, fired) = recording(builder);
    for id in 0..50 {
        timer.schedule(ms(id), id).unwrap();
    }
    for now in 0..50 {
        timer.wait_idle();
        assert_eq!(fired.ids(), [now]);
        clock.advance(ms(1));
    }
    timer.stop().unwrap();
}

#[test]
fn unlike_netty_ticks_below_a_millisecond_are_honoured() {
    for tick in [us(1), us(50), us(999)] {
        let clock = ManualClock::new();
        let (timer, fired) = recording(netty().tick(tick).clock(clock.clone()));
        assert_eq!(timer.tick(), tick, "not raised to a millisecond");
        timer.schedule(tick, 1).unwrap();
        clock.set(Time::from_nanos(tick.as_nanos() as u64 - 1));
        timer.wait_idle();
        assert_eq!(fired.len(), 0);
        clock.advance(Duration::from_nanos(1));
        timer.wait_idle();
        assert_eq!(fired.ids(), [1]);
        timer.stop().unwrap();
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
    let (timer, _fired) = recording(netty().thread_name("lazy"));
    assert_eq!((timer.state(), threads_named("lazy-")), (EngineState::Init, 0));
    timer.schedule(HOUR, 1).unwrap();
    wait_until("the worker runs", || threads_named("lazy-") == 1);
    timer.schedule(HOUR, 2).unwrap();
    assert_eq!(threads_named("lazy-"), 1);
    timer.stop().unwrap();
    wait_until("the worker has gone", || threads_named("lazy-") == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn netty_starts_explicitly_too() {
    let (timer, _fired) = recording(netty().shards(2).thread_name("eager"));
    timer.start().unwrap();
    assert_eq!(timer.state(), EngineState::Started);
    wait_until("the workers run", || threads_named("eager-") == 2);
    timer.start().unwrap();
    assert_eq!(threads_named("eager-"), 2);
    timer.stop().unwrap();
}

#[test]
fn netty_states_are_init_started_shut_down() {
    let (timer, _fired) = recording(netty());
    assert_eq!((timer.state(), timer.is_stopped()), (EngineState::Init, false));
    timer.start().unwrap();
    assert_eq!((timer.state(), timer.is_stopped()), (EngineState::Started, false));
    timer.stop().unwrap();
    assert_eq!((timer.state(), timer.is_stopped()), (EngineState::Stopped, true));
    assert_eq!(timer.start(), Err(StartError::Stopped));
}

#[test]
fn unlike_netty_a_timer_refused_after_stop_comes_back_and_leaks_no_count() {
    let (timer, _fired) = recording(netty().max_pending(1));
    timer.stop().unwrap();
    for id in 0..10 {
        let error = timer.schedule(ms(1), id).unwrap_err();
        assert_eq!((error.kind(), *error.payload()), (&ScheduleErrorKind::Stopped, id));
    }
    assert_eq!((timer.pending(), timer.stats().scheduled(), timer.stats().rejected), (0, 0, 10));
}

#[test]
fn netty_stop_is_empty_after_all_have_fired() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(netty().clock(at.clock.clone()));
    for id in 0..3 {
        timer.schedule(ms(1), id).unwrap();
    }
    at.advance(&timer, ms(1));
    assert_eq!(fired.len(), 3);
    assert!(timer.stop().unwrap().is_empty(), "nothing is left unprocessed");
}

#[test]
fn netty_stop_returns_what_neither_fired_nor_was_cancelled_and_cancels_it() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(netty().clock(at.clock.clone()));
    let timeouts: Vec<_> = (0..9).map(|id| timer.schedule(secs(id), id).unwrap()).collect();
    at.wait_idle(&timer);
    assert!(timeouts[5].cancel().won());
    let returned = timer.stop().unwrap();
    assert_eq!(fired.ids(), [0]);
    assert_eq!(
        sorted(returned.iter().map(|unfired| unfired.payload)),
        [1, 2, 3, 4, 6, 7, 8],
        "with their payloads"
    );
    assert!(timeouts[1..].iter().all(|t| t.is_cancelled() && !t.is_expired()));
    assert!(timeouts[1..].iter().all(|t| !t.cancel().won()));
    assert!(timer.stop().unwrap().is_empty(), "a second stop returns nothing");
}

#[test]
fn unlike_netty_nothing_is_pending_after_stop() {
    let (timer, _fired) = recording(netty());
    for id in 0..100 {
        timer.schedule(HOUR, id).unwrap();
    }
    assert_eq!(timer.pending(), 100, "the count is public");
    assert_eq!(timer.stop().unwrap().len(), 100);
    assert_eq!((timer.pending(), timer.stats().pending), (0, 0));
}

#[test]
fn unlike_netty_a_timer_pushed_while_stop_runs_does_not_vanish() {
    const TIMERS: u64 = 400;
    for _ in 0..stress(300) {
        let ledger = Ledger::all_begun(TIMERS);
        let fires = Arc::clone(&ledger);
        let timer = netty().build_with(move |e: Expired<u64>| fires.fired(e.payload)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in 0..TIMERS {
                    if let Err(error) = timer.schedule_key(HOUR, id) {
                        ledger.refused(error.into_payload());
                    }
                }
            });
            while timer.pending() < 20 {
                std::thread::yield_now();
            }
            timer.stop().unwrap().into_iter().for_each(|unfired| ledger.returned(unfired.payload));
        });
        let ends = ledger.check();
        assert!(ends.returned >= 20 && ends.returned + ends.refused == TIMERS, "{ends:?}");
    }
}

#[test]
fn unlike_netty_a_suspend_is_not_walked_tick_by_tick() {
    // A month of microseconds: 2.6 million million ticks.
    let month = 720 * HOUR;
    for wheel in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 512 }] {
        let clock = ManualClock::new();
        let (timer, fired) = recording(netty().tick(us(1)).wheel(wheel).clock(clock.clone()));
        timer.schedule(month - us(1), 1).unwrap();
        timer.schedule(us(1), 2).unwrap();
        timer.schedule(month + us(1), 3).unwrap();
        clock.advance(month);
        timer.wait_idle();
        assert_eq!(fired.ids(), [2, 1]);
        assert!(timer.stats().shards[0].turns < 20);
        assert_eq!(timer.stop().unwrap().len(), 1);
    }
}

#[test]
fn netty_timers_due_together_all_fire_although_a_tick_moves_100_000_at_most() {
    const TIMERS: u64 = 250_000;
    assert_eq!(tickwheel::Budget::new().drain, 100_000);
    let at = Setup::by_hand();
    let (fired, log) = Fired::pair();
    let builder = netty().clock(at.clock.clone()).drive(at.drive);
    let timer = builder.build_with(move |expired| log.push(expired)).unwrap();
    for id in 0..TIMERS {
        timer.schedule_key(ms(1), id).unwrap();
    }
    at.advance(&timer, ms(1));
    let turns = timer.stats().shards[0].turns;
    assert!(turns >= TIMERS / 100_000, "the work of a turn is bounded: {turns} turns");
    assert_eq!(set_of(fired.ids()).len() as u64, TIMERS, "the rest went on at once");
    timer.stop().unwrap();
}
