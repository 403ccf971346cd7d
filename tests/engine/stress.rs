//! The whole engine under random load on real threads, judged by exact books.
//!
//! Each round draws an engine (shards, wheel, tick, idle strategy, routing, limit) and a few producers from
//! its seed. They schedule, cancel and move each other's timers, keep, drop and detach handles, begin and end
//! periodic timers; handlers schedule, cancel, move, dawdle and panic; and at a random moment one or two
//! threads stop the engine. Then every timer that was begun must have ended exactly once, none early, the
//! engine's counters must agree with the books, and every payload must have been dropped exactly once.
//!
//! A round's seed fixes what is attempted, not how the threads interleave. `TICKWHEEL_STRESS=N` runs N times
//! as long (about 4 s for 1), `TICKWHEEL_SEED=S` begins with seed S.
//!
//! | room | what is inside |
//! |---|---|
//! | `books` | what the test knows about each timer, apart from the engine; the handler |
//! | `periodics` | periodic timers against `stop` |
//! | `producer` | a thread that uses the engine |

mod books;
mod periodics;
mod producer;

use self::books::{Books, CANCELLED, Engine, FIRED, REFUSED, RETURNED, WANTED};
use self::producer::{STEPS, produce};
use crate::common::{Random, reflexive, secs, stress, us};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Instant;
use tickwheel::{Builder, IdleStrategy, Pinning, Routing, WheelKind};

fn any_engine(random: &mut Random, books: &Arc<Books>) -> Engine {
    let wheel = match random.below(3) {
        0 => WheelKind::Hashed { buckets: 8 },
        1 => WheelKind::Hashed { buckets: 512 },
        _ => WheelKind::Hierarchical,
    };
    let idle = match random.below(3) {
        0 => IdleStrategy::SpinThenPark { spin: us(20) },
        _ => IdleStrategy::Park,
    };
    let routing = if random.chance(50) { Routing::Home } else { Routing::Spread };
    let mut builder = Builder::new()
        .shards(1 + random.below(3) as usize)
        .pinning(Pinning::Off)
        .tick(us(1 + random.below(200)))
        .wheel(wheel)
        .idle(idle)
        .routing(routing);
    if random.chance(25) {
        builder = builder.max_pending(200);
    }
    let books = Arc::clone(books);
    reflexive(builder, move |engine, expired| books.fire(engine, expired))
}

/// One round; everything about it follows from the seed, except the interleaving.
fn round(seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let producers = 1 + random.below(4);
    let books = Arc::new(Books::new(producers * STEPS));
    let engine = any_engine(&mut random, &books);
    let stoppers = 1 + random.below(2);
    // Often in the midst of it, at times after all is done.
    let stop_after = us(random.below(30_000));
    let gate = Barrier::new((producers + stoppers) as usize);
    let returned = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for producer in 0..producers {
            let random = Random::new(seed ^ (producer + 1) << 32);
            let (books, engine, gate) = (&books, &engine, &gate);
            scope.spawn(move || {
                gate.wait();
                produce(books, engine, producer * STEPS, random);
            });
        }
        for _ in 0..stoppers {
            scope.spawn(|| {
                gate.wait();
                std::thread::sleep(stop_after);
                let count = books.returned(engine.stop().expect("not inside a handler"));
                returned.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    let tally = judge(seed, &books, &engine, returned.into_inner());
    drop(engine);
    assert_eq!(
        books.alive.load(Ordering::SeqCst),
        0,
        "seed {seed}: payloads leaked or dropped twice"
    );
    tally
}

/// What has happened in some rounds: every kind of end, or the test proves little.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    fired: u64,
    cancelled: u64,
    returned: u64,
    refused: u64,
    periods: u64,
    panics: u64,
    moved: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.fired += other.fired;
        self.cancelled += other.cancelled;
        self.returned += other.returned;
        self.refused += other.refused;
        self.periods += other.periods;
        self.panics += other.panics;
        self.moved += other.moved;
    }

    fn is_complete(&self) -> bool {
        let Self { fired, cancelled, returned, refused, periods, panics, moved } = *self;
        [fired, cancelled, returned, refused, periods, panics, moved].iter().all(|n| *n > 0)
    }
}

/// The engine has stopped and every thread has ended: all accounts must be settled.
fn judge(seed: u64, books: &Books, engine: &Engine, returned: u64) -> Tally {
    let (mut fired, mut cancelled) = (0, 0);
    for (id, record) in books.records.iter().enumerate() {
        let begun = record.begun.load(Ordering::Relaxed);
        match (begun, record.ends.load(Ordering::Relaxed)) {
            (0, 0) | (1, RETURNED | REFUSED) => {}
            (1, FIRED) => fired += 1,
            (1, CANCELLED) => cancelled += 1,
            (1, 0) => panic!("seed {seed}: timer {id} was lost"),
            (_, ends) => panic!("seed {seed}: timer {id}: begun {begun}, ends {ends:#010x}"),
        }
        assert!(!record.key.get().is_some_and(|key| engine.is_pending(*key)), "seed {seed}");
    }
    let (mut periods, mut ended) = (0, 0);
    for (n, repeated) in books.repeated.iter().enumerate() {
        let fired = repeated.fired.load(Ordering::SeqCst);
        periods += fired;
        if let Some(before) = repeated.cancelled_at.load(Ordering::SeqCst).checked_sub(1) {
            ended += 1;
            // A handler call may have begun, and not been counted yet, when the cancel returned.
            assert!(fired <= before + 1, "seed {seed}: periodic {n} went on after its cancel");
        }
        let ends = repeated.returned.load(Ordering::Relaxed)
            + u64::from(repeated.cancelled_at.load(Ordering::SeqCst) > 0);
        let accepted = repeated.key.get().is_some();
        assert_eq!(
            ends,
            u64::from(accepted),
            "seed {seed}: periodic {n}: accepted, and ended so often"
        );
        assert!(!repeated.key.get().is_some_and(|key| engine.is_pending(*key)), "seed {seed}");
    }
    let stats = engine.stats();
    assert_eq!(engine.pending(), 0, "seed {seed}");
    assert_eq!(books.early.load(Ordering::Relaxed), 0, "seed {seed}: fired early");
    assert_eq!(stats.fired(), fired + periods, "seed {seed}");
    assert_eq!(stats.panics(), books.panics.load(Ordering::Relaxed), "seed {seed}");
    assert_eq!(stats.rejected, books.refusals.load(Ordering::Relaxed), "seed {seed}");
    assert_eq!(stats.returned(), returned, "seed {seed}");
    // Of a cancelled periodic timer one period at most was pending.
    let periods_cancelled = stats.cancelled() - cancelled;
    assert!(periods_cancelled <= ended, "seed {seed}: {periods_cancelled} of {ended}");
    let sum = stats.fired() + stats.cancelled() + stats.returned();
    assert_eq!(stats.scheduled(), sum, "seed {seed}");
    let (refused, panics) = (stats.rejected, stats.panics());
    let moved = stats.shards.iter().map(|shard| shard.rescheduled).sum();
    Tally { fired, cancelled, returned, refused, periods, panics, moved }
}

/// The panics that the test wants are not worth a line each.
fn hush_wanted_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&WANTED) {
            usual(info);
        }
    }));
}

#[test]
fn random_engines_under_random_load_settle_every_account() {
    hush_wanted_panics();
    let first = std::env::var("TICKWHEEL_SEED").ok().and_then(|text| text.parse().ok());
    let first = first.unwrap_or(1_u64);
    let (start, length) = (Instant::now(), secs(stress(4)));
    let mut rounds = 0;
    let mut tally = Tally::default();
    while rounds < 10 || start.elapsed() < length {
        let seed = first + rounds;
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(round(seed)).expect("somebody waits");
        });
        match receiver.recv_timeout(secs(120)) {
            Ok(round) => {
                tally.add(round);
                thread.join().expect("it has ended well");
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("the round with seed {seed} failed")
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the round with seed {seed} hangs"),
        }
        rounds += 1;
    }
    println!("{rounds} rounds, seeds {first} to {}: {tally:?}", first + rounds - 1);
    assert!(tally.is_complete(), "some kind of end hardly happened: {tally:?}");
}
