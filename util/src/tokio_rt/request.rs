//! [`TurnRequest`]: asks for a turn before the alarm's time.

use std::sync::atomic::{AtomicBool, Ordering};

/// A request that a turn sees although it sets the alarm meanwhile.
///
/// Two words: this one, and the alarm's time in the kernel. The requester writes this one first and the time last; the
/// turn writes the time first and reads this one last. Whichever time stays, either it is the requester's, or the turn
/// has seen the request.
#[derive(Default)]
pub(super) struct TurnRequest {
    requested: AtomicBool,
}

impl TurnRequest {
    /// Makes a request; `set_off` has the alarm go off at once.
    pub(super) fn make<R>(&self, set_off: impl FnOnce() -> R) -> R {
        // ORDERING: SeqCst, before the alarm is set off: a turn that sets it later finds this.
        self.requested.store(true, Ordering::SeqCst);
        set_off()
    }

    /// Takes the request, if there is one. To be asked after the alarm is set.
    pub(super) fn take(&self) -> bool {
        // ORDERING: SeqCst: after the alarm was set, which a request before may have set as well.
        self.requested.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// All orders of the steps of a request and of a turn's end: each of the turn's steps comes before the request, where
    /// the request sets the alarm off, before or after that, or after the request.
    #[test]
    fn a_request_beside_the_end_of_a_turn_is_never_lost() {
        const AT_ONCE: u8 = 0;
        const LATER: u8 = 1;
        let mut orders = 0;
        for set in 0..4 {
            for look in set..4 {
                let (request, alarm) = (TurnRequest::default(), Cell::new(LATER));
                let seen = Cell::new(false);
                let step = |place| {
                    if set == place {
                        alarm.set(LATER);
                    }
                    if look == place {
                        seen.set(request.take());
                    }
                };
                step(0);
                request.make(|| {
                    step(1);
                    alarm.set(AT_ONCE);
                    step(2);
                });
                step(3);
                assert!(
                    alarm.get() == AT_ONCE || seen.get(),
                    "set at {set}, looked at {look}"
                );
                orders += 1;
            }
        }
        assert_eq!(orders, 10);
    }

    #[test]
    fn a_request_is_taken_once() {
        let request = TurnRequest::default();
        assert!(!request.take());
        request.make(|| ());
        assert!(request.take() && !request.take());
    }
}
