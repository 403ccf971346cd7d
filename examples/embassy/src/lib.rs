//! A time driver for `embassy-time` over a [`LocalTimer`]: one alarm of the hardware for all tasks that wait.
//!
//! A board implements [`Alarm`] for its counter and names the driver once:
//!
//! ```ignore
//! embassy_time_driver::time_driver_impl!(static DRIVER: WheelDriver<Board> = WheelDriver::new(Board));
//!
//! #[interrupt]
//! fn TIMER() { DRIVER.on_alarm(); }
//! ```
//!
//! A task has one timer, whatever it waits for, because a wake lets it look at all its futures again: the earliest
//! deadline that it has asked for counts. It is found by the address of the task, which its waker carries.

#![no_std]

extern crate alloc;

use alloc::collections::BTreeMap;
use core::cell::RefCell;
use core::task::Waker;
use core::time::Duration;
use critical_section::Mutex;
use embassy_time_driver::{Driver, TICK_HZ};
use tickwheel_core::{Key, LocalTimer, Time};

/// Wakes up to this many tasks at a time, outside of the critical section.
const BATCH: usize = 8;
const TICK: Duration = Duration::from_micros(1_000_000 / TICK_HZ);
const _: () = assert!(1_000_000 % TICK_HZ == 0, "a tick is whole microseconds");

/// A counter of the hardware, and its alarm. Both are called in a critical section, or by one thread.
pub trait Alarm: Send + Sync + 'static {
    /// Returns the ticks since the start; they never go back.
    fn now(&self) -> u64;

    /// Lets the interrupt come at `at`, or at once where that has passed. `None` turns it off.
    fn set(&self, at: Option<u64>);
}

/// A task, by the two addresses of its waker.
type Task = (usize, usize);

struct Tasks {
    timer: LocalTimer<Waker>,
    /// The timer of each task that waits.
    keys: BTreeMap<Task, Key<Waker>>,
}

/// The driver: a wheel, and the alarm that fires it.
pub struct WheelDriver<A> {
    alarm: A,
    /// Made at the first use, when there is an allocator.
    tasks: Mutex<RefCell<Option<Tasks>>>,
}

fn task(waker: &Waker) -> Task {
    (waker.data() as usize, waker.vtable() as *const _ as usize)
}

fn time(ticks: u64) -> Time {
    Time::from_micros(ticks.saturating_mul(1_000_000 / TICK_HZ))
}

/// Returns the tick at which a deadline has passed.
fn ticks(time: Time) -> u64 {
    let ns = (time - Time::ZERO).as_nanos() as u64;
    ns.div_ceil(TICK.as_nanos() as u64)
}

impl<A: Alarm> WheelDriver<A> {
    /// Makes the driver. It needs no memory before the first task waits.
    pub const fn new(alarm: A) -> Self {
        Self {
            alarm,
            tasks: Mutex::new(RefCell::new(None)),
        }
    }

    /// Returns how many tasks wait.
    pub fn waiting(&self) -> usize {
        let count = |tasks: &Tasks| tasks.timer.pending();
        critical_section::with(|cs| self.tasks.borrow_ref(cs).as_ref().map_or(0, count))
    }

    /// Wakes the tasks that are due, and sets the alarm anew: the handler of the alarm's interrupt.
    pub fn on_alarm(&self) {
        loop {
            let mut due = [const { None }; BATCH];
            let mut places = due.iter_mut();
            let more = critical_section::with(|cs| {
                let mut tasks = self.tasks.borrow_ref_mut(cs);
                let Some(Tasks { timer, keys }) = &mut *tasks else {
                    return false;
                };
                let mut expired = timer.expired(time(self.alarm.now()));
                for place in places.by_ref() {
                    let Some(expired) = expired.next() else { break };
                    keys.remove(&task(&expired.payload));
                    *place = Some(expired.payload);
                }
                drop(expired);
                self.alarm.set(timer.next_deadline().map(ticks));
                places.len() == 0
            });
            due.into_iter().flatten().for_each(Waker::wake);
            if !more {
                return;
            }
        }
    }
}

impl<A: Alarm> Driver for WheelDriver<A> {
    fn now(&self) -> u64 {
        self.alarm.now()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        let refused = critical_section::with(|cs| {
            let mut tasks = self.tasks.borrow_ref_mut(cs);
            let Tasks { timer, keys } = tasks.get_or_insert_with(|| Tasks {
                timer: LocalTimer::new(TICK).expect("a tick of a microsecond or more"),
                keys: BTreeMap::new(),
            });
            let (now, at) = (time(self.alarm.now()), time(at));
            match keys.get(&task(waker)) {
                Some(key) => {
                    if timer.deadline(*key).is_some_and(|set| at < set) {
                        timer.reschedule(now, *key, at);
                    }
                }
                None => match timer.schedule(now, at, waker.clone()) {
                    Ok(key) => drop(keys.insert(task(waker), key)),
                    Err(refused) => return Some(refused.into_payload()),
                },
            }
            self.alarm.set(timer.next_deadline().map(ticks));
            None
        });
        // Without memory for its timer a task polls until there is some.
        if let Some(waker) = refused {
            waker.wake();
        }
    }
}
