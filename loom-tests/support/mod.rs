//! Loom's side of `src/sync`, compiled into the library under `--cfg tickwheel_loom` only; the core has `watched` and
//! `weakened`, because its clocks are explored as well.
//!
//! `watched` has loom's atomics with a gap in its search closed, `weakened` gives one operation another ordering to see
//! whether a model notices, `stand_in` replaces the epoch, `futex` the kernel's, `rw_lock` a lock of std's, `slot` the
//! numbers of threads.

#[cfg(all(not(crossbeam_loom), not(tickwheel_epoch_stand_in)))]
compile_error!(
    "set RUSTFLAGS=\"--cfg tickwheel_loom --cfg crossbeam_loom\": with `tickwheel_loom` alone \
     crossbeam-epoch keeps std atomics, and loom would not see them"
);

#[cfg(target_os = "linux")]
pub(crate) mod futex;
pub(crate) mod rw_lock;
pub(crate) mod slot;
#[cfg(tickwheel_epoch_stand_in)]
pub(crate) mod stand_in;
pub(crate) use tickwheel_core::sync::watched;
#[cfg(test)]
pub(crate) use tickwheel_core::sync::weakened;

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::lazy_static;

/// Forgets the last execution; to be called when the next one begins.
pub(crate) fn begin_execution() {
    watched::begin_execution();
    #[cfg(target_os = "linux")]
    futex::begin_execution();
}

/// Memory that loom must see freed exactly once in each execution.
#[derive(Debug)]
pub(crate) struct Tracked(
    #[expect(dead_code, reason = "held for its drop")] loom::alloc::Track<()>,
);

impl Tracked {
    pub(crate) fn new() -> Self {
        Self(loom::alloc::Track::new(()))
    }
}

/// Whether `loom-tests/checks.sh` wants this check dropped, which asks in a copy of the tree.
#[allow(dead_code, reason = "called from checks that the script rewrites")]
pub(crate) fn is_dropped(check: u32) -> bool {
    static DROPPED: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let asked = || std::env::var("TICKWHEEL_DROPPED").ok()?.parse().ok();
    *DROPPED.get_or_init(asked) == Some(check)
}
