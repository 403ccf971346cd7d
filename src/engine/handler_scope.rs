//! Which engines' handlers run on the calling thread.
//!
//! An engine must not be stopped or turned from there: it would wait for itself. The answer is asked for in handlers,
//! in destructors, and at a thread's very end, when thread-locals with a destructor are gone; so this one has none.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

thread_local! {
    static INSIDE: RefCell<Engines> =
        const { RefCell::new(Engines { outermost: NONE, others: ManuallyDrop::new(Vec::new()) }) };
}

/// No engine has this number.
const NONE: u64 = 0;

/// The engines inside of whose handlers a thread is.
struct Engines {
    outermost: u64,
    /// Those that were turned or stopped by hand in a handler of another one. Memory only while there are any.
    others: ManuallyDrop<Vec<u64>>,
}

impl Engines {
    fn enter(&mut self, engine: u64) {
        if self.outermost == NONE {
            self.outermost = engine;
        } else {
            self.others.push(engine);
        }
    }

    fn leave(&mut self) {
        if self.others.pop().is_none() {
            self.outermost = NONE;
        } else if self.others.is_empty() {
            drop(std::mem::take(&mut *self.others));
        }
    }
}

/// Whether a handler of the engine runs on this thread.
pub(super) fn is_inside(engine: u64) -> bool {
    let has = |engines: &RefCell<Engines>| {
        let engines = engines.borrow();
        engines.outermost == engine || engines.others.contains(&engine)
    };
    // Where the system's thread-locals all have destructors it may be gone: then no handler runs.
    INSIDE.try_with(has).unwrap_or(false)
}

/// Marks the calling thread as one that runs the engine's handlers, until dropped; the last one made goes first.
pub(super) struct HandlerScope;

impl HandlerScope {
    pub(super) fn enter(engine: u64) -> Self {
        let _ = INSIDE.try_with(|engines| engines.borrow_mut().enter(engine));
        Self
    }
}

impl Drop for HandlerScope {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|engines| engines.borrow_mut().leave());
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn engines_inside_each_other_are_left_in_turn() {
        let within = || [1, 2, 3, 4].map(is_inside);
        for _ in 0..2 {
            let outer = HandlerScope::enter(3);
            assert_eq!(within(), [false, false, true, false]);
            let (second, third) = (HandlerScope::enter(1), HandlerScope::enter(4));
            assert_eq!(within(), [true, false, true, true]);
            drop(third);
            assert_eq!(within(), [true, false, true, false]);
            // The same one once more.
            drop(HandlerScope::enter(3));
            assert!(is_inside(3));
            drop(second);
            assert_eq!(within(), [false, false, true, false]);
            drop(outer);
            assert_eq!(within(), [false; 4]);
        }
        assert_eq!(INSIDE.with_borrow(|engines| engines.others.capacity()), 0);
    }
}
