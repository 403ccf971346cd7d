//! What a timer of one thread has to offer.

use std::time::Duration;

/// A timer of one thread, on a clock that [`advance`](Self::advance) moves.
pub trait LocalPeer: Sized {
    /// What names one timer.
    type Handle;

    /// A timer that will hold at most `capacity` timers at once.
    fn new(capacity: usize) -> Self;

    /// Schedules `delay` from now.
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle;

    /// Schedules without any wish to cancel.
    #[inline]
    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    /// Cancels a timer that has not fired; its payload, 0 where the peer keeps none.
    fn cancel(&mut self, handle: Self::Handle) -> u64;

    /// Moves a timer to `delay` from now.
    fn rearm(&mut self, handle: Self::Handle, delay: Duration) -> Self::Handle;

    /// Moves the clock and fires what is due then; how many.
    fn advance(&mut self, by: Duration) -> usize;
}
