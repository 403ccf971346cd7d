//! Which engines' handlers run on the calling thread.
//!
//! An engine must not be stopped or turned from there: it would wait for itself. The answer is asked for in handlers,
//! in destructors, and at a thread's very end, when thread-locals with a destructor are gone; so this one has none.

use std::cell::Cell;

/// Engines whose handlers may run inside of each other's on one thread: more are not noticed.
const DEPTH: usize = 8;

/// No engine has this number.
const NONE: u64 = 0;

thread_local! {
    static INSIDE: Cell<[u64; DEPTH]> = const { Cell::new([NONE; DEPTH]) };
}

/// Returns whether a handler of the engine runs on this thread.
pub(super) fn is_inside(engine: u64) -> bool {
    // Where the system's thread-locals all have destructors it may be gone: then no handler runs.
    INSIDE.try_with(|inside| inside.get().contains(&engine)).unwrap_or(false)
}

/// Writes `new` over the first place that holds `old`, from the outermost engine on.
fn replace(old: u64, new: u64) {
    let _ = INSIDE.try_with(|inside| {
        let mut engines = inside.get();
        if let Some(place) = engines.iter_mut().find(|engine| **engine == old) {
            *place = new;
            inside.set(engines);
        }
    });
}

/// Marks the calling thread as one that runs the engine's handlers, until dropped.
pub(super) struct HandlerScope(u64);

impl HandlerScope {
    pub(super) fn enter(engine: u64) -> Self {
        replace(NONE, engine);
        Self(engine)
    }
}

impl Drop for HandlerScope {
    fn drop(&mut self) {
        replace(self.0, NONE);
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
    }
}
