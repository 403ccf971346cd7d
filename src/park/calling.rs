//! A thread's wake calls, one at a time: a waker may be the user's, and may send messages to the same owner.

use super::wake_state::Call;
use crate::sync::atomic::{AtomicU64, Ordering};

/// No call; sleeps are counted from one.
const NONE: u64 = 0;

/// The sleep that a thread is about to end, if it is within a wake call. Only that thread reads and writes it.
#[derive(Debug, Default)]
pub(crate) struct Calling(AtomicU64);

impl Calling {
    /// Makes the call by `wake`, which does not unwind. Within a call it only notes the sleep.
    ///
    /// The call under way covers the message that asked for this one, because it ends the same sleep: the owner looks
    /// at the inbox before it sleeps again. Where the owner has announced another sleep meanwhile, the outer call
    /// repeats itself for that one, when `wake` has returned.
    pub(crate) fn once(&self, call: Call, mut wake: impl FnMut(Call)) {
        // ORDERING: Relaxed, here and below: this thread's own word.
        let is_within = self.0.load(Ordering::Relaxed) != NONE;
        self.0.store(call.0, Ordering::Relaxed);
        if is_within {
            return;
        }
        let mut number = call.0;
        loop {
            wake(Call(number));
            // ORDERING: Relaxed, both: as above.
            let last = self.0.load(Ordering::Relaxed);
            if last == number {
                break;
            }
            number = last;
        }
        self.0.store(NONE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_call_within_a_call_is_made_afterwards_if_it_is_for_another_sleep() {
        let (calling, calls) = (Calling::default(), RefCell::new(Vec::new()));
        let within = |numbers: &'static [u64]| {
            let next = RefCell::new(numbers.iter());
            calling.once(Call(1), |call| {
                calls.borrow_mut().push(call.0);
                let number = next.borrow_mut().next();
                number.inspect(|number| calling.once(Call(**number), |_| panic!("within a call")));
            });
            calls.take()
        };
        assert_eq!(within(&[]), [1]);
        assert_eq!(within(&[1]), [1], "covered");
        assert_eq!(within(&[2]), [1, 2]);
        assert_eq!(within(&[2, 3, 3]), [1, 2, 3]);
    }
}
