//! Loom's side of `src/sync`, compiled into the library under `--cfg tickwheel_loom` only.
//!
//! `watched` has loom's atomics with a gap in its search closed, `weakened` gives one operation another ordering to see
//! whether a model notices.

pub(crate) mod watched;
pub(crate) mod weakened;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::Mutex;

/// Memory that loom must see freed exactly once in each execution.
pub(crate) struct Tracked(
    #[expect(dead_code, reason = "held for its drop")] loom::alloc::Track<()>,
);

impl Tracked {
    pub(crate) fn new() -> Self {
        Self(loom::alloc::Track::new(()))
    }
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tracked")
    }
}
