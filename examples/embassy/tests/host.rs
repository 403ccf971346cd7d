//! The driver on a host: its counter is the machine's clock, its interrupt a thread.

use critical_section::Mutex;
use embassy_time::{Duration, Instant, Ticker, Timer, WithTimeout, with_timeout};
use futures_lite::future::{block_on, or, pending, poll_fn, zip};
use std::cell::Cell;
use std::sync::OnceLock;
use std::task::Poll;
use std::thread::{Thread, park, park_timeout};
use tickwheel_embassy::{Alarm, WheelDriver};

/// A counter of microseconds, and a thread in place of the interrupt.
struct Host;

static START: OnceLock<std::time::Instant> = OnceLock::new();
static INTERRUPT: OnceLock<Thread> = OnceLock::new();
static AT: Mutex<Cell<Option<u64>>> = Mutex::new(Cell::new(None));

impl Alarm for Host {
    fn now(&self) -> u64 {
        let start = START.get_or_init(std::time::Instant::now);
        start.elapsed().as_micros() as u64
    }

    fn set(&self, at: Option<u64>) {
        critical_section::with(|cs| AT.borrow(cs).set(at));
        let start = || std::thread::spawn(interrupt).thread().clone();
        INTERRUPT.get_or_init(start).unpark();
    }
}

embassy_time_driver::time_driver_impl!(static DRIVER: WheelDriver<Host> = WheelDriver::new(Host));

fn interrupt() {
    loop {
        let at = critical_section::with(|cs| AT.borrow(cs).get());
        match at.map(|at| at.saturating_sub(Host.now())) {
            None => park(),
            Some(0) => {
                critical_section::with(|cs| AT.borrow(cs).set(None));
                DRIVER.on_alarm();
            }
            Some(us) => park_timeout(std::time::Duration::from_micros(us)),
        }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_timer_is_never_early() {
    for length in [0, 1, 999, 1000, 1001, 20_000] {
        let (start, length) = (Instant::now(), Duration::from_micros(length));
        block_on(Timer::after(length));
        assert!(start.elapsed() >= length, "{length}");
    }
}

#[test]
fn a_timer_of_the_past_is_ready() {
    block_on(Timer::at(Instant::from_ticks(0)));
}

/// The task asks for two deadlines, first for the later one.
#[test]
fn the_earliest_deadline_of_a_task_counts() {
    let start = Instant::now();
    block_on(or(Timer::after(ms(60_000)), Timer::after(ms(3))));
    assert!(start.elapsed() < ms(30_000));
}

/// The later one is asked for again after the earlier one has woken the task.
#[test]
fn a_task_waits_for_its_later_deadlines_as_well() {
    let start = Instant::now();
    block_on(zip(Timer::after(ms(2)), Timer::after(ms(9))));
    assert!(start.elapsed() >= ms(9));
}

#[test]
fn a_late_future_is_given_up() {
    let start = Instant::now();
    assert!(block_on(with_timeout(ms(3), pending::<()>())).is_err());
    assert!(start.elapsed() >= ms(3));
    assert_eq!(block_on(async { 7 }.with_timeout(ms(60_000))), Ok(7));
}

#[test]
fn a_ticker_does_not_drift() {
    block_on(async {
        let (mut ticker, start) = (Ticker::every(ms(2)), Instant::now());
        for _ in 0..5 {
            ticker.next().await;
        }
        assert!(start.elapsed() >= ms(10));
    });
}

#[test]
fn many_tasks_wait_at_once_and_each_wakes() {
    let tasks: Vec<_> = (0..100)
        .map(|n| std::thread::spawn(move || block_on(Timer::after(ms(n % 10)))))
        .collect();
    for task in tasks {
        task.join().unwrap();
    }
}

/// A task that is polled again and again keeps one timer.
#[test]
fn polling_again_makes_no_more_timers() {
    let mut hour = Timer::after(ms(3_600_000));
    let mut polls = 0;
    block_on(poll_fn(|cx| {
        assert!(std::pin::Pin::new(&mut hour).poll(cx).is_pending());
        polls += 1;
        if polls < 10_000 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }));
    assert!(DRIVER.waiting() <= 1 + 110, "{} timers", DRIVER.waiting());
}
