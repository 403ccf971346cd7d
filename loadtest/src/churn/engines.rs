//! Engines that are built, used by two threads, and ended in each way; some handles outlive them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickwheel::{Builder, Drive, Pinning, Shutdown, Timer, TimerHandle};

use super::Part;
use super::book::{Book, Entry};

/// Timers that each thread sets.
const TIMERS: usize = 32;
/// Handles that are kept beyond their engines' ends.
const KEPT: usize = 64;

/// How an engine ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    FiredAll,
    Drained,
    Dropped,
}

pub(super) fn run(part: &Part) {
    let mut kept = VecDeque::new();
    while !part.end.is_raised() {
        let ends = [End::Stopped, End::FiredAll, End::Drained, End::Dropped];
        kept.extend(live(&part.book, ends[fastrand::usize(..4)]));
        kept.drain(..kept.len().saturating_sub(KEPT));
        part.gone.engines.add(1);
    }
}

/// An engine from its build to its end; returns some of its handles.
fn live(book: &Arc<Book>, end: End) -> Vec<TimerHandle<Entry>> {
    let by_hand = fastrand::bool();
    let at_any_time = Arc::new(AtomicBool::new(false));
    let is_any_time = Arc::clone(&at_any_time);
    let timer = Builder::new()
        .shards(fastrand::usize(1..=3))
        .pinning(Pinning::Off)
        .drive(if by_hand {
            Drive::Manual
        } else {
            Drive::Workers
        })
        // ORDERING: Acquire pairs with the Release below: the flag is set before everything fires.
        .build_with(move |it| Entry::fired(it, is_any_time.load(Ordering::Acquire)))
        .expect("these settings are in range");
    let handles = thread::scope(|scope| {
        let other = scope.spawn(|| work(&timer, book, end));
        let mut handles = work(&timer, book, end);
        handles.extend(other.join().expect("a user of an engine has panicked"));
        handles
    });
    if by_hand {
        timer.turn().expect("it is not stopped");
    }
    let mode = match end {
        End::Dropped => return handles,
        End::Stopped => Shutdown::ReturnUnfired,
        End::Drained => Shutdown::Drain {
            within: Duration::from_millis(5),
        },
        End::FiredAll => {
            // ORDERING: Release, see above.
            at_any_time.store(true, Ordering::Release);
            Shutdown::FireAll
        }
    };
    let unfired = timer.shutdown(mode, Duration::MAX);
    Entry::all_returned(unfired.expect("its workers are alive"));
    handles
}

/// Sets timers and cancels some; returns handles of others.
fn work(timer: &Timer<Entry>, book: &Arc<Book>, end: End) -> Vec<TimerHandle<Entry>> {
    let mut handles = Vec::new();
    for number in 0..TIMERS {
        let delay = Duration::from_micros(fastrand::u64(..10_000));
        let entry = Entry::new(book, delay);
        let entry = if end == End::Dropped {
            entry.that_may_be_dropped()
        } else {
            entry
        };
        match timer.schedule_handle(delay, entry) {
            Ok(handle) if number % 4 == 0 => handles.push(handle),
            Ok(handle) if number % 2 == 0 => {
                Entry::cancelled(handle.cancel().into_payload());
            }
            Ok(handle) => drop(handle),
            Err(refused) => refused.into_payload().returned(),
        }
    }
    handles
}
