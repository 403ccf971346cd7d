//! How often a timer was asked for something: one counter a thread, so that counting costs all variants the same.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Call {
    /// A timer of its own: a sleep, or a limit.
    Made,
    /// One that was there got another deadline.
    Reset,
    /// A request answered.
    Request,
}

const KINDS: usize = 3;
const THREADS: usize = 64;

#[repr(align(128))]
struct Counters([AtomicU64; KINDS]);

static ALL: [Counters; THREADS] =
    [const { Counters([const { AtomicU64::new(0) }; KINDS]) }; THREADS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // ORDERING: Relaxed: a number of its own for each thread, and nothing else.
    static OWN: &'static Counters = &ALL[NEXT.fetch_add(1, Ordering::Relaxed) % THREADS];
}

pub(super) fn count(call: Call) {
    // ORDERING: Relaxed: read when the load has ended.
    OWN.with(|own| own.0[call as usize].fetch_add(1, Ordering::Relaxed));
}

/// Calls of all threads.
pub(super) fn total(call: Call) -> u64 {
    // ORDERING: Relaxed: as above.
    ALL.iter().map(|counters| counters.0[call as usize].load(Ordering::Relaxed)).sum()
}
