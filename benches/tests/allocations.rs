//! Counts the allocations of a steady state, by the allocator itself and over all threads.
//!
//! One test, since the count is the whole process's. The exact numbers:
//! `cargo test --release -p tickwheel-benches --test allocations -- --nocapture`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tickwheel_benches::book::Book;
use tickwheel_benches::cross::{ClosuresPeer, CrossPeer, EnginePeer, HandlesPeer, InFlight, Setup};
use tickwheel_benches::local::{Churn, EventLoopPeer, LONG, LocalPeer, LocalTimerPeer, SHORT};

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: both methods hand their arguments on to the system's allocator and return its answer unchanged, so
// the system's guarantees are this allocator's; counting neither allocates nor unwinds. The other methods are made of
// these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // ORDERING: Relaxed, here and below: a statistic, read when the threads that count are joined or idle.
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout, since all allocation goes there.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Optimised or not, the steady state is the same; only the patience differs.
const PAIRS: usize = if cfg!(debug_assertions) {
    200_000
} else {
    2_000_000
};
const RESIDENTS: usize = 20_000;

/// Returns the allocations and reallocations per million pairs while `work` makes its pairs.
fn counted(what: &str, work: impl FnOnce()) -> f64 {
    let before = CALLS.load(Ordering::Relaxed);
    work();
    let calls = CALLS.load(Ordering::Relaxed) - before;
    let per_million = calls as f64 * 1e6 / PAIRS as f64;
    println!("{what}: {calls} allocations in {PAIRS} pairs = {per_million:.1} per million");
    per_million
}

fn churn<P: LocalPeer>(what: &str, per_tick: Option<usize>) -> f64 {
    let delays = if per_tick.is_some() { SHORT } else { LONG };
    let mut churn = Churn::<P>::new(RESIDENTS, delays, per_tick);
    // The owner's log has blocks for the most entries that it has ever held: the peak comes late.
    churn.run(4 * PAIRS);
    let count = counted(&format!("{what}, schedule + cancel"), || {
        _ = churn.run(PAIRS)
    });
    churn.end();
    count
}

fn engine<P: CrossPeer>(what: &str, in_flight: usize) -> f64 {
    let peer = P::start(Setup::new(Book::new(0, 0)));
    let mut timers = InFlight::new(peer.session(0), in_flight);
    timers.run(PAIRS);
    // The worker has caught up and sleeps.
    std::thread::sleep(Duration::from_millis(100));
    let what = format!("Timer, {what} + cancel, {in_flight} in flight");
    counted(&what, || timers.run(PAIRS))
}

/// Many timers that fire, so that the worker's side is seen too.
fn engine_firing() -> f64 {
    let setup = Setup::new(Book::new(2 * PAIRS, 0));
    let peer = EnginePeer::start(setup);
    let round = |payloads: std::ops::Range<usize>, settled: usize| {
        for piece in payloads.step_by(1000) {
            for n in 0..1000 {
                peer.launch(Duration::from_millis(1), (piece + n) as u64);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        std::thread::sleep(Duration::from_millis(20));
        let _ = setup.book.wait_for(settled, Duration::from_secs(1));
    };
    round(0..PAIRS, 0);
    counted("Timer, schedule + fire", || round(PAIRS..2 * PAIRS, 1))
}

#[test]
fn a_steady_state_does_not_allocate() {
    let ticking = Some(RESIDENTS / 1000);
    let nothing = [
        churn::<LocalTimerPeer>("LocalTimer", None),
        churn::<LocalTimerPeer>("LocalTimer on a moving clock", ticking),
        churn::<EventLoopPeer>("EventLoopTimer", None),
        churn::<EventLoopPeer>("EventLoopTimer on a moving clock", ticking),
    ];
    assert!(nothing.iter().all(|calls| *calls == 0.0), "{nothing:?}");

    // Timers reach their shard through an inbox of blocks, and epochs are collected in bags: amortised, that
    // is a small fraction of an allocation per pair.
    let amortised = [
        engine::<EnginePeer>("schedule", 1024),
        engine::<EnginePeer>("schedule", 100_000),
        engine::<HandlesPeer>("schedule (owned handle)", 1024),
        engine::<ClosuresPeer>("schedule (closure of two words)", 1024),
        engine_firing(),
    ];
    assert!(
        amortised.iter().all(|calls| *calls < AMORTISED),
        "{amortised:?}"
    );
}

/// Allocations per million pairs: a block per 512 messages is 1953, the rest is for the epochs' bags.
const AMORTISED: f64 = 2_500.0;
