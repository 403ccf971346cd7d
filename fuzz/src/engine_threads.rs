//! The engine with its workers and two producers, under AddressSanitizer: nobody knows who wins, but every timer
//! that was accepted ends exactly once, none fires early, and no payload is left or dropped twice.

use crate::inputs::{Budgets, Wheel};
use crate::tracked::{Live, Tracked};
use arbitrary::Arbitrary;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, Expired, IdleStrategy, Key, ManualClock, MonotonicClock, Pinning, Routing,
    ScheduleErrorKind, Time, Timeout, Timer, Unfired,
};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    wheel: Wheel,
    budgets: Budgets,
    manual: bool,
    shards: u8,
    spread: bool,
    idle: Idle,
    max_pending: Option<u8>,
    end: End,
    producers: [Vec<Op>; 2],
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Idle {
    Park,
    Spin(u8),
    Busy,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum End {
    /// Waits until everything has fired.
    Finish,
    /// Stops as soon as the producers are done.
    Stop,
    /// Stops while they work.
    StopAmid(u8),
    /// Drops the engine.
    Drop,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Schedule(u16),
    /// Keeps the handle, in place of the one before.
    ScheduleHandle(u16),
    /// Cancels one of the last timers of either producer.
    Cancel {
        other: bool,
        pick: u8,
    },
    CancelHandle,
    Reschedule {
        pick: u8,
        delay: u16,
    },
    RescheduleHandle(u16),
    Advance(u16),
    Nap(u8),
}

/// Operations of one producer that are run.
const MOST: usize = 120;
/// The longest delay, in microseconds.
const LONGEST_US: u16 = 2_000;
/// Whoever takes longer than this to fire everything has lost something.
const PATIENCE: Duration = Duration::from_secs(20);

/// One timer of the books.
#[derive(Default)]
struct Line {
    key: OnceLock<Key<Tracked>>,
    accepted: AtomicBool,
    /// How often it has ended.
    ends: AtomicU8,
    /// Firing before this would be early, in nanoseconds.
    earliest: AtomicU64,
}

/// A clock of either kind.
#[derive(Clone)]
enum Hands {
    Real(MonotonicClock),
    Manual(ManualClock),
}

impl Hands {
    fn now(&self) -> Time {
        match self {
            Self::Real(clock) => Clock::now(clock),
            Self::Manual(clock) => clock.now(),
        }
    }

    fn advance(&self, by: Duration) {
        match self {
            Self::Real(_) => {}
            Self::Manual(clock) => drop(clock.advance(by)),
        }
    }
}

/// What producers and handlers share.
struct Books {
    live: Live,
    hands: Hands,
    lines: Vec<Line>,
}

impl Books {
    fn ended(&self, id: u32) {
        let before = self.lines[id as usize].ends.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0, "timer {id} ends again");
    }

    fn fired(&self, expired: &Expired<Tracked>) {
        let id = expired.payload.id;
        let earliest = self.lines[id as usize].earliest.load(Ordering::SeqCst);
        let now = self.hands.now();
        assert!(now.as_nanos() >= earliest, "timer {id} fires at {now:?}, before {earliest} ns");
        assert!(now >= expired.deadline, "timer {id} fires before the deadline it tells");
        self.ended(id);
    }

    fn returned(&self, unfired: Vec<Unfired<Tracked>>) {
        unfired.iter().for_each(|unfired| self.ended(unfired.payload.id));
    }
}

/// One producer at work.
struct Producer<'a> {
    number: usize,
    timer: &'a Timer<Tracked>,
    books: &'a Books,
    made: usize,
    handle: Option<(usize, Timeout<Tracked>)>,
}

impl Producer<'_> {
    fn run(&mut self, ops: &[Op]) {
        ops.iter().take(MOST).for_each(|op| self.step(*op));
        if let Some((id, handle)) = self.handle.take() {
            // Whoever ended it, it has ended in one way.
            let told = [handle.is_pending(), handle.is_cancelled(), handle.is_expired()];
            assert!(told.iter().filter(|told| **told).count() <= 1, "timer {id} tells {told:?}");
        }
    }

    fn line(&self, id: usize) -> &Line {
        &self.books.lines[id]
    }

    /// The number of one of the last timers of a producer.
    fn pick(&self, other: bool, pick: u8) -> usize {
        let most = if other { MOST } else { self.made };
        let back = usize::from(pick).checked_rem(most).unwrap_or(0) + 1;
        (self.number ^ usize::from(other)) * MOST + most.saturating_sub(back)
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Schedule(delay) => self.schedule(delay, false),
            Op::ScheduleHandle(delay) => self.schedule(delay, true),
            Op::Cancel { other, pick } => {
                let id = self.pick(other, pick);
                if let Some(key) = self.line(id).key.get() {
                    self.cancelled(self.timer.cancel(*key).payload());
                }
            }
            Op::CancelHandle => {
                if let Some((id, handle)) = &self.handle {
                    let payload = handle.cancel().payload();
                    assert!(!handle.is_pending(), "timer {id} has ended");
                    assert!(payload.is_none() || handle.is_cancelled());
                    self.cancelled(payload);
                }
            }
            Op::Reschedule { pick, delay } => {
                let id = self.pick(false, pick);
                if let Some(key) = self.line(id).key.get() {
                    self.reschedule(id, delay, |delay| self.timer.reschedule(*key, delay).moved());
                }
            }
            Op::RescheduleHandle(delay) => {
                if let Some((id, handle)) = &self.handle {
                    self.reschedule(*id, delay, |delay| handle.reschedule(delay).moved());
                }
            }
            Op::Advance(by) => self.books.hands.advance(Duration::from_micros(by.into())),
            Op::Nap(us) => std::thread::sleep(Duration::from_micros(us.into())),
        }
    }

    fn cancelled(&self, payload: Option<Tracked>) {
        if let Some(payload) = payload {
            self.books.ended(payload.id);
        }
    }

    /// The delay, and the time before which it does not end if it begins now.
    fn delay(&self, us: u16) -> (Duration, u64) {
        let delay = Duration::from_micros((us % LONGEST_US).into());
        (delay, (self.books.hands.now() + delay).as_nanos())
    }

    fn schedule(&mut self, us: u16, with_handle: bool) {
        let id = self.number * MOST + self.made;
        let (delay, earliest) = self.delay(us);
        let line = self.line(id);
        line.earliest.store(earliest, Ordering::SeqCst);
        let payload = self.books.live.payload(id as u32);
        let scheduled = if with_handle {
            self.timer.schedule(delay, payload).map(|timeout| (timeout.key(), Some(timeout)))
        } else {
            self.timer.schedule_key(delay, payload).map(|key| (key, None))
        };
        match scheduled {
            Ok((key, timeout)) => {
                line.accepted.store(true, Ordering::SeqCst);
                let _ = line.key.set(key);
                self.handle = timeout.map(|timeout| (id, timeout)).or(self.handle.take());
            }
            Err(error) => {
                assert_eq!(error.payload().id, id as u32, "the payload comes back");
                let kind = error.kind();
                let known = [
                    matches!(kind, ScheduleErrorKind::Stopped),
                    matches!(kind, ScheduleErrorKind::TooManyPending { .. }),
                ];
                assert!(known.contains(&true), "{kind}");
            }
        }
        self.made += 1;
    }

    /// Only the producer that made a timer moves it.
    fn reschedule(&self, id: usize, us: u16, reschedule: impl FnOnce(Duration) -> bool) {
        let earliest = &self.line(id).earliest;
        let (delay, new) = self.delay(us);
        // Until the answer is there, either deadline may be the one that counts.
        earliest.fetch_min(new, Ordering::SeqCst);
        if reschedule(delay) {
            earliest.store(new, Ordering::SeqCst);
        }
    }
}

/// Runs the case; panics where the books do not balance.
pub fn check(case: &Case) {
    let (manual, real) = (ManualClock::new(), MonotonicClock::new());
    let hands = if case.manual { Hands::Manual(manual) } else { Hands::Real(real) };
    let lines = (0..2 * MOST).map(|_| Line::default()).collect();
    let books = Arc::new(Books { live: Live::default(), hands, lines });
    let timer = build(case, &books);
    let unfired = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..)
            .zip(&case.producers)
            .map(|(number, ops)| {
                let (timer, books) = (&timer, &*books);
                scope.spawn(move || {
                    Producer { number, timer, books, made: 0, handle: None }.run(ops)
                })
            })
            .collect();
        let early = if let End::StopAmid(us) = case.end {
            std::thread::sleep(Duration::from_micros(us.into()));
            timer.stop().expect("this is no handler")
        } else {
            Vec::new()
        };
        for producer in producers {
            assert!(producer.join().is_ok(), "a producer panicked");
        }
        early
    });
    books.returned(unfired);
    end(case.end, timer, &books);
    for (id, line) in books.lines.iter().enumerate() {
        let (accepted, ends) =
            (line.accepted.load(Ordering::SeqCst), line.ends.load(Ordering::SeqCst));
        // What the engine drops with itself is seen in the payloads only.
        let dropped = matches!(case.end, End::Drop) && accepted && ends == 0;
        assert!(dropped || ends == u8::from(accepted), "timer {id}: {accepted}, {ends} ends");
    }
    assert_eq!(books.live.count(), 0, "payloads after the end");
}

fn build(case: &Case, books: &Arc<Books>) -> Timer<Tracked> {
    let mut builder = Builder::new()
        .shards(1 + usize::from(case.shards % 2))
        .tick(Duration::from_micros(100))
        .wheel(case.wheel.kind())
        .budget(case.budgets.budget())
        .routing(if case.spread { Routing::Spread } else { Routing::Home })
        .idle(match case.idle {
            Idle::Park => IdleStrategy::Park,
            Idle::Spin(us) => IdleStrategy::SpinThenPark { spin: Duration::from_micros(us.into()) },
            Idle::Busy => IdleStrategy::BusySpin,
        })
        .pinning(Pinning::Off);
    if let Some(limit) = case.max_pending {
        builder = builder.max_pending(1 + usize::from(limit % 64));
    }
    builder = match books.hands.clone() {
        Hands::Real(clock) => builder.clock(clock),
        Hands::Manual(clock) => builder.clock(clock),
    };
    let handler_books = Arc::clone(books);
    builder
        .build_with(move |expired| handler_books.fired(&expired))
        .expect("every choice of settings is a good one")
}

fn end(end: End, timer: Timer<Tracked>, books: &Books) {
    match end {
        End::Finish => {
            books.hands.advance(Duration::from_secs(1));
            let begun = Instant::now();
            while timer.pending() > 0 {
                assert!(begun.elapsed() < PATIENCE, "{} timers are lost", timer.pending());
                std::thread::sleep(Duration::from_micros(50));
            }
            assert_eq!(timer.stop().map(|unfired| unfired.len()), Ok(0));
        }
        End::Stop => books.returned(timer.stop().expect("this is no handler")),
        End::StopAmid(_) => assert_eq!(timer.stop().map(|unfired| unfired.len()), Ok(0)),
        End::Drop => {}
    }
    let stats = timer.stats();
    let ended = stats.fired() + stats.cancelled() + stats.returned();
    if !matches!(end, End::Drop) {
        assert_eq!((stats.pending, stats.panics()), (0, 0));
        let accepted =
            books.lines.iter().filter(|line| line.accepted.load(Ordering::SeqCst)).count();
        assert_eq!((stats.scheduled(), ended), (accepted as u64, accepted as u64));
        assert_eq!(books.live.count(), 0, "payloads after the stop");
    }
    drop(timer);
}
