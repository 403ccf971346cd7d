//! The test clock of a thread: `test` sets it, and all that tells or uses the time asks for it.

use std::cell::RefCell;
use std::time::{Duration, Instant};
use tickwheel::__internal::replace_shared;
use tickwheel::{ManualClock, Time, Timer};

thread_local! {
    /// The test clock of this thread, and the instant at which it began.
    static CLOCK: RefCell<Option<(ManualClock, Instant)>> = const { RefCell::new(None) };
}

/// Gives the calling thread a test clock, which begins now.
pub(crate) fn set(clock: ManualClock) {
    CLOCK.set(Some((clock, Instant::now())));
}

/// Takes the calling thread's test clock away.
pub(crate) fn remove() {
    // A thread that ends has no thread-locals any more.
    let _ = CLOCK.try_with(RefCell::take);
}

/// Returns the test clock of the calling thread, if it has one, and the instant at which it began.
fn clock() -> Option<(ManualClock, Instant)> {
    CLOCK
        .try_with(|clock| clock.borrow().clone())
        .ok()
        .flatten()
}

/// Returns the instant at which the calling thread's test clock began, if it has one: [`Time::ZERO`] on that clock.
pub(crate) fn start() -> Option<Instant> {
    clock().map(|(_, start)| start)
}

/// Returns when the calling thread's test clock began, if it has one, and its present.
pub(crate) fn present() -> Option<(Instant, Time)> {
    clock().map(|(clock, start)| (start, clock.now()))
}

/// Returns the engine of the calling thread's test clock.
pub(crate) fn engine() -> Option<Timer> {
    let timer = replace_shared(None);
    replace_shared(timer.clone());
    timer
}

/// Moves the calling thread's test clock and fires what is due then; false if it has none.
pub(crate) fn advance(duration: Duration) -> bool {
    let Some((clock, _)) = clock() else {
        return false;
    };
    clock.advance(duration);
    if let Some(timer) = engine() {
        // Inside of a turn it is refused; what is due then fires in the next one.
        let _ = timer.turn();
    }
    true
}
