//! The engine that all of a process's libraries may share.

use super::builder::Builder;
use super::pinning::{self, Pinning};
use super::task::TimerTask;
use super::timer::Timer;
use crate::types::BuildError;
use std::sync::OnceLock;

static GLOBAL: OnceLock<Timer> = OnceLock::new();

/// Shards of the engine without settings: timers of libraries are no reason for a thread per core.
const MOST_SHARDS: usize = 4;

/// Returns the process's shared engine for closures, built by the first call.
///
/// For libraries that need a timeout now and then: one engine for all of them in place of one each. A program that
/// wants other settings calls [`Builder::build_global`] before; otherwise the engine has a shard per core, four at
/// most, and workers that are not pinned. Its workers start with the first timer, and have the cores of the process
/// ([`Pinning`]) whichever thread schedules that.
///
/// The engine lives as long as the process. `stop` ends it for the whole process, for good. Once it has started it
/// is [`Forked`](crate::EngineState::Forked) for good in a forked child, which needs an engine of its own.
///
/// ```
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (done, finished) = std::sync::mpsc::channel();
/// tickwheel::global()?.run_after(Duration::from_millis(1), move || done.send(()).unwrap())?;
/// finished.recv()?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Like [`Builder::build`], whose defaults are never out of range.
pub fn global() -> Result<&'static Timer, BuildError> {
    if let Some(timer) = GLOBAL.get() {
        return Ok(timer);
    }
    let shards = pinning::Cores::of_this_process()
        .default_shards()
        .min(MOST_SHARDS);
    let builder = Builder::new().shards(shards).pinning(Pinning::Off);
    // Built in the first call, which must not wait for the kernel.
    let builder = builder.without_membarrier();
    let timer = builder.thread_name("tick-global").build()?;
    // Of several first calls one wins; the losers drop an engine that has not started.
    Ok(GLOBAL.get_or_init(|| timer))
}

/// Returns whether the shared engine is there already.
#[cfg(feature = "futures")]
#[inline]
pub(crate) fn global_is_built() -> bool {
    GLOBAL.get().is_some()
}

impl Builder {
    /// Builds the process's shared engine, which [`global`] returns: for programs that want to choose
    /// its settings. To be called early, before a library asks.
    ///
    /// ```
    /// use tickwheel::{BuildError, Builder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().shards(1).thread_name("timeouts").build_global()?;
    /// assert!(std::ptr::eq(timer, tickwheel::global()?));
    /// assert_eq!(Builder::new().build_global().unwrap_err(), BuildError::GlobalExists);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError::GlobalExists`] if there is one already, and as [`build`](Self::build).
    pub fn build_global(self) -> Result<&'static Timer<TimerTask>, BuildError> {
        let timer = self.build()?;
        match GLOBAL.set(timer) {
            Ok(()) => global(),
            Err(_second) => Err(BuildError::GlobalExists),
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_of_the_shared_engine_does_not_wait_for_the_kernel() {
        let is_fenced = |timer: &Timer| timer.inner.handles[0].is_fenced();
        assert!(is_fenced(global().unwrap()));
        assert!(is_fenced(
            &Builder::new()
                .shards(1)
                .without_membarrier()
                .build()
                .unwrap()
        ));
        let by_default = Builder::new().shards(1).build().unwrap();
        assert_ne!(is_fenced(&by_default), crate::sync::fence::is_asymmetric());
    }
}
