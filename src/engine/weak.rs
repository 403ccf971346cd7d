//! `WeakTimer`: a way to an engine that does not keep it.

use super::hold::TimerRef;
use super::inner::EngineOwner;
use super::task::TimerTask;
use super::timer::Timer;
use std::sync::Weak;

/// A way to an engine that does not keep it alive: neither its workers nor its memory.
///
/// For payloads and closures that use the engine which runs them: a [`Timer`] in there would keep the engine alive
/// for as long as its timer is pending. A handler need not keep anything: see
/// [`Builder::build_per_shard`](crate::Builder::build_per_shard).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let weak = timer.downgrade();
/// timer.run_after(Duration::from_secs(60), move || {
///     if let Some(timer) = weak.upgrade() {
///         let _again = timer.run_after(Duration::from_secs(60), || println!("two minutes"));
///     }
/// })?;
/// let weak = timer.downgrade();
/// drop(timer);
/// assert!(weak.upgrade().is_none());
/// # Ok(()) }
/// ```
pub struct WeakTimer<T = TimerTask> {
    hold: Weak<EngineOwner<T>>,
}

impl<T> Timer<T> {
    /// Returns a way to this engine that does not keep it alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakTimer<T> {
        WeakTimer {
            hold: Weak::clone(&self.inner.hold),
        }
    }
}

impl<T> WeakTimer<T> {
    /// Returns the engine, unless its last [`Timer`] is gone. It may be stopped; then it refuses what is scheduled.
    #[must_use]
    pub fn upgrade(&self) -> Option<Timer<T>> {
        TimerRef::upgrade(&self.hold).map(|inner| Timer { inner })
    }
}

impl<T> Clone for WeakTimer<T> {
    fn clone(&self) -> Self {
        Self {
            hold: Weak::clone(&self.hold),
        }
    }
}

debug_fields!([T] WeakTimer<T>, "WeakTimer", _it);

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T> core::panic::UnwindSafe for WeakTimer<T> {}
impl<T> core::panic::RefUnwindSafe for WeakTimer<T> {}
