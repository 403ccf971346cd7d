//! The whole engine under random load on real threads: whoever wins, every timer that was accepted
//! ends exactly once, none fires early, the engine's counters agree with the books, and every payload is
//! dropped exactly once.
//!
//! Producers schedule, cancel and move each other's timers, keep, drop and detach handles, begin and end
//! periodic timers; handlers schedule, cancel, move, dawdle and panic; and in the end, or amid it all, one or
//! two threads stop the engine, or it is dropped.
//!
//! A case fixes what is attempted, not how the threads interleave.

mod books;
mod producer;

use self::books::{Books, Engine};
use self::producer::{Held, Producer};
use super::choices::{Budgets, weighted};
use super::ledger::{Ends, Payload};
use super::random::Random;
use super::ticks::Rhythm;
use arbitrary::{Arbitrary, Unstructured};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Clock, IdleStrategy, ManualClock, MonotonicClock, Pinning, Time, Timer, TimerState,
};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    budgets: Budgets,
    /// A clock that only `Advance` moves.
    manual: bool,
    tick: u8,
    shards: u8,
    spread: bool,
    idle: Idle,
    max_pending: Option<u8>,
    end: End,
    producers: Producers,
}

weighted! {
    enum Idle {
        4 => Park,
        2 => Spin(u8),
        1 => Busy,
    }
}

weighted! {
    enum End {
        /// Waits until everything has ended that will.
        2 => Finish,
        /// Stops as soon as the producers are done.
        2 => Stop,
        /// Stops while they work, so many microseconds after the start, once or twice.
        4 => StopAmid { after: u16, twice: bool },
        /// Drops the engine.
        1 => Drop,
    }
}

weighted! {
    enum Delay {
        1 => Zero,
        4 => Short(u8),
        3 => Middle(u16),
        1 => Long(u8),
        1 => Hour,
    }
}

weighted! {
    enum Op {
        80 => Schedule(Delay),
        26 => ScheduleHandle(Delay),
        14 => ScheduleDetached(Delay),
        /// One of all timers, children included, begun or not.
        20 => Cancel(u16),
        16 => CancelOwn(u8),
        16 => MoveOwn(u8, Delay),
        8 => MoveAny(u16, Delay),
        10 => CancelHandle(u8),
        8 => MoveHandle(u8, Delay),
        10 => DropHandle(u8),
        8 => BeginPeriodic { n: u8, every: u16, first: Delay, rhythm: Rhythm },
        8 => EndPeriodic(u8),
        8 => Advance(u16),
        2 => Nap(u8),
        8 => Yield,
    }
}

/// The operations of up to four producers, dealt out one after the other.
#[derive(Debug)]
struct Producers(Vec<Vec<Op>>);

/// The message of the panics that belong to the test.
pub(crate) const WANTED: &str = "a panic that the test wants";
/// Operations of one case that are run.
const MOST_OPS: usize = 6_000;
/// Whoever takes longer than this to fire everything has lost something.
const PATIENCE: Duration = Duration::from_secs(60);

impl<'a> Arbitrary<'a> for Producers {
    fn arbitrary(data: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let mut producers = vec![Vec::new(); 1 + usize::from(u8::arbitrary(data)? % 4)];
        for turn in 0..MOST_OPS {
            if data.is_empty() {
                break;
            }
            let turn = turn % producers.len();
            producers[turn].push(Op::arbitrary(data)?);
        }
        Ok(Self(producers))
    }
}

impl Delay {
    fn duration(self) -> Duration {
        match self {
            Self::Zero => Duration::ZERO,
            Self::Short(us) => Duration::from_micros(us.into()),
            Self::Middle(us) => Duration::from_micros((us % 3_000).into()),
            Self::Long(ms) => Duration::from_millis((ms % 16).into()),
            Self::Hour => Duration::from_secs(3_600),
        }
    }
}

fn any_delay(random: &mut Random) -> Duration {
    let bytes = random.bytes(4);
    Delay::arbitrary(&mut Unstructured::new(&bytes)).map_or(Duration::ZERO, Delay::duration)
}

/// A clock of either kind.
#[derive(Clone)]
struct AnyClock {
    clock: Arc<dyn Clock>,
    manual: Option<ManualClock>,
}

impl AnyClock {
    fn new(manual: bool) -> Self {
        let manual = manual.then(ManualClock::new);
        let real = || Arc::new(MonotonicClock::new()) as Arc<dyn Clock>;
        let clock = manual.clone().map_or_else(real, |manual| Arc::new(manual));
        Self { clock, manual }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Moves a clock that nothing else moves.
    fn advance(&self, by: Duration) {
        if let Some(manual) = &self.manual {
            manual.advance(by);
        }
    }
}

/// What has happened, ends first; every kind of it must, or the test proves little.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Totals([u64; 7]);

impl Totals {
    pub(crate) fn add(&mut self, other: Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(all, more)| *all += more);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.0.iter().all(|n| *n > 0)
    }
}

/// Runs the case without panics of handlers, at the first of which libFuzzer would end the process.
pub fn check(case: &Case) {
    run(case, false);
}

/// Runs the case with panics of handlers ([`WANTED`]); panics itself where the books do not balance.
pub(crate) fn check_with_panics(case: &Case) -> Totals {
    run(case, true)
}

fn run(case: &Case, panics: bool) -> Totals {
    let timers = case.producers.0.iter().map(|ops| ops.len() as u64).sum();
    let books = Arc::new(Books::new(timers, AnyClock::new(case.manual), panics));
    let engine = build(case, &books);
    let (held, mut returned) = produce(case, &books, &engine);
    match case.end {
        End::Finish => finish(&books, &engine),
        End::Drop => {
            drop(engine);
            // The workers end in their own time.
            books.ledger.wait_until_all_dropped();
            books.ledger.return_the_rest();
            drop(held);
            books.ledger.check();
            books.ledger.assert_all_dropped();
            assert_eq!(books.early.load(Ordering::Relaxed), 0, "fired early");
            return Totals::default();
        }
        End::Stop | End::StopAmid { .. } => {}
    }
    returned += books.returned(engine.stop().expect("this is no handler"));
    judge_handles(&books, held);
    let totals = judge(&books, &engine, returned);
    drop(engine);
    books.ledger.wait_until_all_dropped();
    totals
}

fn build(case: &Case, books: &Arc<Books>) -> Engine {
    let builder = Builder::new()
        .clock(Arc::clone(&books.clock.clock))
        .shards(1 + usize::from(case.shards % 3))
        .tick(Duration::from_micros(1 + u64::from(case.tick)))
        .budget(case.budgets.budget())
        .idle(match case.idle {
            Idle::Park => IdleStrategy::Park,
            Idle::Spin(us) => IdleStrategy::SpinThenPark {
                spin: Duration::from_micros(us.into()),
            },
            Idle::Busy => IdleStrategy::BusySpin,
        })
        .pinning(Pinning::Off);
    let limit = case.max_pending.map(|limit| 1 + usize::from(limit));
    let builder = limit.into_iter().fold(builder, Builder::max_pending);
    let inside = Arc::new(OnceLock::<Timer<Payload>>::new());
    let (books, engine) = (Arc::clone(books), Arc::clone(&inside));
    let timer = builder
        .build_with(move |expired| books.fire(engine.get(), &expired))
        .expect("every choice of settings is a good one");
    // A handler that holds its engine keeps it from being dropped.
    if !matches!(case.end, End::Drop) {
        assert!(inside.set(timer.clone()).is_ok());
    }
    timer
}

/// Lets the producers work, and stops the engine meanwhile if the case says so; their handles, and the number of
/// timers that the stops handed back.
fn produce(case: &Case, books: &Books, engine: &Engine) -> (Held, u64) {
    let (after, stops) = match case.end {
        End::StopAmid { after, twice } => (after % 3_000, 1 + usize::from(twice)),
        _ => (0, 0),
    };
    let gate = Barrier::new(case.producers.0.len() + stops);
    let returned = AtomicU64::new(0);
    let held = std::thread::scope(|scope| {
        let mut first = 0;
        let mut producers = Vec::new();
        for ops in &case.producers.0 {
            let producer = Producer::new(books, engine, first, case.spread);
            first += ops.len() as u64;
            let gate = &gate;
            producers.push(scope.spawn(move || {
                gate.wait();
                producer.run(ops)
            }));
        }
        for _ in 0..stops {
            scope.spawn(|| {
                gate.wait();
                std::thread::sleep(Duration::from_micros(after.into()));
                let unfired = engine.stop().expect("this is no handler");
                returned.fetch_add(books.returned(unfired), Ordering::Relaxed);
            });
        }
        producers
            .into_iter()
            .flat_map(|it| it.join().expect("a producer panicked"))
            .collect()
    });
    (held, returned.into_inner())
}

/// Waits until everything has ended; what is an hour away, and what never ends by itself, is cancelled.
fn finish(books: &Books, engine: &Engine) {
    let begun = Instant::now();
    (0..books.repeated.len()).for_each(|n| books.end_periodic(engine, n as u64));
    books.clock.advance(Duration::from_secs(1));
    while engine.pending() > 0 {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} timers are lost",
            engine.pending()
        );
        books.cancel_far(engine);
        // Handlers may have begun more.
        books.clock.advance(Duration::from_millis(1));
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Handles agree with the books for ever.
fn judge_handles(books: &Books, held: Held) {
    for (id, handle) in held {
        let expected = match books.ledger.end_of(id).expect("it has begun") {
            Ends { fired: 1, .. } => TimerState::Fired,
            Ends { cancelled: 1, .. } => TimerState::Cancelled,
            _ => TimerState::Returned,
        };
        assert_eq!(handle.state(), expected, "timer {id}");
    }
}

/// The engine has stopped and every thread has ended: all accounts must balance.
fn judge(books: &Books, engine: &Engine, returned: u64) -> Totals {
    let ends = books.ledger.check();
    assert!(books.keys().all(|(_, key)| !engine.is_pending(key)));
    let (mut periods, mut ended) = (0, 0);
    for (n, repeated) in books.repeated.iter().enumerate() {
        let fired = repeated.fired.load(Ordering::SeqCst);
        periods += fired;
        let cancelled_at = repeated.cancelled_at.load(Ordering::SeqCst);
        if let Some(before) = cancelled_at.checked_sub(1) {
            ended += 1;
            // A handler call may have begun, and not been counted yet, when the cancel returned.
            assert!(fired <= before + 1, "periodic {n} went on after its cancel");
        }
        let ends = repeated.returned.load(Ordering::Relaxed) + u64::from(cancelled_at > 0);
        let accepted = repeated.key.get().is_some();
        assert_eq!(
            ends,
            u64::from(accepted),
            "periodic {n}: accepted, and ended so often"
        );
        assert!(
            !repeated
                .key
                .get()
                .is_some_and(|key| engine.is_pending(*key))
        );
    }
    let stats = engine.stats();
    assert_eq!((engine.pending(), stats.pending), (0, 0));
    assert_eq!(books.early.load(Ordering::Relaxed), 0, "fired early");
    assert_eq!(stats.fired, ends.fired + periods);
    assert_eq!(stats.panics, books.panics.load(Ordering::Relaxed));
    assert_eq!(stats.rejected, books.refusals.load(Ordering::Relaxed));
    assert_eq!(stats.returned, returned);
    // Of a cancelled periodic timer one period at most was pending.
    let periods_cancelled = stats.cancelled - ends.cancelled;
    assert!(periods_cancelled <= ended, "{periods_cancelled} of {ended}");
    assert_eq!(
        stats.scheduled,
        stats.fired + stats.cancelled + stats.returned
    );
    let Ends {
        fired,
        cancelled,
        returned,
        refused,
    } = ends;
    let moved = stats.shards.iter().map(|shard| shard.rescheduled).sum();
    Totals([
        fired,
        cancelled,
        returned,
        refused,
        periods,
        stats.panics,
        moved,
    ])
}
