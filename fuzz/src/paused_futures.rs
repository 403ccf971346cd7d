//! Futures in time that stands: sleeps, timeouts and intervals are ready from their deadline on and not before. Whoever
//! polled last is woken by then, once, and no other waker is called or kept.

mod entry;

use crate::support::choices::{Ops, Span, weighted};
use crate::support::ticks::Ticks;
use arbitrary::Arbitrary;
use entry::Entry;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake};
use std::time::Duration;
use tickwheel_util::test;
use tickwheel_util::time::{self, Instant};

/// The unit of lengths.
const MS: Ticks = Ticks(1_000_000);
/// More futures than this add nothing.
const MOST: usize = 24;
/// Time moves by no more than this at once, so that it stays on the scale.
const FARTHEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// A timer is due in the tick after its deadline.
const TICK: Duration = Duration::from_millis(1);

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    runtime: Runtime,
    ops: Ops<Op>,
}

/// Whose time stands.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq, Debug)]
enum Runtime {
    /// No runtime: a test clock.
    TestClock,
    /// tokio's.
    Tokio,
    /// That of a test clock, on tokio.
    TestClockOnTokio,
}

weighted! {
    enum Op {
        10 => Sleep { delay: Span },
        4 => SleepUntil { back: bool, offset: Span },
        8 => Timeout { limit: Span, inner: Inner },
        6 => Interval { first: Span, period: Span, missed: Missed },
        30 => Poll { pick: u8 },
        /// All of them, as a task does that was woken.
        6 => PollAll,
        8 => Reset { pick: u8, delay: Span },
        3 => ResetAt { pick: u8, back: bool, offset: Span },
        6 => Drop { pick: u8 },
        10 => Advance { by: Span },
        /// To a deadline, give or take nanoseconds.
        8 => AdvanceTo { pick: u8, off: i8 },
        /// The task sleeps, so time jumps.
        8 => Rest { delay: Span, by_tokio: bool },
    }
}

/// What a timeout limits.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Inner {
    Pending,
    Ready,
    Sleep(Span),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Missed {
    Burst,
    Delay,
    Skip,
}

/// A waker that notes when it was called.
#[derive(Default)]
struct Bell(Mutex<Vec<Instant>>);

impl Bell {
    fn rings(&self) -> Vec<Instant> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let now = Instant::now();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(now);
    }
}

/// Runs the case; panics where a rule is broken.
pub fn check(case: &Case) {
    let tokio = |paused| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_time()
            .start_paused(paused)
            .build()
            .expect("a runtime")
    };
    match case.runtime {
        Runtime::TestClock => test::run(run(case)),
        Runtime::Tokio => tokio(true).block_on(run(case)),
        Runtime::TestClockOnTokio => tokio(false).block_on(test::paused(run(case))),
    }
}

async fn run(case: &Case) {
    // No deadline lies before the process's first use of a timer.
    drop(time::sleep(Duration::ZERO));
    let mut world = World {
        runtime: case.runtime,
        entries: Vec::new(),
        start: Instant::now(),
    };
    for op in &case.ops.0 {
        world.step(*op).await;
        world.check();
    }
}

/// Lets the runtime do what is ready, and begins another turn of the task, whose budget is whole then.
async fn give_way() {
    let yielded = Cell::new(false);
    poll_fn(|cx| {
        if yielded.replace(true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct World {
    runtime: Runtime,
    entries: Vec<Entry>,
    start: Instant,
}

/// The point this long after another one; `None` if it never comes.
fn after(start: Instant, delay: Duration) -> Option<Instant> {
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    (delay < century).then(|| start + delay)
}

impl World {
    async fn step(&mut self, op: Op) {
        let now = Instant::now();
        match op {
            Op::Sleep { delay } => self.add(Entry::sleep(now, delay.duration(MS))),
            Op::SleepUntil { back, offset } => {
                self.add(Entry::sleep_until(self.point(back, offset)))
            }
            Op::Timeout { limit, inner } => {
                self.add(Entry::timeout(now, limit.duration(MS), inner));
            }
            Op::Interval {
                first,
                period,
                missed,
            } => {
                let period = period.duration(MS).max(Duration::from_nanos(1));
                let first = self.point(false, first);
                self.add(Entry::interval(first, period, missed));
            }
            Op::Poll { pick } => {
                if let Some(entry) = self.pick(pick) {
                    entry.poll();
                }
            }
            Op::PollAll => self.entries.iter_mut().for_each(Entry::poll),
            Op::Reset { pick, delay } => {
                if let Some(entry) = self.pick(pick) {
                    entry.reset_after(now, delay.duration(MS));
                }
            }
            Op::ResetAt { pick, back, offset } => {
                let point = self.point(back, offset);
                if let Some(entry) = self.pick(pick) {
                    entry.reset(point);
                }
            }
            Op::Drop { pick } => {
                if !self.entries.is_empty() {
                    let which = usize::from(pick) % self.entries.len();
                    self.entries.swap_remove(which).end();
                }
            }
            Op::Advance { by } => self.advance(by.duration(MS).min(FARTHEST)).await,
            Op::AdvanceTo { pick, off } => {
                let Some(due) = self.pick(pick).and_then(|it| it.due()) else {
                    return;
                };
                let by = (due - now).as_nanos() as u64;
                let by = Duration::from_nanos(by.saturating_add_signed(off.into()));
                self.advance(by.min(FARTHEST)).await;
            }
            Op::Rest { delay, by_tokio } => {
                self.rest(delay.duration(MS).min(FARTHEST), by_tokio).await;
            }
        }
        give_way().await;
    }

    fn add(&mut self, entry: Entry) {
        if self.entries.len() < MOST {
            self.entries.push(entry);
        }
    }

    fn pick(&mut self, pick: u8) -> Option<&mut Entry> {
        let count = self.entries.len().max(1);
        self.entries.get_mut(usize::from(pick) % count)
    }

    /// A point of time, not before the first one and not too far away.
    fn point(&self, back: bool, offset: Span) -> Instant {
        let (now, offset) = (Instant::now(), offset.duration(MS).min(FARTHEST));
        if back {
            now - offset.min(now - self.start)
        } else {
            now + offset
        }
    }

    async fn advance(&mut self, by: Duration) {
        let start = Instant::now();
        time::advance(by).await;
        let now = Instant::now();
        assert_eq!(now, start + by, "moved by {by:?}");
        self.entries.iter_mut().for_each(|it| it.turned(now));
    }

    /// Sleeps in this task: time jumps from deadline to deadline.
    async fn rest(&mut self, delay: Duration, by_tokio: bool) {
        let start = Instant::now();
        if by_tokio && self.runtime == Runtime::Tokio {
            tokio::time::sleep(delay).await;
        } else {
            time::sleep(delay).await;
        }
        let now = Instant::now();
        let rested = now - start;
        assert!(rested >= delay, "{rested:?} of {delay:?}");
        // Time that is tokio's jumps by whole milliseconds, from wherever it stands in one.
        let latest = match self.runtime {
            Runtime::Tokio => 3 * TICK,
            Runtime::TestClock | Runtime::TestClockOnTokio => 2 * TICK,
        };
        assert!(rested < delay + latest, "{rested:?} instead of {delay:?}");
        // What was due on the way has woken its tasks when it was due.
        for entry in &mut self.entries {
            // Where time has moved, all that was due before has fired.
            if now > start {
                entry.turned(now);
            }
            entry.check_punctual(start, latest);
        }
    }

    fn check(&self) {
        for entry in &self.entries {
            entry.check();
        }
    }
}
